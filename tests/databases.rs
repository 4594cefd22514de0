//! Programs that trust their file system with data: SQLite and git.
//!
//! SQLite relies on locks, on fsync and, in WAL mode, on shared memory in a mapped file; git on
//! atomic renames, links, mapped packs and exact times.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use warmfront_tests::{
    Background, Mount, Program, Requirement, copy_tree, require, source_tree, wait_until,
};

fn sqlite(database: &Path, statements: &str) -> String {
    Program::new("sqlite3")
        .args(["-batch", "-bail", "-cmd", ".timeout 30000"])
        .arg(database)
        .input(statements)
        .deadline(Duration::from_secs(120))
        .run()
        .success()
}

/// A table of accounts whose sum never changes, and a program of transfers between them.
fn accounts(journal: &str) -> String {
    format!(
        "PRAGMA journal_mode={journal}; PRAGMA synchronous=FULL;
         CREATE TABLE account (id INTEGER PRIMARY KEY, amount INTEGER, note BLOB);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
         INSERT INTO account SELECT i, 100, randomblob(200) FROM n;
         CREATE INDEX by_amount ON account (amount);"
    )
}

fn transfers(from: u32, count: u32) -> String {
    (from..from + count)
        .map(|number| {
            let (giver, taker) = (number * 37 % 2000 + 1, number * 91 % 2000 + 1);
            format!(
                "BEGIN IMMEDIATE;
                 UPDATE account SET amount = amount - 1, note = randomblob(200) WHERE id = {giver};
                 UPDATE account SET amount = amount + 1 WHERE id = {taker};
                 COMMIT;\n"
            )
        })
        .collect()
}

fn check(database: &Path) {
    let told =
        sqlite(database, "PRAGMA integrity_check; SELECT count(*), sum(amount) FROM account;");
    assert_eq!(told.trim(), "ok\n2000|200000", "{}", database.display());
}

/// Two programs write at once, a third is killed in the middle; every time the database is whole.
fn keeps_accounts(journal: &str, pagecache: &str) {
    require!(Requirement::Fuse, Requirement::Tool("sqlite3"));
    let mut mount = Mount::builder().property("pagecache", pagecache).start();
    let database = mount.join("accounts.db");
    let mode = sqlite(&database, &accounts(journal));
    assert_eq!(mode.lines().next(), Some(journal), "SQLite does not get the journal it wants");
    std::thread::scope(|scope| {
        for from in [0, 10_000] {
            let database = &database;
            scope.spawn(move || sqlite(database, &transfers(from, 100)));
        }
    });
    check(&database);

    let statements = mount.warmfront().runtime_directory().join("transfers.sql");
    std::fs::write(&statements, transfers(0, 20_000)).expect("a file for SQLite to read");
    let statements = File::open(&statements).expect("the file is there");
    let program = Program::new("sqlite3").args(["-batch", "-bail"]).arg(&database);
    let before = mount.counter("origin_writes");
    let writer = Background::start(program, statements.into());
    let begun =
        wait_until(Duration::from_secs(20), || mount.counter("origin_writes") > before + 50);
    drop(writer);
    assert!(begun, "SQLite wrote nothing");
    check(&database);
    sqlite(&database, "PRAGMA wal_checkpoint(TRUNCATE); VACUUM;");
    check(&database);
    mount.unmount();
    check(&mount.origin().join("accounts.db"));
}

#[test]
fn sqlite_with_a_write_ahead_log() {
    keeps_accounts("wal", "on");
}

#[test]
fn sqlite_with_a_write_ahead_log_without_the_page_cache() {
    keeps_accounts("wal", "off");
}

#[test]
fn sqlite_with_a_rollback_journal() {
    keeps_accounts("delete", "on");
}

#[test]
fn sqlite_with_a_rollback_journal_without_the_page_cache() {
    keeps_accounts("delete", "off");
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    Program::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
        .args(["-c", "init.defaultBranch=main", "-c", "safe.directory=*", "-c", "gc.auto=0"])
        .args(arguments)
        .directory(directory)
        // The settings of the one who runs the tests do not count.
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .run()
        .success()
}

fn serves_git(pagecache: &str) {
    require!(Requirement::Fuse, Requirement::Tool("git"));
    let mut mount = Mount::builder().property("pagecache", pagecache).start();
    let work = mount.join("work");
    git(mount.path(), &["init", "--quiet", "work"]);
    copy_tree(&source_tree().join("crates"), &work.join("crates"));
    copy_tree(&source_tree().join("tests"), &work.join("tests"));
    git(&work, &["add", "--all"]);
    git(&work, &["commit", "--quiet", "--message", "All files"]);
    for round in 0..5 {
        let name = format!("file-{round}");
        std::fs::write(work.join(&name), name.repeat(1000)).expect("a file");
        git(&work, &["add", "--all"]);
        git(&work, &["commit", "--quiet", "--message", &name]);
    }
    assert_eq!(git(&work, &["status", "--porcelain"]), "", "git sees changes where none are");
    git(&work, &["gc", "--quiet", "--aggressive", "--prune=now"]);
    git(mount.path(), &["clone", "--quiet", "work", "clone"]);
    git(mount.path(), &["clone", "--quiet", "--no-hardlinks", "work", "copy"]);
    for name in ["work", "clone", "copy"] {
        let tree = mount.join(name);
        git(&tree, &["fsck", "--full", "--strict"]);
        assert_eq!(git(&tree, &["rev-list", "--count", "HEAD"]).trim(), "6", "{name}");
        assert_eq!(git(&tree, &["status", "--porcelain"]), "", "{name}");
    }
    git(&work, &["checkout", "--quiet", "HEAD~5"]);
    git(&work, &["checkout", "--quiet", "main"]);
    assert_eq!(git(&work, &["status", "--porcelain"]), "");
    mount.unmount();
    git(&mount.origin().join("work"), &["fsck", "--full", "--strict"]);
}

#[test]
fn git_commits_packs_and_clones() {
    serves_git("on");
}

#[test]
fn git_commits_packs_and_clones_without_the_page_cache() {
    serves_git("off");
}
