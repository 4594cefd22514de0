mod tree;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};

use crate::memory::Memory;
use crate::property::{PROPERTIES, Properties, Property, PropertyError};
use crate::share::{self, ShareError};
pub use tree::DatasetTree;

/// A subtree of a pool's origin with properties of its own.
///
/// ```
/// let datasets = warmfront::Datasets::new("tank")?;
/// let dataset = datasets.of_path("".as_ref());
/// assert_eq!((dataset.name(), dataset.properties().recordsize), ("tank", 128 << 10));
/// # Ok::<(), warmfront::DatasetError>(())
/// ```
#[derive(Debug)]
pub struct Dataset {
    /// Given when it is first asked for: most trees are only looked at, and ids are few.
    id: OnceLock<u32>,
    name: String,
    path: PathBuf,
    effective: ArcSwap<Properties>,
}

/// Where a property's value comes from.
///
/// ```
/// use warmfront::{Datasets, Source};
///
/// let datasets = Datasets::new("tank")?;
/// datasets.create("tank/mail", None)?;
/// datasets.set("tank", "recordsize", "16K")?;
/// let rows = datasets.get("tank/mail")?;
/// let recordsize = rows.iter().find(|row| row.property == "recordsize");
/// let source = recordsize.map(|row| &row.source);
/// assert_eq!(source, Some(&Source::Inherited("tank".to_string())));
/// # Ok::<(), warmfront::DatasetError>(())
/// ```
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
///
/// ```
/// let datasets = warmfront::Datasets::new("tank")?;
/// for row in datasets.get("tank")? {
///     println!("{} {} ({:?})", row.property, row.value, row.source);
/// }
/// # Ok::<(), warmfront::DatasetError>(())
/// ```
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
    /// What is to be said of it, as that less is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Why the tree of datasets was not changed.
///
/// ```
/// let datasets = warmfront::Datasets::new("tank")?;
/// let unknown = datasets.set("tank/mail", "recordsize", "16K").unwrap_err();
/// assert!(matches!(unknown, warmfront::DatasetError::Unknown { .. }));
/// # Ok::<(), warmfront::DatasetError>(())
/// ```
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
    /// A share of the ARC cannot be given.
    #[error(transparent)]
    Share(#[from] ShareError),
}

/// The tree of datasets of one pool.
///
/// Names form one tree, from which properties are inherited: `pool`, `pool/mail`,
/// `pool/mail/archive`. Paths form another, which decides to which dataset a file belongs: the one
/// with the longest path above it. Mostly the two agree, as a dataset's path is its name unless
/// another one is given.
///
/// ```
/// use std::path::Path;
///
/// use warmfront::Datasets;
///
/// let datasets = Datasets::new("tank")?;
/// datasets.create("tank/mail", None)?;
/// datasets.set("tank", "recordsize", "16K")?;
/// datasets.set("tank/mail", "primarycache", "metadata")?;
/// let mail = datasets.of_path(Path::new("mail/inbox"));
/// assert_eq!(mail.name(), "tank/mail");
/// assert_eq!(mail.properties().recordsize, 16 << 10, "it is inherited");
/// // A mistake is told with what is allowed.
/// let refused = datasets.set("tank", "recordsize", "5000").unwrap_err().to_string();
/// assert!(refused.contains("power of two"), "{refused}");
/// # Ok::<(), warmfront::DatasetError>(())
/// ```
#[derive(Debug)]
pub struct Datasets {
    state: RwLock<State>,
    epoch: AtomicU64,
    /// One edit at a time; nobody who only looks waits for it.
    edits: Mutex<()>,
    /// The ARC of which datasets have shares, and the pool's number in it.
    memory: OnceLock<(Arc<Memory>, u32)>,
}

#[derive(Debug)]
struct State {
    tree: DatasetTree,
    trie: Arc<Trie>,
}

#[derive(Debug, Default)]
struct Trie {
    dataset: Option<Arc<Dataset>>,
    children: BTreeMap<OsString, Arc<Trie>>,
}

/// A place in the tree of paths. Going down switches to another dataset where one begins.
///
/// ```
/// let datasets = warmfront::Datasets::new("tank")?;
/// datasets.create("tank/mail", None)?;
/// let inbox = datasets.root().child("mail".as_ref()).child("inbox".as_ref());
/// assert_eq!(inbox.dataset().name(), "tank/mail");
/// # Ok::<(), warmfront::DatasetError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DatasetCursor {
    dataset: Arc<Dataset>,
    trie: Option<Arc<Trie>>,
}

