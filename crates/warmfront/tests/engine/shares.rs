//! `arcreserve` and `arclimit`: who gets how much of the ARC.

use std::sync::Arc;
use std::time::Duration;

use warmfront::{DatasetError, Datasets, EngineError, Memory, OpenFile, SHARES_MAX, Source};

use crate::common::{Bench, READ, READ_WRITE, pattern, read};

const MIB: u64 = 1 << 20;
const RECORD: u64 = 16 << 10;
const CEILING: u64 = 64 * MIB;
const SETTINGS: [&str; 2] = ["prefetch=none", "recordsize=16K"];

/// A pool with these datasets. Each is a file of that name, for a path that is a file's leads to
/// a dataset like any other.
fn bench(names: &[&str], mebibytes: u64) -> (Bench, Vec<Arc<OpenFile>>) {
    let bench = Bench::new(&SETTINGS, CEILING);
    let contents = pattern((mebibytes * MIB) as usize, 1);
    let open = |name: &&str| {
        bench.put(name, &contents);
        bench.pool.datasets().create(&format!("pool/{name}"), None).expect("a new one");
        bench.open(name, READ_WRITE)
    };
    let files = names.iter().map(open).collect();
    (bench, files)
}

impl Bench {
    pub fn set(&self, dataset: &str, settings: &[(&str, &str)]) -> Result<(), DatasetError> {
        self.pool.datasets().edit(|tree| {
            settings.iter().try_for_each(|(name, value)| tree.set(dataset, name, value))
        })
    }

    /// Reads one record; tells whether it was a hit.
    fn hits(&self, file: &Arc<OpenFile>, number: u64) -> bool {
        self.clock.advance(Duration::from_millis(100));
        let hit = file.read_cached(number * RECORD, RECORD as usize).is_some();
        if !hit {
            read(file, number * RECORD, RECORD as usize);
        }
        hit
    }
}

/// Repeatable numbers below `range`, small ones more often: the square of an even distribution.
fn skewed(state: &mut u64, range: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
    let unit = (*state >> 11) as f64 / (1u64 << 53) as f64;
    (unit * unit * range as f64) as u64
}

/// Hit rate in percent of a dataset with a reserve, once it is warm. For each of its reads another
/// dataset reads `streamed` records that nobody has read before.
fn hit_rate(reserve: &str, streamed: u64) -> f64 {
    let (bench, files) = bench(&["hot", "stream"], 48);
    bench.set("pool/hot", &[("arcreserve", reserve)]).expect("it fits");
    let records = 48 * MIB / RECORD;
    let (mut state, mut place, mut hits) = (7, 0, 0);
    for round in 0..40_000 {
        for _ in 0..streamed {
            bench.hits(&files[1], place % records);
            place += 1;
        }
        // Another size of records makes all of them new: a stream of any length.
        if streamed > 0 && place >= records {
            place = 0;
            bench.pool.datasets().set("pool/stream", "recordsize", "32K").expect("a size");
            bench.hits(&files[1], 0);
            bench.pool.datasets().set("pool/stream", "recordsize", "16K").expect("a size");
        }
        let hit = bench.hits(&files[0], skewed(&mut state, records));
        hits += u32::from(hit && round >= 20_000);
    }
    if streamed > 0 {
        assert!(bench.counter_of("pool/stream", "read_bytes") > 20 * CEILING);
        assert!(bench.counter_of("pool/stream", "evicted_bytes") > 10 * CEILING);
        assert!(bench.counter_of("pool", "arcreserve") == 0);
    }
    f64::from(hits) / 200.0
}

#[test]
fn a_stream_does_not_move_the_hit_rate_of_a_dataset_with_a_reserve() {
    let (alone, beside) = (hit_rate("40M", 0), hit_rate("40M", 3));
    let exposed = hit_rate("none", 3);
    println!("hit rate alone {alone:.2} %, beside a stream {beside:.2} %, exposed {exposed:.2} %");
    assert!(beside >= alone - 1.0, "alone {alone:.2} %, beside a stream {beside:.2} %");
    assert!(exposed < alone - 1.0, "without a reserve {exposed:.2} %: the stream does no harm");
}

