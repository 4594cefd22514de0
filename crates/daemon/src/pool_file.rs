use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use toml_edit::{DocumentMut, Item, Table, value};
use warmfront::{DatasetError, Datasets, Properties, Property, Size, SizeError};

use crate::caches::{CacheKey, Dwpd};
use crate::ceiling::ArcMax;
use crate::change;
use crate::device_path::{DevicePath, DeviceRole};
use crate::paths::{Paths, PathsError, replace_file};
use crate::protocol::Change;

/// Largest settings file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a pool's settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolFileError {
    /// There is no such file.
    #[error(
        "there is no pool `{pool}` ({} does not exist); `warmfront pool list` shows those there \
         are", path.display()
    )]
    Missing {
        /// The pool.
        pool: String,
        /// Where its settings would be.
        path: PathBuf,
    },
    /// There is one already.
    #[error("pool `{pool}` exists already, see {}", path.display())]
    Exists {
        /// The pool.
        pool: String,
        /// Its settings file.
        path: PathBuf,
    },
    /// Something in the file is wrong.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong and what was expected.
        message: String,
    },
    /// Settings are text, and this path is not.
    #[error(
        "{} is not UTF-8, so it cannot be written into a settings file; mount it without a pool \
         (`warmfront mount DIRECTORY MOUNTPOINT`), or rename it", path.display()
    )]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// The file system refuses.
    #[error("cannot {action} {}: {error}", path.display())]
    System {
        /// What was attempted.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        error: io::Error,
    },
    /// A dataset or a property of a change is wrong.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// There is no place for settings.
    #[error(transparent)]
    Paths(#[from] PathsError),
}

/// A pool's settings, checked.
#[derive(Debug)]
pub struct Settings {
    /// The origin's directory.
    pub origin: PathBuf,
    /// Where it is mounted unless told otherwise.
    pub mountpoint: Option<PathBuf>,
    /// The ceiling; `auto` if absent.
    pub arc_max: Option<ArcMax>,
    /// What the ceiling never shrinks below.
    pub arc_min: Option<Size>,
    /// Whether every change is refused.
    pub read_only: bool,
    /// Whether other users may use the mount.
    pub allow_other: bool,
    /// The model that slows the origin down, if any.
    pub slow: Option<String>,
    /// Control groups whose reads do not count as use.
    pub no_promote_cgroups: Vec<PathBuf>,
    /// Cache devices.
    pub caches: Vec<DevicePath>,
    /// Drive writes a day that they are meant for; one if absent.
    pub dwpd: Option<Dwpd>,
    /// What they are encrypted with, if they are.
    pub cache_key: Option<CacheKey>,
    /// The log device.
    pub log: Option<DevicePath>,
    /// The datasets with their properties.
    pub datasets: Datasets,
}

/// What a new pool begins with.
#[derive(Debug, Clone, Default)]
pub struct NewPool {
    /// Its name.
    pub name: String,
    /// The origin's directory.
    pub origin: PathBuf,
    /// Where it is mounted unless told otherwise.
    pub mountpoint: Option<PathBuf>,
    /// The ceiling; `auto` if absent.
    pub arc_max: Option<ArcMax>,
    /// What the ceiling never shrinks below.
    pub arc_min: Option<Size>,
    /// Cache devices.
    pub caches: Vec<DevicePath>,
    /// The log device.
    pub log: Option<DevicePath>,
    /// Properties of the pool's own dataset.
    pub properties: BTreeMap<String, String>,
}

/// A pool's settings file: the text, as people may have edited it, and what it says.
#[derive(Debug)]
pub struct PoolFile {
    /// The pool's name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// What it says.
    pub settings: Settings,
    text: String,
}