impl Dataset {
    fn new(name: String, path: PathBuf) -> Dataset {
        let effective = ArcSwap::from_pointee(Properties::default());
        Dataset { id: OnceLock::new(), name, path, effective }
    }

    /// A number unlike that of any other dataset in the process.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.create("tank/mail", None)?;
    /// let mail = datasets.of_path("mail".as_ref());
    /// assert_ne!(mail.id(), datasets.of_path("".as_ref()).id());
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn id(&self) -> u32 {
        *self.id.get_or_init(next_id)
    }

    /// The name, from the pool down.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.create("tank/mail", None)?;
    /// assert_eq!(datasets.of_path("mail/inbox".as_ref()).name(), "tank/mail");
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path, relative to the pool's top; empty for the pool's own dataset.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.create("tank/mail", Some("var/mail".as_ref()))?;
    /// let mail = datasets.of_path("var/mail/inbox".as_ref());
    /// assert_eq!(mail.path(), std::path::Path::new("var/mail"));
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The effective properties at this moment.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// let dataset = datasets.of_path("".as_ref());
    /// assert_eq!(dataset.properties().recordsize, 128 << 10);
    /// datasets.set("tank", "recordsize", "16K")?;
    /// assert_eq!(datasets.of_path("".as_ref()).properties().recordsize, 16 << 10);
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn properties(&self) -> Properties {
        **self.effective.load()
    }
}

