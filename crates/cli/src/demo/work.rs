use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::demo::selection::Selection;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;

/// Random reads of one run.
pub(crate) const RANDOM_READS: u64 = 400;
/// Bytes of a random read.
pub(crate) const RANDOM_READ_BYTES: usize = 4096;

/// What is done cold and then warm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// `find` over the tree with `-perm` tests.
    Find,
    /// Every file from start to end.
    Read,
    /// 4 KiB at random places.
    Random,
}

impl Work {
    pub(crate) const ALL: [Work; 3] = [Work::Find, Work::Read, Work::Random];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Work::Find => "find -perm",
            Work::Read => "read all files",
            Work::Random => "4 KiB random reads",
        }
    }

    /// How many like things are done, where a rate says more than a time.
    pub(crate) fn operations(self) -> Option<u64> {
        (self == Work::Random).then_some(RANDOM_READS)
    }

    /// Does it on files below `top`.
    pub(crate) fn run_on_files(
        self,
        top: &Path,
        selection: &Selection,
        interrupt: &Interrupt,
    ) -> Result<Duration> {
        let started = Instant::now();
        match self {
            Work::Find => find(top)?,
            Work::Read => {
                let mut buffer = vec![0; 1 << 20];
                for (path, _) in &selection.files {
                    check(interrupt)?;
                    let mut file = open(&top.join(path))?;
                    while file.read(&mut buffer).map_err(|error| failed(path, error))? > 0 {}
                }
            }
            Work::Random => {
                let mut buffer = [0; RANDOM_READ_BYTES];
                for (path, offset) in places(selection) {
                    check(interrupt)?;
                    let file = open(&top.join(path))?;
                    file.read_at(&mut buffer, offset).map_err(|error| failed(path, error))?;
                }
            }
        }
        Ok(started.elapsed())
    }
}

/// Places of random reads: the same ones each time, each byte as likely as any other.
pub(crate) fn places(selection: &Selection) -> impl Iterator<Item = (&Path, u64)> {
    let ends: Vec<u64> = selection
        .files
        .iter()
        .scan(0, |end, (_, size)| {
            *end += size;
            Some(*end)
        })
        .collect();
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    (0..RANDOM_READS).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = state % selection.bytes.max(1);
        let index = ends.partition_point(|end| *end <= place);
        let (path, size) = &selection.files[index];
        let offset = place - (ends[index] - size);
        (path.as_path(), offset / RANDOM_READ_BYTES as u64 * RANDOM_READ_BYTES as u64)
    })
}

/// Stops when somebody has pressed ctrl-C.
pub(crate) fn check(interrupt: &Interrupt) -> Result<()> {
    match interrupt.is_set() {
        true => Err(Failure::interrupted("stopped; nothing is left behind")),
        false => Ok(()),
    }
}

fn find(top: &Path) -> Result<()> {
    let tests = ["-type", "f", "(", "-perm", "-004000", "-o", "-perm", "-002000", ")"];
    let status =
        Command::new("find").arg(top).args(tests).stdout(Stdio::null()).status().map_err(
            |error| Failure::new(format!("cannot run find: {error}; install findutils")),
        )?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("find failed below {}", top.display()))),
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| failed(path, error))
}

fn failed(path: &Path, error: std::io::Error) -> Failure {
    Failure::new(format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn random_places_lie_in_the_files_and_are_the_same_again() {
        let files: Vec<(PathBuf, u64)> =
            (0..50u64).map(|index| (PathBuf::from(index.to_string()), index * 5000 + 1)).collect();
        let bytes = files.iter().map(|(_, size)| size).sum();
        let selection = Selection { files, directories: 1, bytes };
        let first: Vec<_> = places(&selection).collect();
        assert_eq!(first.len() as u64, RANDOM_READS);
        for (path, offset) in &first {
            let size = selection.files.iter().find(|(name, _)| name == path).expect("a file").1;
            assert!(*offset < size && offset % 4096 == 0);
        }
        assert_eq!(places(&selection).collect::<Vec<_>>(), first);
    }
}
