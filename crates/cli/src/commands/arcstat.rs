mod columns;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use daemon::protocol::{Statistics, Status};
use daemon::{Paths, Target};
use serde_json::{Map, Value};

use crate::arguments::{ArcstatArguments, IntervalArguments};
use crate::bars::{room, width};
use crate::commands::target;
use crate::failure::{Failure, Result};
use crate::format::{folded, print};
use crate::interrupt::Interrupt;
use columns::{COLUMNS, Column, Sample};

/// Lines between two headings.
const HEADING_EVERY: u64 = 20;
/// The shortest interval in seconds.
const INTERVAL_SECONDS_MIN: f64 = 0.1;
/// Between columns, and where room is short.
const GAP: &str = "  ";
const GAP_NARROW: &str = " ";
/// A wait is cut into pieces of this, so that ctrl-C is noticed.
const PATIENCE: Duration = Duration::from_millis(50);

const DEFAULT: &str = "time,read,ddread,ddh%,dda%,dmread,dmh%,pread,ph%,size,c,avail";
const EXTENDED: &str = "time,mfu,mru,mfug,mrug,unc,evict,dread,pread,read";
const FLASH: &str = "time,read,miss,l2read,l2hits,l2hit%,l2fed,l2bytes,l2wbytes,l2asize,l2size";
const ZIL: &str = "time,commit,cp50,cp99,zrec,zwrite,batch,zbytes,zwbytes,zfull,zused,zsize";
const IOSTAT: &str = "time,rd,rbytes,wr,wbytes,oread,orbytes,owrite,owbytes,ometa,l2hits,l2bytes,\
                      l2wbytes,zwrite,zwbytes,dirty,txg,state,age,delayed,commit,cp50,cp99,batch";
const PREFETCH: &str = "time,pread,pdread,pdh%,pmread,pmh%,dda%,puse,pwaste";
/// What a narrow terminal can do without, the first ones first; then the last ones.
const LEFT_OUT_FIRST: [&str; 14] = [
    "batch", "zwrite", "cp50", "l2wbytes", "age", "delayed", "txg", "state", "ometa", "l2bytes",
    "zwbytes", "owrite", "oread", "cp99",
];

/// Prints what a pool or a dataset was asked, second by second. The first line is the sum since it
/// was mounted.
pub(crate) fn arcstat(paths: &Paths, arguments: &ArcstatArguments) -> Result<()> {
    if arguments.list {
        print(&columns::list());
        return Ok(());
    }
    let of_switches = match () {
        () if arguments.extended => EXTENDED,
        () if arguments.prefetch => PREFETCH,
        () if arguments.flash => FLASH,
        () => DEFAULT,
    };
    samples(paths, arguments, of_switches)
}

/// Prints sample after sample: of the columns that are asked for, or of those that are usual.
fn samples(paths: &Paths, arguments: &ArcstatArguments, usual: &str) -> Result<()> {
    let (interval, count, text) = words(&arguments.words)?;
    let line = Line::new(arguments, usual)?;
    let target = target(paths, text.as_deref())?;
    let client = target.client()?;
    let mut output = Output::new(arguments)?;
    let interrupt = Interrupt::watch()
        .map_err(|error| Failure::new(format!("cannot watch for ctrl-C: {error}")))?;
    let uptime = client.status()?.uptime_seconds;
    let mut before: (Instant, BTreeMap<String, u64>) = (Instant::now(), BTreeMap::new());
    if !line.left_out.is_empty() {
        let note = format!("note: -f names columns; left out here: {}", line.left_out.join(", "));
        eprintln!("{}", folded(&note, width()).join("\n"));
    }
    let lines = if interval.is_none() { 1 } else { count.unwrap_or(u64::MAX) };
    for number in 0..lines {
        if number > 0 {
            let due = before.0 + interval.unwrap_or_default();
            while Instant::now() < due {
                if interrupt.is_set() {
                    return Ok(());
                }
                std::thread::sleep(PATIENCE.min(due.saturating_duration_since(Instant::now())));
            }
        }
        let statistics = match client.statistics() {
            Err(_) if number > 0 && client.was_unmounted() => {
                eprintln!("warmfront: pool `{}` was unmounted", target.pool);
                return Ok(());
            }
            answer => answer?,
        };
        let counters = counters_of(&target, statistics);
        let now = Instant::now();
        let elapsed = if number == 0 { uptime } else { (now - before.0).as_secs_f64() };
        let sample = Sample::new(&before.1, &counters, elapsed);
        output.write(&line.text(&sample, arguments, number))?;
        before = (now, counters);
    }
    Ok(())
}

