use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::{Program, source_tree, test_directory};

/// The `warmfront` command with settings and sockets of its own, so that no test sees another's
/// pools or the user's.
pub struct Warmfront {
    home: TempDir,
}

impl Warmfront {
    /// Makes empty settings.
    pub fn new() -> Warmfront {
        let home = test_directory();
        for name in ["config", "runtime"] {
            let path = home.path().join(name);
            std::fs::create_dir(&path).expect("a directory for settings");
            std::fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("its mode");
        }
        Warmfront { home }
    }

    /// The directory that holds the settings.
    pub fn config_directory(&self) -> PathBuf {
        self.home.path().join("config")
    }

    /// The directory that holds sockets and locks.
    pub fn runtime_directory(&self) -> PathBuf {
        self.home.path().join("runtime")
    }

    /// The command with these arguments.
    pub fn program<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Program {
        Program::new(binary())
            .args(arguments)
            .env("WARMFRONT_CONFIG_DIR", self.config_directory())
            .env("WARMFRONT_RUNTIME_DIR", self.runtime_directory())
    }

    /// Runs the command, which must succeed, and returns its standard output.
    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> String {
        self.program(arguments).run().success()
    }

    /// What `warmfront status --json` tells of the pool mounted at `target`.
    #[track_caller]
    pub fn status(&self, target: &Path) -> Value {
        let program = self.program(["status", "--json"]).arg(target);
        serde_json::from_str(&program.run().success()).expect("status --json prints JSON")
    }
}

impl Default for Warmfront {
    fn default() -> Warmfront {
        Warmfront::new()
    }
}

/// Where the command under test is.
///
/// `WARMFRONT_BIN` names it; without that it is built here once, so that a bare `cargo test` never
/// tests an old one.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(chosen) = std::env::var_os("WARMFRONT_BIN") {
            return PathBuf::from(chosen);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--release", "--quiet", "--package", "warmfront-cli"])
            .current_dir(source_tree())
            .status()
            .expect("cargo runs");
        assert!(built.success(), "the warmfront command does not build");
        let test = std::env::current_exe().expect("a test has a path");
        let release = test.parent().and_then(Path::parent).expect("TARGET/release/deps/TEST");
        release.join("warmfront")
    })
}

/// The value of the counter `name` in what `status --json` printed.
///
/// Panics when there is none: a counter that is gone must not pass for zero.
#[track_caller]
pub fn counter(status: &Value, name: &str) -> u64 {
    fn find(value: &Value, name: &str) -> Option<u64> {
        match value {
            Value::Object(fields) => match fields.get(name).and_then(Value::as_u64) {
                Some(number) => Some(number),
                None => fields.values().find_map(|field| find(field, name)),
            },
            Value::Array(items) => items.iter().find_map(|item| find(item, name)),
            _ => None,
        }
    }
    find(status, name).unwrap_or_else(|| panic!("no counter {name} in {status:#}"))
}

/// All calls that the pool made to its origin, of any kind.
#[track_caller]
pub fn origin_calls(status: &Value) -> u64 {
    ["origin_reads", "origin_writes", "origin_metadata_calls"]
        .iter()
        .map(|name| counter(status, name))
        .sum()
}
