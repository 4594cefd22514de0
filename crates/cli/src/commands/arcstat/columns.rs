use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Zoned;
use serde_json::Value;
use warmfront::{HumanSize, Setting, TxgState};

/// Two looks at the counters, and the time between them.
#[derive(Debug)]
pub(crate) struct Sample<'a> {
    before: &'a BTreeMap<String, u64>,
    after: &'a BTreeMap<String, u64>,
    elapsed_seconds: f64,
}

impl<'a> Sample<'a> {
    /// `before` is empty for a sum from the beginning.
    pub(crate) fn new(
        before: &'a BTreeMap<String, u64>,
        after: &'a BTreeMap<String, u64>,
        elapsed_seconds: f64,
    ) -> Sample<'a> {
        Sample { before, after, elapsed_seconds: elapsed_seconds.max(0.001) }
    }

    fn now(&self, name: &str) -> u64 {
        self.after.get(name).copied().unwrap_or(0)
    }

    fn moved(&self, names: &[&str]) -> u64 {
        let before = |name: &str| self.before.get(name).copied().unwrap_or(0);
        names.iter().map(|name| self.now(name).saturating_sub(before(name))).sum()
    }

    /// What so many of a hundred commits to the log took at most, microseconds; 0 if there were
    /// none.
    fn commit_time_us(&self, percent: f64) -> u64 {
        let to_us = |name: &str| name.strip_prefix(LATENCY)?.parse::<u64>().ok();
        let mut steps: Vec<(u64, u64)> = self
            .after
            .range(LATENCY.to_string()..)
            .map_while(|(name, _)| Some((to_us(name)?, self.moved(&[name]))))
            .collect();
        steps.sort_unstable();
        let all: u64 = steps.iter().map(|(_, count)| count).sum();
        let mut left = (all as f64 * percent / 100.0).ceil() as u64;
        for (us, count) in steps.into_iter().filter(|(_, count)| *count > 0) {
            if count >= left {
                return us;
            }
            left -= count;
        }
        0
    }
}

/// Counters of commits by how long they took begin so; the rest is microseconds.
const LATENCY: &str = "zil_latency_us_to_";

