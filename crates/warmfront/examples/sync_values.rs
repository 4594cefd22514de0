//! Threads that share a cache of computed values: `cargo run --example sync_values`.

use std::num::ParseIntError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use warmfront::cache::{Cache, FetchError};

/// The number of steps to 1 by Collatz's rule, of a number written in decimal.
fn steps(text: &str) -> Result<u64, ParseIntError> {
    let mut number: u128 = text.parse()?;
    let mut steps = 0;
    while number > 1 {
        number = if number.is_multiple_of(2) { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    Ok(steps)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Strings have bytes on the heap, which only the program knows of.
    let cache = Cache::<String, u64>::builder()
        .capacity_bytes(8 << 20)
        .weigher(|text, _| text.capacity() as u64)
        .build()?;

    // Eight threads ask for the same thousand values: each is computed once.
    let computed = AtomicU64::new(0);
    let fetch = |text: &str| {
        computed.fetch_add(1, Ordering::Relaxed);
        steps(text)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    (1..=1000_u64).try_fold(0, |longest, number| {
                        let text = number.to_string();
                        let steps = cache.get_or_fetch(&text, || fetch(&text))?;
                        Ok::<_, FetchError>(longest.max(steps))
                    })
                })
            })
            .collect();
        for thread in threads {
            let longest = thread.join().expect("no thread panics")?;
            assert_eq!(longest, 178);
        }
        Ok::<_, FetchError>(())
    })?;
    assert_eq!(computed.load(Ordering::Relaxed), 1000);

    // An error reaches the caller with its type, and is not kept.
    let error = cache.get_or_fetch(&"many".to_string(), || steps("many")).unwrap_err();
    assert!(error.downcast_ref::<ParseIntError>().is_some());
    println!("{error}");

    let statistics = cache.statistics();
    println!(
        "{} entries in {} bytes; {} fetches, {} joined, {:.1} % hits",
        statistics.entries,
        statistics.charged_bytes,
        statistics.fetches,
        statistics.joined,
        100.0 * statistics.hit_ratio()
    );
    Ok(())
}
