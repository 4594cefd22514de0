use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use l2arc::{Admission, Compression, Refused};
use parking_lot::Mutex;
use storage::{Attributes, Kind, ObjectId};

use crate::error::Result;
use crate::key::{Key, Part};
use crate::object::Object;
use crate::pool::Pool;
use crate::version::Version;

/// Objects that wait for their aliases. What more objects would lose is their warmth at the next
/// start.
const OWED_MAX: usize = 1 << 14;
/// An object gets its alias once it has not been changed for so long.
const QUIET: Duration = Duration::from_secs(5);
/// Records of one object that are noted to be fed again.
const KILLED_MAX: usize = 4096;
/// A wait for a device that is busy, and how many there are for all objects of a round.
const PATIENCE: (Duration, u32) = (Duration::from_millis(1), 200);
/// Length of an alias on flash.
const ALIAS_BYTES: usize = 16;

/// The objects that were changed through the pool, and whose generation flash does not know yet.
///
/// Such a change keeps the generation while the validator changes, so that the generation cannot be
/// told from the validator alone any more. An alias on flash says which generation is in use while
/// the object has this validator. It is written when the object has been quiet and is durable at
/// the origin, and is killed, in a way that lasts, before the contents change again: so whenever an
/// alias is found, all that flash has of its generation belongs to its validator.
///
/// Objects that wait are kept in use, so that nothing of this is forgotten before it is written.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    owed: Mutex<HashMap<ObjectId, Owed>>,
}

/// An object that waits.
#[derive(Debug, Clone, Default)]
struct Owed {
    changed_at: Duration,
    /// Records that flash had before they changed, and should have again.
    killed: BTreeSet<u64>,
}

/// What became of an alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is on flash, or not needed any more.
    Done,
    /// Not now.
    Later,
    /// The device has too much to do.
    Busy,
}

impl Aliases {
    /// The objects that have been quiet for so long.
    fn quiet(&self, quiet: Duration, now: Duration) -> Vec<ObjectId> {
        let owed = self.owed.lock();
        let is_quiet = |owed: &Owed| now.saturating_sub(owed.changed_at) >= quiet;
        owed.iter().filter(|(_, owed)| is_quiet(owed)).map(|(object, _)| *object).collect()
    }
}

/// The key of the alias under a validator.
fn key(object: ObjectId, validator_hash: u64) -> l2arc::Key {
    Part::Alias.on_flash(object, validator_hash)
}

fn encode(version: &Version) -> [u8; ALIAS_BYTES] {
    let mut bytes = [0; ALIAS_BYTES];
    bytes[..8].copy_from_slice(&version.generation.to_le_bytes());
    bytes[8..].copy_from_slice(&version.record_bytes.to_le_bytes());
    bytes
}

/// The generation and its record size.
fn decode(bytes: &[u8]) -> Option<(u64, u64)> {
    let (generation, record_bytes) = bytes.split_first_chunk()?;
    let record_bytes = record_bytes.try_into().ok()?;
    Some((u64::from_le_bytes(*generation), u64::from_le_bytes(record_bytes)))
}

impl Pool {
    /// Notes that a change of ours ends the alias of an object, or makes it need one.
    pub(crate) fn owe_alias(&self, object: &Object) {
        if !self.flash.is_in_use() || object.attributes().kind != Kind::File {
            return;
        }
        let mut owed = self.flash.aliases.owed.lock();
        let now = self.now();
        if let Some(owed) = owed.get_mut(&object.id) {
            owed.changed_at = now;
        } else if owed.len() < OWED_MAX && self.objects.get_used(object.id).is_some() {
            owed.insert(object.id, Owed { changed_at: now, killed: BTreeSet::new() });
            self.memory.feeder.nudge();
        }
    }

    /// Notes which records of an object that waits flash had until now.
    pub(crate) fn owe_records(&self, object: ObjectId, numbers: impl Iterator<Item = u64>) {
        if let Some(owed) = self.flash.aliases.owed.lock().get_mut(&object) {
            let room = KILLED_MAX.saturating_sub(owed.killed.len());
            owed.killed.extend(numbers.take(room));
        }
    }

    /// Forgets that an object needs an alias; says which records flash should have again.
    pub(crate) fn owe_no_alias(&self, object: ObjectId) -> BTreeSet<u64> {
        if !self.flash.is_in_use() {
            return BTreeSet::new();
        }
        let owed = self.flash.aliases.owed.lock().remove(&object);
        owed.map_or_else(BTreeSet::new, |owed| {
            self.release(object, 1);
            owed.killed
        })
    }

    /// The aliases that flash may have of an object.
    pub(crate) fn aliases_of(
        object: ObjectId,
        version: &Version,
    ) -> impl Iterator<Item = l2arc::Key> {
        let present = version.validator_hash();
        let former = version.alias.filter(|former| *former != present);
        former.into_iter().chain([present]).map(move |validator| key(object, validator))
    }

    /// Whether objects wait that were quiet, some of which may not be durable yet.
    pub(crate) fn owes_aliases(&self) -> bool {
        !self.flash.aliases.quiet(QUIET, self.now()).is_empty()
    }

    /// Whether any objects wait.
    pub(crate) fn may_owe_aliases(&self) -> bool {
        !self.flash.aliases.quiet(Duration::ZERO, self.now()).is_empty()
    }

