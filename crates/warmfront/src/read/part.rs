use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;

use arc::PAGE_BYTES;

use super::UnderWay;
use crate::counters::Counter;
use crate::error::Result;
use crate::file::OpenFile;
use crate::object::{Layout, Tenant};
use crate::pool::Pool;
use crate::property::CacheLevel;
use crate::record::{Pieces, Record};
use crate::version::StaleBy;

impl OpenFile {
    /// Whether `range` is less than a record and lies in records that are too large to be kept: the
    /// rest of them would be fetched for nobody. With a cache device they are fetched whole, since
    /// it may have them; so are those with changes that the origin does not have yet.
    pub(super) fn is_part_only(
        &self,
        tenant: &Tenant,
        layout: &Layout,
        range: &Range<u64>,
    ) -> bool {
        let cache = &self.pool.memory.cache;
        let mut records = layout.records(range.clone());
        range.end - range.start < layout.record_bytes
            && !records.is_empty()
            && !self.object.dirty.is_dirty()
            && records.all(|number| {
                let record = layout.record_range(number);
                self.pool.is_never_kept(record.end - record.start, tenant)
                    && cache.locate(&self.key(layout, number)).is_none()
            })
    }

    /// The bytes of `range` from the origin, in whole pages and nothing else. They are not kept.
    pub(super) async fn part(
        &self,
        tenant: &Tenant,
        layout: &Layout,
        range: Range<u64>,
    ) -> Result<Pieces> {
        let records = layout.records(range.clone());
        tenant.counters.add(Counter::DemandDataMisses, records.end - records.start);
        tenant.counters.add(Counter::UncachedTooLarge, records.end - records.start);
        self.sample(tenant, layout, records);
        let page = PAGE_BYTES as u64;
        let pages = range.start / page * page..range.end.next_multiple_of(page).min(layout.size);
        let wanted = (pages.end - pages.start) as usize;
        let memory = &self.pool.memory;
        let mut record = Record::with_capacity(&memory.arena, wanted)?;
        let _charged = memory.charge(record.charged_bytes() as u64);
        let _demand = UnderWay::new(&self.pool.demand_fetches);
        let mut buffers = [IoSliceMut::new(record.buffer_mut())];
        let count = self.read_origin(pages.start, &mut buffers).await?;
        if count < wanted {
            self.object.update(|version| version.expire(StaleBy::Attributes));
        }
        record.set_length(count.min(wanted));
        let mut pieces = Pieces::default();
        let [from, to] = [range.start, range.end].map(|offset| (offset - pages.start) as usize);
        pieces.push(Arc::new(record), from..to);
        Ok(pieces)
    }
}

impl Pool {
    /// Whether nothing keeps a record of so many bytes because of its size.
    pub(crate) fn is_never_kept(&self, bytes: u64, tenant: &Tenant) -> bool {
        tenant.promotes()
            && tenant.properties().primarycache == CacheLevel::All
            && !self.flash.is_in_use()
            && self.is_too_large(bytes, tenant)
    }
}
