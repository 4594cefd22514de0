use std::sync::Arc;

use parking_lot::Mutex;

use super::MemoryOrigin;
use super::history::Store;

/// Makes origins in memory that can tell what a crash could leave of them. For tests.
///
/// As on a journaling file system, names and attributes last in the order in which they were
/// changed: a crash takes the changes from some point on. What was written is lost, there or torn,
/// write by write and whatever was written later, and a file may have grown without it. A file's
/// sync makes the file last, with all names and attributes that were changed before its own; that
/// of a directory all names; that of the origin everything.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::CrashOrigin;
///
/// let (crashing, crashes) = CrashOrigin::new(&origin);
/// let root = crashing.root().await?.object;
/// crashing.unlink(root, "file".as_ref()).await?;
/// crashing.sync().await?;
/// // It lasts, so that no crash brings it back.
/// for seed in 0..20 {
///     assert!(crashes.crash(seed).list(root).await?.is_empty());
/// }
/// # Ok(()) }) }
/// ```
#[derive(Debug)]
pub struct CrashOrigin;

impl CrashOrigin {
    /// An origin that holds what `image` does, all of which lasts, and the record of its changes.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::CrashOrigin;
    ///
    /// let (crashing, crashes) = CrashOrigin::new(&origin);
    /// let root = crashing.root().await?.object;
    /// assert_eq!(crashing.list(root).await?.len(), 1, "it holds what the other does");
    /// # drop(crashes);
    /// # Ok(()) }) }
    /// ```
    #[expect(clippy::new_ret_no_self, reason = "the record comes with the origin")]
    pub fn new(image: &MemoryOrigin) -> (MemoryOrigin, OriginCrashes) {
        let origin = MemoryOrigin::of(Store::with_history(image.store.lock().kill()));
        let crashes = OriginCrashes { store: origin.store.clone() };
        (origin, crashes)
    }
}

/// The record of an origin made by [`CrashOrigin`]: outlives it.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
/// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
/// use storage::CrashOrigin;
///
/// let (crashing, crashes) = CrashOrigin::new(&origin);
/// let root = crashing.root().await?.object;
/// crashing.unlink(root, "file".as_ref()).await?;
/// // Nothing has made that last.
/// let is_back = |seed| block_on(crashes.crash(seed).list(root)).is_ok_and(|it| it.len() == 1);
/// assert!((0..64).any(is_back) && !(0..64).all(is_back));
/// # Ok(()) }) }
/// ```
#[derive(Debug)]
pub struct OriginCrashes {
    store: Arc<Mutex<Store>>,
}

impl OriginCrashes {
    /// How many changes and syncs there were until now: the moments between which nothing differs.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::CrashOrigin;
    ///
    /// let (crashing, crashes) = CrashOrigin::new(&origin);
    /// let root = crashing.root().await?.object;
    /// let before = crashes.events();
    /// crashing.unlink(root, "file".as_ref()).await?;
    /// assert_eq!(crashes.events(), before + 1);
    /// # Ok(()) }) }
    /// ```
    pub fn events(&self) -> u64 {
        self.store.lock().events()
    }

    /// What is left when the process is killed: everything that was done.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::CrashOrigin;
    ///
    /// let (crashing, crashes) = CrashOrigin::new(&origin);
    /// let root = crashing.root().await?.object;
    /// crashing.unlink(root, "file".as_ref()).await?;
    /// assert!(crashes.kill().list(root).await?.is_empty(), "the machine goes on");
    /// # Ok(()) }) }
    /// ```
    pub fn kill(&self) -> MemoryOrigin {
        MemoryOrigin::of(Store::new(self.store.lock().kill()))
    }

