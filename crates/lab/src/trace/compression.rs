use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;

/// Most memory that decompression may take, as a power of two and in KiB: what `xz -9` needs fits.
const WINDOW_BITS_MAX: u32 = 27;
const MEMORY_KIB_MAX: u32 = 1 << (WINDOW_BITS_MAX - 10);

const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

/// The plain bytes of a file that may be compressed, as its first bytes say.
pub(super) fn decompressed(mut file: impl BufRead + 'static) -> io::Result<Box<dyn Read>> {
    let head = file.fill_buf()?;
    Ok(if head.starts_with(ZSTD) {
        let mut decoder = zstd::Decoder::with_buffer(file)?;
        decoder.window_log_max(WINDOW_BITS_MAX)?;
        Box::new(decoder)
    } else if head.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(file))
    } else if head.starts_with(XZ) {
        Box::new(XzReader::new_mem_limit(file, true, MEMORY_KIB_MAX))
    } else {
        Box::new(file)
    })
}