    /// Writes the aliases of the objects that were quiet and are durable; at the end, of all.
    pub(crate) async fn write_aliases(self: &Arc<Self>, at_the_end: bool) {
        if at_the_end {
            // Those that a device has overwritten are written once more.
            let aliased = |object: &&Arc<Object>| !object.version().follows_validator();
            let objects = self.objects.all();
            objects.iter().filter(aliased).for_each(|object| self.owe_alias(object));
        }
        let quiet = if at_the_end { Duration::ZERO } else { QUIET };
        let quiet = self.flash.aliases.quiet(quiet, self.now());
        if quiet.is_empty() {
            return;
        }
        if at_the_end && let Err(error) = self.sync().await {
            tracing::warn!(%error, "the origin cannot be synced; what has changed starts cold");
        }
        let mut patience = PATIENCE.1;
        for id in quiet {
            let outcome = loop {
                let outcome = self.write_alias(id).await;
                if outcome != Outcome::Busy || patience == 0 {
                    break outcome;
                }
                patience -= 1;
                self.clock.sleep(PATIENCE.0).await;
            };
            let Some(object) = self.objects.get(id).filter(|_| outcome == Outcome::Done) else {
                continue;
            };
            let generation = object.version().generation;
            for number in self.owe_no_alias(id) {
                self.feed_again(Key::record(self.number, id, generation, number)).await;
            }
        }
    }

    /// Writes the alias of an object, if one is needed and its time has come.
    async fn write_alias(&self, id: ObjectId) -> Outcome {
        let Some(object) = self.objects.get(id) else { return Outcome::Done };
        if !object.version().is_settled()
            && let Err(error) = self.check(&object, None).await
        {
            return match error.is_not_found() || error.is_stale() {
                true => Outcome::Done,
                false => Outcome::Later,
            };
        }
        // Whoever changes the object after this moment kills what was admitted until then.
        let stamp = self.flash.level.stamp(id.0);
        let version = object.version();
        if object.ranges.is_being_written(0..u64::MAX) || !version.is_settled() {
            return Outcome::Later;
        }
        if !self.flash.unsynced.is_durable(id, self.flash.unsynced.now()) {
            return Outcome::Later;
        }
        let present = version.validator_hash();
        let former = version.alias.filter(|former| *former != present);
        if let Some(former) = former {
            let killed = self.flash.level.kill(&[key(id, former)]).await;
            if self.flash.settle(killed).is_err() {
                return Outcome::Later;
            }
            object.update(|version| {
                version.alias = version.alias.filter(|alias| *alias != former);
            });
            // The kill has made the stamp old.
            return Outcome::Busy;
        }
        if version.attributes.links == 0 || version.follows_validator() {
            return Outcome::Done;
        }
        let admission = Admission {
            stamp,
            tenant: self.flash.numbers.of(self.tenant(&object).dataset.name()),
            metadata: true,
            touches: 2,
            compression: Compression::Off,
            limit_bytes: None,
            vital: true,
        };
        match self.flash.level.admit(&key(id, present), &encode(&version), &admission) {
            Ok(()) | Err(Refused::Present) => {
                object.update(|version| version.alias = Some(present));
                Outcome::Done
            }
            Err(Refused::Buffers | Refused::NoSegment | Refused::Killed) => Outcome::Busy,
            Err(_) => Outcome::Later,
        }
    }

    /// What is known of an object of which only the attributes are known: its generation may have
    /// an alias.
    pub(crate) async fn version_found(
        &self,
        object: ObjectId,
        attributes: Attributes,
        record_bytes: u64,
    ) -> Version {
        let mut version = Version::new(attributes, record_bytes, self.now());
        if let Some(generation) = self.read_alias(object, &version).await {
            version.generation = generation;
            version.alias = Some(version.validator_hash());
        }
        version
    }

    /// The generation that flash knows for a version that follows from its validator.
    async fn read_alias(&self, object: ObjectId, version: &Version) -> Option<u64> {
        if !self.flash.is_in_use() || version.attributes.kind != Kind::File {
            return None;
        }
        let key = key(object, version.validator_hash());
        if !self.flash.level.holds(&key) {
            return None;
        }
        let mut bytes = [0; ALIAS_BYTES];
        let length = self.flash.level.look_up(&key, &mut bytes, None).await.ok()?;
        let (generation, record_bytes) = decode(&bytes[..length])?;
        (record_bytes == version.record_bytes).then_some(generation)
    }

    /// Gives the objects that were found while the devices were still being read in the
    /// generations that flash knows for them.
    pub(crate) async fn adopt_aliases(&self) {
        for object in self.objects.all() {
            // A writer must not find another generation than the one whose records it has killed.
            let _all = object.ranges.exclusive(0..u64::MAX).await;
            let version = object.version();
            if version.alias.is_some() || !version.is_settled() || !version.follows_validator() {
                continue;
            }
            let Some(generation) = self.read_alias(object.id, &version).await else { continue };
            self.drop_generation(object.id, &version);
            object.update(|now| {
                if now.is_settled() && now.validator_hash() == version.validator_hash() {
                    now.generation = generation;
                    now.alias = Some(version.validator_hash());
                }
            });
        }
    }

    /// Before attributes change that belong to the validator: if nobody will replace the alias
    /// afterwards, it dies now.
    pub(crate) async fn before_attributes_change(&self, object: &Object) -> Result<()> {
        self.owe_alias(object);
        let version = object.version();
        if version.alias.is_none() || self.flash.aliases.owed.lock().contains_key(&object.id) {
            return Ok(());
        }
        let keys: Vec<l2arc::Key> = Pool::aliases_of(object.id, &version).collect();
        self.flash.settle(self.flash.level.kill(&keys).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_alias_is_refused() {
        assert_eq!(decode(&[0; 15]), None);
        assert_eq!(decode(&[0; 17]), None);
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(decode(&bytes), Some((0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908)));
    }
}