/// Prints what the intent log of a pool does, second by second.
pub(crate) fn zil(paths: &Paths, arguments: &IntervalArguments) -> Result<()> {
    let (_, _, text) = words(&arguments.words)?;
    let status = target(paths, text.as_deref())?.client()?.status()?;
    if status.writes.log.is_none() && !tell_lost_log(&status) {
        eprintln!("warmfront: the pool has no log device: fsync waits for the origin");
    }
    samples(paths, &of_pool(arguments), ZIL)
}

/// Tells that a pool's log device has failed, if it has.
fn tell_lost_log(status: &Status) -> bool {
    let what = if status.is_log_missing { "is gone" } else { "failed" };
    if status.writes.has_lost_log {
        eprintln!("warmfront: the log device {what}: fsync waits for the origin");
    }
    status.writes.has_lost_log
}

/// Prints what is asked of a pool, and what it asks of its origin, flash and log, second by second.
/// People are spared the columns of what the pool does not have.
pub(crate) fn iostat(paths: &Paths, arguments: &IntervalArguments) -> Result<()> {
    let (_, _, text) = words(&arguments.words)?;
    let status = target(paths, text.as_deref())?.client()?.status()?;
    tell_lost_log(&status);
    let counters = status.counters;
    let is_for_people = !arguments.samples.json && !arguments.samples.script;
    let is_shown = |name: &&str| match *name {
        _ if !is_for_people => true,
        "l2hits" | "l2bytes" | "l2wbytes" => counters.contains_key("l2_devices"),
        "zwrite" | "zwbytes" | "commit" | "cp50" | "cp99" | "batch" => {
            counters.contains_key("zil_size")
        }
        _ => true,
    };
    let columns: Vec<&str> = IOSTAT.split(',').filter(is_shown).collect();
    samples(paths, &of_pool(arguments), &columns.join(","))
}

fn of_pool(arguments: &IntervalArguments) -> ArcstatArguments {
    ArcstatArguments {
        all: false,
        extended: false,
        prefetch: false,
        flash: false,
        list: false,
        samples: arguments.samples.clone(),
        output: None,
        separator: GAP.to_string(),
        words: arguments.words.clone(),
    }
}

/// The counters of what was named: of a dataset, or of the pool for its own dataset and for what
/// is known of the pool only.
fn counters_of(target: &Target, statistics: Statistics) -> BTreeMap<String, u64> {
    let Statistics { mut counters, mut datasets } = statistics;
    if target.dataset.name == target.pool {
        let own = datasets.remove(&target.pool).unwrap_or_default();
        let shares = own.into_iter().filter(|(name, _)| name.starts_with("arc"));
        counters.extend(shares);
        return counters;
    }
    let mut own = datasets.remove(&target.dataset.name).unwrap_or_default();
    for name in ["c", "c_max"] {
        let limit = own.get("arclimit").copied().unwrap_or(u64::MAX);
        let of_pool = counters.get(name).copied().unwrap_or(0);
        own.insert(name.to_string(), of_pool.min(limit));
    }
    own
}

/// What a line shows.
struct Line {
    columns: Vec<&'static Column>,
    separator: String,
    /// Columns for which there is no room.
    left_out: Vec<&'static str>,
}

