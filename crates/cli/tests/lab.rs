//! `warmfront lab`, as its users call it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn lab(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warmfront"))
        .args(["lab", "policies"])
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("the command runs")
}

/// A directory with a loop over five blocks, ten times.
fn with_loop() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let text = "1\n2\n3\n4\n5\n".repeat(10);
    fs::write(directory.path().join("loop.trace"), text).expect("it can be written");
    directory
}

#[test]
fn rows_for_programs() {
    let directory = with_loop();
    let arguments = ["loop.trace", "--policies", "lru,min,lru", "--sizes", "80%,5b,5b", "--json"];
    let output = lab(directory.path(), &arguments);
    assert!(output.status.success(), "{output:?}");
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let rows = rows.as_array().expect("it is an array");
    let figures: Vec<_> = rows
        .iter()
        .map(|row| {
            (row["policy"].as_str(), row["capacity_blocks"].as_u64(), row["misses"].as_u64())
        })
        .collect();
    let expected = [
        (Some("lru"), Some(4), Some(50)),
        (Some("lru"), Some(5), Some(5)),
        (Some("min"), Some(4), Some(16)),
        (Some("min"), Some(5), Some(5)),
    ];
    assert_eq!(figures, expected);
    assert_eq!(rows[0]["trace"], "loop");
    assert_eq!(rows[0]["requests"], 50);
    assert_eq!(rows[0]["fraction"], 0.8);
    assert_eq!(rows[0]["miss_ratio"], 1.0);
}

