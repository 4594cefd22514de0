use super::*;

/// A machine with small caches, and what twenty clients at random get done on it in a second.
fn run(seed: u64) -> (u64, u64, Traffic, Traffic) {
    let mut parameters = MachineParameters::shipped("storage-server-2019").expect("shipped");
    parameters.divisor = std::num::NonZeroU64::new(1 << 14).expect("not zero");
    let machine = Machine::new(&parameters, seed).expect("it can be built");
    let blocks = 20_000;
    let file = machine.file("data", blocks * 4096);
    let mut random = storage::Random::new(seed);
    let steps: Steps = Arc::new(Mutex::new(move || {
        let offset = random.below(blocks) * 4096;
        Some(Step { file: file.clone(), offset, bytes: 4096, write: random.below(10) == 0 })
    }));
    let threads = vec![steps; 20];
    let tally = machine.load(&threads, Some(Duration::from_secs(1)));
    assert!(tally.mean_ms() > 1.0 && tally.quantile_ms(0.99) > tally.mean_ms());
    let work = machine.devices();
    assert!(work.disks_busy_percent() > 1.0 && work.disks_busy_percent() < 100.0);
    assert!(work.disks.writes > 0 && work.disks.written_bytes >= work.disks.writes * 4096);
    let response = tally.response_ns.max();
    (tally.operations, response, work.disks, work.caches)
}

#[test]
fn a_seed_repeats_a_run_of_the_engine() {
    let once = run(1);
    assert_eq!(once, run(1));
    assert_ne!(once, run(2));
    assert!(once.0 > 500, "{once:?}");
}

#[test]
fn caches_that_do_not_fit_here_say_by_what_to_divide() {
    let mut parameters = MachineParameters::shipped("storage-server-2019").expect("shipped");
    let caches = parameters.caches.as_mut().expect("it has some");
    (caches.count, caches.bytes) = (4, std::num::NonZeroU64::new(1 << 40).expect("not zero"));
    parameters.divisor = std::num::NonZeroU64::new(127).expect("not zero");
    let said = |parameters: &MachineParameters| match Machine::new(parameters, 1) {
        Ok(_) => panic!("it does not fit"),
        Err(error) => error.to_string(),
    };
    assert!(said(&parameters).contains("set divisor = 128 or more"), "{}", said(&parameters));
    parameters.caches.as_mut().expect("it has some").count = 65;
    assert!(said(&parameters).contains("65 caches, and at most 64"), "{}", said(&parameters));
}

#[test]
fn machines_that_come_with_the_lab_can_be_built() {
    for name in MachineParameters::names() {
        let parameters = MachineParameters::shipped(name).expect("shipped");
        Machine::new(&parameters, 1).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// All threads have a request under way at any time: so many over the mean response are the rate,
/// also where the slowest do not end while it is measured.
#[test]
fn responses_keep_littles_law() {
    let mut parameters = MachineParameters::shipped("storage-server-2019").expect("shipped");
    parameters.divisor = std::num::NonZeroU64::new(1 << 12).expect("not zero");
    parameters.caches = None;
    let machine = Machine::new(&parameters, 1).expect("it can be built");
    let blocks = 1 << 16;
    let file = machine.file("data", blocks * 4096);
    let mut random = storage::Random::new(1);
    let steps: Steps = Arc::new(Mutex::new(move || {
        let offset = random.below(blocks) * 4096;
        Some(Step { file: file.clone(), offset, bytes: 4096, write: false })
    }));
    let threads = 2000;
    let load = machine.begin(&vec![steps; threads]);
    load.during(Duration::from_millis(20));
    let tally = load.during(Duration::from_millis(50));
    load.end();
    let under_way = tally.operations_per_s() * tally.mean_ms() / 1e3;
    assert!((under_way / threads as f64 - 1.0).abs() < 0.01, "{under_way} of {threads}");
    // Of those that ended the mean is another one.
    assert!(tally.response_ns.mean() / 1e6 < 0.9 * tally.mean_ms(), "{tally:?}");
}
