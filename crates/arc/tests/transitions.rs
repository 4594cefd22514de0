//! Each way from list to list, one test each. Unit sizes, no overhead, a window of 62.5 ms.

use std::time::Duration;

use arc::{
    Charge, Class, Ghost, Inserted, Kind, List, Options, Policy, PolicyKind, Queue, Refused,
};

const MRU: List = List::new(Class::Data, Queue::Mru);
const MFU: List = List::new(Class::Data, Queue::Mfu);
const UNCACHED: List = List::new(Class::Data, Queue::Uncached);

/// A policy with its clock, sixteen units of capacity.
struct Fixture {
    policy: Policy<u64, u64>,
    now: Duration,
    gone: Vec<(u64, u64)>,
}

fn fixture() -> Fixture {
    let options = Options { charge_overhead: false, policy: PolicyKind::Arc, ..Options::new(16) };
    Fixture { policy: Policy::new(&options), now: Duration::from_secs(1), gone: Vec::new() }
}

const fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Fixture {
    fn wait(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    fn insert(&mut self, key: u64, class: Class, kind: Kind) -> Inserted {
        let charge = Charge { bytes: 1, class, kind, tenant: 0 };
        let inserted =
            self.policy.insert(hash(key), key, key, charge, self.now, &mut self.gone).unwrap();
        self.policy.validate().unwrap();
        assert!(self.policy.charged_bytes() <= self.policy.capacity_bytes());
        inserted
    }

    fn demand(&mut self, key: u64) -> Inserted {
        self.insert(key, Class::Data, Kind::Demand)
    }

    /// Reads after the window has passed.
    fn read(&mut self, key: u64) -> bool {
        self.wait(100);
        self.policy.get(hash(key), &key, self.now).is_some()
    }

    fn list(&self, key: u64) -> Option<List> {
        self.policy.locate(hash(key), &key).map(|location| location.list)
    }

    fn ghost(&self, key: u64) -> Option<Ghost> {
        self.policy.ghost(hash(key))
    }

    /// Inserts keys nobody reads.
    fn scan(&mut self, count: u64) {
        for key in 0..count {
            self.demand(1_000_000 + self.now.as_micros() as u64 * 1000 + key);
        }
        self.wait(100);
    }

    /// One record on MFU that keeps MRU from filling the cache, so that MRU ghosts have room.
    fn with_frequent(mut self, keys: std::ops::Range<u64>) -> Self {
        for key in keys.clone() {
            self.demand(key);
            assert!(self.read(key));
        }
        self.scan(32);
        assert!(keys.into_iter().all(|key| self.list(key) == Some(MFU)));
        self
    }
}

#[test]
fn what_passes_stands_among_the_uncached_and_teaches_nothing() {
    let mut it = fixture().with_frequent(1..9);
    // It is the first to go, used or not, and leaves no ghost.
    assert_eq!(it.insert(30, Class::Data, Kind::Passing).list, UNCACHED);
    assert!(it.read(30) && !it.policy.locate(hash(30), &30).unwrap().prefetched);
    it.demand(31);
    assert!(it.list(30).is_none() && it.ghost(30).is_none());
    // Resident records keep their place.
    assert!(it.insert(1, Class::Data, Kind::Passing).replaced);
    assert_eq!(it.list(1), Some(MFU));
    // A ghost goes as if nobody had asked.
    it.scan(8);
    assert!(it.ghost(31).is_some());
    let before = (it.policy.targets(0, Class::Data), it.policy.usage().list(MRU).ghost_hits);
    let inserted = it.insert(31, Class::Data, Kind::Passing);
    assert_eq!((inserted.list, inserted.ghost), (UNCACHED, None));
    assert!(it.ghost(31).is_none());
    let after = (it.policy.targets(0, Class::Data), it.policy.usage().list(MRU).ghost_hits);
    assert_eq!(after, before);
    // The same where settings are tuned, which else fill MFU first.
    let options = Options { policy: PolicyKind::Auto, ..Options::new(1 << 20) };
    let mut it = Fixture { policy: Policy::new(&options), ..fixture() };
    assert_eq!(it.insert(1, Class::Data, Kind::Passing).list, UNCACHED);
}

#[test]
fn a_new_record_stands_on_mru_until_the_hand_finds_it_used() {
    let mut it = fixture();
    assert_eq!(it.demand(1).list, MRU);
    assert!(it.read(1));
    assert_eq!(it.list(1), Some(MRU), "a hit moves nothing");
    it.scan(16);
    assert_eq!(it.list(1), Some(MFU));
    let location = it.policy.locate(hash(1), &1).unwrap();
    assert_eq!((location.hits, location.turns, location.prefetched), (1, 0, false));
    assert_eq!(location.inserted_at, Duration::from_secs(1));
}

#[test]
fn a_burst_is_one_access() {
    let mut it = fixture();
    it.demand(1);
    for _ in 0..6 {
        it.wait(10);
        assert!(it.policy.get(hash(1), &1, it.now).is_some());
    }
    it.scan(16);
    assert_eq!(it.list(1), None);
}

#[test]
fn a_prefetch_and_its_first_read_are_one_access() {
    for kind in [Kind::Prefetch, Kind::Prime] {
        let mut it = fixture();
        it.insert(1, Class::Data, kind);
        assert!(it.read(1));
        it.insert(2, Class::Data, kind);
        assert!(it.read(2) && it.read(2));
        it.scan(16);
        assert_eq!((it.list(1), it.list(2)), (None, Some(MFU)));
        assert_eq!(it.policy.usage().prefetch_hits, 2);
    }
}

#[test]
fn a_read_that_brings_in_what_was_prefetched_meanwhile_is_its_first() {
    for kind in [Kind::Prefetch, Kind::Prime] {
        let mut it = fixture();
        for key in [1, 2] {
            it.insert(key, Class::Data, kind);
            assert!(it.insert(key, Class::Data, Kind::Demand).replaced);
            assert!(!it.policy.locate(hash(key), &key).unwrap().prefetched);
        }
        assert!(it.read(2));
        it.scan(16);
        assert_eq!((it.list(1), it.list(2)), (None, Some(MFU)));
        assert_eq!(it.policy.usage().prefetch_wasted, 0);
    }
}

#[test]
fn an_mru_ghost_goes_to_mfu_and_raises_the_target() {
    let mut it = fixture().with_frequent(0..8);
    it.demand(100);
    it.scan(8);
    assert_eq!(it.ghost(100).map(|ghost| ghost.list), Some(MRU));
    let before = it.policy.targets(0, Class::Data).0;
    let inserted = it.demand(100);
    assert_eq!((inserted.list, inserted.replaced), (MFU, false));
    assert_eq!(inserted.evicted.records, 1);
    assert!(it.policy.targets(0, Class::Data).0 > before);
    assert_eq!(it.ghost(100), None);
    assert_eq!(it.policy.usage().list(MRU).ghost_hits, 1);
}

#[test]
fn an_mfu_ghost_goes_to_mfu_and_lowers_the_target() {
    let mut it = fixture().with_frequent(0..12);
    // MRU ghost hits raise the target until the hand takes from MFU.
    let mut round = 0;
    while it.policy.ghosts(MFU).0 == 0 {
        it.demand(200 + round);
        it.scan(4);
        it.demand(200 + round);
        round += 1;
        assert!(round < 100, "MFU never gives");
    }
    let ghost = (0..12).chain(200..300).find(|&key| it.ghost(key).is_some_and(|g| g.list == MFU));
    let (key, before) = (ghost.unwrap(), it.policy.targets(0, Class::Data).0);
    assert_eq!(it.demand(key).list, MFU);
    assert!(it.policy.targets(0, Class::Data).0 < before);
}

#[test]
fn a_prefetched_record_that_nobody_read_comes_back_to_mru() {
    let mut it = fixture().with_frequent(0..8);
    it.insert(100, Class::Data, Kind::Prefetch);
    it.scan(8);
    assert!(it.ghost(100).is_some_and(|ghost| ghost.prefetched));
    assert_eq!(it.demand(100).list, MRU);
    assert_eq!(it.policy.usage().prefetch_wasted, 1);
}

#[test]
fn a_record_that_comes_back_by_prefetch_needs_one_read_to_be_frequent() {
    let mut it = fixture().with_frequent(0..8);
    it.demand(100);
    it.scan(8);
    assert_eq!(it.insert(100, Class::Data, Kind::Prefetch).list, MRU);
    assert!(it.read(100));
    it.scan(16);
    assert_eq!(it.list(100), Some(MFU));
}

#[test]
fn priming_moves_no_target() {
    let mut it = fixture().with_frequent(0..8);
    it.demand(100);
    it.scan(8);
    let before = it.policy.targets(0, Class::Data);
    assert!(it.insert(100, Class::Data, Kind::Prime).ghost.is_some());
    assert_eq!(it.policy.targets(0, Class::Data), before);
}

#[test]
fn a_demoted_record_is_the_first_to_go_and_leaves_no_ghost() {
    let mut it = fixture().with_frequent(0..8);
    assert!(it.policy.demote(hash(3), &3));
    assert!(!it.policy.demote(hash(99), &99));
    it.policy.validate().unwrap();
    assert_eq!(it.list(3), Some(UNCACHED));
    assert!(it.read(3), "still served");
    it.gone.clear();
    it.demand(500);
    assert_eq!((it.list(3), it.ghost(3)), (None, None));
    assert_eq!(it.gone, [(3, 3)]);
}

#[test]
fn removal_leaves_no_ghost_and_replacement_no_trace() {
    let mut it = fixture().with_frequent(0..8);
    assert_eq!(it.policy.remove(hash(3), &3), Some(3));
    assert_eq!(it.policy.remove(hash(3), &3), None);
    assert_eq!(it.ghost(3), None);
    let before = it.policy.locate(hash(4), &4).unwrap();
    it.gone.clear();
    assert_eq!(it.policy.replace(hash(4), &4, 44, 2, &mut it.gone), Ok(true));
    assert_eq!(it.policy.replace(hash(3), &3, 33, 2, &mut it.gone), Ok(false));
    assert_eq!(it.gone, [(4, 4), (3, 33)]);
    let after = it.policy.locate(hash(4), &4).unwrap();
    assert_eq!(after, arc::Location { bytes: 2, ..before });
    assert_eq!(it.policy.peek(hash(4), &4), Some(44));
    it.policy.validate().unwrap();
}

#[test]
fn a_record_that_is_too_large_is_refused_and_its_old_value_goes() {
    let mut it = fixture();
    it.demand(1);
    let charge = Charge { bytes: 3, class: Class::Data, kind: Kind::Demand, tenant: 0 };
    let refused = it.policy.insert(hash(1), 1, 11, charge, it.now, &mut it.gone);
    assert_eq!(refused, Err(Refused::TooLarge { cost: 3, limit: 2 }));
    assert!(!it.policy.contains(hash(1), &1));
    it.demand(1);
    let refused = it.policy.replace(hash(1), &1, 11, u64::MAX, &mut it.gone);
    assert!(matches!(refused, Err(Refused::TooLarge { .. })));
    assert!(it.policy.is_empty());
    let charge = Charge { bytes: 1, tenant: u32::MAX, ..charge };
    let refused = it.policy.insert(hash(1), 1, 11, charge, it.now, &mut it.gone);
    assert!(matches!(refused, Err(Refused::UnknownTenant { .. })));
}

#[test]
fn metadata_gives_above_its_target_and_data_below_it() {
    let mut it = fixture();
    for key in 0..4 {
        it.insert(key, Class::Metadata, Kind::Demand);
    }
    it.scan(40);
    assert!((0..4).all(|key| it.list(key).is_some()), "a quarter is metadata's");
    for key in 10..40 {
        it.insert(key, Class::Metadata, Kind::Demand);
    }
    let of = |class| {
        Queue::ALL.map(|queue| it.policy.newest(List::new(class, queue)).count()).iter().sum()
    };
    let (data, metadata): (usize, usize) = (of(Class::Data), of(Class::Metadata));
    assert_eq!(data + metadata, 16);
    assert!((4..=5).contains(&metadata), "metadata holds {metadata} of 16");
}

#[test]
fn a_class_that_is_alone_has_everything() {
    let mut it = fixture();
    for key in 0..40 {
        it.insert(key, Class::Metadata, Kind::Demand);
    }
    assert_eq!(it.policy.len(), 16);
}

#[test]
fn capacity_shrinks_at_once() {
    let mut it = fixture().with_frequent(0..8);
    it.gone.clear();
    let evicted = it.policy.set_capacity(5, &mut it.gone);
    it.policy.validate().unwrap();
    assert_eq!((evicted.records, it.gone.len(), it.policy.len()), (11, 11, 5));
    it.policy.set_capacity(0, &mut it.gone);
    it.policy.validate().unwrap();
    assert!(it.policy.is_empty());
}

#[test]
fn heat_order_is_frequent_before_recent_and_young_before_old() {
    let mut it = fixture().with_frequent(0..3);
    it.insert(50, Class::Metadata, Kind::Demand);
    it.policy.demote(hash(1), &1);
    let order: Vec<(u64, List)> =
        it.policy.by_heat().map(|(key, location)| (*key, location.list)).collect();
    assert_eq!(order[..3], [(2, MFU), (0, MFU), (50, List::new(Class::Metadata, Queue::Mru))]);
    assert_eq!(order.last(), Some(&(1, UNCACHED)));
    assert_eq!(order.len(), it.policy.len());
}
