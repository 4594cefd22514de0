use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use arc::{Class, List, PolicyKind, Queue, Setting, SettingStatistics, Share};
use l2arc::RingStatistics;
use serde::{Deserialize, Serialize};

use crate::pool::Pool;
use crate::shares::ShareInForce;

/// The counters of a pool, and of each of its datasets, by name.
///
/// Names are those of OpenZFS's arcstats where the meaning is equal. Sizes are bytes. Figures of
/// the ARC are of the whole ARC, which pools of one process share.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// file.read(0, 8).await?;
/// for (name, meaning) in warmfront::COUNTERS {
///     println!("{name:<28} {:>8}  {meaning}", pool.statistics().counters[*name]);
/// }
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Of the pool.
    pub counters: BTreeMap<String, u64>,
    /// Of each dataset that has been used, by its name, without those below it. Of one with
    /// `arcreserve` or `arclimit` also what these are in bytes at present, and as `arcshare_size`
    /// what is charged to it and those below it that use its share, headers and ghosts included.
    pub datasets: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Pool {
    /// All counters at this moment.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
    /// # let file = pool.open_file(found.object, READ_WRITE).await?;
    /// file.read(0, 8).await?;
    /// let statistics = pool.statistics();
    /// assert_eq!(statistics.counters["read_calls"], 1);
    /// assert_eq!(statistics.datasets["tank"]["read_bytes"], 8);
    /// # Ok(()) }) }
    /// ```
    pub fn statistics(&self) -> Statistics {
        self.statistics_with(&self.flash_statistics())
    }

    /// All counters at this moment, with those of the flash level as they have just been found.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
    /// # add_cache(&pool).await?;
    /// let flash = pool.flash_statistics();
    /// let statistics = pool.statistics_with(&flash);
    /// assert_eq!(statistics.counters["l2_hits"], flash.hits);
    /// # Ok(()) }) }
    /// ```
    pub fn statistics_with(&self, flash: &l2arc::Statistics) -> Statistics {
        let mut statistics = Statistics::default();
        for tenant in self.tenants() {
            let mut counters = tenant.counters.snapshot();
            for (name, value) in &counters {
                *statistics.counters.entry(name.clone()).or_default() += value;
            }
            counters.extend(usage(&self.memory.cache.tenant(tenant.dataset.id())));
            counters.extend(policy_counters(&self.memory.policy(tenant.dataset.id())));
            statistics.datasets.insert(tenant.dataset.name().to_string(), counters);
        }
        for dataset in self.datasets.list() {
            if let Some(held) = self.memory.share_in_force(self.number, dataset.name()) {
                let counters = statistics.datasets.entry(dataset.name().to_string()).or_default();
                counters.extend(share_counters(&held));
            }
        }
        statistics.counters.extend(self.origin_counters());
        statistics.counters.extend(self.arc_counters());
        let write_back = self.write_back_counters();
        statistics.counters.extend(write_back.map(|(name, value)| (name.to_string(), value)));
        if let Some(log) = self.log_statistics() {
            statistics.counters.extend(log_counters(&log));
        }
        if self.has_caches() {
            statistics.counters.extend(flash_counters(flash));
            self.add_flash_sums(flash, &mut statistics);
        }
        let of_datasets = statistics.datasets.values().filter_map(|all| all.get("size"));
        let of_datasets: u64 = of_datasets.sum();
        let size = statistics.counters.get("size").copied().unwrap_or(0);
        // Headers, ghosts, and what is in use for calls under way.
        let unowned = size.saturating_sub(of_datasets);
        statistics.counters.insert("size_unowned".to_string(), unowned);
        let own = self.datasets.root().dataset().id();
        statistics.counters.extend(policy_counters(&self.memory.policy(own)));
        statistics
    }

    /// What flash has of each dataset, and what of that is reserved; and the misses of flash by
    /// reason, which are all misses together.
    fn add_flash_sums(&self, flash: &l2arc::Statistics, statistics: &mut Statistics) {
        let mut unowned: BTreeMap<u16, u64> = flash.tenants.iter().copied().collect();
        for dataset in self.datasets.list() {
            let bytes = unowned.remove(&self.flash.numbers.of(dataset.name()));
            let reserve = self.reserve_on_flash_of(&dataset);
            let is_shown =
                self.flash.is_in_use() && statistics.datasets.contains_key(dataset.name());
            if bytes.is_none() && reserve.is_none() && !is_shown {
                continue;
            }
            let counters = statistics.datasets.entry(dataset.name().to_string()).or_default();
            counters.insert("l2_asize".to_string(), bytes.unwrap_or(0));
            if let Some((wanted, in_force)) = reserve {
                counters.insert("l2reserve".to_string(), in_force);
                counters.insert("l2reserve_wanted".to_string(), wanted);
            }
        }
        let counters = &mut statistics.counters;
        // Of datasets that are no more.
        counters.insert("l2_asize_unowned".to_string(), unowned.values().sum());
        let others: u64 = flash.misses.iter().map(|(_, count)| count).sum();
        let all = counters.get("l2_misses").copied().unwrap_or(0);
        // Of a miss that was counted in between the reason is not known yet.
        *counters.entry("l2_miss_absent".to_string()).or_default() += all.saturating_sub(others);
    }

    fn origin_counters(&self) -> impl Iterator<Item = (String, u64)> {
        let meter = self.metered.layer();
        [
            ("origin_reads", &meter.reads),
            ("origin_read_bytes", &meter.read_bytes),
            ("origin_writes", &meter.writes),
            ("origin_write_bytes", &meter.write_bytes),
            ("origin_metadata_calls", &meter.metadata_calls),
            ("origin_errors", &meter.errors),
        ]
        .map(|(name, value)| (name.to_string(), value.load(Ordering::Relaxed)))
        .into_iter()
    }

    fn arc_counters(&self) -> BTreeMap<String, u64> {
        let arc = self.memory.cache.statistics();
        let mut counters = usage(&arc.usage);
        let ghosts: u64 = arc.ghosts.iter().map(|ghosts| ghosts.ghosts).sum();
        let payload = arc.usage.bytes();
        let charged = self.memory.charged_bytes();
        let percent = |fraction: f64| (fraction * 100.0).round() as u64;
        let more = [
            ("c", arc.capacity_bytes),
            ("c_max", self.memory.ceiling_bytes()),
            ("size", arc.charged_bytes + charged),
            ("hdr_size", arc.charged_bytes.saturating_sub(payload)),
            ("other_size", charged),
            ("hash_elements", arc.usage.records()),
            ("ghost_elements", ghosts),
            ("objects", self.objects.len() as u64),
            ("objects_size", self.memory.remembered_bytes()),
            ("objects_max", self.memory.remembered_bytes_max()),
            ("objects_forgetting_asked", self.memory.forgetting_asked()),
            ("fetches_under_way", self.flights.len() as u64),
            ("meta_percent", percent(arc.metadata_target)),
            ("pd_percent", percent(arc.mru_target(Class::Data))),
            ("pm_percent", percent(arc.mru_target(Class::Metadata))),
            ("refused_too_large", arc.refused.too_large),
            ("refused_no_room", arc.refused.no_room),
        ];
        counters.extend(more.map(|(name, value)| (name.to_string(), value)));
        for list in List::ALL {
            let name = format!("{}_ghost_{}", queue_name(list.queue), class_name(list.class));
            if list.queue != Queue::Uncached {
                counters.insert(name, arc.ghosts(list).bytes);
            }
        }
        counters
    }
}

