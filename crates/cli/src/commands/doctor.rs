mod flash;
mod mounted;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use daemon::{Paths, Setting, Sources, Target};
use serde::Serialize;
use warmfront::HumanSize;

use crate::bars::coloured;
use crate::failure::{Result, status};
use crate::format::{json, print};

/// How a look at one thing went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    /// Something will be slower, or less, than it could be.
    Warn,
    /// Mounting will not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    verdict: Verdict,
    found: String,
    /// What it means and what to do, where there is something to do.
    advice: Option<String>,
}

/// The files of a machine, below a root that tests choose.
#[derive(Debug)]
struct Machine {
    root: PathBuf,
    is_root: bool,
}

/// Looks at the machine, and at a mount if one is named, and says what will not work or be slow.
pub(crate) fn doctor(paths: &Paths, as_json: bool, target: Option<&OsStr>) -> Result<ExitCode> {
    let machine =
        Machine { root: PathBuf::from("/"), is_root: rustix::process::geteuid().is_root() };
    let mut findings = machine.findings();
    findings.push(descriptors());
    if let Some(target) = target {
        findings.extend(mounted::findings(&Target::find(paths, target)?)?);
    }
    print(&if as_json { json(&findings) } else { people(&findings) });
    Ok(match findings.iter().any(|finding| finding.verdict == Verdict::Fail) {
        true => ExitCode::from(status::FAILED),
        false => ExitCode::SUCCESS,
    })
}

fn people(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.verdict {
            Verdict::Ok => coloured("ok  ", 32),
            Verdict::Warn => coloured("warn", 33),
            Verdict::Fail => coloured("fail", 31),
        };
        text.push_str(&format!("{mark}  {:<18} {}\n", finding.what, finding.found));
        if let Some(advice) = &finding.advice {
            text.push_str(&format!("{:26}{advice}\n", ""));
        }
    }
    text
}

fn finding(
    what: &'static str,
    verdict: Verdict,
    found: impl Into<String>,
    advice: Option<&str>,
) -> Finding {
    Finding { what, verdict, found: found.into(), advice: advice.map(str::to_string) }
}

