use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::ceiling::reading::{LimitSource, Reading, Room};
use crate::ceiling::setting::{Bounds, CeilingError, Setting};

/// The safety buffer is this part of the memory, as its divisor: 2 GiB of 32.
const BUFFER_SHARE: u64 = 16;
/// Bounds of the safety buffer in bytes; but it is at most a quarter of the memory.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 64 << 20..=16 << 30;

/// Part of the buffer that what is missing must exceed before the ceiling moves, as its divisor.
const BAND_SHARE: u64 = 8;

/// The ceiling grows to what there was room for at all times of so long a past.
const CALM: Duration = Duration::from_secs(10);
/// Part of what is missing that the ceiling grows by in a second, as its divisor.
const GROWTH_SHARE: u32 = 8;
/// Least time between two steps of growth.
const GROWTH_INTERVAL: Duration = Duration::from_secs(1);

/// Part that is given back because of pressure although nothing seems to be missing, as its
/// divisor, and how often at most.
const PRESSED_SHARE: u64 = 32;
const PRESSED_INTERVAL: Duration = Duration::from_secs(1);
/// For so long after such pressure the ceiling grows only while twice the buffer stays free.
const WARY: Duration = Duration::from_secs(300);

/// Bytes a second that neighbours are expected to take at most. By the next look they have half of
/// what is left, so that there is time to give back.
const TAKING_RATE: u64 = 4 << 30;
/// Bounds of the time between two looks.
const LOOK_INTERVAL: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(1);
/// Least time between two looks while there is nothing to give back. The cache may have something
/// soon: it takes memory as fast as others.
const IDLE_INTERVAL: Duration = Duration::from_millis(100);
/// Time to the next look after one that found clearly less left than the one before.
const FALLING_INTERVAL: Duration = Duration::from_millis(2);

/// Looks that the memory of low targets keeps apart.
const LOWS_MAX: usize = 128;

/// Why the ceiling was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reason {
    /// An operator asked for it.
    Asked,
    /// What bounds the memory of this process was changed.
    Limit,
    /// Less than the safety buffer was left.
    Short {
        /// Of what.
        source: LimitSource,
    },
    /// The kernel told of pressure while little was left.
    Pressed,
    /// There was room again.
    Room,
}

/// A change of the ceiling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub from_bytes: u64,
    pub to_bytes: u64,
    pub reason: Reason,
}

/// Makes a ceiling of looks at the machine. Reads nothing and knows no clock.
///
/// What the cache may have, its *target*, is what it has plus what is available less a safety
/// buffer: what the resident memory of everything else leaves. The machine and each limited
/// control group have a target of their own, and the least counts. A cache that grows into free
/// memory does not change its target, since what it takes is no longer available; so there is no
/// feedback that could swing.
///
/// It shrinks at once, by what is missing, when that is more than a band. It grows slowly, by a
/// part of the gap each second, to the *least* target of the past seconds: noise of neighbours
/// makes it settle at their upper edge rather than follow them. Pressure that the kernel tells of
/// matters only while little is left, since that of the whole machine may stem from a group with
/// a limit of its own: then a small part is given back although nothing seems to be missing, and
/// for some minutes the cache keeps more distance.
#[derive(Debug)]
pub(crate) struct Governor {
    bounds: Bounds,
    ceiling_bytes: u64,
    /// Targets of the past [`CALM`] that no later one has undercut, the oldest and least first.
    lows: VecDeque<(Duration, u64)>,
    pressed_at: Option<Duration>,
    grown_at: Duration,
    /// What was left at the last look, and whether that was clearly less than before.
    left_bytes: u64,
    is_falling: bool,
}

impl Setting {
    /// The ceiling that this begins with on a machine as it was read.
    ///
    /// # Errors
    /// When it makes no sense there.
    pub fn ceiling_bytes(&self, reading: &Reading) -> Result<u64, CeilingError> {
        let bounds = self.bounds(&reading.memory())?;
        Ok(Governor::new(bounds, reading).ceiling_bytes())
    }
}

