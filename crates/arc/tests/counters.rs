//! Each counter moves when it should, and nothing else moves with it: a step is compared as a
//! whole with what it may change.
//!
//! Not here: `refused.full` needs 2^32 records of one shard, and `refused.no_room` other threads
//! that take what is freed a thousand times in a row.

use std::time::Duration;

use arc::{Cache, Charge, Class, Kind, List, ListStatistics, Options, PolicyKind, Queue};
use arc::{GhostStatistics, RefusedStatistics, Statistics, Usage};

const CAPACITY: u64 = 16;
const UNIT: Charge = Charge { bytes: 1, class: Class::Data, kind: Kind::Demand, tenant: 0 };
const METADATA: Charge = Charge { class: Class::Metadata, ..UNIT };
const PREFETCH: Charge = Charge { kind: Kind::Prefetch, ..UNIT };
const PRIME: Charge = Charge { kind: Kind::Prime, ..UNIT };
const LARGE: Charge = Charge { bytes: 3, ..UNIT };

/// A counter's name, and what it stands at.
type Figure = (String, i64);

/// Every figure of one tenant, or of all. Takes them apart, so that a new one is not forgotten.
fn usage_figures(usage: &Usage) -> Vec<Figure> {
    let Usage { lists, inserts, evictions, evicted_bytes, prefetch_hits, prefetch_wasted } = usage;
    let mut figures = vec![
        ("inserts".to_string(), *inserts as i64),
        ("evictions".to_string(), *evictions as i64),
        ("evicted_bytes".to_string(), *evicted_bytes as i64),
        ("prefetch_hits".to_string(), *prefetch_hits as i64),
        ("prefetch_wasted".to_string(), *prefetch_wasted as i64),
    ];
    for (list, statistics) in List::ALL.into_iter().zip(lists) {
        let ListStatistics { records, bytes, hits, ghost_hits, ghost_hit_bytes } = *statistics;
        let counters = [
            ("records", records),
            ("bytes", bytes),
            ("hits", hits),
            ("ghost_hits", ghost_hits),
            ("ghost_hit_bytes", ghost_hit_bytes),
        ];
        figures.extend(counters.map(|(name, at)| (format!("{} {name}", short(list)), at as i64)));
    }
    figures
}

/// Every figure of a cache; targets in millionths.
fn figures(statistics: &Statistics) -> Vec<Figure> {
    let Statistics {
        capacity_bytes,
        charged_bytes,
        tenant_table_bytes,
        usage,
        ghosts,
        refused: RefusedStatistics { too_large, no_room, unknown_tenant, full },
        mru_targets,
        metadata_target,
    } = statistics;
    let mut figures = usage_figures(usage);
    let more = [
        ("capacity", *capacity_bytes),
        ("charged", *charged_bytes),
        ("tenant_table", *tenant_table_bytes),
        ("too_large", *too_large),
        ("no_room", *no_room),
        ("unknown_tenant", *unknown_tenant),
        ("full", *full),
    ];
    figures.extend(more.map(|(name, at)| (name.to_string(), at as i64)));
    for (list, GhostStatistics { ghosts, bytes }) in List::ALL.into_iter().zip(ghosts) {
        figures.push((format!("{} ghosts", short(list)), *ghosts as i64));
        figures.push((format!("{} ghost_bytes", short(list)), *bytes as i64));
    }
    let [data, metadata] = *mru_targets;
    let targets = [("data", data), ("metadata", metadata), ("class", *metadata_target)];
    figures.extend(targets.map(|(of, at)| (format!("{of} target"), (at * 1e6).round() as i64)));
    figures
}

fn short(list: List) -> String {
    let class = if list.class == Class::Data { "data" } else { "meta" };
    let queue = match list.queue {
        Queue::Mru => "mru",
        Queue::Mfu => "mfu",
        Queue::Uncached => "unc",
    };
    format!("{class} {queue}")
}

/// A cache of sixteen records in one shard, with its clock.
struct Fixture {
    cache: Cache<u64, u64>,
    now: Duration,
}

impl Fixture {
    /// The tables of two tenants exist, those for the hits of this thread too.
    fn new() -> Self {
        let options = Options {
            shards: Some(1),
            charge_overhead: false,
            policy: PolicyKind::Arc,
            ..Options::new(CAPACITY)
        };
        let it = Self { cache: Cache::new(&options), now: Duration::from_secs(1) };
        it.cache.insert(0, 0, Charge { tenant: 1, ..UNIT }, it.now).unwrap();
        it.cache.get(&0, it.now).unwrap();
        it.cache.remove(&0);
        it
    }

    fn wait(&mut self) {
        self.now += Duration::from_millis(100);
    }

