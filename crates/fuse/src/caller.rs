use std::fs;
use std::path::Path;

/// What has become of the thread that has made a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerState {
    /// It waits for the answer, or nothing is known of it.
    Waits,
    /// It has been sent a signal that asks it to end, which it will heed once it is answered.
    AskedToEnd,
    /// It is being killed: it will never see the answer.
    Dying,
}

/// `SIGHUP`, `SIGINT`, `SIGQUIT`, `SIGTERM`.
const ASKING: u64 = bit(1) | bit(2) | bit(3) | bit(15);
/// `SIGCHLD`, `SIGCONT`, `SIGSTOP`, `SIGTSTP`, `SIGTTIN`, `SIGTTOU`, `SIGURG`, `SIGWINCH`: they end
/// nobody who does not expect them.
const HARMLESS: u64 = bit(17) | bit(18) | bit(19) | bit(20) | bit(21) | bit(22) | bit(23) | bit(28);
const KILL: u64 = bit(9);
/// Of the flags in `/proc/PID/stat`: a signal has ended the process, which is cleaning up.
const SIGNALED: u64 = 0x400;

const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// What has become of the thread `pid`, by `/proc`. The kernel says only that a signal has come,
/// not which: most mean nothing to a program that waits for a disk, and one that is interrupted by
/// them takes the call for failed.
pub(crate) fn caller_state(pid: u32) -> CallerState {
    if pid == 0 {
        return CallerState::Waits;
    }
    let of_thread = Path::new("/proc").join(pid.to_string());
    let read = |name: &str| fs::read_to_string(of_thread.join(name));
    let (Ok(status), Ok(stat)) = (read("status"), read("stat")) else { return CallerState::Waits };
    if flags(&stat).is_some_and(|flags| flags & SIGNALED != 0) {
        return CallerState::Dying;
    }
    by_signals(&status)
}

/// By the signals that wait for it, as `/proc/PID/status` has them.
fn by_signals(status: &str) -> CallerState {
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
    };
    let heard = (set("SigPnd") | set("ShdPnd")) & !set("SigIgn");
    let blocked = set("SigBlk") & !KILL;
    let caught = set("SigCgt");
    match heard & !blocked {
        signals if signals & !caught & !HARMLESS != 0 => CallerState::Dying,
        signals if signals & ASKING != 0 => CallerState::AskedToEnd,
        _ => CallerState::Waits,
    }
}

/// The flags of a thread in `/proc/PID/stat`: the seventh field behind the name, which may hold
/// spaces and parentheses itself.
fn flags(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(6)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(sets: [(&str, u64); 4]) -> String {
        sets.iter().map(|(name, set)| format!("{name}:\t{set:016x}\n")).collect()
    }

    fn with(pending: u64, blocked: u64, ignored: u64, caught: u64) -> CallerState {
        let sets = [("SigPnd", 0), ("ShdPnd", pending), ("SigBlk", blocked), ("SigIgn", ignored)];
        by_signals(&format!("Name:\tx\n{}SigCgt:\t{caught:016x}\n", status(sets)))
    }

    #[test]
    fn who_is_killed_is_dying() {
        assert_eq!(with(0, 0, 0, 0), CallerState::Waits);
        assert_eq!(with(bit(9), !0, 0, 0), CallerState::Dying);
        assert_eq!(with(bit(2), 0, 0, 0), CallerState::Dying, "nobody catches it");
        assert_eq!(with(bit(2), bit(2), 0, 0), CallerState::Waits);
        assert_eq!(with(bit(2), 0, bit(2), 0), CallerState::Waits);
        assert_eq!(with(bit(28) | bit(17), 0, 0, 0), CallerState::Waits, "a window, a child");
    }

    #[test]
    fn who_catches_signals_heeds_some() {
        assert_eq!(with(bit(2), 0, 0, bit(2)), CallerState::AskedToEnd);
        assert_eq!(with(bit(15), 0, 0, bit(15)), CallerState::AskedToEnd);
        assert_eq!(with(bit(14) | bit(10), 0, 0, bit(14) | bit(10)), CallerState::Waits);
        assert_eq!(with(bit(14) | bit(9), 0, 0, bit(14)), CallerState::Dying);
    }

    #[test]
    fn names_of_threads_do_not_confuse() {
        let stat = "77 (a ) b) S 1 77 77 0 -1 4195328 100 0 0";
        assert_eq!(flags(stat), Some(4_195_328));
        assert!(flags(stat).is_some_and(|flags| flags & SIGNALED != 0));
        assert_eq!(flags("77 (x"), None);
    }

    #[test]
    fn this_thread_waits() {
        assert_eq!(caller_state(std::process::id()), CallerState::Waits);
        assert_eq!(caller_state(0), CallerState::Waits);
    }
}
