use std::io::{Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Statements of a run: more than it makes in its time.
const STATEMENTS: usize = 400_000;
const TABLE: &str = "CREATE TABLE rows (number INTEGER PRIMARY KEY, text TEXT);";
const STATEMENT: &str = "INSERT INTO rows (text) VALUES ('one row of some forty bytes of text');\n";

/// Commits of one row a second, with the default journal, to a new database.
pub(super) fn commits(database: &Path, duration: Duration) -> Result<f64, String> {
    let failed = |error: std::io::Error| format!("cannot run sqlite3: {error}; install it");
    let ask = |question: &str| -> Result<String, String> {
        let output =
            Command::new("sqlite3").arg(database).arg(question).output().map_err(failed)?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_string()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    };
    ask(TABLE)?;
    let mut statements = tempfile::tempfile().map_err(failed)?;
    let write = statements.write_all(STATEMENT.repeat(STATEMENTS).as_bytes());
    write.and_then(|()| statements.rewind()).map_err(failed)?;
    let began = Instant::now();
    let mut child = Command::new("sqlite3")
        .arg(database)
        .stdin(Stdio::from(statements))
        .stdout(Stdio::null())
        .spawn()
        .map_err(failed)?;
    std::thread::sleep(duration);
    let early = child.try_wait().map_err(failed)?;
    child.kill().and_then(|()| child.wait()).map_err(failed)?;
    let elapsed = began.elapsed().as_secs_f64();
    if let Some(status) = early {
        return Err(format!("sqlite3 has ended early: {status}"));
    }
    let rows: f64 = ask("SELECT count(*) FROM rows;")?.parse().map_err(|_| "no count of rows")?;
    Ok(rows / elapsed)
}
