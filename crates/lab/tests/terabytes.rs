//! Terabytes fit into the memory of a laptop: contents that nobody wrote take none. A process of
//! its own, since the most that it ever had is what is looked at.

use std::fs;

use lab::experiment::{Experiment, Outcome};

const GIB: u64 = 1 << 30;

/// Twelve clients with 100 GiB each.
const EXPERIMENT: &str = r#"
question = "Does it fit?"
source = "none"
setup = "1.2 TiB of data."
remark = "It fits."
seed = 1

[procedure.clients]
machine = "./server.toml"
clients = 12
bytes_each = 107_374_182_400
order = "random"
request_bytes = 8192
warm_percent = 0.02
settle_s = 0.1
measure_s = 1
threads = [16]
variants = [{ name = "it", caches = 4 }]
"#;

const SERVER: &str = r#"
about = "A server with disks and four SSDs"
memory_bytes = 67_108_864
divisor = 1
disk = "nearline-7200"
settings = { recordsize = "8K", compression = "off", coherence = "exclusive" }

[processor]
cores = 20
operation_us = 40
copy_mb_s = 280

[disks]
mirrors = 64
sides = 2
run_bytes = 131_072
scattered_percent = 100

[caches]
device = "nvme"
count = 4
bytes = 33_554_432
"#;

#[test]
fn data_of_terabytes_take_no_memory_and_caches_what_is_left_of_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("ours.toml");
    fs::write(&path, EXPERIMENT).expect("it can be written");
    let run = |server: &str| -> Outcome {
        fs::write(directory.path().join("server.toml"), server).expect("it can be written");
        let outcome = Experiment::read(&path).and_then(|experiment| experiment.run(&|_| ()));
        outcome.unwrap_or_else(|error| panic!("{error}"))
    };
    let rate = |outcome: &Outcome| {
        let found = outcome.findings.iter().find(|finding| finding.unit == "operations/s");
        found.unwrap_or_else(|| panic!("{outcome:?}")).lab
    };
    // Nothing is divided: all of the data is there to be asked for.
    let whole = run(SERVER);
    assert!(rate(&whole) > 1000.0, "{whole:?}");
    // Half a terabyte of RAM and two of flash, which the caches would fill: divided.
    let large = SERVER
        .replace("67_108_864", "549_755_813_888")
        .replace("33_554_432", "549_755_813_888")
        .replace("divisor = 1\n", "divisor = 4096\n");
    let divided = run(&large);
    assert!(rate(&divided) > 1000.0, "{divided:?}");
    let most = resident_bytes_max();
    assert!(most < GIB, "{} MiB were resident", most >> 20);
    // And it is what is looked at: memory that is filled shows.
    let filled = std::hint::black_box(vec![1u8; GIB as usize]);
    assert!(resident_bytes_max() > GIB, "{}", filled.len());
}

/// The most memory that this process has had.
fn resident_bytes_max() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is told");
    let kib = line.trim().trim_end_matches("kB").trim();
    kib.parse::<u64>().expect("a number") << 10
}
