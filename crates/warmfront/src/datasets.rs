use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use crate::property::{PROPERTIES, Properties, Property, PropertyError};

/// Longest name of a dataset in bytes, as in ZFS.
const NAME_BYTES_MAX: usize = 255;

/// A subtree of a pool's origin with properties of its own.
#[derive(Debug)]
pub struct Dataset {
    id: u32,
    name: String,
    path: PathBuf,
    effective: ArcSwap<Properties>,
}

/// Where a property's value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Set on the dataset itself.
    Local,
    /// Set on the dataset of this name, above it.
    Inherited(String),
    /// Set nowhere.
    Default,
}

/// One property of one dataset, as `get` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PropertyRow {
    /// The dataset.
    pub name: String,
    /// The property.
    pub property: String,
    /// Its value.
    pub value: String,
    /// Where the value comes from.
    pub source: Source,
}

/// Why the tree of datasets was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The name is not well formed.
    #[error("`{name}` is not a name of a dataset: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The path leads out of the pool, or is the pool's own.
    #[error("{}: not a path below the pool's top", path.display())]
    BadPath {
        /// The path.
        path: PathBuf,
    },
    /// There is such a dataset already.
    #[error("dataset `{name}` exists already")]
    Exists {
        /// Its name.
        name: String,
    },
    /// Another dataset has that path.
    #[error("{} is the path of dataset `{name}` already", path.display())]
    PathTaken {
        /// The path.
        path: PathBuf,
        /// Who has it.
        name: String,
    },
    /// There is no such dataset.
    #[error("there is no dataset `{name}`; `warmfront list` shows those there are")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The dataset above is missing.
    #[error("there is no dataset `{parent}` above `{name}`; create it first")]
    NoParent {
        /// The dataset.
        name: String,
        /// What is missing.
        parent: String,
    },
    /// The dataset has others below it.
    #[error("dataset `{name}` has datasets below it; destroy them first, or use -r")]
    HasChildren {
        /// The dataset.
        name: String,
    },
    /// The dataset of the pool itself goes only with the pool.
    #[error("`{name}` is the pool's own dataset; use `warmfront pool destroy {name}`")]
    IsPool {
        /// The pool.
        name: String,
    },
    /// The property or its value is wrong.
    #[error(transparent)]
    Property(#[from] PropertyError),
}

/// The tree of datasets of one pool.
///
/// Names form one tree, from which properties are inherited: `pool`, `pool/mail`,
/// `pool/mail/archive`. Paths form another, which decides to which dataset a file belongs: the one
/// with the longest path above it. Mostly the two agree, as a dataset's path is its name unless
/// another one is given.
#[derive(Debug)]
pub struct Datasets {
    state: RwLock<State>,
    epoch: AtomicU64,
}

#[derive(Debug)]
struct State {
    pool: String,
    by_name: BTreeMap<String, Node>,
    trie: Arc<Trie>,
}

#[derive(Debug)]
struct Node {
    dataset: Arc<Dataset>,
    local: BTreeMap<&'static str, String>,
}

#[derive(Debug, Default)]
struct Trie {
    dataset: Option<Arc<Dataset>>,
    children: BTreeMap<OsString, Arc<Trie>>,
}

/// A place in the tree of paths. Going down switches to another dataset where one begins.
#[derive(Debug, Clone)]
pub struct DatasetCursor {
    dataset: Arc<Dataset>,
    trie: Option<Arc<Trie>>,
}

impl Dataset {
    /// A number unlike that of any other dataset in the process.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The name, from the pool down.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path, relative to the pool's top; empty for the pool's own dataset.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The effective properties at this moment.
    pub fn properties(&self) -> Properties {
        **self.effective.load()
    }
}

impl DatasetCursor {
    /// The dataset here.
    pub fn dataset(&self) -> Arc<Dataset> {
        self.dataset.clone()
    }

    /// One name further down.
    pub fn child(&self, name: &OsStr) -> DatasetCursor {
        let trie = self.trie.as_ref().and_then(|trie| trie.children.get(name).cloned());
        let dataset = trie.as_ref().and_then(|trie| trie.dataset.clone());
        DatasetCursor { dataset: dataset.unwrap_or_else(|| self.dataset.clone()), trie }
    }
}

