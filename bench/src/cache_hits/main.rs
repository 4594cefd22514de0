//! What a look-up costs in the library's cache and in its rivals, in one process, with the same
//! keys in the same order. Rounds of all caches take turns, so that what disturbs one disturbs all;
//! medians are compared.

mod rival;
mod row;
mod trace;

use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use clap::Parser;
use rival::{Foyer, Moka, QuickCache, Rival, Value, Warmfront, WarmfrontRead};
use row::Row;
use rustix::time::{ClockId, clock_gettime};

/// Look-ups of one round of a hit case.
const ROUND_HITS: usize = 1 << 20;
/// The key that all threads hit in the cases with one hot key.
const HOT_KEY: u64 = 7;

/// Nanoseconds of a hit and of a replayed request, beside quick_cache, moka and foyer.
#[derive(Debug, Parser)]
struct Arguments {
    /// Entries of 4 KiB in the hit cases.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 8192, 131_072])]
    entries: Vec<u64>,
    /// Threads of the hit cases.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Rounds of each hit case.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Rounds of each replay.
    #[arg(long, default_value_t = 3)]
    replays: usize,
    /// The trace to replay, in the format of the ARC paper, plain or `.zst`. Without one, and
    /// where `../shared` has none, Zipf-distributed keys.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Capacities of the replays, as shares of the bytes of all distinct blocks.
    #[arg(long, value_delimiter = ',', default_values_t = [0.01, 0.1])]
    shares: Vec<f64>,
    /// Print JSON rows.
    #[arg(long)]
    json: bool,
    /// Write a plot of the nanoseconds on the processor, as SVG.
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Measure nothing: take the JSON rows that a run has printed into this file.
    #[arg(long)]
    rows: Option<PathBuf>,
    /// Only cases whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Only these caches, for a profiler.
    #[arg(long, value_delimiter = ',')]
    caches: Vec<String>,
}

impl Arguments {
    fn wants<R: Rival>(&self) -> bool {
        self.caches.is_empty() || self.caches.iter().any(|name| name == R::NAME)
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cache-hits: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What one round of one cache took.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// Wall-clock nanoseconds of a request, times the number of threads.
    wall_ns: f64,
    /// Nanoseconds of a request on the processor.
    cpu_ns: f64,
    hit_ratio: f64,
}

/// The round of a cache that is left out.
const NONE: Round = Round { wall_ns: f64::NAN, cpu_ns: f64::NAN, hit_ratio: f64::NAN };

/// Each cache's rounds in one case.
struct Case {
    name: String,
    rounds: Vec<(&'static str, Vec<Round>)>,
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let rows = match &arguments.rows {
        Some(file) => row::read(file)?,
        None => measured(arguments)?,
    };
    if let Some(file) = &arguments.plot {
        row::plot(&rows, file)?;
    }
    Ok(())
}

/// Measures all cases, and prints each.
fn measured(arguments: &Arguments) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = Vec::new();
    let wanted = |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only));
    for &entries in &arguments.entries {
        for &threads in &arguments.threads {
            for hot in [false, true] {
                let keys = if hot { "one hot key" } else { "spread keys" };
                let name = format!("hits, {entries} entries, {keys}, {threads} threads");
                if wanted(&name) {
                    let of_case = hits(name, entries, threads, hot, arguments).rows();
                    row::print(&of_case, arguments.json);
                    rows.extend(of_case);
                }
            }
        }
    }
    let (name, trace) = trace::load(arguments.trace.as_deref())?;
    for &share in &arguments.shares {
        let capacity = (trace.blocks as f64 * share) as u64 * rival::VALUE_BYTES;
        for &threads in &arguments.threads {
            for single_flight in [false, true] {
                let way = if single_flight { "get or fetch" } else { "get, insert" };
                let name = format!("replay {name} at {share}, {way}, {threads} threads");
                if wanted(&name) {
                    let requests = &trace.requests;
                    let replay = Replay { requests, capacity, threads, single_flight, arguments };
                    let of_case = replay.run(name).rows();
                    row::print(&of_case, arguments.json);
                    rows.extend(of_case);
                }
            }
        }
    }
    Ok(rows)
}

// ---- Hits --------------------------------------------------------------------------------------

fn hits(name: String, entries: u64, threads: usize, hot: bool, arguments: &Arguments) -> Case {
    // Twice the room, so that nothing has to go.
    let capacity = entries * rival::VALUE_BYTES * 2 + (64 << 20);
    let warmfront = Warmfront::new(capacity);
    let warmfront_read = WarmfrontRead::new(capacity);
    let quick_cache = QuickCache::new(capacity);
    let moka = Moka::new(capacity);
    let foyer = Foyer::new(capacity);
    for key in 0..entries {
        let value = rival::value(key);
        warmfront.insert(key, value.clone());
        warmfront_read.insert(key, value.clone());
        quick_cache.insert(key, value.clone());
        moka.insert(key, value.clone());
        foyer.insert(key, value);
    }
    let sequences: Vec<Vec<u64>> = (0..threads)
        .map(|thread| match hot {
            true => vec![HOT_KEY; ROUND_HITS],
            false => trace::uniform(entries, ROUND_HITS, thread as u64),
        })
        .collect();
    let mut case = Case::new(name);
    // One round more, to warm up.
    for round in 0..=arguments.rounds {
        let results = [
            hit_round(&warmfront, &sequences, arguments),
            hit_round(&warmfront_read, &sequences, arguments),
            hit_round(&quick_cache, &sequences, arguments),
            hit_round(&moka, &sequences, arguments),
            hit_round(&foyer, &sequences, arguments),
        ];
        if round > 0 {
            case.add(results);
        }
    }
    case
}

