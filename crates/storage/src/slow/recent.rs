use std::collections::{HashMap, VecDeque};

/// The keys used lately, each with a value. The one that came in first is dropped first.
#[derive(Debug)]
pub(super) struct Recent<V> {
    keys_max: usize,
    values: HashMap<u64, V>,
    order: VecDeque<u64>,
}

impl<V> Recent<V> {
    pub fn new(keys_max: usize) -> Recent<V> {
        Recent { keys_max, values: HashMap::new(), order: VecDeque::new() }
    }

    /// Sets the value of a key and returns the one that it had.
    pub fn insert(&mut self, key: u64, value: V) -> Option<V> {
        let old = self.values.insert(key, value);
        if old.is_none() {
            self.order.push_back(key);
            if self.order.len() > self.keys_max
                && let Some(oldest) = self.order.pop_front()
            {
                self.values.remove(&oldest);
            }
        }
        old
    }
}