impl Datasets {
    /// The tree of a pool with its own dataset only.
    ///
    /// # Errors
    /// When the pool's name is not well formed.
    pub fn new(pool: &str) -> Result<Datasets, DatasetError> {
        check_name(pool)?;
        if pool.contains('/') {
            let reason = "the name of a pool has no `/`";
            return Err(DatasetError::BadName { name: pool.to_string(), reason });
        }
        let node = Node::new(pool.to_string(), PathBuf::new());
        let mut state = State {
            pool: pool.to_string(),
            by_name: BTreeMap::from([(pool.to_string(), node)]),
            trie: Arc::default(),
        };
        state.rebuild();
        Ok(Datasets { state: RwLock::new(state), epoch: AtomicU64::new(0) })
    }

    /// Changes whenever the answer to any question about the tree may have changed.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The top of the tree of paths.
    pub fn root(&self) -> DatasetCursor {
        let state = self.state.read();
        DatasetCursor {
            dataset: state.by_name[&state.pool].dataset.clone(),
            trie: Some(state.trie.clone()),
        }
    }

    /// The dataset to which a path relative to the pool's top belongs.
    pub fn of_path(&self, path: &Path) -> Arc<Dataset> {
        path.iter().fold(self.root(), |cursor, name| cursor.child(name)).dataset
    }

    /// All datasets, in the order of their names.
    pub fn list(&self) -> Vec<Arc<Dataset>> {
        self.state.read().by_name.values().map(|node| node.dataset.clone()).collect()
    }

    /// Makes a dataset. Its path is its name without the pool's unless `path` gives another.
    ///
    /// # Errors
    /// When the name or the path is wrong or taken, or the dataset above is missing.
    pub fn create(&self, name: &str, path: Option<&Path>) -> Result<(), DatasetError> {
        check_name(name)?;
        let mut state = self.state.write();
        let (parent, last) = name.rsplit_once('/').ok_or_else(|| {
            let reason = "it has to begin with the pool's name and a `/`";
            DatasetError::BadName { name: name.to_string(), reason }
        })?;
        if state.by_name.contains_key(name) {
            return Err(DatasetError::Exists { name: name.to_string() });
        }
        let above = state.by_name.get(parent).ok_or_else(|| DatasetError::NoParent {
            name: name.to_string(),
            parent: parent.to_string(),
        })?;
        let path = match path {
            Some(path) => check_path(path)?,
            None => above.dataset.path.join(last),
        };
        if let Some(node) = state.by_name.values().find(|node| node.dataset.path == path) {
            return Err(DatasetError::PathTaken { path, name: node.dataset.name.clone() });
        }
        state.by_name.insert(name.to_string(), Node::new(name.to_string(), path));
        self.changed(&mut state);
        Ok(())
    }

    /// Removes a dataset, with those below it if `recursive`. Files are not touched.
    ///
    /// # Errors
    /// When there is none, or it has others below it.
    pub fn destroy(&self, name: &str, recursive: bool) -> Result<(), DatasetError> {
        let mut state = self.state.write();
        state.node(name)?;
        if name == state.pool {
            return Err(DatasetError::IsPool { name: name.to_string() });
        }
        let below = format!("{name}/");
        if !recursive && state.by_name.keys().any(|other| other.starts_with(&below)) {
            return Err(DatasetError::HasChildren { name: name.to_string() });
        }
        state.by_name.retain(|other, _| other != name && !other.starts_with(&below));
        self.changed(&mut state);
        Ok(())
    }

    /// Sets a property on a dataset; those below inherit it.
    ///
    /// # Errors
    /// When there is no such dataset, property or value.
    pub fn set(&self, name: &str, property: &str, value: &str) -> Result<(), DatasetError> {
        let property = Property::by_name(property)?;
        let mut parsed = Properties::default();
        property.apply(value, &mut parsed)?;
        let mut state = self.state.write();
        let node = state.node_mut(name)?;
        node.local.insert(property.name, property.show(&parsed));
        self.changed(&mut state);
        Ok(())
    }

    /// Takes a property off a dataset, and off those below it if `recursive`, so that it is
    /// inherited again.
    ///
    /// # Errors
    /// When there is no such dataset or property.
    pub fn inherit(&self, name: &str, property: &str, recursive: bool) -> Result<(), DatasetError> {
        let property = Property::by_name(property)?;
        let mut state = self.state.write();
        state.node_mut(name)?.local.remove(property.name);
        let below = format!("{name}/");
        if recursive {
            for (other, node) in &mut state.by_name {
                if other.starts_with(&below) {
                    node.local.remove(property.name);
                }
            }
        }
        self.changed(&mut state);
        Ok(())
    }

