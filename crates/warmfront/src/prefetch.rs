use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::answer::Cached;
use crate::counters::Counter;
use crate::file::OpenFile;
use crate::flight::Claim;
use crate::object::{Layout, Tenant};
use crate::property::{CacheLevel, PrefetchLevel, Properties};

/// Prefetching is cut into calls of this many bytes, which go on side by side.
const CHUNK_BYTES: u64 = 1 << 20;
/// Chunks under way in a pool; beyond, prefetching is skipped, not queued.
const CHUNKS_MAX: u64 = 64;

impl OpenFile {
    /// Tells the stream detector of a demand read, and does what it advises.
    pub(crate) fn accessed(
        self: &Arc<Self>,
        tenant: &Tenant,
        properties: &Properties,
        layout: &Layout,
        range: Range<u64>,
        waited: bool,
        now: Duration,
    ) {
        let keeps = properties.primarycache == CacheLevel::All;
        let promotes = self.promotes(properties);
        let record_bytes = Cached::data_bytes(layout.record_bytes as usize) as u64;
        let room = match promotes {
            true => u64::MAX,
            false => self.pool.memory.passing_ahead_max(record_bytes),
        };
        let distance_max = match properties.prefetch {
            PrefetchLevel::All if keeps => properties.readahead.min(room),
            _ => 0,
        };
        if range.is_empty() || (distance_max == 0 && !properties.freebehind) {
            return;
        }
        // Readers that meet here are not worth a wait: a stream tolerates a missed access.
        let Some(mut streams) = self.object.streams.try_lock() else {
            return;
        };
        let advice = streams.access(range, waited, distance_max, now);
        drop(streams);
        if let Some(behind) = advice.behind
            && properties.freebehind
            && promotes
        {
            self.free_behind(tenant, layout, behind.clone());
            self.object.streams.lock().let_go(behind);
        }
        if let Some(ahead) = advice.prefetch {
            self.prefetch(tenant, layout, ahead.start..ahead.end.min(layout.size));
        }
    }

    /// Lets the records go that a stream has left behind it.
    fn free_behind(&self, tenant: &Tenant, layout: &Layout, behind: Range<u64>) {
        // The record under the stream's end is still being read.
        let first = behind.start / layout.record_bytes;
        for number in first..behind.end / layout.record_bytes {
            if self.pool.memory.cache.remove(&self.key(layout, number)).is_some() {
                tenant.counters.add(Counter::FreebehindDropped, 1);
            }
        }
    }

    /// Starts fetching what of `range` is not cached.
    fn prefetch(self: &Arc<Self>, tenant: &Tenant, layout: &Layout, range: Range<u64>) {
        if self.pool.is_never_kept(layout.record_bytes.min(layout.size), tenant) {
            return;
        }
        let per_chunk = (CHUNK_BYTES / layout.record_bytes).max(1);
        let records = layout.records(range);
        let mut first = records.start;
        while first < records.end {
            let chunk = first..(first + per_chunk).min(records.end);
            first = chunk.end;
            if self.pool.prefetches.fetch_add(1, Ordering::Relaxed) >= CHUNKS_MAX {
                self.pool.prefetches.fetch_sub(1, Ordering::Relaxed);
                let skipped = chunk.end - chunk.start;
                tenant.counters.add(Counter::PrefetchSkippedBusy, skipped);
                continue;
            }
            let (file, layout) = (self.clone(), *layout);
            let tenant = tenant.clone().read_by(self.reader);
            self.pool.spawn.spawn(Box::pin(async move {
                // What has passed by already would be fetched again, for nobody.
                let end = (chunk.end * layout.record_bytes).min(layout.size);
                if tenant.promotes() || !file.object.streams.lock().has_passed(end) {
                    file.bring_in(&tenant, &layout, chunk, arc::Kind::Prefetch).await;
                }
                file.pool.prefetches.fetch_sub(1, Ordering::Relaxed);
            }));
        }
    }

    /// Fetches what of the records is not cached and not being fetched, unless a writer is at
    /// work there. Returns the number of records fetched. An error is left to the reader who will
    /// ask for the record.
    pub(crate) async fn bring_in(
        &self,
        tenant: &Tenant,
        layout: &Layout,
        records: Range<u64>,
        kind: arc::Kind,
    ) -> u64 {
        let bytes = records.start * layout.record_bytes..records.end * layout.record_bytes;
        let Some(_guard) = self.object.ranges.try_shared(bytes) else {
            let skipped = records.end - records.start;
            tenant.counters.add(Counter::PrefetchSkippedWriter, skipped);
            return 0;
        };
        if self.pool.layout(&self.object, layout.record_bytes) != *layout {
            return 0;
        }
        let mut leads = Vec::new();
        let (mut hits, mut joined) = (0, 0);
        for number in records {
            let key = self.key(layout, number);
            if self.pool.memory.cache.contains(&key) {
                hits += 1;
                continue;
            }
            match self.pool.flights.claim(&key) {
                Claim::Lead(lead) => leads.push((number, lead)),
                Claim::Join(_) => joined += 1,
            }
        }
        let count = leads.len() as u64;
        if matches!(kind, arc::Kind::Prefetch) {
            tenant.counters.add(Counter::PrefetchDataHits, hits);
            tenant.counters.add(Counter::PrefetchDataIohits, joined);
            tenant.counters.add(Counter::PrefetchDataMisses, count);
        }
        match self.fetch(tenant, layout, leads, kind).await {
            Ok(_) => count,
            Err(error) => {
                tracing::debug!(object = self.object.id.0, %error, "prefetch failed");
                0
            }
        }
    }
}
