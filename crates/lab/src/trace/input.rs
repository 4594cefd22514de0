use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::builder::Full;
use super::compression::{decompressed, unread};
use super::error::{Place, TraceError, Usable};
use super::format::Format;

/// Longest line of a text, bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// How much of a trace is looked at to recognise its format, bytes.
const HEAD_BYTES: u64 = 64 << 10;

/// Bytes read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// A trace's plain bytes, read once from start to end, as lines or as records.
pub(super) struct Input {
    path: PathBuf,
    head: Vec<u8>,
    reader: BufReader<Box<dyn Read>>,
    place: Place,
    buffer: Vec<u8>,
}

impl Input {
    /// Opens the file, and reads its head.
    pub fn open(path: &Path) -> Result<Input, TraceError> {
        let failed = |source| TraceError::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        Input::new(path, BufReader::with_capacity(BUFFER_BYTES, file))
    }

    /// An input from anything that can be read.
    pub fn new(path: &Path, file: impl BufRead + 'static) -> Result<Input, TraceError> {
        let place = Place::Byte(0);
        let failed = |source| TraceError::Read {
            path: path.to_owned(),
            place,
            source,
            usable: Usable::default(),
        };
        let mut plain = decompressed(file).map_err(failed)?;
        let mut head = Vec::new();
        let rest: Box<dyn Read> = match plain.by_ref().take(HEAD_BYTES).read_to_end(&mut head) {
            Ok(_) => plain,
            // What came before the damage is read as it is, so that it is known how much it was.
            Err(error) if !head.is_empty() => Box::new(Damaged(Some(error))),
            Err(error) => return Err(failed(error)),
        };
        if let Some((by, program)) = unread(&head) {
            return Err(TraceError::Compression { path: path.to_owned(), by, program });
        }
        let whole: Box<dyn Read> = Box::new(io::Cursor::new(head.clone()).chain(rest));
        Ok(Input {
            path: path.to_owned(),
            head,
            reader: BufReader::with_capacity(BUFFER_BYTES, whole),
            place,
            buffer: Vec::new(),
        })
    }

    /// The first bytes, at most 64 KiB.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// What is wrong with the file as it is compressed, if that shows in its head. Reads on.
    pub fn damage(&mut self) -> Option<TraceError> {
        self.place = Place::Byte(self.head.len() as u64);
        let error = io::copy(&mut self.reader.by_ref().take(HEAD_BYTES), &mut io::sink()).err()?;
        Some(self.read_error(error))
    }

    /// Hands every line that is not blank to `take`, which says what is wrong with it, if
    /// anything. White space around a line is taken off.
    pub fn lines(
        &mut self,
        format: Format,
        mut take: impl FnMut(&str) -> Result<(), Fault>,
    ) -> Result<(), TraceError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        for number in 1.. {
            self.place = Place::Line(number);
            buffer.clear();
            let limited = self.reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut buffer);
            if limited.map_err(|source| self.read_error(source))? == 0 {
                break;
            }
            // The zeros of a page that was never written, say.
            if buffer.contains(&0) {
                let what = "this is no text: it has bytes that are zero";
                return Err(self.error(format, Fault::new(what)));
            }
            if buffer.len() as u64 == LINE_BYTES_MAX {
                return Err(self.error(format, Fault::new("the line is too long for a text")));
            }
            if format.ends_lines() && buffer.last() != Some(&b'\n') {
                let cut = "the last line has no end, so the file is cut short here";
                return Err(self.error(format, Fault::new(cut)));
            }
            let line = str::from_utf8(&buffer).map_err(|_| Fault::new("this is no text"));
            line.and_then(|line| match line.trim() {
                "" => Ok(()),
                line => take(line),
            })
            .map_err(|fault| self.error(format, fault))?;
        }
        self.buffer = buffer;
        Ok(())
    }

    /// Hands every record of `N` bytes to `take`, which says what is wrong with it, if anything.
    pub fn records<const N: usize>(
        &mut self,
        format: Format,
        mut take: impl FnMut(&[u8; N]) -> Result<(), Fault>,
    ) -> Result<(), TraceError> {
        let mut record = [0; N];
        let mut offset = 0;
        loop {
            self.place = Place::Byte(offset);
            let ended = self.reader.fill_buf().map(<[u8]>::is_empty);
            if ended.map_err(|source| self.read_error(source))? {
                return Ok(());
            }
            match self.reader.read_exact(&mut record) {
                Ok(()) => take(&record).map_err(|fault| self.error(format, fault))?,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let what = format!("the last record is cut short; each has {N} bytes");
                    return Err(self.error(format, Fault::new(what)));
                }
                Err(error) => return Err(self.read_error(error)),
            }
            offset += N as u64;
        }
    }

    fn read_error(&self, source: io::Error) -> TraceError {
        TraceError::Read {
            path: self.path.clone(),
            place: self.place,
            source,
            usable: Usable::default(),
        }
    }

    fn error(&self, format: Format, fault: Fault) -> TraceError {
        let (path, place) = (self.path.clone(), self.place);
        match fault {
            Fault::Full => TraceError::TooLong { path, place },
            Fault::Malformed(what) => {
                TraceError::Malformed { path, place, format, what, usable: Usable::default() }
            }
        }
    }
}

/// Where the plain bytes of a damaged file end: what the decompressor says of it.
struct Damaged(Option<io::Error>);

impl Read for Damaged {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(self.0.take().unwrap_or_else(|| io::ErrorKind::InvalidData.into()))
    }
}

/// What is wrong with a line or a record.
#[derive(Debug)]
pub(super) enum Fault {
    Malformed(String),
    Full,
}

impl Fault {
    /// It breaks the rules of its format.
    pub fn new(what: impl Into<String>) -> Fault {
        Fault::Malformed(what.into())
    }
}

impl From<Full> for Fault {
    fn from(Full: Full) -> Fault {
        Fault::Full
    }
}

/// The number in a column, which `meaning` names.
pub(super) fn number(column: Option<&str>, meaning: &str) -> Result<u64, Fault> {
    let column =
        column.ok_or_else(|| Fault::new(format!("the column with {meaning} is missing")))?;
    column.parse().map_err(|_| Fault::new(format!("`{column}` is not {meaning}")))
}