/// A number that no dataset of the process has had.
pub(crate) fn next_id() -> u32 {
    static NEXT_ID: AtomicU32 = AtomicU32::new(0);
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

impl DatasetCursor {
    /// The dataset here.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// assert_eq!(datasets.root().dataset().name(), "tank");
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn dataset(&self) -> Arc<Dataset> {
        self.dataset.clone()
    }

    /// One name further down.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.create("tank/mail", None)?;
    /// let root = datasets.root();
    /// assert_eq!(root.child("mail".as_ref()).dataset().name(), "tank/mail");
    /// assert_eq!(root.child("other".as_ref()).dataset().name(), "tank");
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
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
    ///
    /// ```
    /// use warmfront::Datasets;
    ///
    /// assert!(Datasets::new("tank").is_ok());
    /// let error = Datasets::new("tank/mail").unwrap_err().to_string();
    /// assert!(error.contains("has no `/`"), "{error}");
    /// ```
    pub fn new(pool: &str) -> Result<Datasets, DatasetError> {
        Ok(Datasets {
            state: RwLock::new(State::of(DatasetTree::new(pool)?)),
            epoch: AtomicU64::new(0),
            edits: Mutex::default(),
            memory: OnceLock::new(),
        })
    }

    /// Changes whenever the answer to any question about the tree may have changed.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// let before = datasets.epoch();
    /// datasets.set("tank", "recordsize", "16K")?;
    /// // Whoever has kept an answer asks again.
    /// assert_ne!(datasets.epoch(), before);
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// The top of the tree of paths.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.create("tank/mail", None)?;
    /// let inbox = datasets.root().child("mail".as_ref()).child("inbox".as_ref());
    /// assert_eq!(inbox.dataset().name(), "tank/mail");
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn root(&self) -> DatasetCursor {
        self.state.read().root()
    }

    /// The dataset to which a path relative to the pool's top belongs.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.create("tank/mail", None)?;
    /// assert_eq!(datasets.of_path("mail/inbox".as_ref()).name(), "tank/mail");
    /// assert_eq!(datasets.of_path("other".as_ref()).name(), "tank");
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn of_path(&self, path: &Path) -> Arc<Dataset> {
        path.iter().fold(self.root(), |cursor, name| cursor.child(name)).dataset
    }

    /// All datasets, in the order of their names.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.create("tank/mail", None)?;
    /// let names: Vec<_> = datasets.list().iter().map(|it| it.name().to_string()).collect();
    /// assert_eq!(names, ["tank", "tank/mail"]);
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn list(&self) -> Vec<Arc<Dataset>> {
        self.state.read().tree.datasets().cloned().collect()
    }

    /// Makes any number of changes, all of them or nothing. What a new `arclimit` excludes is
    /// evicted before this returns.
    ///
    /// # Errors
    /// That of `edit`, or when the result asks for shares of the ARC that cannot be given.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// // Both, or neither.
    /// datasets.edit(|tree| {
    ///     tree.create("tank/mail", None)?;
    ///     tree.set("tank/mail", "recordsize", "16K")
    /// })?;
    /// assert_eq!(datasets.list().len(), 2);
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn edit(
        &self,
        edit: impl FnOnce(&mut DatasetTree) -> Result<(), DatasetError>,
    ) -> Result<(), DatasetError> {
        self.edit_and_save(edit, || Ok(()))
    }

    /// As [`edit`](Datasets::edit), and calls `save` once the changes have been checked, before
    /// any of them is made.
    ///
    /// # Errors
    /// As [`edit`](Datasets::edit), or that of `save`; then all is as it was.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// # use warmfront::DatasetError;
    /// // What cannot be saved is not in force either.
    /// let add = |tree: &mut warmfront::DatasetTree| tree.create("tank/mail", None);
    /// let save = || Err(DatasetError::Unknown { name: "the disk is full".to_string() });
    /// assert!(datasets.edit_and_save::<(), DatasetError>(add, save).is_err());
    /// assert_eq!(datasets.list().len(), 1);
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn edit_and_save<T, E: From<DatasetError>>(
        &self,
        edit: impl FnOnce(&mut DatasetTree) -> Result<(), DatasetError>,
        save: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let _one = self.edits.lock();
        let mut tree = self.state.read().tree.clone();
        edit(&mut tree)?;
        tree.check_flash().map_err(DatasetError::Share)?;
        let saved = match self.memory.get() {
            Some((memory, pool)) => {
                memory.divide(*pool, tree.sharers(), || save().map_err(Refusal::Saving))
            }
            None => share::check_alone(&tree.wanted())
                .map_err(Refusal::Share)
                .and_then(|()| save().map_err(Refusal::Saving)),
        };
        let saved = saved.map_err(|refusal| match refusal {
            Refusal::Share(error) => DatasetError::Share(error).into(),
            Refusal::Saving(error) => error,
        })?;
        *self.state.write() = State::of(tree);
        self.epoch.fetch_add(1, Ordering::Release);
        Ok(saved)
    }

    /// Takes the shares of the ARC that the datasets ask for, and from now on with each edit.
    ///
    /// # Errors
    /// When they cannot be given.
    pub(crate) fn join(&self, memory: &Arc<Memory>, pool: u32) -> Result<(), DatasetError> {
        let _one = self.edits.lock();
        let sharers = self.state.read().tree.sharers();
        memory.divide(pool, sharers, || Ok::<(), DatasetError>(()))?;
        self.memory.set((memory.clone(), pool)).expect("datasets belong to one pool");
        Ok(())
    }

    /// Makes a dataset. Its path is its name without the pool's unless `path` gives another.
    ///
    /// # Errors
    /// When the name or the path is wrong or taken, or the dataset above is missing.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.create("tank/mail", Some("var/mail".as_ref()))?;
    /// assert_eq!(datasets.of_path("var/mail/inbox".as_ref()).name(), "tank/mail");
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn create(&self, name: &str, path: Option<&Path>) -> Result<(), DatasetError> {
        self.edit(|tree| tree.create(name, path))
    }

    /// Removes a dataset, with those below it if `recursive`. Files are not touched.
    ///
    /// # Errors
    /// When there is none, or it has others below it.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.create("tank/mail", None)?;
    /// datasets.create("tank/mail/old", None)?;
    /// assert!(datasets.destroy("tank/mail", false).is_err(), "there is one below");
    /// datasets.destroy("tank/mail", true)?;
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn destroy(&self, name: &str, recursive: bool) -> Result<(), DatasetError> {
        self.edit(|tree| tree.destroy(name, recursive))
    }

    /// Sets a property on a dataset; those below inherit it, if it is one that is inherited.
    ///
    /// # Errors
    /// When there is no such dataset, property or value.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.set("tank", "prefetch", "none")?;
    /// let error = datasets.set("tank", "prefetch", "nnone").unwrap_err().to_string();
    /// assert!(error.contains("did you mean `none`"), "{error}");
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn set(&self, name: &str, property: &str, value: &str) -> Result<(), DatasetError> {
        self.edit(|tree| tree.set(name, property, value))
    }

    /// Takes a property off a dataset, and off those below it if `recursive`, so that it is
    /// inherited again.
    ///
    /// # Errors
    /// When there is no such dataset or property.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.create("tank/mail", None)?;
    /// datasets.set("tank/mail", "recordsize", "16K")?;
    /// datasets.inherit("tank/mail", "recordsize", false)?;
    /// assert!(datasets.local("tank/mail")?.is_empty());
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn inherit(&self, name: &str, property: &str, recursive: bool) -> Result<(), DatasetError> {
        self.edit(|tree| tree.inherit(name, property, recursive))
    }

    /// All properties of a dataset, each with its source.
    ///
    /// # Errors
    /// When there is no such dataset.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.set("tank", "recordsize", "16K")?;
    /// let rows = datasets.get("tank")?;
    /// let row = rows.iter().find(|row| row.property == "recordsize").expect("it is one of them");
    /// assert_eq!((row.value.as_str(), &row.source), ("16K", &warmfront::Source::Local));
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn get(&self, name: &str) -> Result<Vec<PropertyRow>, DatasetError> {
        let state = self.state.read();
        state.tree.check_known(name)?;
        let row = |property: &Property| {
            let (value, source) = state.tree.value(name, property);
            PropertyRow {
                name: name.to_string(),
                property: property.name.to_string(),
                value,
                source,
                note: None,
            }
        };
        Ok(PROPERTIES.iter().map(row).collect())
    }

    /// The settings made on a dataset itself.
    ///
    /// # Errors
    /// When there is no such dataset.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.set("tank", "recordsize", "16K")?;
    /// assert_eq!(datasets.local("tank")?["recordsize"], "16K");
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn local(&self, name: &str) -> Result<BTreeMap<&'static str, String>, DatasetError> {
        self.state.read().tree.local(name).cloned()
    }

    /// Recounts everything that is derived.
    ///
    /// # Errors
    /// What does not fit.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.create("tank/mail", None)?;
    /// datasets.set("tank", "recordsize", "16K")?;
    /// datasets.validate().expect("what is inherited follows from what is set");
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn validate(&self) -> Result<(), String> {
        let state = self.state.read();
        state.tree.validate()?;
        if let Some((memory, _)) = self.memory.get() {
            memory.validate_shares()?;
        }
        for dataset in state.tree.datasets() {
            let name = dataset.name();
            if dataset.properties() != state.tree.effective(name) {
                return Err(format!("{name} has not the properties that follow from the settings"));
            }
            let found = dataset.path.iter().fold(state.root(), |cursor, name| cursor.child(name));
            if !Arc::ptr_eq(&found.dataset, dataset) {
                return Err(format!("the path of {name} leads to {}", found.dataset.name));
            }
        }
        Ok(())
    }
}

