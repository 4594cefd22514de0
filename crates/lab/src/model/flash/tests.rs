use proptest::prelude::*;
use storage::Random;

use super::*;

const BASE: &str = "
    capacity_bytes = 1048576
    page_bytes = 4096
    pages_per_block = 16
    channels = 1
    reserve_percent = 25
    cleaning = 'greedy'
    read_us = 25
    program_us = 200
    erase_us = 1500
    endurance_cycles = 1000000
    wear_gap_max = 1000000
    link_mb_s = 300
    command_us = 10
";

/// [`BASE`] with other values, and values that it does not have.
fn parameters(changes: &[(&str, &str)]) -> Result<FlashParameters, toml::de::Error> {
    let mut table: toml::Table = toml::from_str(BASE).expect("the base is TOML");
    for (key, value) in changes {
        let value: toml::Table = toml::from_str(&format!("value = {value}")).expect("a value");
        table.insert(key.to_string(), value["value"].clone());
    }
    toml::from_str(&table.to_string())
}

fn flash(changes: &[(&str, &str)]) -> Flash {
    Flash::new(&parameters(changes).expect("the parameters are good"), 1).expect("it can be built")
}

/// One channel of 2048 blocks of 64 pages, of which this share holds contents.
fn filled(utilisation: f64, cleaning: &str) -> Flash {
    let pages = (2048.0 * 64.0 * utilisation) as u64;
    flash(&[
        ("capacity_bytes", &(pages * 4096).to_string()),
        ("pages_per_block", "64"),
        ("reserve_percent", &format!("{:.3}", 100.0 * (1.0 - utilisation))),
        ("cleaning", &format!("'{cleaning}'")),
    ])
}

/// Writes all pages in order, then `rounds` times as many at random, and the same again counted.
fn amplification(mut flash: Flash, rounds: u64) -> f64 {
    let pages = flash.size_bytes() / 4096;
    let mut random = Random::new(7);
    let mut write = |page: u64| {
        flash.serve(0, Request::write(page * 4096, 4096)).expect("it is served");
    };
    (0..pages).for_each(&mut write);
    (0..pages * rounds).for_each(|_| write(random.below(pages)));
    flash.forget_counts();
    let mut write = |page: u64| {
        flash.serve(0, Request::write(page * 4096, 4096)).expect("it is served");
    };
    (0..pages * rounds).for_each(|_| write(random.below(pages)));
    flash.validate().expect("all sums are right");
    flash.write_amplification()
}

#[test]
fn random_writes_cost_what_theory_says() {
    // Share of contents, and what an independent simulation of greedy cleaning found.
    let table = [
        (0.50, 1.238),
        (0.60, 1.455),
        (0.70, 1.832),
        (0.80, 2.596),
        (0.85, 3.346),
        (0.90, 4.807),
        (0.93, 6.577),
    ];
    for (utilisation, greedy_known) in table {
        let theory = fifo_amplification(utilisation);
        let fifo = amplification(filled(utilisation, "fifo"), 8);
        let greedy = amplification(filled(utilisation, "greedy"), 8);
        println!("{utilisation}: theory {theory:.3} fifo {fifo:.3} greedy {greedy:.3}");
        assert!((fifo / theory - 1.0).abs() < 0.02, "{utilisation}: {fifo} and {theory}");
        assert!(
            (greedy / greedy_known - 1.0).abs() < 0.02,
            "{utilisation}: {greedy} and {greedy_known}"
        );
        assert!(greedy < fifo);
    }
    assert!((fifo_amplification(0.9) - 5.179).abs() < 0.001);
}

#[test]
fn a_ring_moves_nothing() {
    for cleaning in ["greedy", "fifo"] {
        let mut ring = filled(0.93, cleaning);
        let pages = ring.size_bytes() / 4096;
        for page in (0..pages * 10).map(|page| page % pages) {
            ring.serve(0, Request::write(page * 4096, 4096)).expect("it is served");
        }
        ring.validate().expect("all sums are right");
        let amplification = ring.write_amplification();
        assert!((1.0..1.02).contains(&amplification), "{cleaning}: {amplification}");
    }
}

/// Microseconds for each of these random writes, one after the other.
fn microseconds(flash: &mut Flash, now: &mut Nanoseconds, random: &mut Random, writes: u64) -> f64 {
    let (pages, start) = (flash.size_bytes() / 4096, *now);
    for _ in 0..writes {
        *now = flash
            .serve(*now, Request::write(random.below(pages) * 4096, 4096))
            .expect("it is served");
    }
    (*now - start) as f64 / 1e3 / writes as f64
}

