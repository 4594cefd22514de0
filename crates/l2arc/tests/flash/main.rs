//! The flash level as its users see it, on devices that crash, fail and lie.

mod common;
mod crashes;
mod damage;
mod devices;
mod faults;
mod keeping;
mod openzfs_cases;
mod order;
mod reserves;