#[test]
fn a_limit_takes_effect_before_set_returns_and_holds() {
    let (bench, files) = bench(&["a"], 32);
    bench.read_through(&files[0], 32 << 20, RECORD as usize);
    assert_eq!(bench.counter_of("pool/a", "data_size") / MIB, 32);
    let evicted = bench.counter_of("pool/a", "deleted");
    assert_eq!(evicted, 0);
    bench.set("pool/a", &[("arclimit", "8M")]).expect("a limit");
    assert!(bench.counter_of("pool/a", "arcshare_size") <= 8 * MIB);
    assert!(bench.counter_of("pool/a", "size") > 7 * MIB);
    assert!(bench.counter_of("pool/a", "deleted") >= 24 * MIB / RECORD);
    for round in 0..2 {
        bench.read_through(&files[0], 32 << 20, RECORD as usize);
        assert!(bench.counter_of("pool/a", "arcshare_size") <= 8 * MIB, "round {round}");
    }
    // Without the limit it grows again.
    bench.pool.datasets().inherit("pool/a", "arclimit", false).expect("it exists");
    bench.read_through(&files[0], 32 << 20, RECORD as usize);
    assert_eq!(bench.counter_of("pool/a", "data_size") / MIB, 32);
    assert_eq!(bench.counter_of("pool/a", "arclimit"), 0);
}

#[test]
fn a_share_holds_for_datasets_below_without_one_of_their_own() {
    let (bench, files) = bench(&["a", "x", "y"], 12);
    let datasets = bench.pool.datasets();
    datasets.destroy("pool/x", false).expect("it is there");
    datasets.create("pool/a/x", Some("x".as_ref())).expect("a name");
    bench.set("pool/a", &[("arclimit", "10M")]).expect("a limit");
    let read_all = || {
        files.iter().for_each(|file| bench.read_through(file, 12 << 20, RECORD as usize));
    };
    read_all();
    let held = |name| bench.counter_of(name, "size");
    assert!(held("pool/a") + held("pool/a/x") <= 10 * MIB);
    assert!(bench.counter_of("pool/a", "arcshare_size") <= 10 * MIB);
    assert!(held("pool/y") >= 12 * MIB, "not below it");
    // It is not inherited as other properties are.
    let row = |name: &str| {
        let rows = datasets.get(name).expect("it exists");
        rows.into_iter().find(|row| row.property == "arclimit").expect("it is listed")
    };
    assert_eq!((row("pool/a").value, row("pool/a").source), ("10M".into(), Source::Local));
    assert_eq!((row("pool/a/x").value, row("pool/a/x").source), ("none".into(), Source::Default));
    // A share of its own takes it out of the one above.
    bench.set("pool/a/x", &[("arcreserve", "16M")]).expect("a reserve");
    read_all();
    assert!(held("pool/a/x") >= 12 * MIB && held("pool/a") <= 10 * MIB);
    // When it goes, its files and their records belong to the share above it again.
    datasets.destroy("pool/a/x", false).expect("it is there");
    assert!(bench.counter_of("pool/a", "arcshare_size") <= 10 * MIB);
    assert_eq!(bench.counter_of("pool/a/x", "arcreserve"), 0);
    datasets.validate().expect("valid");
}

#[test]
fn reserves_above_the_ceiling_are_refused_with_the_arithmetic_and_nothing_changes() {
    let (bench, _) = bench(&["a", "b", "c"], 1);
    bench.set("pool/a", &[("arcreserve", "40M")]).expect("it fits");
    let local = |name| bench.pool.datasets().local(name).expect("it exists");
    let refused = bench.set("pool/b", &[("promote", "off"), ("arcreserve", "24M")]);
    let message = refused.expect_err("64M do not fit").to_string();
    assert_eq!(
        message,
        "arcreserve adds up to 64M (pool/a 40M, pool/b 24M), and the ceiling of 64M leaves 61M \
         that can be reserved (the other 3M are for buffers between two uses); reserve less, or \
         raise the ceiling (`warmfront set-arc-max`)"
    );
    assert!(local("pool/b").is_empty(), "nothing of it was set");
    assert_eq!(bench.counter_of("pool/b", "arcreserve"), 0);
    // A share of the ceiling counts as what it is now.
    let little = bench.set("pool/b", &[("arcreserve", "0.001%")]).expect_err("bytes").to_string();
    assert!(little.contains("0.001% of the ceiling of 64M are 671,"), "{little}");
    let refused = bench.set("pool/b", &[("arcreserve", "50%")]).expect_err("32M").to_string();
    assert!(refused.contains("72M (pool/a 40M, pool/b 32M)"), "{refused}");
    bench.set("pool/b", &[("arcreserve", "25%")]).expect("16M fit");
    for settings in
        [[("arcreserve", "3M"), ("arclimit", "2M")], [("arclimit", "2M"), ("arcreserve", "4%")]]
    {
        let refused = bench.set("pool/c", &settings).expect_err("above").to_string();
        assert!(refused.contains("`pool/c` cannot reserve"), "{refused}");
        assert!(refused.contains("2M is all that it may use"), "{refused}");
    }
    assert!(local("pool/c").is_empty());
    // Both at once, in whatever order.
    for limit in ["4M", "2M", "3M"] {
        bench.set("pool/c", &[("arcreserve", limit), ("arclimit", limit)]).expect("fits");
    }
    assert!(bench.set("pool/c", &[("arclimit", "2M")]).is_err());
    assert_eq!(local("pool/c")["arclimit"], "3M");
    // Other changes are no matter of shares, also while the ceiling is too small for them.
    bench.pool.memory().set_ceiling_bytes(32 * MIB);
    bench.set("pool/c", &[("prefetch", "none")]).expect("nothing to do with it");
    bench.set("pool/a", &[("arcreserve", "39M")]).expect("less may always be asked for");
    assert!(bench.set("pool/a", &[("arcreserve", "40M")]).is_err());
}

