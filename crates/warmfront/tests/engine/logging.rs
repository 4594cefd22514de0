//! The intent log under a pool.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::{Bench, pattern};
use futures::executor::block_on;
use storage::{Call, MemoryDevice, RealClock, SetAttributes, SetTime, Timestamp};
use warmfront::Pool;
use warmfront::zil::{Log, Opening, Options};

const CEILING: u64 = 64 << 20;
const LOG_BYTES: usize = 4 << 20;
/// How long something may take that does not wait for anybody.
const PATIENCE: Duration = Duration::from_secs(30);

fn log() -> Log {
    let device = Arc::new(MemoryDevice::new(LOG_BYTES, 4096));
    let opening = Opening { pool: [1; 16], log: [2; 16], seed: [3; 16], force: false };
    let options = Options { block_bytes_max: 128 << 10, fill: false, ..Options::default() };
    block_on(Log::format(device, opening, options, Arc::new(RealClock::new())))
        .expect("it is blank")
}

/// Who changes a file holds what a commit needs: if a full log made him wait for one, neither would
/// ever go on.
#[test]
fn a_full_log_holds_no_change_up() {
    let bench = Bench::new(&["coherence=exclusive"], CEILING);
    block_on(bench.pool.add_log(Arc::new(log()), Arc::new(|| Ok(())))).expect("nothing is dirty");
    let (slow, other) = (bench.create("slow"), bench.create("other"));
    let set_times = |pool: &Arc<Pool>, id, seconds| {
        let modified = Some(SetTime::At(Timestamp { seconds, nanoseconds: 0 }));
        let change = SetAttributes { modified, ..SetAttributes::default() };
        block_on(pool.set_attributes(id, None, change)).expect("the origin takes it");
    };
    // The origin has its contents by then.
    block_on(other.write(0, &pattern(4096, 1))).expect("memory takes it");
    set_times(&bench.pool, other.object(), 0);
    // A commit that stands still keeps the log from being released. It may begin by itself.
    bench.faults.hang(|call| matches!(call, Call::Write { .. }));
    block_on(slow.write(0, &pattern(4096, 1))).expect("memory takes it");
    bench.pool.close_early();
    let began = Instant::now();
    while bench.faults.hanging() == 0 {
        assert!(began.elapsed() < PATIENCE, "nothing is written");
        std::thread::yield_now();
    }
    let (pool, id) = (bench.pool.clone(), other.object());
    let (tell, told) = mpsc::channel();
    let changer = std::thread::spawn(move || {
        let full = || pool.log_statistics().expect("there is a log").full;
        for seconds in 1.. {
            if full() > 0 {
                break;
            }
            set_times(&pool, id, seconds);
        }
        tell.send(()).expect("somebody listens");
    });
    let outcome = told.recv_timeout(PATIENCE);
    bench.faults.release();
    outcome.expect("a change waits for a commit that waits for it");
    changer.join().expect("it has ended");
    block_on(other.sync(false)).expect("the origin takes it");
}