impl Line {
    /// As it is asked for. In a terminal columns stand closer, and the usual ones are fewer, where
    /// they would take more than a line.
    fn new(arguments: &ArcstatArguments, usual: &str) -> Result<Line> {
        let are_usual = !arguments.all && arguments.samples.columns.is_none();
        let columns = match (arguments.all, &arguments.samples.columns) {
            (true, _) => COLUMNS.iter().collect(),
            (_, Some(names)) => named(names)?,
            (_, None) => named(usual)?,
        };
        let separator = arguments.separator.clone();
        let mut line = Line { columns, separator, left_out: Vec::new() };
        let is_for_people = !arguments.samples.json && !arguments.samples.script;
        if is_for_people && arguments.output.is_none() {
            line.fit(room(), are_usual);
        }
        Ok(line)
    }

    fn fit(&mut self, room: usize, may_leave_out: bool) {
        if self.width() > room && self.separator == GAP {
            self.separator = GAP_NARROW.to_string();
        }
        let mut first = LEFT_OUT_FIRST.into_iter();
        while may_leave_out && self.width() > room && self.columns.len() > 1 {
            let at = match first.next() {
                None => Some(self.columns.len() - 1),
                Some(name) => self.columns.iter().position(|column| column.name == name),
            };
            self.left_out.extend(at.map(|at| self.columns.remove(at).name));
        }
    }

    fn width(&self) -> usize {
        let gaps = self.separator.chars().count() * self.columns.len().saturating_sub(1);
        self.columns.iter().map(|column| column.width()).sum::<usize>() + gaps
    }

    /// The text of a sample, counted from 0: a line, with one of headings before it now and then.
    fn text(&self, sample: &Sample<'_>, arguments: &ArcstatArguments, number: u64) -> String {
        let columns = || self.columns.iter();
        if arguments.samples.json {
            let field = |column: &&Column| (column.name.to_string(), column.json(sample));
            let fields: Map<String, Value> = columns().map(field).collect();
            return format!("{}\n", Value::Object(fields));
        }
        let cell = |column: &&Column| column.text(sample, arguments.samples.exact);
        if arguments.samples.script {
            let cells: Vec<String> = columns().map(|it| cell(it).trim().to_string()).collect();
            return cells.join("\t") + "\n";
        }
        let set = |cells: Vec<String>| cells.join(&self.separator) + "\n";
        let mut text = String::new();
        if number.is_multiple_of(HEADING_EVERY) {
            text.push_str(&set(columns().map(|column| column.heading()).collect()));
        }
        text.push_str(&set(columns().map(cell).collect()));
        text
    }
}

/// The columns of these names, which commas separate.
fn named(names: &str) -> Result<Vec<&'static Column>> {
    let column = |name: &str| {
        COLUMNS.iter().find(|column| column.name == name.trim()).ok_or_else(|| {
            let names = COLUMNS.iter().map(|column| column.name);
            Failure::usage(format!(
                "there is no column `{name}`{}; `warmfront arcstat -v` lists them",
                warmfront::nearest(name.trim(), names)
            ))
        })
    };
    names.split(',').map(column).collect()
}

