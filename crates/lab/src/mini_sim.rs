use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::policy::{Objects, PolicyName};
use crate::trace::Trace;

/// Fewer sampled requests say too little.
pub const SAMPLED_REQUESTS_MIN: u64 = 10_000;

/// Parts of the sample, from whose differences the error is estimated.
const PARTS: usize = 4;

/// How many standard errors the band reaches to each side: 95 % of Student's distribution with
/// one degree of freedom fewer than there are parts.
const BAND_ERRORS: f64 = 3.182;

/// The error is estimated at the first of so many sizes, and goes straight between them.
const SIZES_PER_ERROR: usize = 4;

/// Miniature simulation: any policy at many sizes, on a sample of the objects with a cache that is
/// smaller by the same rate.
///
/// A sample of objects has seldom just its share of the requests, because a few objects have very
/// many. The missing ones, or those that are too many, are taken to be hits: as objects with very
/// many requests have.
///
/// The error is seen by simulating the parts of the sample once more, each with a cache of its own:
/// caches that learn, learn differently from different samples.
///
/// C. Waldspurger, T. Saemundsson, I. Ahmad, N. Park, "Cache Modeling and Optimization using
/// Miniature Simulations", USENIX ATC 2017; the correction is that of "Efficient MRC Construction
/// with SHARDS" by the same, FAST 2015.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MiniSim {
    /// Share of the objects that are sampled.
    pub percent: f64,
    /// Which objects are.
    pub seed: u64,
}

/// What a miniature simulation found for one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The size, as a share of the objects.
    pub fraction: f64,
    /// The miss ratio.
    pub miss_ratio: f64,
    /// It is not below this, in 19 of 20 samples.
    pub low: f64,
    /// It is not above this, in 19 of 20 samples.
    pub high: f64,
}

/// A sample that says too little.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "a sample of {percent} % has {requests} requests, and {SAMPLED_REQUESTS_MIN} are needed; \
     take at least {needed_percent:.2} %, or replay the whole trace"
)]
pub struct TooFewSampled {
    /// The share that was sampled.
    pub percent: f64,
    /// The requests of the sample.
    pub requests: u64,
    /// About the share that would be enough.
    pub needed_percent: f64,
}

impl MiniSim {
    /// Runs a policy at these sizes, each a share of the objects, one after the other.
    ///
    /// # Errors
    /// When the sample has too few requests.
    pub fn run(
        &self,
        trace: &Trace,
        policy: PolicyName,
        fractions: &[f64],
    ) -> Result<Vec<Estimate>, TooFewSampled> {
        let rate = (self.percent / 100.0).clamp(0.0, 1.0);
        let bound = (rate * (1u64 << 32) as f64) as u64;
        // The lower half says whether an object is sampled, the upper one to which part it goes.
        let hash = |id: u32| xxh3_64_with_seed(&id.to_le_bytes(), self.seed);
        let sample = trace.sample(|id| hash(id) & u64::from(u32::MAX) < bound);
        let requests = sample.as_ref().map_or(0, |(sample, _)| sample.requests());
        let (sample, sampled) = match sample {
            Some(found) if requests >= SAMPLED_REQUESTS_MIN => found,
            _ => {
                let needed = SAMPLED_REQUESTS_MIN as f64 / trace.requests() as f64;
                let needed_percent = (100.0 * needed).min(100.0);
                return Err(TooFewSampled { percent: self.percent, requests, needed_percent });
            }
        };
        let part_of: Vec<u64> = sampled.iter().map(|&id| hash(id) >> 62).collect();
        let parts: Vec<Trace> = (0..PARTS as u64)
            .filter_map(|part| sample.sample(|id| part_of[id as usize] == part))
            .map(|(part, _)| part)
            .collect();
        let whole = match trace.object_bytes() {
            None => trace.distinct(),
            Some(_) => trace.distinct_bytes(),
        };
        let miss_ratio = |sample: &Trace, rate: f64, fraction: f64| {
            let size = ((whole as f64 * fraction).floor() * rate).round().max(1.0) as u64;
            misses(sample, policy, size) as f64 / (trace.requests() as f64 * rate)
        };
        let error = |fraction: f64| {
            let ratio = |part| miss_ratio(part, rate / PARTS as f64, fraction);
            let ratios: Vec<f64> = parts.iter().map(ratio).collect();
            let mean = ratios.iter().sum::<f64>() / PARTS as f64;
            let squares = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>();
            (squares / (PARTS * (PARTS - 1)) as f64).sqrt()
        };
        let last = fractions.len().saturating_sub(1);
        let marks: Vec<usize> = (0..last).step_by(SIZES_PER_ERROR).chain([last]).collect();
        let errors: Vec<f64> =
            marks.iter().filter_map(|&mark| fractions.get(mark)).map(|&at| error(at)).collect();
        let estimate = |(index, &fraction): (usize, &f64)| {
            let mark = index / SIZES_PER_ERROR;
            let next = (mark + 1).min(errors.len() - 1);
            let span = (marks[next] - marks[mark]).max(1) as f64;
            let share = (index - marks[mark]) as f64 / span;
            let error = errors[mark] + share * (errors[next] - errors[mark]);
            let ratio = miss_ratio(&sample, rate, fraction);
            Estimate {
                fraction,
                miss_ratio: ratio.min(1.0),
                low: (ratio - BAND_ERRORS * error).clamp(0.0, 1.0),
                high: (ratio + BAND_ERRORS * error).clamp(0.0, 1.0),
            }
        };
        Ok(fractions.iter().enumerate().map(estimate).collect())
    }
}

