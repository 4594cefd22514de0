use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use warmfront::Pool;

use crate::protocol::Undone;

/// Paths that are told of files which are not at the origin.
const PATHS_MAX: usize = 5;
/// How long a daemon that ends goes on trying to bring everything to an origin that refuses it.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two attempts.
const INTERVAL: Duration = Duration::from_secs(1);

/// Begins to bring to the origin what it does not have yet, and says what that is.
pub(crate) fn drain(pool: &Arc<Pool>) -> Undone {
    if pool.is_dirty() {
        pool.close_early();
    }
    undone(pool)
}

/// What the origin does not have yet.
pub(crate) fn undone(pool: &Arc<Pool>) -> Undone {
    let now = pool.write_back_statistics();
    let paths = pool.dirty_paths(PATHS_MAX);
    Undone {
        dirty_bytes: now.throttle.dirty_bytes,
        waiting_bytes: now.throttle.waiting_bytes,
        dirty_files: now.dirty_files,
        paths: paths.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        failing: now.failing,
        open_txg: now.open_txg,
        committed_txg: now.committed_txg,
    }
}

/// Brings everything to the origin, of a pool that nobody changes any more. Gives up after some
/// minutes, and says so.
pub(crate) fn drain_at_end(pool: &Arc<Pool>) {
    let began = Instant::now();
    while let Err(error) = block_on(pool.sync()) {
        if !pool.is_dirty() {
            tracing::warn!(%error, "the origin has everything, but may not keep it");
            return;
        }
        if began.elapsed() >= PATIENCE {
            let Undone { dirty_bytes, dirty_files, paths, .. } = undone(pool);
            tracing::error!(
                %error, dirty_bytes, dirty_files, ?paths,
                "the origin does not take what was written; what no log device has is lost"
            );
            return;
        }
        std::thread::sleep(INTERVAL);
    }
}
