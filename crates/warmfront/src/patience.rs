/// What has become of somebody who waits for a call.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use warmfront::{Patience, Waiting};
///
/// /// Set when the program was told to end.
/// struct Ending(AtomicBool);
///
/// impl Patience for Ending {
///     fn waiting(&self) -> Waiting {
///         if self.0.load(Ordering::Relaxed) { Waiting::ToEnd } else { Waiting::On }
///     }
/// }
///
/// assert_eq!(Ending(AtomicBool::new(true)).waiting(), Waiting::ToEnd);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// He waits on.
    On,
    /// He has been asked to end, and will once the call returns.
    ToEnd,
    /// He is being killed: nobody will hear the answer.
    Nobody,
}

/// Tells what has become of somebody who waits for a call. It is asked several times a second while
/// he is held up.
///
/// ```
/// use std::time::{Duration, Instant};
/// use warmfront::{Patience, Waiting};
///
/// /// Waits no longer than until then.
/// struct Until(Instant);
///
/// impl Patience for Until {
///     fn waiting(&self) -> Waiting {
///         if Instant::now() < self.0 { Waiting::On } else { Waiting::Nobody }
///     }
/// }
///
/// assert_eq!(Until(Instant::now() + Duration::from_secs(9)).waiting(), Waiting::On);
/// ```
pub trait Patience: Send + Sync {
    /// What has become of him.
    fn waiting(&self) -> Waiting;

    /// Asked when contents are about to be changed for him: whether he waits for that still. If so,
    /// he waits until [`changed`](Patience::changed); if not, nothing may be changed any more.
    fn stays(&self) -> bool {
        true
    }

    /// What he asked for has been changed, or will be before what others ask for.
    fn changed(&self) {}

    /// So many bytes have been taken of what he wrote. What he waits for from now on is only that
    /// they last, which the log sees to.
    fn until_it_lasts(&self, taken_bytes: usize) {
        let _ = taken_bytes;
    }
}

/// Waits for as long as it takes.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_pool(async |pool| {
/// # let found = pool.lookup(pool.root(), "file".as_ref()).await?;
/// # let file = pool.open_file(found.object, READ_WRITE).await?;
/// use warmfront::Endless;
///
/// assert_eq!(file.write_for(&Endless, 0, b"C").await?, 1);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Endless;

impl Patience for Endless {
    fn waiting(&self) -> Waiting {
        Waiting::On
    }
}
