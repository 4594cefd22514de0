//! The whole engine embedded: a directory behind the ARC, without a mount:
//! `cargo run --example pool_over_directory [DIRECTORY]`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use futures::executor::block_on;
use warmfront::storage::{
    DirectoryOptions, DirectoryOrigin, Kind, OpenMode, RealClock, ThreadPool,
};
use warmfront::{Datasets, HumanSize, Memory, Pool, PoolOptions};

const READ: OpenMode =
    OpenMode { read: true, write: false, truncate: false, direct: false, sync: false };
/// Bytes of one read.
const CHUNK_BYTES: usize = 128 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Without a directory, one with a file of 8 MiB.
    let temporary = tempfile::tempdir()?;
    let directory = match std::env::args_os().nth(1) {
        Some(directory) => PathBuf::from(directory),
        None => {
            std::fs::write(temporary.path().join("file"), vec![7; 8 << 20])?;
            temporary.path().to_path_buf()
        }
    };

    let datasets = Datasets::new("example")?;
    datasets.set("example", "recordsize", "64K")?;
    let memory = Memory::new(64 << 20);
    block_on(async {
        let pool = Pool::open(PoolOptions {
            name: "example".to_string(),
            origin: Arc::new(DirectoryOrigin::open(&directory, DirectoryOptions::default())?),
            datasets,
            memory: memory.clone(),
            clock: Arc::new(RealClock::new()),
            spawn: Arc::new(ThreadPool::new("example", 2)?),
            read_only: true,
            flash: warmfront::flash::FlashOptions::default(),
        })
        .await?;

        // Whatever lies in the top directory: twice, so that the second time is from RAM.
        let top = pool.open_directory(pool.root()).await?;
        for turn in ["cold", "warm"] {
            let start = Instant::now();
            let mut bytes = 0;
            for entry in top.entries().await?.iter() {
                bytes += read(&pool, &entry.name).await?;
            }
            println!("{turn}: {} in {:?}", HumanSize(bytes), start.elapsed());
        }
        // The ceiling may change at any time; what no longer fits is gone when this returns.
        memory.set_ceiling_bytes(16 << 20);
        println!("ceiling: {}", HumanSize(memory.ceiling_bytes()));
        Ok(())
    })
}

/// Reads a file of the top directory to its end, and returns its length; 0 for anything else.
async fn read(pool: &Arc<Pool>, name: &OsStr) -> warmfront::Result<u64> {
    let found = pool.lookup(pool.root(), name).await?;
    let mut offset = 0;
    if found.attributes.kind == Kind::File {
        let file = pool.open_file(found.object, READ).await?;
        loop {
            match file.read(offset, CHUNK_BYTES).await?.len() {
                0 => break,
                length => offset += length as u64,
            }
        }
    }
    // Each object that was looked up is counted as used until it is given back.
    pool.forget(found.object, 1);
    Ok(offset)
}
