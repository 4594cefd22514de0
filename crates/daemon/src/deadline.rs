use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

/// Makes a call that may hang, on a thread of its own. `None` if it has not come back within
/// `limit`: the thread is left behind then, and ends when the call does.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    call: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = sync_channel(1);
    // Nobody listens any more when it took too long.
    let called = move || drop(sender.send(call()));
    let started = thread::Builder::new().name("deadline".into()).spawn(called);
    started.ok().and_then(|_| receiver.recv_timeout(limit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_come_back_is_not_waited_for() {
        let (let_go, hangs) = sync_channel::<()>(0);
        assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
        let hanging = move || hangs.recv().is_ok();
        assert_eq!(within(Duration::from_millis(20), hanging), None);
        drop(let_go);
    }
}
