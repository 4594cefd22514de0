//! A recount of everything that a policy notes.

use super::Policy;
use crate::behaviour::Behaviour;
use crate::index::Index;
use crate::list::{Class, LISTS, List, Queue};
use crate::place::Place;

impl<K: Eq + Clone, V: Clone, I: Index> Policy<K, V, I> {
    /// Recounts the shadows of all partitions.
    pub fn validate_shadows(&self) -> Result<(), String> {
        self.partitions.iter().try_for_each(|partition| match &partition.behaviour {
            Behaviour::Tuned(tuner) => tuner.validate(),
            _ => Ok(()),
        })
    }

    /// Recounts everything: links, indexes, sums per list, tenant and partition, the ghosts'
    /// bounds.
    pub fn validate(&self) -> Result<(), String> {
        self.directory.validate()?;
        self.partitions.validate()?;

        let tenants = self.tenants.iter().count();
        let mut counted = vec![[(0, 0); LISTS]; tenants];
        for slot in 0..self.records().slots() as u32 {
            let Some(record) = self.records().occupant(slot) else { continue };
            let sums = counted
                .get_mut(record.tenant as usize)
                .ok_or(format!("slot {slot} belongs to unknown tenant {}", record.tenant))?;
            let list = record.place.list();
            sums[list.index()].0 += 1;
            sums[list.index()].1 += record.bytes;
            if record.place.partition() >= self.partitions.len() {
                return Err(format!("slot {slot} stands in an unknown partition"));
            }
        }
        for slot in 0..self.directory.ghosts().slots() as u32 {
            let Some(ghost) = self.directory.ghosts().occupant(slot) else { continue };
            if ghost.place.partition() >= self.partitions.len() {
                return Err(format!("ghost {slot} stands in an unknown partition"));
            }
        }
        for (index, (tenant, counted)) in self.tenants.iter().zip(counted).enumerate() {
            let noted = tenant.plain.lists.map(|list| (list.records, list.bytes));
            if noted != counted {
                return Err(format!("tenant {index}: noted {noted:?}, counted {counted:?}"));
            }
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
