use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where Debian has the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Who runs it when this is run as root, which it refuses to be.
const USER: &str = "postgres";
const SCALE: &str = "5";

/// Transactions a second of `pgbench` on a new cluster in `place`.
pub(super) fn transactions(place: &Path, clients: u32, duration: Duration) -> Result<f64, String> {
    let socket = tempfile::tempdir_in("/var/tmp").map_err(|error| error.to_string())?;
    for directory in [place, socket.path()] {
        give(directory)?;
    }
    let cluster = Cluster {
        programs: programs()?,
        data: place.join("data"),
        socket: socket.path().to_owned(),
    };
    cluster.run("initdb", &["--auth=trust", "--no-instructions"])?;
    let socket = format!(
        "-c listen_addresses= -c dynamic_shared_memory_type=mmap -k {}",
        cluster.socket.display()
    );
    let log = cluster.socket.join("log").display().to_string();
    cluster.run("pg_ctl", &["start", "--wait", "--log", &log, "--options", &socket])?;
    let figure = cluster.measure(clients, duration);
    cluster.run("pg_ctl", &["stop", "--wait", "--mode=fast", "--timeout=300"])?;
    figure
}

struct Cluster {
    programs: PathBuf,
    data: PathBuf,
    socket: PathBuf,
}

impl Cluster {
    fn measure(&self, clients: u32, duration: Duration) -> Result<f64, String> {
        let clients = format!("--client={clients}");
        let seconds = format!("--time={}", duration.as_secs());
        self.run("pgbench", &["--initialize", "--quiet", "--scale", SCALE])?;
        let told = self.run("pgbench", &[&clients, "--jobs=2", &seconds])?;
        told.lines()
            .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok())
            .ok_or_else(|| format!("pgbench told no rate: {told}"))
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = match rustix::process::geteuid().is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", USER, "--regid", USER, "--init-groups"]);
                command.arg(self.programs.join(program));
                command
            }
            false => Command::new(self.programs.join(program)),
        };
        command.args(arguments).env("PGDATA", &self.data).env("PGHOST", &self.socket);
        command.env("PGDATABASE", "postgres").env("PGUSER", USER).current_dir("/");
        if program == "initdb" {
            command.args(["--username", USER]);
        }
        // A server that goes on would keep a pipe open.
        let told = tempfile::tempfile().map_err(|error| error.to_string())?;
        let output = told.try_clone().map_err(|error| error.to_string())?;
        let status = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::null())
            .status()
            .map_err(|error| format!("cannot run {program}: {error}"))?;
        let text = read_again(told).map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(text),
            false => Err(format!("{program} failed: {status}: {text}")),
        }
    }
}

fn read_again(mut file: std::fs::File) -> std::io::Result<String> {
    use std::io::{Read, Seek};
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// The programs of the newest version.
fn programs() -> Result<PathBuf, String> {
    let versions = std::fs::read_dir(VERSIONS)
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path().join("bin"))).max());
    match versions {
        Ok(Some(path)) => Ok(path),
        _ => Err(format!("there is no PostgreSQL in {VERSIONS}; install it")),
    }
}

/// Gives a directory to who runs the server.
fn give(directory: &Path) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let status = Command::new("chown").arg(USER).arg(directory).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("cannot give {} to {USER}", directory.display())),
    }
}