impl Governor {
    /// Begins with what there is room for.
    pub fn new(bounds: Bounds, reading: &Reading) -> Governor {
        let mut governor = Governor {
            bounds,
            ceiling_bytes: bounds.most_bytes,
            lows: VecDeque::new(),
            pressed_at: None,
            grown_at: Duration::ZERO,
            left_bytes: 0,
            is_falling: false,
        };
        governor.ceiling_bytes = governor.target(reading, 1).0;
        governor
    }

    /// The ceiling now.
    pub fn ceiling_bytes(&self) -> u64 {
        self.ceiling_bytes
    }

    /// Between what it moves.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Between what it moves from now on.
    pub fn set_bounds(&mut self, bounds: Bounds, reading: &Reading, reason: Reason) -> Change {
        let from_bytes = self.ceiling_bytes;
        let now = self.grown_at;
        *self = Governor::new(bounds, reading);
        self.grown_at = now;
        Change { from_bytes, to_bytes: self.ceiling_bytes, reason }
    }

    /// What to do after a look, which was due or, if `pressed`, which the kernel asked for.
    pub fn decide(&mut self, now: Duration, reading: &Reading, pressed: bool) -> Option<Change> {
        if self.bounds.is_fixed() {
            return None;
        }
        let (target, tightest) = self.target(reading, 1);
        let band = tightest.map_or(0, |room| buffer_bytes(room.limit_bytes) / BAND_SHARE);
        let left_bytes = reading.available_bytes();
        self.is_falling = left_bytes.saturating_add(band) < self.left_bytes;
        self.left_bytes = left_bytes;
        let pressed = pressed && reading.rooms.iter().any(is_near);
        let again = self.pressed_at.is_some_and(|at| now < at + PRESSED_INTERVAL);
        let mut goal = target;
        if pressed && !again {
            self.pressed_at = Some(now);
            let has = self.has_bytes(reading);
            goal = target.min(has - has / PRESSED_SHARE).max(self.bounds.floor_bytes);
        }
        let wary = self.pressed_at.is_some_and(|at| now < at + WARY);
        let distant = if wary { self.target(reading, 2).0 } else { target };
        self.note(now, distant.min(goal));
        let missing = self.ceiling_bytes.saturating_sub(goal);
        // Below a band only under pressure, or where nothing more can be missing later.
        if missing > band || missing > 0 && (pressed || goal == self.bounds.floor_bytes) {
            let reason = match (goal < target, tightest) {
                (false, Some(room)) => Reason::Short { source: room.source.clone() },
                _ => Reason::Pressed,
            };
            return Some(self.change(now, goal, reason));
        }
        self.grow(now, band)
    }

    /// When the next look is due: the sooner the less is left. `None` when nothing is ever to be
    /// decided.
    pub fn next_look(&self, reading: &Reading) -> Option<Duration> {
        if self.bounds.is_fixed() {
            return None;
        }
        let [least, most] = [*LOOK_INTERVAL.start(), *LOOK_INTERVAL.end()];
        let has_nothing = self.has_bytes(reading) <= self.bounds.floor_bytes;
        let least = if has_nothing { IDLE_INTERVAL } else { least };
        if self.is_falling && !has_nothing {
            return Some(FALLING_INTERVAL);
        }
        let left = reading.left_bytes();
        let half_lasts = |left| Duration::from_secs_f64(left as f64 / (2 * TAKING_RATE) as f64);
        Some(left.map_or(most, |left| half_lasts(left).clamp(least, most)))
    }

    /// What others leave of the memory, with what the cache has already; `None` when nothing tells,
    /// or the ceiling does not move.
    pub fn left_bytes(&self, reading: &Reading) -> Option<u64> {
        reading
            .left_bytes()
            .filter(|_| !self.bounds.is_fixed())
            .map(|available| available.saturating_add(self.has_bytes(reading)))
    }