    fn insert(&self, key: u64, charge: Charge) {
        let _ = self.cache.insert(key, key, charge, self.now);
    }

    /// A cache whose records `0..frequent` stand on MFU, the rest is filled from key 1000 on.
    fn with_frequent(frequent: u64) -> Self {
        let mut it = Self::new();
        (0..frequent).for_each(|key| it.insert(key, UNIT));
        it.wait();
        assert!((0..frequent).all(|key| it.cache.get(&key, it.now).is_some()));
        (1000..1000 + 2 * CAPACITY).for_each(|key| it.insert(key, UNIT));
        assert_eq!(it.cache.statistics().usage.lists[1].records, frequent);
        it.wait();
        it
    }

    /// Does `step`, and checks that exactly these figures move, by so much.
    #[track_caller]
    fn moves<R>(&mut self, step: impl FnOnce(&mut Self) -> R, expected: &[(&str, i64)]) {
        let before = figures(&self.cache.statistics());
        step(self);
        self.cache.validate().unwrap();
        let after = figures(&self.cache.statistics());
        let moved = before.into_iter().zip(after).filter(|(before, after)| before != after);
        let mut moved: Vec<Figure> =
            moved.map(|(before, after)| (before.0, after.1 - before.1)).collect();
        let mut expected: Vec<Figure> =
            expected.iter().map(|(name, by)| (name.to_string(), *by)).collect();
        moved.sort();
        expected.sort();
        assert_eq!(moved, expected);
    }
}

#[test]
fn an_insertion_counts_what_came() {
    let mut it = Fixture::new();
    let came = [("inserts", 1), ("charged", 1), ("data mru records", 1), ("data mru bytes", 1)];
    it.moves(|it| it.insert(1, UNIT), &came);
    it.moves(|it| it.insert(2, PREFETCH), &came);
    it.moves(|it| it.insert(3, PRIME), &came);
    let came = [("inserts", 1), ("charged", 2), ("meta mru records", 1), ("meta mru bytes", 2)];
    it.moves(|it| it.insert(4, Charge { bytes: 2, ..METADATA }), &came);
}

#[test]
fn looking_counts_nothing() {
    let mut it = Fixture::with_frequent(8);
    let look = |it: &mut Fixture| {
        assert_eq!(it.cache.get(&77, it.now), None);
        assert!(it.cache.hit(&77, it.now).is_none());
        assert_eq!(it.cache.peek(&1), Some(1));
        assert!(it.cache.contains(&1) && it.cache.locate(&1).is_some());
        assert!((1000..1032).any(|key| it.cache.ghost(&key).is_some()));
        assert_eq!(it.cache.by_heat().len(), 16);
        assert_eq!(it.cache.remove(&77), None);
        assert!(!it.cache.demote(&77));
        assert_eq!(it.cache.retain(|_, _| true), 0);
    };
    it.moves(look, &[]);
}

#[test]
fn a_hit_counts_on_the_list_where_the_record_stands() {
    let mut it = Fixture::with_frequent(8);
    it.moves(|it| it.cache.get(&1, it.now), &[("data mfu hits", 1)]);
    // Once more in the same burst: it moves no reference bit, but it is a hit.
    it.moves(|it| it.cache.get(&1, it.now), &[("data mfu hits", 1)]);
    it.moves(|it| it.cache.hit(&1031, it.now), &[("data mru hits", 1)]);
    it.cache.demote(&1);
    it.moves(|it| it.cache.get(&1, it.now), &[("data unc hits", 1)]);
    it.insert(500, METADATA);
    it.moves(|it| it.cache.get(&500, it.now), &[("meta mru hits", 1)]);
}

#[test]
fn a_new_value_counts_its_bytes_only() {
    let mut it = Fixture::new();
    it.insert(1, UNIT);
    let grows = [("charged", 1), ("data mru bytes", 1)];
    it.moves(|it| it.cache.replace(&1, 11, 2), &grows);
    let shrinks = [("charged", -1), ("data mru bytes", -1)];
    it.moves(|it| it.insert(1, UNIT), &shrinks);
    it.moves(|it| it.cache.replace(&1, 12, 1), &[]);
    it.moves(|it| it.cache.replace(&2, 12, 1), &[]);
    it.moves(|it| it.cache.update(&1, |value| *value = 13), &[]);
    // As something else it is another record.
    let moves = [
        ("inserts", 1),
        ("data mru records", -1),
        ("data mru bytes", -1),
        ("meta mru records", 1),
        ("meta mru bytes", 1),
    ];
    it.moves(|it| it.insert(1, METADATA), &moves);
}

