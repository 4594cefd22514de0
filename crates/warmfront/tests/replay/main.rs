//! Replaying an intent log onto an origin that a crash has left anywhere between nothing and more
//! than what the log tells.

mod cases;
mod crashes;
mod world;
mod writer;
