use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use serde::{Deserialize, Serialize};

use crate::origin_id::OriginId;
use crate::paths::replace_file;
use crate::wire_path;

/// Largest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Most logs that were given up and are remembered.
const GIVEN_UP_MAX: usize = 64;

/// What is known of a pool's log device, and outlasts a stop.
///
/// It is written before the log is used, and again when the origin has everything: a log that is
/// missing in between is missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    /// The log that may hold what the origin does not, by its id in hexadecimal digits.
    pub in_use: Option<String>,
    /// The epoch of its superblock when that was last noted, after it lasted: each start and each
    /// group gives it a greater one, so that one with a smaller one is an older copy.
    #[serde(default)]
    pub epoch: u64,
    /// Where it lies.
    #[serde(with = "wire_path")]
    pub path: PathBuf,
    /// The pool's name when it was last used.
    pub pool: String,
    /// The pool's origin.
    #[serde(with = "wire_path")]
    pub origin: PathBuf,
    /// What that is known by wherever it lies. Earlier versions did not note it.
    #[serde(default)]
    pub origin_id: Option<OriginId>,
    /// The moment of the origin's machine from which on it has lost nothing: the start of the
    /// system, and the mount that the origin lies in.
    pub since: String,
    /// Logs that must not be replayed: without them something was said to last that they do not
    /// know.
    pub given_up: Vec<String>,
}

impl Marker {
    /// Reads the file. `None` if there is none.
    ///
    /// # Errors
    /// When it cannot be read or makes no sense: nobody knows then what is missing.
    pub fn load(path: &Path) -> io::Result<Option<Marker>> {
        let mut text = String::new();
        match fs::File::open(path) {
            Ok(file) => file.take(FILE_BYTES_MAX).read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(serde_json::from_str(&text)?))
    }

    /// Writes the file, in a way that lasts.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        replace_file(path, &serde_json::to_vec(self)?, 0o600)
    }

    /// Whether the log in use had come farther when it was noted than the one with this `id`
    /// and epoch.
    pub fn is_newer_than(&self, id: &str, epoch: u64) -> bool {
        self.in_use.as_deref() == Some(id) && epoch < self.epoch
    }

    /// Notes that a log must not be replayed.
    pub fn give_up(&mut self, id: &str) {
        if !self.given_up.iter().any(|known| known == id) {
            self.given_up.push(id.to_string());
        }
        let excess = self.given_up.len().saturating_sub(GIVEN_UP_MAX);
        self.given_up.drain(..excess);
        self.in_use = None;
    }
}

/// A log's id in hexadecimal digits.
pub(super) fn digits(id: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(id))
}

/// `STATX_MNT_ID_UNIQUE` of `statx(2)`, since Linux 6.8: older kernels give the number of a mount
/// that has ended to another one.
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Names the moment from which on the file system at `origin` has lost nothing: as long as it is
/// the same, only processes can have died.
pub(super) fn since(origin: &Path) -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let directory = rustix::fs::openat(
        CWD,
        origin,
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let mask = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID | MNT_ID_UNIQUE;
    let stat = statx(directory.as_fd(), c"", AtFlags::EMPTY_PATH, mask)?;
    let (major, minor) = (stat.stx_dev_major, stat.stx_dev_minor);
    Ok(format!("{} {major}:{minor} {}", boot.trim(), stat.stx_mnt_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_last_and_forget_the_oldest_log() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("deep/pool.log.json");
        assert_eq!(Marker::load(&path).expect("nothing there"), None);
        let mut marker = Marker {
            in_use: Some(digits([7; 16])),
            epoch: 12,
            path: "/flash/log".into(),
            pool: "tank".into(),
            origin: "/slow".into(),
            origin_id: Some(OriginId::at(base.path()).expect("it is there")),
            since: since(base.path()).expect("it is there"),
            given_up: Vec::new(),
        };
        marker.save(&path).expect("written");
        assert_eq!(Marker::load(&path).expect("readable"), Some(marker.clone()));
        for id in 0..100_u128 {
            marker.give_up(&digits(id.to_be_bytes()));
            marker.give_up(&digits(id.to_be_bytes()));
        }
        assert_eq!((marker.given_up.len(), &marker.in_use), (GIVEN_UP_MAX, &None));
        assert!(marker.given_up.contains(&digits(99_u128.to_be_bytes())));
        fs::write(&path, "half a li").expect("written");
        assert!(Marker::load(&path).is_err(), "nobody knows what it said");
        assert_eq!(since(base.path()).expect("there"), marker.since);
    }
}