fn misses(sample: &Trace, policy: PolicyName, size: u64) -> u64 {
    let objects = match sample.object_bytes() {
        None => Objects::uniform(sample.distinct() as usize),
        Some(bytes) => Objects::weighted(bytes.clone(), 0),
    };
    let mut misses = 0;
    policy.build(size, &objects, false, sample).replay(sample.ids(), &mut |_| misses += 1);
    misses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Form, Replay, Size, replay};

    /// Requests for blocks of which a few are asked for often.
    fn skewed() -> Trace {
        let mut random = storage::Random::new(3);
        let mut below = move |limit: u64| random.below(limit);
        let blocks = (0..1_500_000).map(|_| {
            let range = 1 + below(200_000);
            below(range)
        });
        Trace::from_blocks("skewed", blocks, 4096)
    }

    #[test]
    fn a_sample_is_near_the_whole_and_knows_how_near() {
        let trace = skewed();
        let fractions: Vec<f64> = (1..=5).map(|step| f64::from(step) * 0.1).collect();
        for policy in [PolicyName::Lru, PolicyName::ListArc] {
            let plan = Replay {
                policies: vec![policy],
                sizes: fractions.iter().map(|&fraction| Size::Fraction(fraction)).collect(),
                form: Form::Plain,
            };
            let exact = replay(&trace, &plan, &|_| ());
            let (mut error, mut inside) = (0.0, 0);
            for seed in 0..20 {
                let mini = MiniSim { percent: 5.0, seed };
                let estimates = mini.run(&trace, policy, &fractions).expect("it is enough");
                for (estimate, exact) in estimates.iter().zip(&exact) {
                    let (ratio, band) = (exact.miss_ratio, estimate.low..=estimate.high);
                    error += (estimate.miss_ratio - ratio).abs() / 100.0;
                    inside += u32::from(band.contains(&ratio));
                }
            }
            println!("{policy}: mean error {error:.4}, {inside} of 100 in the band");
            assert!(error < 0.015, "{policy}: {error}");
            assert!(inside >= 80, "{policy}: {inside} of 100");
        }
    }

    #[test]
    fn too_small_a_sample_is_refused_and_all_is_exact() {
        let trace = skewed();
        let few = MiniSim { percent: 0.01, seed: 1 }.run(&trace, PolicyName::Lru, &[0.1]);
        let message = few.expect_err("refused").to_string();
        assert!(message.contains("at least 0.67 %"), "{message}");
        let all = MiniSim { percent: 100.0, seed: 1 };
        let estimate = all.run(&trace, PolicyName::Lru, &[0.1]).expect("it is enough")[0];
        let plan = Replay {
            policies: vec![PolicyName::Lru],
            sizes: vec![Size::Fraction(0.1)],
            form: Form::Plain,
        };
        let exact = replay(&trace, &plan, &|_| ())[0].miss_ratio;
        assert!((estimate.miss_ratio - exact).abs() < 1e-9, "{estimate:?} {exact}");
    }
}
