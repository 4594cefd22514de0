use std::time::Duration;

use warmfront::{Pool, Txg, TxgState, WriteBackStatistics};

use crate::protocol::{IntentLogStatus, Latencies, TxgRow, WriteStatus};

/// Paths that are told of files which are not wholly at the origin.
const PATHS_MAX: usize = 5;

/// From which silence of a log device on people are told.
pub(crate) const LOG_SILENCE_TOLD: Duration = Duration::from_secs(2);

/// How writes go.
pub(crate) fn write_status(pool: &Pool) -> WriteStatus {
    let now = pool.write_back_statistics();
    let ended = |txg: &&Txg| txg.state == TxgState::Committed;
    let under_way = |txg: &&Txg| matches!(txg.state, TxgState::Quiescing | TxgState::Syncing);
    let current = now.txgs.iter().find(under_way).or(now.txgs.last());
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let paths = match now.failing.is_some() || now.silence.is_some() {
        true => pool.dirty_paths(PATHS_MAX),
        false => Vec::new(),
    };
    WriteStatus {
        dirty_bytes: now.throttle.dirty_bytes,
        dirty_bytes_max: now.throttle.dirty_bytes_max,
        waiting_bytes: now.throttle.waiting_bytes,
        dirty_files: now.dirty_files,
        txg: current.map(|txg| row(txg, &now)),
        last_sync: now.txgs.iter().rev().find(ended).map(|txg| row(txg, &now)),
        delay_us_last: us(now.throttle.last_delay),
        delay_us: us(now.throttle.delayed),
        delayed_writes: now.throttle.delayed_writes,
        waiting: paths.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        log: pool.log_statistics().as_ref().map(log_status),
        has_lost_log: pool.has_lost_log(),
        failing: now.failing,
        silent_seconds: now.silence.map(|silence| silence.as_secs_f64()),
    }
}

/// The last transaction groups, the open one last.
pub(crate) fn txgs(pool: &Pool) -> Vec<TxgRow> {
    let now = pool.write_back_statistics();
    now.txgs.iter().map(|txg| row(txg, &now)).collect()
}

fn row(txg: &Txg, at: &WriteBackStatistics) -> TxgRow {
    TxgRow {
        number: txg.number,
        state: txg.state.name().to_string(),
        open_seconds: txg.open.as_secs_f64(),
        dirty_bytes: txg.dirty_bytes,
        due_bytes: txg.due_bytes,
        files: txg.files,
        written_bytes: txg.written_bytes,
        writes: txg.writes,
        write_seconds: txg.writing.as_secs_f64(),
        flush_seconds: txg.flushing.as_secs_f64(),
        ended_seconds_ago: txg.ended.map(|ended| at.now.saturating_sub(ended).as_secs_f64()),
        error: txg.error.clone(),
    }
}

fn log_status(log: &warmfront::zil::Statistics) -> IntentLogStatus {
    IntentLogStatus {
        commits: log.commits,
        records: log.records,
        written_bytes: log.block_bytes,
        latency: Latencies {
            p50_us: log.latency_us.p50,
            p90_us: log.latency_us.p90,
            p99_us: log.latency_us.p99,
            p999_us: log.latency_us.p999,
            max_us: log.latency_us.max,
        },
        batch_mean: log.records_written as f64 / log.blocks.max(1) as f64,
        batch_max: log.batch.max,
        ring_bytes: log.ring_bytes,
        used_bytes: log.ring_bytes.saturating_sub(log.free_bytes),
        full: log.full,
        silent_seconds: (log.silence >= LOG_SILENCE_TOLD).then_some(log.silence.as_secs_f64()),
        failed: log.failed.as_ref().map(ToString::to_string),
    }
}
