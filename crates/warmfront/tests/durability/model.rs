//! What the files are expected to be.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::world::{Key, Node, World};

/// What a file was from each moment on.
type Versions = Vec<(usize, Arc<Vec<u8>>)>;

/// All that was done, by moments, and what of it was promised to last.
#[derive(Debug, Default)]
pub struct Model {
    /// The world after each change, also after one that is under way.
    worlds: Vec<World>,
    contents: BTreeMap<Key, Versions>,
    /// Names and attributes of this moment last.
    names_last: usize,
    /// And the contents that each file had at this one.
    contents_last: BTreeMap<Key, usize>,
}

impl Model {
    /// A model of what is there, all of which lasts.
    pub fn of(world: World) -> Model {
        let mut model = Model { worlds: vec![World::new()], ..Model::default() };
        model.change(|now| *now = world);
        model.all_last(model.moment());
        model
    }

    /// The present moment.
    pub fn moment(&self) -> usize {
        self.worlds.len() - 1
    }

    pub fn now(&self) -> &World {
        self.worlds.last().expect("there is always one")
    }

    pub fn node(&self, key: Key) -> &Node {
        &self.now()[&key]
    }

    /// Makes a change, which may happen from here on.
    pub fn change(&mut self, change: impl FnOnce(&mut World)) {
        let mut world = self.now().clone();
        change(&mut world);
        let moment = self.worlds.len();
        for (key, node) in &world {
            let versions = self.contents.entry(*key).or_default();
            if versions.last().is_none_or(|(_, contents)| !Arc::ptr_eq(contents, &node.contents)) {
                versions.push((moment, node.contents.clone()));
            }
        }
        self.worlds.push(world);
    }

    /// What a file held at a moment lasts from here on.
    pub fn contents_last(&mut self, key: Key, moment: usize) {
        self.contents_last.insert(key, moment);
    }

    /// Names and attributes of a moment last from here on.
    pub fn names_last(&mut self, moment: usize) {
        self.names_last = self.names_last.max(moment);
    }

    /// Everything of a moment lasts.
    pub fn all_last(&mut self, moment: usize) {
        self.names_last(moment);
        let keys: Vec<Key> = self.contents.keys().copied().collect();
        keys.into_iter().for_each(|key| self.contents_last(key, moment));
    }

    /// The worlds of which any may be there: from the last one on that was promised.
    pub fn worlds(&self) -> &[World] {
        &self.worlds[self.names_last..]
    }

    /// What each file may hold.
    pub fn promised(&self) -> BTreeMap<Key, Vec<Arc<Vec<u8>>>> {
        let versions = |(key, all): (&Key, &Versions)| {
            let from = self.contents_last.get(key).copied().unwrap_or(0);
            let first = all.iter().rposition(|(moment, _)| *moment <= from).unwrap_or(0);
            (*key, all[first..].iter().map(|(_, contents)| contents.clone()).collect())
        };
        self.contents.iter().map(versions).collect()
    }
}
