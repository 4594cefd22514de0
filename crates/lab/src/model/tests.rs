use storage::Random;

use super::*;

/// A network whose far end takes no time: everything waits for one link.
struct Nothing;

impl Model for Nothing {
    fn size_bytes(&self) -> u64 {
        1 << 40
    }

    fn serve(&mut self, now: Nanoseconds, _: Request) -> Result<Nanoseconds, Refusal> {
        Ok(now)
    }
}

fn positive(number: f64) -> Positive {
    Positive::try_from(number).expect("it is above zero")
}

/// The pauses between arrivals that know nothing of each other.
fn arrivals(seed: u64, mean_ns: f64) -> impl Iterator<Item = Nanoseconds> {
    let mut random = Random::new(seed);
    let mut now = 0.0;
    std::iter::repeat_with(move || {
        let unit = (random.draw() >> 11) as f64 / (1u64 << 53) as f64;
        now -= mean_ns * (1.0 - unit).ln();
        now as Nanoseconds
    })
}

#[test]
fn waiting_times_are_those_of_the_m_d_1_queue() {
    for load in [0.3, 0.6, 0.8] {
        let mut processor = Processor::new(&ProcessorParameters {
            cores: 1.try_into().expect("one is not zero"),
            operation_us: positive(1000.0),
            copy_mb_s: positive(1e6),
        });
        let (service, count) = (1e6, 1_000_000);
        let waits = arrivals(1, service / load)
            .take(count)
            .map(|now| (processor.work(now, 0) - now) as f64 - service);
        let mean = waits.sum::<f64>() / count as f64;
        // Pollaczek and Khinchine, for a service that always takes the same.
        let theory = load * service / (2.0 * (1.0 - load));
        assert!((mean / theory - 1.0).abs() < 0.03, "{load}: {mean} for {theory}");
    }
}

#[test]
fn a_network_adds_its_way_and_is_shared() {
    let parameters =
        NetworkParameters { round_trip_us: positive(200.0), link_mb_s: positive(100.0) };
    let mut network = Network::new(&parameters, Nothing);
    let megabyte = Request::read(0, 1_000_000);
    assert_eq!(network.serve(0, Request::read(0, 0)), Ok(200_000));
    assert_eq!(network.serve(1_000_000, megabyte), Ok(11_200_000));
    assert_eq!(network.serve(1_000_000, megabyte), Ok(21_200_000), "one link for both");
    // The other direction is another link.
    assert_eq!(network.serve(1_000_000, Request::write(0, 1_000_000)), Ok(21_200_000));
}

#[test]
fn an_object_store_answers_many_at_a_time() {
    let Ok(Equipment::ObjectStore(parameters)) = Equipment::shipped("object-store") else {
        panic!("it comes with the lab")
    };
    let mut store = ObjectStore::new(&parameters, 1).expect("it can be built");
    let count = u64::from(parameters.requests_max.get());
    let times: Vec<f64> = (0..20 * count)
        .map(|step| {
            let now = step / count * 10_000_000_000;
            (store.serve(now, Request::read(0, 0)).expect("it is served") - now) as f64 / 1e6
        })
        .collect();
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    assert!((mean / 25.0 - 1.0).abs() < 0.05, "{mean}");
    assert!(times.iter().all(|&time| time >= 20.0));
    let mut bad = parameters.clone();
    bad.first_byte_mean_ms = positive(1.0);
    assert!(ObjectStore::new(&bad, 1).expect_err("refused").contains("first_byte_min_ms"));
}

#[test]
fn solid_state_reads_quicker_than_it_writes_and_in_parallel() {
    let Ok(Equipment::SolidState(parameters)) = Equipment::shipped("nvme") else {
        panic!("it comes with the lab")
    };
    let rate = |write: bool, depth: usize| {
        let mut queue = InOrder::new(SolidState::new(&parameters));
        let (mut random, mut now) = (Random::new(4), 0);
        let mut submit = |queue: &mut InOrder<SolidState>, now| {
            let offset = random.below(1 << 26) * 4096;
            let request =
                if write { Request::write(offset, 4096) } else { Request::read(offset, 4096) };
            queue.submit(now, request);
        };
        (0..depth).for_each(|_| submit(&mut queue, 0));
        for _ in 0..20_000 {
            now = queue.due().expect("there is always one");
            queue.complete(now).expect("it is due").outcome.expect("it is served");
            submit(&mut queue, now);
        }
        20_000e9 / now as f64
    };
    let alone = rate(false, 1);
    assert!((alone / (1e9 / 86_280.0) - 1.0).abs() < 0.01, "{alone}");
    assert!(rate(false, 64) > 20.0 * alone);
    assert!(rate(true, 64) < 0.6 * rate(false, 64));
}

#[test]
fn a_mirror_shares_reads_and_writes_to_both_sides() {
    let Ok(Equipment::Disk(parameters)) = Equipment::shipped("seagate-cheetah-9lp") else {
        panic!("it comes with the lab")
    };
    let time = |sides: usize, write: bool| {
        let disks = (0..sides).map(|_| Disk::new(&parameters).expect("it can be built"));
        let mut mirror = Mirror::new(disks.collect()).expect("there are disks");
        let (sectors, mut random) = (mirror.size_bytes() / 512, Random::new(2));
        let times = (0..1000).map(|_| {
            let offset = random.below(sectors - 8) * 512;
            let request =
                if write { Request::write(offset, 4096) } else { Request::read(offset, 4096) };
            mirror.serve(0, request).expect("it is served")
        });
        times.max().expect("there are requests") as f64
    };
    let speed_up = time(1, false) / time(2, false);
    assert!((1.9..2.6).contains(&speed_up), "{speed_up}");
    assert!(time(2, true) >= time(1, true));
    assert!(Mirror::<Disk>::new(Vec::new()).is_err());
}
