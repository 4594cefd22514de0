use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// One fio run: what is read, how, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) file: &'a Path,
    /// `read` or `randread`.
    pub(crate) pattern: &'a str,
    pub(crate) block: &'a str,
    pub(crate) jobs: u32,
    pub(crate) direct: bool,
    pub(crate) seconds: u32,
}

/// What a run reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reached {
    pub(crate) operations_per_second: f64,
    pub(crate) bytes_per_second: f64,
}

impl Job<'_> {
    /// Runs fio. The files' cached pages are left alone.
    pub(crate) fn run(&self) -> Result<Reached, String> {
        let output = Command::new("fio")
            .args(["--name=read", "--ioengine=psync", "--invalidate=0", "--time_based"])
            .args(["--output-format=json", "--group_reporting", "--norandommap"])
            .arg(format!("--filename={}", self.file.display()))
            .arg(format!("--rw={}", self.pattern))
            .arg(format!("--bs={}", self.block))
            .arg(format!("--numjobs={}", self.jobs))
            .arg(format!("--direct={}", u8::from(self.direct)))
            .arg(format!("--runtime={}", self.seconds))
            .output()
            .map_err(|error| format!("cannot run fio: {error}; install it"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let json = text.find('{').map_or("", |start| &text[start..]);
        let parsed: Value = serde_json::from_str(json).map_err(|_| {
            format!("fio gave no result: {}", String::from_utf8_lossy(&output.stderr))
        })?;
        let read = &parsed["jobs"][0]["read"];
        match (read["iops"].as_f64(), read["bw_bytes"].as_f64()) {
            (Some(operations_per_second), Some(bytes_per_second))
                if operations_per_second > 0.0 =>
            {
                Ok(Reached { operations_per_second, bytes_per_second })
            }
            _ => Err(format!("fio read nothing: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}
