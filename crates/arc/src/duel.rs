//! [`Duel`]: which of the settings misses less, beyond chance.

use crate::setting::{SETTINGS, Setting};

const START: usize = Setting::START as usize;
const RECENCY: usize = Setting::Recency as usize;

/// Rounds after which a round counts half: this many for each record of a shadow.
const HALF_LIFE_RECORDS: f64 = 20.0;

/// The same, at least.
const HALF_LIFE_MIN: f64 = 5000.0;

/// A lead counts if it is more than this many standard deviations of chance,
const LEAD_SIGMAS: f64 = 3.0;

/// and this part of a shadow's records, so that it pays for what a change disturbs,
const LEAD_SHARE: f64 = 0.05;

/// or this part, where a change was made before and this one is a step towards recency: what it
/// lets go has to be learned anew,
const LEAD_SHARE_RECENCY: f64 = 0.2;

/// and one.
const LEAD_MIN: f64 = 1.0;

/// Weights are scaled down before they grow beyond this.
const UNIT_MAX: f64 = 1e12;

/// Settings in pairs, over the rounds of the recent past.
///
/// Where both hit or both miss nothing is learned. Where one alone misses it falls behind by one;
/// if chance decided, the lead after `n` such rounds would have a standard deviation of the root of
/// `n`. Older rounds count less: weights grow with time instead of sums being scaled each time.
#[derive(Debug, Clone)]
pub(crate) struct Duel {
    /// Misses of the first less those of the second.
    behind: [[f64; SETTINGS]; SETTINGS],
    /// Rounds in which one alone missed.
    decided: [[f64; SETTINGS]; SETTINGS],
    hits: [f64; SETTINGS],
    rounds: f64,
    /// Whether [`Duel::next`] has named a setting yet.
    decided_once: bool,
    /// Weight of the next round.
    unit: f64,
    records: f64,
}

impl Duel {
    pub const fn new() -> Self {
        Self {
            behind: [[0.0; SETTINGS]; SETTINGS],
            decided: [[0.0; SETTINGS]; SETTINGS],
            hits: [0.0; SETTINGS],
            rounds: 0.0,
            decided_once: false,
            unit: 1.0,
            records: 0.0,
        }
    }

    /// One access: who missed. `records` is what a shadow holds.
    pub fn round(&mut self, missed: &[bool; SETTINGS], records: usize) {
        self.records = records as f64;
        self.unit *= 2f64.powf(1.0 / (HALF_LIFE_RECORDS * self.records).max(HALF_LIFE_MIN));
        if self.unit > UNIT_MAX {
            self.scale(1.0 / self.unit);
        }
        self.rounds += self.unit;
        for (hits, &missed) in self.hits.iter_mut().zip(missed) {
            *hits += if missed { 0.0 } else { self.unit };
        }
        for (loser, winner) in pairs().filter(|&(a, b)| missed[a] && !missed[b]) {
            self.behind[loser][winner] += self.unit;
            self.behind[winner][loser] -= self.unit;
            self.decided[loser][winner] += self.unit;
            self.decided[winner][loser] += self.unit;
        }
    }

    /// The setting to go to from `current`: the neighbour that lies towards the one that is
    /// furthest ahead, if that is not by chance. Then all start level again.
    ///
    /// From recency the way leads to the best at once: what a loop has just brought in would be
    /// gone before a second step.
    pub fn next(&mut self, current: usize) -> Option<usize> {
        let (best, lead) = self.furthest_ahead_of(current);
        let (lead, decided) = (lead / self.unit, self.decided[current][best] / self.unit);
        let towards_recency = best > current;
        let share =
            if self.decided_once && towards_recency { LEAD_SHARE_RECENCY } else { LEAD_SHARE };
        if lead <= LEAD_SIGMAS * decided.sqrt() + share * self.records + LEAD_MIN {
            return None;
        }
        self.behind = [[0.0; SETTINGS]; SETTINGS];
        self.decided = [[0.0; SETTINGS]; SETTINGS];
        self.decided_once = true;
        Some(match current {
            RECENCY => best,
            _ if towards_recency => current + 1,
            _ => current - 1,
        })
    }

