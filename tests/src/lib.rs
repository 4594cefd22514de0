//! What the end-to-end tests share: a mounted front, programs with a deadline, trees to compare.
//!
//! Every test of this package runs the `warmfront` command and works on its mount the way a user
//! does. A test names what it cannot do without in [`require!`]; where that is missing it says so
//! and is skipped, except in continuous integration (`CI` is set), where it fails.

mod dialogue;
mod faulty_disk;
mod group;
mod mapping;
mod mount;
mod place;
mod program;
mod requirement;
mod tree;
mod warmfront;

pub use dialogue::Dialogue;
pub use faulty_disk::FaultyDisk;
pub use group::Group;
pub use mapping::Mapping;
pub use mount::{Frozen, Mount, MountBuilder, SmallDisk, is_mounted};
pub use place::Place;
pub use program::{Background, Finished, Program, tool};
pub use requirement::{Requirement, skip};
pub use tree::{Compare, copy_tree, difference, fill, random_bytes};
pub use warmfront::{Warmfront, counter, origin_calls};

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use mount::detach;

/// The top directory of the source tree.
pub fn source_tree() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the package lies in the source tree").to_path_buf()
}

/// A directory for one test that everybody may enter, on a disk where the machine has one.
///
/// `/var/tmp` rather than `/tmp`, which is often a tmpfs: direct I/O, holes and extended
/// attributes there are not those of a disk.
pub fn test_directory() -> TempDir {
    use std::os::unix::fs::PermissionsExt;
    let base = match std::env::var_os("TMPDIR") {
        Some(chosen) => PathBuf::from(chosen),
        None => PathBuf::from("/var/tmp"),
    };
    tempfile::Builder::new()
        .prefix("warmfront-test-")
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir_in(base)
        .expect("a directory for the test")
}

/// Asks `condition` every few milliseconds until it holds or `deadline` has passed, and returns
/// whether it held.
pub fn wait_until(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if condition() {
            return true;
        }
        if start.elapsed() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