    /// All properties of a dataset, each with its source.
    ///
    /// # Errors
    /// When there is no such dataset.
    pub fn get(&self, name: &str) -> Result<Vec<PropertyRow>, DatasetError> {
        let state = self.state.read();
        state.node(name)?;
        let row = |property: &Property| {
            let (value, source) = state.value(name, property);
            PropertyRow {
                name: name.to_string(),
                property: property.name.to_string(),
                value,
                source,
            }
        };
        Ok(PROPERTIES.iter().map(row).collect())
    }

    /// The settings made on a dataset itself.
    ///
    /// # Errors
    /// When there is no such dataset.
    pub fn local(&self, name: &str) -> Result<BTreeMap<&'static str, String>, DatasetError> {
        Ok(self.state.read().node(name)?.local.clone())
    }

    /// Recounts everything that is derived.
    ///
    /// # Errors
    /// What does not fit.
    pub fn validate(&self) -> Result<(), String> {
        let state = self.state.read();
        for (name, node) in &state.by_name {
            if *name != node.dataset.name {
                return Err(format!("{name} is listed for {}", node.dataset.name));
            }
            if node.dataset.properties() != state.effective(name) {
                return Err(format!("{name} has not the properties that follow from the settings"));
            }
            let cursor = DatasetCursor {
                dataset: state.by_name[&state.pool].dataset.clone(),
                trie: Some(state.trie.clone()),
            };
            let found = node.dataset.path.iter().fold(cursor, |cursor, name| cursor.child(name));
            if found.dataset.id != node.dataset.id {
                return Err(format!("the path of {name} leads to {}", found.dataset.name));
            }
        }
        Ok(())
    }

    fn changed(&self, state: &mut State) {
        state.rebuild();
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

impl Node {
    fn new(name: String, path: PathBuf) -> Node {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let dataset = Dataset {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            name,
            path,
            effective: ArcSwap::from_pointee(Properties::default()),
        };
        Node { dataset: Arc::new(dataset), local: BTreeMap::new() }
    }
}

impl State {
    fn node(&self, name: &str) -> Result<&Node, DatasetError> {
        self.by_name.get(name).ok_or_else(|| DatasetError::Unknown { name: name.to_string() })
    }

    fn node_mut(&mut self, name: &str) -> Result<&mut Node, DatasetError> {
        self.by_name.get_mut(name).ok_or_else(|| DatasetError::Unknown { name: name.to_string() })
    }

    /// Value and source of a property: the nearest setting upwards.
    fn value(&self, name: &str, property: &Property) -> (String, Source) {
        let mut above = Some(name);
        while let Some(current) = above {
            let setting = self.by_name.get(current).and_then(|node| node.local.get(property.name));
            if let Some(value) = setting {
                let source = match current == name {
                    true => Source::Local,
                    false => Source::Inherited(current.to_string()),
                };
                return (value.clone(), source);
            }
            above = current.rsplit_once('/').map(|(parent, _)| parent);
        }
        (property.default.to_string(), Source::Default)
    }

    fn effective(&self, name: &str) -> Properties {
        let mut properties = Properties::default();
        for property in PROPERTIES {
            let (value, _) = self.value(name, property);
            property.apply(&value, &mut properties).expect("settings are checked when made");
        }
        properties
    }

    fn rebuild(&mut self) {
        let mut root = Trie::default();
        for (name, node) in &self.by_name {
            node.dataset.effective.store(Arc::new(self.effective(name)));
            root.insert(node.dataset.path.iter(), node.dataset.clone());
        }
        self.trie = Arc::new(root);
    }
}

impl Trie {
    fn insert<'a>(&mut self, mut path: impl Iterator<Item = &'a OsStr>, dataset: Arc<Dataset>) {
        match path.next() {
            None => self.dataset = Some(dataset),
            Some(name) => {
                let child = self.children.entry(name.to_owned()).or_default();
                let child = Arc::get_mut(child).expect("a tree being built is not shared yet");
                child.insert(path, dataset);
            }
        }
    }
}

fn check_name(name: &str) -> Result<(), DatasetError> {
    let error = |reason| Err(DatasetError::BadName { name: name.to_string(), reason });
    if name.len() > NAME_BYTES_MAX {
        return error("it is longer than 255 bytes");
    }
    for component in name.split('/') {
        if component.is_empty() {
            return error("a part of it is empty");
        }
        if component == "." || component == ".." {
            return error("`.` and `..` lead elsewhere");
        }
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.: ".contains(c);
        if !component.chars().all(is_good) || component.starts_with([' ', '-']) {
            return error("letters, digits and - _ . : may be used, and spaces inside");
        }
    }
    Ok(())
}

