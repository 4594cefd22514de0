use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand_distr::{Distribution, Zipf};
use serde::Deserialize;
use storage::{Random, Spawn};
use warmfront::OpenFile;

use super::{ExperimentError, Finding, Outcome, Trial, Work};
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
    buffer_pool_bytes: NonZeroU64,
    cache_bytes: NonZeroU64,
    primarycache: String,
    recordsize: String,
}

/// The buffer pool and what it was asked for.
struct Pages {
    pool: Lru,
    random: Random,
    ranks: Zipf<f64>,
    count: u64,
    left: u32,
    missed: u64,
}

impl Database {
    /// The most that it has to simulate.
    pub fn work(&self, _trial: Trial) -> Result<Work, ExperimentError> {
        let reads = f64::from(self.warm_reads.get()) + f64::from(self.measured_reads.get());
        Ok(self
            .variants
            .iter()
            .fold(Work::new("warm_reads, measured_reads or page_bytes"), |work, _| {
                work.and(reads, self.page_bytes.get())
            }))
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
        let pages = self.data_bytes.get() / divisor / self.page_bytes;
        if !(1..=PAGES_MAX).contains(&pages) {
            return Err(ExperimentError::Unfit(format!(
                "there are {pages} pages, and 1 to {PAGES_MAX} are followed; set another \
                 data_bytes or page_bytes"
            )));
        }
        let file = machine.file("ibdata1", pages * self.page_bytes.get());
        let ranks = Zipf::new(pages as f64, self.exponent.get())
            .map_err(|error| ExperimentError::Unfit(format!("exponent: {error}")))?;
        let capacity = (variant.buffer_pool_bytes.get() / divisor / self.page_bytes).max(1);
        let pages = Arc::new(Mutex::new(Pages {
            count: pages,
            pool: Lru::new(capacity, &Objects::uniform(pages as usize)),
            random: Random::new(trial.seed),
            ranks,
            left: self.warm_reads.get(),
            missed: 0,
        }));
        self.read(&machine, &file, &pages);
        pages.lock().left = self.measured_reads.get();
        pages.lock().missed = 0;
        let (begun, before) = (machine.now(), machine.devices());
        let hits = machine.counter("demand_data_hits");
        self.read(&machine, &file, &pages);
        let seconds = (machine.now() - begun).as_secs_f64();
        let work = machine.devices().since(&before);
        let reads = f64::from(self.measured_reads.get());
        let missed = pages.lock().missed as f64;
        let hits = (machine.counter("demand_data_hits") - hits) as f64;
        let name = &variant.name;
        let finding =
            |what: &str, unit, lab| Finding::new(format!("{name}: {what}"), unit, None, lab);
        Ok(vec![
            finding("pages", "pages/s", reads / seconds),
            finding("found in the buffer pool", "%", 100.0 * (1.0 - missed / reads)),
            finding("found in the ARC", "%", 100.0 * hits.min(missed) / reads),
            finding(
                "read from the disk for each page",
                "KiB",
                work.disks.read_bytes as f64 / reads / 1024.0,
            ),
        ])
    }

    /// Lets the threads read what is left to be read.
    fn read(&self, machine: &Arc<Machine>, file: &Arc<OpenFile>, pages: &Arc<Mutex<Pages>>) {
        let running = Arc::new(Mutex::new(self.threads.get()));
        for _ in 0..self.threads.get() {
            let thread =
                thread(machine.clone(), file.clone(), pages.clone(), self.page_bytes.get());
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

async fn thread(
    machine: Arc<Machine>,
    file: Arc<OpenFile>,
    pages: Arc<Mutex<Pages>>,
    page_bytes: u64,
) {
    loop {
        let (page, found) = {
            let mut pages = pages.lock();
            let Pages { count, pool, random, ranks, left, missed } = &mut *pages;
            if *left == 0 {
                return;
            }
            *left -= 1;
            let rank = ranks.sample(&mut Source(random)) as u64 - 1;
            // Hot pages lie apart.
            let page = Random::new(rank).below(*count);
            let found = pool.access(page as u32);
            *missed += u64::from(!found);
            (page, found)
        };
        match found {
            true => machine.work(Request::read(0, 1)).await,
            false => drop(machine.read(&file, page * page_bytes, page_bytes).await),
        }
        machine.sleep(Duration::ZERO).await;
    }
}
