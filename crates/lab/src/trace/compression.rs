use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::{Action, Status, XzStream};

/// Most memory that decompression may take, as a power of two and in KiB: what `xz -9` needs fits.
const WINDOW_BITS_MAX: u32 = 27;
const MEMORY_KIB_MAX: u32 = 1 << (WINDOW_BITS_MAX - 10);

const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

/// Bytes that are decompressed at once: what is lost of what comes right before damage.
const PIECE_BYTES: usize = 4 << 10;

/// How files begin that are compressed in ways that are not read, and what brings them back.
const UNREAD: [(&[u8], &str, &str); 4] = [
    (b"BZh", "bzip2", "bunzip2"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4", "unlz4"),
    (b"PK\x03\x04", "zip", "unzip"),
    (&[0x5d, 0x00, 0x00, 0x80, 0x00], "lzma", "unlzma"),
];

/// The plain bytes of a file that may be compressed, as its first bytes say.
pub(super) fn decompressed(mut file: impl BufRead + 'static) -> io::Result<Box<dyn Read>> {
    let head = file.fill_buf()?;
    Ok(if head.starts_with(ZSTD) {
        let mut decoder = zstd::Decoder::with_buffer(file)?;
        decoder.window_log_max(WINDOW_BITS_MAX)?;
        Box::new(Decompressed { by: "zstd", plain: decoder })
    } else if head.starts_with(GZIP) {
        Box::new(Decompressed { by: "gzip", plain: MultiGzDecoder::new(file) })
    } else if head.starts_with(XZ) {
        let stream = XzStream::new_mem_limit(true, MEMORY_KIB_MAX);
        Box::new(Decompressed { by: "xz", plain: Xz { file, stream, ended: false } })
    } else {
        Box::new(file)
    })
}

/// The compression of a file that begins so, if it is one that is not read, and the program that
/// brings back what it holds.
pub(super) fn unread(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let (_, name, program) = UNREAD.iter().find(|(magic, ..)| head.starts_with(magic))?;
    Some((name, program))
}

/// Plain bytes, whose end is that of the file only if its compression says so.
struct Decompressed<R> {
    by: &'static str,
    plain: R,
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(PIECE_BYTES);
        self.plain.read(&mut buffer[..length]).map_err(|error| {
            // What the system says is no damage.
            if error.raw_os_error().is_some() || error.kind() == io::ErrorKind::OutOfMemory {
                return error;
            }
            let what = format!("its {} compression is damaged or cut short ({error})", self.by);
            io::Error::new(io::ErrorKind::InvalidData, what)
        })
    }
}

/// Gives what comes before damage, which a reader that fills whole buffers would keep.
struct Xz<R> {
    file: R,
    stream: XzStream,
    ended: bool,
}

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !buffer.is_empty() {
            let input = self.file.fill_buf()?;
            let is_last = input.is_empty();
            let mut result = self.stream.process(input, buffer, Action::Run)?;
            if is_last && result.bytes_produced == 0 && result.status == Status::Ok {
                result = self.stream.process(input, buffer, Action::Finish)?;
                if result.bytes_produced == 0 && result.status == Status::Ok {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            self.ended = result.status == Status::StreamEnd;
            self.file.consume(result.bytes_consumed);
            if result.bytes_produced > 0 {
                return Ok(result.bytes_produced);
            }
        }
        Ok(0)
    }
}
