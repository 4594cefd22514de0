use l2arc::{Condition, Refused};
use serde::{Deserialize, Serialize};

use crate::answer::Cached;
use crate::key::Key;
use crate::object::{Layout, Object, Tenant};
use crate::pool::Pool;
use crate::property::CacheLevel;

/// What flash has of an object.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # add_cache(&pool).await?;
/// let flash = pool.why("file".as_ref()).await?.flash.expect("there is a cache device");
/// assert_eq!((flash.secondarycache.as_str(), flash.records), ("all", 0));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyFlash {
    /// The effective `secondarycache`.
    pub secondarycache: String,
    /// Number of records that have a copy on flash.
    pub records: u64,
    /// Number of records that are neither there nor in RAM.
    pub records_nowhere: u64,
}

/// Whether a record has a copy on flash.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # add_cache(&pool).await?;
/// let why = pool.why("file".as_ref()).await?;
/// let on_flash = why.runs[0].flash.as_ref().expect("there is a cache device");
/// assert!(!on_flash.is_there);
/// println!("{}", on_flash.reason.as_deref().unwrap_or("nobody knows why"));
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnFlash {
    /// It has one.
    pub is_there: bool,
    /// Why it has none, or why that is not read.
    pub reason: Option<String>,
}

impl OnFlash {
    fn not(reason: impl Into<String>) -> OnFlash {
        OnFlash { is_there: false, reason: Some(reason.into()) }
    }
}

impl Pool {
    /// Whether record `number` of an object has a copy on flash; `None` where there is no cache
    /// device. It is asked for as the feeder would, and nothing changes by it.
    pub(super) fn on_flash(
        &self,
        object: &Object,
        layout: &Layout,
        number: u64,
        tenant: &Tenant,
    ) -> Option<OnFlash> {
        if !self.flash.is_in_use() {
            return None;
        }
        let key = Key::record(self.number, object.id, layout.generation, number);
        let condition = self.flash.level.condition_of(&key.on_flash());
        Some(match condition {
            None => OnFlash::not(self.why_not_on_flash(&key, layout, number, tenant)),
            Some(condition) => {
                let unread = match condition {
                    Condition::Recovering | Condition::Works => None,
                    Condition::Bypassed => Some("its device is left alone after failures"),
                    Condition::Void => Some("its device takes no tombstones and is not read"),
                    Condition::Stopped => Some("its device is stopped"),
                };
                OnFlash { is_there: true, reason: unread.map(str::to_string) }
            }
        })
    }

    fn why_not_on_flash(&self, key: &Key, layout: &Layout, number: u64, tenant: &Tenant) -> String {
        let properties = tenant.properties();
        if !properties.secondarycache.takes(arc::Class::Data) {
            return format!("secondarycache={} takes no contents", properties.secondarycache);
        }
        let range = layout.record_range(number);
        let length = (range.end - range.start) as usize;
        let refused = |touches| {
            let stamp = self.flash.level.stamp(key.object().0);
            let admission = self.admission(tenant, stamp, touches, arc::Class::Data);
            let would = self.flash.level.would_admit(&key.on_flash(), length, &admission);
            would.err().filter(|refused| *refused != Refused::Present)
        };
        let cache = &self.memory.cache;
        let (Some(at), Some(Cached::Data(record))) = (cache.locate(key), cache.peek(key)) else {
            return match refused(1) {
                Some(refused) => format!("would not be taken in now: {refused}"),
                None if properties.primarycache != CacheLevel::All => {
                    "is fed when it is read the next time".to_string()
                }
                None => {
                    let mut reason = "what is fed comes from RAM; it was not there, or left \
                                      before its turn came, or was overwritten on flash since"
                        .to_string();
                    if properties.l2mfuonly {
                        reason.push_str(", or was read too seldom for l2mfuonly=on");
                    }
                    if !properties.l2prefetch {
                        reason.push_str(", or was read ahead, which l2prefetch=off keeps out");
                    }
                    reason
                }
            };
        };
        let touches = if at.prefetched { 0 } else { u32::from(at.hits) + 1 };
        match at.list.queue {
            arc::Queue::Uncached => return "passes by, and is not fed".to_string(),
            arc::Queue::Mru if properties.l2mfuonly => {
                return "l2mfuonly=on: it is not on the list of what is used frequently"
                    .to_string();
            }
            _ => {}
        }
        if record.came_ahead() && touches < 2 && !properties.l2prefetch {
            return "l2prefetch=off: it was prefetched or primed, and read once at most"
                .to_string();
        }
        if self.is_being_changed(key) {
            return "is being changed".to_string();
        }
        if !self.flash.unsynced.is_durable(key.object(), record.taken()) {
            return "its contents are not known to be durable at the origin yet; it is fed after \
                    the next sync"
                .to_string();
        }
        match refused(touches) {
            Some(refused) => format!("not taken in now: {refused}"),
            None => "its turn has not come: it is fed near the end of its list".to_string(),
        }
    }
}