/// A path below the top, without detours.
fn check_path(path: &Path) -> Result<PathBuf, DatasetError> {
    let error = || DatasetError::BadPath { path: path.to_owned() };
    let mut checked = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => checked.push(name),
            Component::CurDir => {}
            _ => return Err(error()),
        }
    }
    if checked.as_os_str().is_empty() { Err(error()) } else { Ok(checked) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::CacheLevel;

    fn mail() -> Datasets {
        let datasets = Datasets::new("slow").expect("a good name");
        datasets.create("slow/mail", None).expect("free");
        datasets.create("slow/mail/archive", None).expect("free");
        datasets.create("slow/db", Some(Path::new("srv/db"))).expect("free");
        datasets.validate().expect("valid");
        datasets
    }

    fn value(datasets: &Datasets, name: &str, property: &str) -> (String, Source) {
        let rows = datasets.get(name).expect("it exists");
        let row = rows.into_iter().find(|row| row.property == property).expect("it is listed");
        (row.value, row.source)
    }

    #[test]
    fn properties_are_inherited_until_set() {
        let datasets = mail();
        let epoch = datasets.epoch();
        datasets.set("slow/mail", "primarycache", "metadata").expect("a value");
        assert_ne!(datasets.epoch(), epoch);
        let inherited = Source::Inherited("slow/mail".to_string());
        assert_eq!(
            value(&datasets, "slow/mail/archive", "primarycache"),
            ("metadata".to_string(), inherited)
        );
        assert_eq!(value(&datasets, "slow", "primarycache"), ("all".to_string(), Source::Default));
        datasets.set("slow/mail/archive", "primarycache", "none").expect("a value");
        assert_eq!(value(&datasets, "slow/mail/archive", "primarycache").1, Source::Local);
        let archive = datasets.of_path(Path::new("mail/archive/2009/03"));
        assert_eq!(archive.properties().primarycache, CacheLevel::None);
        datasets.inherit("slow/mail", "primarycache", true).expect("it exists");
        assert_eq!(archive.properties().primarycache, CacheLevel::All);
        datasets.validate().expect("valid");
    }

    #[test]
    fn a_path_belongs_to_the_nearest_dataset_above() {
        let datasets = mail();
        let name = |path: &str| datasets.of_path(Path::new(path)).name().to_string();
        assert_eq!(name(""), "slow");
        assert_eq!(name("mailbox"), "slow");
        assert_eq!(name("mail/new/1"), "slow/mail");
        assert_eq!(name("mail/archive"), "slow/mail/archive");
        assert_eq!(name("srv"), "slow");
        assert_eq!(name("srv/db/ibdata1"), "slow/db");
        datasets.destroy("slow/mail", true).expect("with all below");
        assert_eq!(name("mail/archive"), "slow");
    }

    #[test]
    fn wrong_requests_are_refused() {
        let datasets = mail();
        assert!(matches!(datasets.create("slow/mail", None), Err(DatasetError::Exists { .. })));
        assert!(matches!(datasets.create("slow/a/b", None), Err(DatasetError::NoParent { .. })));
        assert!(matches!(
            datasets.create("slow/x", Some(Path::new("mail"))),
            Err(DatasetError::PathTaken { .. })
        ));
        for path in ["../x", "/x", "."] {
            let created = datasets.create("slow/x", Some(Path::new(path)));
            assert!(matches!(created, Err(DatasetError::BadPath { .. })), "{path}");
        }
        for name in ["slow//x", "slow/..", "slow/ x", "slow/a\u{e9}", "slow/"] {
            let created = datasets.create(name, None);
            assert!(matches!(created, Err(DatasetError::BadName { .. })), "{name}");
        }
        assert!(matches!(
            datasets.destroy("slow/mail", false),
            Err(DatasetError::HasChildren { .. })
        ));
        assert!(matches!(datasets.destroy("slow", true), Err(DatasetError::IsPool { .. })));
        assert!(matches!(
            datasets.set("slow/y", "prefetch", "all"),
            Err(DatasetError::Unknown { .. })
        ));
        assert!(datasets.set("slow", "prefetch", "some").is_err());
    }
}
