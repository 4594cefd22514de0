use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand_distr::{Distribution, Zipf};
use serde::Deserialize;
use storage::{Random, Spawn};
use warmfront::OpenFile;

use super::{ExperimentError, Finding, Outcome, Trial, Work, distinct};
use crate::machine::Machine;
use crate::model::{Positive, Request};
use crate::policy::{Lru, Objects, Policy};
use crate::workload::Source;

/// Most pages: what is known of each is kept in RAM.
const PAGES_MAX: u64 = 1 << 26;

/// A database with a buffer pool of its own, above the cache.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Database {
    machine: String,
    page_bytes: NonZeroU64,
    data_bytes: NonZeroU64,
    /// Zipf's law, over pages.
    exponent: Positive,
    threads: NonZeroU32,
    warm_reads: NonZeroU32,
    measured_reads: NonZeroU32,
    variants: Vec<Variant>,
}

/// Who gets the memory, and what the cache does with it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    /// What the database caches by itself.
    buffer_pool_bytes: NonZeroU64,
    /// The index of all data, where only that is kept in the database's own cache and contents are
    /// left to the file system's, as with MyISAM; without it both are in pages, as with InnoDB.
    index_bytes: Option<NonZeroU64>,
    /// Where that is not what holds for all.
    page_bytes: Option<NonZeroU64>,
    cache_bytes: NonZeroU64,
    primarycache: String,
    recordsize: String,
}

/// The database's own cache and what it was asked for.
struct Pages {
    pool: Lru,
    random: Random,
    ranks: Zipf<f64>,
    count: u64,
    /// Pages of the index, if only that is in the pool.
    index: Option<u64>,
    page_bytes: u64,
    left: u32,
    missed: u64,
    /// Reads of the file system.
    asked: u64,
}

/// Where the pages lie.
struct Files {
    data: Arc<OpenFile>,
    index: Option<Arc<OpenFile>>,
}

impl Pages {
    /// What the next read asks the file system for; nothing when all are done.
    fn next(&mut self, files: &Files) -> Option<Vec<(Arc<OpenFile>, u64)>> {
        self.left = self.left.checked_sub(1)?;
        let rank = self.ranks.sample(&mut Source(&mut self.random)) as u64 - 1;
        // Hot pages lie apart.
        let page = Random::new(rank).below(self.count);
        let contents = (files.data.clone(), page * self.page_bytes);
        let wanted = match (self.index, &files.index) {
            (Some(index), Some(file)) => {
                let of_index = page * index / self.count;
                let found = self.pool.access(of_index as u32);
                self.missed += u64::from(!found);
                let looked_up = (!found).then(|| (file.clone(), of_index * self.page_bytes));
                looked_up.into_iter().chain([contents]).collect()
            }
            _ => {
                let found = self.pool.access(page as u32);
                self.missed += u64::from(!found);
                if found { Vec::new() } else { vec![contents] }
            }
        };
        self.asked += wanted.len() as u64;
        Some(wanted)
    }
}

