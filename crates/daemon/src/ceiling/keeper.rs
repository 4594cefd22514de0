use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use warmfront::{HumanSize, Memory, Reserves};

use crate::ceiling::governor::{Change, Governor, Reason, buffer_bytes};
use crate::ceiling::pressure::{Pressure, Woken, bell, ring};
use crate::ceiling::reading::{MemoryLimit, Reading};
use crate::ceiling::setting::{ArcMax, Bounds, CeilingError, Setting};
use crate::ceiling::sources::Sources;
use crate::protocol::{CeilingChange, CeilingSet, CeilingStatus};

/// Share of the memory above which a ceiling is warned of, in percent.
const CEILING_PERCENT_WARN: u64 = 80;

/// What the process may take beyond the ceiling: its code, stacks and buffers of requests.
const PROCESS_BYTES_MAX: u64 = 32 << 20;

/// Longest wait for memory that reads under way still hold.
const GIVEN_BACK_MAX: Duration = Duration::from_secs(2);
/// Between two looks whether it has been given back.
const GIVEN_BACK_INTERVAL: Duration = Duration::from_millis(2);

/// A process may be moved to another control group: they are found again after so long.
const GROUPS_INTERVAL: Duration = Duration::from_secs(1);

/// Least time between two looks, however often the kernel tells of pressure.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Keeps the ceiling of a [`Memory`] where it should be.
#[derive(Debug)]
pub(crate) struct Keeper {
    memory: Arc<Memory>,
    sources: Sources,
    bell: OwnedFd,
    stopping: AtomicBool,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    setting: Setting,
    governor: Governor,
    last_change: Option<(Instant, Change)>,
    shrinks: u64,
    grows: u64,
    pressure_sources: Vec<String>,
    pressure_notes: Vec<String>,
}

impl Keeper {
    /// A memory with the ceiling that `setting` means at this moment, whose keys are hashed by
    /// `seed`.
    ///
    /// # Errors
    /// When the setting makes no sense here, or the system gives no eventfd.
    pub fn new(sources: Sources, setting: Setting, seed: u64) -> Result<Arc<Keeper>, KeeperError> {
        let reading = sources.read();
        let governor = Governor::new(setting.bounds(&reading.memory())?, &reading);
        let state = State {
            setting,
            last_change: None,
            shrinks: 0,
            grows: 0,
            pressure_sources: Vec::new(),
            pressure_notes: Vec::new(),
            governor,
        };
        let memory = Memory::seeded(state.governor.ceiling_bytes(), seed);
        memory.set_ceiling_bytes_max(state.governor.bounds().most_bytes);
        let own = sources.clone();
        memory.set_resident(move || own.own_bytes());
        Ok(Arc::new(Keeper {
            memory,
            sources,
            bell: bell()?,
            stopping: AtomicBool::new(false),
            started: Instant::now(),
            state: Mutex::new(state),
        }))
    }

