use std::collections::BTreeSet;

use arc::{PARTITIONS_MAX, PolicyKind, Share};

use crate::memory::Records;
use crate::share::{self, ShareError, Sharer, Wanted};

/// The datasets of all pools that have a share of the ARC, each with its partition.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    holdings: Vec<Holding>,
    /// The partition of what passes by.
    passage: Option<usize>,
}

#[derive(Debug)]
struct Holding {
    pool: u32,
    /// The dataset on which the share is set.
    name: String,
    wanted: Wanted,
    partition: usize,
    /// Ids of the datasets whose records stand in the partition, also of some that are gone.
    members: BTreeSet<u32>,
}

/// The part of the ARC that a dataset uses, alone or together with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShareInForce {
    /// What is reserved and allowed at present, bytes.
    pub(crate) share: Share,
    /// What is charged to it: records, headers and ghosts, bytes.
    pub(crate) charged_bytes: u64,
}

/// What all datasets together have reserved of the ARC.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// pool.datasets().set("tank", "arcreserve", "8M")?;
/// let reserves = pool.memory().reserves();
/// assert_eq!((reserves.wanted_bytes, reserves.in_force_bytes), (8 << 20, 8 << 20));
/// pool.memory().set_ceiling_bytes(8 << 20);
/// assert!(pool.memory().reserves().in_force_bytes < 8 << 20, "there is not so much");
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserves {
    /// What their properties say, bytes.
    pub wanted_bytes: u64,
    /// What of it is in force: less while the ceiling is too small for all of it. Bytes.
    pub in_force_bytes: u64,
}

impl Shares {
    /// Whether a pool can have these shares instead of those that it has.
    ///
    /// What it has already it may keep, also while the ceiling is too small for it, and it may
    /// always ask for less.
    ///
    /// # Errors
    /// What cannot be, with the figures.
    pub(crate) fn check(
        &self,
        pool: u32,
        sharers: &[Sharer],
        ceiling_bytes: u64,
        capacity_bytes: u64,
    ) -> Result<(), ShareError> {
        share::check_alone(sharers)?;
        let others = self.holdings.iter().filter(|holding| holding.pool != pool);
        if sharers.len() > self.holdings.iter().filter(|held| held.pool == pool).count() {
            share::check_count(others.clone().count() + sharers.len())?;
        }
        let mut grows = false;
        for Sharer { name, wanted, .. } in sharers {
            let before = self.of(pool, name).map(|holding| holding.wanted);
            if before != Some(*wanted) {
                share::check_limit(name, *wanted, ceiling_bytes)?;
                let before = before.unwrap_or_default().under(ceiling_bytes);
                grows |= wanted.under(ceiling_bytes).reserve_bytes > before.reserve_bytes;
            }
        }
        if !grows {
            return Ok(());
        }
        let others = others.map(|holding| (&*holding.name, holding.wanted));
        let own = sharers.iter().map(|sharer| (&*sharer.name, sharer.wanted));
        let parts = own.chain(others).filter(|(_, wanted)| wanted.reserve.is_some());
        let parts = parts.map(|(name, wanted)| (name, wanted.under(ceiling_bytes).reserve_bytes));
        share::check_sum(parts.collect(), ceiling_bytes, capacity_bytes)
    }