/// What a column shows.
enum Kind {
    /// The time of day.
    Time,
    /// How often these counters moved in a second.
    Rate(&'static [&'static str]),
    /// The first ones as a share of all.
    Share { part: &'static [&'static str], whole: &'static [&'static str] },
    /// A number of bytes, as it is now.
    Size(&'static str),
    /// What is left below the ceiling.
    Available,
    /// The setting of `policy=auto`.
    Setting,
    /// Where the transaction group nearest to the origin stands.
    TxgState,
    /// Microseconds as they are now, in milliseconds.
    AgeMilliseconds(&'static str),
    /// A share that is counted in 1/1000, as it is now.
    Permille(&'static str),
    /// Bytes in a second.
    ByteRate(&'static [&'static str]),
    /// A number, as it is now.
    Now(&'static str),
    /// How much of the first a single one of the second has.
    Mean(&'static str, &'static str),
    /// Microseconds in a second, in milliseconds.
    Milliseconds(&'static str),
    /// So many hundredths of the commits to the log took at most so many microseconds.
    CommitTime(f64),
}

/// A column of the output.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    help: &'static str,
    kind: Kind,
}

const DATA: [&str; 3] = ["demand_data_hits", "demand_data_iohits", "demand_data_misses"];
/// Of the hits among these, those that nobody had read before.
const AHEAD: &str = "demand_data_hits_ahead";
const METADATA: [&str; 2] = ["demand_metadata_hits", "demand_metadata_misses"];
const PREFETCH_DATA: [&str; 3] =
    ["prefetch_data_hits", "prefetch_data_iohits", "prefetch_data_misses"];
const PREFETCH_METADATA: [&str; 2] = ["prefetch_metadata_hits", "prefetch_metadata_misses"];
const DEMAND: [&str; 5] = [DATA[0], DATA[1], DATA[2], METADATA[0], METADATA[1]];
const PREFETCH: [&str; 5] = [
    PREFETCH_DATA[0],
    PREFETCH_DATA[1],
    PREFETCH_DATA[2],
    PREFETCH_METADATA[0],
    PREFETCH_METADATA[1],
];
const ALL_METADATA: [&str; 4] =
    [METADATA[0], METADATA[1], PREFETCH_METADATA[0], PREFETCH_METADATA[1]];
const FLASH: [&str; 2] = ["l2_hits", "l2_misses"];
const ALL: [&str; 3] = ["hits", "iohits", "misses"];

macro_rules! column {
    ($name:literal, $help:literal, $kind:expr) => {
        Column { name: $name, help: $help, kind: $kind }
    };
}

/// All columns.
pub(crate) const COLUMNS: &[Column] = &[
    column!("time", "time of day", Kind::Time),
    column!("read", "accesses a second, of all kinds", Kind::Rate(&ALL)),
    column!("hits", "accesses a second that were answered from RAM", Kind::Rate(&["hits"])),
    column!("iohs", "accesses a second that joined a fetch under way", Kind::Rate(&["iohits"])),
    column!("miss", "accesses a second that RAM could not answer", Kind::Rate(&["misses"])),
    column!("hit%", "share of hits", Kind::Share { part: &["hits"], whole: &ALL }),
    column!("ioh%", "share of joined fetches", Kind::Share { part: &["iohits"], whole: &ALL }),
    column!("miss%", "share of misses", Kind::Share { part: &["misses"], whole: &ALL }),
    column!("dread", "demanded accesses a second", Kind::Rate(&DEMAND)),
    column!("dhit", "demanded accesses, hits a second", Kind::Rate(&[DATA[0], METADATA[0]])),
    column!("dioh", "demanded accesses, joined fetches a second", Kind::Rate(&[DATA[1]])),
    column!("dmis", "demanded accesses, misses a second", Kind::Rate(&[DATA[2], METADATA[1]])),
    column!(
        "dh%",
        "demanded accesses, share of hits",
        Kind::Share { part: &[DATA[0], METADATA[0]], whole: &DEMAND }
    ),
    column!(
        "dm%",
        "demanded accesses, share of misses",
        Kind::Share { part: &[DATA[2], METADATA[1]], whole: &DEMAND }
    ),
    column!("ddread", "demanded contents, records a second", Kind::Rate(&DATA)),
    column!("ddhit", "demanded contents, hits a second", Kind::Rate(&[DATA[0]])),
    column!("ddioh", "demanded contents, joined fetches a second", Kind::Rate(&[DATA[1]])),
    column!("ddmis", "demanded contents, misses a second", Kind::Rate(&[DATA[2]])),
    column!(
        "ddh%",
        "demanded contents, share of hits, first reads of what was brought ahead among them",
        Kind::Share { part: &[DATA[0]], whole: &DATA }
    ),
    column!(
        "ddahit",
        "demanded contents, first reads of what read-ahead or priming had brought, a second",
        Kind::Rate(&[AHEAD])
    ),
    column!(
        "dda%",
        "demanded contents, share of such first reads: hits of no cache, but of read-ahead",
        Kind::Share { part: &[AHEAD], whole: &DATA }
    ),
    column!(
        "ddm%",
        "demanded contents, share of misses",
        Kind::Share { part: &[DATA[2]], whole: &DATA }
    ),
    column!("dmread", "demanded metadata, answers a second", Kind::Rate(&METADATA)),
    column!("dmhit", "demanded metadata, hits a second", Kind::Rate(&[METADATA[0]])),
    column!("dmmis", "demanded metadata, misses a second", Kind::Rate(&[METADATA[1]])),
    column!(
        "dmh%",
        "demanded metadata, share of hits",
        Kind::Share { part: &[METADATA[0]], whole: &METADATA }
    ),
    column!(
        "dmm%",
        "demanded metadata, share of misses",
        Kind::Share { part: &[METADATA[1]], whole: &METADATA }
    ),
    column!("pread", "prefetched accesses a second", Kind::Rate(&PREFETCH)),
    column!(
        "phit",
        "prefetched accesses found in RAM, a second",
        Kind::Rate(&[PREFETCH_DATA[0], PREFETCH_METADATA[0]])
    ),
    column!(
        "pmis",
        "prefetched accesses that the origin had to answer, a second",
        Kind::Rate(&[PREFETCH_DATA[2], PREFETCH_METADATA[1]])
    ),
    column!(
        "ph%",
        "prefetched, share found in RAM",
        Kind::Share { part: &[PREFETCH_DATA[0], PREFETCH_METADATA[0]], whole: &PREFETCH }
    ),
    column!(
        "pm%",
        "prefetched, share that the origin had to answer",
        Kind::Share { part: &[PREFETCH_DATA[2], PREFETCH_METADATA[1]], whole: &PREFETCH }
    ),
    column!("pdread", "prefetched contents, records a second", Kind::Rate(&PREFETCH_DATA)),
    column!(
        "pdh%",
        "prefetched contents, share found in RAM",
        Kind::Share { part: &[PREFETCH_DATA[0]], whole: &PREFETCH_DATA }
    ),
    column!("pmread", "prefetched metadata, answers a second", Kind::Rate(&PREFETCH_METADATA)),
    column!(
        "pmh%",
        "prefetched metadata, share found in RAM",
        Kind::Share { part: &[PREFETCH_METADATA[0]], whole: &PREFETCH_METADATA }
    ),
    column!("mread", "accesses to metadata a second", Kind::Rate(&ALL_METADATA)),
    column!(
        "mhit",
        "accesses to metadata, hits a second",
        Kind::Rate(&[METADATA[0], PREFETCH_METADATA[0]])
    ),
    column!(
        "mmis",
        "accesses to metadata, misses a second",
        Kind::Rate(&[METADATA[1], PREFETCH_METADATA[1]])
    ),
    column!(
        "mh%",
        "accesses to metadata, share of hits",
        Kind::Share { part: &[METADATA[0], PREFETCH_METADATA[0]], whole: &ALL_METADATA }
    ),
    column!(
        "mm%",
        "accesses to metadata, share of misses",
        Kind::Share { part: &[METADATA[1], PREFETCH_METADATA[1]], whole: &ALL_METADATA }
    ),
    column!(
        "puse",
        "first reads of prefetched records, a second",
        Kind::Rate(&["demand_hit_prefetch"])
    ),
    column!(
        "pwaste",
        "prefetched records that went unread, a second",
        Kind::Rate(&["prefetch_wasted"])
    ),
    column!("mru", "hits a second on recently used records", Kind::Rate(&["mru_hits"])),
    column!("mfu", "hits a second on frequently used records", Kind::Rate(&["mfu_hits"])),
    column!(
        "mrug",
        "hits a second on ghosts of recently used ones",
        Kind::Rate(&["mru_ghost_hits"])
    ),
    column!(
        "mfug",
        "hits a second on ghosts of frequently used ones",
        Kind::Rate(&["mfu_ghost_hits"])
    ),
    column!("unc", "hits a second on records not to be kept", Kind::Rate(&["uncached_hits"])),
    column!("evict", "records evicted a second", Kind::Rate(&["deleted"])),
    column!("evbytes", "bytes evicted a second", Kind::ByteRate(&["evicted_bytes"])),
    column!("unprom", "hits a second that did not count as use", Kind::Rate(&["unpromoted_hits"])),
    column!(
        "passed",
        "records a second read without being kept, for promote=off or a control group",
        Kind::Rate(&["uncached_promote", "uncached_cgroup"])
    ),
    column!("set", "setting of policy=auto in force", Kind::Setting),
    column!(
        "h1%",
        "hits that the setting `steady` would have",
        Kind::Permille("auto_steady_permille")
    ),
    column!(
        "h2%",
        "hits that the setting `frequency` would have",
        Kind::Permille("auto_frequency_permille")
    ),
    column!(
        "h3%",
        "hits that the setting `balance` would have",
        Kind::Permille("auto_balance_permille")
    ),
    column!(
        "h4%",
        "hits that the setting `recency` would have",
        Kind::Permille("auto_recency_permille")
    ),
    column!("rsv", "RAM reserved for the dataset", Kind::Size("arcreserve")),
    column!("lim", "RAM that the dataset cannot exceed", Kind::Size("arclimit")),
    column!("share", "RAM charged to the dataset's reserve and limit", Kind::Size("arcshare_size")),
    column!("rd", "reads of files a second, in calls", Kind::Rate(&["read_calls"])),
    column!("rbytes", "bytes a second that these gave", Kind::ByteRate(&["read_bytes"])),
    column!("wr", "writes to files a second, in calls", Kind::Rate(&["write_calls"])),
    column!("wbytes", "bytes a second that these took", Kind::ByteRate(&["written_bytes"])),
    column!("oread", "reads of the origin a second", Kind::Rate(&["origin_reads"])),
    column!(
        "orbytes",
        "bytes a second read from the origin",
        Kind::ByteRate(&["origin_read_bytes"])
    ),
    column!("owrite", "writes to the origin a second", Kind::Rate(&["origin_writes"])),
    column!(
        "owbytes",
        "bytes a second written to the origin",
        Kind::ByteRate(&["origin_write_bytes"])
    ),
    column!("ometa", "other calls to the origin a second", Kind::Rate(&["origin_metadata_calls"])),
    column!("dirty", "bytes that the origin does not have, or may lose", Kind::Size("dirty_bytes")),
    column!("dmax", "most bytes of them", Kind::Size("dirty_bytes_max")),
    column!("dfile", "files that they belong to", Kind::Now("dirty_files")),
    column!(
        "txg",
        "number of the transaction group on its way to the origin, else of the open one",
        Kind::Now("txg")
    ),
    column!("state", "where that group stands: open, quiescing or syncing", Kind::TxgState),
    column!("age", "milliseconds since its first change", Kind::AgeMilliseconds("txg_age_us")),
    column!("txgs", "transaction groups a second", Kind::Rate(&["txg_committed"])),
    column!("delay", "writes a second that were delayed", Kind::Rate(&["throttle_writes"])),
    column!(
        "delayed",
        "milliseconds in a second that writers were delayed, in all",
        Kind::Milliseconds("throttle_us")
    ),
    column!("commit", "commits to the log a second", Kind::Rate(&["zil_commits"])),
    column!("cp50", "microseconds that half of these took at most", Kind::CommitTime(50.0)),
    column!("cp99", "microseconds that 99 of 100 took at most", Kind::CommitTime(99.0)),
    column!("zrec", "records a second appended to the log", Kind::Rate(&["zil_records"])),
    column!("zwrite", "blocks a second written to the log", Kind::Rate(&["zil_blocks"])),
    column!("batch", "records of a block", Kind::Mean("zil_records_written", "zil_blocks")),
    column!("zbytes", "contents a second appended to the log", Kind::ByteRate(&["zil_data_bytes"])),
    column!("zwbytes", "bytes a second written to the log", Kind::ByteRate(&["zil_block_bytes"])),
    column!("zfull", "times a second that the log was full", Kind::Rate(&["zil_full"])),
    column!("zused", "bytes in the log that the origin lacks", Kind::Size("zil_used")),
    column!("zsize", "bytes of the log", Kind::Size("zil_size")),
    column!("size", "RAM in use", Kind::Size("size")),
    column!("arcsz", "RAM in use, by its name in older tools", Kind::Size("size")),
    column!("data", "RAM for contents", Kind::Size("data_size")),
    column!("meta", "RAM for metadata", Kind::Size("metadata_size")),
    column!("c", "RAM that the ARC may take at present", Kind::Size("c")),
    column!("avail", "RAM left below the ceiling", Kind::Available),
    column!("cmax", "the ceiling: RAM that everything together may take", Kind::Size("c_max")),
    column!("cmin", "what the ceiling never shrinks below", Kind::Size("c_min")),
    column!(
        "free",
        "memory that can still be had without harm to other processes",
        Kind::Size("memory_available_bytes")
    ),
    column!(
        "shrnk",
        "times a second that the ceiling was lowered",
        Kind::Rate(&["ceiling_shrinks"])
    ),
    column!("grow", "times a second that the ceiling was raised", Kind::Rate(&["ceiling_grows"])),
    column!("l2read", "records a second that RAM missed, with a cache device", Kind::Rate(&FLASH)),
    column!("l2hits", "of these, those that came from flash", Kind::Rate(&["l2_hits"])),
    column!(
        "l2miss",
        "of these, those that flash did not give: it had them not, or was not asked",
        Kind::Rate(&["l2_misses"])
    ),
    column!(
        "l2skip",
        "of these, those that flash may have and was not asked for: bypassed, slower or busy; of \
         the pool",
        Kind::Rate(&["l2_miss_bypassed", "l2_miss_slower", "l2_miss_busy"])
    ),
    column!(
        "l2hit%",
        "share of what RAM missed that came from flash",
        Kind::Share { part: &["l2_hits"], whole: &FLASH }
    ),
    column!(
        "l2miss%",
        "share of what RAM missed that flash did not give",
        Kind::Share { part: &["l2_misses"], whole: &FLASH }
    ),
    column!("l2fed", "records a second that flash took in", Kind::Rate(&["l2_fed"])),
    column!("l2bytes", "bytes a second read from flash", Kind::ByteRate(&["l2_read_bytes"])),
    column!("l2wbytes", "bytes a second written to flash", Kind::ByteRate(&["l2_write_bytes"])),
    column!("l2asize", "bytes on flash", Kind::Size("l2_asize")),
    column!("l2size", "bytes of the cache devices", Kind::Size("l2_size")),
];

impl Column {
    /// Characters that it takes.
    pub(crate) fn width(&self) -> usize {
        let least = match self.kind {
            Kind::Time => 8,
            Kind::Setting | Kind::TxgState => 9,
            _ => 5,
        };
        self.name.len().max(least)
    }

    /// The name, as wide as the column.
    pub(crate) fn heading(&self) -> String {
        format!("{:>width$}", self.name, width = self.width())
    }

    /// The value, as wide as the column unless it is exact.
    pub(crate) fn text(&self, sample: &Sample<'_>, exact: bool) -> String {
        let text = match (&self.kind, self.number(sample)) {
            (Kind::Time, _) => Zoned::now().strftime("%H:%M:%S").to_string(),
            (Kind::Share { whole, .. }, _) if sample.moved(whole) == 0 => "-".to_string(),
            (Kind::Permille(_), _) if sample.now("auto_sampled") == 0 => "-".to_string(),
            (Kind::Mean(_, whole), _) if sample.moved(&[whole]) == 0 => "-".to_string(),
            (Kind::CommitTime(_), 0.0) => "-".to_string(),
            (Kind::Mean(..), number) => format!("{number:.1}"),
            (Kind::Now(_), number) => format!("{number:.0}"),
            (Kind::TxgState, number) => txg_state(number as usize).unwrap_or("-").to_string(),
            (Kind::Setting, number) => setting(number as usize).unwrap_or("-").to_string(),
            (_, number) if exact => format!("{number:.0}"),
            (Kind::Size(_) | Kind::Available | Kind::ByteRate(_), number) => {
                HumanSize(number as u64).to_string()
            }
            (_, number) => rounded(number),
        };
        format!("{text:>width$}", width = self.width())
    }

    /// The value for programs.
    pub(crate) fn json(&self, sample: &Sample<'_>) -> Value {
        match &self.kind {
            Kind::Share { whole, .. } if sample.moved(whole) == 0 => Value::Null,
            Kind::Permille(_) if sample.now("auto_sampled") == 0 => Value::Null,
            Kind::Mean(_, whole) if sample.moved(&[whole]) == 0 => Value::Null,
            Kind::CommitTime(_) if self.number(sample) == 0.0 => Value::Null,
            Kind::TxgState => Value::from(txg_state(self.number(sample) as usize)),
            Kind::Setting => Value::from(setting(self.number(sample) as usize)),
            Kind::Size(_) | Kind::Now(_) | Kind::Available | Kind::CommitTime(_) => {
                Value::from(self.number(sample) as u64)
            }
            Kind::AgeMilliseconds(_) => Value::from(self.number(sample).round() as u64),
            _ => Value::from(self.number(sample)),
        }
    }

    fn number(&self, sample: &Sample<'_>) -> f64 {
        match &self.kind {
            Kind::Time => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
            }
            Kind::Rate(names) | Kind::ByteRate(names) => {
                sample.moved(names) as f64 / sample.elapsed_seconds
            }
            Kind::Share { part, whole } => {
                sample.moved(part) as f64 * 100.0 / sample.moved(whole).max(1) as f64
            }
            Kind::Size(name) | Kind::Now(name) => sample.now(name) as f64,
            Kind::Mean(part, whole) => {
                sample.moved(&[part]) as f64 / sample.moved(&[whole]).max(1) as f64
            }
            Kind::Milliseconds(name) => {
                sample.moved(&[name]) as f64 / 1000.0 / sample.elapsed_seconds
            }
            Kind::CommitTime(percent) => sample.commit_time_us(*percent) as f64,
            Kind::AgeMilliseconds(name) => sample.now(name) as f64 / 1000.0,
            Kind::TxgState => sample.now("txg_state") as f64,
            Kind::Setting => sample.now("auto_setting") as f64,
            Kind::Permille(name) => sample.now(name) as f64 / 10.0,
            Kind::Available => sample.now("c_max").saturating_sub(sample.now("size")) as f64,
        }
    }
}

/// The columns with their meanings.
pub(crate) fn list() -> String {
    COLUMNS.iter().map(|column| format!("{:>8}  {}\n", column.name, column.help)).collect()
}

/// The name of a setting by its number, which counts from 1.
fn setting(number: usize) -> Option<&'static str> {
    Setting::ALL.get(number.checked_sub(1)?).map(|setting| setting.name())
}