/// The file as `toml` reads it. Datasets hold `path` and properties.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: Spanned<String>,
    origin: Spanned<String>,
    mountpoint: Option<Spanned<String>>,
    arc_max: Option<Spanned<toml::Value>>,
    arc_min: Option<Spanned<toml::Value>>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    allow_other: bool,
    slow: Option<String>,
    no_promote_cgroups: Option<Spanned<Vec<PathBuf>>>,
    caches: Option<Spanned<Vec<String>>>,
    dwpd: Option<Spanned<toml::Value>>,
    cache_key: Option<String>,
    log: Option<Spanned<String>>,
    #[serde(default)]
    datasets: BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<toml::Value>>>,
}

/// Something wrong at a place in the text.
struct Fault {
    span: Range<usize>,
    message: String,
}

impl PoolFile {
    /// Reads the settings of a pool.
    ///
    /// # Errors
    /// When there are none, or something in them is wrong.
    pub fn load(paths: &Paths, name: &str) -> Result<PoolFile, PoolFileError> {
        let path = paths.settings(name);
        let system = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                PoolFileError::Missing { pool: name.to_string(), path: path.clone() }
            }
            _ => PoolFileError::System { action: "read", path: path.clone(), error },
        };
        if fs::metadata(&path).map_err(system)?.len() > FILE_BYTES_MAX {
            return Err(system(io::Error::other("it is larger than any settings file, 1 MiB")));
        }
        let text = fs::read_to_string(&path).map_err(system)?;
        let settings = parse(name, &text).map_err(|fault| {
            let (line, column) = position(&text, fault.span.start);
            PoolFileError::Content { path: path.clone(), line, column, message: fault.message }
        })?;
        Ok(PoolFile { name: name.to_string(), path, settings, text })
    }

    /// The names of all pools that have a settings file, sorted.
    ///
    /// # Errors
    /// When the directory of settings is there and cannot be read.
    pub fn names(paths: &Paths) -> Result<Vec<String>, PoolFileError> {
        let directory = paths.config_directory();
        let system =
            |error| PoolFileError::System { action: "read", path: directory.to_owned(), error };
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(system(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(system)?.file_name();
            let pool = name.to_str().and_then(|name| name.strip_suffix(".toml"));
            names.extend(pool.filter(|pool| !pool.starts_with('.')).map(str::to_string));
        }
        names.sort();
        Ok(names)
    }

    /// Writes the settings file of a new pool, with comments that explain it.
    ///
    /// # Errors
    /// When there is one already, a name or a property is wrong, or it cannot be written.
    pub fn create(paths: &Paths, pool: &NewPool) -> Result<PoolFile, PoolFileError> {
        change::check_pool_name(&pool.name)?;
        let path = paths.settings(&pool.name);
        if path.exists() {
            return Err(PoolFileError::Exists { pool: pool.name.clone(), path });
        }
        let datasets = Datasets::new(&pool.name)?;
        let set = Change::Set { dataset: pool.name.clone(), properties: pool.properties.clone() };
        datasets.edit(|tree| change::apply(&set, tree))?;
        let mut document = template(pool)?;
        edit(&mut document, &set)?;
        paths.make_config_directory()?;
        write(&path, &document.to_string())?;
        PoolFile::load(paths, &pool.name)
    }

    /// Makes a change in the file, keeping comments and order, and returns the new state.
    ///
    /// # Errors
    /// When the change makes no sense or the file cannot be written; then it is as it was.
    pub fn change(self, change: &Change) -> Result<PoolFile, PoolFileError> {
        self.settings.datasets.edit(|tree| change::apply(change, tree))?;
        let mut document = self.document()?;
        edit(&mut document, change)?;
        let text = document.to_string();
        write(&self.path, &text)?;
        Ok(PoolFile { text, ..self })
    }

    /// Writes down which cache devices the pool has, keeping comments and order.
    ///
    /// # Errors
    /// When a path is not text, or the file cannot be written; then it is as it was.
    pub fn set_caches(self, caches: &[DevicePath]) -> Result<(), PoolFileError> {
        let mut array = toml_edit::Array::new();
        for device in caches {
            if device.path.to_str().is_none() {
                return Err(PoolFileError::NotText { path: device.path.clone() });
            }
            array.push(device.to_string());
        }
        let mut document = self.document()?;
        let is_new = !document.contains_key("caches");
        document.insert("caches", value(array));
        if is_new {
            // Before the first table, which would else take it in.
            document.sort_values_by(|_, a, _, b| a.is_table_like().cmp(&b.is_table_like()));
        }
        write(&self.path, &document.to_string())
    }

    /// Writes down which log device the pool has, keeping comments and order.
    ///
    /// # Errors
    /// When a path is not text, or the file cannot be written; then it is as it was.
    pub fn set_log(self, device: Option<&DevicePath>) -> Result<(), PoolFileError> {
        let mut document = self.document()?;
        match device {
            None => drop(document.remove("log")),
            Some(device) if device.path.to_str().is_none() => {
                return Err(PoolFileError::NotText { path: device.path.clone() });
            }
            Some(device) => {
                let is_new = !document.contains_key("log");
                document.insert("log", value(device.to_string()));
                if is_new {
                    // Before the first table, which would else take it in.
                    document.sort_values_by(|_, a, _, b| a.is_table_like().cmp(&b.is_table_like()));
                }
            }
        }
        write(&self.path, &document.to_string())
    }

    fn document(&self) -> Result<DocumentMut, PoolFileError> {
        self.text.parse().map_err(|error: toml_edit::TomlError| {
            let at = error.span().map_or(0, |span| span.start);
            let (line, column) = position(&self.text, at);
            let message = error.message().to_string();
            PoolFileError::Content { path: self.path.clone(), line, column, message }
        })
    }

    /// Removes the file.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(self) -> Result<(), PoolFileError> {
        let PoolFile { path, .. } = self;
        fs::remove_file(&path).map_err(|error| PoolFileError::System {
            action: "remove",
            path,
            error,
        })
    }
}

