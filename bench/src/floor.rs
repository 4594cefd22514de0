//! The transport's limit: a file system in memory which answers every read from one buffer.
//!
//! It does nothing but speak the protocol, over the same transport as Warmfront, so that nothing
//! over this transport can be faster. It stays in the foreground until it is unmounted.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use fuse::abi::{Attr, OpenIn, ROOT_ID, ReadIn, ReleaseIn};
use fuse::{
    Call, Crewing, DirectoryBuffer, Entry, Filesystem, MountOptions, Name, OpenFlags, Opened,
    ReadReply, Session,
};
use rustix::io::Errno;

/// Node of the only file.
const FILE: u64 = 2;
/// The kernel need not ask twice.
const TTL: Duration = Duration::from_secs(3600);

/// Mounts a file system with one file which is answered from one buffer.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where to mount.
    mountpoint: PathBuf,
    /// Name of the file.
    #[arg(long, default_value = "file")]
    name: OsString,
    /// Size of the file, such as 512M.
    #[arg(long, default_value = "512M", value_parser = bytes)]
    size: u64,
    /// Size of the buffer, which repeats throughout the file; at most that of the file.
    #[arg(long, default_value = "2M", value_parser = bytes)]
    buffer: u64,
    /// Let the kernel keep pages.
    #[arg(long)]
    page_cache: bool,
    /// Most threads.
    #[arg(long, default_value_t = Crewing::default().threads_max)]
    threads_max: usize,
    /// Threads that stay when there is nothing to do.
    #[arg(long, default_value_t = Crewing::default().idle_max)]
    idle_max: usize,
}

/// A number of bytes with a suffix K, M or G.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        other => return Err(format!("unknown unit {other}; use K, M or G")),
    };
    let number: u64 = digits.parse().map_err(|error| format!("{error}"))?;
    number.checked_shl(shift).filter(|&bytes| bytes > 0).ok_or("out of range".to_string())
}

/// One directory with one file.
struct Floor {
    name: OsString,
    size: u64,
    buffer: Vec<u8>,
    opened: OpenFlags,
}

impl Floor {
    fn attributes(&self, node: u64) -> Result<Attr, Errno> {
        let (mode, nlink, size) = match node {
            ROOT_ID => (0o040_755, 2, 0),
            FILE => (0o100_644, 1, self.size),
            _ => return Err(Errno::NOENT),
        };
        let blocks = size.div_ceil(512);
        Ok(Attr { ino: node, size, blocks, mode, nlink, blksize: 4096, ..Attr::default() })
    }

    /// The pieces of the buffer that make up a range of the file.
    fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = &[u8]> {
        let end = offset.saturating_add(length).min(self.size);
        let period = self.buffer.len() as u64;
        let mut position = offset;
        std::iter::from_fn(move || {
            let start = (position % period) as usize;
            let rest = end.checked_sub(position).filter(|&rest| rest > 0)?;
            let piece = &self.buffer[start..];
            let piece = &piece[..piece.len().min(rest as usize)];
            position += piece.len() as u64;
            Some(piece)
        })
    }
}

impl Filesystem for Floor {
    fn lookup(&self, call: &Call, name: &OsStr) -> fuse::Result<Entry> {
        if call.node != ROOT_ID || name != self.name {
            return Err(Errno::NOENT);
        }
        let attributes = self.attributes(FILE)?;
        let (entry_ttl, attributes_ttl) = (TTL, TTL);
        Ok(Entry { node: FILE, generation: 0, attributes, entry_ttl, attributes_ttl })
    }

    fn getattr(&self, call: &Call, _handle: Option<u64>) -> fuse::Result<(Attr, Duration)> {
        Ok((self.attributes(call.node)?, TTL))
    }

    fn open(&self, _call: &Call, _arguments: &OpenIn) -> fuse::Result<Opened> {
        Ok(Opened { handle: 0, flags: self.opened })
    }

    fn read(&self, _call: &Call, arguments: &ReadIn, reply: ReadReply<'_>) {
        reply.data(self.pieces(arguments.offset, u64::from(arguments.size)));
    }

    fn release(&self, _call: &Call, _arguments: &ReleaseIn) -> fuse::Result<()> {
        Ok(())
    }

    fn readdir(
        &self,
        _call: &Call,
        arguments: &ReadIn,
        buffer: &mut DirectoryBuffer<'_>,
    ) -> fuse::Result<()> {
        let names = [(OsStr::new("."), ROOT_ID), (OsStr::new(".."), ROOT_ID), (&self.name, FILE)];
        for (index, (name, inode)) in (1..).zip(names) {
            let name = Name { name, inode, kind: 0, next: index };
            if index > arguments.offset && !buffer.add(&name) {
                break;
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("fuse-floor: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), String> {
    let opened = match arguments.page_cache {
        true => OpenFlags::KEEP_CACHE,
        false => OpenFlags::DIRECT_IO,
    };
    let length = arguments.buffer.min(arguments.size) as usize;
    let buffer = (0..length).map(|index| (index >> 3) as u8).collect();
    let floor = Floor { name: arguments.name, size: arguments.size, buffer, opened };
    let source = "fuse-floor".to_string();
    let options = MountOptions { source, read_only: true, ..MountOptions::default() };
    let mount = fuse::mount(&arguments.mountpoint, &options).map_err(|error| error.to_string())?;
    let crewing = Crewing { threads_max: arguments.threads_max, idle_max: arguments.idle_max };
    let session = Session::start(mount, floor, crewing).map_err(|error| error.to_string())?;
    session.wait();
    Ok(())
}