/// What the intent log does and holds; there are none while there is no log device. Of latencies,
/// `zil_latency_us_to_N` counts commits that took up to N microseconds and longer than the counter
/// before.
fn log_counters(log: &zil::Statistics) -> BTreeMap<String, u64> {
    let mut counters: BTreeMap<String, u64> = [
        ("zil_commits", log.commits),
        ("zil_commits_idle", log.commits_idle),
        ("zil_failures", log.failures),
        ("zil_records", log.records),
        ("zil_records_written", log.records_written),
        ("zil_data_bytes", log.data_bytes),
        ("zil_blocks", log.blocks),
        ("zil_block_bytes", log.block_bytes),
        ("zil_flushes", log.flushes),
        ("zil_full", log.full),
        ("zil_busy", log.busy),
        ("zil_size", log.ring_bytes),
        ("zil_used", log.ring_bytes.saturating_sub(log.free_bytes)),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into();
    let latencies =
        log.latencies.iter().map(|(us, count)| (format!("zil_latency_us_to_{us}"), *count));
    counters.extend(latencies);
    counters
}

/// What the flash level does and holds; there are none while there is no cache device.
fn flash_counters(flash: &l2arc::Statistics) -> BTreeMap<String, u64> {
    let of_rings = |count: fn(&RingStatistics) -> u64| flash.rings.iter().map(count).sum();
    let mut counters: BTreeMap<String, u64> = [
        ("l2_read_bytes", flash.hit_bytes),
        ("l2_admitted", flash.admitted),
        ("l2_admitted_bytes", flash.admitted_bytes),
        ("l2_stored_bytes", flash.stored_bytes),
        ("l2_killed", flash.killed + flash.objects_killed),
        ("l2_second_lives", flash.second_lives),
        ("l2_evicted_segments", flash.evicted_segments),
        ("l2_writes_error", flash.failed_writes),
        ("l2_io_error", flash.failed_reads),
        ("l2_cksum_bad", flash.damaged),
        ("l2_damaged_segments", flash.damaged_segments),
        ("l2_trimmed_bytes", flash.trimmed_bytes),
        ("l2_records", flash.records),
        ("l2_hdr_size", flash.index_bytes),
        ("l2_size", of_rings(|ring| ring.data_bytes)),
        ("l2_asize", of_rings(|ring| ring.stored_bytes)),
        ("l2_write_bytes", flash.written_bytes),
        ("l2_devices", flash.rings.len() as u64),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into();
    let misses =
        flash.misses.iter().map(|(miss, count)| (format!("l2_miss_{}", miss.name()), *count));
    counters.extend(misses);
    counters
}

/// The setting of `policy=auto` in force, counted from 1, and the share of hits in 1/1000 that each
/// has on the sample; nothing under `policy=arc`.
fn policy_counters((_, statistics): &(PolicyKind, SettingStatistics)) -> BTreeMap<String, u64> {
    let Some(in_force) = statistics.in_force else { return BTreeMap::new() };
    let mut counters = BTreeMap::from([
        ("auto_setting".to_string(), in_force as u64 + 1),
        ("auto_changes".to_string(), statistics.changes),
        ("auto_sampled".to_string(), statistics.sampled),
    ]);
    for (setting, ratio) in Setting::ALL.into_iter().zip(statistics.hit_ratios) {
        let name = format!("auto_{}_permille", setting.name());
        counters.insert(name, (ratio * 1000.0).round() as u64);
    }
    counters
}

/// What a share of the ARC is at present. There is no counter of what is not limited.
fn share_counters(held: &ShareInForce) -> BTreeMap<String, u64> {
    let Share { reserve_bytes, limit_bytes } = held.share;
    let mut counters = BTreeMap::from([
        ("arcreserve".to_string(), reserve_bytes),
        ("arcshare_size".to_string(), held.charged_bytes),
    ]);
    if limit_bytes != u64::MAX {
        counters.insert("arclimit".to_string(), limit_bytes);
    }
    counters
}

/// The name of a queue as counters and people have it.
pub(crate) fn queue_name(queue: Queue) -> &'static str {
    match queue {
        Queue::Mru => "mru",
        Queue::Mfu => "mfu",
        Queue::Uncached => "uncached",
    }
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Data => "data",
        Class::Metadata => "metadata",
    }
}

/// Sizes and hits by list, and what has come and gone.
fn usage(usage: &arc::Usage) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    let mut add = |name: String, value: u64| *counters.entry(name).or_default() += value;
    for list in List::ALL {
        let (queue, class) = (queue_name(list.queue), class_name(list.class));
        let sums = usage.list(list);
        add(format!("{queue}_hits"), sums.hits);
        add(format!("{queue}_size"), sums.bytes);
        add(format!("{queue}_{class}"), sums.bytes);
        add(format!("{class}_size"), sums.bytes);
        if list.queue != Queue::Uncached {
            add(format!("{queue}_ghost_hits"), sums.ghost_hits);
            add(format!("{queue}_ghost_hit_bytes"), sums.ghost_hit_bytes);
        }
    }
    add("size".to_string(), usage.bytes());
    add("deleted".to_string(), usage.evictions);
    add("evicted_bytes".to_string(), usage.evicted_bytes);
    add("inserted".to_string(), usage.inserts);
    add("demand_hit_prefetch".to_string(), usage.prefetch_hits);
    add("prefetch_wasted".to_string(), usage.prefetch_wasted);
    counters
}