    /// What it keeps.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Begins to watch, on a thread of its own.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(self: &Arc<Self>) -> io::Result<Watch> {
        let pressure = Pressure::probe(&self.sources);
        self.tell(&pressure);
        for note in self.sources.read().notes.iter().chain(pressure.notes()) {
            tracing::info!("{note}");
        }
        let keeper = self.clone();
        let name = "ceiling".to_string();
        let thread =
            std::thread::Builder::new().name(name).spawn(move || keeper.watch(pressure))?;
        Ok(Watch { keeper: self.clone(), thread: Some(thread) })
    }

    /// Changes the setting, and returns when what no longer fits has been given back to the
    /// system. A floor that was set stays unless another one is given.
    ///
    /// # Errors
    /// When the setting makes no sense here; then nothing has changed.
    pub fn set(&self, setting: Setting) -> Result<CeilingSet, CeilingError> {
        let reading = self.sources.read();
        let started = Instant::now();
        let resident_before_bytes = self.sources.resident_bytes();
        let mut state = self.state.lock();
        let setting = Setting { arc_min: setting.arc_min.or(state.setting.arc_min), ..setting };
        let bounds = setting.bounds(&reading.memory())?;
        let change = state.governor.set_bounds(bounds, &reading, Reason::Asked);
        self.memory.set_ceiling_bytes_max(bounds.most_bytes);
        state.setting = setting;
        let (before_bytes, bytes) = (change.from_bytes, change.to_bytes);
        self.carry_out(&mut state, change);
        drop(state);
        ring(&self.bell);
        let resident_bytes = match bytes < before_bytes {
            true => self.wait_until_given_back(bytes),
            false => self.sources.resident_bytes(),
        };
        let is_given_back = self.fits(resident_bytes, bytes);
        Ok(CeilingSet {
            setting: setting.arc_max.to_string(),
            before_bytes,
            bytes,
            resident_before_bytes,
            resident_bytes,
            is_given_back,
            elapsed_seconds: started.elapsed().as_secs_f64(),
            notes: self.notes(),
        })
    }

    /// How it stands.
    pub fn status(&self) -> CeilingStatus {
        let reading = self.sources.read();
        let state = self.state.lock();
        let memory = reading.memory();
        let bounds = state.governor.bounds();
        let last_change = state.last_change.as_ref().map(|(at, change)| CeilingChange {
            from_bytes: change.from_bytes,
            to_bytes: change.to_bytes,
            reason: change.reason.to_string(),
            seconds_ago: at.elapsed().as_secs_f64(),
        });
        let mut notes = reading.notes.clone();
        notes.extend(state.pressure_notes.iter().cloned());
        notes.extend(self.reserves_note());
        notes.extend(floor_note(&state.governor, &reading));
        CeilingStatus {
            setting: state.setting.arc_max.to_string(),
            bytes: state.governor.ceiling_bytes(),
            floor_bytes: bounds.floor_bytes,
            most_bytes: bounds.most_bytes,
            memory_bytes: memory.bytes,
            memory_source: memory.source.to_string(),
            buffer_bytes: buffer_bytes(memory.bytes),
            available_bytes: reading.available_bytes(),
            last_change,
            shrinks: state.shrinks,
            grows: state.grows,
            pressure_sources: state.pressure_sources.clone(),
            notes,
        }
    }

    /// What is to be told of the ceiling as it was asked for.
    pub fn notes(&self) -> Vec<String> {
        let reading = self.sources.read();
        let state = self.state.lock();
        let bounds = state.governor.bounds();
        let for_all = for_all_note(&state.setting, bounds, &reading.memory());
        let floor = floor_note(&state.governor, &reading);
        drop(state);
        for_all.into_iter().chain(self.reserves_note()).chain(floor).collect()
    }

    /// Says so when the ceiling is too small for what datasets have reserved.
    fn reserves_note(&self) -> Option<String> {
        let Reserves { wanted_bytes, in_force_bytes } = self.memory.reserves();
        (in_force_bytes < wanted_bytes).then(|| {
            format!(
                "arcreserve adds up to {}, of which {} fit: each is cut in proportion; reserve \
                 less, or raise the ceiling (`warmfront set-arc-max`)",
                HumanSize(wanted_bytes),
                HumanSize(in_force_bytes)
            )
        })
    }

    fn watch(&self, mut pressure: Pressure) {
        run_ahead_of_others();
        let mut pressed = false;
        let mut groups = self.sources.groups();
        let mut found_at = Instant::now();
        while !self.stopping.load(Ordering::Acquire) {
            if found_at.elapsed() >= GROUPS_INTERVAL {
                let before = std::mem::replace(&mut groups, self.sources.groups());
                if groups != before {
                    pressure = Pressure::probe(&self.sources);
                    self.tell(&pressure);
                }
                found_at = Instant::now();
            }
            let time = self.look(&self.sources.read_within(&groups), pressed);
            pressed = match self.wait(&mut pressure, time) {
                Ok(woken) => woken == Woken::Pressure,
                Err(error) => {
                    tracing::error!(%error, "cannot wait for memory pressure; the ceiling stays");
                    return;
                }
            };
        }
    }

    /// Waits for the next look to be due.
    fn wait(&self, pressure: &mut Pressure, time: Option<Duration>) -> io::Result<Woken> {
        let tellers = pressure.names().len();
        let woken = pressure.wait(&self.bell, time)?;
        if pressure.names().len() != tellers {
            self.tell(pressure);
        }
        if woken == Woken::Pressure {
            std::thread::sleep(LOOK_PAUSE);
        }
        Ok(woken)
    }

    /// Does what a look asks for, and says when the next one is due.
    fn look(&self, reading: &Reading, pressed: bool) -> Option<Duration> {
        let mut state = self.state.lock();
        let bounds = state.setting.bounds(&reading.memory());
        // A limit that cannot be read is not one that has gone.
        if reading.notes.is_empty()
            && let Ok(bounds) = bounds
            && bounds != state.governor.bounds()
        {
            let change = state.governor.set_bounds(bounds, reading, Reason::Limit);
            self.memory.set_ceiling_bytes_max(bounds.most_bytes);
            self.carry_out(&mut state, change);
        }
        if let Some(change) = state.governor.decide(self.started.elapsed(), reading, pressed) {
            self.carry_out(&mut state, change);
        }
        let next = state.governor.next_look(reading);
        next.or_else(|| state.setting.follows_memory().then_some(GROUPS_INTERVAL))
    }

    fn carry_out(&self, state: &mut MutexGuard<'_, State>, change: Change) {
        let Change { from_bytes, to_bytes, reason } = &change;
        let [from, to] = [*from_bytes, *to_bytes].map(HumanSize);
        tracing::info!("the ceiling changes from {from} to {to}: {reason}");
        self.memory.set_ceiling_bytes(*to_bytes);
        if to_bytes < from_bytes {
            state.shrinks += 1;
        } else if to_bytes > from_bytes {
            state.grows += 1;
        }
        state.last_change = Some((Instant::now(), change));
    }

    /// Whether what is resident, and what is charged of it, fits under a ceiling.
    fn fits(&self, resident_bytes: u64, ceiling_bytes: u64) -> bool {
        resident_bytes <= ceiling_bytes + PROCESS_BYTES_MAX
            && self.memory.charged_bytes() <= ceiling_bytes
    }

    /// Waits while reads under way hold what was evicted, or what was written waits for the origin,
    /// and returns what is resident then.
    fn wait_until_given_back(&self, ceiling_bytes: u64) -> u64 {
        let deadline = Instant::now() + GIVEN_BACK_MAX;
        loop {
            let resident_bytes = self.sources.resident_bytes();
            if self.fits(resident_bytes, ceiling_bytes) || Instant::now() >= deadline {
                return resident_bytes;
            }
            std::thread::sleep(GIVEN_BACK_INTERVAL);
        }
    }

    fn tell(&self, pressure: &Pressure) {
        let mut state = self.state.lock();
        state.pressure_sources = pressure.names();
        state.pressure_notes = pressure.notes().to_vec();
    }
}

