//! What is offered to a level below: in which order, how far ahead, and that it is once.

mod common;

use std::time::Duration;

use arc::{Cache, Charge, Class, Kind, List, Offer, Options, PolicyKind, Queue, Share};
use common::Plain;

const NOW: Duration = Duration::from_secs(1);
/// Later than the window of correlated touches.
const LATER: Duration = Duration::from_secs(2);

type Numbers = Cache<u64, u64, Plain>;

fn cache(shards: usize, capacity: u64) -> Numbers {
    let options = Options {
        shards: Some(shards),
        charge_overhead: false,
        policy: PolicyKind::Arc,
        ..Options::new(capacity)
    };
    Cache::with_hasher(&options, Plain(0))
}

/// A key of `shard`: bits 40 and up choose it.
const fn key(shard: u64, number: u64) -> u64 {
    (number & 0x7F) << 57 | shard << 40 | number
}

const fn charge(class: Class, kind: Kind, tenant: u32) -> Charge {
    Charge { bytes: 10, class, kind, tenant }
}

const DATA: Charge = charge(Class::Data, Kind::Demand, 0);

fn fill(cache: &Numbers, numbers: std::ops::Range<u64>, charge: Charge) {
    for number in numbers {
        cache.insert(key(0, number), number, charge, NOW).unwrap();
    }
}

/// The numbers in the keys.
fn offered(offers: &[Offer<u64, u64>]) -> Vec<u64> {
    offers.iter().map(|offer| offer.value).collect()
}

#[test]
fn the_oldest_come_first_and_each_comes_once() {
    let cache = cache(1, 1000);
    assert_eq!(cache.offer(100, 10), []);
    fill(&cache, 0..10, DATA);
    assert_eq!(offered(&cache.offer(30, 2)), [0, 1]);
    assert_eq!(offered(&cache.offer(30, 10)), [2]);
    assert_eq!(offered(&cache.offer(30, 10)), []);
    assert_eq!(offered(&cache.offer(45, 10)), [3, 4], "the last one may reach beyond");
    cache.remove(&key(0, 1));
    assert_eq!(offered(&cache.offer(45, 10)), [5], "what leaves makes the way shorter");
    assert_eq!(offered(&cache.offer(u64::MAX, usize::MAX)), [6, 7, 8, 9]);
    fill(&cache, 10..12, DATA);
    assert_eq!(offered(&cache.offer(u64::MAX, 10)), [10, 11]);
    assert_eq!(offered(&cache.offer(0, 10)), []);
    cache.validate().unwrap();
}

#[test]
fn metadata_comes_before_data_and_mfu_before_mru() {
    let cache = cache(1, 200);
    fill(&cache, 0..20, DATA);
    // What was used goes round to MFU when the hand comes.
    (0..2).for_each(|number| assert!(cache.get(&key(0, number), LATER).is_some()));
    fill(&cache, 20..22, charge(Class::Metadata, Kind::Demand, 0));
    assert_eq!(cache.locate(&key(0, 0)).unwrap().list, List::new(Class::Data, Queue::Mfu));
    let offers = cache.offer(u64::MAX, 5);
    assert_eq!(offered(&offers), [20, 21, 0, 1, 4]);
    let lists: Vec<_> = offers.iter().map(|offer| (offer.list.class, offer.list.queue)).collect();
    let (metadata, data) = (Class::Metadata, Class::Data);
    let (mru, mfu) = (Queue::Mru, Queue::Mfu);
    let expected = [(metadata, mru), (metadata, mru), (data, mfu), (data, mfu), (data, mru)];
    assert_eq!(lists, expected);
}

