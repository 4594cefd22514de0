//! [`Experiment`]: what the sources report, done again on models.

mod ceiling;
mod clients;
mod database;
mod deletes;
mod files;
mod find;
mod flash;
mod free_behind;
mod lanes;
mod page_out;
mod pieces;
mod priming;
mod systems;
mod trial;
mod work;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::machine::MachineError;
use crate::model::EquipmentError;
use files::Files;
use trial::Trial;
use work::Work;

pub use crate::bounds::OutOfBounds;

/// An experiment: a question, the equipment, and what is done.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What is asked, in a line.
    pub question: String,
    /// Where the sources tell of it.
    pub source: String,
    /// What was set up and done, in a few sentences.
    pub setup: String,
    /// What was found, and where it differs from the source and why.
    pub remark: String,
    /// What is drawn is drawn from this.
    pub seed: u64,
    /// What is done.
    procedure: Procedure,
    /// What it names by files.
    #[serde(skip)]
    files: Files,
}

/// What is done, and with what.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Procedure {
    EraseBeforeWrite(flash::EraseBeforeWrite),
    CellLife(flash::CellLife),
    Reserve(flash::Reserve),
    PowerLoss(flash::PowerLoss),
    Lanes(lanes::Lanes),
    Clients(clients::Clients),
    FindTwice(find::FindTwice),
    Pieces(pieces::Pieces),
    Deletes(deletes::Deletes),
    Database(database::Database),
    Priming(priming::Priming),
    FreeBehind(free_behind::FreeBehind),
    Ceiling(ceiling::Ceiling),
    PageOut(page_out::PageOut),
    Systems(systems::Systems),
}

/// A figure that an experiment found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Of what.
    pub what: String,
    /// In which unit.
    pub unit: &'static str,
    /// What the source says, if it gives a figure.
    pub source: Option<f64>,
    /// What the lab found.
    pub lab: f64,
    /// What it found at half the size and with everything drawn anew, if sizes are divided.
    pub half: Option<f64>,
    /// Whether it proves anything that it agrees with the source.
    pub basis: Basis,
}

/// What a figure rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// It came out.
    Found,
    /// A parameter was chosen to hit the source's figure, so that it proves nothing.
    Fitted,
    /// It is what went in, or follows from that alone, so that it proves nothing either.
    Input,
}

impl Basis {
    /// What stands beside a figure that proves nothing.
    pub fn mark(self) -> Option<&'static str> {
        match self {
            Basis::Found => None,
            Basis::Fitted => Some("fitted"),
            Basis::Input => Some("from the input"),
        }
    }
}

/// What an experiment found: figures and pictures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// The figures.
    pub findings: Vec<Finding>,
    /// The pictures.
    pub charts: Vec<Chart>,
}

impl Outcome {
    /// Says of each figure how far it is from that of a trial at half the size.
    fn compare(&mut self, half: &Outcome) {
        for (finding, half) in self.findings.iter_mut().zip(&half.findings) {
            assert_eq!(finding.what, half.what, "both find the same");
            finding.half = Some(half.lab);
        }
        for (chart, half) in self.charts.iter_mut().zip(&half.charts) {
            for (line, half) in chart.lines.iter_mut().zip(&half.lines) {
                let points = || line.points.iter().zip(&half.points);
                if points().all(|(own, half)| own.0 == half.0) {
                    line.errors = points().map(|(own, half)| (own.1 - half.1).abs()).collect();
                }
            }
        }
    }

    /// Whether sizes were divided, so that its figures have errors.
    pub fn is_scaled(&self) -> bool {
        self.findings.iter().any(|finding| finding.half.is_some())
    }
}

impl From<Vec<Finding>> for Outcome {
    fn from(findings: Vec<Finding>) -> Outcome {
        Outcome { findings, charts: Vec::new() }
    }
}

