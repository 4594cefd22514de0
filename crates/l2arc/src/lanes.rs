use std::time::Duration;

/// Bytes written and time that tell how fast a shape is at least.
const WINDOW_BYTES: u64 = 32 << 20;
const WINDOW: Duration = Duration::from_millis(20);
/// Windows of a trial, half of them of the shape that is tried, by turns.
const TRIAL: u32 = 8;
/// Windows between two trials at first and at most; twice as many after each in vain.
const PATIENCE: (u32, u32) = (2, 128);
/// A larger shape must be faster by so many percent.
const GAIN_PERCENT: u128 = 4;
/// Most writes at a time, and how many times a chunk is as long as it is meant to be at most.
const COUNT_MAX: usize = 16;
const LENGTHS_MAX: usize = 4;
/// Where the search begins in the row of shapes.
const FIRST: usize = 3;

/// How many writes a device has at a time, and how long each is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) count: usize,
    pub(crate) chunk_bytes: usize,
}

/// Finds the shape of writes that a device wants: the least that is as fast as any, since a read
/// waits for the writes before it.
///
/// Shapes stand in a row, each with twice as many bytes under way as the one before. Now and then,
/// while there is more to write than is under way, a neighbour is tried: by turns with the chosen
/// one, so that what else goes on at the device strikes both. Nothing of this is written down:
/// another start finds out anew.
#[derive(Debug, Clone)]
pub(crate) struct Lanes {
    shapes: Vec<Shape>,
    chosen: usize,
    /// Bytes a second of the chosen shape; 0 as long as it is not known.
    rate: u64,
    trial: Option<Trial>,
    /// Whether the next trial is of a larger shape.
    upward: bool,
    patience: u32,
    /// Windows until the next trial.
    windows_left: u32,
    window_bytes: u64,
    began: Option<Duration>,
}

/// A comparison of the chosen shape with a neighbour.
#[derive(Debug, Clone, Copy)]
struct Trial {
    neighbour: usize,
    windows: u32,
    /// Nanoseconds for a GiB, summed over the windows of the chosen
    /// shape and of its neighbour.
    cost: [u128; 2],
}

impl Lanes {
    /// Shapes of at least one chunk of `chunk_bytes`, of which `buffers_bytes_max` hold twice as
    /// much as is under way.
    pub(crate) fn new(chunk_bytes: usize, buffers_bytes_max: usize) -> Lanes {
        let counts = (0..).map(|step| 1 << step).take_while(|count| *count <= COUNT_MAX);
        let shapes = counts.map(|count| Shape { count, chunk_bytes });
        let lengths = (1..).map(|step| 1 << step).take_while(|length| *length <= LENGTHS_MAX);
        let longer = lengths.map(|times| {
            let chunk_bytes = chunk_bytes.saturating_mul(times);
            Shape { count: COUNT_MAX, chunk_bytes }
        });
        let fits = |it: &Shape| it.count.saturating_mul(it.chunk_bytes) <= buffers_bytes_max / 2;
        let first = Shape { count: 1, chunk_bytes };
        let mut shapes: Vec<Shape> = shapes.chain(longer).filter(fits).collect();
        if shapes.is_empty() {
            shapes.push(first);
        }
        Lanes {
            chosen: (shapes.len() - 1).min(FIRST),
            shapes,
            rate: 0,
            trial: None,
            upward: true,
            patience: PATIENCE.0,
            windows_left: PATIENCE.0,
            window_bytes: 0,
            began: None,
        }
    }

    /// The shape that is in force.
    pub(crate) fn shape(&self) -> Shape {
        let tried = self.trial.filter(|trial| trial.windows % 2 == 1).map(|trial| trial.neighbour);
        self.shapes[tried.unwrap_or(self.chosen)]
    }

    /// The shape that has done best, and its bytes a second, if that is known.
    pub(crate) fn chosen(&self) -> (Shape, u64) {
        (self.shapes[self.chosen], self.rate)
    }

    /// A write of `bytes` has ended. Only while more is `waiting` does it tell how fast the device
    /// is.
    pub(crate) fn wrote(&mut self, bytes: u64, waiting: bool, now: Duration) {
        let began = match self.began {
            Some(began) if waiting => began,
            _ => {
                self.began = waiting.then_some(now);
                self.window_bytes = 0;
                return;
            }
        };
        self.window_bytes += bytes;
        let elapsed = now.saturating_sub(began);
        if self.window_bytes < WINDOW_BYTES || elapsed < WINDOW {
            return;
        }
        self.judge(self.window_bytes, elapsed);
        // What is under way yet belongs to the old shape.
        self.began = None;
    }

