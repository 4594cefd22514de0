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

use std::time::Duration;

use machine::{Machine, Settings};
use storage::{Campaign, Random};

/// How often the machine stops in a history.
const LIVES: u64 = 3;

/// So many histories have some of all that can happen.
const SEEDS_LEAST: u64 = 500;

/// What happened in some histories.
#[derive(Debug, Default)]
struct Outcome {
    crashes: u64,
    kills: u64,
    changes: u64,
    syncs: u64,
    txgs: u64,
    refused_txgs: u64,
    records: u64,
    flash_hits: u64,
    stopped: u64,
    lost_logs: u64,
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
    let Outcome { crashes, kills, changes, syncs, txgs, records, .. } = all;
    let Outcome { refused_txgs, flash_hits, stopped, lost_logs, .. } = all;
    let rare = [100 * flash_hits, 3 * stopped, 15 * lost_logs, 3 * refused_txgs];
    let least = [crashes, 3 * kills, changes / 10, syncs, txgs, records].into_iter().chain(rare);
    // A few histories need not have everything.
    let is_enough = least.min() >= Some(campaign.count());
    assert!(is_enough || campaign.count() < SEEDS_LEAST, "too little happened");
}

/// In how many of some histories a directory was kept.
fn kept(keeps: impl Fn(&mut Machine) -> bool) -> usize {
    let keeps = |seed: &u64| {
        let mut random = Random::new(*seed);
        keeps(&mut Machine::new(Settings::with_log(), &mut random))
    };
    (0..50).filter(keeps).count()
}

/// Names that nobody makes last do so with their transaction group, also when nothing is written.
#[test]
fn names_last_after_some_seconds() {
    assert_eq!(kept(|machine| machine.keeps_a_name_after(Duration::from_secs(6))), 50);
    let at_once = kept(|machine| machine.keeps_a_name_after(Duration::ZERO));
    assert!(at_once < 50, "no crash took anything, so nothing was tested");
}

/// Before a log that has failed is given up, all that it was trusted with lasts at the origin.
#[test]
fn a_log_that_is_given_up_has_kept_nothing_alone() {
    assert_eq!(kept(Machine::keeps_a_name_when_the_log_fails), 50);
}
