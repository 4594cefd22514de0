//! [`Experiment`]: what the sources report, done again on models.

mod flash;
mod lanes;

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::model::EquipmentError;

/// An experiment: a question, the equipment, and what is done.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What is asked, in a line.
    pub question: String,
    /// Where the sources tell of it.
    pub source: String,
    /// What is drawn is drawn from this.
    pub seed: u64,
    /// What is done.
    procedure: Procedure,
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
}

impl Finding {
    fn new(what: impl Into<String>, unit: &'static str, source: Option<f64>, lab: f64) -> Finding {
        Finding { what: what.into(), unit, source, lab }
    }

    /// The lab's figure over the source's, unless that is zero or there is none.
    pub fn ratio(&self) -> Option<f64> {
        self.source.filter(|&source| source != 0.0).map(|source| self.lab / source)
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
    /// It is not TOML, has unknown keys, lacks some, or has values that cannot be.
    #[error("the experiment {name} cannot be read; mend it: {source}")]
    Malformed {
        /// Its name.
        name: String,
        /// What and where.
        source: Box<toml::de::Error>,
    },
    /// Its equipment cannot be had.
    #[error(transparent)]
    Equipment(#[from] EquipmentError),
    /// It cannot be done with this equipment.
    #[error("the experiment cannot be done: {0}")]
    Unfit(String),
}

/// What comes with the lab: names and texts.
const SHIPPED: &[(&str, &str)] = &[
    ("flash-cell-life", include_str!("../experiments/flash-cell-life.toml")),
    ("flash-erase-before-write", include_str!("../experiments/flash-erase-before-write.toml")),
    ("flash-power-loss", include_str!("../experiments/flash-power-loss.toml")),
    ("flash-reserve", include_str!("../experiments/flash-reserve.toml")),
    ("l2arc-lanes", include_str!("../experiments/l2arc-lanes.toml")),
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

    /// Reads an experiment; `name` says in messages which.
    ///
    /// # Errors
    /// When it is not TOML, or its keys and values are not those of an experiment.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, ExperimentError> {
        toml::from_str(text).map_err(|source| ExperimentError::Malformed {
            name: name.to_owned(),
            source: Box::new(source),
        })
    }

    /// Does it. The same experiment finds the same figures.
    ///
    /// # Errors
    /// When its equipment cannot be had, or is not of the kind that it needs.
    pub fn run(&self) -> Result<Vec<Finding>, ExperimentError> {
        match &self.procedure {
            Procedure::EraseBeforeWrite(procedure) => procedure.run(self.seed),
            Procedure::CellLife(procedure) => procedure.run(self.seed),
            Procedure::Reserve(procedure) => procedure.run(self.seed),
            Procedure::PowerLoss(procedure) => procedure.run(self.seed),
            Procedure::Lanes(procedure) => procedure.run(self.seed),
        }
    }
}

/// Findings as CSV, with a line of headings.
pub fn csv(name: &str, findings: &[Finding]) -> String {
    let mut text = String::from("experiment,what,unit,source,lab,ratio\n");
    for finding in findings {
        let figure =
            |figure: Option<f64>| figure.map_or(String::new(), |figure| figure.to_string());
        let Finding { what, unit, source, lab } = finding;
        let quoted = what.replace('"', "\"\"");
        let (source, ratio) = (figure(*source), figure(finding.ratio()));
        let _ = writeln!(text, "{name},\"{quoted}\",{unit},{source},{lab},{ratio}");
    }
    text
}

#[cfg(test)]
mod tests;
