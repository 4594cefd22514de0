use std::collections::BTreeMap;

use daemon::protocol::{CacheAdvice, CacheStatus, Status};
use warmfront::HumanSize;

use super::{Finding, Verdict, finding};
use crate::commands::status::flash::{remedy, too_early, trouble};
use crate::format::{count, percent};

/// The years for which makers of drives tell drive writes a day.
const RATED_YEARS: f64 = 5.0;
const YEAR_DAYS: f64 = 365.25;
/// A device is worn that has been written this share of what it is rated for.
const WORN: f64 = 0.8;
/// Less than this of the wear budget is nothing, bytes.
const BUDGET_MIN: u64 = 1 << 20;
/// Fewer misses of RAM than this tell nothing of flash.
const MISSES_MIN: u64 = 10_000;
/// A flash level that answers a smaller share of them, in percent, is of little use.
const SHARE_MIN: u64 = 2;

/// Looks at the cache devices of a pool, and at what they are worth to it.
pub(super) fn findings(status: &Status, secondarycache: &str) -> Vec<Finding> {
    if status.caches.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<Finding> =
        status.caches.iter().map(|cache| device(cache, &status.pool)).collect();
    let advice = status.advice.as_ref();
    found.push(worth(&status.counters, advice, status.ceiling_bytes, secondarycache));
    found
}

fn device(device: &CacheStatus, pool: &str) -> Finding {
    let path = device.path.display();
    let warn =
        |found: String, advice: &str| finding("cache device", Verdict::Warn, found, Some(advice));
    let rated = device.dwpd.map(|dwpd| dwpd * device.data_bytes as f64 * YEAR_DAYS * RATED_YEARS);
    let worn = rated.filter(|rated| *rated > 0.0).map(|rated| device.written_bytes as f64 / rated);
    let written = HumanSize(device.written_bytes);
    let remedy = remedy(device, pool);
    match device.condition.as_str() {
        "unavailable" => warn(
            format!("{path} is not used: {}", device.note),
            &format!(
                "mend it, then `warmfront pool remove {pool} cache {path}` and `pool add`; the \
                 pool goes on without it"
            ),
        ),
        "void" => warn(trouble(device).unwrap_or_default(), &remedy.unwrap_or_default()),
        _ if device.is_gone => warn(
            trouble(device).unwrap_or_default(),
            &format!("`warmfront pool remove {pool} cache {path}` lets go of it"),
        ),
        "bypassed" => warn(
            trouble(device).unwrap_or_default(),
            &format!(
                "{}the origin answers meanwhile",
                remedy.map_or(String::new(), |remedy| format!("{remedy}; "))
            ),
        ),
        _ if device.damaged_records + device.damaged_segments > 0 => warn(
            trouble(device).unwrap_or_default(),
            "see that nothing else writes there; if nothing does, replace it",
        ),
        _ if device.slower.is_some() => warn(
            trouble(device).unwrap_or_default(),
            "a cache device that is slower than the origin is of no use: take a faster one",
        ),
        _ if !device.is_direct => warn(
            format!("{path} lies on a file system that does not take O_DIRECT"),
            "the kernel's page cache keeps a second copy of what is read, and figures of the \
             device are the page cache's; choose ext4, XFS or a block device",
        ),
        _ if worn.is_some_and(|worn| worn >= WORN) => warn(
            format!(
                "{path} has been written {written}, {:.0} % of what it is rated for",
                worn.unwrap_or(0.0) * 100.0
            ),
            "plan to replace it; if it is rated for more drive writes a day, say so with --dwpd",
        ),
        _ if device.dwpd.is_some() && device.credit_bytes < BUDGET_MIN => warn(
            format!("{path} has used up its wear budget, so it takes little in"),
            "if it is rated for more drive writes a day than --dwpd says, say so; or keep what is \
             worth less off it with secondarycache or l2mfuonly",
        ),
        condition => {
            let life = worn.map_or(String::new(), |worn| {
                format!(", {:.1} % of what it is rated for", worn * 100.0)
            });
            let told = format!("{path}: {condition}, {written} written{life}; {}", device.note);
            finding("cache device", Verdict::Ok, told, None)
        }
    }
}

/// What flash is worth, of a pool with these counters, as far as that is known.
fn worth(
    counters: &BTreeMap<String, u64>,
    advice: Option<&CacheAdvice>,
    ceiling_bytes: u64,
    secondarycache: &str,
) -> Finding {
    let counter = |name: &str| counters.get(name).copied().unwrap_or(0);
    let warn = |found: String, advice: &str| finding("flash", Verdict::Warn, found, Some(advice));
    if matches!(secondarycache, "none" | "metadata") {
        let found = format!("secondarycache={secondarycache}: no contents get there");
        return warn(found, "`warmfront set secondarycache=all` if they shall");
    }
    if counter("l2_refused_index_full") > 0 {
        let found =
            format!("its index takes {} of RAM, all it may", HumanSize(counter("l2_hdr_size")));
        return warn(
            found,
            "raise --arc-max, of which it may take a fourth, or recordsize: each record takes 16 \
             bytes",
        );
    }
    let (hits, misses) = (counter("l2_hits"), counter("l2_misses"));
    let told = format!("gives {} of what RAM misses", percent(hits, hits + misses));
    if let Some(early) = advice.and_then(too_early) {
        return finding("flash", Verdict::Ok, format!("{told}; {early}"), None);
    }
    let active_bytes = advice.and_then(|advice| advice.active_bytes);
    if let Some(active) = active_bytes.filter(|active| *active <= ceiling_bytes) {
        let found = format!(
            "{told}; {} of active data fit into the ceiling of {}",
            HumanSize(active),
            HumanSize(ceiling_bytes)
        );
        let advice = "flash helps after restarts only, as long as the load stays like this";
        return finding("flash", Verdict::Ok, found, Some(advice));
    }
    if hits + misses >= MISSES_MIN && hits * 100 < (hits + misses) * SHARE_MIN {
        let advice = match most_frequent(counters) {
            Some((name, times)) => format!(
                "most of what was not taken in was not for {name} ({}); a load that reads \
                 everything once gains nothing",
                count(times)
            ),
            None => "what is read was not read before: prime it, or give flash time".to_string(),
        };
        return warn(told, &advice);
    }
    finding("flash", Verdict::Ok, told, None)
}

