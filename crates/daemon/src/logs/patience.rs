//! Log devices that hang: they are waited for, but not for long.

use std::path::Path;
use std::time::{Duration, Instant};

use super::error::LogError;
use crate::deadline::within;
use crate::probe::Probe;

/// How long a log device may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

fn silent(path: &Path) -> LogError {
    LogError::Silent { path: path.to_owned(), seconds: ANSWER_MAX.as_secs() }
}

/// Looks whether a device answers, before this process touches it.
///
/// # Errors
/// When it does not in time.
pub(super) fn answers(path: &Path) -> Result<(), LogError> {
    let until = Instant::now() + ANSWER_MAX;
    let mut probe = Probe::start(path).ok();
    match probe.as_mut().is_none_or(|probe| probe.answers(until)) {
        true => Ok(()),
        false => Err(silent(path)),
    }
}

/// Makes a call of a device that may begin to hang just now.
///
/// # Errors
/// When it does not come back in time.
pub(super) fn in_time<T: Send + 'static>(
    path: &Path,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LogError> {
    within(ANSWER_MAX, call).ok_or_else(|| silent(path))
}
