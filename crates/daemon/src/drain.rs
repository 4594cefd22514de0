use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
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
/// How long the cache devices of a pool that ends may take nothing.
const CACHES_PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks whether they do.
const CACHES_INTERVAL: Duration = Duration::from_millis(100);

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
        waits_for: None,
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

/// Writes down on the cache devices, of a pool that nobody uses any more, what makes the next start
/// warm. Not on those that do not answer: they are as after a crash then.
pub(crate) fn stop_caches_at_end(pool: &Arc<Pool>) -> io::Result<()> {
    let (done, is_done) = channel();
    let own = pool.clone();
    let written_bytes =
        || -> u64 { pool.flash_statistics().rings.iter().map(|ring| ring.written_bytes).sum() };
    std::thread::Builder::new().name("caches".into()).spawn(move || {
        block_on(own.stop_caches());
        // Nobody waits for it any more if that took too long.
        let _ = done.send(());
    })?;
    let (mut written, mut since) = (written_bytes(), Instant::now());
    while is_done.recv_timeout(CACHES_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let now = written_bytes();
        if now != written {
            (written, since) = (now, Instant::now());
        } else if since.elapsed() >= CACHES_PATIENCE {
            tracing::warn!(
                "a cache device has taken nothing for {} s and is left as it is; what it holds is \
                 found again as after a crash",
                CACHES_PATIENCE.as_secs()
            );
            return Ok(());
        }
    }
    Ok(())
}