#[test]
fn writes_fall_off_a_cliff_once_all_blocks_are_written() {
    let mut flash = filled(0.75, "greedy");
    let (mut now, mut random) = (0, Random::new(3));
    let fresh = microseconds(&mut flash, &mut now, &mut random, 100_000);
    let used = microseconds(&mut flash, &mut now, &mut random, 300_000);
    // Program and link against that plus moves and erasures.
    assert!((fresh - (200.0 + 10.0 + 4096.0 / 300.0)).abs() < 0.1, "{fresh}");
    assert!(used > 1.5 * fresh, "{used} after {fresh}");
}

#[test]
fn idle_time_and_trim_bring_the_speed_back() {
    let idle = [("idle_after_us", "1000"), ("idle_erased_percent", "10")];
    let mut tidy = flash(&[idle[0], idle[1], ("capacity_bytes", "16777216")]);
    let (mut now, mut random) = (0, Random::new(3));
    microseconds(&mut tidy, &mut now, &mut random, 20_000);
    let busy = microseconds(&mut tidy, &mut now, &mut random, 100);
    now += 10_000_000_000;
    let rested = microseconds(&mut tidy, &mut now, &mut random, 100);
    assert!(rested < 0.8 * busy, "{rested} after {busy}");

    let mut trimmed = filled(0.93, "greedy");
    let half = trimmed.size_bytes() / 8192 * 4096;
    let untrimmed = amplification(filled(0.93, "greedy"), 2);
    let (pages, mut random) = (half / 4096, Random::new(5));
    for page in 0..2 * pages {
        trimmed.serve(0, Request::write(page * 4096, 4096)).expect("it is served");
    }
    trimmed.serve(0, Request::discard(half, half)).expect("it is served");
    trimmed.forget_counts();
    for _ in 0..4 * pages {
        trimmed.serve(0, Request::write(random.below(pages) * 4096, 4096)).expect("it is served");
    }
    trimmed.validate().expect("all sums are right");
    assert!(trimmed.write_amplification() < 1.3, "{}", trimmed.write_amplification());
    assert!(untrimmed > 4.0);
}

#[test]
fn power_takes_what_no_capacitor_holds() {
    for protected in [false, true] {
        let buffer = format!("{{ bytes = 65536, super_capacitor = {protected} }}");
        let mut flash = flash(&[("buffer", &buffer)]);
        let mut now = 0;
        for page in 0..10 {
            now = flash.serve(now, Request::write(page * 4096, 4096)).expect("it is served");
        }
        // The link lets pages in faster than they are programmed.
        assert!(now < 10 * 200_000, "{now}");
        let mut flushed = flash.serve(now, Request::flush()).expect("it is served");
        assert_eq!(flushed > now + 1_000_000, !protected);
        assert_eq!(flash.lose_power(flushed), [0u64; 0], "what was flushed is safe");
        for page in 10..20 {
            let write = Request::write(page * 4096, 4096);
            flushed = flash.serve(flushed, write).expect("it is served");
        }
        let lost = flash.lose_power(flushed);
        match protected {
            true => assert_eq!(lost, [0u64; 0]),
            false => assert_eq!(lost.last(), Some(&(19 * 4096)), "{lost:?}"),
        }
        flash.validate().expect("all sums are right");
        // The device goes on after it.
        flash.serve(flushed, Request::write(0, 4096)).expect("it is served");
    }
}

/// Writes a tenth of the pages over and over, after all were written once, until it fails or the
/// writes are over; returns the writes.
fn wear_out(flash: &mut Flash, writes: u64) -> (u64, Option<Refusal>) {
    let pages = flash.size_bytes() / 4096;
    let mut random = Random::new(11);
    for write in 0..writes {
        let page = if write < pages { write } else { random.below(pages / 10) };
        if let Err(refusal) = flash.serve(0, Request::write(page * 4096, 4096)) {
            return (write, Some(refusal));
        }
    }
    (writes, None)
}