/// The name of a state of a transaction group by its number.
fn txg_state(number: usize) -> Option<&'static str> {
    TxgState::ALL.get(number).map(|state| state.name())
}

/// A count with a unit, so that it stays narrow.
fn rounded(number: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "K")];
    match units.into_iter().find(|(least, _)| number >= *least && number >= 1e4) {
        Some((least, unit)) if number >= least * 100.0 => format!("{:.0}{unit}", number / least),
        Some((least, unit)) => format!("{:.1}{unit}", number / least),
        None => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(values: &[(&str, u64)]) -> BTreeMap<String, u64> {
        values.iter().map(|(name, value)| (name.to_string(), *value)).collect()
    }

    fn shown(name: &str, sample: &Sample<'_>) -> String {
        let column = COLUMNS.iter().find(|column| column.name == name).expect("a column");
        column.text(sample, false).trim().to_string()
    }

    #[test]
    fn rates_and_shares_come_from_what_moved_between_two_looks() {
        let before = counters(&[("demand_data_hits", 100), ("demand_data_misses", 50)]);
        let after = counters(&[
            ("demand_data_hits", 400),
            ("demand_data_misses", 150),
            ("size", 3 << 30),
            ("c_max", 4 << 30),
        ]);
        let sample = Sample::new(&before, &after, 2.0);
        assert_eq!(shown("ddread", &sample), "200");
        assert_eq!(shown("ddh%", &sample), "75");
        assert_eq!(shown("dmh%", &sample), "-");
        assert_eq!(shown("size", &sample), "3G");
        assert_eq!(shown("avail", &sample), "1G");
    }

    #[test]
    fn the_setting_in_force_has_its_name_and_the_others_their_hits() {
        let after =
            counters(&[("auto_setting", 3), ("auto_sampled", 7), ("auto_balance_permille", 715)]);
        let before = BTreeMap::new();
        let sample = Sample::new(&before, &after, 1.0);
        assert_eq!((shown("set", &sample), shown("h3%", &sample)), ("balance".into(), "72".into()));
        let none = BTreeMap::new();
        let sample = Sample::new(&before, &none, 1.0);
        assert_eq!((shown("set", &sample), shown("h3%", &sample)), ("-".into(), "-".into()));
    }

    #[test]
    fn times_of_commits_are_of_those_between_two_looks() {
        let before = counters(&[("zil_latency_us_to_8", 1000), ("zil_latency_us_to_100", 5)]);
        let after = counters(&[
            ("zil_latency_us_to_8", 1000),
            ("zil_latency_us_to_20", 60),
            ("zil_latency_us_to_100", 44),
            ("zil_latency_us_to_3000", 1),
        ]);
        let sample = Sample::new(&before, &after, 1.0);
        let times = [50.0, 99.0, 100.0].map(|percent| sample.commit_time_us(percent));
        assert_eq!(times, [20, 100, 3000]);
        assert_eq!(shown("cp50", &Sample::new(&after, &after, 1.0)), "-");
    }

    #[test]
    fn what_is_whole_is_so_for_programs() {
        let after = counters(&[("txg", 7), ("txg_age_us", 2_500), ("size", 4096), ("hits", 3)]);
        let before = BTreeMap::new();
        let sample = Sample::new(&before, &after, 2.0);
        let json = |name: &str| {
            let column = COLUMNS.iter().find(|column| column.name == name).expect("a column");
            column.json(&sample).to_string()
        };
        let told = ["txg", "age", "size", "hits"].map(json);
        assert_eq!(told, ["7", "3", "4096", "1.5"]);
    }

    #[test]
    fn every_column_is_as_wide_as_its_heading() {
        let after = counters(&[("hits", 123_456_789)]);
        let before = BTreeMap::new();
        let sample = Sample::new(&before, &after, 1.0);
        for column in COLUMNS {
            assert_eq!(
                column.heading().len(),
                column.text(&sample, false).len(),
                "{}",
                column.name
            );
        }
    }

    #[test]
    fn names_are_unique() {
        for (index, column) in COLUMNS.iter().enumerate() {
            assert!(!COLUMNS[..index].iter().any(|other| other.name == column.name));
        }
    }
}
