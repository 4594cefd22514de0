//! How fast the lab replays, beside libCacheSim in the same run.
//!
//! Everything runs on one core, round by round, each subject once in a round; the ratios of a
//! round are taken before the median over the rounds. Time is that of the processor, so that the
//! machine's other work counts as little as can be.

mod engine;
mod rival;

use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use lab::{Form, MiniSim, PolicyName, Replay, Size, StackDistances, Trace, replay};
use rustix::time::{ClockId, clock_gettime};

use engine::Engine;
use rival::LibCacheSim;
use warmfront_bench::{Table, bars};

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
    /// Write a plot of the requests a second, as SVG.
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Measure nothing: take the tables that a run has printed, or the docs have, in this file.
    #[arg(long)]
    rows: Option<PathBuf>,
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

/// What stands over the tables.
const REPLAY_COLUMNS: [&str; 3] = ["subject", "figure", "list-arc / subject"];
const ENGINE_COLUMNS: [&str; 3] = ["files", "hits in RAM", "figure"];

fn run(arguments: &Arguments) -> Result<(), String> {
    let page = match &arguments.rows {
        Some(file) => warmfront_bench::read(file)?,
        None => {
            let mut page = Page::default();
            if !arguments.engine {
                replays(arguments, &mut page)?;
            }
            engine(arguments.rounds, &mut page)?;
            page.0
        }
    };
    match &arguments.plot {
        Some(file) => plot(&page, file),
        None => Ok(()),
    }
}

/// What is printed.
#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, line: impl Display) {
        println!("{line}");
        let _ = writeln!(self.0, "{line}");
    }

    /// The head of a table whose first column has names.
    fn head(&mut self, columns: &[&str]) {
        self.line(format_args!("| {} |", columns.join(" | ")));
        self.line(format_args!("|---|{}", "--:|".repeat(columns.len() - 1)));
    }
}

/// Draws the requests a second of the page's tables.
fn plot(page: &str, file: &Path) -> Result<(), String> {
    let tables = Table::all(page);
    let group = |name: &str, columns: &[&str], figures: usize| {
        let table = tables.iter().find(|table| table.begins_with(columns))?;
        let rows = table.rows.iter().filter(|row| row[figures].ends_with("requests/s"));
        Some(bars(name, rows.map(|row| (&*row[0], &*row[figures])), 0.001))
    };
    let groups = [
        group("replay of a trace", &REPLAY_COLUMNS, 1),
        group("the whole engine on virtual time", &ENGINE_COLUMNS, 2),
    ];
    let groups: Vec<_> = groups.into_iter().flatten().collect();
    warmfront_bench::write("thousand requests a second of one core", &groups, file)
}

/// Replays a trace through policies and their rival.
fn replays(arguments: &Arguments, page: &mut Page) -> Result<(), String> {
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
    report(&trace, size, &policies, &rates, page);
    Ok(())
}

/// How many requests the whole engine simulates.
fn engine(rounds: usize, page: &mut Page) -> Result<(), String> {
    page.line("\nthe engine on a modelled server, random reads of 4 KiB by 192 threads\n");
    page.head(&ENGINE_COLUMNS);
    for (what, share_percent) in [("fit into RAM", 25), ("fit RAM and flash", 90)] {
        let engine = Engine::prepare(share_percent)?;
        engine.rate();
        let (rates, hits): (Vec<f64>, Vec<f64>) = (0..rounds).map(|_| engine.rate()).unzip();
        let (hits, rates) = (spread(&hits), spread(&rates));
        page.line(format_args!("| {what} | {hits} % | {rates} k requests/s |"));
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

fn report(trace: &Trace, size: u64, policies: &[PolicyName], rates: &[Vec<f64>], page: &mut Page) {
    page.line(format_args!(
        "{} at {size} blocks, on one core; median (least to greatest)\n",
        trace.name()
    ));
    page.head(&REPLAY_COLUMNS);
    let mut row = |subject: &dyn Display, rate: &[f64]| {
        let (figure, ratio) = (spread(rate), ratios(&rates[0], rate));
        page.line(format_args!("| {subject} | {figure} M requests/s | {ratio} |"));
    };
    for (policy, rate) in policies.iter().zip(rates) {
        row(policy, rate);
    }
    row(&"libCacheSim ARC", rates.last().expect("there is a place for it"));
    let (distances, mini) = (spread(&rates[policies.len()]), spread(&rates[policies.len() + 1]));
    page.line(format_args!("| LRU curve of all sizes | {distances} M requests/s | |"));
    page.line(format_args!("| MiniSim of 1 %, 40 sizes | {mini} s | |"));
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
