use std::ffi::OsStr;
use std::path::PathBuf;

use daemon::protocol::Changed;
use daemon::{
    Destroyed, GivenUp, NewPool, Paths, PoolFileError, PoolRow, Target, mounted_at, mounts,
};
use serde::Serialize;

use crate::arguments::{DeviceRole, PoolCommand};
use crate::commands::arcstat;
use crate::commands::{caches as devices, ceiling, floor, log_device, settings, status};
use crate::failure::{Failure, Result};
use crate::format::{Form, count, json, print, things};
use crate::progress::{Progress, showing};
use crate::table::Table;

/// A pool, as `pool list --json` tells it.
#[derive(Debug, Serialize)]
struct PoolJson {
    name: String,
    origin: String,
    mountpoint: Option<String>,
    settings: Option<String>,
    pid: Option<u32>,
    /// A log that the next mount brings to the origin.
    log_to_replay: Option<String>,
}

impl PoolJson {
    fn new(row: &PoolRow) -> PoolJson {
        let shown = |path: &PathBuf| path.display().to_string();
        PoolJson {
            name: row.name.clone(),
            origin: shown(&row.origin),
            mountpoint: row.mountpoint.as_ref().map(shown),
            settings: row.settings.as_ref().map(shown),
            pid: row.daemon.as_ref().map(|daemon| daemon.pid),
            log_to_replay: row.log_to_replay.as_ref().map(shown),
        }
    }
}

pub(crate) fn run(paths: &Paths, command: PoolCommand) -> Result<()> {
    match command {
        PoolCommand::Create {
            properties,
            mountpoint,
            arc_max,
            arc_min,
            caches,
            log,
            name,
            origin,
        } => {
            let pool = NewPool {
                name,
                origin,
                mountpoint,
                arc_max: arc_max.as_deref().map(|text| ceiling("--arc-max", text)).transpose()?,
                arc_min: arc_min.as_deref().map(floor).transpose()?,
                caches: devices(&caches)?,
                log: log.as_deref().map(log_device).transpose()?,
                properties: settings(&properties)?,
            };
            let file = daemon::create_pool(paths, &pool)?;
            print(&format!("pool {} is made; its settings are in {}\n", pool.name, file.display()));
        }
        PoolCommand::List { form } => {
            let pools = daemon::list_pools(paths)?;
            list(form, &pools.rows);
            return unless_faulty(pools.faults);
        }
        PoolCommand::Iostat(arguments) => arcstat::iostat(paths, &arguments)?,
        PoolCommand::Status { form, pool } => show(paths, form, pool.as_deref())?,
        PoolCommand::Add { force, pool, role: DeviceRole::Cache, device } => {
            let pool = daemon::pool_name(paths, &pool);
            let device = devices(&[device])?.remove(0);
            let (changed, found) = daemon::add_cache(paths, &pool, device.clone(), force)?;
            let found = found.map_or(String::new(), |found| format!("; {found}"));
            let lasts = lasts(&changed);
            print(&format!("{device} is a cache device of pool {pool}{found}\n{lasts}"));
        }
        PoolCommand::Add { force, pool, role: DeviceRole::Log, device } => {
            let pool = daemon::pool_name(paths, &pool);
            let device = log_device(&device)?;
            let mut progress = Progress::default();
            let added = daemon::add_log(paths, &pool, device.clone(), force, &mut |now| {
                progress.show(now);
            });
            progress.end();
            let (changed, notes) = added?;
            let notes: String = notes.iter().map(|note| format!("{note}\n")).collect();
            let lasts = lasts(&changed);
            print(&format!("{device} is the log device of pool {pool}\n{notes}{lasts}"));
        }
        PoolCommand::Remove { pool, role: DeviceRole::Log, path } => {
            let pool = daemon::pool_name(paths, &pool);
            let changed = daemon::remove_log(paths, &pool, &path)?;
            let path = path.display();
            let lasts = lasts(&changed);
            print(&format!("{path} is not the log device of pool {pool} any more\n{lasts}"));
        }
        PoolCommand::Remove { pool, role: DeviceRole::Cache, path } => {
            let pool = daemon::pool_name(paths, &pool);
            let (changed, told) = daemon::remove_cache(paths, &pool, &path)?;
            let told = told.map_or(String::new(), |told| format!("; {told}"));
            let path = path.display();
            let lasts = lasts(&changed);
            print(&format!("{path} is no cache device of pool {pool} any more{told}\n{lasts}"));
        }
        PoolCommand::Destroy { force, name } => {
            let destroyed = showing(|tell| daemon::destroy_pool(paths, &name, force, tell))?;
            print(&format!("pool {name} is removed; its files are where they were\n"));
            print(&given_up_line(&destroyed));
            print(&left(&destroyed));
        }
    }
    Ok(())
}

