use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use storage::Clock;
use warmfront::Reader;

/// Groups that can be named.
pub const PASSING_GROUPS_MAX: usize = 64;
/// For so long a caller is taken to stay in its group.
const TRUST: Duration = Duration::from_secs(1);
/// Callers that are remembered; beyond, all are forgotten.
const CALLERS_MAX: usize = 4096;

/// Control groups whose reads do not count as use, with those below them.
///
/// A caller is told by the number of its thread, which the kernel sends with each call. In which
/// groups that is stands in `/proc`, of version 1 and 2 alike: one that matches is enough. The
/// answer is believed for a second, so that a backup of many small files does not ask for each.
pub struct PassingGroups {
    groups: Vec<PathBuf>,
    clock: Arc<dyn Clock>,
    proc: PathBuf,
    /// By caller: when it was asked for, and what it said.
    callers: Mutex<HashMap<u32, (Duration, Reader)>>,
}

/// Why a control group cannot be named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// It is not a path as `/proc/PID/cgroup` has it.
    #[error(
        "`{}` is not a control group; write its path as in /proc/PID/cgroup, such as \
         /backup.slice", path.display()
    )]
    Path {
        /// What was given.
        path: PathBuf,
    },
    /// Every process is in it.
    #[error("the control group / holds every process; use promote=off instead")]
    Root,
    /// Too many.
    #[error("{count} control groups are too many; name at most {PASSING_GROUPS_MAX}")]
    TooMany {
        /// How many.
        count: usize,
    },
}

impl PassingGroups {
    /// These groups.
    ///
    /// # Errors
    /// As [`check`](PassingGroups::check).
    pub fn new(groups: &[PathBuf], clock: Arc<dyn Clock>) -> Result<PassingGroups, GroupError> {
        PassingGroups::check(groups)?;
        let (groups, proc) = (groups.to_vec(), PathBuf::from("/proc"));
        Ok(PassingGroups { groups, clock, proc, callers: Mutex::default() })
    }

    /// Whether these are groups. One that does not exist yet may be named.
    ///
    /// # Errors
    /// What is not.
    pub fn check(groups: &[PathBuf]) -> Result<(), GroupError> {
        if groups.len() > PASSING_GROUPS_MAX {
            return Err(GroupError::TooMany { count: groups.len() });
        }
        for path in groups {
            let mut components = path.components();
            let is_absolute = components.next() == Some(Component::RootDir);
            if !is_absolute || !components.all(|part| matches!(part, Component::Normal(_))) {
                return Err(GroupError::Path { path: path.clone() });
            }
            if path == Path::new("/") {
                return Err(GroupError::Root);
            }
        }
        Ok(())
    }

    /// As what reads the thread `caller`; counted, if its groups cannot be told.
    pub(crate) fn reader(&self, caller: u32) -> Reader {
        if self.groups.is_empty() || caller == 0 {
            return Reader::Counted;
        }
        let now = self.clock.now();
        if let Some((asked_at, reader)) = self.callers.lock().get(&caller)
            && now.saturating_sub(*asked_at) < TRUST
        {
            return *reader;
        }
        let told = std::fs::read_to_string(self.proc.join(caller.to_string()).join("cgroup"));
        let is_ours = told.is_ok_and(|text| self.has_any(&text));
        let reader = if is_ours { Reader::Passing } else { Reader::Counted };
        let mut callers = self.callers.lock();
        if callers.len() >= CALLERS_MAX {
            callers.clear();
        }
        callers.insert(caller, (now, reader));
        reader
    }

    /// Whether one of the lines `ID:CONTROLLERS:PATH` names one of the groups, or one below it.
    fn has_any(&self, text: &str) -> bool {
        let path = |line: &'_ str| line.splitn(3, ':').nth(2).map(PathBuf::from);
        let mut paths = text.lines().filter_map(path);
        paths.any(|path| self.groups.iter().any(|group| path.starts_with(group)))
    }
}

impl std::fmt::Debug for PassingGroups {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("PassingGroups").field(&self.groups).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Default)]
    struct Seconds(AtomicU64);

    impl Clock for Seconds {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::Relaxed))
        }

        fn sleep(&self, _: Duration) -> storage::Wait<'_> {
            Box::pin(async {})
        }
    }

    #[test]
    fn callers_are_told_by_their_groups_of_either_version() {
        let proc = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(Seconds::default());
        let named = ["/backup.slice", "/jobs/scan"].map(PathBuf::from);
        let groups = PassingGroups::new(&named, clock.clone()).expect("two groups");
        let groups = PassingGroups { proc: proc.path().to_owned(), ..groups };
        let put = |caller: u32, text: &str| {
            let directory = proc.path().join(caller.to_string());
            fs::create_dir_all(&directory).expect("made");
            fs::write(directory.join("cgroup"), text).expect("written");
        };
        let cases = [
            (1, "0::/backup.slice/tar.service\n", Reader::Passing),
            (2, "0::/backup.slice\n", Reader::Passing),
            (3, "0::/backup.slices/x\n", Reader::Counted),
            (4, "5:memory:/\n3:cpu,cpuacct:/jobs/scan/a:b\n0::/\n", Reader::Passing),
            (5, "0::/jobs\n", Reader::Counted),
            (6, "", Reader::Counted),
            (7, "what is this\n::\n", Reader::Counted),
        ];
        for (caller, text, reader) in cases {
            put(caller, text);
            assert_eq!(groups.reader(caller), reader, "{text:?}");
        }
        assert_eq!(groups.reader(0), Reader::Counted, "the kernel itself");
        assert_eq!(groups.reader(8), Reader::Counted, "gone, or not to be seen");
        // An answer is believed for a second.
        put(1, "0::/\n");
        assert_eq!(groups.reader(1), Reader::Passing);
        clock.0.store(1, Ordering::Relaxed);
        assert_eq!(groups.reader(1), Reader::Counted);
        for caller in 0..3 * CALLERS_MAX as u32 {
            groups.reader(caller);
        }
        assert!(groups.callers.lock().len() <= CALLERS_MAX);
    }

    #[test]
    fn what_is_no_group_is_refused() {
        let clock: Arc<dyn Clock> = Arc::new(Seconds::default());
        let refused = |path: &str| {
            PassingGroups::new(&[path.into()], clock.clone()).expect_err("no group").to_string()
        };
        for path in ["", "backup.slice", "/a/../b", "./a"] {
            assert!(refused(path).contains("/backup.slice"), "{path}");
        }
        assert!(refused("/").contains("promote=off"));
        let many = vec![PathBuf::from("/a"); PASSING_GROUPS_MAX + 1];
        assert_eq!(PassingGroups::check(&many), Err(GroupError::TooMany { count: 65 }));
    }
}
