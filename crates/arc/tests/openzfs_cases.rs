//! What OpenZFS's own test suite proves of its ARC (its group `arc`, four cases), proven of ours.
//! Each test says which case it stands for. `dbufstats_003_pos` runs a command with all of its
//! options: that is `every_option_of_the_tools_works` in `tests/openzfs_cases.rs`.

use std::collections::HashMap;
use std::time::Duration;

use arc::{Cache, Charge, Class, Kind, List, ListStatistics, Options, PolicyKind, Queue};

const MRU: List = List::new(Class::Data, Queue::Mru);
const MFU: List = List::new(Class::Data, Queue::Mfu);
const RECORD: Charge = Charge { bytes: 4096, class: Class::Data, kind: Kind::Demand, tenant: 0 };

fn cache(capacity: u64) -> Cache<u64, ()> {
    let policy = PolicyKind::Arc;
    Cache::new(&Options { shards: Some(4), policy, ..Options::new(capacity) })
}

/// `arcstats_runtime_tuning`: the ceiling is set to parts of itself, and what is reported is what
/// was set, at once. Ours must be kept at once too. The floor is the daemon's, not the cache's.
#[test]
fn a_new_ceiling_is_reported_and_kept_at_once() {
    const CEILING: u64 = 64 << 20;
    let cache = cache(CEILING);
    let fill = |from: u64| {
        for key in from..from + CEILING / RECORD.bytes {
            cache.insert(key, (), RECORD, Duration::from_secs(1)).unwrap();
        }
    };
    fill(0);
    for (number, ceiling) in [CEILING / 4, CEILING / 3, CEILING / 2, CEILING].iter().enumerate() {
        cache.set_capacity(*ceiling);
        assert_eq!(
            (cache.capacity_bytes(), cache.statistics().capacity_bytes),
            (*ceiling, *ceiling)
        );
        assert!(cache.charged_bytes() <= *ceiling);
        fill(1_000_000 * (number as u64 + 1));
        assert!(cache.charged_bytes() <= *ceiling);
        assert!(cache.charged_bytes() > *ceiling / 10 * 9, "the new ceiling is used");
        cache.validate().unwrap();
    }
}

/// `dbufstats_001_pos`: the counters of the summary agree (there: within 15 %; here: exactly)
/// with a count of all that is listed one by one, list by list and in total.
#[test]
fn the_summary_agrees_with_a_count_of_all_records() {
    let cache = cache(16 << 20);
    let mut seed = 88_172_645_463_325_252_u64;
    for step in 0..60_000_u64 {
        // Small keys more often than large ones.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let key = ((seed & 0xFFF) * (seed >> 12 & 0xFFF)) >> 9;
        let now = Duration::from_millis(step * 5);
        if cache.get(&key, now).is_none() {
            let class = if key.is_multiple_of(7) { Class::Metadata } else { Class::Data };
            let bytes = 512 + key % 4096;
            cache.insert(key, (), Charge { bytes, class, ..RECORD }, now).unwrap();
        }
        if step.is_multiple_of(1000) {
            cache.demote(&key);
        }
    }
    let mut counted: HashMap<List, ListStatistics> = HashMap::new();
    for (key, location) in cache.by_heat() {
        assert_eq!(cache.locate(&key), Some(location));
        let sums = counted.entry(location.list).or_default();
        sums.records += 1;
        sums.bytes += location.bytes;
    }
    let statistics = cache.statistics();
    for list in List::ALL {
        let (told, counted) = (statistics.usage.list(list), counted.remove(&list));
        let counted = counted.unwrap_or_default();
        assert_eq!((told.records, told.bytes), (counted.records, counted.bytes), "{list:?}");
    }
    let held = [MRU, MFU].map(|list| statistics.usage.list(list).records);
    assert!(held.iter().all(|&records| records > 20), "{held:?}");
    assert!(statistics.usage.evictions > 1000);
    let headers = statistics.usage.records() * (8 + 50);
    let ghosts: u64 = statistics.ghosts.iter().map(|ghosts| ghosts.ghosts * 34).sum();
    assert_eq!(statistics.charged_bytes, statistics.usage.bytes() + headers + ghosts);
}

/// `dbufstats_002_pos`: all records of a file that was written stand on MRU and none on MFU; once
/// it is read again, some stand on MFU. Ours change lists when the clock's hand passes.
#[test]
fn written_records_are_recent_and_frequent_once_read_again() {
    const RECORDS: u64 = 2000;
    let cache = cache((RECORDS + 100) * (RECORD.bytes + 100));
    for key in 0..RECORDS {
        cache.insert(key, (), RECORD, Duration::from_secs(1)).unwrap();
    }
    let on = |list| cache.statistics().usage.list(list).records;
    assert_eq!((on(MRU), on(MFU)), (RECORDS, 0));
    for key in 0..RECORDS / 2 {
        assert!(cache.get(&key, Duration::from_secs(2)).is_some());
    }
    assert_eq!((on(MRU), on(MFU)), (RECORDS, 0), "a hit moves nothing");
    for key in RECORDS..2 * RECORDS {
        cache.insert(key, (), RECORD, Duration::from_secs(3)).unwrap();
    }
    assert_eq!(on(MFU), RECORDS / 2);
    assert!((0..RECORDS / 2).all(|key| cache.contains(&key)));
    assert!((RECORDS / 2..RECORDS).all(|key| !cache.contains(&key)));
}