impl Machine {
    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_string())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn findings(&self) -> Vec<Finding> {
        vec![
            self.kernel(),
            self.device(),
            self.helper(),
            self.other_users(),
            self.request_size(),
            self.transports(),
            self.memory(),
            self.pressure(),
        ]
    }

    fn kernel(&self) -> Finding {
        let Some(release) = self.read("/proc/sys/kernel/osrelease") else {
            return finding(
                "kernel",
                Verdict::Warn,
                "version unknown: /proc is not readable",
                None,
            );
        };
        let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let (verdict, advice) = match version {
            version if version < (5, 4) => {
                (Verdict::Fail, Some("Linux 5.4 or later is needed for its FUSE protocol"))
            }
            version if version < (6, 6) => {
                (Verdict::Warn, Some("shared mappings (mmap) need pagecache=on before Linux 6.6"))
            }
            version if version < (6, 13) => (
                Verdict::Warn,
                Some(
                    "time stamps are coarse before Linux 6.13: two changes at the origin within \
                     4 ms may look like one",
                ),
            ),
            _ => (Verdict::Ok, None),
        };
        finding("kernel", verdict, format!("Linux {release}"), advice)
    }

    fn device(&self) -> Finding {
        let path = self.path("/dev/fuse");
        let opened = std::fs::File::options().read(true).write(true).open(&path);
        match opened {
            Ok(_) => finding("/dev/fuse", Verdict::Ok, "there", None),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => finding(
                "/dev/fuse",
                Verdict::Fail,
                "may not be opened by this user",
                Some("as root: chmod 666 /dev/fuse, as distributions have it; or mount as root"),
            ),
            Err(_) => finding(
                "/dev/fuse",
                Verdict::Fail,
                "missing",
                Some(
                    "load it with `modprobe fuse`, or start the container with --device /dev/fuse",
                ),
            ),
        }
    }

    fn helper(&self) -> Finding {
        let places = ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"];
        let found = ["fusermount3", "fusermount"].iter().find_map(|name| {
            let path = places.iter().map(|place| self.path(place).join(name));
            path.into_iter().find(|path| path.exists())
        });
        match (found, self.is_root) {
            (Some(path), _) => {
                finding("fusermount3", Verdict::Ok, path.display().to_string(), None)
            }
            (None, true) => {
                finding("fusermount3", Verdict::Ok, "not installed; root needs none", None)
            }
            (None, false) => finding(
                "fusermount3",
                Verdict::Fail,
                "not installed",
                Some("ordinary users mount through it: `apt install fuse3`"),
            ),
        }
    }

    fn other_users(&self) -> Finding {
        let settings = self.read("/etc/fuse.conf").unwrap_or_default();
        let allowed = settings.lines().any(|line| line.trim() == "user_allow_other");
        match allowed || self.is_root {
            true => finding("--allow-other", Verdict::Ok, "may be used", None),
            false => finding(
                "--allow-other",
                Verdict::Warn,
                "only root may use it",
                Some("put `user_allow_other` into /etc/fuse.conf to let others use your mounts"),
            ),
        }
    }

    fn request_size(&self) -> Finding {
        let pages = self.read("/proc/sys/fs/fuse/max_pages_limit");
        match pages.as_deref().map(str::parse::<u64>) {
            Some(Ok(pages)) if pages < 256 => finding(
                "request size",
                Verdict::Warn,
                HumanSize(pages * 4096).to_string(),
                Some("large reads are cut up: `sysctl fs.fuse.max_pages_limit=256`"),
            ),
            Some(Ok(_)) | None => finding("request size", Verdict::Ok, "1M", None),
            Some(Err(_)) => finding("request size", Verdict::Warn, "not readable", None),
        }
    }

    fn transports(&self) -> Finding {
        let uring = match self.read("/sys/module/fuse/parameters/enable_uring").as_deref() {
            Some("Y" | "1") => "on",
            Some(_) => "off",
            None => "not in this kernel",
        };
        let found =
            format!("/dev/fuse with cloned descriptors; FUSE over io_uring is {uring}, unused");
        finding("transport", Verdict::Ok, found, None)
    }

    fn memory(&self) -> Finding {
        let reading = Sources::below(&self.root).read();
        let auto = Setting::default();
        let (limit, available) = (reading.memory(), reading.available_bytes());
        let [bounds, ceiling] =
            [auto.bounds(&limit).map(|bounds| bounds.floor_bytes), auto.ceiling_bytes(&reading)];
        let (Ok(floor), Ok(ceiling)) = (bounds, ceiling) else {
            let advice = "give --arc-max in bytes, such as --arc-max 1G";
            return finding("memory", Verdict::Warn, "cannot be told", Some(advice));
        };
        let mut found = format!(
            "{} by {}, {} available; --arc-max auto begins with {}",
            HumanSize(limit.bytes),
            limit.source,
            HumanSize(available),
            HumanSize(ceiling)
        );
        reading.notes.iter().for_each(|note| found.push_str(&format!("; {note}")));
        let advice = match (ceiling <= floor, reading.notes.is_empty()) {
            (true, _) => Some("little is free: the cache has its floor only, --arc-min raises it"),
            (_, false) => Some("make these files readable, or give the ceiling in bytes"),
            _ => None,
        };
        let verdict = if advice.is_some() { Verdict::Warn } else { Verdict::Ok };
        finding("memory", verdict, found, advice)
    }

    fn pressure(&self) -> Finding {
        let groups = match Path::new(&self.path("/sys/fs/cgroup/cgroup.controllers")).exists() {
            true => "v2",
            false => "v1",
        };
        match self.read("/proc/pressure/memory") {
            Some(text) => {
                let first = text.lines().next().unwrap_or_default();
                let average = first
                    .split_whitespace()
                    .find_map(|word| word.strip_prefix("avg10="))
                    .and_then(|value| value.parse::<f64>().ok())
                    .unwrap_or(0.0);
                let found = format!("{average} % of the last 10 s (control groups {groups})");
                match average > 1.0 {
                    true => finding(
                        "memory pressure",
                        Verdict::Warn,
                        found,
                        Some("programs wait for memory now: a smaller --arc-max gives some back"),
                    ),
                    false => finding("memory pressure", Verdict::Ok, found, None),
                }
            }
            None => finding(
                "memory pressure",
                Verdict::Ok,
                format!("not told by this kernel (control groups {groups})"),
                None,
            ),
        }
    }
}

