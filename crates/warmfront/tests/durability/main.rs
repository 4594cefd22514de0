//! A pool that writes back, with an intent log and flash, over devices and an origin that crash.
//!
//! Random changes go through the pool on a virtual clock until the machine or the process stops in
//! the middle of anything. What is left is repaired by a replay, which may be stopped itself, and
//! compared with a model: everything that was promised is there, nothing comes back that was
//! overwritten or removed, and flash agrees with the origin.

mod machine;
mod model;
#[path = "../replay/world.rs"]
mod world;
mod writer;

use std::ops::Range;

use machine::{Machine, Settings};
use storage::Random;

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

/// Seeds of a run; `WARMFRONT_SEEDS=FIRST..END` runs others.
fn seeds(default: Range<u64>) -> Range<u64> {
    let chosen = std::env::var("WARMFRONT_SEEDS").ok();
    let chosen = chosen.and_then(|text| {
        let (first, end) = text.split_once("..")?;
        Some(first.parse().ok()?..end.parse().ok()?)
    });
    chosen.unwrap_or(default)
}

#[test]
fn what_was_promised_is_there_after_any_crash() {
    let mut all = Outcome::default();
    let seeds = seeds(0..1000);
    for seed in seeds.clone() {
        let run = std::panic::AssertUnwindSafe(|| history(seed, &mut all));
        let outcome = std::panic::catch_unwind(run);
        assert!(outcome.is_ok(), "seed {seed} fails; see above");
    }
    println!("{} seeds: {all:?}", seeds.end - seeds.start);
    let Outcome { crashes, kills, changes, syncs, txgs, records, flash_hits, stopped } = all;
    let rare = [40 * flash_hits, 3 * stopped];
    let least = [crashes, 3 * kills, changes / 10, syncs, txgs, records].into_iter().chain(rare);
    assert!(least.min() >= Some(seeds.end - seeds.start), "too little happened");
}
