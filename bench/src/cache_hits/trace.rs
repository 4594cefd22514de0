//! The requests that are replayed.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Where the large trace lies beside the repository.
const SHARED_TRACE: &str = "traces/arc/P12.lis.zst";
/// Keys and requests of the Zipf distribution that stands in for a trace.
const ZIPF: (usize, usize) = (1_000_000, 8_000_000);

/// Block numbers in the order of their requests.
pub struct Trace {
    pub requests: Vec<u64>,
    /// Distinct blocks.
    pub blocks: usize,
}

/// The trace at `path`, or the shared one, or Zipf; with its name.
pub fn load(path: Option<&Path>) -> Result<(String, Trace), Box<dyn Error>> {
    let shared = std::env::var_os("WARMFRONT_SHARED").map_or("../shared".into(), PathBuf::from);
    let shared = shared.join(SHARED_TRACE);
    let path = path.or(shared.exists().then_some(&*shared));
    let (name, requests) = match path {
        Some(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.split('.').next().unwrap_or_default().to_string();
            (name, read(path).map_err(|error| format!("{}: {error}", path.display()))?)
        }
        None => ("zipf".to_string(), zipf(ZIPF.0, ZIPF.1)),
    };
    let mut distinct = requests.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let blocks = distinct.len();
    Ok((name, Trace { requests, blocks }))
}

/// Lines of `first_block blocks ...`, as published with the ARC paper.
fn read(path: &Path) -> Result<Vec<u64>, Box<dyn Error>> {
    let file = File::open(path)?;
    let reader: Box<dyn Read> = match path.extension().is_some_and(|extension| extension == "zst") {
        true => Box::new(zstd::Decoder::new(file)?),
        false => Box::new(file),
    };
    let mut requests = Vec::new();
    for line in BufReader::new(reader).lines() {
        let line = line?;
        let mut fields = line.split_ascii_whitespace();
        let (Some(first), Some(count)) = (fields.next(), fields.next()) else { continue };
        let (first, count): (u64, u64) = (first.parse()?, count.parse()?);
        requests.extend(first..first.saturating_add(count));
    }
    Ok(requests)
}

/// Keys below `keys`, all equally often.
pub fn uniform(keys: u64, requests: usize, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    (0..requests).map(|_| random.next() % keys).collect()
}

/// Keys below `keys`, the n-th as often as 1/n.
fn zipf(keys: usize, requests: usize) -> Vec<u64> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    let mut random = Random::new(1);
    (0..requests)
        .map(|_| {
            let at = random.next() as f64 / (1_u64 << 53) as f64 * sum;
            sums.partition_point(|sum| *sum < at) as u64
        })
        .collect()
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(0x9E37_79B9_7F4A_7C15 ^ (seed + 1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }
}
