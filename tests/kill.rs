//! Programs lose nothing that they were told is safe when the daemon is killed at any moment.
//!
//! Each test works on a mount with a log device, kills the daemon with `kill -9` in the middle,
//! mounts again, which replays the log, compares, and goes on from there. `WARMFRONT_KILLS` says
//! how often; with `WARMFRONT_SOAK` the moments differ from run to run.

#[path = "kill/git.rs"]
mod git;
#[path = "kill/mapped.rs"]
mod mapped;
#[path = "kill/postgres.rs"]
mod postgres;
#[path = "kill/sqlite.rs"]
mod sqlite;
#[path = "kill/storm.rs"]
mod storm;
#[path = "kill/stuck.rs"]
mod stuck;
#[path = "kill/victim.rs"]
mod victim;