/// Most files that are named of those whose writes were given up.
const FILES_TOLD: usize = 5;

/// What was given up with a pool's log, as a line.
fn given_up_line(destroyed: &Destroyed) -> String {
    let Some(GivenUp { log, files }) = &destroyed.given_up else { return String::new() };
    let path = log.path.display();
    let origin = log.origin.as_ref();
    let origin = origin.map_or(String::new(), |origin| format!(" {}", origin.display()));
    if let Some(what) = &log.lost {
        return format!(
            "its log {path} {what}: the writes that it held and the origin{origin} lacks are given \
             up; look after what was written in the last seconds before the pool ended\n"
        );
    }
    let records = things(log.records.unwrap_or(0) + log.beyond_records, "record");
    let named: Vec<String> =
        files.iter().take(FILES_TOLD).map(|file| file.display().to_string()).collect();
    let more = match files.len().saturating_sub(FILES_TOLD) {
        0 => String::new(),
        more => format!(" and {} more", count(more as u64)),
    };
    let of = match named.is_empty() {
        true => String::new(),
        false => format!(", of {}{more}", named.join(", ")),
    };
    let end = log.end.as_ref().map_or(String::new(), |end| format!("; it was {end}"));
    format!("given up with its log {path}: {records} that the origin{origin} may lack{of}{end}\n")
}

/// The devices that a pool leaves behind, with what to do with them, a line each.
fn left(destroyed: &Destroyed) -> String {
    let caches = destroyed.caches.iter().map(|path| ("cache", path));
    let all = caches.chain(destroyed.log.iter().map(|path| ("log", path)));
    let line = |(role, path): (&str, &PathBuf)| {
        let path_shown = path.display();
        match path.is_file() {
            true => format!("its {role} file stays; `rm {path_shown}` removes it\n"),
            false => format!(
                "its {role} device {path_shown} stays as it is; `--force-{role}` lets another \
                 pool have it\n"
            ),
        }
    };
    all.map(line).collect()
}

/// How long a change of the cache devices lasts, as a line if that has to be said.
fn lasts(changed: &Changed) -> String {
    match changed {
        Changed::Saved { .. } => String::new(),
        Changed::UntilUnmount => {
            "this lasts until the pool is unmounted: it has no settings file\n".to_string()
        }
    }
}

/// Fails, after all that could be listed was, when some settings could not be read.
pub(crate) fn unless_faulty(faults: Vec<PoolFileError>) -> Result<()> {
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    if told.is_empty() { Ok(()) } else { Err(Failure::new(told.join("\nwarmfront: "))) }
}

fn list(form: Form, rows: &[PoolRow]) {
    if form.json {
        let rows: Vec<PoolJson> = rows.iter().map(PoolJson::new).collect();
        return print(&json(&rows));
    }
    if rows.is_empty() && !form.script {
        return print("no pools; `warmfront pool create NAME DIRECTORY` makes one\n");
    }
    let mut table = Table::new(&["NAME", "STATE", "ORIGIN", "MOUNTPOINT"]);
    for row in rows {
        table.row(vec![
            row.name.clone(),
            state(row).to_string(),
            row.origin.display().to_string(),
            row.mountpoint.as_ref().map_or("-".to_string(), |path| path.display().to_string()),
        ]);
    }
    print(&table.render(form));
    if !form.script {
        let notes = rows.iter().filter_map(|row| Some((row, to_replay(row)?)));
        notes.for_each(|(row, text)| print(&format!("{}: {text}\n", row.name)));
    }
}