fn write(path: &Path, text: &str) -> Result<(), PoolFileError> {
    replace_file(path, text.as_bytes(), 0o644).map_err(|error| PoolFileError::System {
        action: "write",
        path: path.to_owned(),
        error,
    })
}

/// Line and column, both from 1, of a byte offset.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

fn parse(name: &str, text: &str) -> Result<Settings, Fault> {
    let raw: Raw = toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', "; ");
        // What the parser missed stands in the message in most cases, but not in all.
        let hint = match message.contains("expected") || message.contains("missing") {
            true => "",
            false => "; expected `key = value` with keys as in the comments of a new file",
        };
        Fault { span: error.span().unwrap_or(0..0), message: format!("{message}{hint}") }
    })?;
    if raw.name.get_ref() != name {
        let message = format!("expected name = \"{name}\", as the file is called");
        return Err(Fault { span: raw.name.span(), message });
    }
    let datasets = Datasets::new(name)
        .map_err(|error| Fault { span: raw.name.span(), message: error.to_string() })?;
    let mut tables: Vec<_> = raw.datasets.into_iter().collect();
    // Parents first, in whatever order people wrote them.
    tables.sort_by(|(a, _), (b, _)| a.get_ref().cmp(b.get_ref()));
    for (dataset, table) in tables {
        read_dataset(name, &datasets, &dataset, table)?;
    }
    Ok(Settings {
        origin: absolute(&raw.origin)?,
        mountpoint: raw.mountpoint.as_ref().map(absolute).transpose()?,
        arc_max: raw.arc_max.map(|size| read_size("arc_max", size)).transpose()?,
        arc_min: raw.arc_min.map(read_floor).transpose()?,
        read_only: raw.read_only,
        allow_other: raw.allow_other,
        slow: raw.slow,
        no_promote_cgroups: raw.no_promote_cgroups.map_or(Ok(Vec::new()), read_groups)?,
        caches: raw.caches.map_or(Ok(Vec::new()), read_caches)?,
        dwpd: raw.dwpd.map(read_dwpd).transpose()?,
        cache_key: raw.cache_key.map(|text| match text.parse() {
            Ok(key) => key,
            Err(never) => match never {},
        }),
        log: raw.log.as_ref().map(read_log).transpose()?,
        datasets,
    })
}

