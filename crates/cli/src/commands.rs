mod arcstat;
mod curve;
mod dataset;
mod doctor;
mod lab;
mod log;
mod mount;
mod pool;
mod prime;
mod record;
mod status;
mod txgs;
mod why;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::process::ExitCode;

use clap::CommandFactory;
use daemon::{ArcMax, CacheKey, DevicePath, DeviceRole, Dwpd, Paths, Setting, Target};
use warmfront::{Size, SizeError, parse_setting, parse_size_or_percent};

use crate::arguments::{Arguments, Command};
use crate::failure::{Failure, Result};
use crate::format::print;

/// Carries a command out.
pub(crate) fn run(command: Command) -> Result<ExitCode> {
    let paths = Paths::from_environment()?;
    let paths = &paths;
    match command {
        Command::Mount(arguments) => mount::mount(paths, arguments)?,
        Command::Unmount { target, lazy } => mount::unmount(paths, &target, lazy)?,
        Command::Pool(command) => pool::run(paths, command)?,
        Command::Create { properties, path, dataset } => {
            dataset::create(paths, &dataset, path, settings(&properties)?)?;
        }
        Command::List { form, target } => dataset::list(paths, form, target.as_deref())?,
        Command::Get { form, recursive, columns, properties, target } => {
            let request = dataset::Get { form, recursive, columns, properties };
            dataset::get(paths, &request, target.as_deref())?;
        }
        Command::Set { properties, target } => {
            dataset::set(paths, settings(&properties)?, &target)?;
        }
        Command::Inherit { recursive, property, target } => {
            dataset::inherit(paths, recursive, &property, &target)?;
        }
        Command::Destroy { recursive, dataset } => dataset::destroy(paths, recursive, &dataset)?,
        Command::Prime { rate, dry_run, json, paths: files } => {
            return prime::prime(paths, rate.as_deref(), dry_run, json, &files);
        }
        Command::Record(arguments) => record::record(paths, &arguments)?,
        Command::Arcstat(arguments) => arcstat::arcstat(paths, &arguments)?,
        Command::Txgs { form, target } => txgs::txgs(paths, form, target.as_deref())?,
        Command::Iostat(arguments) => arcstat::iostat(paths, &arguments)?,
        Command::Zil(arguments) => arcstat::zil(paths, &arguments)?,
        Command::Curve { form, recursive, svg, target } => {
            curve::curve(paths, form, recursive, svg.as_deref(), target.as_deref())?;
        }
        Command::Status { form, target } => status::status(paths, form, target.as_deref())?,
        Command::Why { form, file } => why::why(paths, form, &file)?,
        Command::Save { target } => status::save(paths, target.as_deref())?,
        Command::Sync { target } => mount::sync(paths, target.as_deref())?,
        Command::SetArcMax { arc_min, json, size, target } => {
            let setting = Setting {
                arc_max: ceiling("SIZE", &size)?,
                arc_min: arc_min.as_deref().map(floor).transpose()?,
            };
            status::set_ceiling(paths, setting, json, target.as_deref())?;
        }
        Command::Doctor { json, target } => return doctor::doctor(paths, json, target.as_deref()),
        Command::Log(command) => log::run(paths, command)?,
        Command::Lab(command) => lab::run(command)?,
        Command::Demo(arguments) => crate::demo::demo(&arguments)?,
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "warmfront", &mut text);
            print(&String::from_utf8_lossy(&text));
        }
        Command::Manual => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Arguments::command())
                .render(&mut text)
                .map_err(|error| Failure::new(format!("cannot write the manual: {error}")))?;
            print(&String::from_utf8_lossy(&text));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a command is about: what is named, or the one pool that is mounted.
fn target(paths: &Paths, text: Option<&OsStr>) -> Result<Target> {
    Ok(match text {
        Some(text) => Target::find(paths, text)?,
        None => Target::only(paths)?,
    })
}

/// Reads `property=value` words, checking both.
fn settings(words: &[String]) -> Result<BTreeMap<String, String>> {
    let mut settings = BTreeMap::new();
    for word in words {
        let (property, value) = parse_setting(word)?;
        settings.insert(property.name.to_string(), value);
    }
    Ok(settings)
}

/// Reads a ceiling, the value of an argument of this name.
fn ceiling(argument: &str, text: &str) -> Result<ArcMax> {
    text.parse().map_err(|error: SizeError| {
        let auto = if matches!(error, SizeError::NotASize { .. }) { ", or auto" } else { "" };
        Failure::usage(format!("{argument}: {error}{auto}"))
    })
}

/// Reads cache devices.
fn caches(texts: &[String]) -> Result<Vec<DevicePath>> {
    texts.iter().map(|text| device(text, DeviceRole::Cache)).collect()
}

/// Reads a log device.
fn log_device(text: &str) -> Result<DevicePath> {
    device(text, DeviceRole::Log)
}

fn device(text: &str, role: DeviceRole) -> Result<DevicePath> {
    DevicePath::parse(text, role).map_err(|error| Failure::usage(error.to_string()))
}

/// Reads a number of drive writes a day.
fn drive_writes(text: &str) -> Result<Dwpd> {
    text.parse().map_err(|error| Failure::usage(format!("--dwpd: {error}")))
}

/// Reads where a key comes from.
fn cache_key(text: &str) -> CacheKey {
    match text.parse() {
        Ok(key) => key,
        Err(never) => match never {},
    }
}

/// Reads the value of `--arc-min`.
fn floor(text: &str) -> Result<Size> {
    parse_size_or_percent(text).map_err(|error| Failure::usage(format!("--arc-min: {error}")))
}
