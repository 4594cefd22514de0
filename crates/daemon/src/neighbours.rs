use std::path::Path;

use warmfront::Datasets;

use crate::client::Client;
use crate::descriptor;
use crate::mountinfo::{MountEntry, mounts};
use crate::overlap::{Overlap, overlap};
use crate::paths::Paths;
use crate::protocol::Descriptor;

/// Most datasets of another pool that are asked about.
const DATASETS_MAX: usize = 64;

/// A pool that is about to be mounted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newcomer<'a> {
    pub pool: &'a str,
    pub origin: &'a Path,
    pub read_only: bool,
    pub datasets: &'a Datasets,
}

impl Newcomer<'_> {
    /// What is to be said of pools that are mounted before some of the same files: one of the two
    /// believes that nobody else writes, and the other one can.
    pub fn notes(&self, paths: &Paths) -> Vec<String> {
        let (Ok(mounts), Ok(others)) = (mounts(), descriptor::load_all(paths)) else {
            return Vec::new();
        };
        let others = others.into_iter().filter(|other| other.pool != self.pool);
        others.flat_map(|other| self.notes_on(paths, &mounts, other)).collect()
    }

    fn notes_on(&self, paths: &Paths, mounts: &[MountEntry], other: Descriptor) -> Vec<String> {
        let Some((overlap, _)) = overlap(mounts, self.origin, &other.origin, None) else {
            return Vec::new();
        };
        let lies = match overlap {
            Overlap::Same => "this origin".to_string(),
            Overlap::Inside => format!("{}, in which this origin lies", other.origin.display()),
            Overlap::Around => format!("{}, which lies in this origin", other.origin.display()),
        };
        let they = format!("pool `{}`, mounted at {}", other.pool, other.mountpoint.display());
        let client = Client::new(paths, other);
        let mut notes = Vec::new();
        if !self.read_only
            && let Some(dataset) = exclusive_of(&client)
        {
            notes.push(format!(
                "{they}, caches {lies}, and believes that nobody else writes there \
                 (coherence=exclusive on {dataset}): what is written here it does not see, and \
                 shows what was there before; mount this one with --read-only, or `warmfront set \
                 coherence=open {dataset}`"
            ));
        }
        if let Some(dataset) = exclusive(self.datasets)
            && client.status().is_ok_and(|status| !status.read_only)
        {
            notes.push(format!(
                "coherence=exclusive on {dataset} says that nobody else writes, but {they}, can: \
                 it caches {lies}; what is written there is not seen here; `warmfront set \
                 coherence=open {dataset}`, or mount the other one with --read-only"
            ));
        }
        notes
    }
}

/// A dataset of another pool that believes that nobody else writes.
fn exclusive_of(client: &Client) -> Option<String> {
    let rows = client.datasets().ok()?;
    rows.into_iter().take(DATASETS_MAX).map(|row| row.name).find(|dataset| {
        let rows = client.get(dataset).unwrap_or_default();
        rows.iter().any(|row| row.property == "coherence" && row.value == "exclusive")
    })
}

/// The same of a pool that is not mounted yet.
fn exclusive(datasets: &Datasets) -> Option<String> {
    let mut all = datasets.list().into_iter();
    let is_exclusive = |name: &str| {
        let rows = datasets.get(name).unwrap_or_default();
        rows.iter().any(|row| row.property == "coherence" && row.value == "exclusive")
    };
    all.find(|dataset| is_exclusive(dataset.name())).map(|dataset| dataset.name().to_string())
}
