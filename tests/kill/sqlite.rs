use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use warmfront_tests::{Dialogue, Program, Requirement, require};

use crate::victim::{Victim, kills};

const PATIENCE: Duration = Duration::from_secs(30);

fn sqlite(database: &Path) -> Program {
    let words = ["-batch", "-bail", "-cmd", ".timeout 30000"];
    Program::new("sqlite3").args(words).arg(database)
}

/// Commits rows one by one until SQLite fails, and returns those whose commit was acknowledged.
fn commit_rows(database: &Path, from: u64, journal: &str) -> BTreeSet<u64> {
    let mut session = Dialogue::start(sqlite(database));
    session.tell(&format!("PRAGMA journal_mode={journal}; PRAGMA synchronous=FULL;"));
    // What makes both journals come around, and the file shrink and grow.
    session.tell("PRAGMA wal_autocheckpoint=50;");
    for _ in 0..2 {
        if session.hear(PATIENCE).is_none() {
            return BTreeSet::new();
        }
    }
    let mut rows = BTreeSet::new();
    for row in from.. {
        let written = session.tell(&format!(
            "BEGIN; INSERT INTO row VALUES ({row}, 'row {row}', randomblob(2000));
             DELETE FROM filling; INSERT INTO filling VALUES ({row}, randomblob(5000));
             COMMIT; SELECT {row};"
        ));
        if !written || session.hear(PATIENCE) != Some(row.to_string()) {
            break;
        }
        rows.insert(row);
    }
    rows
}

fn ask(database: &Path, question: &str) -> String {
    sqlite(database).input(question).run().success()
}

fn keeps_commits(journal: &str, pagecache: &str, seed: u64) {
    require!(Requirement::Fuse, Requirement::Tool("sqlite3"));
    let properties = [("pagecache", pagecache), ("coherence", "exclusive")];
    let mut victim = Victim::new(seed, &properties);
    let database = victim.join("database");
    ask(
        &database,
        &format!(
            "PRAGMA journal_mode={journal};
             CREATE TABLE row (number INTEGER PRIMARY KEY, name TEXT UNIQUE, contents BLOB);
             CREATE TABLE filling (number INTEGER PRIMARY KEY, contents BLOB);"
        ),
    );
    let mut committed = BTreeSet::new();
    for _ in 0..2 * kills() {
        let from = committed.last().map_or(1, |last| last + 2);
        let database = &database;
        std::thread::scope(|scope| {
            let session = scope.spawn(move || commit_rows(database, from, journal));
            victim.kill_within(Duration::from_millis(1500));
            committed.extend(session.join().expect("SQLite is heard to its end"));
        });
        victim.revive();
        assert_eq!(ask(database, "PRAGMA integrity_check;").trim(), "ok");
        let rows = ask(database, "SELECT number FROM row WHERE name = 'row ' || number;");
        let found: BTreeSet<u64> = rows.lines().map(|row| row.parse().expect("a number")).collect();
        let lost: Vec<_> = committed.difference(&found).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let filling = ask(database, "SELECT number = (SELECT max(number) FROM row) FROM filling;");
        assert!(found.is_empty() || filling.trim() == "1", "half of a transaction: {filling}");
        // A commit that was under way may have taken place.
        committed = found;
    }
    assert!(committed.len() > 5, "only {} rows were committed", committed.len());
    let mount = victim.end();
    let database = mount.origin().join("database");
    assert_eq!(ask(&database, "PRAGMA integrity_check;").trim(), "ok");
    let count = ask(&database, "SELECT count(*) FROM row;");
    assert_eq!(count.trim(), committed.len().to_string());
}

#[test]
fn sqlite_with_a_rollback_journal() {
    keeps_commits("delete", "on", 3);
}

#[test]
fn sqlite_with_a_write_ahead_log() {
    keeps_commits("wal", "off", 4);
}