#[test]
fn a_record_that_is_taken_out_was_not_evicted() {
    let mut it = Fixture::with_frequent(8);
    let gone = [("charged", -1), ("data mfu records", -1), ("data mfu bytes", -1)];
    it.moves(|it| it.cache.remove(&1), &gone);
    it.moves(|it| it.cache.retain(|key, _| *key != 2), &gone);
    let demoted = [
        ("data mfu records", -1),
        ("data mfu bytes", -1),
        ("data unc records", 1),
        ("data unc bytes", 1),
    ];
    it.moves(|it| assert!(it.cache.demote(&3)), &demoted);
}

#[test]
fn an_eviction_counts_and_leaves_a_ghost() {
    let mut it = Fixture::with_frequent(8);
    // Eight on MFU, eight on MRU, and as many ghosts as may be.
    it.moves(|it| it.insert(1, UNIT), &[]);
    let exchange = [("inserts", 1), ("evictions", 1), ("evicted_bytes", 1)];
    it.moves(|it| it.insert(2000, UNIT), &exchange);
    let bytes = [("inserts", 1), ("evictions", 2), ("evicted_bytes", 2), ("data mru records", -1)];
    it.moves(|it| it.insert(2001, Charge { bytes: 2, ..UNIT }), &bytes);

    let mut it = Fixture::new();
    (0..15).for_each(|key| it.insert(key, UNIT));
    it.insert(15, METADATA);
    // While data fills its share it has no room for ghosts.
    let other_class = [
        ("inserts", 1),
        ("evictions", 1),
        ("evicted_bytes", 1),
        ("data mru records", -1),
        ("data mru bytes", -1),
        ("meta mru records", 1),
        ("meta mru bytes", 1),
    ];
    it.moves(|it| it.insert(16, METADATA), &other_class);
    it.cache.demote(&5);
    let uncached = [
        ("inserts", 1),
        ("evictions", 1),
        ("evicted_bytes", 1),
        ("data unc records", -1),
        ("data unc bytes", -1),
        ("data mru records", 1),
        ("data mru bytes", 1),
    ];
    it.moves(|it| it.insert(19, UNIT), &uncached);
}

#[test]
fn a_used_record_changes_its_list_when_the_hand_passes() {
    let mut it = Fixture::new();
    (0..16).for_each(|key| it.insert(key, UNIT));
    it.wait();
    it.moves(|it| it.cache.get(&0, it.now), &[("data mru hits", 1)]);
    it.moves(|it| assert!(it.cache.read(&1000, it.now, |value| *value).is_none()), &[]);
    let passed = [
        ("inserts", 1),
        ("evictions", 1),
        ("evicted_bytes", 1),
        ("data mru records", -1),
        ("data mru bytes", -1),
        ("data mfu records", 1),
        ("data mfu bytes", 1),
        ("data mru ghosts", 1),
        ("data mru ghost_bytes", 1),
    ];
    it.moves(|it| it.insert(16, UNIT), &passed);
}

/// With eight frequent records, the youngest ghost of MRU.
fn ghost_of(it: &Fixture) -> u64 {
    let is_ghost = |key: &u64| it.cache.ghost(key).is_some_and(|ghost| ghost.list == List::ALL[0]);
    (1000..1032).rev().find(is_ghost).unwrap()
}

#[test]
fn a_ghost_hit_counts_and_moves_targets_unless_it_is_primed() {
    let back = [
        ("inserts", 1),
        ("evictions", 1),
        ("evicted_bytes", 1),
        ("data mru ghost_hits", 1),
        ("data mru ghost_hit_bytes", 1),
        ("data mru records", -1),
        ("data mru bytes", -1),
        ("data mfu records", 1),
        ("data mfu bytes", 1),
    ];
    // One of sixteen more for MRU; of metadata's quarter at most 1/32, and a fifth of the step.
    let targets = [("data target", 62_500), ("class target", -12_500)];
    let mut it = Fixture::with_frequent(8);
    let key = ghost_of(&it);
    it.moves(|it| it.insert(key, UNIT), &[&back[..], &targets].concat());

    let mut it = Fixture::with_frequent(8);
    let key = ghost_of(&it);
    let primed = [
        ("inserts", 1),
        ("evictions", 1),
        ("evicted_bytes", 1),
        ("data mru ghost_hits", 1),
        ("data mru ghost_hit_bytes", 1),
    ];
    it.moves(|it| it.insert(key, PRIME), &primed);
}