#[test]
fn shares_follow_the_ceiling() {
    let (bench, files) = bench(&["a", "b"], 24);
    bench.set("pool/a", &[("arcreserve", "50%"), ("arclimit", "75%")]).expect("fits");
    bench.set("pool/b", &[("arcreserve", "20M")]).expect("fits");
    let reserves = || ["pool/a", "pool/b"].map(|name| bench.counter_of(name, "arcreserve"));
    let limit = || bench.counter_of("pool/a", "arclimit");
    assert_eq!((reserves(), limit()), ([32 * MIB, 20 * MIB], 48 * MIB));
    bench.pool.memory().set_ceiling_bytes(48 * MIB);
    assert_eq!((reserves(), limit()), ([24 * MIB, 20 * MIB], 36 * MIB));
    // Too small for both: each gives in proportion.
    bench.pool.memory().set_ceiling_bytes(24 * MIB);
    let capacity = bench.counter("c");
    let [a, b] = reserves();
    assert!(a + b <= capacity && a + b >= capacity - 2, "{a} + {b} of {capacity}");
    assert!((a as f64 / b as f64 - 12.0 / 20.0).abs() < 1e-6, "{a} and {b}");
    assert_eq!(limit(), 18 * MIB);
    bench.read_through(&files[0], 24 << 20, RECORD as usize);
    bench.read_through(&files[1], 24 << 20, RECORD as usize);
    let held = bench.counter_of("pool/a", "arcshare_size");
    assert!(held >= a / 100 * 97, "{held} bytes left of a reserve of {a}");
    bench.pool.memory().set_ceiling_bytes(64 * MIB);
    assert_eq!((reserves(), limit()), ([32 * MIB, 20 * MIB], 48 * MIB));
}

/// Partitions are few: those of datasets and pools that go are used again.
#[test]
fn as_many_shares_as_there_are_and_again_when_they_are_free() {
    let memory = Memory::new(CEILING);
    let datasets = |count: usize| {
        let datasets = Datasets::new("pool").expect("a name");
        for number in 0..count {
            let name = format!("pool/{number}");
            datasets.create(&name, None).expect("a name");
            datasets.set(&name, "arclimit", "8M").expect("a limit");
        }
        datasets
    };
    for _ in 0..3 {
        let bench = Bench::over(datasets(SHARES_MAX - 1), memory.clone()).expect("enough");
        let other = Bench::over(datasets(1), memory.clone()).expect("the last one");
        let Err(EngineError::Dataset(error)) = Bench::over(datasets(1), memory.clone()) else {
            panic!("there is one too many");
        };
        assert!(error.to_string().contains("63 datasets would have"), "{error}");
        let refused = bench.set("pool", &[("arclimit", "9M")]).expect_err("no more");
        assert!(refused.to_string().contains("at most 62 can"), "{refused}");
        drop(other);
        bench.set("pool", &[("arclimit", "9M")]).expect("one is free again");
        for round in 0..100 {
            bench.pool.datasets().destroy("pool/1", false).expect("it is there");
            bench.pool.datasets().create("pool/1", None).expect("it is gone");
            bench.set("pool/1", &[("arclimit", "2%")]).unwrap_or_else(|error| {
                panic!("round {round}: {error}");
            });
            bench.pool.datasets().validate().expect("valid");
        }
    }
    let alone = Datasets::new("pool").expect("a name");
    for number in 0..SHARES_MAX {
        alone.create(&format!("pool/{number}"), None).expect("a name");
        alone.set(&format!("pool/{number}"), "arcreserve", "1%").expect("enough");
    }
    alone.create("pool/more", None).expect("a name");
    assert!(alone.set("pool/more", "arcreserve", "1M").is_err(), "without any ARC");
    let sum = alone.set("pool/3", "arcreserve", "40%").expect_err("101 %").to_string();
    assert!(
        sum.contains("101% of the ceiling (pool/3 40%, ") && sum.contains("56 others"),
        "{sum}"
    );
}

