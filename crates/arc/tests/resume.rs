//! A cache that goes on where another ended.

use std::hash::{BuildHasher, DefaultHasher, Hasher};
use std::time::Duration;

use arc::{
    Cache, Charge, Class, Kind, List, Location, Moment, Options, PolicyKind, Queue, Remembered,
    Setting, Share, Standing, Targets,
};

type Numbers = Cache<u64, u64, Seeded>;

/// Hashes that follow from a seed.
#[derive(Debug)]
struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

const RECORD_BYTES: u64 = 1000;
const GHOSTS_MAX: usize = 1 << 20;

fn cache(policy: PolicyKind, shards: usize) -> Numbers {
    let options = Options { policy, shards: Some(shards), ..Options::new(8 << 20) };
    Cache::with_hasher(&options, Seeded(7))
}

fn charge(kind: Kind) -> Charge {
    Charge { bytes: RECORD_BYTES, class: Class::Data, kind, tenant: 0 }
}

/// A cache under a load that reads some keys again and again, and many once.
struct Load {
    cache: Numbers,
    now: Duration,
}

impl Load {
    fn new(policy: PolicyKind, shards: usize) -> Load {
        Load { cache: cache(policy, shards), now: Duration::from_secs(1) }
    }

    fn read(&mut self, key: u64) {
        self.now += Duration::from_millis(100);
        if self.cache.get(&key, self.now).is_none() {
            self.cache.insert(key, key, charge(Kind::Demand), self.now).expect("it has room");
        }
    }

