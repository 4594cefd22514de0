//! Cases of OpenZFS's test suite for its ARC that need a mount. Those of the cache alone are in
//! `crates/arc/tests/openzfs_cases.rs`.

use std::fs;

use warmfront_tests::{Mount, Requirement, fill, require};

/// `dbufstats_003_pos`: the tools that tell about the ARC run with each option and filter.
#[test]
fn every_option_of_the_tools_works() {
    require!(Requirement::Fuse);
    let mut mount = Mount::builder().property("pagecache", "off").start();
    fill(&mount.origin().join("file"), 1, 4 << 20);
    for _ in 0..2 {
        fs::read(mount.join("file")).unwrap();
    }
    let run = |arguments: &[&str]| {
        let told = mount.run(arguments);
        assert!(!told.trim().is_empty(), "{arguments:?} tells nothing");
        told
    };
    let columns = run(&["arcstat", "-v"]);
    for options in [&["-a"][..], &["-x"], &["-z"], &["-H"], &["-p"], &["-H", "-p"], &["--json"]] {
        run(&[&["arcstat"], options].concat());
    }
    run(&["arcstat", "-s", "|", "-f", "time,read"]);
    let names: Vec<&str> =
        columns.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 30, "{columns}");
    for name in names {
        run(&["arcstat", "-f", name]);
    }

    let file = mount.join("file");
    let why = |options: &[&str]| {
        let program = mount.warmfront().program(["why"]).args(options).arg(&file);
        let told = program.run().success();
        assert!(!told.trim().is_empty(), "why {options:?} tells nothing");
    };
    for options in [&[][..], &["-H"], &["-p"], &["--json"]] {
        why(options);
        run(&[&["status"], options].concat());
        run(&[&["curve"], options].concat());
    }
    mount.unmount();
}