/// Descriptors that an open file takes at most: what names it, shared by all who have it open, and
/// for each of these one for plain calls and one for reads around the page cache.
const DESCRIPTORS_EACH: u64 = 3;
/// The part of the descriptors that directories may take, as its divisor.
const DIRECTORIES_SHARE: u64 = 4;
/// Fewer open files than this are soon used up.
const OPEN_FILES_MIN: u64 = 1024;

/// How many files the daemon may hold open.
fn descriptors() -> Finding {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let Some(descriptors) = limit.maximum else {
        return finding("open files", Verdict::Ok, "unlimited", None);
    };
    let directories = (descriptors / DIRECTORIES_SHARE).min(storage::DIRECTORIES_MAX as u64);
    let for_files = storage::descriptors_for_files(descriptors);
    let files = (for_files - directories) / DESCRIPTORS_EACH;
    let told = format!(
        "at least {files}, with a limit of {descriptors} descriptors, of which each takes up to \
         {DESCRIPTORS_EACH}"
    );
    match files < OPEN_FILES_MIN {
        true => finding(
            "open files",
            Verdict::Warn,
            told,
            Some("programs that open many files will be refused: raise the limit (ulimit -Hn)"),
        ),
        false => finding("open files", Verdict::Ok, told, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)], is_root: bool) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("directories");
            std::fs::write(path, text).expect("a file");
        }
        let machine = Machine { root: root.path().to_owned(), is_root };
        (root, machine)
    }

    #[test]
    fn a_machine_without_fuse_fails_and_says_what_to_do() {
        let (_root, machine) =
            machine(&[("/proc/sys/kernel/osrelease", "4.19.0-27-amd64\n")], false);
        assert_eq!(machine.kernel().verdict, Verdict::Fail);
        assert_eq!(machine.device().verdict, Verdict::Fail);
        let helper = machine.helper();
        assert_eq!(helper.verdict, Verdict::Fail);
        assert!(helper.advice.is_some_and(|advice| advice.contains("apt install fuse3")));
        assert_eq!(machine.other_users().verdict, Verdict::Warn);
    }

    #[test]
    fn a_good_machine_is_fine() {
        let files = [
            ("/proc/sys/kernel/osrelease", "6.18.4"),
            ("/dev/fuse", ""),
            ("/usr/bin/fusermount3", ""),
            ("/etc/fuse.conf", "# comment\nuser_allow_other\n"),
            ("/proc/sys/fs/fuse/max_pages_limit", "256"),
            ("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"),
        ];
        let (_root, machine) = machine(&files, false);
        let looks = [
            machine.kernel(),
            machine.device(),
            machine.helper(),
            machine.other_users(),
            machine.request_size(),
            machine.pressure(),
        ];
        for look in looks {
            assert_eq!(look.verdict, Verdict::Ok, "{look:?}");
        }
    }

    #[test]
    fn pressure_and_small_requests_are_warned_of() {
        let files = [
            ("/proc/sys/kernel/osrelease", "6.1.0-18-amd64"),
            ("/proc/sys/fs/fuse/max_pages_limit", "32"),
            ("/proc/pressure/memory", "some avg10=12.50 avg60=0.00 avg300=0.00 total=0\n"),
        ];
        let (_root, machine) = machine(&files, true);
        for look in [machine.kernel(), machine.request_size(), machine.pressure()] {
            assert_eq!(look.verdict, Verdict::Warn, "{look:?}");
            assert!(look.advice.is_some());
        }
    }
}
