//! The policy in lockstep with a naive model: plain vectors, every sum recounted every time. After
//! each step the lists, the ghosts, the targets, the counters and what was let go are the same.

use std::time::Duration;

use arc::{CLASS_FLOOR, Charge, Class, Evicted, Inserted, Kind, List, Offer, Options, Policy};
use arc::{PolicyKind, Queue, Usage};
use proptest::prelude::*;

const WINDOW_US: u64 = 62_500;
const TENANTS: usize = 3;

const fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

#[derive(Debug, Clone, PartialEq)]
struct Record {
    key: u64,
    value: u64,
    bytes: u64,
    tenant: u32,
    first_us: u64,
    prefetched: bool,
    /// It had been read before it was evicted and prefetched.
    returned: bool,
    referenced: bool,
    hits: u8,
    /// It was offered where it stands.
    offered: bool,
}

impl Record {
    /// The first read after it was prefetched.
    fn read_first(&mut self, now_us: u64) {
        (self.prefetched, self.referenced) = (false, self.returned);
        self.hits = u8::from(self.returned);
        self.first_us = now_us;
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Phantom {
    key: u64,
    bytes: u64,
    prefetched: bool,
}

/// Lists and ghost lists by class and queue, oldest first.
#[derive(Debug)]
struct Model {
    capacity: u64,
    header: u64,
    ghost_cost: u64,
    lists: [[Vec<Record>; 3]; 2],
    ghosts: [[Vec<Phantom>; 3]; 2],
    mru_target: [f64; 2],
    metadata_target: f64,
    /// By tenant; what stands on lists is counted when it is compared.
    usage: [Usage; TENANTS],
    /// What the current step evicted.
    evicted: Evicted,
    /// What the current step let go, keys and values.
    gone: Vec<(u64, u64)>,
}

impl Model {
    fn new(policy: &Policy<u64, u64>) -> Self {
        Self {
            capacity: policy.capacity_bytes(),
            header: policy.record_overhead(),
            ghost_cost: policy.ghost_overhead(),
            lists: Default::default(),
            ghosts: Default::default(),
            mru_target: [0.0; 2],
            metadata_target: 0.25,
            usage: Default::default(),
            evicted: Evicted::default(),
            gone: Vec::new(),
        }
    }

    fn find(&self, key: u64) -> Option<(usize, usize, usize)> {
        for class in 0..2 {
            for queue in 0..3 {
                if let Some(at) = self.lists[class][queue].iter().position(|r| r.key == key) {
                    return Some((class, queue, at));
                }
            }
        }
        None
    }

    fn live(&self, class: usize, queue: usize) -> u64 {
        self.lists[class][queue].iter().map(|record| record.bytes + self.header).sum()
    }

    fn dead(&self, class: usize, queue: usize) -> u64 {
        self.ghosts[class][queue].iter().map(|ghost| ghost.bytes + self.header).sum()
    }

    fn class(&self, class: usize) -> u64 {
        (0..3).map(|queue| self.live(class, queue)).sum()
    }

    fn ghost_memory(&self) -> u64 {
        self.ghosts.iter().flatten().map(|ghosts| ghosts.len() as u64 * self.ghost_cost).sum()
    }

    fn charged(&self) -> u64 {
        self.class(0) + self.class(1) + self.ghost_memory()
    }

    fn room(&self) -> u64 {
        self.capacity.max(self.charged()) - self.ghost_memory()
    }

    fn share(&self, class: usize) -> u64 {
        self.room() - self.class(1 - class)
    }

    fn trim(&mut self) {
        for class in 0..2 {
            while self.live(class, 0) + self.dead(class, 0) > self.share(class)
                && !self.ghosts[class][0].is_empty()
            {
                self.ghosts[class][0].remove(0);
            }
            while self.class(class) + self.dead(class, 0) + self.dead(class, 1)
                > 2 * self.share(class)
            {
                let queue = if self.ghosts[class][1].is_empty() { 0 } else { 1 };
                self.ghosts[class][queue].remove(0);
            }
        }
        loop {
            let all: u64 =
                (0..2).map(|c| self.class(c) + self.dead(c, 0) + self.dead(c, 1)).sum::<u64>();
            let bound = self.capacity.max(self.charged());
            let many = all > 2 * self.room() || self.ghost_memory() > bound / 16;
            if !many || self.ghosts.iter().flatten().all(Vec::is_empty) {
                return;
            }
            let lists = (0..2).flat_map(|class| (0..3).map(move |queue| (class, queue)));
            let (class, queue) = lists.max_by_key(|&(c, q)| self.dead(c, q)).unwrap();
            self.ghosts[class][queue].remove(0);
        }
    }

    fn evict(&mut self) {
        let uncached = (0..2).find(|&class| !self.lists[class][2].is_empty());
        if let Some(class) = uncached {
            let record = self.lists[class][2].remove(0);
            self.count_eviction(&record);
            return self.trim();
        }
        loop {
            let (data, metadata) = (self.class(0), self.class(1));
            let over = metadata as f64 > self.metadata_target * (data + metadata) as f64;
            let first = usize::from(over);
            let empty = |class: usize| self.lists[class].iter().all(Vec::is_empty);
            let class = if empty(first) { 1 - first } else { first };
            let target = self.mru_target[class] * self.share(class) as f64 * (1.0 - 1e-9);
            let from_mru = self.lists[class][1].is_empty()
                || !self.lists[class][0].is_empty() && self.live(class, 0) as f64 >= target;
            let queue = if from_mru { 0 } else { 1 };
            let mut record = self.lists[class][queue].remove(0);
            if record.referenced {
                (record.referenced, record.offered) = (false, false);
                self.lists[class][1].push(record);
                continue;
            }
            self.count_eviction(&record);
            let Record { key, bytes, prefetched, .. } = record;
            self.ghosts[class][queue].push(Phantom { key, bytes, prefetched });
            return self.trim();
        }
    }

    fn count_eviction(&mut self, record: &Record) {
        let counters = &mut self.usage[record.tenant as usize];
        counters.evictions += 1;
        counters.evicted_bytes += record.bytes;
        counters.prefetch_wasted += u64::from(record.prefetched);
        self.evicted.records += 1;
        self.evicted.bytes += record.bytes;
        self.gone.push((record.key, record.value));
    }

    /// Value, list, and whether it is the first read after a prefetch.
    fn get(&mut self, key: u64, now: Duration) -> Option<(u64, List, bool)> {
        let (class, queue, at) = self.find(key)?;
        let record = &mut self.lists[class][queue][at];
        let now = now.as_micros() as u64;
        let first = record.prefetched;
        let counters = &mut self.usage[record.tenant as usize];
        counters.lists[class * 3 + queue].hits += 1;
        counters.prefetch_hits += u64::from(first);
        if record.prefetched {
            record.read_first(now);
        } else if now - record.first_us >= WINDOW_US {
            record.referenced = true;
            record.hits = record.hits.saturating_add(1);
        }
        Some((record.value, List::ALL[class * 3 + queue], first))
    }

    fn insert(&mut self, key: u64, value: u64, charge: Charge, now: Duration) -> Option<Inserted> {
        let class = charge.class as usize;
        if charge.bytes + self.header > self.capacity / 8 {
            self.remove(key);
            return None;
        }
        if let Some((old_class, queue, at)) = self.find(key) {
            let record = &self.lists[old_class][queue][at];
            if (old_class, record.tenant) != (class, charge.tenant) {
                self.gone.push((record.key, record.value));
                self.lists[old_class][queue].remove(at);
            }
        }
        let ghost = self.recall(key, &charge);
        loop {
            let growth = match self.find(key) {
                Some((c, q, at)) => charge.bytes.saturating_sub(self.lists[c][q][at].bytes),
                None => charge.bytes + self.header,
            };
            if self.charged() + growth <= self.capacity {
                break;
            }
            self.evict();
        }
        if let Some((class, queue, ghost)) = &ghost
            && charge.kind != Kind::Prime
        {
            self.learn(*class, *queue, ghost.bytes + self.header);
        }
        let ghost = ghost.map(|(_, queue, ghost)| (queue, ghost.prefetched));
        let found = self.find(key);
        let queue = if let Some((c, q, at)) = found {
            let record = &mut self.lists[c][q][at];
            self.gone.push((key, std::mem::replace(&mut record.value, value)));
            record.bytes = charge.bytes;
            if charge.kind == Kind::Demand && record.prefetched {
                record.read_first(now.as_micros() as u64);
            }
            q
        } else {
            self.ghosts.iter_mut().flatten().for_each(|ghosts| ghosts.retain(|g| g.key != key));
            let demand = charge.kind == Kind::Demand;
            let (queue, returned) = match ghost {
                Some((1, _)) => (1, false),
                Some((_, false)) if demand => (1, false),
                Some((_, false)) => (0, true),
                _ => (0, false),
            };
            self.lists[class][queue].push(Record {
                key,
                value,
                bytes: charge.bytes,
                tenant: charge.tenant,
                first_us: now.as_micros() as u64,
                prefetched: !demand,
                returned,
                referenced: false,
                hits: 0,
                offered: false,
            });
            self.usage[charge.tenant as usize].inserts += 1;
            queue
        };
        self.trim();
        Some(Inserted {
            list: List::ALL[class * 3 + queue],
            replaced: found.is_some(),
            ghost: None,
            evicted: self.evicted,
        })
    }

    /// Takes the ghost, with its class and queue.
    fn recall(&mut self, key: u64, charge: &Charge) -> Option<(usize, usize, Phantom)> {
        for class in 0..2 {
            for queue in 0..2 {
                let Some(at) = self.ghosts[class][queue].iter().position(|g| g.key == key) else {
                    continue;
                };
                let counters = &mut self.usage[charge.tenant as usize].lists[class * 3 + queue];
                counters.ghost_hits += 1;
                counters.ghost_hit_bytes += charge.bytes;
                return Some((class, queue, self.ghosts[class][queue].remove(at)));
            }
        }
        None
    }

    /// Moves the targets after a hit on a ghost of this class and queue, which weighs `hit`.
    fn learn(&mut self, class: usize, queue: usize, hit: u64) {
        let side = |c: usize, q: usize| {
            let own = if (c, q) == (class, queue) { hit } else { 0 };
            (self.dead(c, q) + own) as f64
        };
        let hit = hit as f64;
        let (this, other) = (side(class, queue), side(class, 1 - queue));
        let step = hit * (other / this.max(1.0)).max(1.0) / self.share(class).max(1) as f64;
        let signed = if queue == 0 { step.min(1.0) } else { -step.min(1.0) };
        let this = side(class, 0) + side(class, 1);
        let other = side(1 - class, 0) + side(1 - class, 1);
        let step = hit * (other / this.max(1.0)).max(1.0) / self.room().max(1) as f64;
        let split = if class == 1 { step.min(1.0 / 32.0) } else { -(step / 5.0).min(1.0 / 32.0) };
        let target = &mut self.mru_target[class];
        *target = (*target + signed).clamp(0.0, 1.0);
        let split = self.metadata_target + split;
        self.metadata_target = split.clamp(CLASS_FLOOR, 1.0 - CLASS_FLOOR);
    }

    fn replace(&mut self, key: u64, value: u64, bytes: u64) {
        if bytes + self.header > self.capacity / 8 {
            return self.remove(key);
        }
        if self.find(key).is_some() {
            loop {
                let growth = match self.find(key) {
                    Some((c, q, at)) => bytes.saturating_sub(self.lists[c][q][at].bytes),
                    // The policy looks for room for a whole record once its own is gone.
                    None => bytes + self.header,
                };
                if self.charged() + growth <= self.capacity {
                    break;
                }
                self.evict();
            }
        }
        let Some((class, queue, at)) = self.find(key) else { return self.gone.push((key, value)) };
        let record = &mut self.lists[class][queue][at];
        self.gone.push((key, std::mem::replace(&mut record.value, value)));
        record.bytes = bytes;
        self.trim();
    }

    fn remove(&mut self, key: u64) {
        if let Some((class, queue, at)) = self.find(key) {
            self.gone.push((key, self.lists[class][queue].remove(at).value));
            self.trim();
        }
    }

    fn drop_tenant(&mut self, tenant: u32) {
        for list in self.lists.iter_mut().flatten() {
            let gone = list.extract_if(.., |record| record.tenant == tenant);
            self.gone.extend(gone.map(|record| (record.key, record.value)));
        }
        self.trim();
    }

    fn demote(&mut self, key: u64) {
        if let Some((class, queue, at)) = self.find(key) {
            let record = self.lists[class][queue].remove(at);
            self.lists[class][2].push(Record { offered: false, ..record });
        }
    }

    /// Offers records of a list, oldest first, while less than `ahead` bytes are offered.
    fn offer(&mut self, list: List, ahead: u64, records_max: usize) -> Vec<Offer<u64, u64>> {
        let mut offers = Vec::new();
        let records = &mut self.lists[list.class as usize][list.queue as usize];
        let mut before = 0;
        for record in records.iter_mut() {
            if !record.offered {
                if before >= ahead || offers.len() == records_max {
                    break;
                }
                record.offered = true;
                let &mut Record { key, value, bytes, tenant, prefetched, hits, .. } = record;
                let touches = if prefetched { 0 } else { u16::from(hits) + 1 };
                offers.push(Offer { key, value, bytes, list, touches, tenant, prefetched });
            }
            before += record.bytes;
        }
        // What was offered stands before what was not, whatever happened in between.
        assert!(records.is_sorted_by_key(|record| !record.offered));
        offers
    }

    fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.trim();
        while self.charged() > capacity && self.class(0) + self.class(1) > 0 {
            self.evict();
        }
    }

    fn compare(&self, policy: &Policy<u64, u64>) {
        policy.validate().unwrap();
        assert_eq!(policy.charged_bytes(), self.charged());
        assert!(self.charged() <= self.capacity);
        for list in List::ALL {
            let (class, queue) = (list.class as usize, list.queue as usize);
            let mine = self.lists[class][queue].iter().rev();
            let mine: Vec<_> = mine
                .map(|r| (r.key, r.bytes, r.tenant, r.prefetched, r.referenced, r.hits))
                .collect();
            let theirs: Vec<_> = policy
                .newest(list)
                .map(|(k, l)| (*k, l.bytes, l.tenant, l.prefetched, l.turns > 0, l.hits))
                .collect();
            assert_eq!(theirs, mine, "{list:?}");
            let mine: Vec<_> =
                self.ghosts[class][queue].iter().rev().map(|g| (g.bytes, g.prefetched)).collect();
            let theirs: Vec<_> =
                policy.newest_ghosts(list).map(|ghost| (ghost.bytes, ghost.prefetched)).collect();
            assert_eq!(theirs, mine, "ghosts of {list:?}");
            for ghost in &self.ghosts[class][queue] {
                assert_eq!(policy.ghost(hash(ghost.key)).map(|ghost| ghost.list), Some(list));
            }
        }
        for (tenant, mut usage) in self.usage.into_iter().enumerate() {
            for (index, records) in self.lists.iter().flatten().enumerate() {
                let mine = || records.iter().filter(|record| record.tenant as usize == tenant);
                usage.lists[index].records = mine().count() as u64;
                usage.lists[index].bytes = mine().map(|record| record.bytes).sum();
            }
            assert_eq!(policy.tenant(tenant as u32), usage, "tenant {tenant}");
        }
        for class in Class::ALL {
            let (mru, metadata) = policy.targets(0, class);
            assert!((mru - self.mru_target[class as usize]).abs() < 1e-9);
            assert!((metadata - self.metadata_target).abs() < 1e-9);
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Get(u64),
    Insert(u64, Charge),
    Replace(u64, u64),
    Remove(u64),
    Demote(u64),
    SetCapacity(u64),
    DropTenant(u32),
    Offer(List, u64, usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || prop_oneof![3 => 0..12u64, 2 => 12..80u64];
    let kind = prop_oneof![
        6 => Just(Kind::Demand),
        2 => Just(Kind::Prefetch),
        1 => Just(Kind::Prime)
    ];
    let charge = (0..1400u64, kind, 0..3u32, 0..50u8);
    let insert = (key(), charge).prop_map(|(key, (bytes, kind, tenant, odd))| {
        // Nearly always a key has one class and one tenant.
        let class = if (key % 3 == 0) != (odd == 0) { Class::Metadata } else { Class::Data };
        let tenant = if odd == 1 { tenant } else { (key % 3) as u32 };
        Step::Insert(key, Charge { bytes, class, kind, tenant })
    });
    let list = (0..List::ALL.len()).prop_map(|index| List::ALL[index]);
    let offer = (list, 1..4000u64, 0..6usize)
        .prop_map(|(list, ahead, records_max)| Step::Offer(list, ahead, records_max));
    let step = prop_oneof![
        40 => key().prop_map(Step::Get),
        40 => insert,
        5 => (key(), 0..1400u64).prop_map(|(key, bytes)| Step::Replace(key, bytes)),
        3 => key().prop_map(Step::Remove),
        3 => key().prop_map(Step::Demote),
        1 => (0..20_000u64).prop_map(Step::SetCapacity),
        1 => (0..3u32).prop_map(Step::DropTenant),
        10 => offer,
        10 => (0..100u64).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..400)
}

fn run(charge_overhead: bool, steps: Vec<Step>) {
    let options = Options { charge_overhead, policy: PolicyKind::Arc, ..Options::new(10_000) };
    let mut policy = Policy::<u64, u64>::new(&options);
    let mut model = Model::new(&policy);
    let mut now = Duration::from_secs(1);
    let mut gone = Vec::new();
    for (version, step) in (0u64..).zip(steps) {
        gone.clear();
        (model.gone, model.evicted) = Default::default();
        match step {
            Step::Get(key) => {
                let hit = policy.hit(hash(key), &key, now);
                let hit = hit.map(|hit| (hit.value, hit.list, hit.first_after_prefetch));
                assert_eq!(hit, model.get(key, now));
            }
            Step::Insert(key, charge) => {
                let ghost = policy.ghost(hash(key));
                let done = policy.insert(hash(key), key, version, charge, now, &mut gone);
                let expected = model.insert(key, version, charge, now);
                assert_eq!(done.ok(), expected.map(|inserted| Inserted { ghost, ..inserted }));
            }
            Step::Replace(key, bytes) => {
                let done = policy.replace(hash(key), &key, version, bytes, &mut gone);
                model.replace(key, version, bytes);
                assert_eq!(done == Ok(true), model.find(key).is_some());
            }
            Step::Remove(key) => {
                gone.extend(policy.remove(hash(key), &key).map(|value| (key, value)));
                model.remove(key);
            }
            Step::Demote(key) => {
                assert_eq!(policy.demote(hash(key), &key), model.find(key).is_some());
                model.demote(key);
            }
            Step::SetCapacity(capacity) => {
                let evicted = policy.set_capacity(capacity, &mut gone);
                model.set_capacity(capacity);
                assert_eq!(evicted, model.evicted);
            }
            Step::DropTenant(tenant) => {
                policy.retain(|_, location| location.tenant != tenant, &mut gone);
                model.drop_tenant(tenant);
                // In which order is not promised.
                gone.sort_unstable();
                model.gone.sort_unstable();
            }
            Step::Offer(list, ahead_bytes, records_max) => {
                let mut offers = Vec::new();
                policy.offer(list, ahead_bytes, records_max, &mut offers);
                let sized = model.lists[list.class as usize][list.queue as usize]
                    .iter()
                    .any(|record| record.bytes > 0);
                let ahead_bytes = if sized { ahead_bytes } else { 0 };
                assert_eq!(offers, model.offer(list, ahead_bytes, records_max));
            }
            Step::Wait(ms) => now += Duration::from_millis(ms),
        }
        assert_eq!(gone, model.gone);
        model.compare(&policy);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(400),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn lockstep(charge_overhead: bool, steps in steps()) {
        run(charge_overhead, steps);
    }
}

#[test]
fn queue_order_is_what_the_model_assumes() {
    assert_eq!(Queue::ALL.map(|queue| queue as usize), [0, 1, 2]);
    assert_eq!(Class::ALL.map(|class| class as usize), [0, 1]);
}