    /// Gives a pool these shares instead of those that it has. What a limit then excludes is
    /// evicted before this returns.
    pub(crate) fn adopt(
        &mut self,
        pool: u32,
        sharers: Vec<Sharer>,
        cache: &Records,
        ceiling_bytes: u64,
    ) {
        let goes = |holding: &Holding| {
            holding.pool == pool && sharers.iter().all(|sharer| sharer.name != holding.name)
        };
        let (gone, kept) = self.holdings.drain(..).partition(goes);
        self.holdings = kept;
        let gone: Vec<Holding> = gone;
        for holding in &gone {
            set_share(cache, holding.partition, Share::FREE);
            // Shadows of a partition that nobody has would take their part of the memory.
            set_policy(cache, holding.partition, PolicyKind::Arc);
        }
        let mut moved = Vec::new();
        for Sharer { name, wanted, members } in sharers {
            let index = self.index_or_make(pool, name, &gone);
            self.holdings[index].wanted = wanted;
            let partition = self.holdings[index].partition;
            for member in members {
                if !self.holdings[index].members.contains(&member) {
                    self.holdings.iter_mut().for_each(|other| _ = other.members.remove(&member));
                    self.holdings[index].members.insert(member);
                    moved.push((member, partition));
                }
            }
        }
        self.put_in_force(cache, ceiling_bytes, cache.capacity_bytes());
        // What a dataset that is gone has left belongs to the share above it.
        for Holding { name, members, .. } in gone {
            for member in members {
                if moved.iter().all(|(other, _)| *other != member) {
                    moved.push((member, self.take_in(pool, &name, member)));
                }
            }
        }
        for (member, partition) in moved {
            assign(cache, member, partition);
        }
    }

    /// Makes the partition of what passes by, for a member that stands for all of it.
    pub(crate) fn open_passage(&mut self, member: u32, cache: &Records, ceiling_bytes: u64) {
        let partition = self.free_partition(&[]);
        self.passage = Some(partition);
        set_share(cache, partition, share::passage(ceiling_bytes));
        // It is read in one go: nothing is to be learned there.
        set_policy(cache, partition, PolicyKind::Arc);
        assign(cache, member, partition);
    }

    /// Works out all shares anew under a ceiling that leaves the cache so many bytes, which must
    /// not be more than it has.
    ///
    /// Where all reserves together exceed the capacity, each is cut in proportion.
    pub(crate) fn put_in_force(&self, cache: &Records, ceiling_bytes: u64, capacity_bytes: u64) {
        let share = |holding: &Holding| holding.wanted.under(ceiling_bytes);
        let reserved: u128 =
            self.holdings.iter().map(|holding| u128::from(share(holding).reserve_bytes)).sum();
        let mut wanted: Vec<(usize, Share)> = self
            .holdings
            .iter()
            .map(|holding| {
                let mut share = share(holding);
                if reserved > u128::from(capacity_bytes) {
                    let part = u128::from(share.reserve_bytes) * u128::from(capacity_bytes);
                    share.reserve_bytes = (part / reserved) as u64;
                }
                (holding.partition, share)
            })
            .collect();
        for Holding { partition, wanted, .. } in &self.holdings {
            set_policy(cache, *partition, wanted.policy);
        }
        wanted.extend(self.passage.map(|partition| (partition, share::passage(ceiling_bytes))));
        // Those that give come first, so that the sum never exceeds the capacity on the way.
        let now = cache.shares();
        let before = |partition: usize| now.get(partition).copied().unwrap_or(Share::FREE);
        wanted.sort_by_key(|(partition, share)| {
            share.reserve_bytes > before(*partition).reserve_bytes
        });
        for (partition, share) in wanted {
            if partition >= now.len() || share != before(partition) {
                set_share(cache, partition, share);
            }
        }
    }

    /// All reserves, under a ceiling.
    pub(crate) fn reserves(&self, cache: &Records, ceiling_bytes: u64) -> Reserves {
        let now = cache.shares();
        let in_force =
            |holding: &Holding| now.get(holding.partition).map_or(0, |s| s.reserve_bytes);
        let wanted = |holding: &Holding| holding.wanted.under(ceiling_bytes).reserve_bytes;
        Reserves {
            wanted_bytes: self.holdings.iter().map(wanted).fold(0, u64::saturating_add),
            in_force_bytes: self.holdings.iter().map(in_force).sum(),
        }
    }

    /// The share that is set on a dataset, as it is in force.
    pub(crate) fn in_force(&self, pool: u32, name: &str, cache: &Records) -> Option<ShareInForce> {
        let partition = self.of(pool, name)?.partition;
        let share = cache.shares().get(partition).copied().unwrap_or(Share::FREE);
        Some(ShareInForce { share, charged_bytes: cache.charged_to(partition) })
    }

