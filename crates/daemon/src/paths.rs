use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Longest name of a pool in bytes: names of sockets have little room.
pub const POOL_NAME_BYTES_MAX: usize = 64;

/// Where settings, sockets and locks live.
///
/// | | settings | sockets, locks, logs | what outlasts a stop |
/// |---|---|---|---|
/// | root | `/etc/warmfront/pools` | `/run/warmfront` | `/var/lib/warmfront` |
/// | others | `$XDG_CONFIG_HOME/warmfront/pools` | `$XDG_RUNTIME_DIR/warmfront` | \
///   `$XDG_STATE_HOME/warmfront` |
///
/// Without `XDG_CONFIG_HOME` it is `$HOME/.config`, without `XDG_RUNTIME_DIR` it is
/// `/tmp/warmfront-UID`, without `XDG_STATE_HOME` it is `$HOME/.local/state`.
/// `WARMFRONT_CONFIG_DIR`, `WARMFRONT_RUNTIME_DIR` and `WARMFRONT_STATE_DIR` name the directories
/// themselves; where only the first is set, what outlasts a stop lies in its `state`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    config: PathBuf,
    runtime: PathBuf,
    state: PathBuf,
}

/// Why there is no place for settings or sockets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathsError {
    /// No variable says where the user's settings are.
    #[error(
        "neither HOME nor XDG_CONFIG_HOME is set, so there is no place for settings; \
         set WARMFRONT_CONFIG_DIR"
    )]
    NoHome,
    /// A directory cannot be made.
    #[error("cannot make the directory {}: {error}", path.display())]
    Make {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Somebody else could put a socket or a lock there.
    #[error(
        "{} is not a directory that only this user can enter; remove it, or set \
         WARMFRONT_RUNTIME_DIR to one that is", path.display()
    )]
    NotPrivate {
        /// The directory.
        path: PathBuf,
    },
}

impl Paths {
    /// The places for the present user and environment. Nothing is made yet.
    ///
    /// # Errors
    /// When no variable says where the user's settings are.
    pub fn from_environment() -> Result<Paths, PathsError> {
        Paths::choose(rustix::process::geteuid().as_raw(), |name| {
            std::env::var_os(name).filter(|value| !value.is_empty())
        })
    }

    /// These directories; what outlasts a stop lies in `state` in the first.
    pub fn new(config: impl Into<PathBuf>, runtime: impl Into<PathBuf>) -> Paths {
        let config = config.into();
        Paths { state: config.join("state"), config, runtime: runtime.into() }
    }

    /// The same with another place for what outlasts a stop.
    pub fn with_state(self, state: impl Into<PathBuf>) -> Paths {
        Paths { state: state.into(), ..self }
    }

    fn choose(uid: u32, variable: impl Fn(&str) -> Option<OsString>) -> Result<Paths, PathsError> {
        let named = |name: &str| variable(name).map(PathBuf::from);
        let is_root = uid == 0;
        let config = match named("WARMFRONT_CONFIG_DIR") {
            Some(path) => path,
            None if is_root => "/etc/warmfront/pools".into(),
            None => named("XDG_CONFIG_HOME")
                .or_else(|| named("HOME").map(|home| home.join(".config")))
                .ok_or(PathsError::NoHome)?
                .join("warmfront/pools"),
        };
        let runtime = match named("WARMFRONT_RUNTIME_DIR") {
            Some(path) => path,
            None if is_root => "/run/warmfront".into(),
            None => named("XDG_RUNTIME_DIR")
                .map(|path| path.join("warmfront"))
                .unwrap_or_else(|| format!("/tmp/warmfront-{uid}").into()),
        };
        let state = match (named("WARMFRONT_STATE_DIR"), named("WARMFRONT_CONFIG_DIR")) {
            (Some(path), _) => path,
            (None, Some(config)) => config.join("state"),
            (None, None) if is_root => "/var/lib/warmfront".into(),
            (None, None) => named("XDG_STATE_HOME")
                .or_else(|| named("HOME").map(|home| home.join(".local/state")))
                .ok_or(PathsError::NoHome)?
                .join("warmfront"),
        };
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        Ok(Paths { config: absolute(config), runtime: absolute(runtime), state: absolute(state) })
    }

    /// The directory of settings files.
    pub fn config_directory(&self) -> &Path {
        &self.config
    }

    /// The directory of sockets, descriptors, locks and logs.
    pub fn runtime_directory(&self) -> &Path {
        &self.runtime
    }

    /// The directory of what outlasts a stop.
    pub fn state_directory(&self) -> &Path {
        &self.state
    }

    /// What is known of a pool's cache devices.
    pub(crate) fn caches(&self, pool: &str) -> PathBuf {
        self.state.join(format!("{pool}.caches.json"))
    }

    /// What is known of a pool's log device.
    pub(crate) fn log_marker(&self, pool: &str) -> PathBuf {
        self.state.join(format!("{pool}.log.json"))
    }

    /// The settings file of a pool.
    pub fn settings(&self, pool: &str) -> PathBuf {
        self.config.join(format!("{pool}.toml"))
    }

