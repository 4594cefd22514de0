use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::datasets::{Dataset, DatasetError, Source};
use crate::property::{PROPERTIES, Properties, Property};
use crate::share::{ShareError, Sharer, Wanted, check_flash};

/// Longest name of a dataset in bytes, as in ZFS.
const NAME_BYTES_MAX: usize = 255;

/// The datasets of a pool by name, with what is set on each: what an
/// [`edit`](crate::Datasets::edit) changes.
///
/// ```
/// let datasets = warmfront::Datasets::new("tank")?;
/// datasets.edit(|tree| {
///     tree.create("tank/mail", None)?;
///     tree.set("tank/mail", "recordsize", "16K")?;
///     tree.inherit("tank/mail", "recordsize", false)?;
///     tree.destroy("tank/mail", false)
/// })?;
/// assert_eq!(datasets.list().len(), 1);
/// # Ok::<(), warmfront::DatasetError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DatasetTree {
    pool: String,
    by_name: BTreeMap<String, Node>,
}

#[derive(Debug, Clone)]
struct Node {
    dataset: Arc<Dataset>,
    local: BTreeMap<&'static str, String>,
}

impl DatasetTree {
    /// A pool with its own dataset only.
    pub(super) fn new(pool: &str) -> Result<DatasetTree, DatasetError> {
        check_name(pool)?;
        if pool.contains('/') {
            let reason = "the name of a pool has no `/`";
            return Err(DatasetError::BadName { name: pool.to_string(), reason });
        }
        let node = Node::new(pool.to_string(), PathBuf::new());
        let by_name = BTreeMap::from([(pool.to_string(), node)]);
        Ok(DatasetTree { pool: pool.to_string(), by_name })
    }

    /// Makes a dataset. Its path is its name without the pool's unless `path` gives another.
    ///
    /// # Errors
    /// When the name or the path is wrong or taken, or the dataset above is missing.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.edit(|tree| {
    ///     tree.create("tank/mail", None)?;
    ///     tree.create("tank/mail/archive", Some("old/mail".as_ref()))
    /// })?;
    /// assert_eq!(datasets.of_path("old/mail/2009".as_ref()).name(), "tank/mail/archive");
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn create(&mut self, name: &str, path: Option<&Path>) -> Result<(), DatasetError> {
        check_name(name)?;
        let (parent, last) = name.rsplit_once('/').ok_or_else(|| {
            let reason = "it has to begin with the pool's name and a `/`";
            DatasetError::BadName { name: name.to_string(), reason }
        })?;
        if self.by_name.contains_key(name) {
            return Err(DatasetError::Exists { name: name.to_string() });
        }
        let above = self.by_name.get(parent).ok_or_else(|| DatasetError::NoParent {
            name: name.to_string(),
            parent: parent.to_string(),
        })?;
        let path = match path {
            Some(path) => check_path(path)?,
            None => above.dataset.path.join(last),
        };
        if let Some(node) = self.by_name.values().find(|node| node.dataset.path == path) {
            return Err(DatasetError::PathTaken { path, name: node.dataset.name.clone() });
        }
        self.by_name.insert(name.to_string(), Node::new(name.to_string(), path));
        Ok(())
    }

    /// Removes a dataset, with those below it if `recursive`. Files are not touched.
    ///
    /// # Errors
    /// When there is none, or it has others below it.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.create("tank/mail", None)?;
    /// // One takes the place of the other: at no moment there are both, or none.
    /// datasets.edit(|tree| {
    ///     tree.destroy("tank/mail", false)?;
    ///     tree.create("tank/post", Some("mail".as_ref()))
    /// })?;
    /// assert_eq!(datasets.of_path("mail".as_ref()).name(), "tank/post");
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn destroy(&mut self, name: &str, recursive: bool) -> Result<(), DatasetError> {
        self.check_known(name)?;
        if name == self.pool {
            return Err(DatasetError::IsPool { name: name.to_string() });
        }
        let below = format!("{name}/");
        if !recursive && self.by_name.keys().any(|other| other.starts_with(&below)) {
            return Err(DatasetError::HasChildren { name: name.to_string() });
        }
        self.by_name.retain(|other, _| other != name && !other.starts_with(&below));
        Ok(())
    }

    /// Sets a property on a dataset.
    ///
    /// # Errors
    /// When there is no such dataset, property or value.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.edit(|tree| {
    ///     tree.set("tank", "recordsize", "16K")?;
    ///     tree.set("tank", "prefetch", "none")
    /// })?;
    /// assert_eq!(datasets.local("tank")?.len(), 2);
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn set(&mut self, name: &str, property: &str, value: &str) -> Result<(), DatasetError> {
        let property = Property::by_name(property)?;
        let mut parsed = Properties::default();
        property.apply(value, &mut parsed)?;
        self.node_mut(name)?.local.insert(property.name, property.show(&parsed));
        Ok(())
    }

