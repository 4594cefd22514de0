use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use storage::block_on;
use zil::{Made, Name, Record};

use super::LogTarget;
use super::desk::Tell;
use super::error::LogError;
use super::inspect::LogDiscarded;
use super::marker::Marker;
use crate::device_path::exists;
use crate::error::ControlError;
use crate::paths::{Paths, remove_file};

/// Most files that are told apart; of more it is told that there are so many at least.
const FILES_MAX: usize = 10_000;

/// What was given up with a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// What of its log.
    pub log: LogDiscarded,
    /// The files of which the log spoke, as far as they are known.
    pub files: BTreeSet<OsString>,
}

/// Forgets the log of a pool that is removed. One that may hold what the origin does not is given
/// up first if `force`. What tells of logs that must never be replayed stays.
///
/// # Errors
/// When the log may hold what the origin does not and nothing is forced, or cannot be given up.
pub(crate) fn forget(
    paths: &Paths,
    pool: &str,
    force: bool,
    tell: Tell<'_>,
) -> Result<Option<GivenUp>, ControlError> {
    let mut given_up = None;
    let path = paths.log_marker(pool);
    let state = |error| LogError::State { path: path.clone(), error };
    let load = || Marker::load(&path).map_err(state);
    if let Some(marker) = load()?.filter(|marker| marker.in_use.is_some()) {
        if !force {
            let (path, pool) = (marker.path, pool.to_string());
            return Err(match exists(&path) {
                true => LogError::Full { path, pool }.into(),
                false => LogError::Absent { path, pool }.into(),
            });
        }
        let target = LogTarget::find(paths, pool.as_ref())?;
        let files = target.files();
        given_up = Some(GivenUp { log: target.discard(paths, tell)?, files });
    }
    if load()?.is_some_and(|marker| !marker.given_up.is_empty()) {
        return Ok(given_up);
    }
    remove_file(&path).map_err(state)?;
    Ok(given_up)
}

impl LogTarget {
    /// The files of which the log speaks, as far as it can be read.
    fn files(&self) -> BTreeSet<OsString> {
        let mut files = BTreeSet::new();
        let Ok(mut recovery) = self.open() else { return files };
        while let Ok(Some((_, record))) = block_on(recovery.next()) {
            if files.len() < FILES_MAX {
                files.extend(file_of(&record));
            }
        }
        files
    }
}

/// The file that a record tells of, by its path below the origin.
fn file_of(record: &Record<'_>) -> Option<OsString> {
    let at = |name: &Name<'_>| Path::new(name.parent.path).join(name.name).into_os_string();
    match record {
        Record::Write { file: place, .. }
        | Record::Truncate { file: place, .. }
        | Record::Allocate { file: place, .. }
        | Record::SetAttributes { object: place, .. }
        | Record::SetXattr { object: place, .. }
        | Record::RemoveXattr { object: place, .. } => Some(place.path.to_os_string()),
        Record::Create(Made { name, .. })
        | Record::MakeDirectory(Made { name, .. })
        | Record::Symlink { made: Made { name, .. }, .. }
        | Record::MakeNode { made: Made { name, .. }, .. }
        | Record::Link { name, .. }
        | Record::Rename { to: name, .. }
        | Record::Unlink { name, .. }
        | Record::RemoveDirectory { name, .. } => Some(at(name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_forgotten_is() {
        let base = tempfile::tempdir().expect("a directory");
        let paths = Paths::new(base.path().join("c"), base.path().join("r"));
        let file = paths.log_marker("tank");
        let mut marker = Marker {
            in_use: Some("07".to_string()),
            epoch: 0,
            path: "/flash/log".into(),
            pool: "tank".into(),
            origin: "/slow".into(),
            origin_id: None,
            since: String::new(),
            given_up: Vec::new(),
        };
        forget(&paths, "tank", false, &|_| ()).expect("there is nothing to forget");
        marker.save(&file).expect("written");
        let refused = forget(&paths, "tank", false, &|_| ());
        assert!(matches!(refused, Err(ControlError::Log(LogError::Absent { .. }))), "{refused:?}");
        marker.path = base.path().join("log");
        std::fs::write(&marker.path, "a log").expect("written");
        marker.save(&file).expect("written");
        let refused = forget(&paths, "tank", false, &|_| ());
        assert!(matches!(refused, Err(ControlError::Log(LogError::Full { .. }))), "{refused:?}");
        assert!(file.exists(), "it is known as before");
        marker.in_use = None;
        marker.save(&file).expect("written");
        forget(&paths, "tank", false, &|_| ()).expect("the origin has everything");
        assert!(!file.exists());
        marker.give_up("07");
        marker.save(&file).expect("written");
        forget(&paths, "tank", false, &|_| ()).expect("the origin has everything");
        assert!(file.exists(), "should the log come again, it must not be replayed");
    }
}