/// Lets this thread run before others where the system allows it: on a busy machine a look that
/// comes late finds that the kernel has had to kill.
fn run_ahead_of_others() {
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), -20) {
        tracing::debug!("the thread that watches the ceiling runs as all others do: {error}");
    }
}

/// Says so when a ceiling that does not move leaves little to others.
fn for_all_note(setting: &Setting, bounds: Bounds, memory: &MemoryLimit) -> Option<String> {
    let share = memory.bytes / 100 * CEILING_PERCENT_WARN;
    let takes_all = setting.arc_max != ArcMax::Auto && (1..bounds.floor_bytes).contains(&share);
    takes_all.then(|| {
        format!(
            "the ceiling of {} leaves little of the {} of memory to others; lower --arc-max, or \
             let it be auto",
            HumanSize(bounds.floor_bytes),
            HumanSize(memory.bytes)
        )
    })
}

/// Says so when a ceiling that moves cannot go down to what others leave.
fn floor_note(governor: &Governor, reading: &Reading) -> Option<String> {
    let floor_bytes = governor.bounds().floor_bytes;
    let left_bytes = governor.left_bytes(reading)?;
    (floor_bytes > left_bytes).then(|| {
        format!(
            "the ceiling never shrinks below its floor of {}, and others leave only {}: the kernel \
             may have to swap or kill; lower --arc-min",
            HumanSize(floor_bytes),
            HumanSize(left_bytes)
        )
    })
}

