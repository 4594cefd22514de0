//! [`Hits`]: hits by tenant and list, counted without a line that several threads write.

use std::sync::OnceLock;

use crate::list::List;
use crate::place::Place;
use crate::sync::{AtomicU64, Relaxed, SLOTS, own_slot};
use crate::tenant::{TENANTS_MAX, Usage};

/// Each thread counts in a stripe of its own; threads that have no slot share one. The sums are
/// those of all stripes.
#[derive(Debug)]
pub(crate) struct Hits {
    own: [OnceLock<Box<Stripe>>; SLOTS],
    shared: Stripe,
}

/// Counts of tenants: of the first few, which are found at once, and of the others in blocks, each
/// twice as large as what stands before it. A block is made when one of its tenants is first
/// counted.
#[derive(Debug, Default)]
struct Stripe {
    first: [Counts; FIRST],
    blocks: [OnceLock<Box<[Counts]>>; BLOCKS],
}

/// Tenants that need no block.
const FIRST: usize = 8;

const BLOCKS: usize = (TENANTS_MAX / FIRST as u32).ilog2() as usize;

/// Hits of one tenant in one stripe, by the number of the list; one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counts([AtomicU64; Place::LISTS]);

/// First reads after a prefetch are counted under this number, which no list has.
const FIRST_READS: usize = Place::LISTS - 1;

impl Hits {
    pub fn new() -> Self {
        Self { own: [const { OnceLock::new() }; SLOTS], shared: Stripe::default() }
    }

    /// Counts a hit on a record that stands at `place`.
    #[inline(always)]
    pub fn count(&self, tenant: u32, place: Place, first_after_prefetch: bool) {
        if let Some(own) = own_slot().and_then(|slot| self.own[slot].get())
            && let Some(counts) = own.first.get(tenant as usize)
            && !first_after_prefetch
        {
            add_alone(&counts.0[place.list_number()]);
        } else {
            self.count_slowly(tenant, place, first_after_prefetch);
        }
    }

    #[inline(never)]
    fn count_slowly(&self, tenant: u32, place: Place, first_after_prefetch: bool) {
        if let Some(slot) = own_slot() {
            let counts = self.own[slot].get_or_init(Box::default).counts(tenant);
            counts.add(place, first_after_prefetch, add_alone);
        } else {
            let add = |count: &AtomicU64| _ = count.fetch_add(1, Relaxed);
            self.shared.counts(tenant).add(place, first_after_prefetch, add);
        }
    }

    /// Adds the hits of one tenant to its usage.
    pub fn add_to(&self, tenant: u32, usage: &mut Usage) {
        self.stripes().filter_map(|stripe| stripe.get(tenant)).for_each(|at| at.add_to(usage));
    }

    /// Adds the hits of all tenants to the usage of all.
    pub fn add_all_to(&self, usage: &mut Usage) {
        self.stripes().flat_map(Stripe::iter).for_each(|at| at.add_to(usage));
    }

    /// Memory of the stripes, bytes.
    pub fn bytes(&self) -> u64 {
        let counts = |stripe: &Stripe| (stripe.iter().count() - FIRST) * size_of::<Counts>();
        self.stripes().map(|stripe| (size_of::<Stripe>() + counts(stripe)) as u64).sum()
    }

    fn stripes(&self) -> impl Iterator<Item = &Stripe> {
        self.own.iter().filter_map(OnceLock::get).map(|stripe| &**stripe).chain([&self.shared])
    }
}

/// Adds one where nobody else writes, so that no locked operation is needed.
#[inline]
fn add_alone(count: &AtomicU64) {
    count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
}

impl Stripe {
    /// The counts of a tenant, which are made if need be.
    #[inline]
    fn counts(&self, tenant: u32) -> &Counts {
        match self.first.get(tenant as usize) {
            Some(counts) => counts,
            None => {
                let (block, place) = place(tenant);
                let make = || (0..FIRST << block).map(|_| Counts::default()).collect();
                &self.blocks[block].get_or_init(make)[place]
            }
        }
    }

    fn get(&self, tenant: u32) -> Option<&Counts> {
        self.first.get(tenant as usize).or_else(|| {
            let (block, place) = place(tenant);
            self.blocks.get(block)?.get().map(|counts| &counts[place])
        })
    }

    fn iter(&self) -> impl Iterator<Item = &Counts> {
        self.first.iter().chain(self.blocks.iter().filter_map(OnceLock::get).flatten())
    }
}

impl Counts {
    fn add(&self, place: Place, first_after_prefetch: bool, add: impl Fn(&AtomicU64)) {
        add(&self.0[place.list_number()]);
        if first_after_prefetch {
            add(&self.0[FIRST_READS]);
        }
    }

    fn add_to(&self, usage: &mut Usage) {
        for (sum, list) in usage.lists.iter_mut().zip(List::ALL) {
            sum.hits += self.0[list.place_number()].load(Relaxed);
        }
        usage.prefetch_hits += self.0[FIRST_READS].load(Relaxed);
    }
}

/// The block of a tenant that is not among the first, and its place therein.
const fn place(tenant: u32) -> (usize, usize) {
    let block = (tenant / FIRST as u32).ilog2() as usize;
    (block, tenant as usize - (FIRST << block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tenant_has_a_place_of_its_own() {
        let mut next = (0, 0);
        for tenant in FIRST as u32..TENANTS_MAX {
            assert_eq!(place(tenant), next);
            let full = next.1 + 1 == FIRST << next.0;
            next = if full { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
        assert_eq!(next, (BLOCKS, 0));
    }

    #[test]
    fn all_threads_are_counted() {
        // More threads at once than there are slots, and some after others have ended.
        let (hits, threads) = (Hits::new(), SLOTS + 6);
        for _ in 0..2 {
            let all_there = std::sync::Barrier::new(threads);
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let (hits, all_there) = (&hits, &all_there);
                    scope.spawn(move || {
                        own_slot();
                        all_there.wait();
                        for count in 0..100 {
                            let place = Place::new(count % 5, List::ALL[count % 2]);
                            hits.count(thread as u32 % 3 * 7, place, count == 0);
                        }
                    });
                }
            });
        }
        let mut all = Usage::default();
        hits.add_all_to(&mut all);
        assert_eq!((all.hits(), all.prefetch_hits), (200 * threads as u64, 2 * threads as u64));
        assert_eq!(all.lists[0].hits, all.lists[1].hits);
        let mut sum = Usage::default();
        [0, 7, 14].into_iter().for_each(|tenant| hits.add_to(tenant, &mut sum));
        assert_eq!(sum, all);
        for tenant in [1, TENANTS_MAX - 1, u32::MAX] {
            hits.add_to(tenant, &mut sum);
        }
        assert_eq!(sum, all, "a tenant that was never counted has no hits");
        assert!(hits.bytes() > 0);
    }
}
