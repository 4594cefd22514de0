use std::io;

use parking_lot::Mutex;
use zstd::bulk::{Compressor, Decompressor};

/// How records are made smaller before they are written.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_flash(async |flash| {
/// use l2arc::{Admission, Compression, Key};
///
/// let key = Key { object: 7, generation: 1, part: 0 };
/// let admission = Admission {
///     compression: Compression::Lz4,
/// #   stamp: flash.stamp(key.object),
/// #   tenant: 0,
/// #   metadata: false,
/// #   touches: 2,
/// #   limit_bytes: None,
/// #   vital: false,
///     // And so on.
/// };
/// flash.admit(&key, &[9; 4096], &admission)?;
/// assert!(flash.statistics().stored_bytes < 4096);
/// # Ok(()) }) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    Off,
    /// LZ4: little work.
    Lz4,
    /// Zstandard at level 1: about half as large again as what LZ4 saves, for more work.
    Zstd,
}

/// Bytes are kept compressed only where that saves at least this share of them.
const SAVING: usize = 16;
const ZSTD_LEVEL: i32 = 1;
/// Contexts of a kind that are kept for the next record: to make one takes longer than to compress
/// a small record.
const CONTEXTS_KEPT: usize = 2;

static COMPRESSORS: Contexts<Compressor> = Contexts { kept: Mutex::new(Vec::new()) };
static DECOMPRESSORS: Contexts<Decompressor> = Contexts { kept: Mutex::new(Vec::new()) };

struct Contexts<T> {
    kept: Mutex<Vec<T>>,
}

impl<T> Contexts<T> {
    /// Does something with a context, which is made if none is kept.
    fn with<R>(
        &self,
        make: impl FnOnce() -> io::Result<T>,
        call: impl FnOnce(&mut T) -> io::Result<R>,
    ) -> Option<R> {
        let kept = self.kept.lock().pop();
        let mut context = kept.map_or_else(make, Ok).ok()?;
        let result = call(&mut context).ok();
        let mut kept = self.kept.lock();
        if kept.len() < CONTEXTS_KEPT {
            kept.push(context);
        }
        result
    }
}

impl Compression {
    /// All ways, by their number on flash.
    pub(crate) const ALL: [Compression; 3] =
        [Compression::Off, Compression::Lz4, Compression::Zstd];

    /// Compresses `plain`, where that is worth it.
    pub(crate) fn compress(self, plain: &[u8]) -> Option<Vec<u8>> {
        let compressed = match self {
            Compression::Off => return None,
            Compression::Lz4 => lz4_flex::block::compress(plain),
            Compression::Zstd => COMPRESSORS
                .with(|| Compressor::new(ZSTD_LEVEL), |context| context.compress(plain))?,
        };
        (compressed.len() + plain.len() / SAVING <= plain.len()).then_some(compressed)
    }

    /// Fills the whole of `plain` from `stored`. Says whether that was possible.
    pub(crate) fn decompress(self, stored: &[u8], plain: &mut [u8]) -> bool {
        let length = plain.len();
        let filled = match self {
            Compression::Off if stored.len() == length => {
                plain.copy_from_slice(stored);
                Some(length)
            }
            Compression::Off => None,
            Compression::Lz4 => lz4_flex::block::decompress_into(stored, plain).ok(),
            Compression::Zstd => DECOMPRESSORS
                .with(Decompressor::new, |context| context.decompress_to_buffer(stored, plain)),
        };
        filled == Some(length)
    }
}
