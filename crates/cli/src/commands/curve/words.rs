use daemon::protocol::CurveReport;
use warmfront::{CURVE_SAMPLES_MIN, CURVE_TOLERANCE, HumanSize, SizePoint};

use crate::format::count;

/// A difference that is worth a word, in points of the hit rate.
const POINTS_WORTH_MENTION: f64 = 1.0;
/// With so much less than today's size enough, the rest is worth a word.
const SPARE_SHARE_MIN: f64 = 0.1;

/// What a curve says, in sentences.
pub(crate) fn words(report: &CurveReport) -> Vec<String> {
    let (Some(knee), Some(enough)) = (report.knee, report.enough) else {
        return vec!["No contents have been read yet. Run the load, then ask again.".to_string()];
    };
    let mut sentences = Vec::new();
    if report.is_too_early {
        sentences.push(format!(
            "It is too early to rely on this: {} accesses were sampled, {} are needed. So far:",
            count(report.samples),
            count(CURVE_SAMPLES_MIN)
        ));
    }
    sentences.push(advice(report.today, knee, enough));
    sentences.extend(measured(report));
    sentences.extend(first_reads(report));
    sentences
}

/// What more, or less, would bring.
fn advice(today: SizePoint, knee: SizePoint, enough: SizePoint) -> String {
    if today.bytes >= enough.bytes {
        let spare = today.bytes - enough.bytes;
        let mut text = format!("More than today's {} gains nothing.", HumanSize(today.bytes));
        if spare as f64 > SPARE_SHARE_MIN * today.bytes as f64 {
            text.push_str(&format!(
                " {} would do: {} can be given to something else for at most half a point.",
                HumanSize(enough.bytes),
                HumanSize(spare)
            ));
        }
        return text;
    }
    let gains = |from: SizePoint, to: SizePoint| to.hit_rate - from.hit_rate >= CURVE_TOLERANCE;
    if !gains(today, enough) {
        return format!("More than today's {} gains less than a point.", HumanSize(today.bytes));
    }
    let is_worth_it = knee.bytes > today.bytes && gains(today, knee);
    let target = if is_worth_it { knee } else { enough };
    let lift = 100.0 * (target.hit_rate - today.hit_rate);
    let digits = usize::from(lift < 2.0);
    let mut text = format!(
        "{} more would lift the hit rate from {:.digits$} % to {:.digits$} %",
        HumanSize(target.bytes - today.bytes),
        100.0 * today.hit_rate,
        100.0 * target.hit_rate,
    );
    if lift < 100.0 * today.error.hypot(target.error) {
        text.push_str(", which is within the error of sampling");
    }
    if target.bytes < enough.bytes && gains(target, enough) {
        text.push_str(&format!(
            ", {} more to {:.0} %",
            HumanSize(enough.bytes - today.bytes),
            100.0 * enough.hit_rate
        ));
    }
    text + &format!("; beyond {} nothing is gained.", HumanSize(enough.bytes))
}

/// How the cache that there is compares with the curve.
fn measured(report: &CurveReport) -> Option<String> {
    let (measured, told) = (100.0 * report.measured_hit_rate, 100.0 * report.today.hit_rate);
    let more = measured - told;
    if more.abs() < POINTS_WORTH_MENTION.max(100.0 * report.today.error) {
        return None;
    }
    let best = report.points.last().map_or(1.0, |point| point.hit_rate);
    let reason = match more > 0.0 {
        true if report.measured_hit_rate > best => {
            "no size comes to that: what was in RAM before these accesses was hit as well, as \
             records are that come back after a restart"
        }
        true => "ARC does better than LRU here",
        false => "the cache is not warm yet, others share it, or `primarycache` keeps contents out",
    };
    Some(format!(
        "Measured: {measured:.0} % of these accesses were hits, {:.0} points {} than the curve \
         has for today's size: {reason}.",
        more.abs(),
        if more > 0.0 { "more" } else { "fewer" },
    ))
}

