use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::paths::replace_file;

/// Largest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Most files that are looked at for the owner of a device.
const FILES_MAX: usize = 10_000;

/// The starts of a pool whose cache devices saw every change of the origin since.
///
/// A device tells at which start it was last used. If that start is not among these, the pool has
/// been used without the device, or a death could not be written to it: it starts empty.
#[derive(Debug)]
pub(crate) struct Lives {
    path: PathBuf,
    /// The pool's id, and what people call it.
    pool: ([u8; 16], String),
    /// And how often all were struck off.
    state: Mutex<(State, u64)>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct State {
    /// In hexadecimal digits.
    lives: Vec<String>,
    /// All were struck off, and none has been noted since.
    #[serde(default)]
    struck: bool,
    /// The pool's id, in hexadecimal digits.
    #[serde(default)]
    pool: String,
    /// What people call it.
    #[serde(default)]
    called: String,
    /// The devices that it has used, by their paths, and where the file system of each is mounted.
    #[serde(default)]
    devices: BTreeMap<String, String>,
}

/// What a file says; one that is too long is cut, and then makes no sense.
fn read(path: &Path) -> io::Result<State> {
    let mut text = String::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

impl Lives {
    /// Reads the file at `path`. One that is not there, or makes no sense, stands for none.
    pub(crate) fn load(path: PathBuf, pool: [u8; 16], called: String) -> Lives {
        let state = read(&path).unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                let path = path.display();
                tracing::warn!(%path, %error, "not readable; cache devices start empty");
            }
            State::default()
        });
        Lives { path, pool: (pool, called), state: Mutex::new((state, 0)) }
    }

    /// Those there are.
    pub(crate) fn all(&self) -> Vec<u128> {
        let (state, _) = &*self.state.lock();
        state.lives.iter().filter_map(|life| u128::from_str_radix(life, 16).ok()).collect()
    }

    /// What people call the pool with this id, if it has had cache devices on this machine.
    pub(crate) fn owner(&self, pool: [u8; 16]) -> Option<String> {
        let wanted = digits(pool);
        let files = fs::read_dir(self.path.parent()?).ok()?.take(FILES_MAX);
        let json = files.filter_map(|file| Some(file.ok()?.path()));
        let json = json.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let mut states = json.filter_map(|path| read(&path).ok());
        states.find(|state| state.pool == wanted).map(|state| state.called)
    }

    /// Where the file system of a device was mounted when the pool last used it.
    pub(crate) fn place_of(&self, device: &Path) -> Option<PathBuf> {
        let (state, _) = &*self.state.lock();
        state.devices.get(&*device.to_string_lossy()).map(PathBuf::from)
    }

    /// Notes where the file system of a device that is used is mounted; `None` forgets the device.
    pub(crate) fn note(&self, device: &Path, place: Option<&Path>) -> io::Result<()> {
        let (state, _) = &mut *self.state.lock();
        let key = device.to_string_lossy().into_owned();
        let place = place.map(|place| place.to_string_lossy().into_owned());
        if state.devices.get(&key) == place.as_ref() {
            return Ok(());
        }
        let mut new = state.clone();
        match place {
            Some(place) => new.devices.insert(key, place),
            None => new.devices.remove(&key),
        };
        self.write(state, new)
    }

    /// Replaces them, in a way that lasts.
    pub(crate) fn set(&self, lives: &[u128]) -> io::Result<()> {
        self.replace(&mut self.state.lock().0, lives, false)
    }

    /// Strikes all off, in a way that lasts.
    pub(crate) fn strike(&self) -> io::Result<()> {
        let (state, strikes) = &mut *self.state.lock();
        *strikes += 1;
        self.replace(state, &[], true)
    }

    /// Whether all were struck off and none has been noted since.
    pub(crate) fn is_struck(&self) -> bool {
        self.state.lock().0.struck
    }

    /// How often all were struck off.
    pub(crate) fn strikes(&self) -> u64 {
        self.state.lock().1
    }

    /// Replaces them, unless all were struck off since that had happened so often.
    pub(crate) fn set_unless_struck(&self, lives: &[u128], strikes: u64) -> io::Result<()> {
        let (state, now) = &mut *self.state.lock();
        if *now == strikes { self.replace(state, lives, false) } else { Ok(()) }
    }

    fn replace(&self, state: &mut State, lives: &[u128], struck: bool) -> io::Result<()> {
        let lives = lives.iter().map(|life| format!("{life:032x}")).collect();
        let new = State { lives, struck, ..state.clone() };
        self.write(state, new)
    }

    fn write(&self, state: &mut State, new: State) -> io::Result<()> {
        let (pool, called) = (digits(self.pool.0), self.pool.1.clone());
        let new = State { pool, called, ..new };
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        replace_file(&self.path, &serde_json::to_vec(&new)?, 0o600)?;
        *state = new;
        Ok(())
    }
}

fn digits(id: [u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
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
        let load = |path: &Path| Lives::load(path.to_owned(), [7; 16], "pool `a`".to_string());
        let lives = load(&path);
        assert!(lives.all().is_empty());
        assert_eq!(lives.owner([7; 16]), None, "nothing is written yet");
        lives.set(&[1, u128::MAX]).expect("written");
        assert_eq!(load(&path).all(), [1, u128::MAX]);
        assert_eq!(lives.owner([7; 16]).as_deref(), Some("pool `a`"));
        assert_eq!(lives.owner([8; 16]), None);
        fs::write(&path, r#"{"lives":["ff"]}"#).expect("written");
        assert_eq!(load(&path).all(), [255], "an earlier version has written it");
        fs::write(&path, "no JSON").expect("written");
        assert!(load(&path).all().is_empty());
    }

    #[test]
    fn devices_and_their_places_last() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("pool.json");
        let load = || Lives::load(path.clone(), [7; 16], "pool `a`".to_string());
        let (device, place) = (Path::new("/flash/cache"), Path::new("/flash"));
        let lives = load();
        lives.note(device, Some(place)).expect("written");
        lives.set(&[1]).expect("written");
        assert_eq!(load().place_of(device).as_deref(), Some(place));
        lives.note(device, None).expect("written");
        assert_eq!((load().place_of(device), load().all()), (None, vec![1]));
    }

    #[test]
    fn what_was_struck_off_meanwhile_does_not_come_back() {
        let base = tempfile::tempdir().expect("a directory");
        let path = base.path().join("pool.json");
        let lives = Lives::load(path, [7; 16], "pool `a`".to_string());
        for (is_struck, expected) in [(false, vec![2]), (true, vec![])] {
            lives.set(&[1]).expect("written");
            let strikes = lives.strikes();
            if is_struck {
                lives.strike().expect("written");
            }
            lives.set_unless_struck(&[2], strikes).expect("written");
            assert_eq!((lives.all(), lives.is_struck()), (expected, is_struck));
        }
    }
}
