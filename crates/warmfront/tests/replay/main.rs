//! Replaying an intent log onto an origin that a crash has left anywhere between nothing and more
//! than what the log tells.

mod cases;
mod crashes;
#[path = "../fixtures/log_device.rs"]
mod log_device;
#[path = "../fixtures/world.rs"]
mod world;
mod writer;
