use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a process that was killed may take to give back what it holds, and how often that is
/// looked at.
const ENDING_MAX: Duration = Duration::from_secs(2);
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Bit of `SIGKILL` in what `/proc/PID/status` says of signals.
const KILL: u64 = 1 << 8;
/// What `/proc/PID/stat` says of a process that gives back what it has: `PF_EXITING`.
const EXITING: u64 = 4;

/// Whether a process has been killed or has ended, so that the kernel takes back, or is about to,
/// what it holds.
pub(crate) fn is_ending(pid: u32) -> bool {
    look(pid).unwrap_or(true)
}

/// The same of a process that is still there.
pub(crate) fn is_dying(pid: u32) -> bool {
    look(pid).unwrap_or(false)
}

/// Whether a process is ending, unless it is not there.
fn look(pid: u32) -> Option<bool> {
    let read = |name| fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
    Some(has_ended(&read("stat")?) || is_killed(&read("status")?))
}

/// Tries again, for a moment, what a process that is ending keeps from us.
pub(crate) fn outwait<T, E>(
    mut attempt: impl FnMut() -> Result<T, E>,
    is_ending: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let until = Instant::now() + ENDING_MAX;
    loop {
        match attempt() {
            Err(error) if is_ending(&error) && Instant::now() < until => sleep(LOOK_INTERVAL),
            outcome => return outcome,
        }
    }
}

/// By a `/proc/PID/stat`: `PID (NAME) STATE PPID PGRP SESSION TTY TPGID FLAGS`.
fn has_ended(stat: &str) -> bool {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut fields = fields.split_whitespace();
    let is_gone = fields.next().is_some_and(|state| matches!(state, "Z" | "X" | "x"));
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    is_gone || flags.is_some_and(|flags| flags & EXITING != 0)
}

/// By a `/proc/PID/status`, in which signals that wait are hexadecimal digits.
fn is_killed(status: &str) -> bool {
    let waiting = |line: &str| {
        let digits = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"))?;
        u64::from_str_radix(digits.trim(), 16).ok()
    };
    status.lines().filter_map(waiting).any(|signals| signals & KILL != 0)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn who_was_killed_is_ending() {
        assert!(!is_ending(std::process::id()));
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("runs");
        assert!(!is_ending(child.id()) && !is_dying(child.id()));
        child.kill().expect("it lives");
        // Not waited for, it stays as a zombie.
        assert!(is_ending(child.id()) && is_dying(child.id()), "killed");
        child.wait().expect("it has ended");
        assert!(is_ending(child.id()) && !is_dying(child.id()), "gone");
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        assert!(!has_ended("7 (a) Z) S 1 7 7 0 -1 4194560 1 0"));
        assert!(has_ended("7 (a) Z 1 7 7 0 -1 4194560 1 0"));
        assert!(has_ended("7 (a) R 1 7 7 0 -1 4194564 1 0"));
        assert!(!has_ended("nonsense") && !is_killed("SigPnd:\tnonsense"));
        assert!(!is_killed("SigPnd:\t0000000000000080\nShdPnd:\t0000000000000000\n"));
        assert!(is_killed("SigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n"));
    }
}
