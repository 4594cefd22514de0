use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Between two looks of the simulation; neighbours move meanwhile.
const STEP: Duration = Duration::from_millis(100);

/// A machine with one cache, which takes all that it may, and neighbours.
struct World {
    memory_bytes: u64,
    /// What the cache reads in a second.
    fill_bytes: u64,
    own_bytes: u64,
    now: Duration,
    governor: Governor,
    changes: Vec<Change>,
}

fn reading(memory_bytes: u64, own_bytes: u64, others_bytes: u64) -> Reading {
    let available = memory_bytes.saturating_sub(own_bytes + others_bytes);
    let room = Room {
        source: LimitSource::Machine,
        limit_bytes: memory_bytes,
        available_bytes: Some(available),
    };
    Reading { rooms: vec![room], own_bytes, notes: Vec::new() }
}

impl World {
    fn new(memory_bytes: u64, others_bytes: u64) -> World {
        let bounds = Bounds { floor_bytes: memory_bytes / 32, most_bytes: memory_bytes };
        let governor = Governor::new(bounds, &reading(memory_bytes, 0, others_bytes));
        let own_bytes = governor.ceiling_bytes();
        let (now, changes) = (Duration::ZERO, Vec::new());
        let fill_bytes = memory_bytes / 16;
        World { memory_bytes, fill_bytes, own_bytes, now, governor, changes }
    }

    fn buffer(&self) -> u64 {
        buffer_bytes(self.memory_bytes)
    }

    /// One look while neighbours have so much, or what they can get of it; what was changed.
    fn step(&mut self, others_bytes: u64, pressed: bool) -> Option<Change> {
        self.now += STEP;
        let others_bytes = others_bytes.min(self.memory_bytes - self.own_bytes);
        let fills = self.fill_bytes * STEP.as_millis() as u64 / 1000;
        let free = self.memory_bytes - self.own_bytes - others_bytes;
        self.own_bytes = (self.own_bytes + fills.min(free)).min(self.governor.ceiling_bytes());
        let look = reading(self.memory_bytes, self.own_bytes, others_bytes);
        let change = self.governor.decide(self.now, &look, pressed);
        self.own_bytes = self.own_bytes.min(self.governor.ceiling_bytes());
        let Bounds { floor_bytes, most_bytes } = self.governor.bounds();
        let ceiling = self.governor.ceiling_bytes();
        assert!((floor_bytes..=most_bytes).contains(&ceiling), "{ceiling} outside its bounds");
        assert!(self.governor.lows.len() <= LOWS_MAX + 1);
        self.changes.extend(change.clone());
        change
    }

    fn run(&mut self, time: Duration, mut others: impl FnMut(Duration) -> u64) {
        let start = self.now;
        while self.now < start + time {
            self.step(others(self.now - start), false);
        }
    }

    fn shrinks(&self) -> usize {
        self.changes.iter().filter(|change| change.to_bytes < change.from_bytes).count()
    }