/// The counter of refusals that has counted most.
fn most_frequent(counters: &BTreeMap<String, u64>) -> Option<(&str, u64)> {
    let reasons = counters.iter().filter(|(name, _)| {
        (name.starts_with("l2_refused_") || name.starts_with("l2_unfed_"))
            && !matches!(
                name.as_str(),
                "l2_refused_present" | "l2_unfed_refused" | "l2_unfed_unproven"
            )
    });
    let most = reasons.max_by_key(|(_, times)| **times).filter(|(_, times)| **times > 0)?;
    Some((most.0.as_str(), *most.1))
}

#[cfg(test)]
mod tests {
    use daemon::protocol::{CacheBypass, CacheFault, CacheSlower};

    use super::*;

    const GIB: u64 = 1 << 30;

    fn cache() -> CacheStatus {
        CacheStatus {
            path: "/flash/cache".into(),
            condition: "works".to_string(),
            note: "it is warm".to_string(),
            data_bytes: 100 * GIB,
            stored_bytes: GIB,
            written_bytes: 10 * GIB,
            credit_bytes: GIB,
            segment_bytes: 1 << 20,
            segments: 100,
            segments_used: 1,
            latency_us: 100,
            is_direct: true,
            is_gone: false,
            bypasses: 0,
            bypass: None,
            damaged_records: 0,
            damaged_segments: 0,
            fault: None,
            slower: None,
            dwpd: Some(1.0),
        }
    }

    #[test]
    fn a_device_is_told_of_with_what_is_wrong() {
        assert_eq!(device(&cache(), "tank").verdict, Verdict::Ok);
        let bypass = CacheBypass {
            reason: "8 failed reads within a minute".to_string(),
            is_read: false,
            since_seconds: 3.0,
            retry_seconds: 7.0,
        };
        let slower = Some(CacheSlower { origin_us: 90, device_us: 200, since_seconds: 1.0 });
        let is = |condition: &str| CacheStatus { condition: condition.to_string(), ..cache() };
        let fault =
            CacheFault { error: "write: full".to_string(), remedy: Some("make room".to_string()) };
        let bypassed = CacheStatus { bypass: Some(bypass), fault: Some(fault), ..is("bypassed") };
        for (cache, word) in [
            (is("unavailable"), "pool remove tank cache /flash/cache"),
            (is("void"), "failed to take a tombstone"),
            (CacheStatus { is_gone: true, ..cache() }, "pool remove tank cache /flash/cache"),
            (bypassed.clone(), "tried again in 7.00 s"),
            (bypassed.clone(), "the last one \"write: full\""),
            (bypassed, "make room; the origin answers"),
            (
                CacheStatus { damaged_records: 7, ..cache() },
                "damaged since it was mounted (records: 7",
            ),
            (CacheStatus { slower, ..cache() }, "the origin 90 us"),
            (CacheStatus { written_bytes: 160_000 * GIB, ..cache() }, "88 % of what it is rated"),
            (CacheStatus { credit_bytes: 0, ..cache() }, "used up its wear budget"),
        ] {
            let found = device(&cache, "tank");
            assert_eq!(found.verdict, Verdict::Warn);
            let text = format!("{} {}", found.found, found.advice.unwrap_or_default());
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_flash_level_of_no_use_is_told_of_with_the_reason() {
        let counters = |all: &[(&str, u64)]| -> BTreeMap<String, u64> {
            all.iter().map(|(name, value)| (name.to_string(), *value)).collect()
        };
        let useful = counters(&[("l2_hits", 9000), ("l2_misses", 1000)]);
        assert_eq!(worth(&useful, None, GIB, "all").verdict, Verdict::Ok);
        let advice = |reads_needed, active_bytes| CacheAdvice {
            reads: 900,
            reads_needed,
            active_bytes,
            key_ratio_1: None,
            flash_bytes_per_second: None,
            origin_bytes_per_second: None,
            key_ratio_2: None,
            index_fixed_bytes: 0,
            index_bytes_per_record: None,
            index_bytes_per_gib: None,
            fill_seconds: None,
            life_years: None,
        };
        let fits = worth(&useful, Some(&advice(None, Some(GIB / 2))), GIB, "all");
        assert!(fits.found.contains("fit into the ceiling"), "{}", fits.found);
        let early = worth(&useful, Some(&advice(Some(10_000), None)), GIB, "all");
        assert!(
            early.found.contains("too early to tell (900 reads; ask again after 10,000)"),
            "{}",
            early.found
        );
        assert_eq!(early.advice, None);
        for (all, secondarycache, word) in [
            (counters(&[]), "none", "secondarycache=none"),
            (counters(&[("l2_refused_index_full", 1)]), "all", "index"),
            (
                counters(&[("l2_misses", 20_000), ("l2_refused_first_touch", 7000)]),
                "all",
                "l2_refused_first_touch (7,000)",
            ),
        ] {
            let found = worth(&all, None, GIB, secondarycache);
            assert_eq!(found.verdict, Verdict::Warn);
            let text = format!("{} {}", found.found, found.advice.unwrap_or_default());
            assert!(text.contains(word), "{text}");
        }
    }
}
