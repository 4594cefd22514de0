use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::paths::replace_file;

/// Largest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The starts of a pool whose cache devices saw every change of the origin since.
///
/// A device tells at which start it was last used. If that start is not among these, the pool has
/// been used without the device, or a death could not be written to it: it starts empty.
#[derive(Debug)]
pub(crate) struct Lives {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    /// In hexadecimal digits.
    lives: Vec<String>,
}

impl Lives {
    /// Reads the file at `path`. One that is not there, or makes no sense, stands for none.
    pub(crate) fn load(path: PathBuf) -> Lives {
        let read = || -> io::Result<State> {
            let mut text = String::new();
            fs::File::open(&path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
            Ok(serde_json::from_str(&text)?)
        };
        let state = read().unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                let path = path.display();
                tracing::warn!(%path, %error, "not readable; cache devices start empty");
            }
            State { lives: Vec::new() }
        });
        Lives { path, state: Mutex::new(state) }
    }

    /// Those there are.
    pub(crate) fn all(&self) -> Vec<u128> {
        let state = self.state.lock();
        state.lives.iter().filter_map(|life| u128::from_str_radix(life, 16).ok()).collect()
    }

    /// Replaces them, in a way that lasts.
    pub(crate) fn set(&self, lives: &[u128]) -> io::Result<()> {
        let mut state = self.state.lock();
        let new = State { lives: lives.iter().map(|life| format!("{life:032x}")).collect() };
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        replace_file(&self.path, &serde_json::to_vec(&new)?, 0o600)?;
        *state = new;
        Ok(())
    }
}

/// An id that a name always leads to.
pub(crate) fn id_of(name: &[u8]) -> [u8; 16] {
    xxh3_128(name).to_le_bytes()
}

/// Bytes that nobody can guess.
pub(crate) fn random_bytes() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_last() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("deep/pool.json");
        let lives = Lives::load(path.clone());
        assert!(lives.all().is_empty());
        lives.set(&[1, u128::MAX]).expect("written");
        assert_eq!(Lives::load(path.clone()).all(), [1, u128::MAX]);
        fs::write(&path, "no JSON").expect("written");
        assert!(Lives::load(path).all().is_empty());
    }
}
