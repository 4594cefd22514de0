use crate::abi::{InHeader, WriteIn};

/// Most bytes of data in one READ or WRITE: 256 pages, as many as the kernel allows by default.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Size of a memory page; larger ones do no harm.
const PAGE: usize = 4096;
/// What stands before the data of a WRITE.
const WRITE_HEADER: usize = size_of::<InHeader>() + size_of::<WriteIn>();

/// Memory into which requests are read, so that the data of a WRITE begins at a page and can go
/// to a device as it is.
///
/// Pages that no request has reached yet take no memory.
#[derive(Debug)]
pub(crate) struct RequestBuffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl RequestBuffer {
    /// Space for a WRITE of `data_bytes_max`.
    pub(crate) fn new(data_bytes_max: usize) -> RequestBuffer {
        let memory = vec![0; data_bytes_max + 2 * PAGE];
        let start = memory.as_ptr().align_offset(PAGE) + PAGE - WRITE_HEADER;
        assert!(start + WRITE_HEADER + data_bytes_max <= memory.len());
        RequestBuffer { memory, start, length: WRITE_HEADER + data_bytes_max }
    }

    /// Where the next request goes.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.length]
    }

    /// The request of `length` bytes that was read.
    pub(crate) fn request(&self, length: usize) -> &[u8] {
        &self.memory[self.start..][..length.min(self.length)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_a_write_begins_at_a_page() {
        let mut buffer = RequestBuffer::new(1 << 20);
        assert_eq!(buffer.space().len(), WRITE_HEADER + (1 << 20));
        let request = buffer.request(WRITE_HEADER + 1);
        assert!(request[WRITE_HEADER..].as_ptr().addr().is_multiple_of(PAGE));
        assert!(request.as_ptr().addr().is_multiple_of(align_of::<InHeader>()));
    }
}
