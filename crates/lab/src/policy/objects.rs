use std::sync::Arc;

/// The objects of a trace as a policy sees them: how many, and what each weighs.
#[derive(Debug, Clone)]
pub struct Objects {
    count: usize,
    weights: Option<Arc<[u32]>>,
    header: u32,
}

impl Objects {
    /// So many objects that weigh 1 each.
    pub fn uniform(count: usize) -> Objects {
        Objects { count, weights: None, header: 0 }
    }

    /// Objects with these weights, and `header` more for each.
    pub fn weighted(weights: Arc<[u32]>, header: u32) -> Objects {
        Objects { count: weights.len(), weights: Some(weights), header }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What one weighs.
    #[inline]
    pub fn weight(&self, id: u32) -> u64 {
        match &self.weights {
            None => 1,
            Some(weights) => u64::from(weights[id as usize]) + u64::from(self.header),
        }
    }

    /// About how many objects fit into `capacity`.
    pub fn fitting(&self, capacity: u64) -> usize {
        let total: u64 = match &self.weights {
            None => self.count as u64,
            Some(_) => (0..self.count as u32).map(|id| self.weight(id)).sum(),
        };
        let share = capacity as f64 / total.max(1) as f64;
        (share.min(1.0) * self.count as f64).ceil() as usize
    }
}