    /// Takes a property off a dataset, and off those below it if `recursive`.
    ///
    /// # Errors
    /// When there is no such dataset or property.
    ///
    /// ```
    /// let datasets = warmfront::Datasets::new("tank")?;
    /// datasets.set("tank", "recordsize", "16K")?;
    /// datasets.edit(|tree| tree.inherit("tank", "recordsize", false))?;
    /// assert!(datasets.local("tank")?.is_empty());
    /// # Ok::<(), warmfront::DatasetError>(())
    /// ```
    pub fn inherit(
        &mut self,
        name: &str,
        property: &str,
        recursive: bool,
    ) -> Result<(), DatasetError> {
        let property = Property::by_name(property)?;
        self.node_mut(name)?.local.remove(property.name);
        let below = format!("{name}/");
        if recursive {
            for (other, node) in &mut self.by_name {
                if other.starts_with(&below) {
                    node.local.remove(property.name);
                }
            }
        }
        Ok(())
    }

    /// All datasets, in the order of their names.
    pub(super) fn datasets(&self) -> impl Iterator<Item = &Arc<Dataset>> {
        self.by_name.values().map(|node| &node.dataset)
    }

    /// The pool's own dataset.
    pub(super) fn top(&self) -> &Arc<Dataset> {
        &self.by_name[&self.pool].dataset
    }

    pub(super) fn check_known(&self, name: &str) -> Result<(), DatasetError> {
        self.local(name).map(|_| ())
    }

    /// The settings made on a dataset itself.
    pub(super) fn local(
        &self,
        name: &str,
    ) -> Result<&BTreeMap<&'static str, String>, DatasetError> {
        let node = self.by_name.get(name);
        node.map(|node| &node.local).ok_or_else(|| unknown(name))
    }

    /// Value and source of a property: the dataset's own setting, or the nearest one upwards of a
    /// property that is inherited.
    pub(super) fn value(&self, name: &str, property: &Property) -> (String, Source) {
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
            above = parent(current).filter(|_| property.inherited);
        }
        (property.default.to_string(), Source::Default)
    }

    pub(super) fn effective(&self, name: &str) -> Properties {
        let mut properties = Properties::default();
        for property in PROPERTIES {
            let (value, _) = self.value(name, property);
            property.apply(&value, &mut properties).expect("settings are checked when made");
        }
        properties
    }

    /// Whether what datasets reserve on flash makes sense.
    pub(super) fn check_flash(&self) -> Result<(), ShareError> {
        self.by_name.keys().try_for_each(|name| check_flash(name, &self.effective(name)))
    }

    /// The datasets that ask for a share of the ARC, without those that use it.
    pub(super) fn wanted(&self) -> Vec<Sharer> {
        let wanted = |name: &str| Wanted::of(&self.effective(name));
        let above = |name: &str| parent(name).map_or(Wanted::default(), wanted);
        let sharers = self.by_name.keys().map(|name| (name, wanted(name)));
        let sharers = sharers.filter(|(name, wanted)| wanted.is_share(above(name).policy));
        let sharer = |(name, wanted): (&String, _)| Sharer {
            name: name.clone(),
            wanted,
            members: Vec::new(),
        };
        sharers.map(sharer).collect()
    }

    /// The datasets that ask for a share of the ARC, each with itself and those below it that ask
    /// for none.
    pub(super) fn sharers(&self) -> Vec<Sharer> {
        let mut sharers = self.wanted();
        let index = |name: &str| sharers.iter().position(|sharer| sharer.name == name);
        let mut members = vec![Vec::new(); sharers.len()];
        for (name, node) in &self.by_name {
            let nearest = std::iter::successors(Some(&**name), |name| parent(name)).find_map(index);
            if let Some(nearest) = nearest {
                members[nearest].push(node.dataset.id());
            }
        }
        for (sharer, members) in sharers.iter_mut().zip(members) {
            sharer.members = members;
        }
        sharers
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        match self.by_name.iter().find(|(name, node)| **name != node.dataset.name) {
            Some((name, node)) => Err(format!("{name} is listed for {}", node.dataset.name)),
            None => Ok(()),
        }
    }

    fn node_mut(&mut self, name: &str) -> Result<&mut Node, DatasetError> {
        self.by_name.get_mut(name).ok_or_else(|| unknown(name))
    }
}

impl Node {
    fn new(name: String, path: PathBuf) -> Node {
        Node { dataset: Arc::new(Dataset::new(name, path)), local: BTreeMap::new() }
    }
}

fn unknown(name: &str) -> DatasetError {
    DatasetError::Unknown { name: name.to_string() }
}

/// The name one level up.
fn parent(name: &str) -> Option<&str> {
    name.rsplit_once('/').map(|(parent, _)| parent)
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