    /// Takes in how fast the shape in force was for a window.
    fn judge(&mut self, bytes: u64, elapsed: Duration) {
        let cost = (elapsed.as_nanos() << 30) / u128::from(bytes);
        let mut tried = false;
        if let Some(trial) = &mut self.trial {
            tried = trial.windows % 2 == 1;
            trial.cost[usize::from(tried)] += cost;
            trial.windows += 1;
        }
        if !tried {
            let rate = (1_000_000_000 << 30) / cost.max(1);
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            self.rate = if self.rate == 0 { rate } else { self.rate / 4 * 3 + rate / 4 };
        }
        match self.trial {
            Some(trial) if trial.windows == TRIAL => self.decide(trial),
            Some(_) => {}
            None => {
                self.windows_left = self.windows_left.saturating_sub(1);
                if self.windows_left == 0 {
                    self.try_another();
                }
            }
        }
    }

    fn decide(&mut self, trial: Trial) {
        let Trial { neighbour, cost: [chosen, tried], .. } = trial;
        let percent = if neighbour > self.chosen { 100 + GAIN_PERCENT } else { 100 };
        if tried * percent <= chosen * 100 {
            self.chosen = neighbour;
            self.rate = 0;
            self.patience = PATIENCE.0;
        } else {
            self.upward = !self.upward;
            self.patience = (self.patience * 2).min(PATIENCE.1);
        }
        self.trial = None;
        self.windows_left = self.patience;
    }

    fn try_another(&mut self) {
        let above = Some(self.chosen + 1).filter(|above| *above < self.shapes.len());
        let below = self.chosen.checked_sub(1);
        let neighbour = if self.upward { above.or(below) } else { below.or(above) };
        self.trial = neighbour.map(|neighbour| Trial { neighbour, windows: 0, cost: [0; 2] });
        self.windows_left = self.patience;
    }

    /// # Panics
    /// When a shape is chosen that is not there.
    pub(crate) fn validate(&self) {
        assert!(self.chosen < self.shapes.len());
        assert!(self.trial.is_none_or(|trial| trial.neighbour < self.shapes.len()));
        assert!(self.trial.is_none_or(|trial| trial.neighbour != self.chosen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Writes for as many windows over a device with so many bytes a second for each shape.
    fn run(lanes: &mut Lanes, windows: u32, rate: impl Fn(Shape) -> u64) {
        let mut now = Duration::from_secs(1);
        for _ in 0..windows * 40 {
            let shape = lanes.shape();
            now += Duration::from_nanos(MIB as u64 * 1_000_000_000 / rate(shape));
            lanes.wrote(MIB as u64, true, now);
            lanes.validate();
        }
    }

    #[test]
    fn it_ends_with_the_least_that_is_as_fast_as_any() {
        for wanted in [1, 2, 4, 8, 16] {
            let mut lanes = Lanes::new(MIB, 256 * MIB);
            run(&mut lanes, 1000, |shape| 100_000_000 * shape.count.min(wanted) as u64);
            assert_eq!(lanes.chosen().0, Shape { count: wanted, chunk_bytes: MIB });
        }
        let mut lanes = Lanes::new(MIB, 256 * MIB);
        run(&mut lanes, 1000, |shape| (shape.count * shape.chunk_bytes) as u64);
        assert_eq!(lanes.chosen().0, Shape { count: 16, chunk_bytes: 4 * MIB });
    }

    #[test]
    fn it_follows_a_device_that_changes() {
        let mut lanes = Lanes::new(MIB, 256 * MIB);
        run(&mut lanes, 1000, |_| 500_000_000);
        assert_eq!(lanes.chosen().0.count, 1);
        run(&mut lanes, 1000, |shape| 100_000_000 * shape.count.min(8) as u64);
        assert_eq!(lanes.chosen().0.count, 8);
    }

    #[test]
    fn buffers_bound_what_is_under_way() {
        for buffers in [0, MIB, 7 * MIB, 32 * MIB, 64 * MIB] {
            let lanes = Lanes::new(MIB, buffers);
            let most = lanes.shapes.last().expect("one at least");
            assert!(most.count * most.chunk_bytes <= (buffers / 2).max(MIB), "{most:?}");
        }
    }

    #[test]
    fn a_device_that_is_not_busy_tells_nothing() {
        let mut lanes = Lanes::new(MIB, 256 * MIB);
        let before = lanes.shape();
        for second in 0..1000 {
            lanes.wrote(MIB as u64, second % 10 != 0, Duration::from_secs(second));
        }
        assert_eq!((lanes.shape(), lanes.chosen().1), (before, 0));
    }
}
