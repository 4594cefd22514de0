use storage::{DirectoryOptions, DirectoryOrigin, FileDevice};
use tempfile::TempDir;

use super::*;

/// An origin, and a log beside it.
struct Place {
    base: TempDir,
    origin: DirectoryOrigin,
}

impl Place {
    fn new() -> Place {
        let base = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(base.path().join("slow")).expect("a directory");
        let options = DirectoryOptions::default();
        let origin = DirectoryOrigin::open(base.path().join("slow"), options).expect("it opens");
        Place { base, origin }
    }

    fn log(&self) -> PathBuf {
        self.base.path().join("log")
    }

    /// What a start knows.
    fn desk(&self) -> Desk {
        let path = self.base.path().join("slow");
        let marker = self.base.path().join("pool.log.json");
        Desk::new(("pool", b"pool"), marker, &path, None).expect("it is asked")
    }

    fn open(&self, desk: &Desk, words: &str) -> Result<Option<Log>, LogError> {
        let device = Some(DevicePath::parse(words, DeviceRole::Log).expect("well formed"));
        let settings = LogSettings { device, ..LogSettings::default() };
        desk.open(&self.origin, &settings, false, &|_| ()).map(|(log, _)| log)
    }

    /// Opens the log as it is, and notes it as in use.
    fn take_in(&self, desk: &Desk) -> [u8; 16] {
        let text = self.log().display().to_string();
        let log = self.open(desk, &text).expect("it can be used").expect("it is one");
        let state = &mut *desk.state.lock();
        state.marker.in_use = Some(digits(log.id()));
        state.marker.epoch = log.epoch();
        state.marker.path = self.log();
        state.marker.save(&desk.marker_path).expect("it is written");
        log.id()
    }
}

/// A start that crashes after the log begins a new life, and before that is noted.
#[test]
fn a_crash_between_log_and_note_makes_no_log_an_older_copy() {
    let place = Place::new();
    let text = place.log().display().to_string();
    drop(place.open(&place.desk(), &format!("{text}:17M")).expect("it is made"));
    let id = place.take_in(&place.desk());
    for _ in 0..5 {
        let before = std::fs::read(place.log()).expect("it is there");
        let log = place.open(&place.desk(), &text).expect("as new as what is noted");
        assert_eq!(log.expect("it is one").id(), id);
        let crashed = std::fs::read(place.log()).expect("it is there");
        assert_eq!(place.take_in(&place.desk()), id, "it is taken in after the crash");
        let now = std::fs::read(place.log()).expect("it is there");
        for older in [before, crashed] {
            std::fs::write(place.log(), older).expect("copied");
            let refused = place.open(&place.desk(), &text).err();
            assert!(matches!(refused, Some(LogError::Older { .. })), "{refused:?}");
        }
        std::fs::write(place.log(), now).expect("copied");
    }
}

/// What is the least for a new log is not asked of one that is there.
#[test]
fn a_log_smaller_than_new_ones_is_used() {
    let place = Place::new();
    let text = place.log().display().to_string();
    let size_bytes = Some(16516 << 10);
    let made = || {
        let options = storage::DeviceOptions { size_bytes, ..storage::DeviceOptions::default() };
        let file = Arc::new(FileDevice::open(&place.log(), &options).expect("it is made"));
        let opening = place.desk().opening().expect("random bytes");
        block_on(Log::format(file, opening, Options::default(), clock()))
    };
    let id = made().expect("it has room for one").id();
    assert_eq!(place.take_in(&place.desk()), id);
    let file = std::fs::File::options().write(true).open(place.log()).expect("it opens");
    file.set_len(16515 << 10).expect("it can be cut");
    let refused = place.open(&place.desk(), &text).expect_err("refused").to_string();
    assert!(refused.contains("has become shorter"), "{refused}");
    place.desk().emptied().expect("it is noted");
    let refused = place.open(&place.desk(), &text).expect_err("refused").to_string();
    let size = "16516K";
    assert!(refused.contains(&format!("truncate -s {size} {text}")), "{refused}");
    assert!(refused.contains(&format!("--log {text}:{size}")), "{refused}");
    assert!(refused.contains("nothing is lost") && !refused.contains("readable"), "{refused}");
    // Without a log on it, it is too small for one.
    let zeros = vec![0; 16516 << 10];
    std::fs::write(place.log(), zeros).expect("written");
    let refused = place.open(&place.desk(), &text).expect_err("refused").to_string();
    assert!(refused.contains("needs 17M; a mount with --log"), "{refused}");
    std::fs::write(place.log(), "").expect("written");
    let refused = place.open(&place.desk(), &text).expect_err("refused").to_string();
    assert!(refused.contains("it is empty, and needs 17M"), "{refused}");
}
