use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;
use indexmap::map::Entry;
use parking_lot::{Mutex, RwLock};
use storage::ObjectId;

use crate::object::Object;

const SHARDS: usize = 16;
/// Objects of a shard that one search for such as can be forgotten looks at.
const LOOKED_AT_MAX: usize = 4096;
/// Blocks of objects that have gone which are kept for those to come.
const SPARE_MAX: usize = 4096;
/// A table smaller than this is not made smaller.
const SHRUNK_MIN: usize = 1024;

/// The objects in use, by id, each shard with a clock hand that finds those not used lately.
#[derive(Debug)]
pub(crate) struct Objects {
    shards: [RwLock<Shard>; SHARDS],
    /// Objects that have gone, to be overwritten. Objects come and go in the same number while
    /// names are walked through; the answers that are kept meanwhile would settle in the holes that
    /// they leave, and the heap would grow for the next ones.
    spare: Mutex<Vec<Arc<Object>>>,
}

#[derive(Debug, Default)]
struct Shard {
    objects: IndexMap<u64, Arc<Object>, DefaultHashBuilder>,
    /// The object at which the next search begins.
    hand: usize,
}

impl Default for Objects {
    fn default() -> Objects {
        Objects { shards: std::array::from_fn(|_| RwLock::default()), spare: Mutex::default() }
    }
}

impl Objects {
    fn shard(&self, id: ObjectId) -> &RwLock<Shard> {
        &self.shards[(id.0 ^ id.0 >> 32) as usize % SHARDS]
    }

    /// The object, if it is in use.
    pub(crate) fn get(&self, id: ObjectId) -> Option<Arc<Object>> {
        let object = self.shard(id).read().objects.get(&id.0).cloned();
        object.inspect(|object| object.touch())
    }

    /// The object with one more use, if it is in use already.
    pub(crate) fn get_used(&self, id: ObjectId) -> Option<Arc<Object>> {
        let shard = self.shard(id).read();
        let object = shard.objects.get(&id.0)?;
        object.uses.fetch_add(1, Ordering::Relaxed);
        object.touch();
        Some(object.clone())
    }

    /// The object with one more use; made by `make` if it is not in use. Returns whether it was
    /// made; `None` when it was not in use and could not be made.
    ///
    /// While it is made nobody else makes it, and nobody has just seen it [go](Objects::release):
    /// what `make` finds kept of it is what was known last.
    pub(crate) fn get_or_make(
        &self,
        id: ObjectId,
        make: impl FnOnce() -> Option<Object>,
    ) -> Option<(Arc<Object>, bool)> {
        let mut shard = self.shard(id).write();
        let (object, made) = match shard.objects.entry(id.0) {
            Entry::Occupied(entry) => (entry.into_mut(), false),
            Entry::Vacant(entry) => (entry.insert(self.reuse(make()?)), true),
        };
        object.uses.fetch_add(1, Ordering::Relaxed);
        if !made {
            object.touch();
        }
        Some((object.clone(), made))
    }

    /// Does something while the object is not in use, and does not come into use; `None` if it is.
    pub(crate) fn unless_used<T>(&self, id: ObjectId, act: impl FnOnce() -> T) -> Option<T> {
        let shard = self.shard(id).read();
        (!shard.objects.contains_key(&id.0)).then(act)
    }

    /// Takes `count` uses away. Returns the object when that was the last one; it is then out of
    /// the table, and `keep` has kept what is known of it before anybody could see that.
    pub(crate) fn release(
        &self,
        id: ObjectId,
        count: u64,
        keep: impl FnOnce(&Object),
    ) -> Option<Arc<Object>> {
        let mut shard = self.shard(id).write();
        let object = shard.objects.get(&id.0)?;
        let uses = object.uses.load(Ordering::Relaxed);
        // A kernel that forgets more than it was given is wrong, but must not bring us down.
        let left = uses.saturating_sub(count);
        object.uses.store(left, Ordering::Relaxed);
        if left > 0 {
            return None;
        }
        let object = shard.objects.swap_remove(&id.0)?;
        keep(&object);
        shard.shrink();
        Some(object)
    }

    fn reuse(&self, object: Object) -> Arc<Object> {
        let Some(mut spare) = self.spare.lock().pop() else { return Arc::new(object) };
        *Arc::get_mut(&mut spare).expect("nobody else holds what is spare") = object;
        spare
    }

    /// Keeps the block of an object that has gone, unless somebody still looks at it.
    pub(crate) fn recycle(&self, mut object: Arc<Object>) {
        if Arc::get_mut(&mut object).is_none() {
            return;
        }
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_MAX {
            spare.push(object);
        }
    }

    /// Up to `count` objects that nobody has open, nobody has changed, and nobody has asked for
    /// since they were made or last looked at by this: those that can best be done without.
    pub(crate) fn unused(&self, count: usize) -> Vec<Arc<Object>> {
        let each = count.div_ceil(SHARDS);
        self.shards.iter().flat_map(|shard| shard.write().unused(each)).collect()
    }

    /// All objects in use at some moment during the call.
    pub(crate) fn all(&self) -> Vec<Arc<Object>> {
        self.shards
            .iter()
            .flat_map(|shard| shard.read().objects.values().cloned().collect::<Vec<_>>())
            .collect()
    }

    /// Number of objects in use.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().objects.len()).sum()
    }
}

impl Shard {
    fn unused(&mut self, count: usize) -> Vec<Arc<Object>> {
        let mut unused = Vec::new();
        for _ in 0..self.objects.len().min(LOOKED_AT_MAX) {
            if unused.len() == count {
                break;
            }
            self.hand = if self.hand < self.objects.len() { self.hand } else { 0 };
            let (_, object) = self.objects.get_index(self.hand).expect("the hand is in the table");
            if !object.take_touch() && object.can_be_forgotten() {
                unused.push(object.clone());
            }
            self.hand += 1;
        }
        unused
    }

    /// Gives memory back after many objects have gone.
    fn shrink(&mut self) {
        let (length, room) = (self.objects.len(), self.objects.capacity());
        if room > SHRUNK_MIN && length < room / 4 {
            self.objects.shrink_to(length * 2);
        }
    }
}
