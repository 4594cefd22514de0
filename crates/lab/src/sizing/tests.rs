use super::*;

fn plan() -> SizingPlan {
    SizingPlan {
        policies: vec![PolicyName::Lru, PolicyName::Auto],
        record_bytes: vec![None],
        ram: vec![Size::Fraction(0.05), Size::Fraction(0.2)],
        flash: vec![Size::Fraction(0.5)],
        flash_devices: vec!["nvme".to_owned()],
        without_flash: true,
        disk: "nearline-7200".to_owned(),
        disks: vec![NonZeroU32::MIN],
        requests_per_s: None,
        sample_percent: None,
        prices: Prices::shipped().expect("they can be read"),
    }
}

/// Blocks of which a few are asked for often.
fn skewed() -> Trace {
    let mut random = storage::Random::new(3);
    let blocks = (0..400_000).map(|_| {
        let range = 1 + random.below(60_000);
        random.below(range)
    });
    Trace::from_blocks("skewed", blocks, 4096)
}

#[test]
fn shares_are_those_of_a_replay_and_more_money_buys_more() {
    let trace = skewed();
    let sizing = sizing(&trace, &plan(), &|_, _| ()).expect("it can be tried");
    assert_eq!((sizing.choices.len(), sizing.sample_percent), (8, 100.0));
    let find = |policy, flash: bool| {
        let of = |choice: &&Choice| choice.policy == policy && (choice.flash_bytes > 0) == flash;
        sizing.choices.iter().filter(of).collect::<Vec<_>>()
    };
    // RAM for records pays for their headers.
    let header = u64::from(Shipped::record_overhead());
    for choice in find("lru", false) {
        let slots = choice.ram_bytes / (4096 + header);
        assert!(choice.uncached_ms > choice.response_ms, "{choice:?}");
        let misses = crate::StackDistances::of(&trace).misses()[slots as usize];
        let percent = 100.0 * (1.0 - misses as f64 / trace.requests() as f64);
        assert!((choice.ram_hit_percent - percent).abs() < 1e-6, "{choice:?} {percent}");
    }
    for (without, with) in find("auto", false).iter().zip(find("auto", true)) {
        assert!(with.price > without.price && with.response_ms < without.response_ms);
        assert!(with.flash_hit_percent > 10.0 && with.flash_written_bytes > 0.0, "{with:?}");
        assert_eq!(with.error_points, None);
    }
    let worthwhile = sizing.worthwhile();
    assert!(worthwhile.is_sorted_by(|a, b| a.price <= b.price && a.response_ms > b.response_ms));
    let best = sizing.cheapest(None, None).expect("there is one");
    assert_eq!(best.response_ms, worthwhile.last().and_then(|choice| choice.response_ms));
    assert_eq!(sizing.cheapest(Some(0.001), None), None, "no device is so quick");
    assert_eq!(sizing.cheapest(None, Some(1.0)), None, "a disk costs more");
}

#[test]
fn a_sample_is_near_the_whole_and_a_rate_makes_queues() {
    let trace = skewed();
    let exact = sizing(&trace, &plan(), &|_, _| ()).expect("it can be tried");
    let sample_percent = Some(Positive::try_from(20.0).expect("above zero"));
    let sampled = SizingPlan { sample_percent, ..plan() };
    let sampled = sizing(&trace, &sampled, &|_, _| ()).expect("it can be tried");
    let key = |choice: &Choice| (choice.policy, choice.ram_bytes, choice.flash_bytes);
    for choice in &exact.choices {
        let other = sampled.choices.iter().find(|other| key(other) == key(choice)).expect("same");
        let disk = |choice: &Choice| 100.0 - choice.ram_hit_percent - choice.flash_hit_percent;
        let off = (disk(choice) - disk(other)).abs();
        assert!(off < 2.0, "{off}: {choice:?} {other:?}");
        assert!(other.error_points.is_some_and(|points| points > 0.0));
    }
    let rate = |per_s: f64| {
        let requests_per_s = Some(Positive::try_from(per_s).expect("above zero"));
        let plan = SizingPlan { requests_per_s, ..plan() };
        sizing(&trace, &plan, &|_, _| ()).expect("it can be tried")
    };
    let response = |sizing: &Sizing| sizing.cheapest(None, None).and_then(|it| it.response_ms);
    assert!(response(&rate(200.0)) > response(&exact), "queues take time");
    let busy = rate(50_000.0);
    assert!(busy.choices.iter().any(|choice| choice.response_ms.is_none()), "one disk is too few");
    let worn = busy.choices.iter().find(|choice| choice.flash_bytes > 0).expect("there is one");
    assert!(worn.flash_life_years.is_some_and(|years| years > 0.0));
}

