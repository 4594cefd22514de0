use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use daemon::MountProgress;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use warmfront::HumanSize;

use crate::format::count;

const BYTES: &str = "{msg} {bar:30} {size} of {whole}, {eta} left";
const RECORDS: &str = "{msg} {bar:30} {human_pos} of {human_len} records, {eta} left";
const UNKNOWN: &str = "{spinner} {msg}";

/// A bar for what takes its time at a mount; nothing where nobody looks.
#[derive(Default)]
pub(crate) struct Progress {
    shown: Option<(&'static str, ProgressBar)>,
}

impl Progress {
    /// Shows how far it is.
    pub(crate) fn show(&mut self, now: MountProgress) {
        match now {
            MountProgress::Formatting { done_bytes, all_bytes } => {
                self.measured("filling the log", BYTES, done_bytes, all_bytes);
            }
            MountProgress::Reading { done, records } => {
                self.measured("looking through the log", RECORDS, done, records);
            }
            MountProgress::Replaying { done, records } => {
                self.measured("bringing the log to the origin", RECORDS, done, records);
            }
            MountProgress::Searching { names } => {
                let bar = self.bar("looking for files that were moved", UNKNOWN);
                let names = count(names);
                bar.set_message(format!("looking for files that were moved: {names} names"));
            }
            MountProgress::Settling => {
                self.bar("making it last at the origin", UNKNOWN);
            }
        }
    }

    /// Clears it away.
    pub(crate) fn end(&mut self) {
        if let Some((_, bar)) = self.shown.take() {
            bar.finish_and_clear();
        }
    }

    fn measured(&mut self, what: &'static str, template: &str, done: u64, all: u64) {
        let bar = self.bar(what, template);
        bar.set_length(all);
        bar.set_position(done);
    }

    fn bar(&mut self, what: &'static str, template: &str) -> &ProgressBar {
        if self.shown.as_ref().is_some_and(|(shown, _)| *shown != what) {
            self.end();
        }
        let (_, bar) = self.shown.get_or_insert_with(|| (what, new_bar(what, template)));
        bar
    }
}

/// Does what tells how far it is, and shows that meanwhile.
pub(crate) fn showing<T>(work: impl FnOnce(&(dyn Fn(MountProgress) + Send + Sync)) -> T) -> T {
    let progress = Mutex::new(Progress::default());
    let shown = || progress.lock().unwrap_or_else(PoisonError::into_inner);
    let done = work(&|now| shown().show(now));
    shown().end();
    done
}

/// Shows `{size}` of `{whole}`, and `{speed}`, in the units of all other output.
pub(crate) fn sized(style: ProgressStyle) -> ProgressStyle {
    let show = |bytes: fn(&ProgressState) -> u64, end: &'static str| {
        move |state: &ProgressState, text: &mut dyn Write| {
            // A bar that cannot be drawn is none.
            let _ = write!(text, "{}{end}", HumanSize(bytes(state)));
        }
    };
    style
        .with_key("size", show(ProgressState::pos, ""))
        .with_key("whole", show(|state| state.len().unwrap_or(0), ""))
        .with_key("speed", show(|state| state.per_sec() as u64, "/s"))
}

fn new_bar(what: &'static str, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0).with_message(what);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(sized(style));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