#[test]
fn a_prefetch_counts_once_as_hit_or_as_waste() {
    for charge in [PREFETCH, PRIME] {
        let mut it = Fixture::with_frequent(8);
        it.insert(1, charge);
        // Resident already: its first demand read is long past.
        it.moves(|it| it.cache.get(&1, it.now), &[("data mfu hits", 1)]);
        it.insert(500, charge);
        it.wait();
        let first = [("data mru hits", 1), ("prefetch_hits", 1)];
        it.moves(|it| it.cache.get(&500, it.now), &first);
        it.moves(|it| it.cache.get(&500, it.now), &[("data mru hits", 1)]);
        it.insert(501, charge);
        (600..606).for_each(|key| it.insert(key, UNIT));
        let exchange = [("inserts", 1), ("evictions", 1), ("evicted_bytes", 1)];
        assert!(it.cache.contains(&500) && it.cache.contains(&501));
        it.moves(|it| it.insert(606, UNIT), &exchange);
        assert!(!it.cache.contains(&500) && it.cache.contains(&501));
        let wasted = [&exchange[..], &[("prefetch_wasted", 1)]].concat();
        it.moves(|it| it.insert(607, UNIT), &wasted);
        // What is taken out is not wasted by the cache.
        it.insert(502, charge);
        let gone = [("charged", -1), ("data mru records", -1), ("data mru bytes", -1)];
        it.moves(|it| it.cache.remove(&502), &gone);
    }
}

#[test]
fn a_refusal_counts_its_reason() {
    let mut it = Fixture::new();
    it.moves(|it| it.insert(1, LARGE), &[("too_large", 1)]);
    it.insert(1, UNIT);
    let old = [("too_large", 1), ("charged", -1), ("data mru records", -1), ("data mru bytes", -1)];
    it.moves(|it| it.insert(1, LARGE), &old);
    it.insert(1, UNIT);
    it.moves(|it| assert!(it.cache.replace(&1, 0, u64::MAX).is_err()), &old);
    let nobody = Charge { tenant: arc::TENANTS_MAX, ..UNIT };
    it.moves(|it| it.insert(1, nobody), &[("unknown_tenant", 1)]);
    it.moves(|it| it.insert(1, Charge { bytes: 3, ..nobody }), &[("unknown_tenant", 1)]);
}

#[test]
fn a_new_capacity_evicts_what_is_too_much() {
    let mut it = Fixture::new();
    (0..16).for_each(|key| it.insert(key, UNIT));
    it.moves(|it| it.cache.set_capacity(32), &[("capacity", 16)]);
    it.moves(|it| it.cache.set_capacity(16), &[("capacity", -16)]);
    let shrunk = [
        ("capacity", -4),
        ("charged", -4),
        ("evictions", 4),
        ("evicted_bytes", 4),
        ("data mru records", -4),
        ("data mru bytes", -4),
    ];
    it.moves(|it| assert_eq!(it.cache.set_capacity(12).records, 4), &shrunk);
}

#[test]
fn each_tenant_has_what_is_its_own() {
    let it = Fixture::with_frequent(8);
    let tenants = |it: &Fixture| [0, 1].map(|tenant| usage_figures(&it.cache.tenant(tenant)));
    let [_, before] = tenants(&it);
    it.insert(1031, UNIT);
    it.insert(3000, UNIT);
    it.cache.get(&3000, it.now);
    it.insert(ghost_of(&it), UNIT);
    assert_eq!(tenants(&it)[1], before, "nothing of the other's");

    // A ghost hit counts for who reads now, an eviction for whose record it was.
    let [other, _] = tenants(&it);
    let key = ghost_of(&it);
    it.insert(key, Charge { tenant: 1, ..UNIT });
    it.cache.get(&key, it.now);
    it.cache.demote(&key);
    let [after, mine] = tenants(&it);
    let of =
        |figures: &[Figure], name: &str| figures.iter().find(|(other, _)| other == name).unwrap().1;
    assert_eq!(of(&after, "evictions") - of(&other, "evictions"), 1);
    assert_eq!(of(&mine, "evictions"), 0);
    for (name, expected) in [
        ("inserts", 2),
        ("data mru ghost_hits", 1),
        ("data mfu hits", 1),
        ("data unc records", 1),
        ("data mfu records", 0),
    ] {
        assert_eq!(of(&mine, name), expected, "{name}");
    }
    let sum = it.cache.tenant(0).bytes() + it.cache.tenant(1).bytes();
    assert_eq!(sum, it.cache.statistics().usage.bytes());
}

#[test]
fn the_table_of_tenants_grows_with_the_largest_index() {
    let mut it = Fixture::new();
    let bytes = it.cache.statistics().tenant_table_bytes;
    it.insert(1, Charge { tenant: 1000, ..UNIT });
    let grown = it.cache.statistics().tenant_table_bytes;
    assert!(grown >= 1001 * size_of::<Usage>() as u64 && grown > bytes);
    it.moves(|it| it.insert(1, Charge { tenant: 1000, ..UNIT }), &[]);
    assert_eq!(it.cache.tenant(999), Usage::default());
}
