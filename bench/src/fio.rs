use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// One fio run: what is read or written, how, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    /// A file, or a directory with a file for each job, `file.0` and so on.
    pub(crate) file: &'a Path,
    /// `read`, `randread`, `write`, `randwrite`, or `randrw` for both.
    pub(crate) pattern: &'a str,
    pub(crate) block: &'a str,
    pub(crate) jobs: u32,
    pub(crate) direct: bool,
    /// Each write is followed by `fdatasync`.
    pub(crate) durable: bool,
    pub(crate) seconds: u32,
    /// Through io_uring instead of one system call after the other.
    pub(crate) queue: Option<Queue>,
}

/// How calls go through io_uring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    /// Calls under way.
    pub(crate) depth: usize,
    /// Alignment of offsets, if it is not the block.
    pub(crate) align_bytes: Option<u32>,
    /// Goes through so many MiB once, however long that takes.
    pub(crate) size_mib: Option<u64>,
}

/// What a run reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached {
    pub(crate) operations_per_second: f64,
    pub(crate) bytes_per_second: f64,
    /// Half of all, of the writes where there are both, took at most so many microseconds.
    pub(crate) p50_us: f64,
    /// And 999 of 1000.
    pub(crate) p999_us: f64,
}

impl Job<'_> {
    /// Runs fio. The files' cached pages are left alone.
    pub(crate) fn run(&self) -> Result<Reached, String> {
        let mut command = Command::new("fio");
        match self.queue {
            None => command.args(["--ioengine=psync", "--time_based"]),
            Some(Queue { depth, align_bytes, size_mib }) => {
                command.arg("--ioengine=io_uring").arg(format!("--iodepth={depth}"));
                if let Some(align) = align_bytes {
                    command.arg(format!("--blockalign={align}"));
                }
                match size_mib {
                    Some(mib) => command.args([format!("--size={mib}m"), "--overwrite=1".into()]),
                    None => command.arg("--time_based"),
                }
            }
        };
        let output = command
            .args(["--name=read", "--invalidate=0"])
            .args(["--output-format=json", "--group_reporting", "--norandommap"])
            .args(match self.file.is_dir() {
                true => vec![
                    format!("--directory={}", self.file.display()),
                    "--filename_format=file.$jobnum".to_string(),
                ],
                false => vec![format!("--filename={}", self.file.display())],
            })
            .arg(format!("--rw={}", self.pattern))
            .arg(format!("--bs={}", self.block))
            .arg(format!("--numjobs={}", self.jobs))
            .arg(format!("--direct={}", u8::from(self.direct)))
            .args(match self.queue {
                Some(Queue { size_mib: Some(_), .. }) => None,
                _ => Some(format!("--runtime={}", self.seconds)),
            })
            .arg(format!("--fdatasync={}", u8::from(self.durable)))
            .output()
            .map_err(|error| format!("cannot run fio: {error}; install it"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let json = text.find('{').map_or("", |start| &text[start..]);
        let parsed: Value = serde_json::from_str(json).map_err(|_| {
            format!("fio gave no result: {}", String::from_utf8_lossy(&output.stderr))
        })?;
        let directions: &[&str] = match self.pattern {
            "randrw" => &["read", "write"],
            pattern if pattern.ends_with("write") => &["write"],
            _ => &["read"],
        };
        let of = |name: &str| -> Option<f64> {
            directions.iter().map(|direction| parsed["jobs"][0][*direction][name].as_f64()).sum()
        };
        let done = &parsed["jobs"][0][directions[directions.len() - 1]];
        match (of("iops"), of("bw_bytes")) {
            (Some(operations_per_second), Some(bytes_per_second))
                if operations_per_second > 0.0 =>
            {
                let us = |name: &str| {
                    done["clat_ns"]["percentile"][name].as_f64().unwrap_or(f64::NAN) / 1000.0
                };
                Ok(Reached {
                    operations_per_second,
                    bytes_per_second,
                    p50_us: us("50.000000"),
                    p999_us: us("99.900000"),
                })
            }
            _ => Err(format!("fio did nothing: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}