/// Lines over a common axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What goes to the right.
    pub x: String,
    /// What goes up.
    pub y: String,
    /// Whether to the right each step is twice the last.
    pub doubling_x: bool,
    /// What the lab found.
    pub lines: Vec<Line>,
    /// What the source says.
    pub dots: Option<Line>,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is of.
    pub name: String,
    /// Where it goes.
    pub points: Vec<(f64, f64)>,
    /// How far each point moves up or down at half the size; none where sizes are not divided.
    pub errors: Vec<f64>,
}

impl Line {
    fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Line {
        Line { name: name.into(), points, errors: Vec::new() }
    }
}

impl Finding {
    fn new(what: impl Into<String>, unit: &'static str, source: Option<f64>, lab: f64) -> Finding {
        Finding { what: what.into(), unit, source, lab, half: None, basis: Basis::Found }
    }

    fn fitted(self) -> Finding {
        Finding { basis: Basis::Fitted, ..self }
    }

    fn given(self) -> Finding {
        Finding { basis: Basis::Input, ..self }
    }

    /// The variant and what of it was found, where its name has both.
    pub fn parts(&self) -> (&str, &str) {
        self.what.split_once(": ").unwrap_or((&self.what, ""))
    }

    /// The lab's figure over the source's, unless that is zero or there is none.
    pub fn ratio(&self) -> Option<f64> {
        self.source.filter(|&source| source != 0.0).map(|source| self.lab / source)
    }

    /// By how much the figure moves when sizes are halved and everything is drawn anew, if sizes
    /// are divided: about what dividing them and drawing once have done to it.
    pub fn error(&self) -> Option<f64> {
        self.half.map(|half| (self.lab - half).abs())
    }
}

/// Why an experiment was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// No experiment is called so.
    #[error("no experiment is called {name:?}; there are {}", Experiment::names().join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// Its file cannot be read.
    #[error("cannot read the experiment {}: {source}; name a TOML file, or one of {}",
        path.display(), Experiment::names().join(", "))]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML, has unknown keys, lacks some, or has values that cannot be.
    #[error("the experiment {name} cannot be read; mend it: {source}")]
    Malformed {
        /// Its name.
        name: String,
        /// What and where.
        source: Box<toml::de::Error>,
    },
    /// A value is larger or smaller than any that an experiment can have.
    #[error("the experiment {name} cannot be done: {bounds}")]
    OutOfBounds {
        /// Its name.
        name: String,
        /// Which value, and what is allowed.
        bounds: OutOfBounds,
    },
    /// Its equipment cannot be had.
    #[error(transparent)]
    Equipment(#[from] EquipmentError),
    /// Its machine cannot be had.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// It cannot be done with this equipment.
    #[error("the experiment cannot be done: {0}")]
    Unfit(String),
}

/// Refuses two variants of one name: their figures could not be told apart.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), ExperimentError> {
    let mut known = BTreeSet::new();
    for name in names {
        if !known.insert(name) {
            return Err(ExperimentError::Unfit(format!(
                "two are called {name:?}; give each a name of its own"
            )));
        }
    }
    Ok(())
}

/// Nothing ended in the time that is measured.
fn nothing_measured(key: &str) -> ExperimentError {
    ExperimentError::Unfit(format!("nothing ended while it was measured; set a larger {key}"))
}

/// What comes with the lab: names and texts.
const SHIPPED: &[(&str, &str)] = &[
    ("find-twice", include_str!("../experiments/find-twice.toml")),
    ("safe-ceiling", include_str!("../experiments/safe-ceiling.toml")),
    ("free-behind", include_str!("../experiments/free-behind.toml")),
    ("memory-systems", include_str!("../experiments/memory-systems.toml")),
    ("priming", include_str!("../experiments/priming.toml")),
    ("l2arc-lanes", include_str!("../experiments/l2arc-lanes.toml")),
    ("tmpfs-page-out", include_str!("../experiments/tmpfs-page-out.toml")),
    ("index-deletes", include_str!("../experiments/index-deletes.toml")),
    ("clamscan", include_str!("../experiments/clamscan.toml")),
    ("read-amplification", include_str!("../experiments/read-amplification.toml")),
    ("innodb", include_str!("../experiments/innodb.toml")),
    ("l2arc-random", include_str!("../experiments/l2arc-random.toml")),
    ("l2arc-sequential", include_str!("../experiments/l2arc-sequential.toml")),
    ("l2arc-cautionary-tale", include_str!("../experiments/l2arc-cautionary-tale.toml")),
    ("l2arc-writes-random", include_str!("../experiments/l2arc-writes-random.toml")),
    ("l2arc-writes-sequential", include_str!("../experiments/l2arc-writes-sequential.toml")),
    ("flash-erase-before-write", include_str!("../experiments/flash-erase-before-write.toml")),
    ("flash-cell-life", include_str!("../experiments/flash-cell-life.toml")),
    ("flash-reserve", include_str!("../experiments/flash-reserve.toml")),
    ("flash-power-loss", include_str!("../experiments/flash-power-loss.toml")),
];

