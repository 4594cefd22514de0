use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;

use daemon::protocol::{Change, Changed, PropertyRow, Source};
use daemon::{Paths, Target};
use warmfront::Property;

use crate::commands::pool::unless_faulty;
use crate::commands::target;
use crate::failure::{Failure, Result};
use crate::format::{Form, json, print};
use crate::table::Table;

/// The columns of `get`.
const COLUMNS: [&str; 4] = ["name", "property", "value", "source"];

/// What `get` is asked for.
#[derive(Debug)]
pub(crate) struct Get {
    pub(crate) form: Form,
    pub(crate) recursive: bool,
    pub(crate) columns: String,
    pub(crate) properties: String,
}

pub(crate) fn create(
    paths: &Paths,
    dataset: &str,
    path: Option<PathBuf>,
    properties: BTreeMap<String, String>,
) -> Result<()> {
    warn(&properties);
    let changed = daemon::create_dataset(paths, dataset, path, properties)?;
    report(&format!("dataset {dataset} is made"), &changed);
    if let Some(directory) = directory_of(paths, dataset)
        && !directory.exists()
    {
        let directory = directory.display();
        eprintln!("warmfront: note: there is no {directory} yet; its files will belong to it");
    }
    Ok(())
}

/// Where the origin has the files of a dataset, as far as that is known.
fn directory_of(paths: &Paths, dataset: &str) -> Option<PathBuf> {
    let target = Target::find(paths, OsStr::new(dataset)).ok()?;
    let pools = daemon::list_pools(paths).ok()?.rows;
    let pool = pools.into_iter().find(|pool| pool.name == target.pool)?;
    Some(pool.origin.join(target.dataset.path))
}

pub(crate) fn destroy(paths: &Paths, recursive: bool, dataset: &OsStr) -> Result<()> {
    let target = target(paths, Some(dataset))?;
    let dataset = target.dataset_to_change()?.to_string();
    let changed = target.change(Change::Destroy { dataset: dataset.clone(), recursive })?;
    report(&format!("dataset {dataset} is removed; its files are where they were"), &changed);
    Ok(())
}

pub(crate) fn set(paths: &Paths, properties: BTreeMap<String, String>, text: &OsStr) -> Result<()> {
    let target = target(paths, Some(text))?;
    let dataset = target.dataset_to_change()?.to_string();
    warn(&properties);
    let changed = target.change(Change::Set { dataset, properties })?;
    until_unmount(&changed);
    Ok(())
}

pub(crate) fn inherit(paths: &Paths, recursive: bool, property: &str, text: &OsStr) -> Result<()> {
    let property = Property::by_name(property)?.name.to_string();
    let target = target(paths, Some(text))?;
    let dataset = target.dataset_to_change()?.to_string();
    let changed = target.change(Change::Inherit { dataset, property, recursive })?;
    until_unmount(&changed);
    Ok(())
}

/// Says what a setting puts at risk.
fn warn(properties: &BTreeMap<String, String>) {
    for (property, value) in properties {
        if let Some(risk) = daemon::risk(property, value) {
            eprintln!("warmfront: {property}={value}: {risk}");
        }
    }
}

fn report(what: &str, changed: &Changed) {
    print(&format!("{what}\n"));
    until_unmount(changed);
}

/// Says how long a change lasts, where that is not for good.
fn until_unmount(changed: &Changed) {
    if *changed == Changed::UntilUnmount {
        eprintln!(
            "note: the pool has no settings file, so this lasts until it is unmounted; \
             `warmfront pool create` makes a pool whose settings last"
        );
    }
}

