use std::ffi::OsStr;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use daemon::{DevicePath, MountRequest, MountSource, Mounted, Paths, Unmounted};
use warmfront::HumanSize;

use crate::arguments::MountArguments;
use crate::bars::coloured;
use crate::commands::{
    cache_key, caches, ceiling, drive_writes, floor, log_device, settings, target,
};
use crate::draining::Draining;
use crate::failure::{Failure, Result};
use crate::format::print;
use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// Mounts, and says what is served and what to do next.
pub(crate) fn mount(paths: &Paths, arguments: MountArguments) -> Result<()> {
    let request = MountRequest {
        source: MountSource::parse(paths, &arguments.source),
        mountpoint: arguments.mountpoint,
        properties: settings(&arguments.properties)?.into_iter().collect(),
        arc_max: arguments.arc_max.as_deref().map(|text| ceiling("--arc-max", text)).transpose()?,
        arc_min: arguments.arc_min.as_deref().map(floor).transpose()?,
        read_only: arguments.read_only,
        allow_other: arguments.allow_other,
        slow: arguments.slow,
        no_promote_cgroups: arguments.no_promote_cgroups,
        caches: caches(&arguments.caches)?,
        force_cache: arguments.force_cache,
        log: arguments.log.as_deref().map(log_device).transpose()?,
        discard_log: arguments.discard_log,
        force_log: arguments.force_log,
        cold: arguments.cold,
        dwpd: arguments.dwpd.as_deref().map(drive_writes).transpose()?,
        cache_key: arguments.cache_key.as_deref().map(cache_key),
    };
    if arguments.foreground {
        daemon::start_logging();
        let progress = Mutex::new(Progress::default());
        let tell = |now| progress.lock().unwrap_or_else(PoisonError::into_inner).show(now);
        daemon::mount_in_foreground(paths, &request, &tell, |mounted| {
            progress.lock().unwrap_or_else(PoisonError::into_inner).end();
            print(&greeting(mounted));
        })?;
    } else {
        let mut progress = Progress::default();
        let interrupt = Interrupt::watch()
            .map_err(|error| Failure::new(format!("cannot watch for ctrl-C: {error}")))?;
        let mounted = daemon::mount_in_background(paths, &request, &mut |now| {
            now.into_iter().for_each(|now| progress.show(now));
            match interrupt.is_set() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        progress.end();
        print(&greeting(&mounted?));
    }
    Ok(())
}

fn greeting(mounted: &Mounted) -> String {
    let what = &mounted.descriptor;
    let mountpoint = what.mountpoint.display();
    let mut text = String::new();
    for note in &mounted.notes {
        let _ = writeln!(text, "{} {note}", coloured("note:", 33));
    }
    let ceiling = HumanSize(mounted.ceiling_bytes);
    let lines = [
        ("pool", what.pool.clone()),
        ("origin", what.origin.display().to_string()),
        ("mounted at", mountpoint.to_string()),
        (
            "ceiling",
            format!("{ceiling} of RAM for everything together ({})", mounted.ceiling_setting),
        ),
        ("cache", devices(&mounted.caches)),
        ("log", mounted.log_device.as_ref().map_or(String::new(), ToString::to_string)),
        ("look at it", format!("warmfront arcstat 1 {mountpoint}")),
        ("", format!("warmfront status {mountpoint}")),
        ("unmount", format!("warmfront unmount {mountpoint}")),
    ];
    for (label, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(text, "{label:<11} {value}");
    }
    text
}

fn devices(caches: &[DevicePath]) -> String {
    caches.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Unmounts, and says how that went.
pub(crate) fn unmount(paths: &Paths, text: &OsStr, lazy: bool) -> Result<()> {
    let mut progress = Draining::new()?;
    let unmounted = daemon::unmount(paths, text, lazy, &mut |undone| progress.show(undone));
    progress.end();
    let text = match unmounted? {
        Unmounted::Done { pool } => format!("pool {pool} is unmounted\n"),
        Unmounted::Detached { pool } => {
            format!("pool {pool} is detached; its daemon ends when the last file is closed\n")
        }
        Unmounted::Ending { pool, pid, log, waits_for } => {
            let waits = match waits_for {
                Some(what) => format!("it waits for {what}"),
                None => "a disk that it writes to does not answer".to_string(),
            };
            let log = log.map_or(String::new(), |log| format!("; see {}", log.display()));
            format!(
                "pool {pool} is unmounted, but its daemon, process {pid}, has not ended yet: \
                 {waits}. Until it has ended, the pool cannot be mounted \
                 again{log}\n"
            )
        }
        Unmounted::DeadMountCleared { mountpoint } => format!(
            "the daemon of {} was dead; the mount that it left is cleared away\n",
            mountpoint.display()
        ),
    };
    print(&text);
    Ok(())
}

/// Waits until the origin keeps everything.
pub(crate) fn sync(paths: &Paths, text: Option<&OsStr>) -> Result<()> {
    let target = target(paths, text)?;
    let client = target.client()?;
    let mut progress = Draining::new()?;
    let synced = client.sync(&mut |undone| progress.show(undone));
    progress.end();
    Ok(synced?)
}
