//! One file under a storm of operations always holds what was last written to each byte.
//!
//! `fsx` reads, writes, maps, truncates, punches holes, copies ranges and reopens in random order,
//! and after each step compares the file with a copy in its own memory. The seeds are fixed, so
//! that a failure comes again.

use std::time::Duration;

use warmfront_tests::{Mount, Program, Requirement, require, source_tree};

/// Number of operations a seed, or `WARMFRONT_FSX_OPERATIONS` for a soak.
fn operations() -> String {
    std::env::var("WARMFRONT_FSX_OPERATIONS").unwrap_or_else(|_| "3000".to_string())
}

fn storm(properties: &[(&str, &str)], seeds: &[u32]) {
    require!(Requirement::Fuse, Requirement::Tool("fsx"));
    let mut builder = Mount::builder();
    for (name, value) in properties {
        builder = builder.property(name, value);
    }
    let mut mount = builder.start();
    for seed in seeds {
        Program::new("fsx")
            .args(["-S", &seed.to_string(), "-N", &operations(), "-q", "-f"])
            .arg(source_tree().join("tests/fsx.toml"))
            .arg("-P")
            .arg(mount.warmfront().runtime_directory())
            .arg(mount.join(format!("file-{seed}")))
            .deadline(Duration::from_secs(3600))
            .run()
            .success();
        std::fs::remove_file(mount.join(format!("file-{seed}"))).expect("fsx leaves its file");
    }
    mount.unmount();
}

#[test]
fn with_the_page_cache() {
    storm(&[("pagecache", "on")], &[1, 2, 3]);
}

#[test]
fn without_the_page_cache() {
    storm(&[("pagecache", "off")], &[4, 5, 6]);
}

#[test]
fn with_small_records() {
    storm(&[("pagecache", "off"), ("recordsize", "4K")], &[7, 8]);
}

#[test]
fn when_nobody_else_writes() {
    storm(&[("coherence", "exclusive"), ("pagecache", "on"), ("recordsize", "16K")], &[9, 10]);
}

#[test]
fn when_contents_are_not_cached() {
    storm(&[("primarycache", "metadata"), ("pagecache", "off")], &[11]);
}
