//! Whatever programs do, the mount answers as the plain directory does.
//!
//! A random sequence of file system calls is carried out twice: on the mount and on a plain
//! directory of the same disk. Every call must have the same result, error numbers included; at
//! the end both trees must be equal, seen through the mount and seen at the origin. proptest
//! shrinks a failing sequence to a short one. The sequences are the same in every run unless
//! `WARMFRONT_SOAK` is set; `PROPTEST_CASES` says how many there are.

#[path = "differential/step.rs"]
mod step;
#[path = "differential/world.rs"]
mod world;

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use warmfront_tests::{Compare, Mount, Requirement, difference, require, test_directory};

use step::{Step, steps};
use world::World;

/// Steps of one sequence at most.
const STEPS_MAX: usize = 60;

/// Sequences unless `PROPTEST_CASES` says otherwise.
const CASES: u32 = 300;

fn compare_with_plain_directory(properties: &[(&str, &str)]) {
    require!(Requirement::Fuse);
    let mut builder = Mount::builder();
    for (name, value) in properties {
        builder = builder.property(name, value);
    }
    let mut mount = builder.start();
    let plain = test_directory();

    let mut config =
        Config { failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    let mut runner = match std::env::var_os("WARMFRONT_SOAK") {
        Some(_) => TestRunner::new(config),
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
    };
    let mut case = 0_u32;
    let case = std::cell::Cell::from_mut(&mut case);
    let outcome = runner.run(&(any::<bool>(), steps(STEPS_MAX)), |(preallocate, steps)| {
        case.set(case.get() + 1);
        let name = format!("case-{}", case.get());
        run_case(&mount, plain.path(), &name, preallocate, &steps)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    mount.unmount();
}

/// Carries out one sequence in both places, in a new directory called `name`.
fn run_case(
    mount: &Mount,
    plain: &Path,
    name: &str,
    preallocate: bool,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let (ours, theirs) = (mount.join(name), plain.join(name));
    let mut worlds = [World::new(&ours), World::new(&theirs)];
    for (index, step) in steps.iter().enumerate() {
        if step.is_unfair(preallocate) {
            continue;
        }
        let [ours, theirs] = worlds.each_mut().map(|world| world.carry_out(step));
        prop_assert_eq!(ours, theirs, "at step {}, {:?}: mount, then directory", index, step);
    }
    drop(worlds);
    let what = Compare { xattrs: true, ..Compare::default() };
    let seen = difference(&ours, &theirs, what);
    prop_assert!(seen.is_empty(), "through the mount: {:#?}", seen);
    mount.run(&["sync"]);
    let kept = difference(&mount.origin().join(name), &theirs, what);
    prop_assert!(kept.is_empty(), "at the origin: {:#?}", kept);
    std::fs::remove_dir_all(&ours).map_err(|error| TestCaseError::fail(error.to_string()))?;
    std::fs::remove_dir_all(&theirs).map_err(|error| TestCaseError::fail(error.to_string()))
}

#[test]
fn with_all_defaults() {
    compare_with_plain_directory(&[]);
}

#[test]
fn without_the_page_cache() {
    compare_with_plain_directory(&[("pagecache", "off"), ("recordsize", "16K")]);
}

#[test]
fn when_nobody_else_writes() {
    compare_with_plain_directory(&[("coherence", "exclusive"), ("pagecache", "off")]);
}

#[test]
fn when_nobody_else_writes_with_the_page_cache() {
    compare_with_plain_directory(&[("coherence", "exclusive"), ("pagecache", "on")]);
}
