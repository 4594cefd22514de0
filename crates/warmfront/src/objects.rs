use std::sync::Arc;
use std::sync::atomic::Ordering;

use hashbrown::HashMap;
use parking_lot::RwLock;
use storage::ObjectId;

use crate::object::Object;

const SHARDS: usize = 16;

/// The objects in use, by id.
#[derive(Debug)]
pub(crate) struct Objects {
    shards: [RwLock<HashMap<u64, Arc<Object>>>; SHARDS],
}

impl Default for Objects {
    fn default() -> Objects {
        Objects { shards: std::array::from_fn(|_| RwLock::default()) }
    }
}

impl Objects {
    fn shard(&self, id: ObjectId) -> &RwLock<HashMap<u64, Arc<Object>>> {
        &self.shards[(id.0 ^ id.0 >> 32) as usize % SHARDS]
    }

    /// The object, if it is in use.
    pub(crate) fn get(&self, id: ObjectId) -> Option<Arc<Object>> {
        self.shard(id).read().get(&id.0).cloned()
    }

    /// The object with one more use, if it is in use already.
    pub(crate) fn get_used(&self, id: ObjectId) -> Option<Arc<Object>> {
        let shard = self.shard(id).read();
        let object = shard.get(&id.0)?;
        object.uses.fetch_add(1, Ordering::Relaxed);
        Some(object.clone())
    }

    /// The object with one more use; made by `make` if it is not in use. Returns whether it was
    /// made.
    pub(crate) fn get_or_make(
        &self,
        id: ObjectId,
        make: impl FnOnce() -> Object,
    ) -> (Arc<Object>, bool) {
        let mut shard = self.shard(id).write();
        let mut made = false;
        let object = shard.entry(id.0).or_insert_with(|| {
            made = true;
            Arc::new(make())
        });
        object.uses.fetch_add(1, Ordering::Relaxed);
        (object.clone(), made)
    }

    /// Does something while the object is not in use, and does not come into use; `None` if it is.
    pub(crate) fn unless_used<T>(&self, id: ObjectId, act: impl FnOnce() -> T) -> Option<T> {
        let shard = self.shard(id).read();
        (!shard.contains_key(&id.0)).then(act)
    }

    /// Takes `count` uses away. Returns the object when that was the last one; it is then out of
    /// the table.
    pub(crate) fn release(&self, id: ObjectId, count: u64) -> Option<Arc<Object>> {
        let mut shard = self.shard(id).write();
        let object = shard.get(&id.0)?;
        let uses = object.uses.load(Ordering::Relaxed);
        // A kernel that forgets more than it was given is wrong, but must not bring us down.
        let left = uses.saturating_sub(count);
        object.uses.store(left, Ordering::Relaxed);
        if left == 0 { shard.remove(&id.0) } else { None }
    }

    /// All objects in use at some moment during the call.
    pub(crate) fn all(&self) -> Vec<Arc<Object>> {
        self.shards
            .iter()
            .flat_map(|shard| shard.read().values().cloned().collect::<Vec<_>>())
            .collect()
    }

    /// Number of objects in use.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }
}
