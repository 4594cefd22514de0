use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;

const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

/// The plain bytes of a file that may be compressed, as its first bytes say.
pub(super) fn decompressed(mut file: impl BufRead + 'static) -> io::Result<Box<dyn Read>> {
    let head = file.fill_buf()?;
    Ok(if head.starts_with(ZSTD) {
        Box::new(zstd::Decoder::with_buffer(file)?)
    } else if head.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(file))
    } else if head.starts_with(XZ) {
        Box::new(XzReader::new(file, true))
    } else {
        Box::new(file)
    })
}
