//! Every policy, on small caches and odd loads.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::trace::Trace;

/// Replays a trace step by step, checks everything at each, and returns the misses.
fn misses(name: PolicyName, capacity: u64, objects: &Objects, trace: &Trace) -> usize {
    let mut policy = name.build(capacity, objects, false, trace);
    let mut resident_before = 0;
    let mut misses = 0;
    for &id in trace.ids() {
        let hit = policy.access(id);
        assert_eq!(policy.validate(), Ok(()), "{name} at {capacity}");
        let resident = policy.resident_weight();
        assert!(resident <= capacity, "{name} holds {resident} of {capacity}");
        assert!(!hit || resident_before > 0, "{name} hits while it is empty");
        resident_before = resident.max(u64::from(hit));
        misses += usize::from(!hit);
    }
    misses
}

fn trace(blocks: impl IntoIterator<Item = u64>) -> (Trace, Objects) {
    let trace = Trace::from_blocks("test", blocks, 1);
    let objects = Objects::uniform(trace.distinct() as usize);
    (trace, objects)
}

/// Loads with loops, scans and a hot set, besides random requests.
fn loads() -> impl Strategy<Value = Vec<u64>> {
    let piece = prop_oneof![
        proptest::collection::vec(0..40u64, 1..60),
        (0..60u64, 1..30u64, 1..4usize).prop_map(|(first, length, times)| {
            (first..first + length).collect::<Vec<_>>().repeat(times)
        }),
        proptest::collection::vec(0..5u64, 1..40),
    ];
    proptest::collection::vec(piece, 1..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_policy_beats_the_optimum(load in loads(), capacity in 1..=20u64) {
        let (trace, objects) = trace(load);
        let optimum = misses(PolicyName::Min, capacity, &objects, &trace);
        for name in PolicyName::ALL {
            let misses = misses(name, capacity, &objects, &trace);
            prop_assert!(misses >= optimum, "{name} at {capacity}: {misses}, optimum {optimum}");
            prop_assert!(misses as u64 >= trace.distinct());
        }
    }

    #[test]
    fn weights_are_kept_to(
        load in loads(),
        weights in proptest::collection::vec(1..50u32, 90),
        capacity in 1..200u64,
        header in 0..3u32,
    ) {
        let objects = load.iter().map(|&block| (block, weights[block as usize]));
        let trace = Trace::from_objects("test", objects);
        let bytes = match trace.object_bytes() {
            Some(bytes) => bytes.clone(),
            None => vec![trace.block_bytes().unwrap_or(1); trace.distinct() as usize].into(),
        };
        for name in PolicyName::ALL {
            let objects = Objects::weighted(bytes.clone(), header);
            prop_assert!(misses(name, capacity, &objects, &trace) as u64 >= trace.distinct());
        }
    }

    /// Equal weights are as good as none.
    #[test]
    fn the_unit_of_weight_does_not_matter(load in loads(), capacity in 100..=120u64) {
        let (trace, ones) = trace(load);
        let sevens = Objects::weighted(vec![7; trace.distinct() as usize].into(), 0);
        for name in [PolicyName::Lru, PolicyName::ListArc, PolicyName::Sieve, PolicyName::Min] {
            let misses_of_ones = misses(name, capacity, &ones, &trace);
            prop_assert_eq!(misses(name, 7 * capacity, &sevens, &trace), misses_of_ones);
        }
    }

    #[test]
    fn lru_is_a_list_with_the_last_used_in_front(load in loads(), capacity in 1..=20usize) {
        let (trace, objects) = trace(load);
        let mut lru = Lru::new(capacity as u64, &objects);
        let mut model = VecDeque::new();
        for &id in trace.ids() {
            let place = model.iter().position(|&other| other == id);
            prop_assert_eq!(lru.access(id), place.is_some());
            place.map(|place| model.remove(place));
            model.push_front(id);
            model.truncate(capacity);
        }
    }

    #[test]
    fn min_evicts_what_is_needed_last(load in loads(), capacity in 1..=20usize) {
        let (trace, objects) = trace(load);
        let mut min = Min::new(capacity as u64, &objects, &trace);
        let mut model: BTreeMap<u32, usize> = BTreeMap::new();
        for (now, &id) in trace.ids().iter().enumerate() {
            let later = trace.ids()[now + 1..].iter().position(|&other| other == id);
            let hit = model.remove(&id).is_some();
            prop_assert_eq!(min.access(id), hit);
            if !hit && model.len() == capacity {
                let last = model.iter().max_by_key(|(_, needed)| **needed).map(|(id, _)| *id);
                model.remove(&last.expect("the cache is full"));
            }
            model.insert(id, later.map_or(usize::MAX, |later| now + 1 + later));
        }
    }
}

/// What everything of it fits into misses each object once.
#[test]
fn a_cache_for_all_misses_once() {
    let (trace, objects) = trace((0..2000).map(|step| step * step % 150));
    for name in PolicyName::ALL {
        // S3-FIFO, 2Q and the like need no room either when nothing must be evicted.
        let misses = misses(name, 2 * trace.distinct(), &objects, &trace);
        assert_eq!(misses as u64, trace.distinct(), "{name}");
    }
}

/// The load for which each was made: where a policy stands out, it does so by far.
#[test]
fn policies_have_their_character() {
    let at = |name, capacity, load: Vec<u64>| {
        let (trace, objects) = trace(load);
        let misses = misses(name, capacity, &objects, &trace);
        1.0 - misses as f64 / trace.requests() as f64
    };
    // A loop a little larger than the cache: LRU never hits, LIRS nearly always.
    let looped: Vec<u64> = (0..110).cycle().take(6000).collect();
    assert_eq!(at(PolicyName::Lru, 100, looped.clone()), 0.0);
    assert!(at(PolicyName::Lirs, 100, looped.clone()) > 0.8);
    assert!(at(PolicyName::Min, 100, looped) > 0.85);
    // A hot set that is used at random, and an endless scan: ghosts keep the hot set.
    let mut random = 1u64;
    let scanned: Vec<u64> = (0..20_000)
        .map(|step| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if step % 2 == 0 { 1000 + step } else { (random >> 33) % 50 }
        })
        .collect();
    let lru = at(PolicyName::Lru, 64, scanned.clone());
    for name in [PolicyName::ListArc, PolicyName::Car, PolicyName::TwoQ, PolicyName::Arc] {
        let hits = at(name, 64, scanned.clone());
        println!("{name} {hits} lru {lru}");
        assert!(hits > lru + 0.2, "{name}: {hits:.3}, lru {lru:.3}");
    }
}

