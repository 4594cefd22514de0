use std::collections::BTreeMap;
use std::fmt::Write;

use daemon::protocol::{CacheAdvice, CacheStatus, Status};
use warmfront::HumanSize;

use crate::format::{Form, count, percent, seconds, things};
use crate::table::Table;

/// What counts records that were offered to flash in vain.
const UNFED: [&str; 5] = [
    "l2_unfed_secondarycache",
    "l2_unfed_prefetch",
    "l2_unfed_mfuonly",
    "l2_unfed_gone",
    "l2_unfed_refused",
];

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
    let mut text = table.render(form);
    for device in &status.caches {
        let Some(line) = trouble(device) else { continue };
        let remedy = remedy(device, &status.pool).map_or(String::new(), |it| format!("; {it}"));
        let _ = writeln!(text, "{line}{remedy}");
    }
    if let Some(advice) = &status.advice {
        text.push('\n');
        text.push_str(&self::advice(advice));
        if status.caches.iter().any(|device| !device.is_direct) {
            text.push_str("what flash gives is from the kernel's page cache, in part at least\n");
        }
    }
    text
}

/// What flash has of each dataset, and what is reserved there; nothing where there is no device.
pub(super) fn datasets(datasets: &BTreeMap<String, BTreeMap<String, u64>>) -> String {
    let heads = ["FLASH", ">SIZE", ">RESERVE", ">FED", ">NOT FED", ">HITS", ">MISSES"];
    let mut table = Table::new(&heads);
    let mut any = false;
    for (name, counters) in datasets {
        let counter = |name: &str| counters.get(name).copied().unwrap_or(0);
        if !counters.contains_key("l2_asize") {
            continue;
        }
        let [in_force, wanted] = ["l2reserve", "l2reserve_wanted"].map(counter);
        let reserve = match wanted {
            0 => "none".to_string(),
            wanted if in_force < wanted => {
                format!("{} of {}", HumanSize(in_force), HumanSize(wanted))
            }
            wanted => HumanSize(wanted).to_string(),
        };
        table.row(vec![
            name.clone(),
            HumanSize(counter("l2_asize")).to_string(),
            reserve,
            count(counter("l2_fed") + counter("l2_metadata_fed")),
            count(UNFED.into_iter().map(counter).sum()),
            count(counter("l2_hits")),
            count(counter("l2_misses")),
        ]);
        any = true;
    }
    let form = Form { script: false, exact: false, json: false };
    if any { table.render(form) } else { String::new() }
}

/// Why a device is not read from, and until when; or that it will not be found again.
pub(in crate::commands) fn trouble(device: &CacheStatus) -> Option<String> {
    let path = device.path.display();
    if device.is_gone {
        return Some(format!(
            "{path} has been removed or replaced; what was there is used until the pool is \
             unmounted, and not found again"
        ));
    }
    let fault = device.fault.as_ref().map_or("no error is known", |fault| fault.error.as_str());
    if let Some(bypass) = &device.bypass {
        let what = if bypass.is_read { "not been written" } else { "been left alone" };
        return Some(format!(
            "{path} has {what} for {}: {}, the last one \"{fault}\"; it is tried again in {} \
             (bypassed {} since it was mounted)",
            seconds(bypass.since_seconds),
            bypass.reason,
            seconds(bypass.retry_seconds),
            times(device.bypasses),
        ));
    }
    if device.condition == "void" {
        return Some(format!(
            "{path} has failed to take a tombstone (\"{fault}\"), so nothing of it is used"
        ));
    }
    if device.damaged_records + device.damaged_segments > 0 {
        return Some(format!(
            "{path} was found damaged since it was mounted (records: {}, whole segments: {}); what \
             was there is dropped and read from the origin",
            count(device.damaged_records),
            count(device.damaged_segments)
        ));
    }
    let slower = device.slower.as_ref()?;
    Some(format!(
        "{path} is not asked, for {} now: it takes {} us and the origin {} us; looked at again \
         every second",
        seconds(slower.since_seconds),
        slower.device_us,
        slower.origin_us
    ))
}

