use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::thread;
use std::time::{Duration, Instant};

use daemon::Paths;
use daemon::protocol::RecordedRequests;
use warmfront::{HumanSize, parse_size};

use crate::arguments::RecordArguments;
use crate::commands::target;
use crate::failure::{Failure, Result};
use crate::format::{count, print};
use crate::interrupt::Interrupt;

/// Between two looks at what was recorded.
const INTERVAL: Duration = Duration::from_millis(50);

/// Writes down what a pool is asked for.
pub(crate) fn record(paths: &Paths, arguments: &RecordArguments) -> Result<()> {
    let percent = arguments.sample.trim_end_matches('%').parse::<f64>().ok();
    let percent =
        percent.filter(|percent| *percent > 0.0 && *percent <= 100.0).ok_or_else(|| {
            Failure::usage(format!("`{}` is not a share of 100 %, above 0", arguments.sample))
        })?;
    let bytes_max = parse_size(&arguments.size).map_err(Failure::usage)?;
    if bytes_max == 0 || arguments.seconds == Some(0) {
        let what = if bytes_max == 0 { "--size" } else { "--seconds" };
        return Err(Failure::usage(format!("{what} 0 records nothing; name more than 0")));
    }
    let target = target(paths, arguments.target.as_deref())?;
    let client = target.client()?;
    let interrupt = Interrupt::watch()
        .map_err(|error| Failure::new(format!("cannot watch for ctrl-C: {error}")))?;
    let mut trace = Recording::create(arguments, percent, bytes_max)?;

    client.record(percent)?;
    let begun = Instant::now();
    let is_over = || arguments.seconds.is_some_and(|most| begun.elapsed().as_secs() >= most);
    loop {
        let stop = interrupt.is_set() || is_over();
        let recorded = client.recorded(stop)?;
        let goes_on = trace.append(&recorded)?;
        if stop || !goes_on {
            if !stop {
                client.recorded(true)?;
            }
            break;
        }
        thread::sleep(INTERVAL);
    }
    print(&trace.end()?);
    Ok(())
}

/// The file, as far as it is written.
struct Recording<'a> {
    arguments: &'a RecordArguments,
    /// Share of all contents that is recorded.
    percent: f64,
    file: BufWriter<File>,
    bytes: u64,
    bytes_max: u64,
    requests: u64,
    missed: u64,
}

impl Recording<'_> {
    fn create(arguments: &RecordArguments, percent: f64, bytes_max: u64) -> Result<Recording<'_>> {
        let file = File::create_new(&arguments.output).map_err(|error| {
            Failure::new(format!("cannot make {}: {error}", arguments.output.display()))
        })?;
        let file = BufWriter::new(file);
        let mut recording =
            Recording { arguments, percent, file, bytes: 0, bytes_max, requests: 0, missed: 0 };
        recording.line(&format!("warmfront recording 1, {percent} % of all contents\n"))?;
        Ok(recording)
    }

    /// Adds requests; `false` when the file has become as large as it may.
    fn append(&mut self, recorded: &RecordedRequests) -> Result<bool> {
        self.missed += recorded.missed;
        for request in &recorded.requests {
            let operation = if request.write { 'w' } else { 'r' };
            let line = format!(
                "{} {operation} {:016x} {} {}\n",
                request.time_us, request.file, request.offset, request.bytes
            );
            if self.bytes + line.len() as u64 > self.bytes_max {
                return Ok(false);
            }
            self.line(&line)?;
            self.requests += 1;
        }
        Ok(true)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        self.bytes += line.len() as u64;
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| self.failed(&error))
    }

    fn end(mut self) -> Result<String> {
        self.file.flush().map_err(|error| self.failed(&error))?;
        let missed = match self.missed {
            0 => String::new(),
            missed => format!("; {} came too fast and are missing", count(missed)),
        };
        let (requests, bytes) = (count(self.requests), HumanSize(self.bytes));
        let output = self.arguments.output.display();
        let few = match (self.requests, self.percent < 100.0) {
            (0, true) => "; nobody asked for contents of this share: a larger --sample finds more",
            _ => "",
        };
        Ok(format!("{requests} requests, {bytes}, in {output}{missed}{few}\n"))
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::new(format!("cannot write {}: {error}", self.arguments.output.display()))
    }
}
