use daemon::protocol::Undone;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar that shows how what was written comes to the origin.
#[derive(Debug, Default)]
pub(crate) struct Draining {
    bar: Option<ProgressBar>,
    most_bytes: u64,
}

impl Draining {
    /// Shows what is left.
    pub(crate) fn show(&mut self, undone: &Undone) {
        self.most_bytes = self.most_bytes.max(undone.dirty_bytes);
        let most = self.most_bytes;
        let bar = self.bar.get_or_insert_with(|| {
            let style = "to the origin {wide_bar} {bytes} of {total_bytes} {msg}";
            let style = ProgressStyle::with_template(style).expect("a template that is right");
            ProgressBar::new(most).with_style(style)
        });
        bar.set_length(most);
        bar.set_position(most - undone.dirty_bytes);
        bar.set_message(undone.failing.clone().unwrap_or_default());
    }

    /// Takes the bar away.
    pub(crate) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
