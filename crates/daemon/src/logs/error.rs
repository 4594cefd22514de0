use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use storage::DeviceError;
use warmfront::{ExactSize, ReplayError};
use zil::OpenError;

use super::waiting::WaitingLog;
use super::words;
use crate::device_open::DeviceOpenError;
use crate::device_path::DeviceRole;

/// Why a log device cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The log that was in use is not there.
    #[error(
        "the log device {}, in use when pool `{pool}` last ran, {what}. It may hold writes that \
         were acknowledged and are not at the origin. Bring it back and mount with it; or go on \
         without them for good with {}; or look at what the origin holds with --read-only",
        path.display(), go_on(path, *without)
    )]
    Lost {
        /// Where it was.
        path: PathBuf,
        /// The pool.
        pool: String,
        /// What is wrong, with its verb.
        what: String,
        /// What a mount has to be told to go on without it.
        without: Without,
    },
    /// It hangs.
    #[error(
        "log device {}: no answer within {seconds} s; see whether its disk works, and whether its \
         file system is frozen (`fsfreeze -u` ends that), then try again. Nothing goes on without \
         it; what the origin holds can be looked at with --read-only", path.display()
    )]
    Silent {
        /// The path.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] DeviceOpenError),
    /// There is no log on it, or none that may be used.
    #[error("log device {}: {error}{}", path.display(), what_helps(error))]
    Contents {
        /// The path.
        path: PathBuf,
        /// Why.
        error: OpenError,
    },
    /// It holds what another program put there.
    #[error(
        "log device {} holds {found}; name another one, or overwrite that with --force-log",
        path.display()
    )]
    Foreign {
        /// The path.
        path: PathBuf,
        /// What was found, with its article.
        found: &'static str,
    },
    /// It is the log of another pool.
    #[error(
        "log device {} is the log of another pool, {}", path.display(),
        of_another(path, *holds, origin.as_deref())
    )]
    OtherPool {
        /// The path.
        path: PathBuf,
        /// How many records it holds; `None` if it is certain that the other origin lacks nothing.
        holds: Option<u64>,
        /// The other origin, if it is known.
        origin: Option<PathBuf>,
    },
    /// Another log may hold what the same files lack.
    #[error("{0}")]
    Waiting(Box<WaitingLog>),
    /// Its origin is not where it was.
    #[error(
        "the log on {} may hold writes that the directory lacks which was at {}; {}. If it has \
         moved, mount it where it is with --log {}, or bring them there with `warmfront log replay \
         --origin DIRECTORY {}`; or give them up for good with `warmfront log discard {}`",
        path.display(), origin.display(), now_there(origin), path.display(), path.display(),
        path.display()
    )]
    OriginGone {
        /// Where the log lies.
        path: PathBuf,
        /// Where the origin was.
        origin: PathBuf,
    },
    /// The origin has changed.
    #[error(
        "the log on {} was written for this pool when its origin was another one than {}: {} {} \
         not for it. Mount the right origin, or give them up with --discard-log",
        path.display(), origin.display(), words::records(*records), words::are(*records)
    )]
    OtherOrigin {
        /// The path.
        path: PathBuf,
        /// The origin as it is now.
        origin: PathBuf,
        /// What the log holds.
        records: u64,
    },
    /// The log has lost records.
    #[error(
        "the log on {} is damaged: {}; later ones that were acknowledged (at least up to record \
         {lasted}) are lost. Go on without them with --discard-log",
        path.display(), words::brought(*applied, *last)
    )]
    Damaged {
        /// The path.
        path: PathBuf,
        /// Records that were replayed now.
        applied: u64,
        /// The last good one.
        last: u64,
        /// At least up to this record all had lasted.
        lasted: u64,
    },
    /// The log was cut off or overwritten.
    #[error(
        "the log on {} is damaged: {}; what was behind that is cut off or overwritten with zeros, \
         and may be writes that were acknowledged. Bring back the whole of it and mount with it; \
         or go on without them with --discard-log, and look after what was written last",
        path.display(), words::brought(*applied, *last)
    )]
    Erased {
        /// The path.
        path: PathBuf,
        /// Records that were replayed now.
        applied: u64,
        /// The last good one.
        last: u64,
    },
    /// The device has become shorter than the log.
    #[error(
        "the log on {} has become shorter: it {}, and was made with {}; {}; what was behind the \
         cut may be writes that were acknowledged. Bring back the whole of it and mount with it; \
         or go on without the rest for good with {}, and look after what was written last; or \
         look at what the origin holds with --read-only",
        path.display(), size(*size_bytes), ExactSize(*needed_bytes),
        words::brought(*applied, *last), go_on_without_rest(path, *size_bytes, *needed_bytes)
    )]
    Cut {
        /// The path.
        path: PathBuf,
        /// Records that were replayed now.
        applied: u64,
        /// The last good one.
        last: u64,
        /// How long it is, bytes.
        size_bytes: u64,
        /// How long it was, bytes.
        needed_bytes: u64,
    },
    /// A part of it cannot be read.
    #[error(
        "the log on {} can not be read behind record {last}: {error}. {} {} brought to the origin; \
         try again, or go on without the rest with --discard-log",
        path.display(), words::records(*applied), words::were(*applied)
    )]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// Records that were replayed now.
        applied: u64,
        /// The last good one.
        last: u64,
        /// What the device says.
        error: DeviceError,
    },
    /// It could not be replayed.
    #[error(
        "log device {}: {error}. Or look at what the origin holds with --read-only; or go on \
         without the rest of the log for good with --discard-log", path.display()
    )]
    Replay {
        /// The path.
        path: PathBuf,
        /// Why.
        error: ReplayError,
    },
    /// It was replayed and cannot be used further.
    #[error("log device {}: {error}", path.display())]
    Finish {
        /// The path.
        path: PathBuf,
        /// Why.
        error: zil::ReplayError,
    },
    /// The origin does not answer.
    #[error("the origin {} cannot be used: {error}", path.display())]
    Origin {
        /// The origin.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What must outlast a stop cannot be read or written.
    #[error(
        "cannot note or look up in {} whether a log is in use: {error}; without that, lost writes \
         would not be noticed", path.display()
    )]
    State {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The pool has a log device already.
    #[error("the pool has a log device already, {}; remove it first", path.display())]
    Present {
        /// The path.
        path: PathBuf,
    },
    /// It may hold what the origin does not.
    #[error(
        "the log device {} may hold writes that are not at the origin; bring them there first: \
         `warmfront log replay {pool}`, or give them up: `warmfront log discard {pool}`",
        path.display()
    )]
    Full {
        /// The path.
        path: PathBuf,
        /// The pool.
        pool: String,
    },
    /// It is not there.
    #[error(
        "the log device {} of pool `{pool}` is not there; {}", path.display(),
        not_there(path, *held)
    )]
    Gone {
        /// The path.
        path: PathBuf,
        /// The pool.
        pool: String,
        /// Whether it may have held what the origin lacks; `None` if no mount has made it yet.
        held: Option<bool>,
    },
    /// It may hold what the origin does not, and is not there.
    #[error(
        "the log device {} is not there, and may hold acknowledged writes that are not at the \
         origin. Bring it back, or give them up for good: `warmfront pool destroy -f {pool}`",
        path.display()
    )]
    Absent {
        /// The path.
        path: PathBuf,
        /// The pool.
        pool: String,
    },
    /// The pool has no such log device.
    #[error("the pool has no log device {}; it has {has}", path.display())]
    Unknown {
        /// The path.
        path: PathBuf,
        /// What it has, in words.
        has: String,
    },
    /// Nothing is known that the text could mean.
    #[error(
        "`{text}` is no pool with a log device, no origin or mount point of one, and no log \
         device; name a pool, its origin's directory, or a file or block device"
    )]
    NoTarget {
        /// What was given.
        text: String,
    },
    /// More than one origin has noted a log under the name.
    #[error(
        "`{text}` means more than one log; name the origin's directory, with its path, or the \
         log:\n  {}", logs.join("\n  ")
    )]
    Ambiguous {
        /// What was given.
        text: String,
        /// The logs, each with its origin, in words.
        logs: Vec<String>,
    },
    /// It holds records though it was noted as empty.
    #[error(
        "the log on {} holds {}, though all that it held was at the origin {} or \
         given up when it was last used: it seems to be an older copy, which would overwrite \
         what was written since. Give it up with `warmfront log discard {}`; or, if another \
         machine wrote it since, bring it to the origin with `warmfront log replay --force \
         --origin {} {}`",
        path.display(), words::records(*records), origin.display(), path.display(),
        origin.display(), path.display()
    )]
    Emptied {
        /// The path.
        path: PathBuf,
        /// The origin.
        origin: PathBuf,
        /// What the log holds.
        records: u64,
    },
    /// It lacks what was noted of the log in use.
    #[error(
        "the log on {} seems to be an older copy: the one in use when the pool of {} last ran was \
         newer than this one, which has {}. To replay it would overwrite what was \
         written since. Bring the newest one back and mount with it; or go on without it for good \
         with --discard-log; or, if there is none, bring what this one has to the origin with \
         `warmfront log replay --force --origin {} {}`; or look at what the origin holds with \
         --read-only",
        path.display(), origin.display(), words::records(*records), origin.display(),
        path.display()
    )]
    Older {
        /// The path.
        path: PathBuf,
        /// The origin.
        origin: PathBuf,
        /// What the log holds.
        records: u64,
    },
    /// There is no room for a log.
    #[error(
        "log device {} is too small for a log: it {}, and needs {}; {}",
        path.display(), size(*size_bytes), ExactSize(*needed_bytes), longer(path)
    )]
    TooSmall {
        /// The path.
        path: PathBuf,
        /// How long it is, bytes.
        size_bytes: u64,
        /// How long it has to be at least, bytes.
        needed_bytes: u64,
    },
    /// The device has become shorter than the log, of which the origin has everything.
    #[error(
        "log device {} is too small for its log: it {}, and the log was made with {}; nothing is \
         lost with it, since the origin has had everything when its pool ended: {}",
        path.display(), size(*size_bytes), ExactSize(*needed_bytes), as_long(path, *needed_bytes)
    )]
    Shortened {
        /// The path.
        path: PathBuf,
        /// How long it is, bytes.
        size_bytes: u64,
        /// How long it was, bytes.
        needed_bytes: u64,
    },
    /// The log is in use.
    #[error(
        "pool `{pool}` is mounted and uses its log, or is being mounted or replayed just now; \
         unmount it first, or wait (`warmfront status {pool}` shows which)"
    )]
    InUse {
        /// The pool.
        pool: String,
    },
    /// Nobody knows for which pool a device is a log.
    #[error(
        "it is not known for which origin {} is a log; name that: `warmfront log replay --origin \
         DIRECTORY {}`", path.display(), path.display()
    )]
    NoPool {
        /// The path.
        path: PathBuf,
    },
    /// The pool is read-only.
    #[error("the pool is mounted read-only; it needs no log")]
    ReadOnly,
    /// The pool could not bring to its origin what it holds.
    #[error("{0}")]
    Pool(warmfront::EngineError),
}

