use xxhash_rust::xxh3::xxh3_64;

use super::*;

const CELL_LIFE: &str = include_str!("../../experiments/flash-cell-life.toml");

/// What is left out where it would take long and shows nothing else.
const REDUCED: &[(&str, &str, &str)] = &[
    ("flash-reserve", "reserve_percents = [7, 15, 25, 40]", "reserve_percents = [7]"),
    ("flash-cell-life", "divisor = 128", "divisor = 512"),
    ("l2arc-cautionary-tale", "divisor = 512", "divisor = 1024"),
    ("l2arc-cautionary-tale", "threads = [1, 4, 16, 64]", "threads = [16, 64]"),
    ("l2arc-random", "divisor = 256", "divisor = 1024"),
    ("l2arc-random", "threads = [1, 4, 16, 64]", "threads = [16]"),
    ("l2arc-sequential", "divisor = 512", "divisor = 1024"),
    ("l2arc-sequential", "threads = [1, 4, 16, 64]", "threads = [16, 64]"),
    ("l2arc-writes-random", "measure_s = 1", "measure_s = 0.3"),
    ("l2arc-writes-sequential", "measure_s = 1", "measure_s = 0.5"),
    ("safe-ceiling", "measure_s = 60", "measure_s = 20"),
];

/// What one trial finds.
fn findings(name: &str) -> Vec<Finding> {
    let shipped = SHIPPED.iter().find(|(known, _)| *known == name).expect("it is shipped");
    let mut text = shipped.1.to_owned();
    for (_, all, less) in REDUCED.iter().filter(|(of, ..)| *of == name) {
        assert!(text.contains(all), "{name}: {all}");
        text = text.replace(all, less);
    }
    Experiment::parse(name, &text)
        .and_then(|experiment| {
            experiment.procedure.run(Trial::new(experiment.seed, &experiment.files, &|_| ()))
        })
        .map(|outcome| outcome.findings)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The figure of this name and unit.
#[track_caller]
fn figure(findings: &[Finding], what: &str, unit: &str) -> f64 {
    let found = findings.iter().find(|finding| finding.what == what && finding.unit == unit);
    found.unwrap_or_else(|| panic!("no {what:?} in {unit}: {findings:?}")).lab
}

/// All that have a source are within this share of it, but for those named, and those that were
/// fitted are closer.
#[track_caller]
fn near(findings: &[Finding], share: f64, but: &[&str]) {
    for finding in findings {
        assert!(finding.lab.is_finite(), "{finding:?}");
        let Some(ratio) = finding.ratio() else { continue };
        let share = if finding.basis == Basis::Fitted { 0.1 } else { share };
        if !but.iter().any(|but| finding.what.contains(but)) {
            assert!((1.0 / (1.0 + share)..1.0 + share).contains(&ratio), "{finding:?}");
        }
    }
}

#[test]
fn a_seed_finds_the_same_to_the_byte() {
    let repeated = ["flash-power-loss", "find-twice", "index-deletes", "clamscan", "innodb"];
    for name in repeated {
        let hash = || xxh3_64(csv(name, &findings(name)).as_bytes());
        assert_eq!(hash(), hash(), "{name}");
    }
}

#[test]
fn every_experiment_says_what_was_done_and_found() {
    for name in Experiment::names() {
        let experiment = Experiment::shipped(name).unwrap_or_else(|error| panic!("{error}"));
        assert!(experiment.question.ends_with('?'), "{name}");
        let trial = Trial::new(experiment.seed, &experiment.files, &|_| ());
        let work = experiment.procedure.work(trial).and_then(Work::check);
        assert!(work.is_ok(), "{name}: {work:?}");
        assert!(experiment.setup.len() > 60 && experiment.remark.len() > 60, "{name}");
    }
}

#[test]
fn find_is_quicker_the_second_time() {
    let found = findings("find-twice");
    near(&found, 0.3, &[]);
    let of_ufs = found.iter().find(|finding| finding.what.ends_with("by UFS"));
    assert_eq!(of_ufs.and_then(|finding| finding.basis.mark()), Some("from the input"));
}

#[test]
fn a_ceiling_finds_nearly_as_much_and_nobody_waits() {
    let found = findings("safe-ceiling");
    near(&found, 0.05, &[]);
    let of = |variant: &str, what: &str, unit| figure(&found, &format!("{variant}: {what}"), unit);
    let [segmap, ufs, zfs, ceiling] = [
        "UFS by default, segmap alone",
        "UFS by default, with its cachelist",
        "ZFS by default, all that is free",
        "ZFS with a ceiling of 22 GB",
    ];
    let hits = |variant| of(variant, "reads found in RAM", "%");
    let waits = |variant| of(variant, "an application waits for its memory", "ms");
    assert!(hits(segmap) < 30.0 && hits(ceiling) > hits(zfs) - 3.0 && hits(zfs) > 70.0);
    assert!(waits(zfs) > 500.0 && [ceiling, ufs, segmap].map(waits) == [0.0; 3]);
    // The free pages of UFS are a second chance, and leave in the order of their last use.
    assert!(hits(ufs) > hits(segmap) + 40.0 && hits(ufs) < hits(ceiling) - 2.0, "{found:?}");
    let reads = |variant| of(variant, "reads", "1/s");
    assert!(reads(segmap) < reads(ufs) && reads(ufs) < reads(ceiling), "{found:?}");
    // The engine gives back what it has taken, as the ARC of then does.
    assert!((waits("this engine, all that is free") / waits(zfs) - 1.0).abs() < 0.1, "{found:?}");
    // The engine is not behind the ARC that it goes back to.
    let engine = "this engine with a ceiling of 22 GB";
    assert!((hits(engine) - hits(ceiling)).abs() < 3.0 && waits(engine) == 0.0, "{found:?}");
}

/// What a cache holds is what it gives back, however long that takes.
#[test]
fn a_wait_is_as_long_as_what_is_given_back() {
    let waits = |changes: &[(&str, &str)]| {
        let (_, shipped) =
            SHIPPED.iter().find(|(name, _)| *name == "safe-ceiling").expect("shipped");
        let mut text = shipped.replace("measure_s = 60", "measure_s = 15");
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        let experiment = Experiment::parse("mine", &text).expect("it can be read");
        let trial = Trial::new(1, &experiment.files, &|_| ());
        let found = experiment.procedure.run(trial).expect("it can be done").findings;
        ["ZFS by default, all that is free", "this engine, all that is free"].map(|variant| {
            let what = format!("{variant}: an application waits for its memory");
            figure(&found, &what, "ms")
        })
    };
    // It has not filled what it may take, so that nobody has to wait.
    assert_eq!(waits(&[("warm_reads = 400_000", "warm_reads = 20_000")]), [0.0; 2]);
    // It takes days, and counts although the measurement ends before.
    for wait in waits(&[("give_back_mb_s = 500", "give_back_mb_s = 0.01")]) {
        assert!(wait > 1e8, "{wait}");
    }
}

#[test]
fn free_behind_keeps_streams_out() {
    let found = findings("free-behind");
    near(&found, 0.05, &[]);
    assert!(figure(&found, "the cache grows by, with freebehind=on", "GB") < 0.1);
}

#[test]
fn streams_dilute_ufs_and_pass_the_zfs_of_then() {
    let findings = findings("memory-systems");
    let of = |system: &str, what: &str, unit| figure(&findings, &format!("{system}: {what}"), unit);
    let change = |system: &str| {
        of(system, "reads right after the stream", "1/s") / of(system, "reads once warm", "1/s")
    };
    assert!(change("UFS") < 0.6 && change("UFS, freebehind=0") < 0.9);
    assert!(change("ZFS of 2009, 8k, bshift=13") > 1.2);
    let brought = |system: &str| of(system, "from the disk for each", "KiB");
    let ratio = brought("ZFS of 2009, 8k") / brought("ZFS of 2009, 8k, bshift=13");
    assert!((7.0..8.5).contains(&ratio), "{ratio}");
    assert!(brought("ZFS of 2009, 128k") > 16.0 * brought("UFS, maxcontig=2"));
}

#[test]
fn slower_and_repeated_priming_brings_more() {
    let found = findings("priming");
    near(&found, 0.3, &["LDAP time after it"]);
    let share = |case: &str| figure(&found, &format!("{case}: share of the data"), "%");
    assert!(share("none") < 1.0 && share("dd 128k, one pass") < 80.0);
    assert!(share("dd 128k, one pass") < share("dd 128k, two passes") - 10.0);
    assert!(share("dd 32k, one pass") > 80.0 && share("dd 256k, four passes") > 90.0);
    let ldap = |case: &str| figure(&found, &format!("{case}: LDAP time after it"), "min");
    assert!(ldap("none") > ldap("dd 128k, one pass"));
    assert!(ldap("dd 128k, one pass") > ldap("dd 32k, one pass"));
}

#[test]
fn lanes_add_up() {
    let found = findings("l2arc-lanes");
    near(&found, 0.15, &[]);
    // Each is as quick as it is fed.
    assert!(found.iter().all(|finding| finding.basis == Basis::Input), "{found:?}");
    let shipped = SHIPPED.iter().find(|(name, _)| *name == "l2arc-lanes").expect("it is shipped");
    let quicker = shipped.1.replace("= 16_777_216", "= 400_000_000_000");
    let outcome =
        Experiment::parse("quicker", &quicker).and_then(|experiment| experiment.run(&|_| ()));
    let found = outcome.expect("it can be done").findings;
    assert!(found.iter().all(|finding| finding.basis == Basis::Found), "the device: {found:?}");
    // Beyond what a device can take its lanes have to share it.
    let [alone, shared] = ["each of 6 lanes", "each of 6 lanes, 2 to a device"]
        .map(|what| figure(&found, what, "MB/s"));
    assert!((0.4..0.6).contains(&(shared / alone)), "{alone} {shared}");
}

#[test]
fn pages_that_cannot_be_written_cost_eightfold() {
    near(&findings("tmpfs-page-out"), 0.05, &[]);
}

#[test]
fn deletes_want_their_index_in_the_cache() {
    near(&findings("index-deletes"), 0.3, &[]);
}

#[test]
fn a_scanner_without_the_cache_reads_ten_times_as_much() {
    let found = findings("clamscan");
    near(&found, 0.3, &["metadata"]);
    assert!(figure(&found, "metadata over all: read from the disks", "ratio") > 8.0);
    assert!(figure(&found, "metadata over all: time", "ratio") > 1.3);
}

#[test]
fn every_piece_brings_a_record() {
    near(&findings("read-amplification"), 0.06, &[]);
}

#[test]
fn one_large_cache_does_better_than_two() {
    let found = findings("innodb");
    let pages = |variant: &str| figure(&found, &format!("{variant}: pages"), "pages/s");
    assert!(
        pages("InnoDB has most, metadata, 16k") > 1.3 * pages("half each, all, 16k"),
        "{found:?}"
    );
    let read = |variant: &str| {
        figure(&found, &format!("{variant}: read from the disk for each page"), "KiB")
    };
    assert!(read("half each, all, 128k") > 4.0 * read("half each, all, 16k"), "{found:?}");
}

#[test]
fn flash_brings_random_reads() {
    near(&findings("l2arc-random"), 0.15, &[]);
}

#[test]
fn flash_brings_streams() {
    near(&findings("l2arc-sequential"), 0.15, &["four NVMe: 16", "four NVMe over no L2ARC, 16"]);
}

#[test]
fn a_slow_device_harms_who_always_asks_it() {
    let found = findings("l2arc-cautionary-tale");
    let over =
        |variant: &str| figure(&found, &format!("{variant} over no L2ARC, 64 threads"), "ratio");
    let harmed = over("as ZFS, noprefetch=0");
    assert!(harmed < 0.9, "{found:?}");
    // As the text says.
    let busy = figure(&found, "as ZFS, noprefetch=0: disks busy", "%");
    assert!(busy < 90.0 && figure(&found, "no L2ARC: disks busy", "%") > 95.0, "{found:?}");
    assert!(over("as ZFS, secondarycache=metadata") > harmed, "{found:?}");
    assert!(over("as ZFS, noprefetch=1") > 1.1 * harmed, "{found:?}");
    assert!(over("the engine") > 1.1, "{found:?}");
}

#[test]
fn writes_are_hardly_harmed_and_mixes_gain() {
    for name in ["l2arc-writes-random", "l2arc-writes-sequential"] {
        let found = findings(name);
        near(&found, 0.3, &["four NVMe over writes"]);
        let writes = figure(&found, "writes, four NVMe over writes, no L2ARC, 16 threads", "ratio");
        assert!(writes > 0.8, "{name}: {writes}");
        let mix = figure(&found, "mix, four NVMe over mix, no L2ARC, 16 threads", "ratio");
        assert!(mix > 1.15, "{name}: {mix}");
    }
}

#[test]
fn erasing_before_writing_is_a_cliff() {
    let found = findings("flash-erase-before-write");
    let lab: Vec<f64> = found.iter().map(|finding| finding.lab).collect();
    let [new, used, before, rested, discarded, _] = lab[..] else { panic!("{lab:?}") };
    assert!(used < 0.7 * new && rested > before && discarded > used, "{lab:?}");
}

#[test]
fn life_wear_and_power_are_as_the_sources_say() {
    near(&findings("flash-cell-life"), 0.1, &[]);
    near(&findings("flash-reserve"), 0.02, &[]);
    let lost: Vec<f64> = findings("flash-power-loss").iter().map(|found| found.lab).collect();
    assert!(lost[0] == 0.0 && lost[1] > 0.0, "{lost:?}");
}

#[test]
fn figures_that_divided_sizes_move_have_errors() {
    let run = |name: &str| Experiment::shipped(name).and_then(|experiment| experiment.run(&|_| ()));
    let erase = run("flash-erase-before-write").expect("it can be done");
    assert!(erase.is_scaled());
    for finding in &erase.findings {
        let (error, half) = (finding.error().expect("divided"), finding.half.expect("divided"));
        // Other places were drawn, and there are half as many: alike, and not the same.
        assert!(error > 0.0 && error < 0.1 * finding.lab, "{finding:?}");
        assert_eq!(error, (finding.lab - half).abs());
    }
    let whole = run("tmpfs-page-out").expect("it can be done");
    assert!(!whole.is_scaled() && whole.findings.iter().all(|it| it.error().is_none()));
}

#[test]
fn a_mistake_is_shown_where_it_stands() {
    let unknown = Experiment::shipped("tape").expect_err("there is none").to_string();
    assert!(unknown.contains("flash-reserve"), "{unknown}");
    let text = CELL_LIFE.replace("endurance_divisor", "endurance");
    let message = Experiment::parse("mine", &text).expect_err("refused").to_string();
    assert!(message.contains("mine") && message.contains("endurance"), "{message}");
    let text = CELL_LIFE.replace("sun-f20-slc", "nvme");
    let error = Experiment::parse("mine", &text).and_then(|experiment| experiment.run(&|_| ()));
    assert!(error.expect_err("refused").to_string().contains("not flash"));
}

#[test]
fn what_would_not_come_to_an_end_is_refused() {
    for (name, from, to, message) in [
        ("l2arc-random", "threads = [1, 4, 16, 64]", "threads = []", "no threads"),
        ("l2arc-random", "threads = [1, 4, 16, 64]", "threads = [400000]", "at most 65536"),
        ("l2arc-random", "threads = [1, 4, 16, 64]", "threads = [5000000]", "at most 4194304"),
        ("l2arc-random", "divisor = 256", "divisor = 1", "set divisor = "),
        ("clamscan", "files = 20_518", "files = 4000000000", "at most 4194304"),
        ("clamscan", "piece_bytes = 8192", "piece_bytes = 1", "set a larger divisor"),
        ("clamscan", "divisor = 4", "divisor = 9000000000000000000", "at most 1048576"),
        ("clamscan", "work_mb_s = 4.0", "work_mb_s = 1e-9", "0.01 to 1000000"),
        ("find-twice", "kept_bytes_each = 512", "kept_bytes_each = 9000000000", "at most 67108864"),
        ("safe-ceiling", "8_589_934_592", "40_000_000_000", "set a larger memory_bytes"),
        ("safe-ceiling", "arc_bytes = 25_769", "arc_bytes = 1_769", "make them agree"),
        ("safe-ceiling", "segmap_percent = 12,", "segmap_percent = 11,", "make them agree"),
        ("safe-ceiling", "segmap_percent = 12,", "segmap_percent = 101,", "at most 100"),
        ("safe-ceiling", "record_bytes = 8192", "record_bytes = 12345", "a power of two from 512"),
        ("safe-ceiling", "burst_bytes = 2_147", "burst_bytes = 42_147", "42147483648 more"),
        ("safe-ceiling", "threads = 32", "threads = 4194304", "at most 65536"),
        ("safe-ceiling", "measure_s = 60", "measure_s = 1e-9", "set 15 or more"),
        ("safe-ceiling", "ZFS with a ceil", "this engine with a ceil", "two are called"),
        ("safe-ceiling", "data_bytes = 85_899", "data_bytes = 985_899", "its disks hold"),
        ("safe-ceiling", "burst_every_s = 10", "burst_every_s = 9e18", "9e18, and at most 3600"),
        ("l2arc-lanes", "seconds = 60", "seconds = 99999999999", "procedure.lanes.seconds"),
        ("flash-erase-before-write", "pause_s = 10", "pause_s = 86400000000000", "at most 3600"),
        ("priming", "search_bytes = 8192", "search_bytes = 9000000000000000000", "at most 67108"),
        ("priming", "per_record = 2", "per_record = 1000", "a smaller search_bytes, searches_per"),
        ("innodb", "page_bytes = 16384", "page_bytes = 1", "1 to 67108864"),
        ("find-twice", "divisor = 10", "divisor = 1000000", "leaves none"),
        ("index-deletes", "divisor = 32", "divisor = 1", "set a larger divisor"),
        // What would take hours.
        ("priming", "search_bytes = 8192", "search_bytes = 67_108_864", "a smaller search_bytes"),
        ("priming", "passes = 4", "passes = 4_000_000", "requests of 16 KiB, and at most 2.7e8"),
        (
            "index-deletes",
            "reads_each = 4",
            "reads_each = 4_000_000",
            "a smaller deletes, reads_each",
        ),
        ("l2arc-lanes", "record_bytes = 131_072", "record_bytes = 1", "or larger record_bytes"),
        (
            "l2arc-random",
            "measure_s = ",
            "measure_s = 300",
            "a smaller warm_passes, settle_s, meas",
        ),
        ("safe-ceiling", "measure_s = 60", "measure_s = 3600", "a smaller warm_reads, measure_s"),
        (
            "flash-erase-before-write",
            "rounds = 4",
            "rounds = 4_000_000",
            "set a smaller used_after",
        ),
        ("flash-cell-life", "endurance_divisor = 1000", "endurance_divisor = 1", "endurance_div"),
        ("flash-reserve", "rounds = ", "rounds = 9999", "set a smaller rounds"),
        ("tmpfs-page-out", "page_bytes = 8192", "page_bytes = 1", "or larger page_bytes"),
        ("memory-systems", "stream_bytes = 524_288", "stream_bytes = 1", "larger stream_bytes"),
        ("free-behind", "read_bytes = 524_288", "read_bytes = 1", "or larger read_bytes"),
    ] {
        let shipped = SHIPPED.iter().find(|(known, _)| *known == name).expect("it is shipped");
        assert!(shipped.1.contains(from), "{name}: {from}");
        let mut text = shipped.1.replace(from, to);
        if name == "index-deletes" {
            let start = text.find("index_bytes = ").expect("it has an index");
            text.insert_str(start + "index_bytes = ".len(), "100_");
        }
        let error = Experiment::parse(name, &text).and_then(|experiment| experiment.run(&|_| ()));
        let shown = error.expect_err("refused").to_string();
        assert!(shown.contains(message), "{name}: {shown}");
    }
}

/// What is written in `docs/lab.md`, as files in a directory.
fn documented() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let page = include_str!("../../../../docs/lab.md");
    for block in page.split("```toml\n# ").skip(1) {
        let (name, text) = block.split_once('\n').expect("a line with the name of a file");
        let (text, _) = text.split_once("```").expect("the block ends");
        let text = format!("# {name}\n{text}");
        std::fs::write(directory.path().join(name), text).expect("it can be written");
    }
    directory
}