/// What to do about a device that is not used.
pub(in crate::commands) fn remedy(device: &CacheStatus, pool: &str) -> Option<String> {
    let first = device.fault.as_ref().and_then(|fault| fault.remedy.clone());
    let path = device.path.display();
    match device.condition.as_str() {
        _ if device.is_gone => None,
        "bypassed" => first,
        "void" => Some(format!(
            "{}`warmfront pool remove {pool} cache {path}`, then `warmfront pool add {pool} cache \
             {path}`; without that all cache devices of the pool start empty at its next mount",
            first.map_or(String::new(), |first| format!("{first}; then "))
        )),
        _ => None,
    }
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_string() } else { format!("{} times", crate::format::count(count)) }
}

/// That too little was read to say anything, if so.
pub(in crate::commands) fn too_early(advice: &CacheAdvice) -> Option<String> {
    let (reads, needed) = (advice.reads, advice.reads_needed?);
    let (reads, needed) = (things(reads, "read"), count(needed));
    Some(format!("too early to tell ({reads}; ask again after {needed})"))
}

/// How well the devices fit the load, in words.
fn advice(advice: &CacheAdvice) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:<12} {value}");
    };
    if let Some(early) = too_early(advice) {
        line("advice", early);
    }
    if let (Some(ratio), Some(active)) = (advice.key_ratio_1, advice.active_bytes) {
        let meaning = match ratio <= 1.0 {
            true => "they fit",
            false => "they do not fit: more flash would be read from",
        };
        let active = HumanSize(active);
        line(
            "key ratio 1",
            format!("{ratio:.2}: {active} of active data by RAM and flash; {meaning}"),
        );
    }
    if let (Some(ratio), Some(flash), Some(origin)) =
        (advice.key_ratio_2, advice.flash_bytes_per_second, advice.origin_bytes_per_second)
    {
        let meaning = match ratio > 1.0 {
            true => "streams gain as well",
            false => "streams are read from the origin",
        };
        let [flash, origin] = [flash, origin].map(|rate| HumanSize(rate as u64));
        let rates = format!("flash gives {flash}/s, the origin {origin}/s");
        line("key ratio 2", format!("{ratio:.2}: {rates}; {meaning}"));
    }
    if let (Some(each), Some(bytes)) = (advice.index_bytes_per_record, advice.index_bytes_per_gib) {
        let [fixed, bytes] = [advice.index_fixed_bytes, bytes as u64].map(HumanSize);
        line(
            "index",
            format!(
                "{each:.1} bytes of RAM a record, {bytes} for each GiB on flash; {fixed} fixed"
            ),
        );
    } else if advice.index_fixed_bytes > 0 {
        let fixed = HumanSize(advice.index_fixed_bytes);
        line("index", format!("{fixed} of RAM: there are few records"));
    }
    if let Some(left) = advice.fill_seconds.filter(|left| *left > 0.0) {
        line("full in", format!("{} at the rate since it was mounted", seconds(left)));
    }
    if let Some(years) = advice.life_years {
        let years = if years < 100.0 { format!("{years:.1}") } else { "more than 100".to_string() };
        line(
            "life left",
            format!("{years} years at that rate, as the drive writes a day are rated"),
        );
    }
    text
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
        "{} of {}, index {}; {} of what RAM misses",
        things(counter("l2_records"), "record"),
        HumanSize(counter("l2_asize")),
        HumanSize(counter("l2_hdr_size")),
        percent(hits, hits + misses),
    );
    let fed = counter("l2_fed") + counter("l2_metadata_fed");
    let unfed: u64 = UNFED.into_iter().map(counter).sum();
    let feed = format!(
        "{} taken in, {} not; {} given a second life, {} killed",
        things(fed, "record"),
        count(unfed),
        count(counter("l2_second_lives")),
        count(counter("l2_killed")),
    );
    vec![("flash", flash), ("feed", feed)]
}
