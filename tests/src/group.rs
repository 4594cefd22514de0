use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::wait_until;

/// How long a group may take to become empty.
const EMPTY_MAX: Duration = Duration::from_secs(5);

/// A control group with a hard limit on memory, below this process's own, until dropped.
///
/// Declare it before what runs in it: whatever is still there when it is dropped is moved out.
pub struct Group {
    directory: PathBuf,
    is_version_1: bool,
}

impl Group {
    /// Makes one.
    ///
    /// # Errors
    /// Why there can be none here.
    pub fn new(limit_bytes: u64) -> Result<Group, String> {
        let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let of_line = |line: &str| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let has_memory = controllers.split(',').any(|name| name == "memory");
            (has_memory || controllers.is_empty()).then(|| (has_memory, path.to_string()))
        };
        // Version 1 first: where it has the memory, version 2 has not.
        let mut places: Vec<(bool, String)> = text.lines().filter_map(of_line).collect();
        places.sort_by_key(|(is_version_1, _)| !is_version_1);
        let mut why = "this process is in no control group".to_string();
        for (is_version_1, path) in places {
            let top =
                Path::new(if is_version_1 { "/sys/fs/cgroup/memory" } else { "/sys/fs/cgroup" });
            let bottom = top.join(path.trim_start_matches('/'));
            for above in bottom.ancestors().take_while(|above| above.starts_with(top)) {
                match Group::below(above, is_version_1, limit_bytes) {
                    Ok(group) => return Ok(group),
                    Err(error) => why = error,
                }
            }
        }
        Err(format!("needs a control group with a limit on memory: {why}"))
    }

    fn below(above: &Path, is_version_1: bool, limit_bytes: u64) -> Result<Group, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("warmfront-test-{}-{number}", std::process::id());
        let told = |path: &Path| {
            let path = path.display().to_string();
            move |error| format!("{path}: {error}")
        };
        let directory = above.join(name);
        fs::create_dir(&directory).map_err(told(&directory))?;
        // From here on it is removed again if it has no limit.
        let group = Group { directory, is_version_1 };
        let limit = group.file("memory.limit_in_bytes", "memory.max");
        fs::metadata(&limit).map_err(told(&limit))?;
        fs::write(&limit, limit_bytes.to_string()).map_err(told(&limit))?;
        Ok(group)
    }

    /// Its path, as `/proc/PID/cgroup` tells it.
    pub fn path(&self) -> PathBuf {
        let top = if self.is_version_1 { "/sys/fs/cgroup/memory" } else { "/sys/fs/cgroup" };
        Path::new("/").join(self.directory.strip_prefix(top).expect("it lies below the top"))
    }

    /// The file whose writer moves processes in.
    pub fn members(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    /// Bytes that all in the group take, pages of files included.
    pub fn usage_bytes(&self) -> u64 {
        let text = fs::read_to_string(self.file("memory.usage_in_bytes", "memory.current"));
        text.expect("a group tells its use").trim().parse().expect("a number")
    }

    /// How often the kernel has killed somebody in the group because its limit was reached.
    pub fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.file("memory.oom_control", "memory.events"));
        let text = text.expect("a group tells its events");
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.expect("kills are counted").trim().parse().expect("a number")
    }

    fn file(&self, version_1: &str, version_2: &str) -> PathBuf {
        self.directory.join(if self.is_version_1 { version_1 } else { version_2 })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let above = self.directory.parent().expect("it is below another").join("cgroup.procs");
        let removed = wait_until(EMPTY_MAX, || {
            for process in fs::read_to_string(self.members()).unwrap_or_default().lines() {
                // It may have ended meanwhile.
                let _ = fs::write(&above, process);
            }
            fs::remove_dir(&self.directory).is_ok()
        });
        if !removed {
            eprintln!("the control group {} could not be removed", self.directory.display());
        }
    }
}