#[test]
fn experiments_of_the_page_can_be_done() {
    let directory = documented();
    let run = |name: &str| {
        let experiment = Experiment::read(&directory.path().join(name));
        let outcome = experiment.and_then(|experiment| experiment.run(&|_| ()));
        outcome.unwrap_or_else(|error| panic!("{name}: {error}")).findings
    };
    assert_eq!(run("mine.toml").len(), 2);
    let found = run("ours.toml");
    let gain = figure(&found, "two SSDs over disks alone, 16 threads", "ratio");
    assert!(gain > 2.0, "{found:?}");
    // Each number of threads is told, and no figure is lost in its error.
    for threads in ["4 threads", "16 threads"] {
        for variant in ["disks alone", "two SSDs"] {
            let name = format!("{variant}: {threads}");
            let of = |it: &&Finding| it.what == name && it.unit == "operations/s";
            let finding = found.iter().find(of).unwrap_or_else(|| panic!("{name}: {found:?}"));
            assert!(finding.error() < Some(0.25 * finding.lab), "{finding:?}");
        }
    }
    // The files are those that are named: SSDs a hundred times as slow bring less.
    let ssd = directory.path().join("ssd.toml");
    let text = std::fs::read_to_string(&ssd).expect("it is there");
    std::fs::write(&ssd, text.replace("= 90", "= 9000")).expect("it can be written");
    let found = run("ours.toml");
    assert!(figure(&found, "two SSDs over disks alone, 16 threads", "ratio") < gain / 1.5);
}

