use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::Trace;
use lab::policy::NEVER;
use tempfile::TempDir;

/// Replays with the Python package `libcachesim`, and prints the processor's seconds and the miss
/// ratio. Only the replay is timed: not the start of Python, the opening of the trace, nor the
/// making of the cache. The table of its default size is the one that is quickest here.
const SCRIPT: &str = "
import sys, time, libcachesim
trace, size = sys.argv[1], int(sys.argv[2])
parameters = libcachesim.ReaderInitParam(ignore_obj_size=True)
kind = libcachesim.TraceType.ORACLE_GENERAL_TRACE
reader = libcachesim.TraceReader(trace, kind, parameters)
cache = libcachesim.ARC(cache_size=size)
start = time.process_time()
ratio, _ = cache.process_trace(reader)
print(time.process_time() - start, ratio)
";

/// libCacheSim with a copy of a trace in its own binary format.
pub(crate) struct LibCacheSim {
    python: PathBuf,
    directory: TempDir,
    requests: u64,
    size: u64,
}

impl LibCacheSim {
    /// Writes the trace; says why if there is no libCacheSim.
    pub(crate) fn prepare(python: &Path, trace: &Trace, size: u64) -> Result<Self, String> {
        let found = Command::new(python).args(["-c", "import libcachesim"]).output();
        match found {
            Ok(output) if output.status.success() => (),
            _ => {
                return Err(format!(
                    "{} has no package libcachesim; install it with `pip install \
                     libcachesim==0.3.5` and name its Python with --python",
                    python.display()
                ));
            }
        }
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let rival =
            LibCacheSim { python: python.into(), directory, requests: trace.requests(), size };
        rival.write(trace).map_err(|error| format!("cannot write the trace: {error}"))?;
        Ok(rival)
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("trace.oracleGeneral.bin")
    }

    /// Records of 24 bytes: time, object, size, when it is asked for next.
    fn write(&self, trace: &Trace) -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(self.file())?);
        for (now, (&id, &next)) in trace.ids().iter().zip(&**trace.next_accesses()).enumerate() {
            let next = if next == NEVER { -1 } else { i64::from(next) };
            file.write_all(&(now as u32).to_le_bytes())?;
            // It takes object 0 for none.
            file.write_all(&(u64::from(id) + 1).to_le_bytes())?;
            file.write_all(&512u32.to_le_bytes())?;
            file.write_all(&next.to_le_bytes())?;
        }
        file.flush()
    }

    /// Million requests a second, and the misses.
    pub(crate) fn replay(&self) -> Result<(f64, u64), String> {
        let output = Command::new(&self.python)
            .args(["-c", SCRIPT])
            .arg(self.file())
            .arg(self.size.to_string())
            .output()
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
        let [seconds, ratio] = numbers[..] else {
            return Err(format!("libcachesim: {}", String::from_utf8_lossy(&output.stderr)));
        };
        let requests = self.requests as f64;
        Ok((requests / 1e6 / seconds, (ratio * requests).round() as u64))
    }
}
