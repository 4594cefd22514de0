//! A cache of blocks of files, weighed, resized while it is used, and watched:
//! `cargo run --example file_blocks`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warmfront::cache::{BuildError, Cache, FetchError, Reason};

/// Bytes of a block.
const BLOCK_BYTES: u64 = 16 << 10;
/// Reads of one block within this time are one use of it.
const BURST: Duration = Duration::from_micros(62_500);

/// Files by number, and their blocks in RAM.
struct Blocks {
    files: Vec<File>,
    blocks: Cache<(usize, u64), Arc<[u8]>>,
    evicted: Arc<AtomicU64>,
}

impl Blocks {
    fn new(files: Vec<File>, capacity_bytes: u64) -> Result<Self, BuildError> {
        let evicted = Arc::new(AtomicU64::new(0));
        let counter = evicted.clone();
        let blocks = Cache::<(usize, u64), Arc<[u8]>>::builder()
            .capacity_bytes(capacity_bytes)
            .weigher(|_, block| block.len() as u64 + 16)
            .correlated_window(BURST)
            .on_departure(move |departure| {
                if departure.reason == Reason::Evicted {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            })
            .build()?;
        Ok(Self { files, blocks, evicted })
    }

    /// Reads `buffer.len()` bytes at `offset`, or fewer at the end of the file.
    fn read(&self, file: usize, offset: u64, buffer: &mut [u8]) -> Result<usize, FetchError> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let key = (file, at / BLOCK_BYTES);
            let block = self.blocks.get_or_fetch(&key, || self.fetch(key))?;
            let from = ((at % BLOCK_BYTES) as usize).min(block.len());
            let count = (block.len() - from).min(buffer.len() - done);
            buffer[done..][..count].copy_from_slice(&block[from..][..count]);
            done += count;
            if count == 0 || (block.len() as u64) < BLOCK_BYTES {
                break;
            }
        }
        Ok(done)
    }

    /// Writes through, and forgets the blocks that have changed.
    fn write(&self, file: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.files[file].write_all_at(bytes, offset)?;
        let blocks = offset / BLOCK_BYTES..=(offset + bytes.len() as u64) / BLOCK_BYTES;
        blocks.for_each(|number| drop(self.blocks.remove(&(file, number))));
        Ok(())
    }

    fn fetch(&self, (file, number): (usize, u64)) -> io::Result<Arc<[u8]>> {
        let mut block = vec![0; BLOCK_BYTES as usize];
        let mut length = 0;
        while length < block.len() {
            let at = number * BLOCK_BYTES + length as u64;
            match self.files[file].read_at(&mut block[length..], at)? {
                0 => break,
                count => length += count,
            }
        }
        block.truncate(length);
        Ok(block.into())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let file = |name: &str| {
        let path = directory.path().join(name);
        File::options().create_new(true).read(true).write(true).open::<&Path>(&path)
    };
    let (small, large) = (file("small")?, file("large")?);
    small.write_all_at(&vec![1; 100_000], 0)?;
    large.write_all_at(&vec![2; 4 << 20], 0)?;
    let blocks = Blocks::new(vec![small, large], 2 << 20)?;

    let mut buffer = [0; 3000];
    assert_eq!(blocks.read(0, 99_000, &mut buffer)?, 1000);
    for offset in (0..4 << 20).step_by(3000) {
        blocks.read(1, offset, &mut buffer)?;
    }
    blocks.write(0, 99_999, &[9])?;
    assert_eq!(blocks.read(0, 99_000, &mut buffer)?, 1000);
    assert_eq!((buffer[0], buffer[999]), (1, 9), "a write is seen at once");

    let statistics = blocks.blocks.statistics();
    println!("{} bytes of {} in RAM", statistics.bytes, statistics.capacity_bytes);
    println!("{:.1} % hits", 100.0 * statistics.hit_ratio());
    assert!(statistics.charged_bytes <= statistics.capacity_bytes);

    let freed = blocks.blocks.resize(512 << 10);
    println!("{freed} bytes given back; {} evicted", blocks.evicted.load(Ordering::Relaxed));
    assert!(blocks.blocks.statistics().charged_bytes <= 512 << 10);
    Ok(())
}
