use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use crate::client::Client;
use crate::descriptor;
use crate::error::ControlError;
use crate::lock::{Owner, PoolLock};
use crate::mountinfo::{MountEntry, mount_of, mounts};
use crate::paths::Paths;
use crate::pool_file::PoolFile;
use crate::process::is_dying;
use crate::protocol::{Change, Changed, DatasetRow, PropertyRow};
use crate::stuck::end_connection;

/// What a command line names: a pool, a dataset, a mount point or a path under one.
#[derive(Debug)]
pub struct Target {
    /// The pool's name.
    pub pool: String,
    /// The dataset named, or the one that the path belongs to.
    pub dataset: DatasetRow,
    /// The path relative to the pool's top, if a path was given.
    pub path: Option<PathBuf>,
    /// The path as it was given.
    given: Option<PathBuf>,
    reach: Reach,
    paths: Paths,
}

/// How a pool can be reached.
#[derive(Debug)]
enum Reach {
    /// Through its daemon.
    Mounted(Box<Client>),
    /// Through its settings file.
    Stored,
}

impl Target {
    /// Finds out what `text` names: first as a pool or dataset, then as a path.
    ///
    /// Dead mounts are not touched.
    ///
    /// # Errors
    /// When it names nothing, or something whose daemon is dead or another user's.
    pub fn find(paths: &Paths, text: &OsStr) -> Result<Target, ControlError> {
        let unknown = || {
            let path = resolve(Path::new(text)).unwrap_or_else(|| text.into());
            starting_at(paths, &path).unwrap_or_else(|| ControlError::Unknown {
                text: text.to_string_lossy().into_owned(),
            })
        };
        let is_name = |text: &&str| !text.starts_with(['/', '.']) && !text.is_empty();
        let mut named = None;
        if let Some(name) = text.to_str().filter(is_name) {
            match Target::by_name(paths, name) {
                Ok(target) => return Ok(target),
                Err(error) => named = Some(error),
            }
        }
        match (Target::by_path(paths, Path::new(text))?, named) {
            (Some(target), _) => Ok(target),
            // That a pool's settings are wrong says more than that there is no such path.
            (None, Some(ControlError::Unknown { .. }) | None) => Err(unknown()),
            (None, Some(error)) => Err(error),
        }
    }

    /// The one pool that is mounted, for commands that name none.
    ///
    /// # Errors
    /// When none is, or several are.
    pub fn only(paths: &Paths) -> Result<Target, ControlError> {
        let alive = |descriptor| {
            let client = Client::new(paths, descriptor);
            client.is_alive_or_ends().then_some(client)
        };
        let mut clients: Vec<Client> =
            descriptor::load_all(paths)?.into_iter().filter_map(alive).collect();
        match (clients.pop(), clients.is_empty()) {
            (Some(client), true) => {
                let pool = client.descriptor().pool.clone();
                Target::in_pool(paths, &pool, &pool, Reach::Mounted(Box::new(client)))
            }
            (last, _) => {
                let pool_of = |client: &Client| client.descriptor().pool.clone();
                let pools = clients.iter().chain(&last).map(pool_of).collect();
                Err(ControlError::Ambiguous { pools })
            }
        }
    }

    /// A pool or dataset.
    fn by_name(paths: &Paths, name: &str) -> Result<Target, ControlError> {
        let pool = name.split('/').next().unwrap_or(name);
        let reach = reach(paths, pool)?;
        Target::in_pool(paths, pool, name, reach)
    }

    fn in_pool(
        paths: &Paths,
        pool: &str,
        dataset: &str,
        reach: Reach,
    ) -> Result<Target, ControlError> {
        let rows = datasets(paths, pool, &reach)?;
        let row = rows
            .into_iter()
            .find(|row| row.name == dataset)
            .ok_or_else(|| warmfront::DatasetError::Unknown { name: dataset.to_string() })?;
        Ok(Target {
            pool: pool.to_string(),
            dataset: row,
            path: None,
            given: None,
            reach,
            paths: paths.clone(),
        })
    }

