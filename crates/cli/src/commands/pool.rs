use std::ffi::OsStr;

use daemon::{NewPool, Paths, PoolRow, Target};
use serde::Serialize;

use crate::arguments::PoolCommand;
use crate::commands::{ceiling, settings, status};
use crate::failure::Result;
use crate::format::{Form, json, print};
use crate::table::Table;

/// A pool, as `pool list --json` tells it.
#[derive(Debug, Serialize)]
struct PoolJson {
    name: String,
    origin: String,
    mountpoint: Option<String>,
    settings: Option<String>,
    pid: Option<u32>,
}

pub(crate) fn run(paths: &Paths, command: PoolCommand) -> Result<()> {
    match command {
        PoolCommand::Create { properties, mountpoint, arc_max, name, origin } => {
            let pool = NewPool {
                name,
                origin,
                mountpoint,
                arc_max: arc_max.as_deref().map(ceiling).transpose()?,
                properties: settings(&properties)?,
            };
            let file = daemon::create_pool(paths, &pool)?;
            print(&format!("pool {} is made; its settings are in {}\n", pool.name, file.display()));
        }
        PoolCommand::List { form } => list(form, &daemon::list_pools(paths)?),
        PoolCommand::Status { json, pool } => show(paths, json, pool.as_deref())?,
        PoolCommand::Destroy { name } => {
            daemon::destroy_pool(paths, &name)?;
            print(&format!("pool {name} is removed; its files are where they were\n"));
        }
    }
    Ok(())
}

fn list(form: Form, rows: &[PoolRow]) {
    if form.json {
        let rows: Vec<PoolJson> = rows
            .iter()
            .map(|row| PoolJson {
                name: row.name.clone(),
                origin: row.origin.display().to_string(),
                mountpoint: row.mountpoint.as_ref().map(|path| path.display().to_string()),
                settings: row.settings.as_ref().map(|path| path.display().to_string()),
                pid: row.daemon.as_ref().map(|daemon| daemon.pid),
            })
            .collect();
        return print(&json(&rows));
    }
    if rows.is_empty() && !form.script {
        return print("no pools; `warmfront pool create NAME DIRECTORY` makes one\n");
    }
    let mut table = Table::new(&["NAME", "STATE", "ORIGIN", "MOUNTPOINT"]);
    for row in rows {
        table.row(vec![
            row.name.clone(),
            if row.daemon.is_some() { "mounted" } else { "-" }.to_string(),
            row.origin.display().to_string(),
            row.mountpoint.as_ref().map_or("-".to_string(), |path| path.display().to_string()),
        ]);
    }
    print(&table.render(form));
}

fn show(paths: &Paths, as_json: bool, pool: Option<&OsStr>) -> Result<()> {
    if pool.is_some() {
        return status::status(paths, as_json, pool);
    }
    for row in daemon::list_pools(paths)?.iter().filter(|row| row.daemon.is_some()) {
        let target = Target::find(paths, OsStr::new(&row.name))?;
        status::show(&target, as_json)?;
    }
    Ok(())
}
