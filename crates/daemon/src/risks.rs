use warmfront::{Datasets, Source};

/// What a value of a property puts at risk, in words, if it does.
pub fn risk(property: &str, value: &str) -> Option<&'static str> {
    Some(match (property, value) {
        ("sync", "disabled") => {
            "fsync returns at once and keeps nothing: a crash of the daemon or of the machine \
             loses the last seconds of writes that programs were told are safe"
        }
        ("nocacheflush", "on") => {
            "the origin is not asked to flush: unless it protects what it has taken, as a \
             controller with a battery does, a loss of power loses writes that programs were told \
             are safe"
        }
        _ => return None,
    })
}

/// What is set on datasets that puts something at risk.
pub(crate) fn risks(datasets: &Datasets) -> Vec<String> {
    let rows = datasets.list().into_iter().flat_map(|dataset| {
        // It may have been removed since.
        datasets.get(dataset.name()).unwrap_or_default()
    });
    rows.filter(|row| row.source == Source::Local)
        .filter_map(|row| {
            let risk = risk(&row.property, &row.value)?;
            Some(format!("{}={} on {}: {risk}", row.property, row.value, row.name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_at_risk_is_told_where_it_is_set() {
        assert_eq!(risk("sync", "standard"), None);
        assert_eq!(risk("nocacheflush", "off"), None);
        for (property, value) in [("sync", "disabled"), ("nocacheflush", "on")] {
            assert!(risk(property, value).is_some_and(|words| words.contains("loses")));
        }
    }
}
