use std::collections::BTreeMap;

use daemon::protocol::{CacheAdvice, CacheStatus, Status};
use warmfront::HumanSize;

use crate::format::{Form, broken, count, labelled, percent, seconds, things};
use crate::table::Table;

/// What counts records that were offered to flash in vain.
const UNFED: [&str; 5] = [
    "l2_unfed_secondarycache",
    "l2_unfed_prefetch",
    "l2_unfed_mfuonly",
    "l2_unfed_gone",
    "l2_unfed_refused",
];

/// What a narrow terminal can do without.
const LEFT_OUT_FIRST: [&str; 3] = ["BUDGET LEFT", "DWPD", "LATENCY"];
/// Why flash is not asked for a record that it may have.
const NOT_ASKED: [(&str, &str); 3] = [
    ("slower than the origin", "l2_miss_slower"),
    ("bypassed", "l2_miss_bypassed"),
    ("busy", "l2_miss_busy"),
];

/// What the cache devices hold and how they do; nothing where there is none.
pub(super) fn flash(status: &Status, room: usize) -> String {
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
    let mut text = table.render_within(form, room, &LEFT_OUT_FIRST);
    let sentence = |sentence: &str| broken(sentence, room).join("\n") + "\n";
    for device in &status.caches {
        let Some(line) = trouble(device) else { continue };
        let remedy = remedy(device, &status.pool).map_or(String::new(), |it| format!("; {it}"));
        text.push_str(&sentence(&(line + &remedy)));
    }
    if let Some(advice) = &status.advice {
        text.push('\n');
        text.push_str(&self::advice(advice, room));
        if status.caches.iter().any(|device| !device.is_direct) {
            let cached = "what flash gives is from the kernel's page cache, in part at least";
            text.push_str(&sentence(cached));
        }
    }
    text
}

/// What flash has of each dataset, and what is reserved there; nothing where there is no device.
pub(super) fn datasets(datasets: &BTreeMap<String, BTreeMap<String, u64>>, room: usize) -> String {
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
    if any { table.render_within(form, room, &[]) } else { String::new() }
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
fn advice(advice: &CacheAdvice, room: usize) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: String| text.push_str(&labelled(label, 12, &value, room));
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

/// How many of the misses are of records for which flash was not asked, and why.
fn not_asked(counter: &dyn Fn(&str) -> u64) -> String {
    let reasons = NOT_ASKED.map(|(reason, name)| (reason, counter(name)));
    let all: u64 = reasons.iter().map(|(_, times)| times).sum();
    if all == 0 {
        return String::new();
    }
    let reasons: Vec<String> = reasons
        .iter()
        .filter(|(_, times)| *times > 0)
        .map(|(reason, times)| format!("{reason} {}", count(*times)))
        .collect();
    format!("; not asked for {} ({})", things(all, "record"), reasons.join(", "))
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
    let flash = flash + &not_asked(&counter);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_for_which_flash_was_not_asked_are_told_apart() {
        let counters = [
            ("l2_devices", 1),
            ("l2_hits", 300),
            ("l2_misses", 700),
            ("l2_miss_absent", 200),
            ("l2_miss_slower", 499),
            ("l2_miss_busy", 1),
        ];
        let mut counters: BTreeMap<String, u64> =
            counters.map(|(name, value)| (name.to_string(), value)).into();
        let told = |counters: &_| lines(counters)[0].1.clone();
        let reasons = "not asked for 500 records (slower than the origin 499, busy 1)";
        assert!(told(&counters).ends_with(reasons), "{}", told(&counters));
        counters.retain(|name, _| !name.starts_with("l2_miss_"));
        assert!(told(&counters).ends_with("30.0 % of what RAM misses"), "{}", told(&counters));
    }
}
