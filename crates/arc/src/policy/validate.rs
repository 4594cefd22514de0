//! A recount of everything that a policy notes.

use super::Policy;
use crate::list::{Class, LISTS, List, Queue};
use crate::place::Place;

impl<K: Eq, V: Clone> Policy<K, V> {
    /// Recounts everything: links, indexes, sums per list, tenant and partition, the ghosts'
    /// bounds.
    pub fn validate(&self) -> Result<(), String> {
        self.directory.validate()?;
        self.partitions.validate()?;

        let tenants = self.tenants.iter().count();
        let mut counted = vec![[(0, 0); LISTS]; tenants];
        let mut weights = vec![[0; 2]; self.partitions.len()];
        for slot in 0..self.records().slots() as u32 {
            let Some(record) = self.records().occupant(slot) else { continue };
            let sums = counted
                .get_mut(record.tenant as usize)
                .ok_or(format!("slot {slot} belongs to unknown tenant {}", record.tenant))?;
            let list = record.place.list();
            sums[list.index()].0 += 1;
            sums[list.index()].1 += record.bytes;
            let weights = weights
                .get_mut(record.place.partition())
                .ok_or(format!("slot {slot} stands in an unknown partition"))?;
            weights[list.class as usize] += record.bytes + self.record_overhead;
        }
        for (index, (tenant, counted)) in self.tenants.iter().zip(counted).enumerate() {
            let noted = tenant.plain.lists.map(|list| (list.records, list.bytes));
            if noted != counted {
                return Err(format!("tenant {index}: noted {noted:?}, counted {counted:?}"));
            }
        }
        let noted: Vec<_> = self.partitions.iter().map(|partition| partition.weights).collect();
        if noted != weights || self.weight != weights.iter().flatten().sum::<u64>() {
            return Err(format!("partitions weigh {weights:?}, noted {noted:?} {}", self.weight));
        }
        for partition in 0..self.partitions.len() {
            if let Some(list) = self.ghosts_in_excess(partition) {
                return Err(format!("partition {partition}: {list:?} has too many ghosts"));
            }
            for class in Class::ALL {
                let uncached = Place::new(partition, List::new(class, Queue::Uncached));
                if self.directory.ghosts().items(uncached) > 0 {
                    return Err(format!("{class:?}: an uncached record left a ghost"));
                }
            }
        }
        Ok(())
    }
}