impl Drop for Datasets {
    fn drop(&mut self) {
        if let Some((memory, pool)) = self.memory.get() {
            memory.undivide(*pool);
        }
    }
}

/// Why an edit was not made.
enum Refusal<E> {
    Share(ShareError),
    Saving(E),
}

impl<E> From<ShareError> for Refusal<E> {
    fn from(error: ShareError) -> Refusal<E> {
        Refusal::Share(error)
    }
}

impl State {
    /// What follows from a tree.
    fn of(tree: DatasetTree) -> State {
        let mut trie = Trie::default();
        for dataset in tree.datasets() {
            dataset.effective.store(Arc::new(tree.effective(dataset.name())));
            trie.insert(dataset.path.iter(), dataset.clone());
        }
        State { tree, trie: Arc::new(trie) }
    }

    fn root(&self) -> DatasetCursor {
        DatasetCursor { dataset: self.tree.top().clone(), trie: Some(self.trie.clone()) }
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
    fn no_more_flash_is_reserved_than_may_be_used() {
        let datasets = mail();
        datasets.set("slow/mail", "l2limit", "1G").expect("a limit");
        let refused = datasets.set("slow/mail", "l2reserve", "2G").map_err(|it| it.to_string());
        assert!(refused.is_err_and(|it| it.contains("lower l2reserve or raise l2limit")));
        datasets.set("slow/mail", "l2reserve", "1G").expect("as much as it may have");
        assert!(datasets.set("slow/mail", "l2limit", "512M").is_err());
        datasets.set("slow/mail", "l2limit", "50%").expect("more, or less, on some device");
        assert!(datasets.set("slow/mail", "l2reserve", "51%").is_err());
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