    /// What can be given back. What the process takes beyond its ceiling does not belong to the
    /// cache, and counts as if it were another's.
    fn has_bytes(&self, reading: &Reading) -> u64 {
        reading.own_bytes.min(self.ceiling_bytes)
    }

    /// What the ceiling should be so that `buffers` times the safety buffer stays free, and the
    /// bound that decides it.
    fn target<'a>(&self, reading: &'a Reading, buffers: u64) -> (u64, Option<&'a Room>) {
        let has = self.has_bytes(reading);
        let of_room = |room: &'a Room| {
            let buffer = buffer_bytes(room.limit_bytes).saturating_mul(buffers);
            // Where a group hides what it takes, only its limit is known.
            let all = match room.available_bytes {
                Some(available) => has.saturating_add(available),
                None => room.limit_bytes,
            };
            (all.min(room.limit_bytes).saturating_sub(buffer), room)
        };
        let tightest = reading.rooms.iter().map(of_room).min_by_key(|(target, _)| *target);
        let Bounds { floor_bytes, most_bytes } = self.bounds;
        match tightest {
            _ if self.bounds.is_fixed() => (most_bytes, None),
            Some((target, room)) => (target.clamp(floor_bytes, most_bytes), Some(room)),
            // Nothing can be read: stay.
            None => (self.ceiling_bytes.clamp(floor_bytes, most_bytes), None),
        }
    }

    /// Remembers a target, and forgets those that are too old or that it undercuts.
    fn note(&mut self, now: Duration, target: u64) {
        while self.lows.back().is_some_and(|(_, low)| *low >= target) {
            self.lows.pop_back();
        }
        // So many that are apart: the last one then stands for its successors, which are higher.
        let apart = CALM / LOWS_MAX as u32;
        if self.lows.back().is_none_or(|(at, _)| now >= *at + apart) {
            self.lows.push_back((now, target));
        }
        while self.lows.front().is_some_and(|(at, _)| now > *at + CALM) {
            self.lows.pop_front();
        }
    }

    fn grow(&mut self, now: Duration, band: u64) -> Option<Change> {
        let low = self.lows.front().map_or(0, |(_, low)| *low);
        let gap = low.saturating_sub(self.ceiling_bytes);
        let elapsed = now.saturating_sub(self.grown_at);
        // All that was asked for is reached, anything less only nearly.
        if gap == 0 || gap <= band && low < self.bounds.most_bytes {
            self.grown_at = now;
            return None;
        }
        let part = elapsed.as_secs_f64() / f64::from(GROWTH_SHARE);
        let step = (gap as f64 * part.min(1.0)) as u64;
        // Small steps are saved up.
        let is_due = elapsed >= GROWTH_INTERVAL && step >= band.min(gap);
        is_due.then(|| self.change(now, self.ceiling_bytes + step, Reason::Room))
    }

    fn change(&mut self, now: Duration, to_bytes: u64, reason: Reason) -> Change {
        let change = Change { from_bytes: self.ceiling_bytes, to_bytes, reason };
        self.ceiling_bytes = to_bytes;
        self.grown_at = now;
        change
    }
}

/// What is to stay free of so much memory.
pub(crate) fn buffer_bytes(limit_bytes: u64) -> u64 {
    let buffer = (limit_bytes / BUFFER_SHARE).clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end());
    buffer.min(limit_bytes / 4)
}

/// Whether less than twice the safety buffer is left.
fn is_near(room: &Room) -> bool {
    room.available_bytes.is_some_and(|left| left < 2 * buffer_bytes(room.limit_bytes))
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Asked => formatter.write_str("set by an operator"),
            Reason::Limit => formatter.write_str("the memory that there may be was changed"),
            Reason::Short { source } => {
                write!(formatter, "less than the safety buffer was left of {source}")
            }
            Reason::Pressed => {
                formatter.write_str("the kernel told of memory pressure while little was left")
            }
            Reason::Room => formatter.write_str("there was room again"),
        }
    }
}

#[cfg(test)]
mod tests;
