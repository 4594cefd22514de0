use rustix::io::Errno;
use storage::OriginError;
use warmfront::EngineError;

/// The errno that a program sees for an error of the engine. This is the one place that decides.
pub(crate) fn errno(error: EngineError) -> Errno {
    match error {
        EngineError::Origin(OriginError::System { errno, .. }) => errno,
        // The kernel looks the path up again when it sees this.
        EngineError::Origin(OriginError::Stale { .. }) | EngineError::UnknownObject(_) => {
            Errno::STALE
        }
        EngineError::Origin(OriginError::Unsupported { .. }) => Errno::OPNOTSUPP,
        EngineError::ReadOnly => Errno::ROFS,
        EngineError::OutOfMemory(_) => Errno::NOMEM,
        EngineError::ListingsFull { .. } => {
            tracing::warn!(%error, "answered with ENOMEM");
            Errno::NOMEM
        }
        EngineError::Interrupted => Errno::INTR,
        EngineError::BadPath(_) => Errno::INVAL,
        // Unreachable, and whatever is added later: never anything that looks like a missing name.
        error => {
            tracing::warn!(%error, "answered with EIO");
            Errno::IO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_origin_is_an_io_error() {
        let error = OriginError::Unreachable { operation: "lookup" };
        assert_eq!(errno(error.into()), Errno::IO);
    }

    #[test]
    fn an_errno_of_the_system_below_is_passed_on() {
        for passed in [Errno::NOENT, Errno::NOSPC, Errno::DQUOT, Errno::XDEV, Errno::FBIG] {
            let error = OriginError::System { operation: "write", errno: passed };
            assert_eq!(errno(error.into()), passed);
        }
    }
}
