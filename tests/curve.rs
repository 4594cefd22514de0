//! The miss-ratio curve of a mount: a load whose curve is known is read, and told.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;
use warmfront_tests::{Mount, Requirement, fill, require};

const MIB: usize = 1 << 20;
const RECORD: usize = 64 << 10;

/// Reads a file in order, record by record, this many times.
fn read_in_a_loop(path: &Path, contents: &[u8], rounds: usize) {
    let file = File::open(path).expect("the file opens");
    let mut buffer = vec![0; RECORD];
    for _ in 0..rounds {
        for (index, expected) in contents.chunks(RECORD).enumerate() {
            file.read_exact_at(&mut buffer, (index * RECORD) as u64).expect("a read");
            assert!(buffer == expected, "wrong bytes in record {index}");
        }
    }
}

#[track_caller]
fn curves(mount: &Mount, arguments: &[&str]) -> Vec<Value> {
    let told = mount.run(&[&["curve", "--json"], arguments].concat());
    serde_json::from_str(&told).expect("curve --json prints JSON")
}

/// Checks that the knee of a curve is at `bytes`, where the share of hits is `hit_rate`.
#[track_caller]
fn check_knee(curve: &Value, bytes: usize, hit_rate: f64) {
    let knee = &curve["knee"];
    let at = knee["bytes"].as_u64().expect("a knee") as f64 / bytes as f64;
    assert!((1.0..1.05).contains(&at), "{knee} is not at {bytes} bytes");
    let rate = knee["hit_rate"].as_f64().expect("a hit rate");
    assert!((rate - hit_rate).abs() < 0.005, "{knee} is not {hit_rate}");
}

/// A loop gains nothing until all of it fits.
#[test]
fn the_knee_of_a_loop_is_its_size() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder()
        .argument("--arc-max=64M")
        .property("recordsize", "64K")
        .property("prefetch", "none")
        .start();
    let contents = fill(&mount.origin().join("table"), 3, 24 * MIB);
    let told = mount.run(&["curve"]);
    assert!(told.contains("No contents have been read"), "{told}");
    read_in_a_loop(&mount.join("table"), &contents, 2);
    let told = mount.run(&["curve"]);
    assert!(told.contains("too early") && told.contains("768 accesses were sampled"), "{told}");
    read_in_a_loop(&mount.join("table"), &contents, 28);

    let curve = &curves(&mount, &[])[0];
    assert_eq!(curve["scope"], "pool");
    assert_eq!(curve["samples"], 30 * 384);
    check_knee(curve, 24 * MIB, 29.0 / 30.0);
    assert!((curve["measured_hit_rate"].as_f64().expect("a rate") - 29.0 / 30.0).abs() < 1e-6);

    let drawing = mount.origin().parent().expect("it lies somewhere").join("curve.svg");
    let told = mount.run(&["curve", "--svg", drawing.to_str().expect("a plain path")]);
    assert!(told.contains("today") && told.contains("knee 24"), "{told}");
    assert!(told.contains("gains nothing") && !told.contains("too early"), "{told}");
    assert!(!told.contains('\u{1b}'), "colours where there is no terminal");
    let drawn = fs::read_to_string(drawing).expect("it was drawn");
    assert!(drawn.starts_with("<svg") && drawn.contains("gains nothing"), "{drawn}");

    // A cache that is too small: how much more it takes, in words.
    mount.warmfront().program(["set-arc-max", "16M"]).arg(mount.path()).run().success();
    let told = mount.run(&["curve"]);
    assert!(told.contains("more would lift the hit rate from 0 % to 97 %"), "{told}");
    mount.unmount();
}

#[test]
fn each_dataset_has_a_curve() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder()
        .argument("--arc-max=64M")
        .property("recordsize", "64K")
        .property("prefetch", "none")
        .start();
    let sizes = [("small", 4 * MIB), ("large", 16 * MIB)];
    let mut files = Vec::new();
    let pool = curves(&mount, &[])[0]["name"].as_str().expect("a name").to_string();
    for (name, size) in sizes {
        fs::create_dir(mount.join(name)).expect("a directory");
        mount.warmfront().run(["create", &format!("{pool}/{name}")]);
        files.push(fill(&mount.join(name).join("table"), 5, size));
    }
    for _ in 0..20 {
        for ((name, _), contents) in sizes.iter().zip(&files) {
            read_in_a_loop(&mount.join(name).join("table"), contents, 1);
        }
    }
    let told = curves(&mount, &["-r"]);
    let of = |name: &str, scope: &str| {
        let name = if name.is_empty() { pool.clone() } else { format!("{pool}/{name}") };
        let found = told.iter().find(|curve| curve["name"] == *name && curve["scope"] == scope);
        found.unwrap_or_else(|| panic!("no curve of {name} in {told:#?}"))
    };
    check_knee(of("", "pool"), 20 * MIB, 0.95);
    check_knee(of("small", "dataset"), 4 * MIB, 0.95);
    check_knee(of("large", "dataset"), 16 * MIB, 0.95);
    let rows = mount.run(&["curve", "-r", "-H", "-p"]);
    let row = |row: &str| row.split('\t').map(str::to_string).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = rows.lines().map(row).collect();
    assert!(rows.iter().all(|row| row.len() == 7), "{rows:?}");
    assert!(rows.iter().all(|row| row[2].parse::<u64>().is_ok()), "{rows:?}");
    assert!(rows.iter().any(|row| row[0] == format!("{pool}/small") && row[6].contains("knee")));
    mount.unmount();
}