    /// The setting that is furthest ahead of `current`, and its lead; among equals the one that
    /// does well most often.
    fn furthest_ahead_of(&self, current: usize) -> (usize, f64) {
        let (mut best, mut lead) = (START, self.behind[current][START]);
        for other in (0..SETTINGS).rev() {
            if self.behind[current][other] > lead {
                (best, lead) = (other, self.behind[current][other]);
            }
        }
        (best, lead)
    }

    /// Hit ratio of each setting over the recent past.
    pub fn hit_ratios(&self) -> [f64; SETTINGS] {
        self.hits.map(|hits| if self.rounds > 0.0 { hits / self.rounds } else { 0.0 })
    }

    fn scale(&mut self, factor: f64) {
        let rows = self.behind.iter_mut().chain(&mut self.decided);
        rows.flatten().chain(&mut self.hits).for_each(|sum| *sum *= factor);
        self.rounds *= factor;
        self.unit *= factor;
    }
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..SETTINGS).flat_map(|a| (0..SETTINGS).map(move |b| (a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONLY_THIRD_HITS: [bool; SETTINGS] = [true, true, false, true];

    #[test]
    fn a_lead_beyond_chance_moves_one_step() {
        let mut duel = Duel::new();
        let mut rounds = 0;
        while duel.next(0).is_none() {
            duel.round(&ONLY_THIRD_HITS, 100);
            rounds += 1;
        }
        // 3 * sqrt(n) + 5 + 1 < n
        assert!((18..=22).contains(&rounds), "{rounds}");
        assert_eq!(duel.next(0), None, "all start level again");
        let ratios = duel.hit_ratios();
        assert!(ratios[2] > 0.99 && ratios[0] < 0.01, "{ratios:?}");
    }

    #[test]
    fn steps_lead_towards_the_best() {
        for (current, next) in [(0, 1), (1, 2), (3, 2)] {
            let mut duel = Duel::new();
            (0..100).for_each(|_| duel.round(&ONLY_THIRD_HITS, 100));
            assert_eq!(duel.next(current), Some(next));
        }
        let mut duel = Duel::new();
        (0..100).for_each(|_| duel.round(&ONLY_THIRD_HITS, 100));
        assert_eq!(duel.next(2), None);
    }

    #[test]
    fn from_recency_the_way_leads_to_the_best_at_once() {
        for (missed, next) in [([false, true, true, true], 0), ([false, false, false, true], 1)] {
            let mut duel = Duel::new();
            (0..100).for_each(|_| duel.round(&missed, 100));
            assert_eq!(duel.next(3), Some(next));
        }
    }

    #[test]
    fn a_later_step_towards_recency_needs_a_longer_lead() {
        let mut duel = Duel::new();
        let mut rounds_until = |current: usize, missed: [bool; SETTINGS]| {
            let mut rounds = 0;
            while duel.next(current).is_none() {
                duel.round(&missed, 1000);
                rounds += 1;
            }
            rounds
        };
        let first = rounds_until(1, [true, true, false, true]);
        let back = rounds_until(2, [true, false, true, true]);
        let again = rounds_until(1, [true, true, false, true]);
        assert_eq!(first, back);
        assert!(again > 2 * first, "{first}, then {again}");
    }

    #[test]
    fn what_is_even_stays_and_weights_stay_finite() {
        let mut duel = Duel::new();
        for round in 0..1_000_000 {
            let one = round % 2 == 0;
            duel.round(&[one, !one, one, !one], 1);
            assert_eq!(duel.next(1), None);
        }
        assert!(duel.unit <= UNIT_MAX && duel.rounds.is_finite());
    }
}
