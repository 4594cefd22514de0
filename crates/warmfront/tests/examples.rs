//! The example programs run to their end. `cargo test` builds them beside the tests.

use std::path::PathBuf;
use std::process::Command;

fn run(name: &str) {
    let test = std::env::current_exe().expect("a test has a program");
    let built = test.ancestors().nth(2).map(|target| target.join("examples").join(name));
    let Some(program) = built.filter(|program: &PathBuf| program.exists()) else {
        println!("skipped: {name}: not built; run cargo build --examples");
        return;
    };
    let output = Command::new(&program).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", program.display());
    assert!(!output.stdout.is_empty(), "{} says nothing", program.display());
}

#[test]
fn sync_values() {
    run("sync_values");
}

#[test]
fn async_values() {
    run("async_values");
}

#[test]
fn file_blocks() {
    run("file_blocks");
}

#[test]
fn pool_over_directory() {
    run("pool_over_directory");
}