impl Experiment {
    /// The names of what comes with the lab.
    pub fn names() -> Vec<&'static str> {
        SHIPPED.iter().map(|(name, _)| *name).collect()
    }

    /// What comes with the lab by this name.
    ///
    /// # Errors
    /// When there is no such experiment.
    pub fn shipped(name: &str) -> Result<Experiment, ExperimentError> {
        match SHIPPED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Experiment::parse(name, text),
            None => Err(ExperimentError::Unknown { name: name.to_owned() }),
        }
    }

    /// One of one's own, from a TOML file. Machines and equipment that it names by files are read,
    /// too.
    ///
    /// # Errors
    /// When a file cannot be read, or is not what it should be.
    pub fn read(path: &Path) -> Result<Experiment, ExperimentError> {
        let unreadable = |source| ExperimentError::Unreadable { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Experiment::parse_in(directory, &path.display().to_string(), &text)
    }

    /// Reads an experiment; `name` says in messages which. Files that it names are looked for in
    /// the current directory.
    ///
    /// # Errors
    /// When it is not TOML, or its keys and values are not those of an experiment.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, ExperimentError> {
        Experiment::parse_in(Path::new(""), name, text)
    }

    fn parse_in(directory: &Path, name: &str, text: &str) -> Result<Experiment, ExperimentError> {
        let malformed =
            |source| ExperimentError::Malformed { name: name.to_owned(), source: Box::new(source) };
        let experiment: Experiment = toml::from_str(text).map_err(malformed)?;
        let table: toml::Table = toml::from_str(text).map_err(malformed)?;
        let procedure = table.get("procedure").and_then(toml::Value::as_table);
        let procedure = procedure.expect("an experiment has a procedure");
        bounds::check("procedure", procedure)
            .map_err(|bounds| ExperimentError::OutOfBounds { name: name.to_owned(), bounds })?;
        Ok(Experiment { files: Files::read(procedure, directory)?, ..experiment })
    }

    /// Does it, and if it divides sizes, once more at half of them, for the errors of its
    /// figures. The same experiment finds the same figures. `told` learns which case it is at.
    ///
    /// # Errors
    /// When its equipment cannot be had, or is not of the kind that it needs, or it would not come
    /// to an end.
    pub fn run(&self, told: &dyn Fn(&str)) -> Result<Outcome, ExperimentError> {
        let trial = Trial::new(self.seed, &self.files, told);
        self.procedure.work(trial)?.check()?;
        if !self.procedure.divides() {
            return self.procedure.run(trial);
        }
        let mut outcome = self.procedure.run(trial)?;
        let half = self.procedure.run(trial.half())?;
        outcome.compare(&half);
        Ok(outcome)
    }
}

impl Procedure {
    /// Whether sizes are divided.
    fn divides(&self) -> bool {
        match self {
            Procedure::PageOut(_) | Procedure::Systems(_) => false,
            Procedure::PowerLoss(procedure) => procedure.divides(),
            _ => true,
        }
    }

