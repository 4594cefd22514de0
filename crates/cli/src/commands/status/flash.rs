use std::collections::BTreeMap;

use daemon::protocol::{CacheStatus, Status};
use warmfront::HumanSize;

use crate::format::{Form, count, percent};
use crate::table::Table;

/// What the cache devices hold and how they do; nothing where there is none.
pub(super) fn flash(status: &Status) -> String {
    if status.caches.is_empty() {
        return String::new();
    }
    let form = Form { script: false, exact: false, json: false };
    let mut table = Table::new(&[
        "CACHE",
        "STATE",
        ">SIZE",
        ">USED",
        ">WRITTEN",
        ">DWPD",
        ">BUDGET LEFT",
        ">LATENCY",
        "FOUND",
    ]);
    for device in &status.caches {
        let (dwpd, budget) = match device.dwpd {
            None => ("none".to_string(), "unlimited".to_string()),
            Some(dwpd) => (dwpd.to_string(), HumanSize(device.credit_bytes).to_string()),
        };
        table.row(vec![
            device.path.display().to_string(),
            device.condition.clone(),
            HumanSize(device.data_bytes).to_string(),
            share(device),
            HumanSize(device.written_bytes).to_string(),
            dwpd,
            budget,
            format!("{} us", device.latency_us),
            device.note.clone(),
        ]);
    }
    table.render(form)
}

/// How much of a device holds something.
fn share(device: &CacheStatus) -> String {
    percent(device.segments_used, device.segments)
}

/// What flash does for readers, in lines for the head of the status.
pub(super) fn lines(counters: &BTreeMap<String, u64>) -> Vec<(&'static str, String)> {
    let counter = |name: &str| counters.get(name).copied().unwrap_or(0);
    if counter("l2_devices") == 0 {
        return Vec::new();
    }
    let (hits, misses) = (counter("l2_hits"), counter("l2_misses"));
    let flash = format!(
        "{} records of {}, index {}; {} of what RAM misses",
        count(counter("l2_records")),
        HumanSize(counter("l2_asize")),
        HumanSize(counter("l2_hdr_size")),
        percent(hits, hits + misses),
    );
    let fed = counter("l2_fed");
    let unfed = [
        "l2_unfed_secondarycache",
        "l2_unfed_prefetch",
        "l2_unfed_mfuonly",
        "l2_unfed_gone",
        "l2_unfed_refused",
    ];
    let unfed: u64 = unfed.into_iter().map(counter).sum();
    let feed = format!(
        "{} records taken in, {} not; {} given a second life, {} killed",
        count(fed),
        count(unfed),
        count(counter("l2_second_lives")),
        count(counter("l2_killed")),
    );
    vec![("flash", flash), ("feed", feed)]
}