/// Interval, count and target, told apart by what they look like.
fn words(words: &[OsString]) -> Result<(Option<Duration>, Option<u64>, Option<OsString>)> {
    let mut words = words.iter().peekable();
    let number = |word: &OsString| word.to_str().and_then(|text| text.parse::<f64>().ok());
    let first = words.next_if(|word| number(word).is_none()).cloned();
    let interval = words.next_if(|word| number(word).is_some()).and_then(number);
    let interval = match interval {
        Some(seconds) if (INTERVAL_SECONDS_MIN..=86_400.0).contains(&seconds) => {
            Some(Duration::from_secs_f64(seconds))
        }
        Some(seconds) => {
            return Err(Failure::usage(format!(
                "an interval of {seconds} s makes no sense; give {INTERVAL_SECONDS_MIN} to 86400"
            )));
        }
        None => None,
    };
    let count = words.next_if(|word| interval.is_some() && number(word).is_some());
    let count = match count.and_then(|word| word.to_str()).map(str::parse::<u64>) {
        Some(Ok(count)) if count > 0 => Some(count),
        Some(_) => return Err(Failure::usage("the count is a whole number from 1 up")),
        None => None,
    };
    let target = match first {
        None => words.next().cloned(),
        first => first,
    };
    match (words.next(), &target) {
        (None, _) => Ok((interval, count, target)),
        (Some(word), target) => Err(Failure::usage(format!(
            "of `{}` and `{}` only one can be the target, and neither is an interval or a count; \
             usage: [TARGET] [INTERVAL [COUNT]]",
            target.as_deref().unwrap_or_default().to_string_lossy(),
            word.to_string_lossy()
        ))),
    }
}

/// Where the lines go.
enum Output {
    Terminal,
    File(File, String),
}

impl Output {
    fn new(arguments: &ArcstatArguments) -> Result<Output> {
        let Some(path) = &arguments.output else {
            return Ok(Output::Terminal);
        };
        let name = path.display().to_string();
        let file = File::create(path)
            .map_err(|error| Failure::new(format!("cannot write {name}: {error}")))?;
        Ok(Output::File(file, name))
    }

    fn write(&mut self, text: &str) -> Result<()> {
        match self {
            Output::Terminal => print(text),
            Output::File(file, name) => file
                .write_all(text.as_bytes())
                .map_err(|error| Failure::new(format!("cannot write {name}: {error}")))?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(Option<Duration>, Option<u64>, Option<OsString>)> {
        let parts: Vec<OsString> = text.split_whitespace().map(OsString::from).collect();
        words(&parts)
    }

    #[test]
    fn interval_count_and_target_are_told_apart() {
        let one = Some(Duration::from_secs(1));
        assert_eq!(parse("").expect("nothing"), (None, None, None));
        assert_eq!(parse("1").expect("one"), (one, None, None));
        assert_eq!(parse("1 5 /fast").expect("three"), (one, Some(5), Some("/fast".into())));
        assert_eq!(parse("/fast").expect("one"), (None, None, Some("/fast".into())));
        assert_eq!(parse("1 slow").expect("two"), (one, None, Some("slow".into())));
        assert_eq!(parse("/fast 1 5").expect("three"), (one, Some(5), Some("/fast".into())));
        for wrong in ["0", "1 0", "1 1.5", "1 2 3 4", "/a /b"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let told = parse("abc /fast").expect_err("two targets");
        let told = format!("{told:?}");
        assert!(told.contains("`abc` and `/fast`"), "{told}");
    }

    #[test]
    fn the_usual_columns_fit_into_80_characters() {
        for usual in [DEFAULT, EXTENDED, FLASH, ZIL, IOSTAT, PREFETCH] {
            let line = |room, may_leave_out| {
                let columns = named(usual).expect("there are such columns");
                let mut line = Line { columns, separator: GAP.into(), left_out: Vec::new() };
                line.fit(room, may_leave_out);
                line
            };
            let narrow = line(80, true);
            assert!(narrow.width() <= 80, "{}: {usual}", narrow.width());
            assert_eq!(narrow.left_out.is_empty(), usual != IOSTAT, "{:?}", narrow.left_out);
            assert!(narrow.columns.len() >= 9 || usual == PREFETCH, "{usual}");
            let wide = line(usize::MAX, true);
            assert!(wide.separator == GAP && wide.left_out.is_empty(), "{usual}");
            assert_eq!(line(80, false).columns.len(), wide.columns.len(), "{usual}");
            assert!(line(40, true).width() <= 40, "{usual}");
        }
    }
}