    /// The most that a trial has to simulate.
    fn work(&self, trial: Trial) -> Result<Work, ExperimentError> {
        match self {
            Procedure::EraseBeforeWrite(procedure) => procedure.work(trial),
            Procedure::CellLife(procedure) => procedure.work(trial),
            Procedure::Reserve(procedure) => procedure.work(trial),
            Procedure::PowerLoss(procedure) => procedure.work(trial),
            Procedure::Lanes(procedure) => procedure.work(trial),
            Procedure::Clients(procedure) => procedure.work(trial),
            Procedure::FindTwice(procedure) => procedure.work(trial),
            Procedure::Pieces(procedure) => procedure.work(trial),
            Procedure::Deletes(procedure) => procedure.work(trial),
            Procedure::Database(procedure) => procedure.work(trial),
            Procedure::Priming(procedure) => procedure.work(trial),
            Procedure::FreeBehind(procedure) => procedure.work(trial),
            Procedure::Ceiling(procedure) => procedure.work(trial),
            Procedure::PageOut(procedure) => procedure.work(trial),
            Procedure::Systems(procedure) => procedure.work(trial),
        }
    }

    fn run(&self, trial: Trial) -> Result<Outcome, ExperimentError> {
        match self {
            Procedure::EraseBeforeWrite(procedure) => procedure.run(trial).map(Outcome::from),
            Procedure::CellLife(procedure) => procedure.run(trial),
            Procedure::Reserve(procedure) => procedure.run(trial).map(Outcome::from),
            Procedure::PowerLoss(procedure) => procedure.run(trial).map(Outcome::from),
            Procedure::Lanes(procedure) => procedure.run(trial).map(Outcome::from),
            Procedure::Clients(procedure) => procedure.run(trial),
            Procedure::FindTwice(procedure) => procedure.run(trial),
            Procedure::Pieces(procedure) => procedure.run(trial),
            Procedure::Deletes(procedure) => procedure.run(trial),
            Procedure::Database(procedure) => procedure.run(trial),
            Procedure::Priming(procedure) => procedure.run(trial),
            Procedure::FreeBehind(procedure) => procedure.run(trial),
            Procedure::Ceiling(procedure) => procedure.run(trial),
            Procedure::PageOut(procedure) => procedure.run(trial),
            Procedure::Systems(procedure) => procedure.run(trial).map(Outcome::from),
        }
    }
}

/// A finding as it stands in a table.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The variant, where this is the first of several findings about it.
    pub heading: Option<&'a str>,
    /// Whether it stands below such a heading.
    pub is_below: bool,
    /// Of what it is; below a heading without the variant.
    pub what: &'a str,
    /// The figures.
    pub finding: &'a Finding,
}

/// Findings as they stand in a table: several of one variant below its name.
pub fn entries(findings: &[Finding]) -> Vec<Entry<'_>> {
    let mut last = None;
    let mut entries = Vec::new();
    for (at, finding) in findings.iter().enumerate() {
        let (variant, measure) = finding.parts();
        let next = findings.get(at + 1).map(Finding::parts);
        let goes_on = last == Some(variant);
        let begins = next.is_some_and(|(next, measure)| next == variant && !measure.is_empty());
        let is_below = !measure.is_empty() && (goes_on || begins);
        entries.push(Entry {
            heading: (is_below && !goes_on).then_some(variant),
            is_below,
            what: if is_below { measure } else { &finding.what },
            finding,
        });
        last = is_below.then_some(variant);
    }
    entries
}

/// Findings as CSV, with a line of headings.
pub fn csv(name: &str, findings: &[Finding]) -> String {
    let mut text = String::from("experiment,what,unit,source,lab,error,ratio,basis\n");
    for finding in findings {
        let figure =
            |figure: Option<f64>| figure.map_or(String::new(), |figure| figure.to_string());
        let Finding { what, unit, source, lab, basis, .. } = finding;
        let mark = basis.mark().unwrap_or_default();
        let quoted = what.replace('"', "\"\"");
        let [source, error, ratio] = [*source, finding.error(), finding.ratio()].map(figure);
        let _ = writeln!(text, "{name},\"{quoted}\",{unit},{source},{lab},{error},{ratio},{mark}");
    }
    text
}

#[cfg(test)]
mod tests;
