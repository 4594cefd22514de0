use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use warmfront_tests::{random_bytes, wait_until};

/// Bytes of a record: no divisor of any block.
const RECORD_BYTES: usize = 1000;
/// Records after which a journal begins from the start again.
const RECORDS: u64 = 4000;
/// Between two commits to a journal.
const BETWEEN_COMMITS: Duration = Duration::from_millis(5);
/// How long is waited for something that has to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Files to which programs commit record by record, each made to last before the next one.
pub(crate) struct Journals {
    journals: Vec<Journal>,
}

struct Journal {
    name: PathBuf,
    /// Records that were acknowledged, since the first of all.
    kept: AtomicU64,
    /// Calls that failed.
    failed: AtomicU64,
}

impl Journals {
    pub(crate) fn new(count: usize) -> Journals {
        let journal = |number: usize| Journal {
            name: format!("journal{number}").into(),
            kept: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        };
        Journals { journals: (0..count).map(journal).collect() }
    }

    /// Commits to all of them in `directory` for as long as `meanwhile` lasts.
    pub(crate) fn during<T>(&self, directory: &Path, meanwhile: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .journals
                .iter()
                .map(|journal| scope.spawn(|| journal.commit(directory, &over)))
                .collect();
            let end = End(&over);
            let result = meanwhile();
            drop(end);
            threads.into_iter().for_each(|thread| thread.join().expect("a journal is written"));
            result
        })
    }

    /// Waits until each journal has some records more.
    #[track_caller]
    pub(crate) fn go_on(&self) {
        for journal in &self.journals {
            let before = journal.kept.load(Ordering::SeqCst);
            let goes_on = || journal.kept.load(Ordering::SeqCst) >= before + 20;
            assert!(wait_until(PATIENCE, goes_on), "{} stands still", journal.name.display());
        }
    }

    /// Calls that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.journals.iter().map(|journal| journal.failed.load(Ordering::SeqCst)).sum()
    }

    /// Compares what lies in `directory` with what was acknowledged.
    #[track_caller]
    pub(crate) fn check(&self, directory: &Path) {
        for journal in &self.journals {
            let kept = journal.kept.load(Ordering::SeqCst);
            assert!(kept > 0, "nothing was committed, so nothing was tested");
            let found = std::fs::read(directory.join(&journal.name)).expect("it can be read");
            // The one after the last may be there instead of the one that it overwrites.
            for number in (kept + 1).saturating_sub(RECORDS)..kept {
                let at = (number % RECORDS) as usize * RECORD_BYTES;
                assert!(
                    found.get(at..at + RECORD_BYTES) == Some(&record(number)[..]),
                    "{}: record {number} of {kept} that were acknowledged is lost",
                    journal.name.display()
                );
            }
        }
    }
}

/// Ends the writers, also when what they run beside panics.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn record(number: u64) -> Vec<u8> {
    random_bytes(number, RECORD_BYTES)
}

impl Journal {
    fn commit(&self, directory: &Path, over: &AtomicBool) {
        let path = directory.join(&self.name);
        let mut open: Option<File> = None;
        while !over.load(Ordering::SeqCst) {
            match self.commit_one(&path, &mut open) {
                Ok(()) => self.kept.fetch_add(1, Ordering::SeqCst),
                Err(_) => self.failed.fetch_add(1, Ordering::SeqCst),
            };
            // As fast as the log is, what waits for the origin would reach its limit.
            std::thread::sleep(BETWEEN_COMMITS);
        }
    }

    fn commit_one(&self, path: &Path, open: &mut Option<File>) -> Result<()> {
        let number = self.kept.load(Ordering::SeqCst);
        let file = match open {
            Some(file) => file,
            None => {
                open.insert(File::options().write(true).create(true).truncate(false).open(path)?)
            }
        };
        file.write_all_at(&record(number), number % RECORDS * RECORD_BYTES as u64)?;
        file.sync_data()
    }
}
