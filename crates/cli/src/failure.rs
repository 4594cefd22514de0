use std::fmt::Display;
use std::process::ExitCode;

use daemon::{ControlError, MountError, PathsError};

/// Exit statuses, as `--help` lists them.
pub(crate) mod status {
    /// What was asked for could not be done.
    pub(crate) const FAILED: u8 = 1;
    /// The command line makes no sense. clap uses the same.
    pub(crate) const USAGE: u8 = 2;
    /// `prime`: not all of it fits, or not all of it could be read.
    pub(crate) const PARTLY: u8 = 3;
    /// Stopped by ctrl-C.
    pub(crate) const INTERRUPTED: u8 = 130;
}

/// Why a command ends without success: what happened, to what, and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    status: u8,
}

/// The result of a command, or of a part of one.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Something could not be done.
    pub(crate) fn new(message: impl Display) -> Failure {
        Failure { message: message.to_string(), status: status::FAILED }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Display) -> Failure {
        Failure { message: message.to_string(), status: status::USAGE }
    }

    /// Ctrl-C.
    pub(crate) fn interrupted(message: impl Display) -> Failure {
        Failure { message: message.to_string(), status: status::INTERRUPTED }
    }

    /// Says it on standard error.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("warmfront: {}", self.message);
        ExitCode::from(self.status)
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Failure {
        match error {
            ControlError::Left { .. } => Failure::interrupted(error),
            error if error.is_usage() => Failure::usage(error),
            error => Failure::new(error),
        }
    }
}

impl From<MountError> for Failure {
    fn from(error: MountError) -> Failure {
        match error {
            MountError::Stopped => Failure::interrupted(error),
            error if error.is_usage() => Failure::usage(error),
            error => Failure::new(error),
        }
    }
}

impl From<PathsError> for Failure {
    fn from(error: PathsError) -> Failure {
        Failure::new(error)
    }
}

impl From<warmfront::PropertyError> for Failure {
    fn from(error: warmfront::PropertyError) -> Failure {
        Failure::usage(error)
    }
}

impl From<warmfront::EngineError> for Failure {
    fn from(error: warmfront::EngineError) -> Failure {
        Failure::new(error)
    }
}