    /// The control socket of a pool.
    pub fn socket(&self, pool: &str) -> PathBuf {
        self.runtime.join(format!("{pool}.sock"))
    }

    /// What the daemon of a pool says of itself.
    pub fn descriptor(&self, pool: &str) -> PathBuf {
        self.runtime.join(format!("{pool}.json"))
    }

    /// What the daemon of a pool has to say.
    pub fn log(&self, pool: &str) -> PathBuf {
        self.runtime.join(format!("{pool}.log"))
    }

    /// The lock of a pool's name.
    pub(crate) fn pool_lock(&self, pool: &str) -> PathBuf {
        self.runtime.join(format!("{pool}.lock"))
    }

    /// The lock of an origin. Its name is none that a pool can have.
    pub(crate) fn origin_lock(&self, device: u64, inode: u64) -> PathBuf {
        self.runtime.join(format!("@origin-{device:x}-{inode:x}.lock"))
    }

    /// Makes the directory of settings, if it is missing.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_config_directory(&self) -> Result<(), PathsError> {
        make(&self.config)
    }

    /// Makes the directory of sockets and locks, if it is missing, and checks that nobody else can
    /// write to it.
    ///
    /// # Errors
    /// When it cannot be made or is not safe.
    pub fn make_runtime_directory(&self) -> Result<(), PathsError> {
        make(&self.runtime)?;
        // Others must not be able to plant a socket. Reading is harmless: sockets have modes.
        let others_write = 0o022;
        let uid = rustix::process::geteuid().as_raw();
        let metadata = std::fs::symlink_metadata(&self.runtime)
            .map_err(|error| PathsError::Make { path: self.runtime.clone(), error })?;
        let is_ours = metadata.uid() == uid || (uid == 0 && metadata.is_dir());
        match metadata.is_dir() && is_ours && metadata.mode() & others_write == 0 {
            true => Ok(()),
            false => Err(PathsError::NotPrivate { path: self.runtime.clone() }),
        }
    }
}

fn make(path: &Path) -> Result<(), PathsError> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| PathsError::Make { path: path.to_owned(), error })
}

/// Removes a file, if it is there.
///
/// # Errors
/// When it stays.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a file so that after a crash it holds either what it held before or all of `contents`.
///
/// # Errors
/// When a step of it fails; then the file is as it was.
pub(crate) fn replace_file(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut name = OsString::from(".");
    name.push(path.file_name().ok_or(io::ErrorKind::InvalidInput)?);
    name.push(format!(".{}", std::process::id()));
    let temporary = directory.join(name);
    let written = (|| {
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
        file.write_all(contents)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        File::open(directory)?.sync_all()
    })();
    if written.is_err() {
        // If the rename was not reached, nothing but our own file is left.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn choose(uid: u32, variables: &[(&str, &str)]) -> Result<Paths, PathsError> {
        Paths::choose(uid, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn places_follow_the_user_and_the_environment() {
        let root = choose(0, &[]).expect("root needs no variables");
        let places = |config: &str, runtime: &str, state: &str| {
            Paths::new(config, runtime).with_state(state)
        };
        let expected = places("/etc/warmfront/pools", "/run/warmfront", "/var/lib/warmfront");
        assert_eq!(root, expected);
        let user = choose(1000, &[("HOME", "/home/a")]).expect("a home is enough");
        let state = "/home/a/.local/state/warmfront";
        let expected = places("/home/a/.config/warmfront/pools", "/tmp/warmfront-1000", state);
        assert_eq!(user, expected);
        let xdg = [("XDG_CONFIG_HOME", "/c"), ("XDG_RUNTIME_DIR", "/r"), ("XDG_STATE_HOME", "/s")];
        let user = choose(1000, &xdg).expect("no home needed");
        assert_eq!(user, places("/c/warmfront/pools", "/r/warmfront", "/s/warmfront"));
        let both = [("WARMFRONT_CONFIG_DIR", "/c"), ("WARMFRONT_RUNTIME_DIR", "/r")];
        assert_eq!(choose(0, &both).expect("named"), Paths::new("/c", "/r"));
        assert!(matches!(choose(1000, &[]), Err(PathsError::NoHome)));
    }

    #[test]
    fn a_runtime_directory_that_others_can_write_to_is_refused() {
        let base = tempfile::tempdir().expect("a directory");
        let paths = Paths::new(base.path().join("c"), base.path().join("r"));
        paths.make_runtime_directory().expect("made");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(paths.runtime_directory(), open).expect("its mode");
        let refused = paths.make_runtime_directory();
        assert!(matches!(refused, Err(PathsError::NotPrivate { .. })));
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("file");
        replace_file(&path, b"one", 0o600).expect("written");
        replace_file(&path, b"two", 0o600).expect("written again");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"two");
        assert_eq!(std::fs::read_dir(base.path()).expect("a directory").count(), 1);
        let missing = base.path().join("missing/file");
        assert!(replace_file(&missing, b"x", 0o600).is_err());
    }
}