fn hit_round<R: Rival>(cache: &R, sequences: &[Vec<u64>], arguments: &Arguments) -> Round {
    if !arguments.wants::<R>() {
        return NONE;
    }
    let round = measure(sequences, |keys| {
        let found = keys.iter().filter(|key| black_box(cache.get(**key)).is_some()).count();
        assert_eq!(found, keys.len(), "{} has lost entries", R::NAME);
        found
    });
    assert_eq!(round.hit_ratio, 1.0);
    round
}

// ---- Replays -----------------------------------------------------------------------------------

struct Replay<'a> {
    requests: &'a [u64],
    capacity: u64,
    threads: usize,
    single_flight: bool,
    arguments: &'a Arguments,
}

impl Replay<'_> {
    fn run(&self, name: String) -> Case {
        let mut case = Case::new(name);
        for _ in 0..self.arguments.replays {
            case.add([
                self.round::<Warmfront>(),
                self.round::<WarmfrontRead>(),
                self.round::<QuickCache>(),
                self.round::<Moka>(),
                self.round::<Foyer>(),
            ]);
        }
        case
    }

    /// Each thread replays its part of the trace into one cache.
    fn round<R: Rival>(&self) -> Round {
        if self.single_flight && !R::FETCHES || !self.arguments.wants::<R>() {
            return NONE;
        }
        let cache = &R::new(self.capacity);
        // All misses bring the same value: what is measured is the cache, not the allocator.
        let value = rival::value(1);
        let length = self.requests.len().div_ceil(self.threads);
        let parts: Vec<&[u64]> = self.requests.chunks(length).collect();
        measure(&parts, |keys| match self.single_flight {
            true => keys.iter().filter(|key| cache.get_or_fetch(**key, &value)).count(),
            false => keys.iter().filter(|key| visit(cache, **key, &value)).count(),
        })
    }
}

/// Looks up, and inserts what is missing. Tells whether it was a hit.
fn visit<R: Rival>(cache: &R, key: u64, value: &Value) -> bool {
    match black_box(cache.get(key)) {
        Some(_) => true,
        None => {
            cache.insert(key, value.clone());
            false
        }
    }
}

// ---- Measuring ---------------------------------------------------------------------------------

/// Runs `work` on each part, one thread a part, all at once. `work` returns its hits.
fn measure<P: AsRef<[u64]> + Sync>(parts: &[P], work: impl Fn(&[u64]) -> usize + Sync) -> Round {
    let barrier = Barrier::new(parts.len());
    let results: Vec<(Duration, Duration, usize)> = std::thread::scope(|scope| {
        let handles: Vec<_> = parts
            .iter()
            .map(|part| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    let (start, cpu) = (Instant::now(), cpu_time());
                    let hits = work(part.as_ref());
                    (start.elapsed(), cpu_time().saturating_sub(cpu), hits)
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("no round panics")).collect()
    });
    let requests: usize = parts.iter().map(|part| part.as_ref().len()).sum();
    let wall = results.iter().map(|result| result.0).max().unwrap_or_default();
    let cpu: Duration = results.iter().map(|result| result.1).sum();
    let hits: usize = results.iter().map(|result| result.2).sum();
    Round {
        wall_ns: wall.as_nanos() as f64 * parts.len() as f64 / requests as f64,
        cpu_ns: cpu.as_nanos() as f64 / requests as f64,
        hit_ratio: hits as f64 / requests as f64,
    }
}

/// What this thread has used of its processor.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Case {
    fn new(name: String) -> Self {
        let names =
            [Warmfront::NAME, WarmfrontRead::NAME, QuickCache::NAME, Moka::NAME, Foyer::NAME];
        Self { name, rounds: names.map(|name| (name, Vec::new())).into() }
    }

    fn add(&mut self, rounds: [Round; 5]) {
        self.rounds.iter_mut().zip(rounds).for_each(|(all, round)| all.1.push(round));
    }

    /// The medians of each cache that has run.
    fn rows(&self) -> Vec<Row> {
        let row = |(name, rounds): &(&str, Vec<Round>)| {
            let median_of = |value: fn(&Round) -> f64| median(rounds.iter().map(value));
            Row {
                case: self.name.clone(),
                cache: name.to_string(),
                wall_ns: median_of(|round| round.wall_ns),
                cpu_ns: median_of(|round| round.cpu_ns),
                hit_ratio: median_of(|round| round.hit_ratio),
            }
        };
        self.rounds.iter().map(row).filter(|row| !row.cpu_ns.is_nan()).collect()
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
