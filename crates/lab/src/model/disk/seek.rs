use serde::Deserialize;

use crate::model::Positive;

/// A seek curve: how long seeks over some distances take. Between them it goes straight, and
/// beyond the last one it stays.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Vec<(u32, Positive)>")]
pub struct Seek {
    points: Vec<SeekPoint>,
}

/// A point of a seek curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeekPoint {
    /// Cylinders.
    pub distance: u32,
    /// Milliseconds.
    pub time_ms: f64,
}

impl Seek {
    /// How long a seek over so many cylinders takes, which are at least one.
    pub fn time_ns(&self, distance: u32) -> f64 {
        let after = self.points.partition_point(|point| point.distance < distance);
        let time_ms = match (after.checked_sub(1).map(|before| self.points[before]), after) {
            (Some(last), after) if after == self.points.len() => last.time_ms,
            (None, after) => self.points[after].time_ms,
            (Some(before), after) => {
                let after = self.points[after];
                let span = f64::from(after.distance - before.distance);
                let share = f64::from(distance - before.distance) / span;
                before.time_ms + share * (after.time_ms - before.time_ms)
            }
        };
        time_ms * 1e6
    }
}

impl TryFrom<Vec<(u32, Positive)>> for Seek {
    type Error = String;

    fn try_from(points: Vec<(u32, Positive)>) -> Result<Seek, String> {
        let ascending = points.is_sorted_by(|(one, _), (next, _)| one < next);
        match points.first() {
            Some(&(1, _)) if ascending => Ok(Seek {
                points: points
                    .into_iter()
                    .map(|(distance, time)| SeekPoint { distance, time_ms: time.get() })
                    .collect(),
            }),
            _ => Err("a seek curve is a list of [cylinders, milliseconds] that begins with one \
                      cylinder and goes up"
                .to_string()),
        }
    }
}