/// What may be done about a log that cannot be read, or a device that cannot be written.
fn what_helps(error: &OpenError) -> &'static str {
    match error {
        OpenError::Version { .. } => {
            ", or mount with --discard-log to go on without what it holds for good"
        }
        OpenError::Damaged => {
            ". It may have been writes that were acknowledged: bring back a whole copy of the log \
             and mount with it; or mount with --discard-log to go on without them for good; or \
             look at what the origin holds with --read-only"
        }
        OpenError::Device(DeviceError::System { errno: Errno::NOSPC | Errno::DQUOT, .. })
        | OpenError::Device(DeviceError::Short { operation: "write", .. }) => {
            "; what it lies on has no room for all of it: make room there, or name another one"
        }
        _ => "",
    }
}

/// What may be done about the log of another pool.
fn of_another(path: &Path, holds: Option<u64>, origin: Option<&Path>) -> String {
    match holds {
        None => {
            "which holds nothing that its origin lacks; overwrite it with --force-log, or name \
                 another one"
                .to_string()
        }
        Some(records) => format!(
            "with {} that its origin{} may not have; use it there, give it up with `warmfront log \
             discard {}` and overwrite it with --force-log, or name another one",
            words::records(records),
            origin.map_or(String::new(), |origin| format!(" {}", origin.display())),
            // What is noted of the device may be of another log by now.
            origin.unwrap_or(path).display()
        ),
    }
}

