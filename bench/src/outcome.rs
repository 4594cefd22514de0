/// What is compared, and how its figures are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    /// Whether a larger figure is better; the ratio is turned so that more than 1 is a win.
    pub(crate) larger_is_better: bool,
}

/// What came out of a comparison.
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// One subject's part of an outcome.
pub(crate) struct Row {
    pub(crate) subject: String,
    /// Median over the rounds.
    pub(crate) value: Option<f64>,
    /// Median, least and greatest ratio of the first subject to this one; more than 1 is a win.
    pub(crate) ratio: Option<(f64, f64, f64)>,
    pub(crate) note: Option<String>,
}

impl Comparison {
    /// The outcome of rounds that each have a figure for each subject, where there is one. The
    /// first subject is compared with the others.
    pub(crate) fn outcome<S: Into<String>, F: Into<Option<f64>> + Copy>(
        &self,
        subjects: impl IntoIterator<Item = S>,
        rounds: &[impl AsRef<[F]>],
    ) -> Outcome {
        let figure = |round: &[F], index: usize| -> Option<f64> { round[index].into() };
        let ratio = |round: &[F], index| {
            let (first, other) = (figure(round, 0)?, figure(round, index)?);
            Some(if self.larger_is_better { first / other } else { other / first })
        };
        let rows = subjects.into_iter().enumerate().map(|(index, subject)| {
            let figures = rounds.iter().filter_map(|round| figure(round.as_ref(), index));
            let ratios = rounds.iter().filter_map(|round| ratio(round.as_ref(), index));
            Row {
                subject: subject.into(),
                value: median(figures.collect()).map(|(median, ..)| median),
                ratio: if index > 0 { median(ratios.collect()) } else { None },
                note: None,
            }
        });
        Outcome { name: self.name, what: self.what, unit: self.unit, rows: rows.collect() }
    }
}

/// Measures subjects, beginning with another one in each round, so that no place in the order is
/// favoured.
pub(crate) fn in_turn(
    round: usize,
    subjects: usize,
    mut measure: impl FnMut(usize) -> Result<f64, String>,
) -> Result<Vec<f64>, String> {
    let mut figures = vec![0.0; subjects];
    for turn in 0..subjects {
        let subject = (round + turn) % subjects;
        figures[subject] = measure(subject)?;
    }
    Ok(figures)
}

/// Median, least and greatest.
pub(crate) fn median(mut values: Vec<f64>) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    let middle = values.get(values.len() / 2)?;
    Some((*middle, *values.first()?, *values.last()?))
}
