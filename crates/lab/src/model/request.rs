use super::Refusal;

/// Virtual time, or a span of it.
pub type Nanoseconds = u64;

/// What is asked of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Bytes from the device.
    Read,
    /// Bytes to the device.
    Write,
    /// What was written is to outlast a loss of power.
    Flush,
    /// Bytes that nobody needs any more: TRIM.
    Discard,
}

/// A request to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub operation: Operation,
    /// The first byte. Of no meaning for a flush.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Request {
    /// A read.
    pub fn read(offset: u64, bytes: u64) -> Request {
        Request { operation: Operation::Read, offset, bytes }
    }

    /// A write.
    pub fn write(offset: u64, bytes: u64) -> Request {
        Request { operation: Operation::Write, offset, bytes }
    }

    /// A flush.
    pub fn flush() -> Request {
        Request { operation: Operation::Flush, offset: 0, bytes: 0 }
    }

    /// A discard.
    pub fn discard(offset: u64, bytes: u64) -> Request {
        Request { operation: Operation::Discard, offset, bytes }
    }

    /// # Errors
    /// When it asks for bytes that a device of this size does not have.
    pub fn check(&self, size_bytes: u64) -> Result<(), Refusal> {
        match self.offset.checked_add(self.bytes) {
            Some(end) if end <= size_bytes => Ok(()),
            _ => Err(Refusal::OutOfRange { offset: self.offset, bytes: self.bytes, size_bytes }),
        }
    }
}
