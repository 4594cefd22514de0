//! How fast the lab replays, beside libCacheSim in the same run.
//!
//! Everything runs on one core, round by round, each subject once in a round; the ratios of a
//! round are taken before the median over the rounds. Time is that of the processor, so that the
//! machine's other work counts as little as can be.

mod engine;
mod rival;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use lab::{Form, MiniSim, PolicyName, Replay, Size, StackDistances, Trace, replay};
use rustix::time::{ClockId, clock_gettime};

use engine::Engine;
use rival::LibCacheSim;

/// Compares the lab's replay with libCacheSim's.
#[derive(Debug, Parser)]
struct Arguments {
    /// Rounds; the median is reported.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The trace.
    #[arg(long)]
    trace: Option<PathBuf>,
    /// A Python with the package `libcachesim`.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Replays no trace, and measures only what the whole engine simulates.
    #[arg(long)]
    engine: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("lab-speed: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The largest of the ARC paper's traces, where shared traces are.
fn usual_trace() -> PathBuf {
    let shared = std::env::var_os("WARMFRONT_SHARED").map_or("../shared".into(), PathBuf::from);
    shared.join("traces/arc/P12.lis.zst")
}

fn run(arguments: &Arguments) -> Result<(), String> {
    if arguments.engine {
        return engine(arguments.rounds);
    }
    let path = arguments.trace.clone().unwrap_or_else(usual_trace);
    if !path.exists() {
        println!("skipped: there is no trace {}; name one with --trace", path.display());
        return Ok(());
    }
    let started = cpu_seconds();
    let trace = Trace::read(&path, None).map_err(|error| error.to_string())?;
    let read_seconds = cpu_seconds() - started;
    println!(
        "{}: {} requests, {} objects, read and numbered in {read_seconds:.2} s\n",
        trace.name(),
        trace.requests(),
        trace.distinct()
    );
    let size = trace.distinct() / 10;
    let rival = LibCacheSim::prepare(&arguments.python, &trace, size);
    if let Err(reason) = &rival {
        println!("libCacheSim is not compared with: {reason}\n");
    }
    let policies = [PolicyName::ListArc, PolicyName::Lru, PolicyName::Arc];
    let mut rates = vec![Vec::new(); policies.len() + 3];
    let mut misses = Vec::new();
    for round in 0..arguments.rounds {
        for (&policy, rates) in policies.iter().zip(&mut rates) {
            let (rate, missed) = replay_rate(&trace, policy, size);
            rates.push(rate);
            if round == 0 {
                misses.push(missed);
            }
        }
        let [.., distances, mini, rivals] = &mut rates[..] else { unreachable!("three more") };
        distances.push(distances_rate(&trace));
        mini.push(mini_sim_seconds(&trace));
        if let Ok(rival) = &rival {
            let (rate, missed) = rival.replay()?;
            rivals.push(rate);
            if missed != misses[0] {
                println!("libCacheSim counts {missed} misses, the lab {}", misses[0]);
            }
        }
    }
    report(&trace, size, &policies, &rates);
    engine(arguments.rounds)
}

/// How many requests the whole engine simulates.
fn engine(rounds: usize) -> Result<(), String> {
    println!("\nthe engine on a modelled server, random reads of 4 KiB by 192 threads\n");
    println!("| files | hits in RAM | figure |");
    println!("|---|--:|--:|");
    for (what, share_percent) in [("fit into RAM", 25), ("fit RAM and flash", 90)] {
        let engine = Engine::prepare(share_percent)?;
        engine.rate();
        let (rates, hits): (Vec<f64>, Vec<f64>) = (0..rounds).map(|_| engine.rate()).unzip();
        println!("| {what} | {} % | {} k requests/s |", spread(&hits), spread(&rates));
    }
    Ok(())
}

/// Seconds that this process has had on processors.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Million requests a second, and the misses.
fn replay_rate(trace: &Trace, policy: PolicyName, blocks: u64) -> (f64, u64) {
    let plan =
        Replay { policies: vec![policy], sizes: vec![Size::Blocks(blocks)], form: Form::Plain };
    let started = cpu_seconds();
    let rows = replay(trace, &plan, &|_| ());
    (trace.requests() as f64 / 1e6 / (cpu_seconds() - started), rows[0].misses)
}

fn distances_rate(trace: &Trace) -> f64 {
    let started = cpu_seconds();
    let distances = StackDistances::of(trace);
    assert_eq!(distances.requests(), trace.requests());
    trace.requests() as f64 / 1e6 / (cpu_seconds() - started)
}

fn mini_sim_seconds(trace: &Trace) -> f64 {
    let started = cpu_seconds();
    let curve = MiniSim { percent: 1.0, seed: 1 }.run(trace, PolicyName::ListArc, &sizes());
    assert!(curve.is_ok_and(|curve| curve.len() == sizes().len()));
    cpu_seconds() - started
}

/// 40 sizes from 1.25 % to 50 % of the objects.
fn sizes() -> Vec<f64> {
    (1..=40).map(|step| f64::from(step) * 0.0125).collect()
}

fn report(trace: &Trace, size: u64, policies: &[PolicyName], rates: &[Vec<f64>]) {
    println!("{} at {size} blocks, on one core; median (least to greatest)\n", trace.name());
    println!("| subject | figure | list-arc / subject |");
    println!("|---|--:|--:|");
    let rivals = rates.last().expect("there is a place for it");
    for (policy, rate) in policies.iter().zip(rates) {
        println!("| {policy} | {} M requests/s | {} |", spread(rate), ratios(&rates[0], rate));
    }
    println!(
        "| libCacheSim ARC | {} M requests/s | {} |",
        spread(rivals),
        ratios(&rates[0], rivals)
    );
    println!("| LRU curve of all sizes | {} M requests/s | |", spread(&rates[policies.len()]));
    println!("| MiniSim of 1 %, 40 sizes | {} s | |", spread(&rates[policies.len() + 1]));
}

fn ratios(ours: &[f64], others: &[f64]) -> String {
    spread(&ours.iter().zip(others).map(|(ours, other)| ours / other).collect::<Vec<_>>())
}

/// Median, least and greatest.
fn spread(values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.first(), sorted.get(sorted.len() / 2), sorted.last()) {
        (Some(least), Some(median), Some(greatest)) => {
            format!("{median:.3} ({least:.3} to {greatest:.3})")
        }
        _ => "-".to_string(),
    }
}
