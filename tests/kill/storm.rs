use std::fs::{self, File};
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{FallocateFlags, copy_file_range, fallocate};
use storage::Random;
use warmfront_tests::{Requirement, random_bytes, require};

use crate::victim::{Victim, kills};

/// The longest file.
const FILE_BYTES_MAX: u64 = 192 << 10;
/// The longest write.
const WRITE_BYTES_MAX: u64 = 24 << 10;
/// Files, each with a writer of its own.
const FILES: u64 = 3;

/// What a file may hold after a crash: what it held when it was last made to last, or anything
/// since, byte by byte.
struct Expected {
    states: Vec<Vec<u8>>,
}

impl Expected {
    fn now(&self) -> &Vec<u8> {
        self.states.last().expect("there is always one")
    }

    /// Nothing older than this is left.
    fn lasts(&mut self, state: Vec<u8>) {
        self.states = vec![state];
    }

    /// Compares what was found, which is then what there is.
    fn meet(&mut self, path: &Path) {
        let found = fs::read(path).expect("it can be read");
        let lengths = || self.states.iter().map(Vec::len);
        let (shortest, longest) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
        assert!(
            (shortest..=longest).contains(&found.len()),
            "{}: {} bytes, not between {shortest} and {longest}",
            path.display(),
            found.len()
        );
        for (at, byte) in found.iter().enumerate() {
            // Where it ended before, it was made longer since: that may have left zeros.
            let may_be = |state: &Vec<u8>| state.get(at).copied().unwrap_or(0) == *byte;
            assert!(
                self.states.iter().any(may_be),
                "{}: byte {at} is {byte}, of {:?}",
                path.display(),
                self.states.iter().map(|state| state.get(at)).collect::<Vec<_>>()
            );
        }
        self.lasts(found);
    }
}

/// One writer with a file of its own.
struct Writer {
    path: PathBuf,
    random: Random,
    expected: Expected,
    syncs: u64,
}

impl Writer {
    /// Changes the file in all ways that there are, until the daemon is gone.
    fn work(&mut self, over: &AtomicBool) {
        let Ok(mut file) = self.open() else { return };
        while !over.load(Ordering::Relaxed) {
            let done = match self.random.below(20) {
                0..=7 => self.write(&file),
                8 => self.truncate(&file),
                9 => self.punch(&file),
                10 => self.copy(&file),
                11..=12 => self.check(&file),
                13..=16 => self.sync(&file),
                17 => self.open().map(|opened| file = opened),
                18 => self.replace().and_then(|()| self.open()).map(|opened| file = opened),
                _ => self.rename(),
            };
            if done.is_err() {
                break;
            }
        }
    }

    fn open(&self) -> Result<File> {
        File::options().read(true).write(true).create(true).truncate(false).open(&self.path)
    }

    /// Carries out a change that leads from what there is to `next`. Whether it took place is not
    /// known when it fails.
    fn change(&mut self, next: Vec<u8>, act: impl FnOnce(&[u8]) -> Result<()>) -> Result<()> {
        self.expected.states.push(next);
        act(self.expected.now())
    }

    fn range(&mut self) -> (u64, u64) {
        let offset = self.random.below(FILE_BYTES_MAX - WRITE_BYTES_MAX);
        (offset, 1 + self.random.below(WRITE_BYTES_MAX))
    }

    fn write(&mut self, file: &File) -> Result<()> {
        let mut next = self.expected.now().clone();
        let (mut offset, length) = self.range();
        if self.random.below(3) == 0 && (next.len() as u64) < FILE_BYTES_MAX - length {
            offset = next.len() as u64;
        }
        let range = offset as usize..(offset + length) as usize;
        let bytes = random_bytes(self.random.draw(), length as usize);
        next.resize(next.len().max(range.end), 0);
        next[range.clone()].copy_from_slice(&bytes);
        self.change(next, |next| file.write_all_at(&next[range], offset))
    }

    fn truncate(&mut self, file: &File) -> Result<()> {
        let mut next = self.expected.now().clone();
        next.resize(self.random.below(FILE_BYTES_MAX) as usize, 0);
        self.change(next, |next| file.set_len(next.len() as u64))
    }

