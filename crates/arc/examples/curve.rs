//! What an access costs the miss-ratio curve, by the number of records that are in use: the
//! shortest of many runs, less what the making of keys takes.
//!
//! `cargo run --release -p warmfront-arc --example curve`

use std::hint::black_box;
use std::time::Instant;

use arc::{Curve, Load};

const RECORD_BYTES: u64 = 128 << 10;
/// Accesses of a run.
const ACCESSES: u64 = 100_000;
/// Runs of which the shortest counts.
const RUNS: usize = 60;

/// A mixing of all bits (the finalizer of splitmix64).
fn hash(key: u64) -> u64 {
    let hash = (key ^ (key >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}

/// Nanoseconds that `access` takes for each of some random keys.
fn nanoseconds(state: &mut u64, keys: u64, mut access: impl FnMut(u64)) -> f64 {
    let started = Instant::now();
    for _ in 0..ACCESSES {
        // Marsaglia's xorshift.
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        access(1 + *state % keys);
    }
    started.elapsed().as_nanos() as f64 / ACCESSES as f64
}

fn main() {
    println!("{:>9}  {:>9}  {:>12}  {:>14}", "records", "sampled", "ns an access", "ns if sampled");
    for keys in [64, 512, 2048, 8192, 100_000, 4_000_000] {
        let curve = Curve::default();
        let load = Load { accesses: 1, hits: 1, ahead: 0, horizon_bytes: 1 << 44, may_grow: true };
        let mut state = 0x9E37_79B9_7F4A_7C15;
        let mut access = |key| {
            let hash = hash(key);
            if curve.is_sampled(hash) {
                black_box(curve.access(hash, RECORD_BYTES, || load));
            }
        };
        // Until the rate has settled.
        for _ in 0..(4 * keys / ACCESSES).max(30) {
            nanoseconds(&mut state, keys, &mut access);
        }
        let (mut with, mut without) = (f64::MAX, f64::MAX);
        for _ in 0..RUNS {
            with = with.min(nanoseconds(&mut state, keys, &mut access));
            without = without.min(nanoseconds(&mut state, keys, |key| {
                black_box(key);
            }));
        }
        let mut sampled = 0;
        let mut access = |key| sampled += u64::from(curve.is_sampled(hash(key)));
        nanoseconds(&mut state, keys, &mut access);
        let (share, cost) = (sampled as f64 / ACCESSES as f64, with - without);
        println!("{keys:>9}  {share:>9.3}  {cost:>12.1}  {:>14.0}", cost / share.max(1e-9));
    }
}
