//! Fair shares of one cache: reserves, limits, and reads that do not count as use.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use warmfront_tests::{
    Group, Mount, Program, Requirement, Warmfront, fill, require, skip, test_directory,
};

const MIB: usize = 1 << 20;
const RECORD: usize = 64 << 10;

/// A mount with datasets of these names, a directory each, and a ceiling of 64 MiB.
fn mount(arguments: &[&str], datasets: &[&str]) -> Mount {
    let builder = Mount::builder().argument("--arc-max=64M").property("recordsize", "64K");
    let builder = arguments.iter().fold(builder, |builder, word| builder.argument(word));
    let mount = builder.start();
    for name in datasets {
        fs::create_dir(mount.origin().join(name)).expect("a directory");
        mount.warmfront().run(["create", &format!("slow/{name}")]);
    }
    mount
}

/// One of a dataset's counters; zero where it has none.
fn counter_of(mount: &Mount, dataset: &str, name: &str) -> u64 {
    mount.status()["datasets"][dataset][name].as_u64().unwrap_or(0)
}

/// A file without contents, which takes no disk; its records take memory like any others.
fn hole(path: &Path, bytes: usize) {
    File::create(path).expect("a file").set_len(bytes as u64).expect("a hole");
}

fn read_at(file: &File, record: usize) {
    let mut buffer = vec![0; RECORD];
    file.read_exact_at(&mut buffer, (record * RECORD) as u64).expect("a read");
}

/// Hit rate in percent of a dataset of which 52 MiB are read round and round, once it is warm,
/// while another one streams so many records for each record that is read of it.
fn hit_rate(reserve: &str, streamed: usize) -> f64 {
    let mut mount = mount(&["-o", "prefetch=none"], &["hot", "stream"]);
    mount.warmfront().run(["set", &format!("arcreserve={reserve}"), "slow/hot"]);
    let records = 52 * MIB / RECORD;
    let reads = 5 * records;
    fill(&mount.origin().join("hot/table"), 1, 52 * MIB);
    let hot = File::open(mount.join("hot/table")).expect("it opens");
    // The stream was there first and has filled the cache.
    let ahead = if streamed > 0 { 128 * MIB / RECORD } else { 0 };
    let stream_records = ahead + 2 * reads * streamed;
    hole(&mount.origin().join("stream/log"), stream_records * RECORD);
    let stream = File::open(mount.join("stream/log")).expect("it opens");
    (0..ahead).for_each(|record| read_at(&stream, record));
    let (mut place, mut before) = (ahead, (0, 0));
    let counters = || {
        let count = |name: &str| counter_of(&mount, "slow/hot", &format!("demand_data_{name}"));
        (count("hits"), count("misses") + count("iohits"))
    };
    for read in 0..2 * reads {
        if read == reads {
            before = counters();
        }
        for _ in 0..streamed {
            read_at(&stream, place);
            place += 1;
        }
        read_at(&hot, read % records);
    }
    let after = counters();
    let (hits, misses) = (after.0 - before.0, after.1 - before.1);
    assert_eq!(hits + misses, reads as u64);
    if streamed > 0 {
        assert_eq!(counter_of(&mount, "slow/stream", "demand_data_misses"), stream_records as u64);
        assert!(stream_records * RECORD > 16 * 64 * MIB, "many times the ceiling");
    }
    drop((hot, stream));
    mount.unmount();
    hits as f64 * 100.0 / reads as f64
}

#[test]
fn a_stream_does_not_move_the_hit_rate_of_a_dataset_with_a_reserve() {
    require!(Requirement::Fuse);
    let (alone, beside) = (hit_rate("56M", 0), hit_rate("56M", 4));
    let exposed = hit_rate("none", 4);
    println!("hit rate alone {alone:.2} %, beside a stream {beside:.2} %, exposed {exposed:.2} %");
    assert!(beside >= alone - 1.0, "alone {alone:.2} %, beside a stream {beside:.2} %");
    assert!(exposed < alone - 1.0, "without a reserve {exposed:.2} %: the stream does no harm");
}

