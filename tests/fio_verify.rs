//! What fio wrote at random is what fio reads back, block by block.
//!
//! fio writes each block of a file once, in random order and sizes, with a header and a CRC-32C
//! in it, and then reads them all and checks. Half of the reads come while others still write.

use std::time::Duration;

use warmfront_tests::{Mount, Program, Requirement, require};

fn verify(pagecache: &str, arguments: &[&str]) {
    require!(Requirement::Fuse, Requirement::Tool("fio"));
    let mut mount = Mount::builder().property("pagecache", pagecache).start();
    Program::new("fio")
        .args([
            "--name=verify",
            "--rw=randwrite",
            "--size=24M",
            "--numjobs=2",
            "--randseed=20",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_backlog=512",
            "--do_verify=1",
            "--verify_state_save=0",
            "--group_reporting",
        ])
        .args(arguments)
        .arg(format!("--directory={}", mount.path().display()))
        .deadline(Duration::from_secs(180))
        .run()
        .success();
    // Once more from the cache, and once more from the origin after the mount is gone.
    for directory in [mount.path().to_path_buf(), mount.origin().to_path_buf()] {
        if directory == mount.origin() {
            mount.unmount();
        }
        Program::new("fio")
            .args(["--name=verify", "--rw=randwrite", "--size=24M", "--numjobs=2"])
            .args(["--randseed=20", "--verify=crc32c", "--verify_fatal=1", "--verify_only"])
            .arg("--verify_state_save=0")
            .args(arguments)
            .arg(format!("--directory={}", directory.display()))
            .run()
            .success();
    }
}

#[test]
fn buffered() {
    verify("on", &["--ioengine=psync", "--bsrange=512-64k"]);
}

#[test]
fn direct_with_a_queue() {
    verify("off", &["--ioengine=libaio", "--direct=1", "--iodepth=8", "--bs=4k"]);
}

#[test]
fn direct_through_the_page_cache() {
    verify("on", &["--ioengine=psync", "--direct=1", "--bsrange=4k-256k", "--blockalign=4k"]);
}

#[test]
fn mapped() {
    verify("on", &["--ioengine=mmap", "--bs=4k"]);
}
