use std::num::NonZeroU64;

use serde::Deserialize;

use super::{ExperimentError, Finding, Outcome, Trial, Work};
use crate::model::Positive;

/// Copies a file from tmpfs while memory is short, with tmpfs asked for its dirty pages and
/// without.
///
/// A model of what the article tells of `tmpfs_putpage()`: pages of tmpfs stay dirty, so each time
/// that the scanner comes to one it asks tmpfs to put it; tmpfs looks the page up, locks it, and
/// looks for its neighbours, to write them together. Without a swap device, or with a full one, it
/// lets go of all of them. With `tmp_nopage` it returns at once.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageOut {
    page_bytes: NonZeroU64,
    file_bytes: NonZeroU64,
    /// To copy a page.
    copy_us: Positive,
    /// Pages that the scanner visits for each one that the copy needs.
    visits_each: Positive,
    /// To look a page up, and as often for each of its neighbours.
    lookup_us: Positive,
    /// Neighbours that are looked for.
    cluster_pages: NonZeroU64,
    /// Copies one after the other, and what the source says of them.
    source_default_s: Vec<Positive>,
    source_nopage_s: Vec<Positive>,
}

impl PageOut {
    /// The most that it has to simulate.
    pub fn work(&self, _trial: Trial) -> Result<Work, ExperimentError> {
        let pages = self.file_bytes.get() as f64 / self.page_bytes.get() as f64;
        let copies = (self.source_default_s.len() + self.source_nopage_s.len()) as f64;
        let work = Work::new("file_bytes or visits_each, or larger page_bytes");
        Ok(work.and(copies * pages * (1.0 + self.visits_each.get()), 1))
    }

    pub fn run(&self, _trial: Trial) -> Result<Outcome, ExperimentError> {
        let mut findings = Vec::new();
        let mut firsts = Vec::new();
        for (nopage, sources) in [(0, &self.source_default_s), (1, &self.source_nopage_s)] {
            // Files that were copied stay, and their pages stay dirty.
            let mut dirty = 0;
            for (copy, source) in sources.iter().enumerate() {
                let pages = self.file_bytes.get() / self.page_bytes;
                dirty += pages;
                let seconds = self.copy(pages, dirty, nopage == 1);
                let what = format!("tmp_nopage={nopage}, copy {}", copy + 1);
                let finding = Finding::new(what, "s", Some(source.get()), seconds);
                findings.push(if copy == 0 { finding.fitted() } else { finding });
                if copy == 0 {
                    firsts.push((source.get(), seconds));
                }
            }
        }
        let [(of_default, default), (of_nopage, nopage)] = firsts[..] else {
            return Err(ExperimentError::Unfit("the source has a figure for each".to_string()));
        };
        let (source, lab) = (of_default / of_nopage, default / nopage);
        findings.push(Finding::new("default over nopage", "ratio", Some(source), lab).fitted());
        Ok(Outcome::from(findings))
    }

    /// Seconds that it takes, page by page, with a hand that goes round over all dirty pages.
    fn copy(&self, pages: u64, dirty: u64, nopage: bool) -> f64 {
        let (mut us, mut hand, mut due) = (0.0, 0, 0.0);
        for _ in 0..pages {
            us += self.copy_us.get();
            due += self.visits_each.get();
            while due >= 1.0 {
                due -= 1.0;
                hand = (hand + 1) % dirty;
                if !nopage {
                    // At the file's ends there are fewer neighbours.
                    let first = hand / self.cluster_pages * self.cluster_pages.get();
                    let found = self.cluster_pages.get().min(dirty - first);
                    us += self.lookup_us.get() * (1 + found) as f64;
                }
            }
        }
        us / 1e6
    }
}
