//! A program that changes files at random.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::{
    Allocation, Caller, Clock, Kind, Node as NewNode, ObjectId, OpenMode, Random, RenameFlags,
    SetAttributes, Simulation, XattrMode,
};
use warmfront::{OpenFile, Pool};

use crate::machine::Settings;
use crate::model::Model;
use crate::world::{Key, Node, ROOT};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const FILE_BYTES_MAX: usize = 60_000;
/// Changes of a life at most.
const CHANGES_MAX: u64 = 120;
/// Keeps the size.
const KEEP_SIZE: u32 = 0x01;
/// Punches a hole, makes zeros or reserves space, as `fallocate(2)` has it.
const ALLOCATIONS: [u32; 5] = [0x02 | KEEP_SIZE, 0x10, 0x10 | KEEP_SIZE, 0, KEEP_SIZE];

/// How far a writer is.
#[derive(Debug, Default)]
pub struct Progress {
    changes: AtomicU64,
    syncs: AtomicU64,
    next_key: AtomicU32,
    is_done: AtomicBool,
}

impl Progress {
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    pub fn next_key(&self) -> Key {
        self.next_key.load(Ordering::Relaxed)
    }

    pub fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }
}

/// Changes things through a pool, one after the other.
pub struct Writer {
    pool: Arc<Pool>,
    simulation: Simulation,
    settings: Settings,
    model: Arc<Mutex<Model>>,
    random: Random,
    progress: Arc<Progress>,
    objects: BTreeMap<Key, ObjectId>,
    files: BTreeMap<Key, Arc<OpenFile>>,
}

impl Writer {
    pub fn new(
        pool: Arc<Pool>,
        simulation: Simulation,
        settings: Settings,
        model: Arc<Mutex<Model>>,
        seed: u64,
        next_key: Key,
    ) -> Writer {
        let progress = Progress { next_key: AtomicU32::new(next_key), ..Progress::default() };
        let objects = BTreeMap::from([(ROOT, pool.root())]);
        Writer {
            pool,
            simulation,
            settings,
            model,
            random: Random::new(seed),
            progress: Arc::new(progress),
            objects,
            files: BTreeMap::new(),
        }
    }

    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    pub async fn run(mut self) {
        for _ in 0..CHANGES_MAX {
            self.step().await;
            self.progress.changes.fetch_add(1, Ordering::Relaxed);
            if self.settings.is_always_synced() {
                let moment = self.model.lock().moment();
                self.model.lock().names_last(moment);
            }
        }
        self.progress.is_done.store(true, Ordering::Relaxed);
    }

    fn pick(&mut self, kind: Kind) -> Option<Key> {
        let model = self.model.lock();
        let now = model.now().iter().filter(|(_, node)| node.kind == kind);
        let keys: Vec<Key> = now.map(|(key, _)| *key).collect();
        (!keys.is_empty()).then(|| keys[self.random.below(keys.len() as u64) as usize])
    }

    fn directory(&mut self) -> Key {
        match self.random.below(2) {
            0 => ROOT,
            _ => self.pick(Kind::Directory).unwrap_or(ROOT),
        }
    }