/// What no size changes.
fn first_reads(report: &CurveReport) -> Option<String> {
    let best = report.points.last()?.hit_rate;
    let first = 100.0 * (1.0 - best);
    let ahead = 100.0 * report.ahead_rate;
    let ahead = match ahead >= POINTS_WORTH_MENTION {
        true => format!(": {ahead:.0} % of all found what had been brought ahead of them"),
        false => String::new(),
    };
    (first >= POINTS_WORTH_MENTION).then(|| {
        format!(
            "{first:.0} % of accesses were first ones, which no size answers; prefetching and \
             priming do{ahead}."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::axis::tests::report;
    use super::*;

    const POINTS: [(f64, f64); 5] =
        [(1.0, 0.2), (4.0, 0.71), (8.0, 0.83), (12.0, 0.9), (20.0, 0.9)];
    const FIRST: &str =
        "10 % of accesses were first ones, which no size answers; prefetching and priming do.";

    #[test]
    fn what_more_would_bring() {
        let told = words(&report(4.0, &POINTS, 8.0, 12.0));
        assert_eq!(
            told,
            [
                "4G more would lift the hit rate from 71 % to 83 %, 8G more to 90 %; beyond 12G \
                 nothing is gained.",
                FIRST
            ]
        );
        let told = words(&report(8.0, &POINTS, 4.0, 12.0));
        assert_eq!(
            told,
            [
                "4G more would lift the hit rate from 83 % to 90 %; beyond 12G nothing is gained.",
                FIRST
            ]
        );
    }

    #[test]
    fn what_gains_less_than_half_a_point_is_not_told() {
        let points = [(1.0, 0.2), (4.0, 0.589), (4.1, 0.591), (12.0, 0.93), (20.0, 0.93)];
        let told = words(&report(4.0, &points, 4.1, 12.0));
        let whole =
            "8G more would lift the hit rate from 59 % to 93 %; beyond 12G nothing is gained.";
        assert_eq!(told[0], whole);
        let told = words(&report(11.95, &points, 4.1, 12.0));
        assert_eq!(told[0], "More than today's 11.9G gains less than a point.");
        let flat = [(1.0, 0.2), (8.0, 0.83), (12.0, 0.834), (20.0, 0.834)];
        let told = words(&report(4.0, &flat, 8.0, 12.0));
        let whole =
            "4G more would lift the hit rate from 47 % to 83 %; beyond 12G nothing is gained.";
        assert_eq!(told[0], whole);
    }

    #[test]
    fn what_less_would_do() {
        let told = words(&report(12.5, &POINTS, 8.0, 12.0));
        assert_eq!(told, ["More than today's 12.5G gains nothing.", FIRST]);
        let told = words(&report(16.0, &POINTS, 8.0, 12.0));
        assert_eq!(
            told,
            [
                "More than today's 16G gains nothing. 12G would do: 4G can be given to something \
                 else for at most half a point.",
                FIRST
            ]
        );
    }

    #[test]
    fn too_early_too_little_and_what_is_measured() {
        let mut early = report(4.0, &POINTS, 8.0, 12.0);
        early.is_too_early = true;
        early.samples = 1234;
        early.measured_hit_rate = 0.95;
        let told = words(&early);
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].contains("too early") && told[0].contains("1,234"), "{told:?}");
        assert!(told[0].contains("10,000"), "{told:?}");
        assert!(told[2].contains("95 %") && told[2].contains("24 points more"), "{told:?}");
        assert!(told[2].contains("in RAM before these accesses"), "{told:?}");
        early.measured_hit_rate = 0.88;
        assert!(words(&early)[2].contains("ARC does better than LRU"));
        early.ahead_rate = 0.08;
        let told = words(&early);
        assert!(told[3].ends_with("do: 8 % of all found what had been brought ahead of them."));
        let empty = CurveReport { knee: None, enough: None, points: Vec::new(), ..early };
        assert!(words(&empty)[0].contains("No contents have been read"));
    }
}
