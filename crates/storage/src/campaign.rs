use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// The variable of the environment that names other seeds, `FIRST..END`.
const SEEDS_VARIABLE: &str = "WARMFRONT_SEEDS";

/// A test that runs many histories, each drawn from a seed: one that fails is run again alone by
/// `WARMFRONT_SEEDS=SEED..END`, and a long search is given seeds that nobody has tried.
///
/// ```
/// use storage::{Campaign, Random};
///
/// // Each history is drawn from its seed.
/// Campaign::new(100).run(|seed| assert!(Random::new(seed).below(6) < 6));
/// ```
#[derive(Debug, Clone)]
pub struct Campaign {
    seeds: Range<u64>,
}

impl Campaign {
    /// As many histories as `count`, or those of the seeds that the environment names.
    ///
    /// # Panics
    ///
    /// Where the environment names no seeds.
    ///
    /// ```
    /// let campaign = storage::Campaign::new(100);
    /// # if std::env::var("WARMFRONT_SEEDS").is_err() {
    /// assert_eq!(campaign.count(), 100);
    /// # }
    /// ```
    pub fn new(count: u64) -> Campaign {
        let seeds = match std::env::var(SEEDS_VARIABLE) {
            Ok(text) => parse(&text)
                .unwrap_or_else(|| panic!("{SEEDS_VARIABLE}={text} is not FIRST..END of seeds")),
            Err(_) => 0..count,
        };
        Campaign { seeds }
    }

    /// How many histories it has.
    ///
    /// ```
    /// let mut histories = 0;
    /// let campaign = storage::Campaign::new(10);
    /// campaign.run(|_seed| histories += 1);
    /// assert_eq!(histories, campaign.count());
    /// ```
    pub fn count(&self) -> u64 {
        self.seeds.end - self.seeds.start
    }

    /// Runs every history.
    ///
    /// # Panics
    ///
    /// As the first history that panics, whose seed is told.
    ///
    /// ```
    /// let mut seeds = Vec::new();
    /// storage::Campaign::new(3).run(|seed| seeds.push(seed));
    /// assert!(seeds.is_sorted());
    /// ```
    pub fn run(&self, mut history: impl FnMut(u64)) {
        for seed in self.seeds.clone() {
            told(seed, || history(seed)).unwrap_or_else(|panic| resume_unwind(panic));
        }
    }

    /// As [`run`](Campaign::run), but as many histories at a time as there are processors. Gives
    /// what each has come to, in no order.
    ///
    /// # Panics
    ///
    /// As a history that panics, whose seed is told.
    ///
    /// ```
    /// let campaign = storage::Campaign::new(100);
    /// let outcomes = campaign.run_side_by_side(|seed| seed % 2);
    /// assert_eq!(outcomes.len() as u64, campaign.count());
    /// ```
    pub fn run_side_by_side<T: Send>(&self, history: impl Fn(u64) -> T + Sync) -> Vec<T> {
        let next = AtomicU64::new(self.seeds.start);
        let work = || {
            let seeds = std::iter::from_fn(|| {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                (seed < self.seeds.end).then_some(seed)
            });
            let outcomes = seeds.map(|seed| told(seed, || history(seed)));
            let outcomes: thread::Result<Vec<T>> = outcomes.collect();
            // One that fails ends the others as well.
            outcomes.inspect_err(|_| next.store(self.seeds.end, Ordering::Relaxed))
        };
        let processors = thread::available_parallelism().map_or(1, |count| count.get());
        thread::scope(|scope| {
            let threads: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
            let all = threads.into_iter().map(|thread| thread.join().and_then(|outcomes| outcomes));
            let all: Result<Vec<Vec<T>>, _> = all.collect();
            all.unwrap_or_else(|panic| resume_unwind(panic)).into_iter().flatten().collect()
        })
    }
}

/// Runs a history; if it panics, tells its seed.
fn told<T>(seed: u64, history: impl FnOnce() -> T) -> thread::Result<T> {
    catch_unwind(AssertUnwindSafe(history)).inspect_err(|_| {
        eprintln!("seed {seed} fails; {SEEDS_VARIABLE}={seed}..{} runs it alone", seed + 1);
    })
}

fn parse(text: &str) -> Option<Range<u64>> {
    let (first, end) = text.split_once("..")?;
    let (first, end) = (first.parse().ok()?, end.parse().ok()?);
    (first < end).then_some(first..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read_or_refused() {
        assert_eq!(parse("5..8"), Some(5..8));
        for text in ["", "5", "5..", "8..5", "5..5", "a..b"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_history_runs_until_one_fails() {
        let campaign = Campaign { seeds: 3..6 };
        let mut seen = Vec::new();
        campaign.run(|seed| seen.push(seed));
        assert_eq!(seen, [3, 4, 5]);
        assert_eq!(campaign.count(), 3);
        let mut failed = Vec::new();
        let run = AssertUnwindSafe(|| {
            campaign.run(|seed| {
                failed.push(seed);
                assert_ne!(seed, 4);
            });
        });
        assert!(catch_unwind(run).is_err());
        assert_eq!(failed, [3, 4]);
    }

    #[test]
    fn histories_side_by_side_are_each_run_once() {
        let campaign = Campaign { seeds: 3..600 };
        let mut seen = campaign.run_side_by_side(|seed| seed);
        seen.sort_unstable();
        assert!(seen.into_iter().eq(3..600));
        let run = || campaign.run_side_by_side(|seed| assert_ne!(seed, 400));
        assert!(catch_unwind(run).is_err());
    }
}