/// That the log of a pool that has not ended cleanly waits for the next mount.
fn to_replay(row: &PoolRow) -> Option<String> {
    let log = row.log_to_replay.as_ref()?.display();
    Some(format!(
        "its log {log} may hold acknowledged writes that the origin lacks; the next mount, or \
         `warmfront log replay {}`, brings them there",
        row.name
    ))
}

/// A daemon whose mount was taken out of the tree of names lives until the last close.
fn state(row: &PoolRow) -> &'static str {
    let is_in_tree = |mountpoint: &PathBuf| {
        mounts().is_ok_and(|mounts| mounted_at(&mounts, mountpoint).is_some())
    };
    match (&row.daemon, &row.mountpoint) {
        (None, _) => "-",
        (Some(_), Some(mountpoint)) if !is_in_tree(mountpoint) => "detached",
        (Some(_), _) => "mounted",
    }
}

fn show(paths: &Paths, form: Form, pool: Option<&OsStr>) -> Result<()> {
    let rows = daemon::list_pools(paths)?.rows;
    let Some(pool) = pool else {
        for row in rows.iter().filter(|row| row.daemon.is_some()) {
            status::show(&Target::find(paths, OsStr::new(&row.name))?, form)?;
        }
        return Ok(());
    };
    let target = Target::find(paths, pool)?;
    match rows.iter().find(|row| row.name == target.pool && row.daemon.is_none()) {
        Some(row) if form.json => print(&json(&PoolJson::new(row))),
        Some(row) => print(&unmounted(row)),
        None => status::show(&target, form)?,
    }
    Ok(())
}

/// What there is to say of a pool that is not mounted.
fn unmounted(row: &PoolRow) -> String {
    let path = |path: &Option<PathBuf>| {
        path.as_ref().map_or("-".to_string(), |path| path.display().to_string())
    };
    format!(
        "pool        {}\norigin      {}\nstate       not mounted; `warmfront mount {}{}`\n\
         settings    {}\n{}",
        row.name,
        row.origin.display(),
        row.name,
        if row.mountpoint.is_some() { "" } else { " MOUNTPOINT" },
        path(&row.settings),
        to_replay(row).map_or(String::new(), |text| format!("log         {text}\n"))
    )
}

#[cfg(test)]
mod tests {
    use daemon::LogDiscarded;

    use super::*;

    #[test]
    fn what_is_given_up_with_a_pool_is_told() {
        let log = LogDiscarded {
            path: "/flash/log".into(),
            records: Some(1200),
            end: None,
            beyond_records: 0,
            beyond: None,
            lost: None,
            pool: Some("tank".into()),
            origin: Some("/slow".into()),
        };
        let files = (0..7).map(|number| format!("mail/{number}").into()).collect();
        let told = |log: LogDiscarded, files| {
            let given_up = Some(GivenUp { log, files });
            given_up_line(&Destroyed { given_up, ..Destroyed::default() })
        };
        let text = told(log.clone(), files);
        assert!(text.contains("1,200 records that the origin /slow may lack, of mail/0"), "{text}");
        assert!(text.contains("mail/4 and 2 more\n"), "{text}");
        let end = Some("damaged: acknowledged records up to 30 at least are lost".to_string());
        let text = told(LogDiscarded { end, ..log.clone() }, [].into());
        assert!(text.contains("may lack; it was damaged: acknowledged"), "{text}");
        let text = told(LogDiscarded { lost: Some("is not there".into()), ..log }, [].into());
        assert!(text.contains("its log /flash/log is not there: the writes"), "{text}");
        assert_eq!(given_up_line(&Destroyed::default()), "");
    }
}