    /// What has a name, if anything.
    fn named(&self, parent: Key, name: &str) -> Option<Key> {
        let model = self.model.lock();
        let place = (parent, name.to_string());
        model.now().iter().find(|(_, node)| node.names.contains(&place)).map(|(key, _)| *key)
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.random.below(NAMES.len() as u64) as usize]
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let byte = 1 + self.random.below(255) as u8;
        (0..length).map(|at| byte ^ (at / 512) as u8 | 1).collect()
    }

    /// The object behind a key, looked up on its way from the top.
    async fn object(&mut self, key: Key) -> ObjectId {
        if let Some(object) = self.objects.get(&key) {
            return *object;
        }
        let place = self.model.lock().node(key).names.first().cloned();
        let (parent, name) = place.expect("what is there has a name");
        let directory = Box::pin(self.object(parent)).await;
        let found = self.pool.lookup(directory, OsStr::new(&name)).await.expect("it is there");
        self.objects.insert(key, found.object);
        found.object
    }

    async fn file(&mut self, key: Key) -> Arc<OpenFile> {
        if let Some(file) = self.files.get(&key) {
            return file.clone();
        }
        let object = self.object(key).await;
        let sync = self.random.below(8) == 0;
        let mode = OpenMode { read: true, write: true, sync, ..OpenMode::default() };
        let file = match self.pool.open_file(object, mode).await {
            Err(error) if error.is_stale() => {
                // The name by which it was found is gone; it has another one.
                self.pool.distrust_path(object);
                self.objects.remove(&key);
                let object = self.object(key).await;
                self.pool.open_file(object, mode).await.expect("it opens")
            }
            opened => opened.expect("it opens"),
        };
        if !sync {
            self.files.insert(key, file.clone());
        }
        file
    }

    fn is_below(&self, key: Key, above: Key) -> bool {
        let model = self.model.lock();
        let mut current = key;
        while current != above {
            match model.now().get(&current).and_then(|node| node.names.first()) {
                Some((parent, _)) => current = *parent,
                None => return false,
            }
        }
        true
    }

    async fn step(&mut self) {
        match self.random.below(24) {
            0..=2 => self.create().await,
            3 => self.make_directory().await,
            4..=10 => self.write().await,
            // These wait for the origin, and would be refused as well.
            11 | 18 if self.settings.origin_refuses => self.write().await,
            11 => self.truncate().await,
            12..=14 => self.sync().await,
            15 => self.rename().await,
            16 => self.unlink().await,
            17 => self.attributes().await,
            18 => self.allocate().await,
            19 => self.read().await,
            20 => self.link().await,
            21 => {
                let keys: Vec<Key> = self.files.keys().copied().collect();
                if let Some(key) = keys.first()
                    && let Some(file) = self.files.remove(key)
                {
                    let closed = file.close().await;
                    assert!(closed.is_ok() || self.settings.origin_refuses, "{closed:?}");
                }
            }
            22 if self.random.below(4) == 0 => {
                let moment = self.model.lock().moment();
                let synced = self.pool.sync().await;
                assert!(synced.is_ok() || self.settings.origin_refuses, "{synced:?}");
                if synced.is_ok() {
                    self.model.lock().all_last(moment);
                }
            }
            _ => {
                let pause = Duration::from_millis(self.random.below(3000));
                self.simulation.sleep(pause).await;
            }
        }
    }

    /// Notes an object that is about to be made: its key, its directory and its name. `None` where
    /// the name is taken.
    async fn announce(
        &mut self,
        kind: Kind,
        permissions: u32,
    ) -> Option<(Key, ObjectId, &'static str)> {
        let (parent, name) = (self.directory(), self.name());
        if self.named(parent, name).is_some() {
            return None;
        }
        let key = self.progress.next_key.fetch_add(1, Ordering::Relaxed);
        let directory = self.object(parent).await;
        self.model.lock().change(|world| {
            world.insert(key, node(kind, parent, name, permissions));
        });
        Some((key, directory, name))
    }

    async fn create(&mut self) {
        if let Some((key, parent, name)) = self.announce(Kind::File, 0o644).await {
            let caller = Caller { uid: key, gid: 0, umask: 0 };
            let new = NewNode { parent, name: name.as_ref(), permissions: 0o644, caller };
            let mode = OpenMode { read: true, write: true, ..OpenMode::default() };
            let (found, file) = self.pool.create_file(new, mode).await.expect("it is free");
            self.objects.insert(key, found.object);
            self.files.insert(key, file);
        }
    }

    async fn make_directory(&mut self) {
        if let Some((key, parent, name)) = self.announce(Kind::Directory, 0o755).await {
            let caller = Caller { uid: key, gid: 0, umask: 0 };
            let new = NewNode { parent, name: name.as_ref(), permissions: 0o755, caller };
            let found = self.pool.make_directory(new).await.expect("it is free");
            self.objects.insert(key, found.object);
        }
    }

    fn set_contents(&self, key: Key, change: impl FnOnce(&mut Vec<u8>)) {
        self.model.lock().change(|world| {
            let node = world.get_mut(&key).expect("it is there");
            let mut contents = (*node.contents).clone();
            change(&mut contents);
            node.contents = Arc::new(contents);
        });
    }

    async fn write(&mut self) {
        let Some(key) = self.pick(Kind::File) else { return };
        let file = self.file(key).await;
        let is_sync = !self.files.contains_key(&key);
        let size = self.model.lock().node(key).contents.len();
        let length = 1 + self.random.below(12_000) as usize;
        let data = self.bytes(length);
        let offset = match self.random.below(4) {
            0 => None,
            1 => Some((size + self.random.below(9000) as usize).min(FILE_BYTES_MAX)),
            _ => Some(self.random.below(size as u64 + 1) as usize),
        };
        let at = offset.unwrap_or(size);
        if at + length > 2 * FILE_BYTES_MAX {
            return;
        }
        self.set_contents(key, |contents| {
            contents.resize(contents.len().max(at + length), 0);
            contents[at..at + length].copy_from_slice(&data);
        });
        let written = match offset {
            Some(offset) => file.write(offset as u64, &data).await,
            None => file.append(&data).await.map(|at| assert_eq!(at, size as u64)),
        };
        // What cannot be made to last at once is taken nevertheless.
        assert!(written.is_ok() || self.settings.origin_refuses, "{written:?}");
        if written.is_err() {
            return;
        }
        if is_sync || self.settings.is_always_synced() {
            let mut model = self.model.lock();
            let moment = model.moment();
            model.contents_last(key, moment);
        }
    }

    async fn truncate(&mut self) {
        let Some(key) = self.pick(Kind::File) else { return };
        let file = self.file(key).await;
        let size = self.random.below(FILE_BYTES_MAX as u64);
        self.set_contents(key, |contents| contents.resize(size as usize, 0));
        let change = SetAttributes { size: Some(size), ..SetAttributes::default() };
        let object = file.object();
        self.pool.set_attributes(object, Some(&file), change).await.expect("memory takes it");
    }

    async fn allocate(&mut self) {
        let Some(key) = self.pick(Kind::File) else { return };
        let file = self.file(key).await;
        let (offset, length) = (self.random.below(50_000), 1 + self.random.below(20_000));
        let mode = ALLOCATIONS[self.random.below(ALLOCATIONS.len() as u64) as usize];
        self.set_contents(key, |contents| {
            let end = contents.len().min((offset + length) as usize);
            let start = end.min(offset as usize);
            if mode & !KEEP_SIZE != 0 {
                contents[start..end].fill(0);
            }
            if mode & KEEP_SIZE == 0 {
                contents.resize(contents.len().max((offset + length) as usize), 0);
            }
        });
        let allocation = Allocation { mode, offset, length };
        file.allocate(allocation).await.expect("memory takes it");
    }

    async fn read(&mut self) {
        let Some(key) = self.pick(Kind::File) else { return };
        let file = self.file(key).await;
        let contents = self.model.lock().node(key).contents.clone();
        let offset = self.random.below(contents.len() as u64 + 1);
        let length = 1 + self.random.below(30_000) as usize;
        let read = file.read(offset, length).await.expect("memory gives it");
        let end = contents.len().min(offset as usize + length);
        assert!(read.to_vec() == contents[offset as usize..end], "{key} at {offset}");
        let known = self.pool.attributes(file.object(), Some(&file)).await.expect("known");
        assert_eq!(known.attributes.size, contents.len() as u64);
    }

    async fn sync(&mut self) {
        let Some(key) = self.pick(Kind::File) else { return };
        let file = self.file(key).await;
        let moment = self.model.lock().moment();
        let data_only = self.random.below(2) == 0;
        let synced = file.sync(data_only).await;
        assert!(synced.is_ok() || self.settings.origin_refuses, "{synced:?}");
        if synced.is_err() {
            return;
        }
        let mut model = self.model.lock();
        model.contents_last(key, moment);
        if self.settings.has_log && !self.pool.has_lost_log() {
            model.names_last(moment);
        }
        self.progress.syncs.fetch_add(1, Ordering::Relaxed);
    }

    async fn rename(&mut self) {
        let Some(key) = self.pick(Kind::File) else { return };
        let place = self.model.lock().node(key).names.first().cloned();
        let Some((parent, name)) = place else { return };
        let (to, new_name) = (self.directory(), self.name());
        let over = self.named(to, new_name);
        let is_file = |over: Key| self.model.lock().node(over).kind == Kind::File && over != key;
        if self.is_below(to, key) || over.is_some_and(|over| !is_file(over)) {
            return;
        }
        let (from_object, to_object) = (self.object(parent).await, self.object(to).await);
        self.model.lock().change(|world| {
            if let Some(over) = over {
                remove_name(world, over, to, new_name);
            }
            let names = &mut world.get_mut(&key).expect("it is there").names;
            names.remove(&(parent, name.clone()));
            names.insert((to, new_name.to_string()));
        });
        self.let_go();
        let (name, new_name) = (OsStr::new(&name), OsStr::new(new_name));
        let flags = RenameFlags::empty();
        let moved = self.pool.rename(from_object, name, to_object, new_name, flags).await;
        moved.expect("both are there");
    }

    async fn link(&mut self) {
        let Some(key) = self.pick(Kind::File) else { return };
        let (to, name) = (self.directory(), self.name());
        if self.named(to, name).is_some() {
            return;
        }
        let (object, directory) = (self.object(key).await, self.object(to).await);
        self.model.lock().change(|world| {
            let names = &mut world.get_mut(&key).expect("it is there").names;
            names.insert((to, name.to_string()));
        });
        self.pool.link(object, directory, OsStr::new(name)).await.expect("it is free");
    }

    async fn unlink(&mut self) {
        let Some(key) = self.pick(Kind::File) else { return };
        let place = self.model.lock().node(key).names.first().cloned();
        let Some((parent, name)) = place else { return };
        let directory = self.object(parent).await;
        self.model.lock().change(|world| remove_name(world, key, parent, &name));
        if self.random.below(2) == 0 {
            self.let_go();
        }
        self.pool.unlink(directory, OsStr::new(&name)).await.expect("it is there");
        self.let_go();
    }

    /// Closes what has no name any more.
    fn let_go(&mut self) {
        let model = self.model.lock();
        self.files.retain(|key, _| model.now().contains_key(key));
        self.objects.retain(|key, _| *key == ROOT || model.now().contains_key(key));
    }

    async fn attributes(&mut self) {
        let Some(key) = self.pick(Kind::File) else { return };
        let object = self.object(key).await;
        if self.random.below(2) == 0 {
            let permissions = 0o600 | self.random.below(0o200) as u32;
            self.model.lock().change(|world| {
                world.get_mut(&key).expect("it is there").permissions = permissions;
            });
            let change =
                SetAttributes { permissions: Some(permissions), ..SetAttributes::default() };
            let set = self.pool.set_attributes(object, None, change).await;
            assert!(set.is_ok() || self.settings.origin_refuses, "{set:?}");
        } else {
            let value = self.bytes(20);
            self.model.lock().change(|world| {
                let xattrs = &mut world.get_mut(&key).expect("it is there").xattrs;
                xattrs.insert("user.mark".to_string(), value.clone());
            });
            let name = OsStr::new("user.mark");
            let set = self.pool.set_xattr(object, name, &value, XattrMode::Any).await;
            assert!(set.is_ok() || self.settings.origin_refuses, "{set:?}");
        }
    }
}

fn node(kind: Kind, parent: Key, name: &str, permissions: u32) -> Node {
    Node {
        kind,
        names: [(parent, name.to_string())].into(),
        permissions,
        xattrs: BTreeMap::new(),
        contents: Arc::default(),
        target: Default::default(),
    }
}

fn remove_name(world: &mut crate::world::World, key: Key, parent: Key, name: &str) {
    let node = world.get_mut(&key).expect("it is there");
    node.names.remove(&(parent, name.to_string()));
    if node.names.is_empty() {
        world.remove(&key);
    }
}