pub(crate) fn list(paths: &Paths, form: Form, text: Option<&OsStr>) -> Result<()> {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    match text {
        Some(text) => {
            let target = target(paths, Some(text))?;
            let below = format!("{}/", target.dataset.name);
            let is_below = |name: &str| name == target.dataset.name || name.starts_with(&below);
            rows.extend(target.datasets()?.into_iter().filter(|row| is_below(&row.name)));
        }
        None => {
            let pools = daemon::list_pools(paths)?;
            faults = pools.faults;
            for pool in pools.rows {
                rows.extend(Target::find(paths, OsStr::new(&pool.name))?.datasets()?);
            }
        }
    }
    if form.json {
        print(&json(&rows));
        return unless_faulty(faults);
    }
    let mut table = Table::new(&["NAME", ">DATA", ">METADATA", "MOUNTPOINT", "PATH"]);
    for row in rows {
        let path = row.path.display().to_string();
        table.row(vec![
            row.name,
            form.size(row.data_bytes),
            form.size(row.metadata_bytes),
            row.mountpoint.map_or("-".to_string(), |path| path.display().to_string()),
            if path.is_empty() { ".".to_string() } else { path },
        ]);
    }
    print(&table.render(form));
    unless_faulty(faults)
}

pub(crate) fn get(paths: &Paths, request: &Get, text: Option<&OsStr>) -> Result<()> {
    let wanted = wanted(&request.properties)?;
    let columns = columns(&request.columns)?;
    let target = target(paths, text)?;
    let mut rows = target.get()?;
    if request.recursive {
        let below = format!("{}/", target.dataset.name);
        for dataset in target.datasets()? {
            if dataset.name.starts_with(&below) {
                rows.extend(target.get_of(&dataset.name)?);
            }
        }
    }
    rows.retain(|row| wanted.iter().any(|name| *name == row.property));
    if request.form.json {
        print(&json(&rows));
        return Ok(());
    }
    let headings: Vec<String> = columns.iter().map(|column| column.to_uppercase()).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    for row in &rows {
        table.row(columns.iter().map(|column| cell(row, column, request.form)).collect());
    }
    print(&table.render(request.form));
    for row in rows.iter().filter(|row| row.note.is_some()) {
        let (value, note) = (&row.value, row.note.as_deref().unwrap_or_default());
        eprintln!("warmfront: note: {}: {}={value}: {note}", row.name, row.property);
    }
    Ok(())
}

/// The properties named, in the order of the table of properties for `all`.
fn wanted(text: &str) -> Result<Vec<&'static str>> {
    if text == "all" {
        return Ok(warmfront::PROPERTIES.iter().map(|property| property.name).collect());
    }
    text.split(',').map(|name| Ok(Property::by_name(name.trim())?.name)).collect()
}

fn columns(text: &str) -> Result<Vec<&'static str>> {
    let column = |name: &str| {
        COLUMNS.into_iter().find(|column| *column == name.trim()).ok_or_else(|| {
            Failure::usage(format!(
                "there is no column `{name}`; the columns are {}",
                COLUMNS.join(", ")
            ))
        })
    };
    text.split(',').map(column).collect()
}

fn cell(row: &PropertyRow, column: &str, form: Form) -> String {
    match column {
        "name" => row.name.clone(),
        "property" => row.property.clone(),
        "value" if form.exact => exact(&row.value),
        "value" => row.value.clone(),
        _ => match &row.source {
            Source::Local => "local".to_string(),
            Source::Default => "default".to_string(),
            Source::Inherited(from) => format!("inherited from {from}"),
        },
    }
}

/// A size as its number of bytes; anything else as it is.
fn exact(value: &str) -> String {
    match warmfront::parse_size(value) {
        Ok(bytes) => bytes.to_string(),
        Err(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_and_columns_are_checked() {
        assert_eq!(wanted("all").expect("all").len(), warmfront::PROPERTIES.len());
        assert_eq!(wanted("recordsize, prefetch").expect("two"), ["recordsize", "prefetch"]);
        assert!(wanted("recordsiz").is_err());
        assert_eq!(columns("value,name").expect("two"), ["value", "name"]);
        assert!(columns("value,size").is_err());
        assert_eq!(exact("128K"), "131072");
        assert_eq!(exact("metadata"), "metadata");
    }
}