#[test]
fn wear_is_levelled_and_ends_in_reading_only() {
    let mut level = flash(&[("wear_gap_max", "8")]);
    let mut uneven = flash(&[]);
    for flash in [&mut level, &mut uneven] {
        assert_eq!(wear_out(flash, 100_000).1, None);
    }
    let gap = |flash: &Flash| flash.wear().erasures_max - flash.wear().erasures_min;
    assert!(gap(&level) <= 10, "{:?}", level.wear());
    assert!(gap(&uneven) > 100, "{:?}", uneven.wear());

    let life = |cycles: &str| {
        let mut flash = flash(&[
            ("capacity_bytes", "16777216"),
            ("wear_gap_max", "8"),
            ("endurance_cycles", cycles),
            ("endurance_spread_percent", "20"),
            ("factory_bad_percent", "2"),
        ]);
        let (writes, refusal) = wear_out(&mut flash, 20_000_000);
        let refusal = refusal.expect("it wears out");
        assert!(matches!(refusal, Refusal::WornOut { .. }), "{refusal}");
        assert!(flash.wear().life_left_percent < 25.0, "{:?}", flash.wear());
        assert!(flash.wear().bad_blocks > 1);
        println!("{writes} {:?}", flash.wear());
        flash.serve(0, Request::read(0, 4096)).expect("it can still be read");
        flash.validate().expect("all sums are right");
        writes
    };
    let (short, long) = (life("100"), life("1000"));
    let ratio = long as f64 / short as f64;
    assert!((8.0..12.0).contains(&ratio), "{short} {long}");
}

#[test]
fn channels_work_at_the_same_time() {
    let speed = |channels: &str| {
        let mut flash = flash(&[("channels", channels), ("capacity_bytes", "16777216")]);
        let start = (0..64)
            .map(|page| flash.serve(0, Request::write(page * 4096, 4096)).expect("it is served"))
            .max();
        start.expect("there are writes") as f64
    };
    let ratio = speed("1") / speed("8");
    assert!((7.0..=8.0).contains(&ratio), "{ratio}");
}

#[test]
fn bad_parameters_are_named() {
    let said = |changes: &[(&str, &str)]| match parameters(changes) {
        Err(error) => error.to_string(),
        Ok(parameters) => Flash::new(&parameters, 1).map(|_| ()).expect_err("it is refused"),
    };
    for (key, value, expected) in [
        ("read_us", "0", "must be a number above zero, and is 0"),
        ("read_us", "-2.5", "must be a number above zero, and is -2.5"),
        ("channels", "0", "expected a nonzero u32"),
        ("pages_per_block", "-1", "expected a nonzero u32"),
        ("speed", "1", "unknown field `speed`"),
        ("cleaning", "'magic'", "unknown variant `magic`"),
        ("reserve_percent", "100", "below 100"),
        ("reserve_percent", "1", "spare blocks"),
        ("capacity_bytes", "100", "less than a page"),
        ("capacity_bytes", "4611686018427387904", "scaled down"),
        ("page_bytes", "1", "at least 512"),
        ("endurance_spread_percent", "150", "below 100"),
    ] {
        let message = said(&[(key, value)]);
        assert!(message.contains(expected), "{key}: {message}");
    }
    let refusal = flash(&[]).serve(0, Request::read(u64::MAX, 2)).expect_err("out of range");
    assert!(refusal.to_string().contains("behind the device"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn all_that_is_written_and_not_discarded_is_there(
        fifo in any::<bool>(),
        buffered in any::<bool>(),
        steps in proptest::collection::vec((0..10u8, 0..256u64, 1..20_000u64), 1..600),
    ) {
        let cleaning = if fifo { "'fifo'" } else { "'greedy'" };
        let mut changes = vec![
            ("cleaning", cleaning), ("channels", "2"), ("wear_gap_max", "4"),
            ("idle_after_us", "50"), ("idle_erased_percent", "10"),
        ];
        if buffered {
            changes.push(("buffer", "{ bytes = 32768, super_capacitor = true }"));
        }
        let mut flash = flash(&changes);
        let mut written = std::collections::BTreeSet::new();
        let mut now = 0;
        for (step, page, pause) in steps {
            now += pause * 100;
            let (offset, bytes) = (page * 4096, 4096);
            let request = match step {
                0 => Request::discard(offset, bytes),
                1 => Request::flush(),
                2 => Request::read(offset, bytes),
                _ => Request::write(offset, bytes),
            };
            match step {
                0 => drop(written.remove(&page)),
                1 | 2 => (),
                _ => drop(written.insert(page)),
            }
            let done = flash.serve(now, request);
            prop_assert!(done.is_ok_and(|done| done > now));
        }
        flash.serve(now, Request::flush()).expect("it is served");
        flash.lose_power(now);
        prop_assert_eq!(flash.validate(), Ok(()));
        let there: Vec<u64> = (0..256)
            .filter(|page| {
                let channel = &flash.channels[(page % 2) as usize];
                channel.translation.is_written((page / 2) as u32)
            })
            .collect();
        prop_assert!(there.into_iter().eq(written));
    }
}