    /// A path at or under a mount point, if it is one.
    fn by_path(paths: &Paths, path: &Path) -> Result<Option<Target>, ControlError> {
        let Some((client, inner)) = find_mount(paths, path)? else {
            return Ok(None);
        };
        Ok(Some(Target {
            pool: client.descriptor().pool.clone(),
            dataset: client.dataset_of(&inner)?,
            path: Some(inner),
            given: Some(path.to_owned()),
            reach: Reach::Mounted(Box::new(client)),
            paths: paths.clone(),
        }))
    }

    /// Whether the pool is mounted.
    pub fn is_mounted(&self) -> bool {
        matches!(self.reach, Reach::Mounted(_))
    }

    /// The pool's daemon.
    ///
    /// # Errors
    /// When the pool is not mounted.
    pub fn client(&self) -> Result<&Client, ControlError> {
        match &self.reach {
            Reach::Mounted(client) => Ok(client),
            Reach::Stored => Err(starting(&self.paths, &self.pool)
                .unwrap_or_else(|| ControlError::NotMounted { pool: self.pool.clone() })),
        }
    }

    /// All properties of the dataset, in the order of the table of properties.
    ///
    /// # Errors
    /// When daemon or settings cannot be read.
    pub fn get(&self) -> Result<Vec<PropertyRow>, ControlError> {
        self.get_of(&self.dataset.name)
    }

    /// All properties of another dataset of the pool.
    ///
    /// # Errors
    /// When daemon or settings cannot be read, or there is no such dataset.
    pub fn get_of(&self, dataset: &str) -> Result<Vec<PropertyRow>, ControlError> {
        match &self.reach {
            Reach::Mounted(client) => client.get(dataset),
            Reach::Stored => {
                Ok(PoolFile::load(&self.paths, &self.pool)?.settings.datasets.get(dataset)?)
            }
        }
    }

    /// All datasets of the pool, in the order of their names.
    ///
    /// # Errors
    /// When daemon or settings cannot be read.
    pub fn datasets(&self) -> Result<Vec<DatasetRow>, ControlError> {
        datasets(&self.paths, &self.pool, &self.reach)
    }

    /// Changes datasets or properties of the pool.
    ///
    /// # Errors
    /// When the change makes no sense or cannot be saved.
    pub fn change(&self, change: Change) -> Result<Changed, ControlError> {
        change_pool(&self.paths, &self.pool, &self.reach, change)
    }

    /// The name of the dataset, for commands that change it.
    ///
    /// # Errors
    /// When a path was given at which no dataset begins: what is meant for a directory must not
    /// change the whole dataset that it lies in.
    pub fn dataset_to_change(&self) -> Result<&str, ControlError> {
        match (&self.path, &self.given) {
            (Some(path), Some(given)) if *path != self.dataset.path => {
                Err(ControlError::NotDataset {
                    path: given.clone(),
                    dataset: self.dataset.name.clone(),
                })
            }
            _ => Ok(&self.dataset.name),
        }
    }
}

/// Makes a dataset in the pool that its name begins with.
///
/// # Errors
/// When there is no such pool, or the dataset cannot be made.
pub fn create_dataset(
    paths: &Paths,
    name: &str,
    path: Option<PathBuf>,
    properties: BTreeMap<String, String>,
) -> Result<Changed, ControlError> {
    let pool = name.split('/').next().unwrap_or(name);
    let reach = reach(paths, pool)?;
    change_pool(paths, pool, &reach, Change::Create { dataset: name.to_string(), path, properties })
}

/// The daemon of a pool, if it lives, else its settings.
fn reach(paths: &Paths, pool: &str) -> Result<Reach, ControlError> {
    let client = descriptor::load(paths, pool).map(|found| Client::new(paths, found));
    match client {
        Some(client) if client.is_alive_or_ends() => Ok(Reach::Mounted(Box::new(client))),
        _ if paths.settings(pool).exists() => Ok(Reach::Stored),
        Some(client) => {
            Err(ControlError::Dead { mountpoint: client.descriptor().mountpoint.clone() })
        }
        None => Err(starting(paths, pool)
            .unwrap_or_else(|| ControlError::Unknown { text: pool.to_string() })),
    }
}

/// That somebody is at a pool who does not answer yet.
fn starting(paths: &Paths, pool: &str) -> Option<ControlError> {
    let Owner { pid, pool, .. } = PoolLock::holder(paths, pool)?;
    Some(not_answering(pool, pid))
}