#[test]
fn an_offer_says_what_is_known_and_what_is_not_kept_is_not_offered() {
    let cache = cache(1, 1000);
    let prefetched = charge(Class::Metadata, Kind::Prefetch, 3);
    fill(&cache, 0..2, prefetched);
    cache.get(&key(0, 1), NOW);
    cache.get(&key(0, 1), LATER);
    fill(&cache, 2..3, charge(Class::Data, Kind::Passing, 0));
    fill(&cache, 3..4, DATA);
    cache.demote(&key(0, 3));
    let list = List::new(Class::Metadata, Queue::Mru);
    let unread = Offer {
        key: key(0, 0),
        value: 0,
        bytes: 10,
        list,
        touches: 0,
        tenant: 3,
        prefetched: true,
    };
    let read = Offer { key: key(0, 1), value: 1, touches: 2, prefetched: false, ..unread.clone() };
    assert_eq!(cache.offer(u64::MAX, 10), [unread, read]);
}

#[test]
fn a_record_that_goes_round_is_offered_again() {
    let cache = cache(1, 100);
    fill(&cache, 0..10, DATA);
    assert_eq!(cache.offer(u64::MAX, 10).len(), 10);
    cache.get(&key(0, 0), LATER);
    fill(&cache, 10..11, DATA);
    assert!(cache.contains(&key(0, 0)) && !cache.contains(&key(0, 1)));
    assert_eq!(offered(&cache.offer(u64::MAX, 10)), [0, 10]);
    cache.validate().unwrap();
}

/// A taker that is called as often as something comes in sees everything before it goes.
#[test]
fn whatever_goes_was_offered_before_if_the_taker_keeps_up() {
    let cache = cache(1, 1000);
    let mut seen = vec![false; 5000];
    for number in 0..5000 {
        fill(&cache, number..number + 1, DATA);
        if number % 3 == 0 {
            cache.get(&key(0, number / 2), LATER);
        }
        for offer in cache.offer(40, 8) {
            seen[offer.value as usize] = true;
        }
        if number % 500 == 499 {
            cache.validate().unwrap();
        }
    }
    for (number, seen) in seen.into_iter().enumerate() {
        assert!(seen || cache.contains(&key(0, number as u64)), "{number} went unseen");
    }
}

#[test]
fn shards_and_partitions_have_parts_of_the_way_and_of_the_number() {
    let cache = cache(4, 10_000);
    for number in 0..40 {
        cache.insert(key(number % 4, number), number, DATA, NOW).unwrap();
    }
    // 25 bytes a shard: three records each.
    let mut first = offered(&cache.offer(100, 100));
    first.sort_unstable();
    assert_eq!(first, (0..12).collect::<Vec<_>>());
    let mut next = offered(&cache.offer(160, 4));
    next.sort_unstable();
    assert_eq!(next, [12, 13, 14, 15], "one of each shard");

    let cache = self::cache(1, 10_000);
    fill(&cache, 0..10, DATA);
    cache.set_share(1, Share { reserve_bytes: 1000, ..Share::FREE }).unwrap();
    cache.assign(7, 1).unwrap();
    fill(&cache, 10..40, charge(Class::Data, Kind::Demand, 7));
    // A quarter of the bytes stands in the first partition.
    assert_eq!(offered(&cache.offer(80, 100)), [0, 1, 10, 11, 12, 13, 14, 15]);
    // Records that move to a partition stand at its young end.
    cache.assign(0, 1).unwrap();
    cache.validate().unwrap();
    let offers = offered(&cache.offer(u64::MAX, 100));
    assert!(offers.starts_with(&[16, 17]), "{offers:?}");
    assert_eq!(offers.len(), 34, "those that had been offered where they stood before too");
}

#[test]
fn the_markers_survive_a_shrink_and_a_change_of_the_rules() {
    let cache = cache(2, 100_000);
    for number in 0..10_000 {
        cache.insert(key(number % 2, number), number, DATA, NOW).unwrap();
    }
    assert_eq!(cache.offer(60_000, 5_500).len(), 5_500);
    cache.set_capacity(50_000);
    cache.validate().unwrap();
    assert_eq!(cache.offer(2_000, 5_000), [], "the hand has not yet come to what was offered");
    cache.set_policy(0, PolicyKind::Auto).unwrap();
    cache.set_capacity(30_000);
    cache.retain(|key, _| key % 3 == 0);
    cache.validate().unwrap();
    let left = cache.statistics().usage.records();
    assert_eq!(cache.offer(u64::MAX, usize::MAX).len() as u64, left);
}
