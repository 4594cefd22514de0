use std::time::Duration;

use arc::{Charge, Class, DenseIndex, HashIndex, Index, Kind, Options, PolicyKind};
use xxhash_rust::xxh3::xxh3_64;

use super::objects::Objects;
use super::{Evicting, Policy};

/// The policy that Warmfront ships, told of each request as the engine tells it.
///
/// All requests are demand reads of data by one dataset, at one time: the correlated-reference
/// window, which needs a clock that traces seldom have, is off.
/// `I` is how it finds its records: as the engine does, or by their numbers, which is quicker and
/// makes no other difference to the rules of ARC. The samples of `auto` depend on the hashes.
#[derive(Debug)]
pub struct Shipped<I = HashIndex> {
    policy: arc::Policy<u32, (), I>,
    objects: Objects,
    gone: Vec<(u32, ())>,
}

/// An index of the numbers of objects.
pub trait Numbered: Index {
    /// For so many objects.
    fn for_objects(count: usize) -> Self;

    /// The hash of an object.
    fn hash(id: u32) -> u64;
}

impl Numbered for HashIndex {
    fn for_objects(_count: usize) -> HashIndex {
        HashIndex::default()
    }

    #[inline]
    fn hash(id: u32) -> u64 {
        xxh3_64(&id.to_le_bytes())
    }
}

impl Numbered for DenseIndex {
    fn for_objects(count: usize) -> DenseIndex {
        DenseIndex::new(count)
    }

    #[inline]
    fn hash(id: u32) -> u64 {
        DenseIndex::hash(id)
    }
}

impl Shipped {
    /// What the shipped policy charges for a resident record besides its payload, bytes.
    pub fn record_overhead() -> u32 {
        arc::Policy::<u32, ()>::new(&Options::new(0)).record_overhead() as u32
    }
}

impl<I: Numbered> Shipped<I> {
    /// An empty cache. With `charge_overhead` its headers, ghosts and index are paid out of
    /// `capacity`, which is then in bytes, as the objects' weights are.
    pub fn new(
        policy: PolicyKind,
        capacity: u64,
        objects: &Objects,
        charge_overhead: bool,
    ) -> Shipped<I> {
        let options = Options {
            policy,
            correlated_window: Duration::ZERO,
            charge_overhead,
            record_share: 1,
            ..Options::new(capacity)
        };
        let index = I::for_objects(objects.count());
        let policy = arc::Policy::with_index(&options, index);
        Shipped { policy, objects: objects.clone(), gone: Vec::new() }
    }

    /// A request; what it evicts is in `gone`.
    #[inline]
    fn make(&mut self, id: u32) -> bool {
        self.gone.clear();
        let hash = I::hash(id);
        if self.policy.get(hash, &id, Duration::ZERO).is_some() {
            return true;
        }
        let bytes = self.objects.weight(id);
        let charge = Charge { bytes, class: Class::Data, kind: Kind::Demand, tenant: 0 };
        // A refusal is a miss as any other.
        let _ = self.policy.insert(hash, id, (), charge, Duration::ZERO, &mut self.gone);
        false
    }
}

impl<I: Numbered> Evicting for Shipped<I> {
    fn access_telling(&mut self, id: u32, evicted: &mut Vec<u32>) -> bool {
        let hit = self.make(id);
        evicted.extend(self.gone.drain(..).map(|(id, ())| id));
        hit
    }
}

impl<I: Numbered> Policy for Shipped<I> {
    #[inline]
    fn access(&mut self, id: u32) -> bool {
        self.make(id)
    }

    fn resident_weight(&self) -> u64 {
        self.policy.charged_bytes()
    }

    fn validate(&self) -> Result<(), String> {
        self.policy.validate()
    }
}
