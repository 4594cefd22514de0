//! The intent log as its users see it, on devices that crash, fail and lie.

mod common;
mod crashes;
mod damage;
mod faults;
mod grouping;
mod opening;
mod space;
