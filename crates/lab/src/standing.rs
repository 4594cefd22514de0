//! [`Standing`]: how a policy does among others, over many traces and sizes.

use std::collections::BTreeMap;

use crate::policy::PolicyName;
use crate::replay::Row;

/// How a policy does among others, over the cells that all of them ran: traces at sizes. In points
/// of the miss ratio; the best is the best of those that do not know the future.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The policy's name.
    pub policy: &'static str,
    /// Cells.
    pub cells: usize,
    /// Mean miss ratio, percent.
    pub mean_percent: f64,
    /// How far behind the best it is in each cell, in ascending order; negative for the optimum.
    pub behind_points: Vec<f64>,
    /// Cells in which it misses more than LRU by more than half a point; `None` without LRU.
    pub behind_lru: Option<usize>,
}

impl Standing {
    /// Cells in which nobody is better.
    pub fn best(&self) -> usize {
        self.behind_points.iter().filter(|&&points| points <= 0.0).count()
    }

    /// Cells in which it is at most so many points behind the best.
    pub fn within(&self, points: f64) -> usize {
        self.behind_points.iter().filter(|&&behind| behind <= points).count()
    }

    /// How far it is behind where it does worst, points.
    pub fn worst_points(&self) -> f64 {
        self.behind_points.last().copied().unwrap_or(0.0)
    }
}

/// The standings of all policies of these rows, in the order in which they appear.
pub fn standings(rows: &[Row]) -> Vec<Standing> {
    let mut policies: Vec<&'static str> = Vec::new();
    // By trace and size, the miss ratio of each policy in percent.
    let mut cells: BTreeMap<(&str, u64), BTreeMap<&str, f64>> = BTreeMap::new();
    for row in rows {
        if !policies.contains(&row.policy) {
            policies.push(row.policy);
        }
        let cell = cells.entry((&row.trace, row.capacity_bytes)).or_default();
        cell.insert(row.policy, row.miss_ratio * 100.0);
    }
    cells.retain(|_, cell| cell.len() == policies.len());
    let best = |cell: &BTreeMap<&str, f64>| {
        let online = cell.iter().filter(|(policy, _)| **policy != PolicyName::Min.name());
        online.map(|(_, &misses)| misses).fold(f64::MAX, f64::min)
    };
    let standing = |policy: &&'static str| {
        let mut behind: Vec<f64> = cells.values().map(|cell| cell[policy] - best(cell)).collect();
        behind.sort_by(f64::total_cmp);
        let lru = PolicyName::Lru.name();
        let behind_lru = policies
            .contains(&lru)
            .then(|| cells.values().filter(|cell| cell[policy] - cell[lru] > 0.5).count());
        let sum: f64 = cells.values().map(|cell| cell[policy]).sum();
        Standing {
            policy,
            cells: cells.len(),
            mean_percent: sum / cells.len().max(1) as f64,
            behind_points: behind,
            behind_lru,
        }
    };
    policies.iter().map(standing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(trace: &str, policy: PolicyName, bytes: u64, miss_ratio: f64) -> Row {
        Row {
            trace: trace.to_string(),
            policy: policy.name(),
            recorded_percent: 100.0,
            fraction: 0.1,
            capacity_blocks: None,
            capacity_bytes: bytes,
            requests: 1000,
            misses: (miss_ratio * 1000.0) as u64,
            miss_ratio,
            byte_miss_ratio: miss_ratio,
        }
    }

    #[test]
    fn cells_that_all_ran_count() {
        let rows = [
            row("a", PolicyName::Lru, 1, 0.50),
            row("a", PolicyName::Arc, 1, 0.52),
            row("a", PolicyName::Min, 1, 0.30),
            row("a", PolicyName::Lru, 2, 0.40),
            row("a", PolicyName::Arc, 2, 0.30),
            row("a", PolicyName::Min, 2, 0.20),
            row("b", PolicyName::Lru, 1, 0.90),
        ];
        let [lru, arc, min] = &standings(&rows)[..] else { panic!("three policies") };
        assert_eq!((lru.policy, lru.cells, lru.best(), lru.within(1.0)), ("lru", 2, 1, 1));
        assert!((lru.mean_percent - 45.0).abs() < 1e-9 && (lru.worst_points() - 10.0).abs() < 1e-9);
        assert_eq!((arc.best(), arc.within(2.5), arc.behind_lru), (1, 2, Some(1)));
        assert!(min.worst_points() < 0.0);
        assert!(standings(&[]).is_empty());
    }
}
