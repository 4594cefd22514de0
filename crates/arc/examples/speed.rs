//! Prints what a hit and a miss cost on this machine: `cargo run --release --example speed`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc::{Cache, Charge, Class, Kind, Options};

type Key = (u32, u64, u64, u64);

const RECORD_BYTES: u64 = 4096;

fn key(number: u64) -> Key {
    (1, number >> 10, 1, number & 1023)
}

/// Nanoseconds per call, over `threads` threads that each call `work` `calls` times.
fn measure(threads: u64, calls: u64, work: impl Fn(u64) + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || {
                let mut seed = 0x853C_49E6_748F_EA9B ^ (thread << 20);
                for _ in 0..calls {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    work(seed >> 20);
                }
            });
        }
    });
    start.elapsed().as_nanos() as f64 / calls as f64
}

fn main() {
    let charge = Charge { bytes: RECORD_BYTES, class: Class::Data, kind: Kind::Demand, tenant: 0 };
    for records in [10_000, 1_000_000] {
        let capacity = records * (RECORD_BYTES + 200);
        let cache: Cache<Key, Arc<[u8]>> = Cache::new(&Options::new(capacity));
        let value: Arc<[u8]> = vec![0; 16].into();
        for number in 0..records {
            // A failed insertion shows in the hit ratio.
            let _ = cache.insert(key(number), Arc::clone(&value), charge, Duration::ZERO);
        }
        let now = Duration::from_secs(1);
        for threads in [1, 2] {
            let hit = measure(threads, 5_000_000, |random| {
                black_box(cache.get(&key(random % records), now));
            });
            let one = measure(threads, 5_000_000, |_| {
                black_box(cache.get(&key(7), now));
            });
            let miss = measure(threads, 1_000_000, |random| {
                let number = records + random % (8 * records);
                if cache.get(&key(number), now).is_none() {
                    let _ = cache.insert(key(number), vec![0; 16].into(), charge, now);
                }
            });
            println!(
                "{records} records, {threads} threads: hit {hit:.0} ns, \
                 hit on one key {one:.0} ns, \
                 miss with insertion {miss:.0} ns"
            );
        }
    }
}