/// What `warmfront record --sample` leaves of a load gives the shares of the whole.
#[test]
fn a_recording_of_a_quarter_is_scaled_to_the_whole() {
    const CHUNK_BLOCKS: u64 = 16;
    let mut random = storage::Random::new(5);
    let blocks: Vec<u64> = (0..400_000)
        .map(|_| {
            let range = 1 + random.below(60_000);
            storage::Random::new(random.below(range)).below(120_000)
        })
        .collect();
    let recording = |percent: u64| {
        let chosen =
            |block: &&u64| storage::Random::new(**block / CHUNK_BLOCKS).below(100) < percent;
        let mut text = format!("warmfront recording 1, {percent} % of all contents\n");
        for block in blocks.iter().filter(chosen) {
            let offset = block * 4096;
            text.push_str(&format!("1 r 00ab {offset} 4096\n"));
        }
        let text = std::io::Cursor::new(text.into_bytes());
        Trace::from_reader(std::path::Path::new("x"), text, None).expect("it is a recording")
    };
    let (whole, quarter) = (recording(100), recording(25));
    let plan = SizingPlan { ram: vec![Size::Bytes(8 << 20), Size::Fraction(0.2)], ..plan() };
    let size = |trace| sizing(trace, &plan, &|_, _| ()).expect("it can be tried");
    let (all, part) = (size(&whole), size(&quarter));
    assert_eq!((all.recorded_percent, part.recorded_percent), (100.0, 25.0));
    for choice in all.choices.iter().filter(|choice| choice.flash_bytes == 0) {
        let same = |other: &&Choice| {
            let ratio = other.ram_bytes as f64 / choice.ram_bytes as f64;
            other.policy == choice.policy && other.flash_bytes == 0 && (0.9..1.1).contains(&ratio)
        };
        let other = part.choices.iter().find(same).expect("the same sizes");
        let off = (choice.ram_hit_percent - other.ram_hit_percent).abs();
        assert!(off < 3.0, "{choice:?} {other:?}");
        assert!(other.error_points.is_some_and(|points| points > 0.0), "{other:?}");
    }
    let plan = crate::Replay {
        policies: vec![PolicyName::Lru],
        sizes: vec![Size::Bytes(8 << 20)],
        form: crate::Form::Plain,
    };
    let row = |trace| crate::replay(trace, &plan, &|_| ()).remove(0);
    let (all, part) = (row(&whole), row(&quarter));
    assert_eq!(all.capacity_bytes, part.capacity_bytes);
    assert!((all.miss_ratio - part.miss_ratio).abs() < 0.03, "{all:?} {part:?}");
}

#[test]
fn neighbours_in_one_record_are_read_once() {
    let trace = Trace::from_blocks("scan", 0..64_000, 4096);
    let plan = SizingPlan { record_bytes: vec![Some(4096), Some(65_536)], ..plan() };
    let found = sizing(&trace, &plan, &|_, _| ()).expect("it can be tried");
    let hits = |bytes| {
        let choice = found.choices.iter().find(|choice| choice.record_bytes == Some(bytes));
        choice.expect("it was tried").ram_hit_percent
    };
    assert!(hits(4096) < 1e-9 && (hits(65_536) - 93.75).abs() < 0.1);
    assert_eq!(found.first_percent[&65_536], 6.25);
}

