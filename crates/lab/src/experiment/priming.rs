use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use storage::{Random, Spawn};
use warmfront::OpenFile;

use super::{ExperimentError, Finding, Outcome, Trial, Work, distinct};
use crate::machine::{Machine, Step, Steps};
use crate::model::Positive;

/// Most records, and most searches of all: their order is kept in RAM.
const RECORDS_MAX: u64 = 1 << 22;

/// What reads at a rate reads so much at a time.
const AT_RATE_BYTES: u64 = 1 << 20;

/// A directory server after a restart, with its data primed by several methods.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Priming {
    machine: String,
    data_bytes: NonZeroU64,
    record_bytes: NonZeroU64,
    /// Starting a `dd`, as the article's script does for each block.
    dd_start_us: Positive,
    /// Searches side by side, and on each record until all is loaded.
    searchers: NonZeroU32,
    searches_per_record: NonZeroU32,
    search_bytes: NonZeroU64,
    cases: Vec<Case>,
}

/// A row of the article's table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    method: Method,
    source_minutes: f64,
    source_percent: f64,
    source_ldap_minutes: f64,
    source_searches_per_s: f64,
    source_response_ms: f64,
    /// What a parameter was fitted to.
    fitted: Option<Fitted>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Fitted {
    /// The time of the `dd`, by `dd_start_us`.
    Dd,
    /// The time of the searches, by `record_bytes`.
    Ldap,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Method {
    None {},
    Dd {
        block_bytes: NonZeroU64,
        passes: NonZeroU32,
    },
    /// As quickly as the lanes of the L2ARC take it.
    AtRate {
        rate_bytes_per_s: NonZeroU64,
    },
}

impl Priming {
    /// The most that it has to simulate.
    pub fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        distinct(self.cases.iter().map(|case| case.name.as_str()))?;
        let machine = trial.machine(&self.machine)?;
        machine.check()?;
        machine.check_data(self.data_bytes.get().into())?;
        let divisor = machine.divisor.get() as f64;
        let data = self.data_bytes.get() as f64 / divisor;
        let searches = data / self.record_bytes.get() as f64;
        // Until all is loaded, and once more.
        let searches = 2.0 * searches * f64::from(self.searches_per_record.get());
        let keys = "search_bytes, searches_per_record, passes or data_bytes";
        Ok(self.cases.iter().fold(Work::new(keys), |work, case| {
            let work = work.and(searches, self.search_bytes.get());
            match case.method {
                Method::None {} => work,
                Method::Dd { block_bytes, passes } => {
                    let blocks = data / block_bytes.get() as f64;
                    work.and(blocks * f64::from(passes.get()), block_bytes.get())
                }
                Method::AtRate { .. } => work.and(data / AT_RATE_BYTES as f64, AT_RATE_BYTES),
            }
        }))
    }

    pub fn run(&self, trial: Trial) -> Result<Outcome, ExperimentError> {
        let mut findings = Vec::new();
        for case in &self.cases {
            trial.tell(&case.name);
            findings.extend(self.case(case, trial)?);
        }
        Ok(Outcome::from(findings))
    }

    fn case(&self, case: &Case, trial: Trial) -> Result<Vec<Finding>, ExperimentError> {
        let (parameters, seed) = (trial.machine(&self.machine)?, trial.seed);
        let parameters = parameters.with("recordsize", self.record_bytes.to_string());
        let scale = parameters.divisor.get() as f64;
        let machine = Machine::new(&parameters, seed)?;
        let records = self.data_bytes.get() / parameters.divisor / self.record_bytes;
        let searches = records * u64::from(self.searches_per_record.get());
        if records == 0 || searches > RECORDS_MAX {
            return Err(ExperimentError::Unfit(format!(
                "there are {records} records and {searches} searches, and 1 to {RECORDS_MAX} are \
                 followed; set another data_bytes or record_bytes"
            )));
        }
        let file = machine.file("telco_id2entry.db3", records * self.record_bytes.get());
        let minutes = |time: Duration| time.as_secs_f64() * scale / 60.0;

        let begun = machine.now();
        match case.method {
            Method::None {} => {}
            Method::Dd { block_bytes, passes } => {
                for _ in 0..passes.get() {
                    machine.run(self.dd(&machine, &file, records, block_bytes.get()));
                }
            }
            Method::AtRate { rate_bytes_per_s } => {
                let bytes = records * self.record_bytes.get();
                machine.run(at_rate(&machine, &file, bytes, rate_bytes_per_s.get()));
            }
        }
        let primed = machine.now() - begun;

        // Every record is searched for, in no order.
        let (begun, before) = (machine.now(), machine.devices());
        machine.load(&self.searches(&file, records, seed), None);
        let all = machine.now() - begun;
        let work = machine.devices().since(&before);
        let (busy, missing) = (work.disks_busy_percent(), work.disks.reads as f64);
        // Reads of metadata count as well: with all missing there are a few more than records.
        let percent = (100.0 * (1.0 - missing / records as f64)).max(0.0);
        let before = machine.devices();
        let warm = machine.load(&self.searches(&file, records, seed ^ 1), None);
        let warm_busy = machine.devices().since(&before).disks_busy_percent();
        // While the disks are busy, what is missing is being loaded.
        let loading = all.mul_f64(busy / 100.0);
        let name = &case.name;
        let finding = |what: &str, unit, source, lab| {
            Finding::new(format!("{name}: {what}"), unit, Some(source), lab)
        };
        let time = finding("dd time", "min", case.source_minutes, minutes(primed));
        let ldap = finding("LDAP time after it", "min", case.source_ldap_minutes, minutes(loading));
        let mut findings = vec![
            match case.method {
                // The data at the rate at which they are read.
                Method::AtRate { .. } => time.given(),
                _ if case.fitted == Some(Fitted::Dd) => time.fitted(),
                _ => time,
            },
            finding("share of the data", "%", case.source_percent, percent),
            if case.fitted == Some(Fitted::Ldap) { ldap.fitted() } else { ldap },
            finding(
                "searches once warm",
                "1/s",
                case.source_searches_per_s,
                warm.operations_per_s(),
            )
            .fitted(),
            finding("response once warm", "ms", case.source_response_ms, warm.mean_ms()).fitted(),
        ];
        if case.method == (Method::None {}) {
            findings.push(finding("disks busy meanwhile", "%", 98.0, busy));
        }
        let what = format!("{name}: disks busy once warm");
        findings.push(Finding::new(what, "%", None, warm_busy));
        Ok(findings)
    }

    /// The article's script: starts a `dd` for each block, and does not wait for it.
    async fn dd(&self, machine: &Arc<Machine>, file: &Arc<OpenFile>, records: u64, block: u64) {
        let bytes = records * self.record_bytes.get();
        let under_way = Arc::new(Mutex::new(0u64));
        for offset in (0..bytes).step_by(block as usize) {
            machine.sleep(Duration::from_nanos(self.dd_start_us.microseconds())).await;
            *under_way.lock() += 1;
            let (machine_of, file, under_way) = (machine.clone(), file.clone(), under_way.clone());
            machine.simulation().spawn(Box::pin(async move {
                machine_of.read(&file, offset, block).await;
                *under_way.lock() -= 1;
            }));
        }
        while *under_way.lock() > 0 {
            machine.sleep(Duration::from_millis(1)).await;
        }
    }

    fn searches(&self, file: &Arc<OpenFile>, records: u64, seed: u64) -> Vec<Steps> {
        let mut random = Random::new(seed);
        let mut order: Vec<u64> = (0..records)
            .flat_map(|record| std::iter::repeat_n(record, self.searches_per_record.get() as usize))
            .collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        let (file, record_bytes, bytes) =
            (file.clone(), self.record_bytes.get(), self.search_bytes.get());
        let steps: Steps = Arc::new(Mutex::new(move || {
            let offset = order.pop()? * record_bytes;
            Some(Step { file: file.clone(), offset, bytes, write: false })
        }));
        vec![steps; self.searchers.get() as usize]
    }
}

/// Reads a file from beginning to end, so much a second.
async fn at_rate(machine: &Arc<Machine>, file: &Arc<OpenFile>, bytes: u64, bytes_per_s: u64) {
    for (number, offset) in (1u32..).zip((0..bytes).step_by(AT_RATE_BYTES as usize)) {
        let due = Duration::from_secs_f64(AT_RATE_BYTES as f64 / bytes_per_s as f64) * number;
        machine.read(file, offset, AT_RATE_BYTES).await;
        machine.sleep(due.saturating_sub(machine.now())).await;
    }
}
