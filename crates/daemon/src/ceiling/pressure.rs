use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read};

use crate::ceiling::groups::{Group, Version};
use crate::ceiling::sources::Sources;

/// Stalls that are told of: tasks that waited for memory for 70 ms within a second. Without
/// privileges the kernel takes only windows of 2 seconds.
const TRIGGERS: [&str; 2] = ["some 70000 1000000", "some 200000 2000000"];

/// The level of version 1 that is told of: reclaiming has become hard. At `low` any page of a
/// file that is dropped for another counts.
const LEVEL: &str = "medium";

/// Bytes of a group's list of events that are read.
const EVENTS_BYTES_MAX: usize = 4096;

/// Ways in which the kernel tells of memory pressure, and a bell of our own.
#[derive(Debug)]
pub(crate) struct Pressure {
    tellers: Vec<Teller>,
    /// What could not be used, and why.
    notes: Vec<String>,
}

/// One way in which the kernel tells of pressure.
#[derive(Debug)]
struct Teller {
    name: String,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// A file with a trigger for stalls.
    Stalls(File),
    /// A version 2 group's counts of events; ready when one moves, until it is read.
    Events(File),
    /// A version 1 group's level, told through an eventfd. The file is held so that the
    /// registration lasts.
    Level { bell: OwnedFd, _level: File },
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The time has passed.
    Time,
    /// The bell was rung.
    Bell,
    /// The kernel told of pressure.
    Pressure,
}

impl Pressure {
    /// Asks the kernel in all the ways there are.
    pub fn probe(sources: &Sources) -> Pressure {
        let mut pressure = Pressure { tellers: Vec::new(), notes: Vec::new() };
        // The group itself; those above it tell their own members.
        let group = sources.groups().into_iter().next();
        match group {
            Some(group) if group.version == Version::V2 => pressure.add_version_2(&group),
            Some(group) => pressure.add_version_1(&group),
            None => {}
        }
        let machine = sources.path("/proc/pressure/memory");
        pressure.add(&machine, stalls(&machine).map(Source::Stalls));
        if pressure.tellers.is_empty() {
            pressure.notes.push(
                "the kernel tells of no memory pressure; what is available is looked at instead"
                    .to_string(),
            );
        }
        pressure
    }

    fn add_version_2(&mut self, group: &Group) {
        let path = group.directory.join("memory.pressure");
        // The top of the tree has its file in /proc.
        if path.exists() {
            self.add(&path, stalls(&path).map(Source::Stalls));
        }
        let path = group.directory.join("memory.events");
        if path.exists() {
            self.add(&path, events(&path).map(Source::Events));
        }
    }

    fn add_version_1(&mut self, group: &Group) {
        let path = group.directory.join("memory.pressure_level");
        let registered = level(&path, &group.directory.join("cgroup.event_control"));
        self.add(&path, registered);
    }

    fn add(&mut self, path: &Path, source: io::Result<Source>) {
        let name = path.display().to_string();
        match source {
            Ok(source) => self.tellers.push(Teller { name, source }),
            Err(error) => self.notes.push(format!("{name} tells of no pressure here: {error}")),
        }
    }

    /// The files through which the kernel tells.
    pub fn names(&self) -> Vec<String> {
        self.tellers.iter().map(|teller| teller.name.clone()).collect()
    }

    /// What could not be used, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Waits until the kernel tells of pressure, `bell` rings or the time has passed.
    ///
    /// # Errors
    /// When the system cannot wait.
    pub fn wait(&mut self, bell: &OwnedFd, time: Option<Duration>) -> io::Result<Woken> {
        let mut waited = vec![PollFd::new(bell, PollFlags::IN)];
        waited.extend(self.tellers.iter().map(|teller| match &teller.source {
            Source::Stalls(file) | Source::Events(file) => PollFd::new(file, PollFlags::PRI),
            Source::Level { bell, .. } => PollFd::new(bell, PollFlags::IN),
        }));
        wait_for(&mut waited, time)?;
        let told: Vec<PollFlags> = waited.iter().map(PollFd::revents).collect();
        drop(waited);
        let mut woken = Woken::Time;
        for index in (0..self.tellers.len()).rev() {
            woken = match self.tellers[index].told(told[index + 1]) {
                Ok(true) => Woken::Pressure,
                Ok(false) => woken,
                Err(why) => {
                    let gone = self.tellers.remove(index);
                    tracing::info!("{} tells of no pressure any more: {why}", gone.name);
                    woken
                }
            };
        }
        if !told[0].is_empty() {
            silence(bell)?;
            woken = if woken == Woken::Time { Woken::Bell } else { woken };
        }
        Ok(woken)
    }
}

