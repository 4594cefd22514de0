use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::load::{Clients, Load, SETTINGS, SETTLE};
use super::{COUNTERS, Reached};
use crate::Arguments;
use crate::subject::Mounted;

/// A mount of an own origin with files of random bytes; dropping it removes everything.
pub(super) struct Mount {
    pub mounted: Mounted,
    _scratch: TempDir,
    _origin: TempDir,
}

/// The origin lies in RAM, as it does in the lab: its slowness is the model's alone.
const ORIGINS: &str = "/dev/shm";

impl Mount {
    /// Mounts for a load; `is_slow` as it says, or without any slowness.
    pub fn new(arguments: &Arguments, load: &Load, is_slow: bool) -> Result<Mount, String> {
        let failed = |error: std::io::Error| error.to_string();
        let scratch = tempfile::tempdir_in(&arguments.scratch).map_err(failed)?;
        let kept = tempfile::tempdir_in(ORIGINS).map_err(failed)?;
        let origin = kept.path();
        for clients in load.clients {
            fill(&origin.join(clients.file), clients.file_bytes).map_err(failed)?;
        }
        let mut options = vec!["--cold".to_string(), "--arc-max".to_string()];
        options.push(load.ceiling_bytes.to_string());
        for (name, value) in SETTINGS {
            options.extend(["-o".to_string(), format!("{name}={value}")]);
        }
        if is_slow {
            options.extend(["--slow".to_string(), load.slow.to_string()]);
        }
        if let Some(bytes) = load.flash_bytes {
            let device = format!("{}:{bytes}", scratch.path().join("device").display());
            options.extend(["--cache".to_string(), device]);
            options.extend(["--dwpd".to_string(), "none".to_string()]);
        }
        Ok(Mount {
            mounted: Mounted::warmfront(origin, &options)?,
            _scratch: scratch,
            _origin: kept,
        })
    }
}

fn fill(path: &Path, bytes: u64) -> std::io::Result<()> {
    let mut random = File::open("/dev/urandom")?;
    let mut file = File::create(path)?;
    std::io::copy(&mut std::io::Read::take(&mut random, bytes), &mut file)?;
    file.flush()
}

/// Does a load on a mount.
pub(super) fn run(arguments: &Arguments, load: &Load) -> Result<Reached, String> {
    let mount = Mount::new(arguments, load, true)?;
    for clients in load.clients {
        warm(&mount.mounted.root.join(clients.file), clients.file_bytes)?;
    }
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for clients in load.clients {
            for thread in 0..clients.threads {
                let path = mount.mounted.root.join(clients.file);
                let (stop, count) = (&stop, &count);
                threads.push(scope.spawn(move || ask(&path, clients, thread, stop, count)));
            }
        }
        std::thread::sleep(SETTLE);
        let measured = measure(&mount.mounted, &count, load.measured);
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().map_err(|_| "a thread has failed".to_string())??;
        }
        measured
    })
}

fn measure(mounted: &Mounted, count: &AtomicU64, duration: Duration) -> Result<Reached, String> {
    let counted = || -> Result<[u64; 4], String> {
        let counters = mounted.counters()?;
        Ok(COUNTERS.map(|name| counters.get(name).copied().unwrap_or(0)))
    };
    let before = counted()?;
    let (started, operations) = (Instant::now(), count.load(Ordering::Relaxed));
    std::thread::sleep(duration);
    let operations = count.load(Ordering::Relaxed) - operations;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Reached::new(operations as f64 / seconds, before, counted()?))
}

fn warm(path: &Path, bytes: u64) -> Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut buffer = vec![0; 1 << 20];
    (0..bytes)
        .step_by(buffer.len())
        .try_for_each(|at| file.read_exact_at(&mut buffer, at))
        .map_err(|error| error.to_string())
}

fn ask(
    path: &Path,
    clients: &Clients,
    thread: u64,
    stop: &AtomicBool,
    count: &AtomicU64,
) -> Result<(), String> {
    let writes = clients.write_percent > 0.0;
    let file = OpenOptions::new().read(true).write(writes).open(path);
    let file = file.map_err(|error| format!("cannot open {}: {error}", path.display()))?;
    let mut buffer = vec![thread as u8; clients.request_bytes as usize];
    for request in clients.requests(thread)? {
        let done = match request.write {
            true => file.write_all_at(&buffer, request.offset),
            false => file.read_exact_at(&mut buffer, request.offset),
        };
        done.map_err(|error| format!("{}: {error}", path.display()))?;
        count.fetch_add(1, Ordering::Relaxed);
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if !clients.think.is_zero() {
            std::thread::sleep(clients.think);
        }
    }
    Ok(())
}
