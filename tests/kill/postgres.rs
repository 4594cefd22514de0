use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;
use warmfront_tests::{
    Background, Dialogue, Finished, Program, Requirement, require, test_directory, wait_until,
};

use crate::victim::{Victim, kills};

/// Who runs the server when this is run as root, which it refuses to be.
const USER: &str = "postgres";
const PATIENCE: Duration = Duration::from_secs(60);
/// Connections that commit at the same time.
const CLIENTS: u64 = 2;

/// A database cluster on the mount, whose socket lies elsewhere.
struct Cluster {
    data: PathBuf,
    socket: TempDir,
}

impl Cluster {
    fn new(data: PathBuf) -> Cluster {
        let socket = test_directory();
        std::fs::create_dir(&data).expect("a directory");
        if geteuid().is_root() {
            let words = ["chown".as_ref(), USER.as_ref(), data.as_os_str()];
            Program::new(words[0]).args(&words[1..]).arg(socket.path()).run().success();
        }
        let cluster = Cluster { data, socket };
        let words = ["--auth=trust", "--no-instructions", "--data-checksums", "--username", USER];
        cluster.program("initdb").args(words).deadline(PATIENCE).run().success();
        cluster.keep_shared_memory();
        cluster
    }

    /// Has servers share memory by files beside the socket: those that are killed leave it behind,
    /// and here it goes with the test.
    fn keep_shared_memory(&self) {
        let (inside, beside) = (self.data.join("pg_dynshmem"), self.socket.path().join("memory"));
        std::fs::remove_dir(&inside).expect("nothing runs yet");
        std::fs::create_dir(&beside).expect("a directory");
        std::os::unix::fs::symlink(&beside, &inside).expect("a link");
        if geteuid().is_root() {
            Program::new("chown").arg(USER).arg(&beside).run().success();
        }
    }

    /// A program as the user who may run it, with this cluster as its own.
    fn program(&self, name: &str) -> Program {
        let program = match geteuid().is_root() {
            true => Program::new("setpriv")
                .args(["--reuid", USER, "--regid", USER, "--init-groups"])
                .arg(warmfront_tests::tool(name)),
            false => Program::new(name),
        };
        program
            .env("PGDATA", &self.data)
            .env("PGHOST", self.socket.path())
            .env("PGDATABASE", "postgres")
            .env("PGUSER", USER)
            .directory("/")
    }

    fn psql(&self) -> Program {
        self.program("psql").args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"])
    }

    /// Starts the server, which recovers, and waits until it answers.
    fn start(&self) -> Server {
        let memory = "dynamic_shared_memory_type=mmap";
        let settings = ["listen_addresses=", "shared_buffers=16MB", "max_wal_size=32MB", memory];
        let socket = self.socket.path().display();
        let socket = format!("unix_socket_directories={socket}");
        let answers = || self.psql().args(["-c", "SELECT 1"]).run().succeeded();
        let mut server = None;
        let up = wait_until(PATIENCE, || {
            // A process of the one before may still be about to end.
            if server.as_mut().is_none_or(Background::has_ended) {
                let mut program = self.program("postgres");
                for setting in settings.iter().copied().chain([socket.as_str()]) {
                    program = program.args(["-c", setting]);
                }
                server = Some(Background::start(program, Stdio::null()));
            }
            answers()
        });
        assert!(up, "PostgreSQL does not come up");
        Server { process: server.expect("it was started") }
    }

    fn ask(&self, question: &str) -> String {
        self.psql().args(["-c", question]).deadline(PATIENCE).run().success()
    }

    /// Commits rows one by one until the server fails, and returns those that were acknowledged.
    fn commit_rows(&self, from: u64) -> BTreeSet<u64> {
        let mut session = Dialogue::start(self.psql());
        let mut rows = BTreeSet::new();
        for row in (from..).step_by(CLIENTS as usize) {
            let statement = format!(
                "INSERT INTO row VALUES ({row}, 'row {row}', repeat(md5('{row}'), 40)) RETURNING 1;"
            );
            let told = session.tell(&statement);
            if !told || session.hear(PATIENCE).as_deref() != Some("1") {
                break;
            }
            rows.insert(row);
        }
        rows
    }

    fn offline(&self, program: &str, word: &str) -> Finished {
        self.program(program).arg(word).deadline(PATIENCE).run()
    }
}

/// A server that runs.
struct Server {
    process: Background,
}

impl Server {
    fn end(mut self, signal: Signal, deadline: Duration) {
        let id = Pid::from_raw(self.process.id().cast_signed()).expect("a process id");
        let _ = kill_process(id, signal);
        // If it does not end by itself, it is killed when dropped.
        wait_until(deadline, || self.process.has_ended());
    }
}

fn check(cluster: &Cluster, committed: &BTreeSet<u64>) -> BTreeSet<u64> {
    cluster.ask("SELECT bt_index_check('row_pkey', true), bt_index_check('row_name_key', true);");
    let right = "name = 'row ' || number AND contents = repeat(md5(number::text), 40)";
    let rows = cluster.ask(&format!("SELECT number FROM row WHERE {right};"));
    let found: BTreeSet<u64> = rows.lines().map(|row| row.parse().expect("a number")).collect();
    assert_eq!(cluster.ask("SELECT count(*) FROM row;").trim(), found.len().to_string());
    let lost: Vec<_> = committed.difference(&found).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    found
}

#[test]
fn postgresql_keeps_commits() {
    require!(Requirement::Fuse, Requirement::Tool("initdb"), Requirement::Tool("setpriv"));
    let mut victim = Victim::new(6, &[("coherence", "exclusive"), ("recordsize", "8K")]);
    let cluster = &Cluster::new(victim.join("data"));
    let mut server = cluster.start();
    cluster.ask("CREATE EXTENSION amcheck;");
    cluster.ask("CREATE TABLE row (number bigint PRIMARY KEY, name text UNIQUE, contents text);");
    let mut committed = BTreeSet::new();
    for _ in 0..kills() {
        let from = committed.last().map_or(1, |last| last + 10);
        let sessions = std::thread::scope(|scope| {
            let sessions: Vec<_> = (0..CLIENTS)
                .map(|client| scope.spawn(move || cluster.commit_rows(from + client)))
                .collect();
            std::thread::sleep(Duration::from_millis(200));
            victim.kill_within(Duration::from_millis(2500));
            server.end(Signal::QUIT, Duration::from_secs(5));
            let ended = sessions.into_iter().map(|session| session.join().expect("it ends"));
            ended.collect::<Vec<_>>()
        });
        committed.extend(sessions.into_iter().flatten());
        victim.revive();
        server = cluster.start();
        committed = check(cluster, &committed);
    }
    assert!(committed.len() > 10, "only {} rows were committed", committed.len());
    server.end(Signal::INT, PATIENCE);
    cluster.offline("pg_checksums", "--check").success();
    let mount = victim.end();
    let at_origin = Path::new("data");
    let cluster = cluster.program("pg_checksums").arg("--check").arg("-D");
    cluster.arg(mount.origin().join(at_origin)).run().success();
}
