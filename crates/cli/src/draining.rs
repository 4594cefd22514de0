use std::ops::ControlFlow;

use daemon::protocol::Undone;
use indicatif::{ProgressBar, ProgressStyle};

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::progress::sized;

/// A bar that shows how what was written comes to the origin, until ctrl-C.
#[derive(Debug)]
pub(crate) struct Draining {
    bar: Option<ProgressBar>,
    most_bytes: u64,
    /// It was said what is waited for, where no bar is seen.
    has_told: bool,
    interrupt: Interrupt,
}

impl Draining {
    pub(crate) fn new() -> Result<Draining> {
        let interrupt = Interrupt::watch()
            .map_err(|error| Failure::new(format!("cannot watch for ctrl-C: {error}")))?;
        Ok(Draining { bar: None, most_bytes: 0, has_told: false, interrupt })
    }

    /// Shows what is left, and says whether to go on.
    pub(crate) fn show(&mut self, undone: &Undone) -> ControlFlow<()> {
        self.most_bytes = self.most_bytes.max(undone.waiting_bytes);
        let most = self.most_bytes;
        let bar = self.bar.get_or_insert_with(|| {
            let style = "to the origin {wide_bar} {size} of {whole}, {eta} left {msg}";
            let style = ProgressStyle::with_template(style).expect("a template that is right");
            ProgressBar::new(most).with_style(sized(style))
        });
        bar.set_length(most);
        bar.set_position(most - undone.waiting_bytes);
        let waits = match (&undone.waits_for, &undone.failing) {
            (Some(what), _) => format!("(it waits for {what})"),
            (None, Some(why)) => format!("(it waits: {why})"),
            (None, None) => String::new(),
        };
        bar.set_message(waits);
        if let Some(what) = undone.waits_for.as_ref().filter(|_| bar.is_hidden() && !self.has_told)
        {
            eprintln!("waiting for {what}");
            self.has_told = true;
        }
        match self.interrupt.is_set() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