/// Figure 4, by hand. Capacity 3; the lists after each step stand beside it, oldest first.
#[test]
fn the_target_of_arc_follows_ghost_hits() {
    let steps = [
        (0, 0.0), // T1 0
        (0, 0.0), // T2 0
        (1, 0.0), // T1 1, T2 0
        (1, 0.0), // T2 0 1
        (2, 0.0), // T1 2, T2 0 1
        (3, 0.0), // T1 3, B1 2, T2 0 1
        (2, 1.0), // T1 3, T2 1 2, B2 0: a hit in B1; T1 does not exceed its target
        (4, 1.0), // T1 3 4, T2 2, B2 0 1
        (0, 0.0), // a hit in B2; B1 is empty
    ];
    let (trace, objects) = trace(steps.map(|(block, _)| block));
    let mut arc = ListArc::new(3, &objects);
    for (index, &id) in trace.ids().iter().enumerate() {
        arc.access(id);
        assert_eq!(arc.target(), steps[index].1, "step {index}");
    }
}

#[test]
fn policies_are_named() {
    for name in PolicyName::ALL {
        assert_eq!(name.name().parse(), Ok(name));
    }
    let error = "fifo".parse::<PolicyName>().expect_err("there is none").to_string();
    assert!(error.contains("`fifo`") && error.contains("w-tinylfu"), "{error}");
}

#[test]
#[should_panic(expected = "not those of the trace")]
fn min_wants_its_own_trace() {
    let (trace, objects) = trace([1, 2]);
    Min::new(1, &objects, &trace).access(1);
}

#[test]
fn how_records_are_found_makes_no_difference() {
    let objects = Objects::uniform(5000);
    let mut random = storage::Random::new(3);
    let mut dense = Shipped::<arc::DenseIndex>::new(arc::PolicyKind::Arc, 700, &objects, false);
    let mut hashed = Shipped::<arc::HashIndex>::new(arc::PolicyKind::Arc, 700, &objects, false);
    for _ in 0..100_000 {
        // Some of them again and again.
        let below = if random.below(3) == 0 { 5000 } else { 900 };
        let id = random.below(below) as u32;
        assert_eq!(dense.access(id), hashed.access(id));
    }
    assert_eq!(dense.resident_weight(), hashed.resident_weight());
    assert_eq!((dense.validate(), hashed.validate()), (Ok(()), Ok(())));
}