/// What is missed with a log device that is not there.
fn not_there(path: &Path, held: Option<bool>) -> String {
    match held {
        Some(true) => format!(
            "it may hold writes that were acknowledged and are not at the origin. Bring it back, \
             or give them up for good with `warmfront log discard {}`",
            path.display()
        ),
        Some(false) => {
            "nothing is lost with it, since the origin has had everything when the pool \
                        ended"
                .to_string()
        }
        None => "no mount has made it yet".to_string(),
    }
}

/// What has become of the place of an origin.
fn now_there(origin: &Path) -> &'static str {
    match origin.is_dir() {
        true => "what is there now is another one",
        false => "it is not there now",
    }
}

/// How long a device is, with its verb.
fn size(bytes: u64) -> String {
    match bytes {
        0 => "is empty".to_string(),
        1..1024 => format!("has {bytes} bytes"),
        _ => format!("has {}", ExactSize(bytes)),
    }
}

/// What helps against a device that is too short for any log.
fn longer(path: &Path) -> String {
    let shown = path.display();
    match path.is_file() {
        true => format!("a mount with --log {shown}:SIZE makes it longer, or name another one"),
        false => "name another one".to_string(),
    }
}

/// What makes a device as long again as it was.
fn as_long(path: &Path, bytes: u64) -> String {
    let (size, shown) = (ExactSize(bytes), path.display());
    match path.is_file() {
        true => format!(
            "`truncate -s {size} {shown}` makes it as long again, as a mount with --log \
             {shown}:{size} does"
        ),
        false => "name another one".to_string(),
    }
}

