use storage::Random;

use crate::model::{Nanoseconds, Queue, Request};

/// Random reads of which the responses are looked at, at each rate.
const READS: usize = 4_000;
/// Reads at first that do not count.
const FIRST_READS: usize = 400;
/// Reads at a time that show what a device can do at most.
const DEPTH: usize = 64;
/// The rates at which a device is looked at, as shares of what it can do at most.
const LOADS: [f64; 10] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
/// Responses kept of each rate: quantiles at equal distances.
const QUANTILES: usize = 100;

/// How a device responds to random reads of one size, by how many there are: found by asking its
/// model.
#[derive(Debug, Clone)]
pub(super) struct Response {
    /// Reads a second at most.
    pub reads_per_s_max: f64,
    points: Vec<Point>,
}

/// At one rate.
#[derive(Debug, Clone)]
struct Point {
    reads_per_s: f64,
    mean_ms: f64,
    quantiles_ms: Vec<f64>,
}

impl Response {
    /// Asks a device, built anew for each rate, for `bytes` at a time.
    pub fn of(build: &dyn Fn() -> Box<dyn Queue>, bytes: u64) -> Response {
        let reads_per_s_max = saturated(&mut *build(), bytes);
        let points = LOADS.iter().map(|load| open(&mut *build(), bytes, load * reads_per_s_max));
        Response { reads_per_s_max, points: points.collect() }
    }

    /// The mean and quantiles at this rate, milliseconds; `None` if it is more than the device
    /// can do with any certainty.
    pub fn at(&self, reads_per_s: f64) -> Option<(f64, Vec<f64>)> {
        let above = self.points.iter().position(|point| point.reads_per_s >= reads_per_s)?;
        let (low, high) = (&self.points[above.saturating_sub(1)], &self.points[above]);
        let span = high.reads_per_s - low.reads_per_s;
        let share = if span > 0.0 { (reads_per_s - low.reads_per_s) / span } else { 0.0 };
        let between = |low: f64, high: f64| low + share * (high - low);
        let quantiles = low.quantiles_ms.iter().zip(&high.quantiles_ms);
        let quantiles = quantiles.map(|(&low, &high)| between(low, high)).collect();
        Some((between(low.mean_ms, high.mean_ms), quantiles))
    }
}

fn place(random: &mut Random, device: &dyn Queue, bytes: u64) -> Request {
    let places = (device.size_bytes() / bytes).max(1);
    Request::read(random.below(places) * bytes, bytes)
}

/// Reads a second with many at a time.
fn saturated(device: &mut dyn Queue, bytes: u64) -> f64 {
    let mut random = Random::new(1);
    for _ in 0..DEPTH {
        let request = place(&mut random, device, bytes);
        device.submit(0, request);
    }
    let (mut now, mut begun) = (0, 0);
    for done in 0..READS {
        let due = device.due().expect("reads are under way");
        let completion = device.complete(due).expect("one is done");
        now = completion.at;
        if done == FIRST_READS {
            begun = now;
        }
        let request = place(&mut random, device, bytes);
        device.submit(now, request);
    }
    (READS - FIRST_READS) as f64 * 1e9 / (now - begun).max(1) as f64
}

/// Reads that come at random times; one after the other where the rate is zero.
fn open(device: &mut dyn Queue, bytes: u64, reads_per_s: f64) -> Point {
    let mut random = Random::new(2);
    let mut begun: Vec<(u64, Nanoseconds)> = Vec::new();
    let mut responses = Vec::new();
    let mut next: Nanoseconds = 0;
    let mut submitted = 0;
    while responses.len() < READS {
        let due = device.due();
        if due.is_none_or(|due| due > next) && submitted < READS {
            let request = place(&mut random, device, bytes);
            begun.push((device.submit(next, request).0, next));
            submitted += 1;
            next = match reads_per_s > 0.0 {
                true => next + gap_ns(&mut random, reads_per_s),
                // When this one is done.
                false => Nanoseconds::MAX,
            };
            continue;
        }
        let due = due.expect("reads are under way");
        while let Some(completion) = device.complete(due) {
            let at = begun.iter().position(|(ticket, _)| *ticket == completion.ticket.0);
            let (_, since) = begun.swap_remove(at.expect("it was submitted"));
            responses.push((completion.at - since) as f64 / 1e6);
        }
        if reads_per_s == 0.0 {
            next = due;
        }
    }
    let mut responses = responses.split_off(FIRST_READS);
    let mean_ms = responses.iter().sum::<f64>() / responses.len() as f64;
    responses.sort_by(f64::total_cmp);
    let quantile = |index| responses[(2 * index + 1) * responses.len() / (2 * QUANTILES)];
    Point { reads_per_s, mean_ms, quantiles_ms: (0..QUANTILES).map(quantile).collect() }
}

/// The time to the next one, if they come independently of each other.
fn gap_ns(random: &mut Random, per_s: f64) -> Nanoseconds {
    let share = (random.draw() >> 11) as f64 / (1u64 << 53) as f64;
    (-(1.0 - share).ln() * 1e9 / per_s) as Nanoseconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{InOrder, Model, Refusal};

    /// Serves one request after the other, each in a millisecond.
    #[derive(Debug, Default)]
    struct Steady {
        free_at: Nanoseconds,
    }

    impl Model for Steady {
        fn size_bytes(&self) -> u64 {
            1 << 30
        }

        fn serve(&mut self, now: Nanoseconds, _: Request) -> Result<Nanoseconds, Refusal> {
            self.free_at = self.free_at.max(now) + 1_000_000;
            Ok(self.free_at)
        }
    }

    #[test]
    fn a_queue_is_as_theory_says() {
        let response = Response::of(&|| Box::new(InOrder::new(Steady::default())), 4096);
        assert!((response.reads_per_s_max - 1000.0).abs() < 1.0, "{response:?}");
        // M/D/1: service and rho / (2 (1 - rho)) of it.
        for (rate, expected) in [(0.0, 1.0), (500.0, 1.5), (800.0, 3.0)] {
            let (mean, quantiles) = response.at(rate).expect("it can be done");
            assert!((mean / expected - 1.0).abs() < 0.12, "{rate}: {mean}");
            assert!(quantiles.is_sorted() && quantiles[0] >= 1.0 - 1e-9);
        }
        assert!(response.at(990.0).is_none());
    }
}