impl Teller {
    /// Whether it told of pressure; an error when it never will again.
    fn told(&mut self, flags: PollFlags) -> io::Result<bool> {
        if flags.is_empty() {
            return Ok(false);
        }
        match &self.source {
            Source::Stalls(_) if flags.contains(PollFlags::ERR) => {
                Err(io::Error::other("the group is gone"))
            }
            Source::Stalls(_) => Ok(true),
            // Ready with an error as well, as all such files are; it is the reading that tells.
            Source::Events(file) => {
                file.read_at(&mut [0; EVENTS_BYTES_MAX], 0)?;
                Ok(true)
            }
            Source::Level { bell, .. } => {
                silence(bell)?;
                Ok(true)
            }
        }
    }
}

/// A bell: an eventfd that can be rung from anywhere.
pub(crate) fn bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Rings a bell.
pub(crate) fn ring(bell: &OwnedFd) {
    // A bell that is full has been rung.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

fn silence(bell: &OwnedFd) -> io::Result<()> {
    match read(bell, &mut [0; 8]) {
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits, and takes up again what a signal broke off.
fn wait_for(waited: &mut [PollFd<'_>], time: Option<Duration>) -> io::Result<()> {
    let time = time.map(|time| Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    loop {
        match poll(waited, time.as_ref()) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// A file of stalls with a trigger.
fn stalls(path: &Path) -> io::Result<File> {
    let mut refused = None;
    for trigger in TRIGGERS {
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).custom_flags(nonblocking).open(path)?;
        match file.write_all(format!("{trigger}\0").as_bytes()) {
            Ok(()) => return Ok(file),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| io::Error::other("no trigger is known")))
}

/// A group's events, read once so that only those to come are told.
fn events(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    file.read_at(&mut [0; EVENTS_BYTES_MAX], 0)?;
    Ok(file)
}

fn level(path: &Path, control: &Path) -> io::Result<Source> {
    use std::os::fd::AsRawFd;
    let level = File::open(path)?;
    let bell = bell()?;
    let [told, of] = [bell.as_fd().as_raw_fd(), level.as_fd().as_raw_fd()];
    fs::write(control, format!("{told} {of} {LEVEL}"))?;
    Ok(Source::Level { bell, _level: level })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_ends_a_wait() {
        let root = tempfile::tempdir().expect("a directory");
        let mut pressure = Pressure::probe(&Sources::below(root.path()));
        assert!(pressure.names().is_empty());
        let last = pressure.notes().last().expect("it is said");
        assert!(last.contains("what is available is looked at instead"), "{last}");
        let bell = bell().expect("an eventfd");
        let short = Some(Duration::from_millis(1));
        assert_eq!(pressure.wait(&bell, short).expect("it waits"), Woken::Time);
        ring(&bell);
        assert_eq!(pressure.wait(&bell, None).expect("it waits"), Woken::Bell);
        assert_eq!(pressure.wait(&bell, short).expect("it waits"), Woken::Time);
    }

    #[test]
    fn what_the_kernel_refuses_is_said() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("proc/pressure");
        fs::create_dir_all(&path).expect("a directory");
        fs::create_dir(path.join("memory")).expect("a directory where a file should be");
        let pressure = Pressure::probe(&Sources::below(root.path()));
        assert!(pressure.names().is_empty());
        assert!(pressure.notes()[0].contains("pressure/memory tells of no pressure"));
    }

    /// What this machine has works: there is a name or a reason for each way.
    #[test]
    fn this_machine_is_probed() {
        let pressure = Pressure::probe(&Sources::system());
        assert!(pressure.names().len() + pressure.notes().len() > 0);
        assert_eq!(pressure.names().len(), pressure.tellers.len());
    }
}
