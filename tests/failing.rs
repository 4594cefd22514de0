//! Parts fail under load: the log device, cache devices, the origin. Nobody is told that something
//! is safe which is not, what is cached stays readable, and nothing is lost when the part is back.

#[path = "failing/cache.rs"]
mod cache;
#[path = "failing/journal.rs"]
mod journal;
#[path = "failing/log.rs"]
mod log;
#[path = "failing/origin.rs"]
mod origin;
#[path = "failing/silent_log.rs"]
mod silent_log;