    fn punch(&mut self, file: &File) -> Result<()> {
        let mut next = self.expected.now().clone();
        let (offset, length) = self.range();
        let end = (offset + length).min(next.len() as u64) as usize;
        let start = (offset as usize).min(end);
        next[start..end].fill(0);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.change(next, |_| Ok(fallocate(file, flags, offset, length)?))
    }

    fn copy(&mut self, file: &File) -> Result<()> {
        let mut next = self.expected.now().clone();
        let half = next.len() / 2;
        let length = half.min(WRITE_BYTES_MAX as usize);
        next.copy_within(..length, half);
        self.change(next, |_| {
            let (mut from, mut to, mut left) = (0, half as u64, length);
            while left > 0 {
                match copy_file_range(file, Some(&mut from), file, Some(&mut to), left)? {
                    0 => panic!("nothing was copied"),
                    copied => left -= copied,
                }
            }
            Ok(())
        })
    }

    fn check(&mut self, file: &File) -> Result<()> {
        let mut found = vec![0; FILE_BYTES_MAX as usize + 1];
        let mut count = 0;
        loop {
            match file.read_at(&mut found[count..], count as u64)? {
                0 => break,
                read => count += read,
            }
        }
        assert!(found[..count] == self.expected.now()[..], "{} differs", self.path.display());
        Ok(())
    }

    fn sync(&mut self, file: &File) -> Result<()> {
        match self.random.below(2) {
            0 => file.sync_all()?,
            _ => file.sync_data()?,
        }
        self.syncs += 1;
        let state = self.expected.now().clone();
        self.expected.lasts(state);
        Ok(())
    }

    /// Puts a new file in the place of the old one, as editors do, without any fsync.
    fn replace(&mut self) -> Result<()> {
        let next = random_bytes(self.random.draw(), self.random.below(FILE_BYTES_MAX) as usize);
        let new = self.path.with_extension("new");
        fs::write(&new, &next)?;
        let path = self.path.clone();
        self.change(next, |_| fs::rename(&new, path))?;
        let state = self.expected.now().clone();
        self.expected.lasts(state);
        Ok(())
    }

    /// Moves the file away and back.
    fn rename(&mut self) -> Result<()> {
        let other = self.path.with_extension("other");
        fs::rename(&self.path, &other)?;
        fs::rename(&other, &self.path)
    }

    /// After a crash.
    fn meet(&mut self) {
        let other = self.path.with_extension("other");
        if other.exists() {
            assert!(!self.path.exists(), "a rename leaves one name");
            fs::rename(&other, &self.path).expect("it can be moved back");
        }
        self.expected.meet(&self.path);
    }
}

fn storm(seed: u64, properties: &[(&str, &str)]) {
    require!(Requirement::Fuse);
    let mut victim = Victim::new(seed, properties);
    let mut writers: Vec<Writer> = (0..FILES)
        .map(|number| Writer {
            path: victim.join(format!("file{number}")),
            random: Random::new(victim.draw()),
            expected: Expected { states: vec![Vec::new()] },
            syncs: 0,
        })
        .collect();
    for writer in &writers {
        writer.open().expect("it can be made").sync_all().expect("it lasts");
    }
    for _ in 0..3 * kills() {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in &mut writers {
                let over = &over;
                scope.spawn(move || writer.work(over));
            }
            victim.kill_within(Duration::from_millis(600));
            over.store(true, Ordering::Relaxed);
        });
        victim.revive();
        writers.iter_mut().for_each(Writer::meet);
    }
    assert!(writers.iter().all(|writer| writer.syncs > 0), "nobody has made anything last");
    let mount = victim.end();
    for writer in &mut writers {
        let name = writer.path.file_name().expect("a name");
        writer.expected.meet(&mount.origin().join(name));
    }
}

#[test]
fn a_storm_of_changes() {
    storm(1, &[("coherence", "exclusive"), ("pagecache", "on")]);
}

#[test]
fn a_storm_of_changes_with_small_records_and_without_the_page_cache() {
    storm(2, &[("recordsize", "4K"), ("pagecache", "off")]);
}
