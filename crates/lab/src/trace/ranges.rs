use hashbrown::HashMap;

use super::builder::Builder;
use super::bytes::{SPLIT_BYTES, split};
use super::input::Fault;

/// Bits of a block's number within its file; those above it tell files apart.
const BLOCK_BITS: u32 = 36;
/// Files at most.
const FILES_MAX: usize = 1 << (64 - BLOCK_BITS);

/// Byte ranges of files that go by names, as blocks.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    files: HashMap<Box<str>, u64>,
}

impl Ranges {
    /// Adds the blocks that a range touches.
    pub fn push(
        &mut self,
        requests: &mut Builder,
        file: &str,
        offset: u64,
        bytes: u64,
    ) -> Result<(), Fault> {
        let number = match self.files.get(file) {
            Some(number) => *number,
            None if self.files.len() == FILES_MAX => {
                return Err(Fault::new(format!("more than {FILES_MAX} files")));
            }
            None => {
                let number = self.files.len() as u64;
                self.files.insert(file.into(), number);
                number
            }
        };
        let blocks = offset.checked_add(bytes).map(|end| split(offset, end));
        let blocks = blocks.filter(|(first, count)| first + count < 1 << BLOCK_BITS);
        let (first, count) = blocks.ok_or_else(|| {
            Fault::new(format!("{bytes} bytes from {offset} on are beyond the end of any file"))
        })?;
        Ok(requests.push_run(number << BLOCK_BITS | first, count, SPLIT_BYTES)?)
    }
}
