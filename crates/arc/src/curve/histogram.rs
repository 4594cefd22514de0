//! [`Histogram`]: how often which stack distance was seen.

/// Buckets of each doubling of the distance: a bucket's edges lie at most 1/32 apart.
const BUCKETS_PER_DOUBLING: usize = 32;
/// The upper edge of the first bucket, bytes: 2 to this power.
const FIRST_EDGE_BITS: u32 = 12;
/// Doublings covered. Distances beyond 2^44 bytes count as never.
const DOUBLINGS: usize = 32;
/// Buckets of distances.
pub(crate) const BUCKETS: usize = 1 + DOUBLINGS * BUCKETS_PER_DOUBLING;
/// Parts that the sample is divided into, by hash: from their spread the error is told.
pub(crate) const GROUPS: usize = 8;

/// Accesses by stack distance, on a scale of equal ratios, apart for each group.
///
/// Each sampled access counts for as many accesses as it stands for, the inverse of the sampling
/// rate at that moment. So nothing has to be rescaled when the rate changes.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// `GROUPS` rows of `BUCKETS`.
    counts: Vec<f64>,
    /// First accesses, and those too far apart to matter.
    cold: [f64; GROUPS],
    /// Sampled accesses, each counted once.
    samples: f64,
}

impl Histogram {
    /// An empty histogram with its memory.
    pub fn new() -> Histogram {
        Histogram { counts: vec![0.0; GROUPS * BUCKETS], cold: [0.0; GROUPS], samples: 0.0 }
    }

    /// Counts an access at this distance in bytes, `None` for a first one.
    pub fn add(&mut self, hash: u64, distance: Option<u64>, weight: f64) {
        let group = hash as usize % GROUPS;
        match distance.map(bucket) {
            Some(bucket) if bucket < BUCKETS => self.counts[group * BUCKETS + bucket] += weight,
            _ => self.cold[group] += weight,
        }
        self.samples += 1.0;
    }

    /// Lets everything so far count half.
    pub fn halve(&mut self) {
        self.counts.iter_mut().chain(&mut self.cold).for_each(|count| *count /= 2.0);
        self.samples /= 2.0;
    }

    /// Sampled accesses that are in here, those that are old in part.
    pub fn samples(&self) -> f64 {
        self.samples
    }

    /// Accesses of a group in each bucket.
    pub fn row(&self, group: usize) -> &[f64] {
        self.counts.get(group * BUCKETS..(group + 1) * BUCKETS).unwrap_or(&[])
    }

    /// Accesses of a group, first ones included.
    pub fn accesses(&self, group: usize) -> f64 {
        self.row(group).iter().sum::<f64>() + self.cold[group]
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<f64>()
    }

    /// Panics if a count is none.
    pub fn validate(&self) {
        let all = self.counts.iter().chain(&self.cold).chain([&self.samples]);
        assert!(all.copied().all(|count| count.is_finite() && count >= 0.0), "a broken count");
    }
}

/// The bucket of a distance in bytes; may lie beyond the last.
fn bucket(distance: u64) -> usize {
    let Some(below) = distance.checked_sub(1).filter(|below| *below >> FIRST_EDGE_BITS > 0) else {
        return 0;
    };
    let bits = below.ilog2();
    let step = BUCKETS_PER_DOUBLING.ilog2();
    let within = (below >> (bits - step)) as usize % BUCKETS_PER_DOUBLING;
    1 + (bits - FIRST_EDGE_BITS) as usize * BUCKETS_PER_DOUBLING + within
}

/// The largest distance of a bucket, bytes.
pub(crate) fn upper_edge(bucket: usize) -> u64 {
    let Some(bucket) = bucket.checked_sub(1) else {
        return 1 << FIRST_EDGE_BITS;
    };
    let doublings = (bucket / BUCKETS_PER_DOUBLING) as u32;
    let within = (bucket % BUCKETS_PER_DOUBLING) as u64;
    let step = BUCKETS_PER_DOUBLING.ilog2();
    (BUCKETS_PER_DOUBLING as u64 + within + 1) << (FIRST_EDGE_BITS + doublings - step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_the_distances_above_the_edge_before_up_to_its_own() {
        for index in 0..BUCKETS {
            let edge = upper_edge(index);
            assert_eq!(bucket(edge), index, "{edge}");
            assert_eq!(bucket(edge + 1), index + 1, "{edge} + 1");
        }
        assert_eq!(bucket(0), 0);
        assert_eq!(upper_edge(BUCKETS - 1), 1 << 44);
        assert!(bucket(u64::MAX) >= BUCKETS);
    }
}