/// A pool that cannot have what its datasets ask for is not opened, and takes nothing.
#[test]
fn two_pools_share_one_ceiling() {
    let memory = Memory::new(CEILING);
    let with = |reserve: &str| {
        let datasets = Datasets::new("pool").expect("a name");
        datasets.set("pool", "arcreserve", reserve).expect("a value");
        datasets
    };
    let first = Bench::over(with("40M"), memory.clone()).expect("fits");
    let Err(EngineError::Dataset(error)) = Bench::over(with("30M"), memory.clone()) else {
        panic!("70M do not fit under 64M");
    };
    assert!(error.to_string().contains("70M (pool 40M, pool 30M)"), "{error}");
    drop(first);
    let second = Bench::over(with("30M"), memory).expect("the first has given its own back");
    second.put("file", &pattern(1 << 20, 2));
    read(&second.open("file", READ), 0, 1 << 20);
    assert_eq!(second.counter_of("pool", "arcreserve"), 30 * MIB);
    assert!(second.counter_of("pool", "arcshare_size") > MIB);
}

/// A change that could not be saved is not made.
#[test]
fn what_cannot_be_saved_is_not_done() {
    let (bench, files) = bench(&["a"], 16);
    bench.read_through(&files[0], 16 << 20, RECORD as usize);
    let datasets = bench.pool.datasets();
    let set = |value: &'static str| {
        move |tree: &mut warmfront::DatasetTree| tree.set("pool/a", "arclimit", value)
    };
    let unsaved: Result<(), DatasetError> =
        datasets.edit_and_save(set("2M"), || Err(DatasetError::Unknown { name: "disk".into() }));
    assert!(unsaved.is_err());
    assert!(bench.counter_of("pool/a", "size") >= 16 * MIB, "nothing was evicted");
    assert!(datasets.local("pool/a").expect("it exists").is_empty());
    // What is refused is not saved either.
    let refused: Result<(), DatasetError> = datasets.edit_and_save(
        |tree| tree.set("pool/a", "arcreserve", "1G"),
        || panic!("it must not come to that"),
    );
    assert!(refused.is_err());
    datasets.edit_and_save(set("2M"), || Ok::<(), DatasetError>(())).expect("saved");
    assert!(bench.counter_of("pool/a", "arcshare_size") <= 2 * MIB);
}

#[test]
fn of_records_too_large_to_be_kept_only_what_is_asked_for_is_read() {
    let bench = Bench::new(&["recordsize=1M"], CEILING);
    let contents = pattern(4 * MIB as usize + 5000, 3);
    bench.put("large", &contents);
    bench.pool.datasets().create("pool/large", None).expect("a new one");
    bench.set("pool/large", &[("arclimit", "1M")]).expect("a size");
    let file = bench.open("large", READ);
    let piece = 128 << 10;
    for offset in (0..contents.len()).step_by(piece) {
        let end = (offset + piece).min(contents.len());
        assert!(read(&file, offset as u64, piece) == contents[offset..end], "at {offset}");
    }
    assert_eq!(bench.counter("origin_read_bytes"), contents.len() as u64);
    // The short record at the end can be kept.
    assert_eq!(bench.counter("uncached_too_large"), 32);
    assert_eq!(bench.counter("demand_data_misses"), 33);

    // Over a boundary, beside pages.
    let before = bench.counter("origin_read_bytes");
    let offset = MIB as usize - 100;
    assert!(read(&file, offset as u64, 300) == contents[offset..offset + 300]);
    assert_eq!(bench.counter("origin_read_bytes") - before, 2 * 4096);

    // Where there is room they are fetched whole, and kept.
    bench.set("pool/large", &[("arclimit", "none")]).expect("a value");
    let before = bench.counter("origin_read_bytes");
    assert!(read(&file, 0, piece) == contents[..piece]);
    assert!(bench.counter("origin_read_bytes") - before >= MIB);
    assert!(file.read_cached(0, MIB as usize).is_some());
}