impl Database {
    /// The most that it has to simulate.
    pub fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        distinct(self.variants.iter().map(|variant| variant.name.as_str()))?;
        trial.machine(&self.machine)?.check_data(self.data_bytes.get().into())?;
        let reads = f64::from(self.warm_reads.get()) + f64::from(self.measured_reads.get());
        Ok(self.variants.iter().fold(
            Work::new("warm_reads, measured_reads or page_bytes"),
            |work, _| {
                // Of the index and of the data.
                work.and(2.0 * reads, self.page_bytes.get())
            },
        ))
    }

    pub fn run(&self, trial: Trial) -> Result<Outcome, ExperimentError> {
        let mut findings = Vec::new();
        for variant in &self.variants {
            trial.tell(&variant.name);
            findings.extend(self.measure(variant, trial)?);
        }
        Ok(Outcome::from(findings))
    }

    fn measure(&self, variant: &Variant, trial: Trial) -> Result<Vec<Finding>, ExperimentError> {
        let mut parameters = trial.machine(&self.machine)?;
        parameters.memory_bytes = variant.cache_bytes;
        let parameters = parameters
            .with("primarycache", variant.primarycache.as_str())
            .with("recordsize", variant.recordsize.as_str())
            .with("prefetch", "none");
        let machine = Machine::new(&parameters, trial.seed)?;
        let divisor = parameters.divisor.get();
        let page_bytes = variant.page_bytes.unwrap_or(self.page_bytes);
        let pages = self.data_bytes.get() / divisor / page_bytes;
        if !(1..=PAGES_MAX).contains(&pages) {
            return Err(ExperimentError::Unfit(format!(
                "there are {pages} pages, and 1 to {PAGES_MAX} are followed; set another \
                 data_bytes or page_bytes"
            )));
        }
        let index = variant.index_bytes.map(|bytes| (bytes.get() / divisor / page_bytes).max(1));
        let files = Files {
            data: machine.file("data", pages * page_bytes.get()),
            index: index.map(|index| machine.file("index", index * page_bytes.get())),
        };
        let ranks = Zipf::new(pages as f64, self.exponent.get())
            .map_err(|error| ExperimentError::Unfit(format!("exponent: {error}")))?;
        let capacity = (variant.buffer_pool_bytes.get() / divisor / page_bytes).max(1);
        let pages = Arc::new(Mutex::new(Pages {
            count: pages,
            pool: Lru::new(capacity, &Objects::uniform(index.unwrap_or(pages) as usize)),
            random: Random::new(trial.seed),
            ranks,
            index,
            page_bytes: page_bytes.get(),
            left: self.warm_reads.get(),
            missed: 0,
            asked: 0,
        }));
        let files = Arc::new(files);
        self.read(&machine, &files, &pages);
        {
            let pages = &mut *pages.lock();
            (pages.left, pages.missed, pages.asked) = (self.measured_reads.get(), 0, 0);
        }
        let (begun, before) = (machine.now(), machine.devices());
        let hits = machine.counter("demand_data_hits");
        self.read(&machine, &files, &pages);
        let seconds = (machine.now() - begun).as_secs_f64();
        let work = machine.devices().since(&before);
        let reads = f64::from(self.measured_reads.get());
        let (missed, asked) = {
            let pages = pages.lock();
            (pages.missed as f64, pages.asked as f64)
        };
        let hits = (machine.counter("demand_data_hits") - hits) as f64;
        let name = &variant.name;
        let finding =
            |what: &str, unit, lab| Finding::new(format!("{name}: {what}"), unit, None, lab);
        Ok(vec![
            finding("pages", "pages/s", reads / seconds),
            finding("found in the database's own cache", "%", 100.0 * (1.0 - missed / reads)),
            finding("of the rest, found in the ARC", "%", 100.0 * hits.min(asked) / asked.max(1.0)),
            finding(
                "read from the disk for each page",
                "KiB",
                work.disks.read_bytes as f64 / reads / 1024.0,
            ),
        ])
    }

    /// Lets the threads read what is left to be read.
    fn read(&self, machine: &Arc<Machine>, files: &Arc<Files>, pages: &Arc<Mutex<Pages>>) {
        let running = Arc::new(Mutex::new(self.threads.get()));
        for _ in 0..self.threads.get() {
            let thread = thread(machine.clone(), files.clone(), pages.clone());
            let running = running.clone();
            machine.simulation().spawn(Box::pin(async move {
                thread.await;
                *running.lock() -= 1;
            }));
        }
        while *running.lock() > 0 {
            assert!(machine.simulation().step(), "the simulation stands still");
        }
    }
}

async fn thread(machine: Arc<Machine>, files: Arc<Files>, pages: Arc<Mutex<Pages>>) {
    let page_bytes = pages.lock().page_bytes;
    loop {
        let Some(wanted) = pages.lock().next(&files) else { return };
        if wanted.is_empty() {
            machine.work(Request::read(0, 1)).await;
        }
        for (file, offset) in wanted {
            machine.read(&file, offset, page_bytes).await;
        }
        machine.sleep(Duration::ZERO).await;
    }
}
