use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use l2arc::Refused;

/// Declares the counters once: variant, name as printed, meaning.
macro_rules! counters {
    ($($(#[doc = $help:literal])+ $variant:ident = $name:literal,)+) => {
        /// What is counted for each dataset. Names are those of OpenZFS's arcstats where the
        /// meaning is equal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Counter {
            $($(#[doc = $help])+ $variant,)+
        }

        /// Name and meaning of each counter, in the order in which they are counted.
        ///
        /// ```
        /// let (name, meaning) = warmfront::COUNTERS[0];
        /// assert_eq!(name, "demand_data_hits");
        /// assert!(meaning.contains("found in RAM"), "{meaning}");
        /// ```
        pub const COUNTERS: &[(&str, &str)] = &[$(($name, concat!($($help,)+)),)+];
    };
}

counters! {
    /// Records of contents that a read found in RAM.
    DemandDataHits = "demand_data_hits",
    /// Records of contents that a read found being fetched already.
    DemandDataIohits = "demand_data_iohits",
    /// Records of contents that a read had to fetch.
    DemandDataMisses = "demand_data_misses",
    /// Records of contents that a read found in RAM and that nobody had read before: read-ahead or
    /// priming had brought them, or the start. They are in demand_data_hits too.
    DemandDataHitsAhead = "demand_data_hits_ahead",
    /// Metadata answers given from RAM.
    DemandMetadataHits = "demand_metadata_hits",
    /// Metadata answers that the origin had to give.
    DemandMetadataMisses = "demand_metadata_misses",
    /// Records that the prefetcher wanted and found in RAM.
    PrefetchDataHits = "prefetch_data_hits",
    /// Records that the prefetcher wanted and found being fetched already.
    PrefetchDataIohits = "prefetch_data_iohits",
    /// Records that the prefetcher fetched.
    PrefetchDataMisses = "prefetch_data_misses",
    /// Metadata answers that the prefetcher wanted and found in RAM.
    PrefetchMetadataHits = "prefetch_metadata_hits",
    /// Metadata answers that the prefetcher fetched.
    PrefetchMetadataMisses = "prefetch_metadata_misses",
    /// Records fetched by priming.
    PrimedRecords = "primed_records",
    /// Reads of contents that were answered.
    ReadCalls = "read_calls",
    /// Bytes of contents returned to readers.
    ReadBytes = "read_bytes",
    /// Writes of contents that were taken.
    WriteCalls = "write_calls",
    /// Bytes of contents taken from writers.
    WrittenBytes = "written_bytes",
    /// Records not kept because of primarycache.
    UncachedPrimarycache = "uncached_primarycache",
    /// Records not kept because they are larger than their share of the ceiling.
    UncachedTooLarge = "uncached_too_large",
    /// Names, attributes, listings and other answers not kept because they are larger than their
    /// share of the ceiling, or because there was no room.
    UncachedMetadata = "uncached_metadata",
    /// Records not kept because of promote=off.
    UncachedPromote = "uncached_promote",
    /// Records not kept because their reader is in a control group that does not promote.
    UncachedCgroup = "uncached_cgroup",
    /// Hits that did not count as use, because of promote=off or the reader's control group.
    UnpromotedHits = "unpromoted_hits",
    /// Records let go behind a stream because of freebehind.
    FreebehindDropped = "freebehind_dropped",
    /// Versions of objects dropped because they changed behind our back.
    CoherenceDropped = "coherence_dropped",
    /// Records dropped because a write through this pool replaced them.
    WriteDropped = "write_dropped",
    /// Records that were missing in RAM and came from flash.
    FlashHits = "l2_hits",
    /// Records that were missing in RAM and did not come from flash, while there was a cache
    /// device: it had them not, or was not asked. `l2_miss_...` tell the reasons apart.
    FlashMisses = "l2_misses",
    /// Records that came back to RAM from flash at the start, before anybody asked for them.
    FlashRestored = "l2_restored",
    /// Bytes of these.
    FlashRestoredBytes = "l2_restored_bytes",
    /// Records taken in by flash.
    FlashFed = "l2_fed",
    /// Metadata answers that were missing in RAM and came from flash.
    FlashMetadataHits = "l2_metadata_hits",
    /// Metadata answers taken in by flash.
    FlashMetadataFed = "l2_metadata_fed",
    /// Attributes and names, and answers that nothing proves: they are not for flash.
    UnfedUnproven = "l2_unfed_unproven",
    /// Records not fed to flash because of secondarycache.
    UnfedSecondarycache = "l2_unfed_secondarycache",
    /// Records not fed to flash because of l2prefetch=off: they came ahead and were read once.
    UnfedPrefetch = "l2_unfed_prefetch",
    /// Records not fed to flash because of l2mfuonly=on.
    UnfedMfuonly = "l2_unfed_mfuonly",
    /// Times that a record waited until its contents were durable at the origin.
    FeedPostponed = "l2_feed_postponed",
    /// Records not fed to flash because they were gone, or changed, when it was their turn.
    UnfedGone = "l2_unfed_gone",
    /// Records that flash did not take in, for the reasons that it counts.
    UnfedRefused = "l2_unfed_refused",
    /// Records not prefetched because a writer holds the range.
    PrefetchSkippedWriter = "prefetch_skipped_writer",
    /// Records not prefetched because too many prefetches are under way.
    PrefetchSkippedBusy = "prefetch_skipped_busy",
}

/// The counters of one dataset.
#[derive(Debug)]
pub(crate) struct Counters {
    values: [AtomicU64; COUNTERS.len()],
    /// Records that flash did not take in, by reason.
    refused: [AtomicU64; Refused::ALL.len()],
    /// What other sizes would make of the reads of contents. Started when the pool has two
    /// datasets in use: until then it would be the pool's.
    pub(crate) curve: arc::Curve,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            values: [const { AtomicU64::new(0) }; COUNTERS.len()],
            refused: [const { AtomicU64::new(0) }; Refused::ALL.len()],
            curve: arc::Curve::stopped(),
        }
    }
}

impl Counters {
    /// Adds to one counter.
    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        if amount > 0 {
            self.values[counter as usize].fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Counts a record that flash did not take in. What is there already is not missing there.
    pub(crate) fn refused(&self, refused: Refused) {
        let index = Refused::ALL.iter().position(|it| *it == refused).expect("all are listed");
        self.refused[index].fetch_add(1, Ordering::Relaxed);
        self.add(Counter::UnfedRefused, u64::from(refused != Refused::Present));
    }

    /// One counter.
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize].load(Ordering::Relaxed)
    }

    /// All counters by name, with the sums that arcstats has.
    pub(crate) fn snapshot(&self) -> BTreeMap<String, u64> {
        let mut values: BTreeMap<String, u64> = COUNTERS
            .iter()
            .zip(&self.values)
            .map(|((name, _), value)| (name.to_string(), value.load(Ordering::Relaxed)))
            .collect();
        for (reason, count) in Refused::ALL.iter().zip(&self.refused) {
            let name = format!("l2_refused_{}", reason.name());
            values.insert(name, count.load(Ordering::Relaxed));
        }
        for suffix in ["hits", "iohits", "misses"] {
            let parts = ["demand_data", "demand_metadata", "prefetch_data", "prefetch_metadata"];
            let sum = parts.iter().filter_map(|part| values.get(&format!("{part}_{suffix}"))).sum();
            values.insert(suffix.to_string(), sum);
        }
        values
    }
}
