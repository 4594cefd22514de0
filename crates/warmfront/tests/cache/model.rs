//! Random calls against a map that forgets nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use warmfront::cache::Reason;

use crate::weighed;

const CAPACITY: u64 = 1 << 16;

#[derive(Debug, Clone)]
enum Call {
    Get(u64),
    Fetch(u64, u64),
    FetchFails(u64),
    Insert(u64, u64),
    Remove(u64),
    Retain(u64),
    Clear,
    Resize(u64),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let key = 0..40_u64;
    let weight = 0..9000_u64;
    let call = prop_oneof![
        8 => key.clone().prop_map(Call::Get),
        6 => (key.clone(), weight.clone()).prop_map(|(key, value)| Call::Fetch(key, value)),
        1 => key.clone().prop_map(Call::FetchFails),
        4 => (key.clone(), weight).prop_map(|(key, value)| Call::Insert(key, value)),
        2 => key.clone().prop_map(Call::Remove),
        1 => key.prop_map(Call::Retain),
        1 => Just(Call::Clear),
        1 => (0..2 * CAPACITY).prop_map(Call::Resize),
    ];
    prop::collection::vec(call, 1..200)
}

proptest! {
    /// Whatever is inside is what was put in last, and whatever has left was told once.
    #[test]
    fn the_cache_agrees_with_a_map(calls in calls(), shards in 1..4_usize) {
        let log = Arc::new(Mutex::new(Vec::new()));
        let told = log.clone();
        let cache = weighed(CAPACITY)
            .shards(shards)
            .on_departure(move |departure| told.lock().unwrap().push(departure))
            .build()
            .unwrap();
        let mut latest: HashMap<u64, u64> = HashMap::new();
        let mut inside: HashSet<u64> = HashSet::new();
        let mut capacity = CAPACITY;
        let (mut hits, mut misses) = (0, 0);
        for call in calls {
            match call {
                Call::Get(key) => {
                    let got = cache.get(&key);
                    prop_assert_eq!(got.is_some(), inside.contains(&key));
                    prop_assert!(got.is_none() || got == latest.get(&key).copied());
                    if got.is_some() { hits += 1 } else { misses += 1 }
                }
                Call::Fetch(key, value) => {
                    let had = inside.contains(&key);
                    let got = cache.get_or_fetch(&key, || Ok::<_, String>(value)).unwrap();
                    if had {
                        hits += 1;
                        prop_assert_eq!(Some(&got), latest.get(&key));
                    } else {
                        misses += 1;
                        prop_assert_eq!(got, value);
                        latest.insert(key, value);
                        inside.insert(key);
                    }
                }
                Call::FetchFails(key) => {
                    let had = inside.contains(&key);
                    prop_assert_eq!(cache.get_or_fetch(&key, || Err("no")).is_ok(), had);
                    if had { hits += 1 } else { misses += 1 }
                }
                Call::Insert(key, value) => {
                    let kept = cache.insert(key, value);
                    if let Err(not_kept) = kept {
                        prop_assert_eq!(not_kept.value, value);
                        prop_assert!(value + 300 > capacity / 8, "{}", not_kept);
                    }
                    latest.insert(key, value);
                    inside.insert(key);
                }
                Call::Remove(key) => {
                    let removed = cache.remove(&key);
                    prop_assert_eq!(removed.is_some(), inside.contains(&key));
                    prop_assert!(removed.is_none() || removed == latest.get(&key).copied());
                }
                Call::Retain(key) => {
                    let going = inside.iter().filter(|other| **other < key).count();
                    prop_assert_eq!(cache.retain(|other| *other >= key), going as u64);
                }
                Call::Clear => prop_assert_eq!(cache.clear(), inside.len() as u64),
                Call::Resize(bytes) => {
                    cache.resize(bytes);
                    capacity = bytes;
                }
            }
            for departure in log.lock().unwrap().drain(..) {
                match departure.reason {
                    // The key has its new value, or lost it in the same call.
                    Reason::Replaced => prop_assert!(inside.contains(&departure.key)),
                    Reason::Refused(_) => {
                        prop_assert!(inside.remove(&departure.key));
                        prop_assert_eq!(Some(&departure.value), latest.get(&departure.key));
                    }
                    _ => {
                        prop_assert!(inside.remove(&departure.key), "{:?}", departure);
                        prop_assert_eq!(Some(&departure.value), latest.get(&departure.key));
                    }
                }
            }
            let statistics = cache.statistics();
            prop_assert!(statistics.charged_bytes <= capacity);
            prop_assert_eq!(statistics.entries, inside.len() as u64);
            prop_assert_eq!((statistics.hits, statistics.misses), (hits, misses));
            let sum: u64 = inside.iter().map(|key| latest[key]).sum();
            prop_assert_eq!(statistics.bytes, sum);
            let keys: HashSet<u64> = cache.by_heat().map(|entry| entry.key).collect();
            prop_assert_eq!(&keys, &inside);
            prop_assert_eq!(cache.validate(), Ok(()));
        }
    }
}