    fn grows(&self) -> usize {
        self.changes.len() - self.shrinks()
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_buffer_is_two_of_thirty_two() {
    assert_eq!(buffer_bytes(32 * GIB), 2 * GIB);
    assert_eq!(buffer_bytes(1024 * GIB), 16 * GIB);
    assert_eq!(buffer_bytes(512 * MIB), 64 * MIB);
    assert_eq!(buffer_bytes(64 * MIB), 16 * MIB);
    let world = World::new(32 * GIB, 10 * GIB);
    assert_eq!(world.governor.ceiling_bytes(), 20 * GIB);
}

#[test]
fn a_quiet_machine_changes_nothing() {
    let mut world = World::new(32 * GIB, 10 * GIB);
    world.run(seconds(600), |_| 10 * GIB);
    assert_eq!(world.changes, []);
}

#[test]
fn what_a_neighbour_takes_is_given_back_at_once_and_comes_back_slowly() {
    let mut world = World::new(32 * GIB, 4 * GIB);
    assert_eq!(world.governor.ceiling_bytes(), 26 * GIB);
    world.run(seconds(5), |_| 4 * GIB);
    let change = world.step(12 * GIB, false).expect("it got the buffer, and wants more");
    assert_eq!((change.from_bytes, change.to_bytes), (26 * GIB, 24 * GIB));
    assert_eq!(change.reason, Reason::Short { source: LimitSource::Machine });
    world.run(seconds(1), |_| 12 * GIB);
    assert_eq!(world.governor.ceiling_bytes(), 18 * GIB);
    let shrinks = world.changes.len();
    world.run(seconds(60), |_| 12 * GIB);
    assert_eq!(world.changes.len(), shrinks, "no further change: {:?}", world.changes);
    // It leaves: nothing for a while, then growth only.
    world.run(CALM - seconds(1), |_| 4 * GIB);
    assert_eq!(world.changes.len(), shrinks);
    world.run(seconds(120), |_| 4 * GIB);
    assert_eq!(world.shrinks(), shrinks);
    assert!(world.grows() > 4, "in steps: {:?}", world.changes);
    let missing = 26 * GIB - world.governor.ceiling_bytes();
    assert!(missing <= world.buffer() / BAND_SHARE, "{missing} short of where it was");
}

#[test]
fn a_growing_neighbour_is_followed_without_a_turn() {
    let mut world = World::new(32 * GIB, 4 * GIB);
    world.run(seconds(100), |time| 4 * GIB + time.as_millis() as u64 * 160 * 1024);
    assert!(world.shrinks() > 10 && world.grows() == 0, "{:?}", world.changes);
    let taken = 4 * GIB + 100_000 * 160 * 1024;
    let left = 32 * GIB - taken - world.own_bytes;
    assert!(left >= world.buffer() / 2, "{left} bytes are left");
}

#[test]
fn the_floor_holds_and_nothing_below_it_is_asked_for() {
    let mut world = World::new(32 * GIB, 4 * GIB);
    world.run(seconds(10), |_| 32 * GIB);
    assert_eq!(world.governor.ceiling_bytes(), GIB);
    world.changes.clear();
    for _ in 0..100 {
        world.step(32 * GIB, true);
    }
    assert_eq!(world.changes, []);
}

#[test]
fn pressure_elsewhere_takes_nothing() {
    let mut world = World::new(32 * GIB, 4 * GIB);
    world.own_bytes = 4 * GIB;
    world.fill_bytes = 0;
    for _ in 0..100 {
        assert_eq!(world.step(4 * GIB, true), None, "20 GiB are free");
    }
}

/// Although pressure is told again and again, no more than another buffer is given up.
#[test]
fn lasting_pressure_does_not_collapse_the_cache() {
    let mut world = World::new(32 * GIB, 4 * GIB);
    for _ in 0..400 {
        world.step(4 * GIB, true);
    }
    let least = 26 * GIB - world.buffer() - 26 * GIB / PRESSED_SHARE;
    assert!(world.changes.iter().all(|change| change.to_bytes >= least), "{:?}", world.changes);
    // It keeps its distance, and with that its rest.
    world.changes.clear();
    for _ in 0..2000 {
        world.step(4 * GIB, true);
    }
    assert_eq!(world.changes, []);
    // Minutes later everything is as before.
    world.run(seconds(200), |_| 4 * GIB);
    let band = world.buffer() / BAND_SHARE;
    assert!(world.governor.ceiling_bytes() >= 26 * GIB - band, "{:?}", world.changes);
}

#[test]
fn what_is_given_never_moves() {
    let bounds = Bounds { floor_bytes: GIB, most_bytes: GIB };
    let mut governor = Governor::new(bounds, &reading(2 * GIB, 0, 2 * GIB));
    assert_eq!(governor.ceiling_bytes(), GIB);
    let full = reading(2 * GIB, GIB, GIB);
    assert_eq!(governor.decide(seconds(1), &full, true), None);
    assert_eq!(governor.next_look(&full), None);
}

#[test]
fn a_given_ceiling_with_a_floor_gives_way_and_comes_all_the_way_back() {
    let mut world = World::new(32 * GIB, 4 * GIB);
    let bounds = Bounds { floor_bytes: GIB, most_bytes: 8 * GIB };
    let asked =
        world.governor.set_bounds(bounds, &reading(32 * GIB, 26 * GIB, 4 * GIB), Reason::Asked);
    assert_eq!((asked.to_bytes, asked.reason), (8 * GIB, Reason::Asked));
    world.own_bytes = 8 * GIB;
    world.run(seconds(5), |_| 28 * GIB);
    assert_eq!(world.governor.ceiling_bytes(), 2 * GIB);
    world.run(seconds(200), |_| 4 * GIB);
    assert_eq!(world.governor.ceiling_bytes(), 8 * GIB);
}

#[test]
fn looks_come_the_sooner_the_less_is_left() {
    let mut world = World::new(32 * GIB, 4 * GIB);
    let mut after = |own, others| {
        let reading = reading(32 * GIB, own, others);
        world.governor.decide(seconds(1), &reading, false);
        world.governor.next_look(&reading).expect("it looks")
    };
    assert_eq!(after(8 * GIB, 8 * GIB), seconds(1));
    assert_eq!(after(20 * GIB, 10 * GIB), FALLING_INTERVAL, "half of it within one look");
    assert_eq!(after(20 * GIB, 10 * GIB), Duration::from_millis(250));
    assert_eq!(after(20 * GIB, 12 * GIB), FALLING_INTERVAL);
    assert_eq!(after(20 * GIB, 12 * GIB), *LOOK_INTERVAL.start());
    assert_eq!(after(0, 32 * GIB), IDLE_INTERVAL, "nothing to give back yet");
    assert_eq!(after(0, 4 * GIB), seconds(1), "nothing to give back, and room to grow");
}

#[test]
fn the_tightest_of_machine_and_groups_decides() {
    let mut both = reading(32 * GIB, GIB, 4 * GIB);
    let group = LimitSource::ControlGroup("/g/memory.max".into());
    both.rooms.push(Room {
        source: group.clone(),
        limit_bytes: 4 * GIB,
        available_bytes: Some(2 * GIB),
    });
    let bounds = Bounds { floor_bytes: GIB / 8, most_bytes: 4 * GIB };
    let mut governor = Governor::new(bounds, &both);
    // 1 GiB of its own counts only once the ceiling is known: at first all of it is the cache's.
    assert_eq!(governor.ceiling_bytes(), 3 * GIB - GIB / 4);
    both.rooms[1].available_bytes = Some(0);
    let change = governor.decide(seconds(1), &both, false).expect("nothing is left");
    assert_eq!(change.to_bytes, GIB - GIB / 4);
    assert_eq!(change.reason, Reason::Short { source: group });
}

#[test]
fn what_cannot_be_read_changes_nothing() {
    let mut world = World::new(32 * GIB, 4 * GIB);
    let blind = Reading { rooms: Vec::new(), own_bytes: 26 * GIB, notes: Vec::new() };
    assert_eq!(world.governor.decide(seconds(1), &blind, true), None);
    assert_eq!(world.governor.next_look(&blind), Some(seconds(1)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However neighbours move, slower than is expected of them at most: nobody runs out of
    /// memory while the cache has something to give.
    #[test]
    fn nobody_runs_out(
        memory_gib in 1u64..256,
        moves in prop::collection::vec((0u64..100, 1u64..40), 1..12),
    ) {
        let memory = memory_gib * GIB;
        let mut world = World::new(memory, memory / 10);
        // In one step neighbours take at most half of what is left free.
        let most_a_step = world.buffer() / 2;
        let mut others = memory / 10;
        for (percent, steps) in moves {
            let aim = memory / 100 * percent;
            for _ in 0..steps * 5 {
                others = aim.clamp(others.saturating_sub(most_a_step), others + most_a_step);
                let floor = world.governor.bounds().floor_bytes;
                let free = memory - world.own_bytes;
                prop_assert!(
                    others < free || world.own_bytes <= floor,
                    "{others} wanted, {free} free or taken, floor {floor}"
                );
                others = others.min(free);
                world.step(others, false);
            }
        }
    }

    /// Noise of any size settles: after half a minute the ceiling does not move any more, and it
    /// leaves what the noise needs.
    #[test]
    fn noise_does_not_make_it_swing(
        memory_gib in 2u64..256,
        bands in 0u64..8,
        seed in prop::collection::vec(0u64..=1000, 97),
    ) {
        let memory = memory_gib * GIB;
        let mut world = World::new(memory, memory / 4);
        let band = world.buffer() / BAND_SHARE;
        let noise = |time: Duration| {
            let part = seed[(time.as_millis() / STEP.as_millis()) as usize % seed.len()];
            memory / 4 + bands * band / 1000 * part
        };
        world.run(seconds(30), noise);
        world.changes.clear();
        world.run(seconds(300), noise);
        prop_assert_eq!(&world.changes, &[]);
        let highest = seed.iter().max().expect("not empty");
        let room = memory - memory / 4 - bands * band / 1000 * highest - world.buffer();
        prop_assert!(world.governor.ceiling_bytes() <= room + band);
        prop_assert!(world.governor.ceiling_bytes() + 2 * band >= room.min(memory));
    }

    /// A single step up and down leads back to where it was, with one turn.
    #[test]
    fn a_step_makes_one_turn(memory_gib in 2u64..256, percent in 1u64..60, held in 1u64..100) {
        let memory = memory_gib * GIB;
        let mut world = World::new(memory, memory / 10);
        let before = world.governor.ceiling_bytes();
        world.run(seconds(held), |_| memory / 10 + memory / 100 * percent);
        let grown_before = world.grows();
        prop_assert_eq!(grown_before, 0);
        world.run(seconds(200), |_| memory / 10);
        let first_growth = world.changes.iter().position(|change| change.reason == Reason::Room);
        let after = first_growth.unwrap_or(world.changes.len());
        prop_assert!(world.changes[after..].iter().all(|change| change.reason == Reason::Room));
        let band = world.buffer() / BAND_SHARE;
        prop_assert!(world.governor.ceiling_bytes().abs_diff(before) <= band);
    }
}
