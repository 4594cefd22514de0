use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Statements of each client: more than it makes in its time.
const STATEMENTS: usize = 400_000;
const TABLE: &str = "CREATE DATABASE bench; CREATE TABLE bench.rows_ \
                     (number INT AUTO_INCREMENT PRIMARY KEY, text TEXT) ENGINE=InnoDB;";
const STATEMENT: &str =
    "INSERT INTO bench.rows_ (text) VALUES ('one row of some forty bytes of text');\n";
/// How long the server may take to start or to stop.
const DEADLINE: Duration = Duration::from_secs(120);

/// Commits of one row a second by so many clients, with InnoDB as it is set up by default, in a new
/// server that keeps its data in `place`.
pub(super) fn commits(place: &Path, clients: u32, duration: Duration) -> Result<f64, String> {
    let data = place.join("data");
    let own = tempfile::tempdir_in("/var/tmp").map_err(|error| error.to_string())?;
    let mut install = Command::new("mariadb-install-db");
    install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
    install.args(["--skip-test-db", "--user=root"]).arg(format!("--datadir={}", data.display()));
    let installed = install.output().map_err(|error| format!("mariadb-install-db: {error}"))?;
    if !installed.status.success() {
        return Err(format!("no database: {}", String::from_utf8_lossy(&installed.stderr)));
    }
    let mut server = Server::start(&data, own.path())?;
    let figure = server.measure(clients, duration);
    server.stop()?;
    figure
}

struct Server {
    socket: PathBuf,
    child: Child,
}

impl Server {
    fn start(data: &Path, own: &Path) -> Result<Server, String> {
        let socket = own.join("socket");
        let child = Command::new("mariadbd")
            .args(["--no-defaults", "--skip-networking", "--user=root"])
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", own.join("pid").display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                format!("cannot run mariadbd: {error}; install mariadb-server-core")
            })?;
        let server = Server { socket, child };
        let began = Instant::now();
        while let Err(error) = server.ask("SELECT 1") {
            if began.elapsed() > DEADLINE {
                return Err(format!("mariadbd does not answer: {error}"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(server)
    }

    fn client(&self) -> Command {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--user=root", "--skip-column-names"]);
        command.arg(format!("--socket={}", self.socket.display()));
        command
    }

    fn ask(&self, question: &str) -> Result<String, String> {
        let output = self.client().args(["--execute", question]).output();
        let output = output.map_err(|error| format!("cannot run mariadb: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_string()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn rows(&self) -> Result<f64, String> {
        let count = self.ask("SELECT count(*) FROM bench.rows_")?;
        count.parse().map_err(|_| format!("no count of rows: {count}"))
    }

    fn measure(&self, clients: u32, duration: Duration) -> Result<f64, String> {
        let failed = |error: std::io::Error| format!("cannot run mariadb: {error}");
        self.ask(TABLE)?;
        let mut running = Vec::new();
        let began = Instant::now();
        for _ in 0..clients {
            let mut statements = tempfile::tempfile().map_err(failed)?;
            let write = statements.write_all(STATEMENT.repeat(STATEMENTS).as_bytes());
            write.and_then(|()| statements.rewind()).map_err(failed)?;
            let client = self.client().stdin(Stdio::from(statements)).stdout(Stdio::null()).spawn();
            running.push(client.map_err(failed)?);
        }
        // What is made while they start does not count.
        let (before, since) = (self.rows()?, Instant::now());
        std::thread::sleep(duration);
        let made = self.rows()? - before;
        let elapsed = since.elapsed().as_secs_f64();
        for mut client in running {
            if let Some(status) = client.try_wait().map_err(failed)? {
                let after = began.elapsed();
                return Err(format!("a client has ended after {after:.1?}: {status}"));
            }
            client.kill().and_then(|()| client.wait()).map_err(failed)?;
        }
        Ok(made / elapsed)
    }

    fn stop(&mut self) -> Result<(), String> {
        self.ask("SHUTDOWN")?;
        let began = Instant::now();
        while began.elapsed() < DEADLINE {
            if self.child.try_wait().map_err(|error| error.to_string())?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err("mariadbd does not stop".to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is left to do for one that has stopped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
