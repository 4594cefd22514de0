//! The engine over origins in memory, without a mount.

mod coherence;
mod common;
mod curve;
mod flash;
#[path = "../fixtures/flash_device.rs"]
mod flash_device;
mod logging;
mod naming;
mod openzfs_cases;
mod policies;
mod priming;
mod promotion;
mod reading;
mod shares;
mod slow_cache;
mod warmth;
mod writing;