#[test]
fn what_cannot_be_tried_is_said() {
    let trace = skewed();
    let said = |change: &dyn Fn(&mut SizingPlan)| {
        let mut plan = plan();
        change(&mut plan);
        sizing(&trace, &plan, &|_, _| ()).expect_err("it cannot be tried").to_string()
    };
    assert!(said(&|plan| plan.policies = vec![PolicyName::Car]).contains("take lru, arc or auto"));
    assert!(said(&|plan| plan.disk = "tape".to_owned()).contains("nearline-7200"));
    assert!(said(&|plan| plan.disk = "nvme".to_owned()).contains("not a disk"));
    assert!(said(&|plan| plan.record_bytes = vec![Some(5000)]).contains("blocks of 4096"));
    assert!(said(&|plan| plan.ram.clear()).contains("nothing to try"));
    assert!(said(&|plan| plan.prices.flash.clear()).contains("[flash.\"nvme\"]"));
    let few = Positive::try_from(0.01).expect("above zero");
    assert!(said(&|plan| plan.sample_percent = Some(few)).contains("larger --sample"));
    assert!(said(&|plan| plan.disks = vec![NonZeroU32::MIN; 1_000_000]).contains("too many"));
}

#[test]
fn prices_are_read_with_their_mistakes() {
    let prices = Prices::shipped().expect("they can be read");
    for name in prices.disks.keys().chain(prices.flash.keys()) {
        assert!(Equipment::shipped(name).is_ok(), "{name}");
    }
    let text = "currency = \"EUR\"\n[ram]\nper_gib = 0\n[disks]\n[flash]\n";
    let message = Prices::parse("my.toml", text).expect_err("no price").to_string();
    assert!(message.contains("my.toml") && message.contains("above zero"), "{message}");
    let text = "currency = \"EUR\"\n[ram]\nper_gib = 1e308\n[disks]\n[flash]\n";
    let message = Prices::parse("my.toml", text).expect_err("too much").to_string();
    assert!(
        message.contains("ram.per_gib = 1e308") && message.contains("at most 1e9"),
        "{message}"
    );
    let message = Prices::parse("my.toml", "colour = 1").expect_err("unknown").to_string();
    assert!(message.contains("colour"), "{message}");
}

/// A record that does not fit is never found, so that its price would be for nothing.
#[test]
fn a_size_that_holds_no_record_is_refused() {
    let trace = Trace::from_blocks("loop", (0..2000).map(|at| at % 100), 4096);
    let said = |plan: SizingPlan| sizing(&trace, &plan, &|_, _| ()).map_err(|it| it.to_string());
    let records = vec![Some(4096), Some(1 << 20)];
    let ram = |bytes| SizingPlan {
        ram: vec![Size::Bytes(bytes)],
        record_bytes: records.clone(),
        flash: Vec::new(),
        ..plan()
    };
    let one = (1 << 20) + u64::from(Shipped::record_overhead());
    let message = said(ram(one - 1)).expect_err("too small");
    assert!(message.contains("RAM of") && message.contains(&one.to_string()), "{message}");
    said(ram(one)).expect("one record fits");
    let flash = |bytes| SizingPlan { flash: vec![Size::Bytes(bytes)], ..ram(8 << 20) };
    let message = said(flash(4096)).expect_err("too small");
    assert!(message.contains("flash of 4096 bytes"), "{message}");
    said(flash(2 << 20)).expect("one record fits");
    // A share is raised to a record.
    let shares = said(SizingPlan { ram: vec![Size::Fraction(0.01)], ..ram(1) });
    let found = shares.expect("they can be tried");
    assert!(found.choices.iter().all(|choice| choice.ram_bytes >= one), "{found:?}");
}

/// Equipment of one's own is priced by the name of its file.
#[test]
fn a_disk_of_ones_own_is_taken() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("mine.toml");
    let text = include_str!("../../devices/nearline-7200.toml").replace("7200", "14_400");
    std::fs::write(&file, text).expect("it can be written");
    let name = file.to_str().expect("it is text").to_owned();
    let own = SizingPlan { disk: name.clone(), ..plan() };
    let trace = skewed();
    let message = sizing(&trace, &own, &|_, _| ()).expect_err("no price").to_string();
    assert!(message.contains(&format!("[disks.{name:?}]")), "{message}");
    let mut own = own;
    let price = own.prices.disks["nearline-7200"];
    own.prices.disks.insert(name, price);
    let quick = sizing(&trace, &own, &|_, _| ()).expect("it can be tried");
    let shipped = sizing(&trace, &plan(), &|_, _| ()).expect("it can be tried");
    let uncached = |sizing: &Sizing| sizing.choices.first().and_then(|it| it.uncached_ms);
    assert!(uncached(&quick) < uncached(&shipped), "it turns twice as fast");
}
