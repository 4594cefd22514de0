//! A pool that writes back, with an intent log and flash, over devices and an origin that crash.
//!
//! Random changes go through the pool on a virtual clock until the machine or the process stops in
//! the middle of anything. What is left is repaired by a replay, which may be stopped itself, and
//! compared with a model: everything that was promised is there, nothing comes back that was
//! overwritten or removed, and flash agrees with the origin.

#[path = "../fixtures/flash_device.rs"]
mod flash_device;
#[path = "../fixtures/log_device.rs"]
mod log_device;
mod machine;
mod model;
#[path = "../fixtures/world.rs"]
mod world;
mod writer;

use machine::{Machine, Settings};
use storage::{Campaign, Random};

/// How often the machine stops in a history.
const LIVES: u64 = 3;

/// What happened in some histories.
#[derive(Debug, Default)]
struct Outcome {
    crashes: u64,
    kills: u64,
    changes: u64,
    syncs: u64,
    txgs: u64,
    records: u64,
    flash_hits: u64,
    stopped: u64,
}

fn history(seed: u64, outcome: &mut Outcome) {
    let mut random = Random::new(seed);
    let settings = Settings::draw(&mut random);
    let mut machine = Machine::new(settings, &mut random);
    for _ in 0..LIVES {
        machine.live(outcome);
    }
}

#[test]
fn what_was_promised_is_there_after_any_crash() {
    let mut all = Outcome::default();
    let campaign = Campaign::new(1000);
    campaign.run(|seed| history(seed, &mut all));
    println!("{} seeds: {all:?}", campaign.count());
    let Outcome { crashes, kills, changes, syncs, txgs, records, flash_hits, stopped } = all;
    let rare = [40 * flash_hits, 3 * stopped];
    let least = [crashes, 3 * kills, changes / 10, syncs, txgs, records].into_iter().chain(rare);
    assert!(least.min() >= Some(campaign.count()), "too little happened");
}