/// Why there is no keeper.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeeperError {
    #[error(transparent)]
    Ceiling(#[from] CeilingError),
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The thread that watches; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    keeper: Arc<Keeper>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.keeper.stopping.store(true, Ordering::Release);
        ring(&self.keeper.bell);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that watches the ceiling has failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use warmfront::Size;

    use super::*;

    fn setting(bytes: u64) -> Setting {
        Setting { arc_max: ArcMax::Size(Size::Bytes(bytes)), arc_min: None }
    }

    #[test]
    fn a_setting_is_carried_out_told_and_refused() {
        let keeper = Keeper::new(Sources::system(), setting(64 << 20), 1).expect("a keeper");
        let watch = keeper.start().expect("a thread");
        assert_eq!(keeper.memory().ceiling_bytes(), 64 << 20);
        let done = keeper.set(setting(32 << 20)).expect("a ceiling");
        assert_eq!((done.before_bytes, done.bytes), (64 << 20, 32 << 20));
        assert!(done.resident_bytes > 0);
        let status = keeper.status();
        assert_eq!((status.setting.as_str(), status.bytes), ("32M", 32 << 20));
        assert_eq!((status.shrinks, status.grows), (1, 0));
        let last = status.last_change.expect("there was one");
        assert_eq!((last.from_bytes, last.reason.as_str()), (64 << 20, "set by an operator"));
        assert!(keeper.set(setting(1)).is_err() && keeper.set(setting(u64::MAX)).is_err());
        assert_eq!(keeper.memory().ceiling_bytes(), 32 << 20);
        drop(watch);
    }

    #[test]
    fn a_floor_stays_until_another_is_given() {
        let floor = |mib: u64| Some(Size::Bytes(mib << 20));
        let first = Setting { arc_min: floor(16), ..setting(64 << 20) };
        let keeper = Keeper::new(Sources::system(), first, 1).expect("a keeper");
        keeper.set(setting(48 << 20)).expect("a ceiling");
        assert_eq!(keeper.status().floor_bytes, 16 << 20);
        let refused = keeper.set(setting(12 << 20)).expect_err("it is below the floor");
        assert!(matches!(refused, CeilingError::FloorAboveCeiling { .. }), "{refused}");
        keeper.set(Setting { arc_min: floor(8), ..setting(12 << 20) }).expect("a ceiling");
        assert_eq!(keeper.status().floor_bytes, 8 << 20);
    }

    #[test]
    fn a_floor_above_what_others_leave_is_told() {
        let root = tempfile::tempdir().expect("a directory");
        let proc = root.path().join("proc");
        std::fs::create_dir(&proc).expect("a directory");
        let meminfo = "MemTotal: 33554432 kB\nMemAvailable: 19922944 kB\n";
        std::fs::write(proc.join("meminfo"), meminfo).expect("written");
        let told = |arc_max: &str, floor_gib: u64| {
            let arc_min = Some(Size::Bytes(floor_gib << 30));
            let setting = Setting { arc_max: arc_max.parse().expect("a ceiling"), arc_min };
            let keeper = Keeper::new(Sources::below(root.path()), setting, 1).expect("a keeper");
            let notes = keeper.notes();
            let in_status = keeper.status().notes;
            assert!(notes.iter().all(|note| in_status.contains(note)), "{in_status:?}");
            notes.join(" ")
        };
        let note = told("auto", 22);
        for part in ["floor of 22G", "only 19G", "--arc-min"] {
            assert!(note.contains(part), "{part}: {note}");
        }
        assert_eq!(told("auto", 18), "");
        assert!(told("24G", 22).contains("floor of 22G"));
        assert_eq!(told("22G", 22), "", "it does not move");
    }

    #[test]
    fn a_ceiling_that_leaves_little_is_told() {
        let keeper = Keeper::new(Sources::system(), setting(64 << 20), 1).expect("a keeper");
        assert_eq!(keeper.notes(), Vec::<String>::new());
        let all = Setting { arc_max: "100%".parse().expect("a ceiling"), arc_min: None };
        let notes = keeper.set(all).expect("a ceiling").notes;
        assert!(notes[0].contains("leaves little") && notes[0].contains("--arc-max"), "{notes:?}");
    }

    #[test]
    fn the_ceiling_follows_a_limit_that_is_changed() {
        let root = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
            std::fs::write(path, text).expect("written");
        };
        write("proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable: 19922944 kB\n");
        write("proc/self/cgroup", "0::/a\n");
        write("proc/self/mountinfo", "30 1 0:40 / /groups rw - cgroup2 cgroup2 rw\n");
        write("groups/a/memory.current", "0\n");
        write("groups/a/memory.stat", "");
        let limit = |mib: u64| write("groups/a/memory.max", &format!("{}\n", mib << 20));
        for (arc_max, with_200, with_1000) in [("auto", 150, 936), ("90%", 180, 900)] {
            limit(200);
            let setting = Setting { arc_max: arc_max.parse().expect("a ceiling"), arc_min: None };
            let keeper = Keeper::new(Sources::below(root.path()), setting, 1).expect("a keeper");
            let looks = || keeper.look(&keeper.sources.read(), false).expect("it looks again");
            assert_eq!(keeper.memory().ceiling_bytes(), with_200 << 20, "{arc_max}");
            for (mib, ceiling) in [(1000, with_1000), (200, with_200)] {
                limit(mib);
                assert!(looks() <= Duration::from_secs(1));
                assert_eq!(keeper.memory().ceiling_bytes(), ceiling << 20, "{arc_max} of {mib}M");
                let last = keeper.status().last_change.expect("it was changed");
                assert!(last.reason.contains("memory that there may be"), "{}", last.reason);
            }
        }
    }

    #[test]
    fn auto_leaves_the_buffer() {
        let keeper = Keeper::new(Sources::system(), Setting::default(), 1).expect("a keeper");
        let status = keeper.status();
        assert_eq!(status.setting, "auto");
        assert!(status.bytes >= status.floor_bytes);
        assert!(status.bytes <= status.memory_bytes - status.buffer_bytes, "{status:?}");
        let _watch = keeper.start().expect("a thread");
        let grown = keeper.set(setting(8 << 20)).expect("a ceiling");
        assert_eq!(grown.bytes, 8 << 20);
        assert!(keeper.set(Setting::default()).expect("auto again").bytes > 8 << 20);
    }
}