    /// The partition in which a dataset's records stand.
    pub(crate) fn partition(&self, member: u32) -> usize {
        let holding = self.holdings.iter().find(|holding| holding.members.contains(&member));
        holding.map_or(0, |holding| holding.partition)
    }

    /// The limit that holds for a dataset: its own, or that of the share that it uses.
    pub(crate) fn limit_bytes(&self, member: u32, cache: &Records) -> u64 {
        let holding = self.holdings.iter().find(|holding| holding.members.contains(&member));
        holding
            .and_then(|holding| cache.shares().get(holding.partition).copied())
            .map_or(u64::MAX, |share| share.limit_bytes)
    }

    /// Checks that nobody has two shares, and that no two have the same partition.
    ///
    /// # Errors
    /// What does not fit.
    pub(crate) fn validate(&self, cache: &Records) -> Result<(), String> {
        let known = cache.shares().len();
        let (mut partitions, mut members) = (BTreeSet::from([0]), BTreeSet::new());
        partitions.extend(self.passage);
        for Holding { name, partition, members: own, .. } in &self.holdings {
            if !partitions.insert(*partition) || *partition >= known {
                return Err(format!(
                    "{name} has partition {partition}, of {known}, not for itself"
                ));
            }
            if let Some(member) = own.iter().find(|member| !members.insert(**member)) {
                return Err(format!("dataset {member} of {name} has two shares"));
            }
        }
        Ok(())
    }

    fn of(&self, pool: u32, name: &str) -> Option<&Holding> {
        self.holdings.iter().find(|holding| holding.pool == pool && holding.name == name)
    }

    /// A partition that nobody has. Those of `leaving` still hold records, and are taken only if
    /// there are no others.
    fn free_partition(&self, leaving: &[Holding]) -> usize {
        let has = |holdings: &[Holding], partition: usize| {
            holdings.iter().any(|holding| holding.partition == partition)
        };
        let is_free = |partition: &usize| {
            self.passage != Some(*partition) && !has(&self.holdings, *partition)
        };
        (1..PARTITIONS_MAX)
            .find(|partition| is_free(partition) && !has(leaving, *partition))
            .or_else(|| (1..PARTITIONS_MAX).find(is_free))
            .expect("the number of shares is checked before")
    }

    /// The holding of a dataset, made if there is none; see
    /// [`free_partition`](Shares::free_partition).
    fn index_or_make(&mut self, pool: u32, name: String, leaving: &[Holding]) -> usize {
        let known = self.holdings.iter().position(|held| held.pool == pool && held.name == name);
        known.unwrap_or_else(|| {
            let partition = self.free_partition(leaving);
            let (wanted, members) = (Wanted::default(), BTreeSet::new());
            self.holdings.push(Holding { pool, name, wanted, partition, members });
            self.holdings.len() - 1
        })
    }

    /// Puts a dataset that is gone into the nearest share above `name`, and returns the partition.
    fn take_in(&mut self, pool: u32, name: &str, member: u32) -> usize {
        let is_above = |holding: &&mut Holding| {
            let below = name.strip_prefix(&*holding.name);
            holding.pool == pool && below.is_some_and(|rest| rest.starts_with('/'))
        };
        let nearest =
            self.holdings.iter_mut().filter(is_above).max_by_key(|holding| holding.name.len());
        nearest.map_or(0, |holding| {
            holding.members.insert(member);
            holding.partition
        })
    }
}

fn assign(cache: &Records, member: u32, partition: usize) {
    if let Err(error) = cache.assign(member, partition) {
        tracing::warn!(dataset = member, %error, "a dataset is without its share");
    }
}

fn set_policy(cache: &Records, partition: usize, policy: PolicyKind) {
    if let Err(error) = cache.set_policy(partition, policy) {
        tracing::error!(partition, %error, "the policy of a dataset is not in force");
    }
}

fn set_share(cache: &Records, partition: usize, share: Share) {
    if let Err(error) = cache.set_share(partition, share) {
        tracing::error!(partition, %error, "a share is not as it should be");
    }
}
