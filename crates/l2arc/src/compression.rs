/// How records are made smaller before they are written.
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

impl Compression {
    /// All ways, by their number on flash.
    pub(crate) const ALL: [Compression; 3] =
        [Compression::Off, Compression::Lz4, Compression::Zstd];

    /// Compresses `plain`, where that is worth it.
    pub(crate) fn compress(self, plain: &[u8]) -> Option<Vec<u8>> {
        let compressed = match self {
            Compression::Off => return None,
            Compression::Lz4 => lz4_flex::block::compress(plain),
            Compression::Zstd => zstd::bulk::compress(plain, ZSTD_LEVEL).ok()?,
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
            Compression::Zstd => zstd::bulk::decompress_to_buffer(stored, plain).ok(),
        };
        filled == Some(length)
    }
}