fn absolute(text: &Spanned<String>) -> Result<PathBuf, Fault> {
    let path = PathBuf::from(text.get_ref());
    match path.is_absolute() {
        true => Ok(path),
        false => Err(Fault {
            span: text.span(),
            message: format!(
                "`{}` is not an absolute path; expected one such as \"/slow\"",
                path.display()
            ),
        }),
    }
}

fn read_size(key: &str, size: Spanned<toml::Value>) -> Result<ArcMax, Fault> {
    let span = size.span();
    let read = match size.get_ref() {
        toml::Value::Integer(bytes) => u64::try_from(*bytes)
            .map(|bytes| ArcMax::Size(Size::Bytes(bytes)))
            .map_err(|_| "a size is not negative".to_string()),
        toml::Value::String(text) => text.parse().map_err(|error: SizeError| error.to_string()),
        other => Err(format!("a size is text or a number, not {}", other.type_str())),
    };
    read.map_err(|message| Fault {
        span,
        message: format!("{key}: {message}; expected a size such as \"4G\" or \"25%\""),
    })
}

fn read_floor(size: Spanned<toml::Value>) -> Result<Size, Fault> {
    let span = size.span();
    match read_size("arc_min", size)? {
        ArcMax::Size(size) => Ok(size),
        ArcMax::Auto => {
            let message = "arc_min: expected a size such as \"1G\" or \"5%\", not auto".to_string();
            Err(Fault { span, message })
        }
    }
}

fn read_groups(groups: Spanned<Vec<PathBuf>>) -> Result<Vec<PathBuf>, Fault> {
    match fuse::PassingGroups::check(groups.get_ref()) {
        Ok(()) => Ok(groups.into_inner()),
        Err(error) => Err(Fault { span: groups.span(), message: error.to_string() }),
    }
}

fn read_caches(caches: Spanned<Vec<String>>) -> Result<Vec<DevicePath>, Fault> {
    let read = caches.get_ref().iter().map(|text| read_device(text, DeviceRole::Cache));
    read.collect::<Result<_, String>>()
        .map_err(|fault| Fault { span: caches.span(), message: format!("caches: {fault}") })
}

fn read_log(log: &Spanned<String>) -> Result<DevicePath, Fault> {
    read_device(log.get_ref(), DeviceRole::Log)
        .map_err(|fault| Fault { span: log.span(), message: format!("log: {fault}") })
}

fn read_device(text: &str, role: DeviceRole) -> Result<DevicePath, String> {
    let device = DevicePath::parse(text, role).map_err(|error| error.to_string())?;
    match device.path.is_absolute() {
        true => Ok(device),
        false => Err(format!("`{text}` is not an absolute path")),
    }
}

