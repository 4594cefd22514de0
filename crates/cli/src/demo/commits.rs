use std::io::{Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::demo::work::check;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;

/// How long rows are committed.
const DURATION: Duration = Duration::from_secs(5);
/// Between two looks at ctrl-C.
const PATIENCE: Duration = Duration::from_millis(50);
/// Statements of a run: more than it makes in its time.
const STATEMENTS: usize = 500_000;
const STATEMENT: &str = "INSERT INTO rows (text) VALUES ('one row of some forty bytes of text');\n";

/// Commits a second of a database that writes one row with each.
#[derive(Debug, Serialize)]
pub(crate) struct Commits {
    /// On the slow origin, written back at each `fsync` as by a page cache.
    pub(crate) without_per_second: f64,
    /// With a log device.
    pub(crate) with_per_second: f64,
}

/// Whether there is SQLite here.
pub(crate) fn is_possible() -> bool {
    let mut command = Command::new("sqlite3");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Commits of one row a second by SQLite, with its default journal, to a new database.
pub(crate) fn commits_per_second(database: &Path, interrupt: &Interrupt) -> Result<f64> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot run sqlite3: {error}"));
    ask(database, "CREATE TABLE rows (number INTEGER PRIMARY KEY, text TEXT);")?;
    let mut statements = tempfile::tempfile().map_err(failed)?;
    let written = statements.write_all(STATEMENT.repeat(STATEMENTS).as_bytes());
    written.and_then(|()| statements.rewind()).map_err(failed)?;
    let began = Instant::now();
    let mut child = Command::new("sqlite3")
        .arg(database)
        .stdin(Stdio::from(statements))
        .stdout(Stdio::null())
        .spawn()
        .map_err(failed)?;
    while began.elapsed() < DURATION && check(interrupt).is_ok() {
        std::thread::sleep(PATIENCE);
    }
    // What it has not committed by now does not count.
    child.kill().and_then(|()| child.wait()).map_err(failed)?;
    let elapsed = began.elapsed().as_secs_f64();
    check(interrupt)?;
    let rows = ask(database, "SELECT count(*) FROM rows;")?;
    let rows: f64 = rows.parse().map_err(|_| Failure::new("sqlite3 counts no rows"))?;
    Ok(rows / elapsed)
}

fn ask(database: &Path, question: &str) -> Result<String> {
    let output = Command::new("sqlite3")
        .arg(database)
        .arg(question)
        .output()
        .map_err(|error| Failure::new(format!("cannot run sqlite3: {error}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_string()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Failure::new(format!("sqlite3 failed: {}", said.trim())))
        }
    }
}
