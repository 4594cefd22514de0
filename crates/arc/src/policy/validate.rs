//! A recount of everything that a policy notes.

use super::Policy;
use crate::list::{Class, LISTS, List, Queue};

impl<K: Eq, V: Clone> Policy<K, V> {
    /// Recounts everything: links, indexes, sums per list and tenant, the ghosts' bounds.
    pub fn validate(&self) -> Result<(), String> {
        self.records.validate().map_err(|why| format!("records: {why}"))?;
        self.ghosts.validate().map_err(|why| format!("ghosts: {why}"))?;

        let tenants = self.tenants.iter().count();
        let mut counted = vec![[(0, 0); LISTS]; tenants];
        for slot in 0..self.len() as u32 {
            let record = self.records.slab().get(slot);
            let sums = counted
                .get_mut(record.tenant as usize)
                .ok_or(format!("slot {slot} belongs to unknown tenant {}", record.tenant))?;
            sums[record.list.index()].0 += 1;
            sums[record.list.index()].1 += record.bytes;
        }
        for (index, (tenant, counted)) in self.tenants.iter().zip(counted).enumerate() {
            let noted = tenant.plain.lists.map(|list| (list.records, list.bytes));
            if noted != counted {
                return Err(format!("tenant {index}: noted {noted:?}, counted {counted:?}"));
            }
        }

        for class in Class::ALL {
            let (mru, mfu) = (List::new(class, Queue::Mru), List::new(class, Queue::Mfu));
            let share = self.share(class);
            let recent = self.list_weight(mru) + self.ghost_weight(mru);
            if recent > share && self.ghosts.slab().items(mru) > 0 {
                return Err(format!("{class:?}: MRU and its ghosts {recent}, share {share}"));
            }
            let all = self.weight(class) + self.ghost_weight(mru) + self.ghost_weight(mfu);
            if all > share.saturating_mul(2) {
                return Err(format!("{class:?}: records and ghosts {all}, share {share}"));
            }
            if self.ghosts.slab().items(List::new(class, Queue::Uncached)) > 0 {
                return Err(format!("{class:?}: an uncached record left a ghost"));
            }
        }
        if self.ghosts.slab().len() > 0 && self.too_many_ghosts() {
            return Err(format!("{} ghosts are too many", self.ghosts.slab().len()));
        }
        Ok(())
    }
}