/// The same of the pool that is to be mounted at a path, or was, where nothing of ours is by now.
pub(crate) fn starting_at(paths: &Paths, path: &Path) -> Option<ControlError> {
    let owner = PoolLock::holder_at(paths, path)?;
    let Owner { pid, pool, mountpoint, .. } = owner;
    // Before it says what it serves, it has it mounted.
    let served = descriptor::load(paths, &pool).filter(|known| known.pid == pid);
    match served.is_some_and(|known| Client::new(paths, known).is_alive()) {
        true => Some(ControlError::Detached { pool, pid, mountpoint }),
        false => Some(not_answering(pool, pid)),
    }
}

/// Why somebody who holds a pool does not answer.
fn not_answering(pool: String, pid: u32) -> ControlError {
    match is_dying(pid) {
        true => ControlError::Dying { pool, pid },
        false => ControlError::Starting { pool, pid },
    }
}

fn datasets(paths: &Paths, pool: &str, reach: &Reach) -> Result<Vec<DatasetRow>, ControlError> {
    if let Reach::Mounted(client) = reach {
        return client.datasets();
    }
    let row = |dataset: std::sync::Arc<warmfront::Dataset>| DatasetRow {
        name: dataset.name().to_string(),
        path: dataset.path().to_owned(),
        mountpoint: None,
        data_bytes: 0,
        metadata_bytes: 0,
    };
    let file = PoolFile::load(paths, pool)?;
    Ok(file.settings.datasets.list().into_iter().map(row).collect())
}

fn change_pool(
    paths: &Paths,
    pool: &str,
    reach: &Reach,
    change: Change,
) -> Result<Changed, ControlError> {
    match reach {
        Reach::Mounted(client) => client.change(change),
        Reach::Stored => {
            let file = PoolFile::load(paths, pool)?.change(&change)?;
            Ok(Changed::Saved { file: file.path })
        }
    }
}

/// The daemon whose mount a path lies in, and the path relative to the pool's top.
pub(crate) fn find_mount(
    paths: &Paths,
    path: &Path,
) -> Result<Option<(Client, PathBuf)>, ControlError> {
    let system = |error| ControlError::System { path: path.to_owned(), error };
    let absolute = std::path::absolute(path).map_err(system)?;
    let mounts = mounts().map_err(system)?;
    let descriptors = descriptor::load_all(paths)?;
    let find = |path: &Path| -> Result<Option<(Client, PathBuf)>, ControlError> {
        let Some(mount) = mount_of(&mounts, path) else {
            return Ok(None);
        };
        // A dead daemon's descriptor may have the number of a device that came after it.
        let mut owners = descriptors
            .iter()
            .filter(|known| known.device == mount.device)
            .map(|known| Client::new(paths, known.clone()));
        match owners.find(Client::is_alive) {
            Some(client) => Ok(mount.inner_path(path).map(|inner| (client, inner))),
            None if mount.is_warmfront() => Err(without_daemon(paths, mount)),
            None => Ok(None),
        }
    };
    // As it is written first: a path into a dead mount must not be looked at. A live one can tell
    // which links and detours the path takes.
    let has_detours = absolute.components().any(|part| part == Component::ParentDir);
    let written = if has_detours { None } else { find(&absolute)? };
    let resolved = match resolve(&absolute) {
        Some(resolved) if resolved != absolute => find(&resolved)?,
        _ => None,
    };
    Ok(resolved.or(written))
}

/// The path without links and detours; its last name may be a link that leads nowhere.
fn resolve(path: &Path) -> Option<PathBuf> {
    if let Ok(resolved) = path.canonicalize() {
        return Some(resolved);
    }
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

/// Why a mount of ours has no daemon that this user can talk to.
pub(crate) fn without_daemon(paths: &Paths, mount: &MountEntry) -> ControlError {
    end_connection(paths, mount);
    let mountpoint = mount.mountpoint.clone();
    if fuse::is_disconnected(&mountpoint) {
        return ControlError::Dead { mountpoint };
    }
    let uid = mount.options.split(',').find_map(|option| option.strip_prefix("user_id="));
    ControlError::Foreign { mountpoint, uid: uid.unwrap_or("unknown").to_string() }
}
