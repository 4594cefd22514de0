use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::request::MountError;

/// The status with which a process ends that was told to.
const STATUS: i32 = 130;

/// Ends this process at once when a signal tells it to, for as long as this is held: while what a
/// log holds comes to the origin, which may take long, and may be stopped at any moment.
#[derive(Debug)]
pub(crate) struct EarlyStop(Handle);

impl EarlyStop {
    pub fn watch() -> io::Result<EarlyStop> {
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let handle = signals.handle();
        std::thread::Builder::new().name("early-stop".into()).spawn(move || {
            if signals.forever().next().is_some() {
                eprintln!("warmfront: {}", MountError::Stopped);
                std::process::exit(STATUS);
            }
        })?;
        Ok(EarlyStop(handle))
    }
}

impl Drop for EarlyStop {
    fn drop(&mut self) {
        self.0.close();
    }
}