/// What a mount has to be told to go on without the rest of a log that has become shorter.
fn go_on_without_rest(path: &Path, size_bytes: u64, needed_bytes: u64) -> String {
    match path.is_file() {
        true => format!("--log {}:{} --discard-log", path.display(), ExactSize(needed_bytes)),
        false if size_bytes < DeviceRole::Log.size_bytes_min() => {
            "--discard-log, and --log with another device".to_string()
        }
        false => "--discard-log".to_string(),
    }
}

/// What a mount has to be told to go on without a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// Only that.
    Discard,
    /// Also to overwrite what lies on the device now.
    Force,
    /// Also another device: what lies there now is needed elsewhere.
    Elsewhere,
    /// Also how long to make the device, which is too short for any log.
    Longer,
}

fn go_on(path: &Path, without: Without) -> String {
    let shown = path.display();
    match without {
        Without::Discard => "--discard-log".to_string(),
        Without::Force => format!(
            "--discard-log --log {shown} --force-log, which overwrites what is there now, or with \
             --discard-log and another device"
        ),
        Without::Elsewhere => {
            "--discard-log and another log device, since another origin may lack what this one \
             holds"
                .to_string()
        }
        Without::Longer if path.is_file() => format!("--discard-log --log {shown}:SIZE"),
        Without::Longer => "--discard-log, and --log with another device".to_string(),
    }
}