#[test]
fn a_table_for_people_and_a_plot() {
    let directory = with_loop();
    let arguments =
        ["loop.trace", "--policies", "min,lru,lirs", "--sizes", "80%", "--plot", "x.svg"];
    let output = lab(directory.path(), &arguments);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("it is text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "loop: 50 requests for 5 blocks of 4K, 20K");
    assert_eq!(lines[2], "MISSES, %      80% (4)");
    assert_eq!(lines[3], "lru            100.00");
    assert!(lines[4].starts_with("lirs") && lines[4].ends_with('*'), "{text}");
    assert_eq!(lines[5], "min (optimum)   32.00");
    assert!(text.contains("hits at 80% (4), where policies differ most"), "{text}");
    let picture = fs::read_to_string(directory.path().join("x.svg")).expect("there is a plot");
    assert!(picture.starts_with("<svg") && picture.contains("lirs"), "{picture}");
}

/// With sizes that differ, the farthest next use is not the best to evict.
#[test]
fn no_optimum_is_claimed_where_sizes_differ() {
    let directory = with_loop();
    fs::write(directory.path().join("sizes.csv"), "1,7,100\n2,8,300\n3,7,100\n4,9,50\n")
        .expect("it can be written");
    let text = |arguments: &[&str]| {
        let output = lab(directory.path(), arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("it is text")
    };
    let sized = ["--policies", "lru,min", "--sizes", "50%"];
    let people = text(&[&["sizes.csv"], &sized[..]].concat());
    assert!(
        people.contains("min (farthest next use)") && !people.contains("(optimum)"),
        "{people}"
    );
    assert!(people.contains("an optimum only when all sizes are equal"), "{people}");
    let both = text(&[&["loop.trace", "sizes.csv", "--markdown"], &sized[..]].concat());
    assert!(both.contains("min (optimum)") && both.contains(", no optimum |"), "{both}");
}

/// A recording of a share is said to be one.
#[test]
fn a_recording_of_a_share_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines: String =
        (0..200u64).map(|at| format!("{at} r 00ab {} 4096\n", at % 50 * 4096)).collect();
    let text = format!("warmfront recording 1, 25 % of all contents\n{lines}");
    fs::write(directory.path().join("x.trace"), text).expect("it can be written");
    for command in ["policies", "size"] {
        let output = Command::new(env!("CARGO_BIN_EXE_warmfront"))
            .args(["lab", command, "x.trace"])
            .current_dir(directory.path())
            .output()
            .expect("the command runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("a recording of 25 % of the contents"), "{command}: {output:?}");
    }
}

#[test]
fn several_traces_end_with_standings() {
    let directory = with_loop();
    let words = [1u32, 2, 1, 3, 1, 4].map(u32::to_le_bytes).concat();
    fs::write(directory.path().join("words"), words).expect("it can be written");
    let arguments = ["loop.trace", "u32le:words", "--policies", "lru,min", "--sizes", "2b"];
    let output = lab(directory.path(), &arguments);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("it is text");
    assert!(text.contains("loop: 50 requests") && text.contains("words: 6 requests"), "{text}");
    assert!(text.contains("2 traces and sizes"), "{text}");
    let output = lab(directory.path(), &[&arguments[..], &["--markdown"]].concat());
    let text = String::from_utf8(output.stdout).expect("it is text");
    assert!(
        text.starts_with("| trace | size | lru | min (optimum) |\n|---|--:|--:|--:|"),
        "{text}"
    );
    assert!(text.contains("| words | 50% (2) | **33.33** | 33.33 |"), "{text}");
    assert_eq!(text.matches("| trace |").count(), 1, "{text}");
}

#[test]
fn every_mistake_has_its_message() {
    let directory = with_loop();
    fs::write(directory.path().join("cut.zst"), [0x28, 0xb5, 0x2f, 0xfd, 4]).expect("written");
    let cases: [(&[&str], i32, &[&str]); 9] = [
        (&["none.trace"], 1, &["cannot open the trace none.trace"]),
        (&["cut.zst"], 1, &["cannot read the trace cut.zst", "byte 0"]),
        (&["loop.trace", "--format", "ssdsim"], 1, &["loop.trace, line 1", "device"]),
        (&["loop.trace", "--format", "blktrace"], 2, &["`blktrace`", "vscsi"]),
        (&["loop.trace", "--policies", "lru,fifo"], 2, &["`fifo`", "s3-fifo"]),
        (&["loop.trace", "--sizes", "1%,,2%"], 2, &["`` is not a size", "512M"]),
        (
            &["loop.trace", "--sizes", "50%,4095"],
            2,
            &["a cache of 4095 bytes", "of loop.trace", "takes 4096;"],
        ),
        (
            &["loop.trace", "--sizes", "2K", "--charge"],
            2,
            &["a cache of 2048 bytes", "takes 4096;"],
        ),
        (&["loop.trace", "--plot", "no/where.svg"], 1, &["cannot write the plot no/where.svg"]),
    ];
    for (arguments, status, parts) in cases {
        let output = lab(directory.path(), arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {message}");
        for part in parts {
            assert!(message.contains(part), "no {part:?} in {message:?}");
        }
    }
}

fn experiments(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warmfront"))
        .arg("lab")
        .args(arguments)
        .output()
        .expect("the command runs")
}

#[test]
fn a_recording_of_nothing_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    for [option, value] in [["--seconds", "0"], ["--size", "0"], ["--sample", "101"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_warmfront"))
            .args(["record", option, value, "--output", "x.trace", "/"])
            .current_dir(directory.path())
            .output()
            .expect("the command runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{option}: {message}");
        assert!(!directory.path().join("x.trace").exists(), "{option}");
    }
}

#[test]
fn experiments_are_listed_and_repeat_to_the_byte() {
    let text = |arguments: &[&str]| {
        let output = experiments(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("it is text")
    };
    let list = text(&["list"]);
    assert!(list.contains("flash-power-loss") && list.contains("lost with the power"), "{list}");
    let table = text(&["run", "flash-power-loss"]);
    assert!(table.contains("SOURCE") && table.contains("super-capacitor"), "{table}");
    // Each experiment has a line of its own where nobody looks, and texts are in lines.
    assert!(list.lines().skip(1).all(|line| line.ends_with('?')), "{list}");
    let short = |text: &str| text.lines().all(|line| line.chars().count() <= 82);
    assert!(table.lines().filter(|line| !line.contains("  ")).all(short), "{table}");
    let table = text(&["run", "tmpfs-page-out"]);
    assert!(table.contains("The second copies come") && !table.contains("ERROR is"), "{table}");
    assert!(table.contains("1.00 f\n") && table.contains("f: fitted, so that"), "{table}");
    assert!(short(&table), "{table}");
    let csv = || text(&["run", "--csv", "flash-power-loss", "l2arc-lanes"]);
    assert_eq!(csv(), csv());
    assert_eq!(csv().matches("experiment,what").count(), 1);
    let unknown = experiments(&["run", "flash-power-loss", "tape"]);
    assert!(!unknown.status.success() && unknown.stdout.is_empty(), "{unknown:?}");
    let begun = std::time::Instant::now();
    let nowhere = experiments(&["run", "--all", "--report", "/nowhere/x.html"]);
    assert!(!nowhere.status.success() && nowhere.stdout.is_empty(), "{nowhere:?}");
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("/nowhere/x.html"), "{nowhere:?}");
    assert!(begun.elapsed().as_secs() < 20, "it is refused before anything is done");
    let message = String::from_utf8_lossy(&unknown.stderr);
    assert!(message.contains("\"tape\"") && message.contains("l2arc-lanes"), "{message}");
}

#[test]
fn sizes_are_found_for_people_and_programs() {
    let directory = with_loop();
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_warmfront"))
            .args(["lab", "size"])
            .args(arguments)
            .current_dir(directory.path())
            .output()
            .expect("the command runs")
    };
    let arguments = ["loop.trace", "--ram", "20%,150%", "--flash", "none,200%", "--policies"];
    let people = run(&[&arguments[..], &["lru", "--response", "5ms", "--plot", "x.svg"]].concat());
    assert!(people.status.success(), "{people:?}");
    let text = String::from_utf8(people.stdout).expect("it is text");
    assert!(text.contains("10.0 % of the requests are the first"), "{text}");
    assert!(text.contains("* the cheapest that responds in time"), "{text}");
    let picture = fs::read_to_string(directory.path().join("x.svg")).expect("there is a plot");
    assert!(picture.starts_with("<svg") && picture.contains("worth their price"), "{picture}");
    let programs = run(&[&arguments[..], &["lru,arc", "--json"]].concat());
    let found: serde_json::Value = serde_json::from_slice(&programs.stdout).expect("it is JSON");
    assert_eq!(found["choices"].as_array().map(Vec::len), Some(8));
    assert_eq!(found["currency"], "USD");
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--response", "fast"], 2, "is not a time"),
        (&["--sample", "101"], 2, "at most 100"),
        (&["--plot", "no/where.svg"], 1, "cannot write the plot no/where.svg"),
        (&["--budget=-5"], 2, "above zero"),
        (&["--disk", "tape"], 1, "nearline-7200"),
        (&["--prices", "none.toml"], 1, "cannot read the prices none.toml"),
        (&["--records", "5000"], 2, "a power of two from 4K to 1M"),
        (&["--disks", "0"], 2, "number of disks"),
    ];
    for (more, status, part) in cases {
        let output = run(&[&["loop.trace"], more].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{more:?}: {message}");
        assert!(message.contains(part), "no {part:?} in {message:?}");
    }
}

/// Tables of experiments are no wider than 80 columns where there is no terminal, and have no
/// column for errors where nothing is divided.
#[test]
fn tables_of_experiments_fit_and_have_no_empty_column() {
    let output = Command::new(env!("CARGO_BIN_EXE_warmfront"))
        .args(["lab", "run", "flash-power-loss", "tmpfs-page-out"])
        .output()
        .expect("the command runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("FOUND"), "{output:?}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains("ERROR"), "{text}");
}

/// A recording that lost its end is not taken for one with another last request.
#[test]
fn a_recording_that_is_cut_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let text =
        "warmfront recording 1, 100 % of all contents\n1 r 00ab 0 131072\n2 r 00ab 0 131072\n";
    fs::write(directory.path().join("x.trace"), &text[..text.len() - 5]).expect("it is written");
    let output = lab(directory.path(), &["x.trace"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{output:?}");
    assert!(
        message.contains("line 3")
            && message.contains("1 request before that is usable, for 32 blocks;"),
        "{message}"
    );
}