    fn run(mut self, reads: u64) -> Numbers {
        for at in 0..reads {
            // Few of them often, most seldom.
            let draw = (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as f64 / 2f64.powi(32);
            self.read((draw.powi(3) * 20_000.0) as u64);
            self.read(100_000 + at);
        }
        self.cache
    }
}

/// Lets another cache go on, as a start does: the hottest come first.
fn go_on(from: &Numbers, to: &Numbers) -> Moment {
    let moment = to.moment();
    to.set_targets(0, &from.targets(0));
    to.remember(0, &from.remembered(0, GHOSTS_MAX), &moment);
    let hot = from.by_heat();
    let now = Duration::from_secs(1);
    let room = to.capacity_bytes() / 16 * 15;
    for (key, at) in &hot {
        if to.charged_bytes() < room {
            to.insert(*key, *key, charge(Kind::Prime), now).expect("it has room");
            if at.list.queue == Queue::Mfu {
                assert!(to.promote(key));
            }
        }
    }
    for (key, at) in hot.iter().rev() {
        to.resume(key, &Standing::from(at), &moment);
    }
    to.validate().expect("the books are right");
    moment
}

fn list(cache: &Numbers, queue: Queue) -> Vec<(u64, Location)> {
    let list = List::new(Class::Data, queue);
    let all = cache.by_heat().into_iter();
    all.filter(|(_, location)| location.list == list).collect()
}

#[test]
fn records_stand_where_they_stood() {
    for policy in PolicyKind::ALL {
        let from = Load::new(policy, 1).run(9000);
        let to = cache(policy, 1);
        go_on(&from, &to);
        let [mut frequent, mut recent] = [0, 0];
        for queue in [Queue::Mfu, Queue::Mru] {
            let there = list(&to, queue);
            let here: Vec<(u64, Location)> =
                list(&from, queue).into_iter().filter(|(key, _)| to.contains(key)).collect();
            assert_eq!(there.len(), here.len(), "{policy:?} {queue:?}");
            for ((key, was), (other, is)) in here.iter().zip(&there) {
                assert_eq!((key, was.turns, was.prefetched), (other, is.turns, is.prefetched));
            }
            match queue {
                Queue::Mfu => frequent = there.len(),
                _ => recent = there.len(),
            }
        }
        let all = from.by_heat().len();
        assert!(frequent > 100 && (frequent + recent) * 10 > all * 9, "{frequent} {recent} {all}");
        // Ages stay in proportion, although as much has come in since as has come back.
        let age = |cache: &Numbers, key: u64| cache.locate(&key).expect("it is there").age;
        let came_back = to.by_heat().len() as u64;
        for (key, _) in list(&to, Queue::Mfu) {
            let (was, is) = (age(&from, key), age(&to, key));
            assert!((was..=was + 2 * came_back).contains(&is), "{policy:?} {key}: {was} {is}");
        }
    }
}

#[test]
fn ghosts_come_back_and_go_to_mfu_when_they_are_missed() {
    for shards in [1, 4, 16] {
        let from = Load::new(PolicyKind::Arc, 4).run(9000);
        let to = cache(PolicyKind::Arc, shards);
        let moment = go_on(&from, &to);
        let before = from.statistics();
        let [was, is] = [&before, &to.statistics()]
            .map(|all| all.ghosts.iter().map(|ghosts| ghosts.ghosts).sum::<u64>());
        assert!(was > 400 && is * 10 > was * 9, "{is} of {was} ghosts");
        assert!((to.targets(0).mru[0] - from.targets(0).mru[0]).abs() < 1e-9);
        // Of a key that lies in no cache: as if it had been read and evicted.
        let ghosts = from.remembered(0, GHOSTS_MAX);
        let missed = (0..200_000_u64)
            .filter(|key| from.ghost(key).is_some() && to.ghost(key).is_some())
            .take(200)
            .collect::<Vec<u64>>();
        assert_eq!(missed.len(), 200);
        for key in missed {
            let told = ghosts.iter().find(|ghost| ghost.hash == from.hash(&key));
            let ghost = to.ghost(&key);
            let Some(ghost) = ghost else { continue };
            assert_eq!(told.map(|told| (told.bytes, told.list)), Some((ghost.bytes, ghost.list)));
            let inserted =
                to.insert(key, key, charge(Kind::Demand), Duration::from_secs(2)).expect("room");
            assert_eq!(inserted.list.queue, Queue::Mfu, "{shards} shards");
        }
        to.validate().expect("the books are right");
        // A second time they are known already, or resident.
        to.remember(0, &ghosts, &moment);
        to.validate().expect("the books are right");
    }
}

#[test]
fn a_ghost_that_was_used_later_than_mfus_oldest_goes_there_under_auto() {
    let from = Load::new(PolicyKind::Auto, 4).run(20_000);
    let setting = from.targets(0).setting.expect("it has one");
    assert_ne!(setting, Setting::Recency, "the load is one of frequency");
    let to = cache(PolicyKind::Auto, 4);
    go_on(&from, &to);
    assert_eq!(to.targets(0).setting, Some(setting));
    let missed: Vec<u64> = (0..20_000).filter(|key| from.ghost(key).is_some()).collect();
    let to_mfu = |cache: &Numbers| {
        let now = Duration::from_secs(5000);
        let queue = |key| cache.insert(key, key, charge(Kind::Demand), now).map(|it| it.list.queue);
        let fates = missed.iter().map(|key| queue(*key).expect("it has room"));
        fates.filter(|queue| *queue == Queue::Mfu).count()
    };
    let (would_have, have) = (to_mfu(&from), to_mfu(&to));
    assert!(would_have * 10 > missed.len(), "{would_have} of {}", missed.len());
    assert!(have.abs_diff(would_have) * 10 < would_have, "{have}, not {would_have}");
}

#[test]
fn a_use_in_between_comes_on_top() {
    let from = Load::new(PolicyKind::Arc, 1).run(1000);
    let to = cache(PolicyKind::Arc, 1);
    let moment = to.moment();
    let standing = |queue, unread| Standing { queue, turns: 0, unread, age: 5 };
    let now = Duration::from_secs(1);
    let later = Duration::from_secs(2);
    for key in 0..4 {
        to.insert(key, key, charge(Kind::Prime), now).expect("it has room");
    }
    assert!(to.get(&0, later).is_some() && to.get(&1, later).is_some());
    assert!(to.resume(&0, &standing(Queue::Mru, false), &moment));
    assert!(to.resume(&1, &standing(Queue::Mfu, true), &moment));
    assert!(to.resume(&2, &standing(Queue::Mru, true), &moment));
    assert!(to.resume(&3, &standing(Queue::Mfu, false), &moment));
    assert!(!to.resume(&4, &standing(Queue::Mfu, false), &moment) && !to.promote(&4));
    let at = |key: u64| to.locate(&key).map(|at| (at.list.queue, at.turns, at.prefetched));
    assert_eq!(at(0), Some((Queue::Mru, 1, false)), "read before, and now again");
    assert_eq!(at(1), Some((Queue::Mfu, 0, false)), "read for the first time");
    assert_eq!(at(2), Some((Queue::Mru, 0, true)));
    assert_eq!(at(3), Some((Queue::Mfu, 0, false)));
    to.validate().expect("the books are right");
    drop(from);
}

#[test]
fn the_youngest_ghosts_are_told_where_not_all_can_be() {
    let from = Load::new(PolicyKind::Arc, 4).run(9000);
    let all = from.remembered(0, GHOSTS_MAX);
    assert_eq!(all.len(), from.ghosts_len());
    let some = from.remembered(0, all.len() / 4);
    assert!((all.len() / 4..all.len() / 4 + 16).contains(&some.len()), "{}", some.len());
    let hashes: Vec<u64> = all[..all.len() / 3].iter().map(|ghost| ghost.hash).collect();
    assert!(some.iter().all(|ghost| hashes.contains(&ghost.hash)), "the youngest");
    assert_eq!(from.remembered(5, GHOSTS_MAX), [], "there is no such partition");
}

#[test]
fn nothing_that_is_told_breaks_the_books() {
    let to = cache(PolicyKind::Arc, 2);
    let share = Share { limit_bytes: 1 << 20, ..Share::FREE };
    to.set_share(1, share).expect("there is room");
    to.assign(3, 1).expect("it is there");
    assert_eq!((to.partition_of(3), to.partition_of(0)), (1, 0));
    let moment = to.moment();
    let ghost = |hash: u64, queue, bytes, age| {
        let hash = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let list = List::new(Class::Metadata, queue);
        Remembered { hash, list, bytes, prefetched: hash.is_multiple_of(2), age }
    };
    let mut ghosts: Vec<Remembered> =
        (0..100_000).map(|at| ghost(at, Queue::Mru, at, at)).collect();
    ghosts.push(ghost(7, Queue::Mfu, u64::MAX, u64::MAX));
    ghosts.push(ghost(200_000, Queue::Mfu, u64::MAX, u64::MAX));
    ghosts.push(ghost(200_001, Queue::Uncached, 5, 5));
    for partition in [0, 1, 2, 63, 64, 1000] {
        to.remember(partition, &ghosts, &moment);
        to.validate().expect("the books are right");
    }
    assert!(to.ghosts_len() > 0 && to.charged_bytes() <= to.capacity_bytes());
    assert!(to.charged_to(1) <= 1 << 20);
    for mru in [f64::NAN, f64::INFINITY, -1.0, 2.0, 0.5] {
        to.set_targets(0, &Targets { mru: [mru; 2], metadata: mru, setting: None });
        to.set_targets(9, &Targets { mru: [mru; 2], metadata: mru, setting: None });
        let Targets { mru: [fraction, _], metadata, .. } = to.targets(0);
        assert!((0.0..=1.0).contains(&fraction) && (0.0..=1.0).contains(&metadata));
        to.validate().expect("the books are right");
    }
    assert_eq!(to.targets(0).mru, [0.5; 2]);
    for key in 0..20_000 {
        to.insert(key, key, charge(Kind::Demand), Duration::ZERO).expect("it has room");
    }
    to.validate().expect("the books are right");
}

#[test]
fn with_the_same_hasher_hashes_are_the_same() {
    let options = Options::new(8 << 20);
    let mut cache: Numbers = Cache::with_hasher(&options, Seeded(1));
    let other = cache.hash(&9);
    cache.set_hasher(Seeded(7));
    assert_eq!(cache.hash(&9), self::cache(PolicyKind::Arc, 1).hash(&9));
    assert_ne!(cache.hash(&9), other);
}