#[test]
fn mistakes_in_files_that_an_experiment_names_are_told_with_file_and_line() {
    let directory = documented();
    let change = |file: &str, from: &str, to: &str| {
        let path = directory.path().join(file);
        let text = std::fs::read_to_string(&path).expect("it is there");
        assert!(text.contains(from), "{file}: {from}");
        std::fs::write(&path, text.replace(from, to)).expect("it can be written");
        let done = Experiment::read(&directory.path().join("ours.toml"))
            .and_then(|experiment| experiment.run(&|_| ()));
        std::fs::write(&path, text).expect("it can be written");
        done.expect_err("refused").to_string()
    };
    for (file, from, to, said) in [
        ("ssd.toml", "= 90", "= 0", &["ssd.toml", "line 6", "above zero"][..]),
        ("ssd.toml", "= 90", "= -90", &["ssd.toml", "line 6", "above zero"]),
        ("ssd.toml", "command_us", "comand_us", &["ssd.toml", "line 10", "`comand_us`"]),
        ("ssd.toml", "= 4096", "= 1", &["ssd.toml", "stripe_bytes", "512 to"]),
        ("ssd.toml", "solid-state", "tape", &["ssd.toml", "`tape`"]),
        ("server.toml", "cores = 8", "cores = 0", &["server.toml", "line 9", "nonzero"]),
        (
            "server.toml",
            "sides = 2",
            "sides = 2\ncolour = 1",
            &["server.toml", "line 16", "colour"],
        ),
        ("server.toml", "sides = 2", "sides = 9000", &["18000 disks", "at most 4096"]),
        ("server.toml", "count = 2", "count = 5000000", &["server.toml", "caches.count"]),
        ("server.toml", "divisor = 64", "divisor = 1", &["may take 8 here", "set divisor = "]),
        ("server.toml", "count = 2", "count = 65", &["65 caches, and at most 64"]),
        (
            "server.toml",
            "count = 2",
            "count = 1",
            &["\"two SSDs\" has 2 caches, and the machine 1"],
        ),
        ("server.toml", "memory_bytes = 8_000", "memory_bytes = 1 #", &["memory_bytes = 1 over"]),
        (
            "ssd.toml",
            "capacity_bytes = 960",
            "capacity_bytes = 10",
            &["ssd.toml holds 10000000000 bytes, and the cache wants 30000000000"],
        ),
        ("server.toml", "scattered_percent = 50", "scattered_percent = 20", &["its disks hold 5"]),
        ("ours.toml", "20_000_000_000", "200_000_000_000", &["the data take 800000000000"]),
        ("ours.toml", "measure_s = 2", "measure_s = 1e-9", &["set a larger measure_s"]),
        ("ours.toml", "warm_percent = 90", "warm_percent = 200", &["warm_percent = 200", "100"]),
        ("ours.toml", "over = \"disks", "over = \"disk", &["\"disk alone\"", "\"disks alone\""]),
        ("ours.toml", "threads = 16,", "threads = 8,", &["8 threads", "threads are 4, 16"]),
        ("ours.toml", "[4, 16]", "[4, 16, 4]", &["threads has 4 twice"]),
        ("ours.toml", "over = \"disks alone\"", "over = \"two SSDs\"", &["over itself", "in over"]),
        (
            "ours.toml",
            "request_bytes = 8192",
            "request_bytes = 1",
            &["request_bytes = 1, ", "512 to"],
        ),
        (
            "ours.toml",
            "bytes_each = 20_000_000_000",
            "bytes_each = 5_000_000",
            &["bytes_each 0 are left by the divisor 64", "a larger bytes_each"],
        ),
        ("ours.toml", "\"two SSDs\", caches", "\"disks alone\", caches", &["two are called"]),
        ("server.toml", "./ssd.toml", "nvmee", &["\"nvmee\"", "sata-ssd"]),
        ("server.toml", "./ssd.toml", "./sdd.toml", &["sdd.toml", "No such file"]),
        ("server.toml", "sas-10k", "./ssd.toml", &["./ssd.toml is not a disk"]),
        ("ours.toml", "./server.toml", "./sever.toml", &["sever.toml", "No such file"]),
        ("ours.toml", "./server.toml", "server", &["solaris-server-2009", "end in .toml"]),
    ] {
        let message = change(file, from, to);
        for said in said {
            assert!(message.contains(said), "{to}: {said}: {message}");
        }
    }
}
