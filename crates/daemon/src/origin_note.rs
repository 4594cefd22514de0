use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::mountinfo::{MountEntry, mounts};
use crate::origin_id::OriginId;
use crate::overlap::overlap;
use crate::paths::replace_file;
use crate::wire_path;

/// Largest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Most files of other pools that are looked at.
const FILES_MAX: usize = 10_000;
/// How the names of such files end.
const ENDING: &str = "origin.json";

/// The origin of which a pool has written down what it knows.
///
/// It lies beside that. So a pool that is about to change an origin finds the others that have
/// stood before it, which must not believe any more what they know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OriginNote {
    /// Where it is, without links and detours.
    #[serde(with = "wire_path")]
    pub path: PathBuf,
    /// What it is known by, wherever it is.
    pub id: OriginId,
}

impl OriginNote {
    /// That of the directory at `path`.
    pub fn of(path: &Path) -> io::Result<OriginNote> {
        let path = path.canonicalize()?;
        let id = OriginId::at(&path)?;
        Ok(OriginNote { path, id })
    }

    /// The file of a pool whose state lies at `path`.
    pub fn file(path: &Path) -> PathBuf {
        path.with_extension(ENDING)
    }

    /// Reads a file. One that is not there, or makes no sense, tells of no origin.
    fn load(file: &Path) -> Option<OriginNote> {
        let mut text = String::new();
        File::open(file).ok()?.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Whether this is what `file` says.
    pub fn is_in(&self, file: &Path) -> bool {
        OriginNote::load(file).as_ref() == Some(self)
    }

    /// Writes the file, in a way that lasts.
    pub fn save(&self, file: &Path) -> io::Result<()> {
        replace_file(file, &serde_json::to_vec(self)?, 0o600)
    }

    /// Whether a change of what is in the one may be a change of what is in the other.
    fn overlaps(&self, other: &OriginNote, mounts: &[MountEntry]) -> bool {
        self.id == other.id
            || self.path.starts_with(&other.path)
            || other.path.starts_with(&self.path)
            || overlap(mounts, &self.path, &other.path, None).is_some()
    }

    /// The pools that are known to have stood before something of the same: where the state of
    /// each lies, in `directory`.
    pub fn pools(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mounts = mounts()?;
        let mut pools = Vec::new();
        for entry in entries.take(FILES_MAX) {
            let path = entry?.path();
            let is_note = path.as_os_str().as_encoded_bytes().ends_with(ENDING.as_bytes());
            let other = is_note.then(|| OriginNote::load(&path)).flatten();
            if other.is_some_and(|other| self.overlaps(&other, &mounts)) {
                pools.push(path.with_extension("").with_extension("json"));
            }
        }
        Ok(pools)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_before_the_same_files_find_each_other() {
        let base = tempfile::tempdir().expect("a directory");
        let states = ["a", "b", "c", "d"].map(|name| base.path().join(name).with_extension("json"));
        // The third is the first one, as it was known by another path.
        let origins = [("/slow", "x"), ("/slow/deep", "y"), ("/other", "x"), ("/slower", "z")];
        let notes = origins.map(|(path, name)| {
            let known = base.path().join(name);
            fs::create_dir_all(&known).expect("a directory");
            OriginNote { path: path.into(), id: OriginId::at(&known).expect("it is there") }
        });
        for (note, state) in notes.iter().zip(&states) {
            let file = OriginNote::file(state);
            assert!(!note.is_in(&file));
            note.save(&file).expect("written");
            assert!(note.is_in(&file) && !notes[3].is_in(&OriginNote::file(&states[0])));
        }
        fs::write(base.path().join("e.origin.json"), "no JSON").expect("written");
        let found = |at: usize| {
            let mut found = notes[at].pools(base.path()).expect("read");
            found.sort();
            found
        };
        assert_eq!(found(0), states[..3]);
        assert_eq!(found(1), states[..2]);
        assert_eq!(found(2), [states[0].clone(), states[2].clone()]);
        assert_eq!(found(3), states[3..]);
        assert!(notes[0].pools(Path::new("/nowhere/x")).expect("nothing is there").is_empty());
    }
}