    /// One of the origins that a crash of the machine at this moment could leave, another one for
    /// each `seed`.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/example.rs"));
    /// # fn main() -> Result<(), Box<dyn Error>> { with_file(async |origin, created| {
    /// use storage::CrashOrigin;
    ///
    /// let (crashing, crashes) = CrashOrigin::new(&origin);
    /// let root = crashing.root().await?.object;
    /// crashing.sync().await?;
    /// assert_eq!(crashes.crash(1).list(root).await?.len(), 1);
    /// # Ok(()) }) }
    /// ```
    pub fn crash(&self, seed: u64) -> MemoryOrigin {
        MemoryOrigin::of(Store::new(self.store.lock().crash(seed)))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::io::IoSliceMut;

    use futures::executor::block_on;

    use super::*;
    use crate::{Caller, Node, ObjectId, OpenMode, Origin, OriginFile, SetAttributes};

    const MODE: OpenMode =
        OpenMode { read: true, write: true, truncate: false, direct: false, sync: false };

    fn create(origin: &MemoryOrigin, name: &str) -> Arc<dyn OriginFile> {
        let caller = Caller { uid: 1, gid: 1, umask: 0 };
        let parent = block_on(origin.root()).expect("memory").object;
        let node = Node { parent, name: OsStr::new(name), permissions: 0o644, caller };
        block_on(origin.create(node, MODE)).expect("it is made").file
    }

    /// The file's id and contents.
    fn find(origin: &MemoryOrigin, name: &str) -> Option<(ObjectId, Vec<u8>)> {
        let parent = block_on(origin.root()).expect("memory").object;
        let entry = block_on(origin.lookup(parent, OsStr::new(name))).ok()?;
        let file = block_on(origin.open(entry.object, MODE)).expect("it is there");
        let mut bytes = vec![0; entry.attributes.size as usize];
        block_on(file.read(0, &mut [IoSliceMut::new(&mut bytes)])).expect("memory");
        Some((entry.object, bytes))
    }

    fn images(crashes: &OriginCrashes) -> Vec<MemoryOrigin> {
        (0..300).map(|seed| crashes.crash(seed)).collect()
    }

    #[test]
    fn names_last_in_order_and_writes_in_none() {
        let (origin, crashes) = CrashOrigin::new(&MemoryOrigin::new());
        let (one, two) = (create(&origin, "one"), create(&origin, "two"));
        block_on(one.write(0, &[1; 8192])).expect("written");
        block_on(two.write(0, &[2; 100])).expect("written");
        let found: Vec<_> = images(&crashes)
            .iter()
            .map(|image| (find(image, "one"), find(image, "two")))
            .map(|(one, two)| (one.map(|(_, bytes)| bytes), two.map(|(_, bytes)| bytes)))
            .collect();
        let has = |one: Option<&[u8]>, two: Option<&[u8]>| {
            let wanted = (one.map(<[u8]>::to_vec), two.map(<[u8]>::to_vec));
            found.contains(&wanted)
        };
        assert!(has(None, None) && has(Some(&[]), None) && has(Some(&[]), Some(&[])));
        assert!(has(Some(&[1; 8192]), Some(&[2; 100])) && has(Some(&[]), Some(&[2; 100])));
        assert!(has(Some(&[0; 8192]), Some(&[0; 100])), "grown without the data");
        assert!(found.iter().all(|(one, two)| one.is_some() || two.is_none()), "in order");
        let torn = |bytes: &[u8]| bytes.len() == 8192 && bytes[0] == 0 && bytes[8191] == 1;
        assert!(found.iter().any(|(one, _)| one.as_deref().is_some_and(torn)));
        let events = crashes.events();
        block_on(two.sync(true)).expect("memory");
        assert!(crashes.events() > events);
        for image in images(&crashes) {
            assert!(find(&image, "one").is_some(), "made before what was made to last");
            assert_eq!(find(&image, "two").expect("it lasts").1, [2; 100]);
        }
        assert_eq!(find(&crashes.kill(), "one").expect("nothing is lost").1, [1; 8192]);
        block_on(origin.sync()).expect("memory");
        for image in images(&crashes) {
            assert_eq!(find(&image, "one").expect("it lasts").1, [1; 8192]);
        }
    }

    #[test]
    fn an_image_has_the_ids_and_births_of_what_it_was_taken_from() {
        for first in [MemoryOrigin::new(), MemoryOrigin::reusing_ids()] {
            let (origin, crashes) = CrashOrigin::new(&first);
            let root = block_on(origin.root()).expect("memory").object;
            for round in 0..20 {
                let name = format!("file{}", round % 3);
                let file = create(&origin, &name);
                block_on(file.write(0, &[round; 10])).expect("written");
                let change = SetAttributes { permissions: Some(0o600), ..Default::default() };
                block_on(file.set_attributes(change)).expect("memory");
                if round == 7 {
                    block_on(origin.sync()).expect("memory");
                }
                drop(file);
                let unlinked = format!("file{}", (round + 1) % 3);
                let _ = block_on(origin.unlink(root, OsStr::new(&unlinked)));
            }
            let attributes = |origin: &MemoryOrigin, name: &str| {
                let entry = block_on(origin.lookup(root, OsStr::new(name))).ok()?;
                Some((entry.object, entry.attributes))
            };
            let mut same = 0;
            for image in images(&crashes) {
                for name in ["file0", "file1", "file2"] {
                    let (now, then) = (attributes(&origin, name), attributes(&image, name));
                    if let (Some((now_id, now)), Some((then_id, then))) = (now, then)
                        && now.born == then.born
                    {
                        assert_eq!(now_id, then_id);
                        same += 1;
                    }
                }
                drop(create(&image, "new"));
                let (_, born) = attributes(&image, "new").expect("it was made");
                let (_, last) = attributes(&origin, "file1").expect("the last one");
                assert!(born.born > last.born, "time goes on");
            }
            assert!(same > 100, "{same}");
        }
    }
}
