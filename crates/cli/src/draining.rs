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
    interrupt: Interrupt,
}

impl Draining {
    pub(crate) fn new() -> Result<Draining> {
        let interrupt = Interrupt::watch()
            .map_err(|error| Failure::new(format!("cannot watch for ctrl-C: {error}")))?;
        Ok(Draining { bar: None, most_bytes: 0, interrupt })
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
        let waits = |why: &String| format!("(it waits: {why})");
        bar.set_message(undone.failing.as_ref().map_or(String::new(), waits));
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
