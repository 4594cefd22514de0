use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::geteuid;
use storage::Random;
use warmfront_tests::{Mount, test_directory};

/// Kills in each test unless `WARMFRONT_KILLS` says otherwise.
const KILLS: u64 = 3;

/// How often the daemon is killed in a test that has it killed `KILLS` times by default.
pub(crate) fn kills() -> u64 {
    let chosen = std::env::var("WARMFRONT_KILLS").ok();
    chosen.map_or(KILLS, |text| text.parse().expect("WARMFRONT_KILLS is a number"))
}

/// A mount with a log device, whose daemon will be killed.
pub(crate) struct Victim {
    mount: Mount,
    words: Vec<String>,
    random: Random,
    /// Mounts that found something in the log to bring to the origin.
    replays: u64,
}

impl Victim {
    /// Mounts with these properties. `seed` decides the moments of kills.
    pub(crate) fn new(seed: u64, properties: &[(&str, &str)]) -> Victim {
        let base = test_directory();
        let log = base.path().join("log").to_str().expect("text").to_string();
        let mut words = vec![format!("--log={log}:64M"), "--arc-max=96M".to_string()];
        for (name, value) in [("write", "back")].iter().chain(properties) {
            words.extend(["-o".to_string(), format!("{name}={value}")]);
        }
        if geteuid().is_root() {
            // PostgreSQL is somebody else.
            words.push("--allow-other".to_string());
        }
        let mut builder = Mount::builder().base(base);
        for word in &words {
            builder = builder.argument(word);
        }
        let seed = match std::env::var_os("WARMFRONT_SOAK") {
            None => seed,
            Some(_) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
                seed ^ now.as_nanos() as u64
            }
        };
        Victim { mount: builder.start(), words, random: Random::new(seed), replays: 0 }
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.mount.join(name)
    }

    pub(crate) fn mount(&self) -> &Mount {
        &self.mount
    }

    /// A number that decides what a worker does.
    pub(crate) fn draw(&mut self) -> u64 {
        self.random.draw()
    }

    /// Kills the daemon after a random time of less than `most`.
    pub(crate) fn kill_within(&mut self, most: Duration) {
        let most_us = u64::try_from(most.as_micros()).expect("a short time");
        std::thread::sleep(Duration::from_micros(self.random.below(most_us)));
        self.mount.kill();
    }

    /// Mounts again.
    pub(crate) fn revive(&mut self) {
        let said = self.mount.log().len();
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        self.mount.restart(&words);
        let log = self.mount.log();
        assert!(!log.contains("panicked"), "{log}");
        // What was removed just before, the log may still speak of.
        let left_out = |line: &&str| {
            line.contains("not brought to the origin") && !line.contains("it was removed")
        };
        assert_eq!(log[said..].lines().find(left_out), None);
        self.replays += u64::from(log[said..].contains("were brought to the origin"));
    }

    /// Unmounts for good. Something must have come from the log.
    pub(crate) fn end(mut self) -> Mount {
        assert!(self.replays > 0, "no log was replayed, so nothing was tested");
        self.mount.unmount();
        self.mount
    }
}
