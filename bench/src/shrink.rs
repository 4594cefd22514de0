//! How long it takes until memory has been given back when the ceiling is lowered, by the size of
//! records, beside what the kernel alone takes to take so much memory back.

use std::error::Error;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use futures::executor::block_on;
use storage::{Clock, DirectoryOptions, DirectoryOrigin, OpenMode, RealClock, ThreadPool};
use warmfront::{Datasets, Memory, Pool, PoolOptions, parse_size};
use warmfront_bench::{Table, bars};

const READ: OpenMode =
    OpenMode { read: true, write: false, truncate: false, direct: false, sync: false };
/// Milliseconds of a shrink, and what was resident before and after.
#[derive(Debug, Parser)]
struct Arguments {
    /// The ceiling under which the cache is filled.
    #[arg(long, default_value = "2G")]
    from: String,
    /// The ceiling to which it shrinks.
    #[arg(long, default_value = "512M")]
    to: String,
    /// Sizes of records.
    #[arg(long, value_delimiter = ',', default_values = ["4K", "16K", "128K", "1M"])]
    records: Vec<String>,
    /// Rounds; the median is reported.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Leave the heading out.
    #[arg(long)]
    no_heading: bool,
    /// Write a plot of the milliseconds, as SVG.
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Measure nothing: take the table that a run has printed, or the docs have, in this file.
    #[arg(long)]
    rows: Option<PathBuf>,
}

/// One shrink.
struct Outcome {
    shrink: Duration,
    control: Duration,
    before_bytes: u64,
    after_bytes: u64,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shrink: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What stands over the table.
const COLUMNS: [&str; 6] =
    ["records", "ms", "kernel's ms", "ratio", "MiB resident before", "after"];

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let page = match &arguments.rows {
        Some(file) => warmfront_bench::read(file)?,
        None => measured(arguments)?,
    };
    if let Some(file) = &arguments.plot {
        plot(&page, file)?;
    }
    Ok(())
}

/// Measures, and prints a table, which it returns.
fn measured(arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let mut page = String::new();
    let mut tell = |line: String| {
        println!("{line}");
        page += &line;
        page.push('\n');
    };
    if !arguments.no_heading {
        tell(format!("| {} |", COLUMNS.join(" | ")));
        tell(format!("|---|{}", "--:|".repeat(COLUMNS.len() - 1)));
    }
    for records in &arguments.records {
        tell(match arguments.records.len() {
            1 => row(arguments, records)?,
            _ => in_its_own_process(arguments, records)?,
        });
    }
    Ok(page)
}

/// The row of a size of records: the median of all rounds.
fn row(arguments: &Arguments, records: &str) -> Result<String, Box<dyn Error>> {
    let (from, to) = (parse_size(&arguments.from)?, parse_size(&arguments.to)?);
    let mut outcomes = (0..arguments.rounds.max(1))
        .map(|_| block_on(shrink(from, to, records)))
        .collect::<Result<Vec<_>, _>>()?;
    outcomes.sort_by_key(|outcome| outcome.shrink);
    let Outcome { shrink, control, before_bytes, after_bytes } = &outcomes[outcomes.len() / 2];
    Ok(format!(
        "| {records} | {:.1} | {:.1} | {:.2} | {} | {} |",
        shrink.as_secs_f64() * 1000.0,
        control.as_secs_f64() * 1000.0,
        shrink.as_secs_f64() / control.as_secs_f64(),
        before_bytes >> 20,
        after_bytes >> 20
    ))
}

/// As [`row`]; what one run leaves in the general allocator must not count for the next.
fn in_its_own_process(arguments: &Arguments, records: &str) -> Result<String, Box<dyn Error>> {
    let (rounds, program) = (arguments.rounds.to_string(), std::env::current_exe()?);
    let output = std::process::Command::new(program)
        .args(["--from", &arguments.from, "--to", &arguments.to])
        .args(["--rounds", &rounds, "--records", records, "--no-heading"])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("records of {records}: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_string())
}

/// Draws the milliseconds of a page's table.
fn plot(page: &str, file: &Path) -> Result<(), Box<dyn Error>> {
    let tables = Table::all(page);
    let table = tables.iter().find(|table| table.begins_with(&COLUMNS));
    let rows = &table.ok_or("there is no table of shrinks")?.rows;
    let groups: Vec<_> = rows
        .iter()
        .map(|row| {
            let name = format!("records of {}", row[0]);
            bars(&name, [("shrink", &*row[1]), ("kernel alone", &*row[2])], 1.0)
        })
        .collect();
    Ok(warmfront_bench::write("milliseconds until the memory is given back", &groups, file)?)
}

/// Fills a cache and shrinks it.
async fn shrink(from: u64, to: u64, records: &str) -> Result<Outcome, Box<dyn Error>> {
    let scratch = tempfile::tempdir_in("/var/tmp")?;
    // A hole: it takes no disk, and its records take memory like any others.
    File::create(scratch.path().join("file"))?.set_len(from)?;
    let datasets = Datasets::new("bench")?;
    datasets.set("bench", "recordsize", records)?;
    datasets.set("bench", "prefetch", "none")?;
    let memory = Memory::new(from);
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let origin = DirectoryOrigin::open(scratch.path(), DirectoryOptions::default())?;
    let pool = Pool::open(PoolOptions {
        name: "bench".to_string(),
        origin: Arc::new(origin),
        datasets,
        memory: memory.clone(),
        clock,
        spawn: Arc::new(ThreadPool::new("bench", 2)?),
        read_only: true,
        flash: warmfront::flash::FlashOptions::default(),
    })
    .await?;
    let found = pool.lookup(pool.root(), OsStr::new("file")).await?;
    let file = pool.open_file(found.object, READ).await?;
    // Record by record at random places, so that what goes together did not come together.
    let read_bytes = parse_size(records)?;
    let places = from / read_bytes;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..3 * places {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.read(state % places * read_bytes, read_bytes as usize).await?;
    }
    let before_bytes = resident_bytes()?;
    let started = Instant::now();
    memory.set_ceiling_bytes(to);
    let shrink = started.elapsed();
    let after_bytes = resident_bytes()?;
    let control = kernel(before_bytes.saturating_sub(after_bytes).max(1) as usize);
    Ok(Outcome { shrink, control, before_bytes, after_bytes })
}

/// How long the kernel takes to take so much memory back.
fn kernel(bytes: usize) -> Duration {
    // A mapping of its own, as everything of this length; given back the moment it is freed.
    let memory = vec![1_u8; bytes];
    let started = Instant::now();
    drop(std::hint::black_box(memory));
    started.elapsed()
}

/// What is resident of this process.
fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).ok_or("statm has a second field")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