fn read_dwpd(dwpd: Spanned<toml::Value>) -> Result<Dwpd, Fault> {
    let text = match dwpd.get_ref() {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let read = text.parse::<Dwpd>();
    read.map_err(|error| Fault { span: dwpd.span(), message: format!("dwpd: {error}") })
}

fn read_dataset(
    pool: &str,
    datasets: &Datasets,
    name: &Spanned<String>,
    table: BTreeMap<Spanned<String>, Spanned<toml::Value>>,
) -> Result<(), Fault> {
    let at_name = |error: DatasetError| Fault { span: name.span(), message: error.to_string() };
    let dataset = name.get_ref();
    let mut path = None;
    let mut properties = Vec::new();
    for (key, setting) in table {
        let text = text_of(&key, &setting)?;
        if key.get_ref() == "path" {
            path = Some((setting.span(), PathBuf::from(text)));
        } else {
            properties.push((key, setting.span(), text));
        }
    }
    match path {
        Some((span, _)) if dataset == pool => {
            let message = "the pool's own dataset has the origin as its path; remove this line";
            return Err(Fault { span, message: message.to_string() });
        }
        Some((span, path)) => datasets
            .create(dataset, Some(&path))
            .map_err(|error| Fault { span, message: error.to_string() })?,
        None if dataset == pool => {}
        None => datasets.create(dataset, None).map_err(at_name)?,
    }
    for (key, span, text) in properties {
        let property = Property::by_name(key.get_ref())
            .map_err(|error| Fault { span: key.span(), message: error.to_string() })?;
        property
            .apply(&text, &mut Properties::default())
            .map_err(|error| Fault { span, message: error.to_string() })?;
        datasets.set(dataset, property.name, &text).map_err(at_name)?;
    }
    Ok(())
}

/// A value as it would be given to `set`: text, or a number or truth value for those who write
/// `recordsize = 16384` or `freebehind = true`.
fn text_of(key: &Spanned<String>, setting: &Spanned<toml::Value>) -> Result<String, Fault> {
    match setting.get_ref() {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Boolean(true) => Ok("on".to_string()),
        toml::Value::Boolean(false) => Ok("off".to_string()),
        other => Err(Fault {
            span: setting.span(),
            message: format!("{}: expected text, not {}", key.get_ref(), other.type_str()),
        }),
    }
}

fn template(pool: &NewPool) -> Result<DocumentMut, PoolFileError> {
    let text = |path: &Path| match path.to_str() {
        Some(text) => Ok(toml::Value::String(text.to_string()).to_string()),
        None => Err(PoolFileError::NotText { path: path.to_owned() }),
    };
    let (set, unset) = ("", "# ");
    let (mount_mark, mountpoint) = match &pool.mountpoint {
        Some(path) => (set, text(path)?),
        None => (unset, "\"/fast\"".to_string()),
    };
    let (max_mark, arc_max) = match pool.arc_max {
        Some(arc_max) => (set, arc_max),
        None => (unset, ArcMax::Auto),
    };
    let (min_mark, arc_min) = match pool.arc_min {
        Some(size) => (set, size),
        None => (unset, Size::Percent(5.0)),
    };
    let arc_min = ArcMax::Size(arc_min);
    let mut caches = Vec::new();
    for device in &pool.caches {
        let path = device.path.clone();
        device.path.to_str().ok_or(PoolFileError::NotText { path })?;
        caches.push(toml::Value::String(device.to_string()));
    }
    let (caches_mark, caches) = match caches.is_empty() {
        true => (unset, "[\"/flash/cache:100G\"]".to_string()),
        false => (set, toml::Value::Array(caches).to_string()),
    };
    let (log_mark, log) = match &pool.log {
        None => (unset, "\"/flash/log:1G\"".to_string()),
        Some(device) => {
            let path = device.path.clone();
            device.path.to_str().ok_or(PoolFileError::NotText { path })?;
            (set, toml::Value::String(device.to_string()).to_string())
        }
    };
    let name = toml::Value::String(pool.name.clone());
    let origin = text(&pool.origin)?;
    let mut properties = String::new();
    for property in warmfront::PROPERTIES {
        let inherited = if property.inherited { "" } else { " (not inherited)" };
        properties.push_str(&format!(
            "#   {} = \"{}\"\n#       {}{inherited}: {}\n",
            property.name, property.default, property.help, property.values
        ));
    }
    let text = format!(
        "# Settings of the Warmfront pool {name}. `warmfront set`, `create` and the like\n\
         # edit this file and keep the comments; what is edited by hand counts from\n\
         # the next mount on.\n\
         \n\
         name = {name}\n\
         \n\
         # The slow directory in front of which the pool stands.\n\
         origin = {origin}\n\
         \n\
         # Where `warmfront mount` puts it when no other place is given.\n\
         {mount_mark}mountpoint = {mountpoint}\n\
         \n\
         # The bytes of RAM that everything together may take: \"4G\", a share of the memory such\n\
         # as \"25%\", or \"auto\": whatever the system and other processes leave.\n\
         {max_mark}arc_max = \"{arc_max}\"\n\
         \n\
         # When others need memory it shrinks no further than to this. By default 1/32 of the\n\
         # memory under auto; a ceiling in bytes or percent shrinks only if this is set.\n\
         {min_mark}arc_min = \"{arc_min}\"\n\
         \n\
         # Refuse every change.\n\
         # read_only = true\n\
         \n\
         # Let other users than the one who mounts use the mount.\n\
         # allow_other = true\n\
         \n\
         # Cache devices: files, which are made with the size behind the colon, or block devices.\n\
         {caches_mark}caches = {caches}\n\
         \n\
         # Drive writes a day that these are meant for, or \"none\".\n\
         # dwpd = 1.0\n\
         \n\
         # Encrypts what lies on them: a file with 32 random bytes, or \"each-start\" for a key\n\
         # that nobody keeps, so that they start empty each time.\n\
         # cache_key = \"/etc/warmfront/key\"\n\
         \n\
         # Log device: a file, which is made with the size behind the colon, or a block device.\n\
         # What is on it after a crash is brought to the origin by the next mount.\n\
         {log_mark}log = {log}\n\
         \n\
         # Control groups whose reads do not count as use, as promote=off: for backups.\n\
         # no_promote_cgroups = [\"/backup.slice\"]\n\
         \n\
         # Each dataset has a table with the properties that are set on it; the rest is inherited\n\
         # from the dataset above. A dataset's path, relative to the origin, is its name without\n\
         # the pool's, unless a line with `path` says otherwise. The properties, with their\n\
         # defaults, to be written below the line that names the dataset:\n\
         #\n\
         {properties}\
         \n\
         [datasets.{name}]\n"
    );
    text.parse().map_err(|error: toml_edit::TomlError| PoolFileError::Content {
        path: pool.name.clone().into(),
        line: 1,
        column: 1,
        message: error.message().to_string(),
    })
}

/// Makes a change that has been checked in the text of a file.
fn edit(document: &mut DocumentMut, change: &Change) -> Result<(), PoolFileError> {
    let datasets = document.entry("datasets").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let Some(datasets) = datasets.as_table_like_mut() else {
        return Ok(());
    };
    let mut set = |dataset: &str, key: &str, text: &str| {
        let table = datasets.entry(dataset).or_insert_with(|| Item::Table(Table::new()));
        if let Some(table) = table.as_table_like_mut() {
            let decor = table.get(key).and_then(Item::as_value).map(|old| old.decor().clone());
            table.insert(key, value(text));
            if let (Some(decor), Some(new)) =
                (decor, table.get_mut(key).and_then(Item::as_value_mut))
            {
                *new.decor_mut() = decor;
            }
        }
    };
    match change {
        Change::Set { dataset, properties } => {
            for (property, text) in properties {
                set(dataset, property, text);
            }
        }
        Change::Create { dataset, path, properties } => {
            if let Some(path) = path {
                let text =
                    path.to_str().ok_or_else(|| PoolFileError::NotText { path: path.clone() })?;
                set(dataset, "path", text);
            }
            for (property, text) in properties {
                set(dataset, property, text);
            }
            datasets.entry(dataset).or_insert_with(|| Item::Table(Table::new()));
        }
        Change::Destroy { dataset, recursive } => {
            for name in with_below(datasets, dataset, *recursive) {
                datasets.remove(&name);
            }
        }
        Change::Inherit { dataset, property, recursive } => {
            for name in with_below(datasets, dataset, *recursive) {
                if let Some(table) =
                    datasets.get_mut(&name).and_then(|item| item.as_table_like_mut())
                {
                    table.remove(property);
                }
            }
        }
    }
    Ok(())
}

/// The dataset, and those below it if `recursive`.
fn with_below(datasets: &dyn toml_edit::TableLike, dataset: &str, recursive: bool) -> Vec<String> {
    let below = format!("{dataset}/");
    datasets
        .iter()
        .map(|(name, _)| name.to_string())
        .filter(|name| name == dataset || recursive && name.starts_with(&below))
        .collect()
}

#[cfg(test)]
mod tests;
