use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::WriteOut;
use crate::caller::{CallerState, caller_state};
use crate::crew::Crew;
use crate::reply::send;

/// Between two looks at the requests under way.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Which request a thread works on, as far as somebody else may answer it.
#[derive(Debug)]
pub(crate) struct Desk {
    /// Where its requests come from, and answers to them go.
    device: Arc<OwnedFd>,
    /// The number of the request; zero while there is none.
    unique: AtomicU64,
    /// Who has made it.
    pid: AtomicU32,
    /// What it waits for, if that is only that something lasts.
    asked: Mutex<Option<Asked>>,
    /// The request at the last look.
    seen: AtomicU64,
    decided: Mutex<Decided>,
}

/// What was changed before a moment has to last, and the answer once it does.
#[derive(Debug, Clone, Copy)]
struct Asked {
    since: Instant,
    /// Bytes that were taken, if it is a write.
    written_bytes: Option<u32>,
}

/// What becomes of a request whose caller is killed: it can be answered from elsewhere, or change
/// something after its caller has heard nothing, but not both.
#[derive(Debug, Default)]
struct Decided {
    /// The last request that was answered from elsewhere.
    left: u64,
    /// The request that is changing something; zero while there is none.
    stays: u64,
}

/// The right of a call to change something: it ends when the caller is told that he need not wait.
#[derive(Debug)]
pub struct Stay<'a>(&'a Desk);

impl<'a> Stay<'a> {
    pub(crate) fn new(desk: &'a Desk) -> Stay<'a> {
        Stay(desk)
    }

    /// Whether the caller has been told that he need not wait.
    pub fn is_left(&self) -> bool {
        self.0.decided.lock().left == self.0.unique.load(Ordering::Relaxed)
    }

    /// Keeps the caller until [`release`](Stay::release); `false` if he has gone.
    pub fn keep(&self) -> bool {
        let unique = self.0.unique.load(Ordering::Relaxed);
        let decided = &mut *self.0.decided.lock();
        let is_here = decided.left != unique;
        if is_here {
            decided.stays = unique;
        }
        is_here
    }

    /// The caller may go: what he asked for is done, or will be in its order.
    pub fn release(&self) {
        self.0.decided.lock().stays = 0;
    }

    /// What the caller waits for from now on is only that what was changed until now lasts, which
    /// the log sees to. If he writes, so many bytes of it have been taken.
    pub fn until_it_lasts(&self, written_bytes: Option<u32>) {
        *self.0.asked.lock() = Some(Asked { since: Instant::now(), written_bytes });
    }
}

impl Desk {
    /// Works on a request that may be answered from elsewhere, and end after its caller has gone.
    pub(crate) fn during<T>(&self, unique: u64, pid: u32, work: impl FnOnce() -> T) -> T {
        self.pid.store(pid, Ordering::Relaxed);
        self.unique.store(unique, Ordering::Release);
        let result = work();
        self.unique.store(0, Ordering::Release);
        self.decided.lock().stays = 0;
        *self.asked.lock() = None;
        result
    }

    /// Lets the caller of a request go; `false` if he has to stay.
    fn leave(&self, unique: u64) -> bool {
        let decided = &mut *self.decided.lock();
        if decided.stays != unique {
            decided.left = unique;
        }
        decided.stays != unique
    }

    /// The request and its caller, if it was there at the last look already.
    fn lasting(&self) -> Option<(u64, u32)> {
        let unique = self.unique.load(Ordering::Acquire);
        let pid = self.pid.load(Ordering::Acquire);
        let was_there = self.seen.swap(unique, Ordering::Relaxed) == unique;
        // The thread may have gone on to another one meanwhile.
        let is_there = self.unique.load(Ordering::Acquire) == unique;
        (unique != 0 && was_there && is_there).then_some((unique, pid))
    }
}

/// The desks of a session's threads.
///
/// A thread that waits for an origin which does not answer cannot be called back from its system
/// call. The program that has made the call would stay for as long, and no signal would end it. So
/// once it is being killed its request is answered for it; what the thread says later is not heard.
/// The same goes for a program that waits for a device to make something last, once that lasts
/// elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Vec<Arc<Desk>>>);

impl Watch {
    /// A desk for a thread that answers on `device`.
    pub(crate) fn seat(&self, device: Arc<OwnedFd>) -> Arc<Desk> {
        let (unique, seen) = (AtomicU64::new(0), AtomicU64::new(0));
        let (pid, decided) = (AtomicU32::new(0), Mutex::default());
        let asked = Mutex::default();
        let desk = Arc::new(Desk { device, unique, pid, asked, seen, decided });
        self.0.lock().push(desk.clone());
        desk
    }

    /// A thread leaves.
    pub(crate) fn leave(&self, desk: &Arc<Desk>) {
        self.0.lock().retain(|other| !Arc::ptr_eq(other, desk));
    }

    /// Looks after the requests until the session has ended. `lasts` says whether what had been
    /// changed so long ago lasts.
    pub(crate) fn run(&self, crew: &Crew, lasts: impl Fn(Duration) -> bool) {
        while !crew.wait_for(LOOK_INTERVAL) {
            let desks = self.0.lock().clone();
            for desk in desks {
                let Some((unique, pid)) = desk.lasting() else { continue };
                let asked = *desk.asked.lock();
                let (error, size) = if caller_state(pid) == CallerState::Dying {
                    (-Errno::INTR.raw_os_error(), None)
                } else if let Some(asked) = asked.filter(|asked| lasts(asked.since.elapsed())) {
                    (0, asked.written_bytes)
                } else {
                    continue;
                };
                if desk.leave(unique) {
                    tracing::debug!(unique, pid, error, "a call is answered for who works on it");
                    // One that has been answered meanwhile is not known any more.
                    let written = size.map(|size| WriteOut { size, padding: 0 });
                    let pieces = written.iter().map(WriteOut::as_bytes);
                    let _ = send(desk.device.as_fd(), unique, error, pieces);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lasts_is_looked_at() {
        let watch = Watch::default();
        let device = std::fs::File::open("/dev/null").expect("it opens");
        let desk = watch.seat(Arc::new(device.into()));
        assert_eq!(desk.lasting(), None);
        desk.during(7, 70, || {
            assert_eq!(desk.lasting(), None, "it has just come");
            assert_eq!(desk.lasting(), Some((7, 70)));
        });
        assert_eq!(desk.lasting(), None);
        desk.during(8, 80, || assert_eq!(desk.lasting(), None));
        desk.during(9, 90, || assert_eq!(desk.lasting(), None, "that was another one"));
        watch.leave(&desk);
        assert!(watch.0.lock().is_empty());
    }

    #[test]
    fn who_stays_is_not_answered_for_and_who_has_gone_changes_nothing() {
        let watch = Watch::default();
        let device = std::fs::File::open("/dev/null").expect("it opens");
        let desk = watch.seat(Arc::new(device.into()));
        desk.during(7, 70, || {
            let stay = Stay::new(&desk);
            assert!(!stay.is_left() && stay.keep());
            assert!(!desk.leave(7), "he waits for a change");
            stay.release();
            assert!(desk.leave(7), "it is done");
            assert!(stay.is_left() && !stay.keep());
        });
        desk.during(8, 80, || assert!(Stay::new(&desk).keep(), "that was another one"));
        desk.during(9, 90, || assert!(desk.leave(9), "the last one has ended"));
    }
}