#[test]
fn shares_are_told_and_take_effect_while_mounted() {
    require!(Requirement::Fuse);
    let mut mount = mount(&["-o", "prefetch=none"], &["a", "b"]);
    let run = |words: &[&str]| mount.warmfront().run(words);
    for name in ["a", "b"] {
        hole(&mount.origin().join(name).join("file"), 24 * MIB);
        fs::read(mount.join(name).join("file")).expect("it reads");
    }
    assert_eq!(counter_of(&mount, "slow/a", "data_size") / MIB as u64, 24);
    run(&["set", "arclimit=8M", "slow/a"]);
    assert!(counter_of(&mount, "slow/a", "arcshare_size") <= 8 * MIB as u64);
    assert!(counter_of(&mount, "slow/a", "evicted_bytes") >= 16 * MIB as u64);
    assert_eq!(counter_of(&mount, "slow/b", "evicted_bytes"), 0);
    run(&["set", "arcreserve=25%", "arclimit=75%", "slow/b"]);
    assert_eq!(counter_of(&mount, "slow/b", "arcreserve"), 16 * MIB as u64);
    run(&["set-arc-max", "32M", "slow"]);
    assert_eq!(counter_of(&mount, "slow/b", "arcreserve"), 8 * MIB as u64);
    assert_eq!(counter_of(&mount, "slow/b", "arclimit"), 24 * MIB as u64);
    let status = run(&["status", "slow"]);
    let row = status.lines().find(|line| line.starts_with("slow/b") && line.contains("8M"));
    assert!(status.contains("RESERVE") && row.is_some_and(|row| row.contains("24M")), "{status}");
    let got = run(&["get", "-H", "-o", "value,source", "arcreserve", "slow/b"]);
    assert_eq!(got, "25%\tlocal\n");
    run(&["create", "slow/b/below"]);
    let got = run(&["get", "-H", "-o", "value,source", "arcreserve,arclimit", "slow/b/below"]);
    assert_eq!(got, "none\tdefault\nnone\tdefault\n");

    // Each dataset's own figures, and only those.
    let columns = "ddhit,ddmis,dh%,evict,size,rsv,lim,share";
    let sample = |target: &str| -> Value {
        let told = run(&["arcstat", "--json", "-f", columns, target]);
        serde_json::from_str(&told).expect("arcstat --json prints JSON")
    };
    assert_eq!(sample("slow/b")["rsv"].as_f64(), Some(8.0 * MIB as f64));
    assert_eq!(sample("slow/a")["lim"].as_f64(), Some(8.0 * MIB as f64));
    assert!(sample("slow/a")["size"].as_f64() < sample("slow")["size"].as_f64());
    let rate = |target: &str, column: &str| sample(target)[column].as_f64().expect("a number");
    assert!(rate("slow/a", "ddmis") > 0.0 && rate("slow/a", "ddmis") < rate("slow", "ddmis"));
    assert!(rate("slow/a", "evict") > 0.0 && rate("slow/b/below", "evict") == 0.0);
    assert_eq!(rate("slow/b/below", "ddmis"), 0.0);
    mount.unmount();
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_half_done() {
    require!(Requirement::Fuse);
    let base = test_directory();
    let (slow, fast) = (base.path().join("slow"), base.path().join("fast"));
    fs::create_dir_all(slow.join("a")).unwrap();
    fs::create_dir_all(slow.join("b")).unwrap();
    fs::create_dir(&fast).unwrap();
    let warmfront = Warmfront::new();
    warmfront.program(["pool", "create", "--arc-max", "64M", "tank"]).arg(&slow).run().success();
    warmfront.run(["create", "tank/a"]);
    warmfront.run(["create", "tank/b"]);
    warmfront.run(["set", "arcreserve=40M", "tank/a"]);
    let settings = warmfront.config_directory().join("tank.toml");
    let text = || fs::read_to_string(&settings).unwrap();
    let refuse = |words: &[&str], status: i32, fragments: &[&str]| {
        let before = text();
        warmfront.program(words).run().fails_with(status, fragments);
        assert_eq!(text(), before, "{words:?}");
    };
    let everywhere = || {
        for value in ["0", "4K", "-1", "0%", "101%", "lots", "12Q", ""] {
            let setting = format!("arcreserve={value}");
            refuse(&["set", &setting, "tank/b"], 2, &["arcreserve", "none", "1M", "25%"]);
            let setting = format!("arclimit={value}");
            refuse(&["set", &setting, "tank/b"], 2, &["arclimit", "none"]);
        }
        refuse(&["set", "promote=maybe", "tank/b"], 2, &["promote", "on", "off"]);
        let above = ["set", "arcreserve=9M", "arclimit=8M", "prefetch=none", "tank/b"];
        refuse(&above, 2, &["tank/b", "9M", "8M", "arclimit"]);
        let create = ["create", "-o", "arcreserve=9M,arclimit=8M", "tank/c"];
        refuse(&create, 2, &["tank/c", "9M", "8M"]);
    };
    everywhere();
    refuse(&["set", "arcreserve=60%", "arclimit=50%", "tank/b"], 2, &["60%", "50%"]);

    // Mounted, the ceiling is known.
    warmfront.program(["mount", "tank"]).arg(&fast).run().success();
    everywhere();
    let sum = ["set", "arcreserve=30M", "promote=off", "tank/b"];
    let figures = ["70M", "tank/a 40M", "tank/b 30M", "ceiling of 64M", "leaves 61M", "other 3M"];
    refuse(&sum, 2, &figures);
    for property in ["arcreserve", "arclimit"] {
        let little = format!("{property}=0.001%");
        refuse(&["set", &little, "tank/b"], 2, &["0.001%", "64M", "tank/b", "1M at least"]);
    }
    let got = warmfront.run(["get", "-H", "-o", "value", "promote,arcreserve", "tank/b"]);
    assert_eq!(got, "on\nnone\n");
    warmfront.run(["set", "arcreserve=20M", "tank/b"]);
    assert!(text().contains("arcreserve = \"20M\""));

    // Memory that is wanted back is given, and what that cuts is told.
    let cut = "arcreserve adds up to 60M";
    assert!(warmfront.run(["set-arc-max", "48M", "tank"]).contains(cut));
    assert!(warmfront.run(["status", "tank"]).contains(cut));
    assert!(!warmfront.run(["set-arc-max", "64M", "tank"]).contains(cut));
    warmfront.run(["unmount", "tank"]);

    // What was promised under one ceiling does not fit under another.
    let mount = warmfront.program(["mount", "--arc-max", "48M", "tank"]).arg(&fast).run();
    mount.fails_with(2, &["60M (tank/a 40M, tank/b 20M)", "ceiling of 48M"]);
    let above = ["mount", "-o", "arcreserve=9M,arclimit=8M", "tank"];
    warmfront.program(above).arg(&fast).run().fails_with(2, &["tank", "9M", "8M"]);
    let mount = warmfront.program(["mount", "-o", "arclimit=1K", "tank"]).arg(&fast).run();
    mount.fails_with(2, &["arclimit", "1K"]);
    for group in ["backup.slice", "/", "/a/../b"] {
        let mount = warmfront.program(["mount", "--no-promote-cgroup", group, "tank"]).arg(&fast);
        mount.run().fails_with(2, &["--no-promote-cgroup", "control group"]);
    }
    fs::write(&settings, text().replace("name =", "no_promote_cgroups = [\"x\"]\nname =")).unwrap();
    let mount = warmfront.program(["mount", "tank"]).arg(&fast).run();
    mount.fails_with(1, &["tank.toml", "`x` is not a control group"]);
}

/// A hot file of 32 MiB and a tree to be backed up, eight times the ceiling.
fn with_backup(mount: &Mount) -> (File, PathBuf) {
    fill(&mount.origin().join("hot/table"), 3, 32 * MIB);
    for number in 0..64 {
        hole(&mount.origin().join(format!("cold/{number}")), 8 * MIB);
    }
    let hot = File::open(mount.join("hot/table")).expect("it opens");
    (0..3).for_each(|_| read_hot(&hot));
    (hot, mount.join("cold"))
}

fn read_hot(hot: &File) {
    (0..32 * MIB / RECORD).for_each(|record| read_at(hot, record));
}

/// `tar` of a tree, in records of 10 KiB as it is used to.
fn backup(tree: &Path) -> Program {
    // It does not read what goes straight to /dev/null.
    let command = "tar -cf - -C \"$0\" . | cat > /dev/null";
    Program::new("sh").args(["-c", command]).arg(tree)
}

/// Checks that reading the hot file misses nothing.
#[track_caller]
fn is_all_hot(mount: &Mount, hot: &File) {
    let misses = |mount: &Mount| counter_of(mount, "slow/hot", "demand_data_misses");
    let before = misses(mount);
    read_hot(hot);
    assert_eq!(misses(mount), before, "the hot set was not left alone");
    assert_eq!(counter_of(mount, "slow/hot", "evicted_bytes"), 0);
}

#[test]
fn a_backup_of_a_dataset_that_does_not_promote_leaves_the_hot_set_alone() {
    require!(Requirement::Fuse, Requirement::Tool("tar"));
    let mut mount = mount(&[], &["hot", "cold"]);
    mount.warmfront().run(["set", "promote=off", "slow/cold"]);
    let (hot, tree) = with_backup(&mount);
    let read_before = mount.counter("origin_read_bytes");
    backup(&tree).run().success();
    is_all_hot(&mount, &hot);
    let read = mount.counter("origin_read_bytes") - read_before;
    let whole = 512 * MIB as u64;
    assert!((whole..whole / 100 * 105).contains(&read), "{read} bytes were read of {whole}");
    assert_eq!(counter_of(&mount, "slow/cold", "data_size"), 0);
    assert!(counter_of(&mount, "slow/cold", "uncached_promote") >= whole / RECORD as u64);
    assert_eq!(counter_of(&mount, "slow/cold", "uncached_cgroup"), 0);
    let why = mount.warmfront().program(["why"]).arg(tree.join("7")).run().success();
    assert!(why.contains("promote=off"), "{why}");
    drop(hot);
    mount.unmount();
}

#[test]
fn a_control_group_reads_without_promoting() {
    require!(Requirement::Fuse, Requirement::Root, Requirement::Tool("tar"));
    let group = match Group::new(1 << 30) {
        Ok(group) => group,
        Err(reason) => return skip(&reason),
    };
    let path = group.path().display().to_string();
    let words = ["--no-promote-cgroup", &path, "--no-promote-cgroup", "/no/such/group"];
    let mut mount = mount(&words, &["hot", "cold"]);
    let status = mount.run(&["status"]);
    let missing: Vec<&str> =
        status.lines().filter(|line| line.contains("there is no control group")).collect();
    assert!(status.contains(&path) && missing.len() == 1, "{status}");
    assert!(missing[0].contains("/no/such/group"), "{status}");
    let (hot, tree) = with_backup(&mount);
    backup(&tree).within(&group).run().success();
    is_all_hot(&mount, &hot);
    assert_eq!(counter_of(&mount, "slow/cold", "data_size"), 0);
    let passed = counter_of(&mount, "slow/cold", "uncached_cgroup");
    assert!(passed >= 512 * MIB as u64 / RECORD as u64);
    assert_eq!(counter_of(&mount, "slow/cold", "uncached_promote"), 0);
    let metadata = counter_of(&mount, "slow/cold", "mru_hits");
    assert_eq!(metadata, 0, "names and attributes are not used by it either");

    // The hot file is read in the group: it finds it, and that does not count.
    let hits = counter_of(&mount, "slow/hot", "unpromoted_hits");
    Program::new("cat").arg(mount.join("hot/table")).within(&group).run().success();
    assert!(counter_of(&mount, "slow/hot", "unpromoted_hits") >= hits + 512);

    // Others read as ever.
    fs::read(tree.join("7")).expect("it reads");
    assert_eq!(counter_of(&mount, "slow/cold", "data_size") / MIB as u64, 8);
    assert_eq!(counter_of(&mount, "slow/cold", "uncached_cgroup"), passed);
    drop(hot);
    mount.unmount();
}
