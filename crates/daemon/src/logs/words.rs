use warmfront::ExactSize;
use zil::{End, Found};

/// A number of records.
pub(super) fn records(count: u64) -> String {
    counted(count, "record")
}

/// A number of things, each of which is called `what`.
pub(super) fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The verb to say something of so many.
pub(super) fn are(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// The same of what was.
pub(super) fn were(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

/// What of a damaged log has come to the origin.
pub(super) fn brought(count: u64, last: u64) -> String {
    match count {
        0 => format!("it has no good record behind record {last}"),
        _ => {
            format!("{} up to record {last} {} brought to the origin", records(count), were(count))
        }
    }
}

/// How a log ends, in words that say what it is.
pub(super) fn end(found: &Found) -> String {
    match &found.end {
        End::Whole if found.beyond_records > 0 => {
            format!("broken off or damaged behind record {}", found.last)
        }
        End::Whole => "whole as far as it tells".to_string(),
        End::Damaged { lasted } => {
            format!("damaged: acknowledged records up to {lasted} at least are lost")
        }
        End::Erased => format!(
            "damaged: what was behind record {} is cut off or overwritten with zeros, and may have \
             been acknowledged",
            found.last
        ),
        End::Cut { size_bytes, needed_bytes } => format!(
            "damaged: it has {}, and was made with {}; what was behind record {} is cut off, and \
             may have been acknowledged",
            ExactSize(*size_bytes),
            ExactSize(*needed_bytes),
            found.last
        ),
        End::Unreadable { error } => {
            format!("unreadable behind record {}: {error}", found.last)
        }
        _ => "unknown".to_string(),
    }
}

/// Whether it is certain that a log holds nothing that the origin does not have.
pub(super) fn is_empty(found: &Found) -> bool {
    found.records() == 0 && found.beyond_records == 0 && found.end == End::Whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(format!("{} {}", records(0), are(0)), "0 records are");
        assert_eq!(format!("{} {}", records(1), are(1)), "1 record is");
        assert_eq!(brought(0, 63), "it has no good record behind record 63");
        assert_eq!(brought(1, 64), "1 record up to record 64 was brought to the origin");
        assert_eq!(brought(2, 65), "2 records up to record 65 were brought to the origin");
    }
}
