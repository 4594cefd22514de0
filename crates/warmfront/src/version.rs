use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use storage::{Attributes, Timestamp, Validator};
use xxhash_rust::xxh3::xxh3_64;

use crate::property::Coherence;

/// Numbers the generations that follow from no validator.
static RENEWALS: AtomicU64 = AtomicU64::new(1);

/// How long metadata is trusted under `coherence=open` when it is asked for without an open.
pub(crate) const OPEN_TRUST: Duration = Duration::from_secs(1);

/// What is known of an object, and since when.
///
/// The generation names the present version of the contents in cache keys. It follows from the
/// validator, so that it is the same again after a restart, with one exception: a change that goes
/// through this pool changes the validator but keeps the generation, because the cache changes
/// along with the origin. Flash then remembers the generation by an alias.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version {
    pub(crate) attributes: Attributes,
    pub(crate) generation: u64,
    /// The record size that the generation's records have, in bytes.
    pub(crate) record_bytes: u64,
    /// The validator under which flash has an alias of the generation; see
    /// [`Aliases`](crate::alias::Aliases).
    pub(crate) alias: Option<u64>,
    /// Size and times of the contents are those of writes that the origin does not know yet.
    is_ahead: bool,
    checked_at: Duration,
    /// It was written down by an earlier start, and the origin has not been asked since.
    restored: bool,
    stale_by: StaleBy,
    /// Changes of ours under way: until they end, what the origin tells is not judged.
    changes: u32,
    /// Changes of ours that have ended: an answer that was asked for before the last one ended
    /// tells nothing.
    changes_ended: u64,
}

/// A version as it is written down for the next start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedVersion {
    pub(crate) attributes: Attributes,
    pub(crate) generation: u64,
    pub(crate) record_bytes: u64,
}

/// The change of ours that the attributes do not show yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StaleBy {
    Nothing,
    /// Only attributes have changed: names, owner, times.
    Attributes,
    /// Contents have changed as well.
    Contents,
}

impl Version {
    /// What a look-up has just found.
    pub(crate) fn new(attributes: Attributes, record_bytes: u64, now: Duration) -> Version {
        Version {
            attributes,
            generation: generation(&attributes.validator(), record_bytes, 0),
            record_bytes,
            alias: None,
            is_ahead: false,
            checked_at: now,
            restored: false,
            stale_by: StaleBy::Nothing,
            changes: 0,
            changes_ended: 0,
        }
    }

    /// What an earlier start has written down, if it may be written down now: nothing is on its
    /// way that it does not tell.
    pub(crate) fn settled(&self) -> Option<SavedVersion> {
        self.is_settled().then_some(SavedVersion {
            attributes: self.attributes,
            generation: self.generation,
            record_bytes: self.record_bytes,
        })
    }

    /// What an earlier start has written down. The origin is asked before anybody believes it,
    /// unless it `is_certain`.
    pub(crate) fn restored(saved: &SavedVersion, is_certain: bool, now: Duration) -> Version {
        Version {
            generation: saved.generation,
            restored: !is_certain,
            ..Version::new(saved.attributes, saved.record_bytes, now)
        }
    }

    /// Takes in attributes that the origin has just told. Returns whether the contents must be
    /// taken for others than those in the cache.
    ///
    /// While a change of ours is under way the origin's answer may be from before it or after it,
    /// so it is left alone: the change itself brings newer attributes when it ends.
    pub(crate) fn observe(&mut self, seen: Attributes, now: Duration) -> bool {
        if self.changes > 0 {
            return false;
        }
        if self.is_ahead {
            // Its contents are those of this pool, whatever the origin has by now.
            self.adopt(seen, now);
            return false;
        }
        let (old, new) = (self.attributes.validator(), seen.validator());
        let same_contents =
            old.size == new.size && old.modified == new.modified && old.born == new.born;
        let ours = match self.stale_by {
            StaleBy::Nothing => false,
            StaleBy::Attributes => same_contents,
            StaleBy::Contents => old.born == new.born,
        };
        let changed = old != new && !ours;
        if changed {
            self.generation = generation(&new, self.record_bytes, 0);
        }
        self.adopt(seen, now);
        changed
    }

    /// Names the present validator, whatever the record size.
    pub(crate) fn validator_hash(&self) -> u64 {
        generation(&self.attributes.validator(), 0, 0)
    }

    /// The same, if the attributes are those of the contents.
    pub(crate) fn settled_validator(&self) -> Option<u64> {
        self.is_settled().then(|| self.validator_hash())
    }

    /// Whether the generation is the one that follows from the present validator.
    pub(crate) fn follows_validator(&self) -> bool {
        self.generation == generation(&self.attributes.validator(), self.record_bytes, 0)
    }

    /// Whether the attributes are those of the contents: no change of ours is under way, or does
    /// not show in them yet.
    pub(crate) fn is_settled(&self) -> bool {
        self.changes == 0 && !self.is_ahead && self.stale_by == StaleBy::Nothing
    }

    /// Whether no change of ours that may concern names is missing in the attributes.
    pub(crate) fn is_settled_names(&self) -> bool {
        self.changes == 0 && self.stale_by == StaleBy::Nothing
    }

    /// Notes that `length` bytes have been written up to `end`, and that the origin does not know
    /// it.
    pub(crate) fn write_ahead(&mut self, end: u64, length: u64, modified: Timestamp) {
        let attributes = &mut self.attributes;
        // What lies behind the end takes room; what lies before it may have it already.
        attributes.blocks_512 += end.saturating_sub(attributes.size).min(length).div_ceil(512);
        attributes.size = attributes.size.max(end);
        let modified = modified.or_later(attributes.modified);
        (attributes.modified, attributes.changed) = (modified, modified);
        self.is_ahead = true;
        // Others compare states by this count.
        self.changes_ended += 1;
    }

    /// Notes a size, or a time of the last change, that was set beside writes that the origin does
    /// not know yet.
    pub(crate) fn set_ahead(&mut self, size: Option<u64>, modified: Option<Timestamp>) {
        if !self.is_ahead {
            return;
        }
        if let Some(size) = size {
            // The origin tells the blocks that are left.
            (self.attributes.size, self.attributes.blocks_512) = (size, 0);
        }
        self.attributes.modified = modified.unwrap_or(self.attributes.modified);
    }

    /// Notes that the origin has everything, and tells `seen`, if it tells anything.
    pub(crate) fn settle_ahead(&mut self, seen: Option<Attributes>, now: Duration) {
        self.is_ahead = false;
        self.expire(StaleBy::Contents);
        if let Some(seen) = seen.filter(|_| self.changes == 0) {
            self.adopt(seen, now);
        }
    }

    /// Begins a change of ours; [`end_change`](Version::end_change) must follow.
    pub(crate) fn begin_change(&mut self) {
        self.changes += 1;
    }

    /// Ends a change of ours. What it has done to the attributes is not known yet.
    pub(crate) fn end_change(&mut self, stale_by: StaleBy) {
        assert!(self.changes > 0, "a change ends that never began");
        self.changes -= 1;
        self.expire(stale_by);
    }

    /// Takes in the attributes that a change of ours has led to; the cache has followed it.
    pub(crate) fn adopt(&mut self, seen: Attributes, now: Duration) {
        let known = self.attributes;
        self.attributes = seen;
        if self.is_ahead {
            self.attributes.size = known.size;
            self.attributes.blocks_512 = seen.blocks_512.max(known.blocks_512);
            self.attributes.modified = known.modified;
            self.attributes.changed = seen.changed.max(known.changed);
        }
        self.checked_at = now;
        self.restored = false;
        self.stale_by = StaleBy::Nothing;
    }

    /// Says that a change of ours has made the attributes old.
    pub(crate) fn expire(&mut self, stale_by: StaleBy) {
        self.stale_by = self.stale_by.max(stale_by);
        self.changes_ended += 1;
    }

    /// When the attributes were last told by the origin.
    pub(crate) fn checked_at(&self) -> Duration {
        self.checked_at
    }

    /// Number of changes of ours that have ended so far.
    pub(crate) fn changes_ended(&self) -> u64 {
        self.changes_ended
    }

    /// Starts a generation of its own, unlike any before: nothing cached fits any more.
    pub(crate) fn renew(&mut self, record_bytes: u64) {
        let renewal = RENEWALS.fetch_add(1, Ordering::Relaxed);
        self.record_bytes = record_bytes;
        self.generation = generation(&self.attributes.validator(), record_bytes, renewal);
    }

    /// Sees to it that generations that [`renew`](Version::renew) starts are none that an earlier
    /// start of the pool has used: cache devices may still hold records of these.
    pub(crate) fn seed_renewals(life: u128) {
        RENEWALS.fetch_add(xxh3_64(&life.to_le_bytes()) >> 1, Ordering::Relaxed);
    }

    /// Names what is known of the extended attributes: any change of the object begins another
    /// epoch, also one that brings an ACL or a capability along, such as of the permissions.
    /// `None` while a change of ours does not show in the attributes yet.
    pub(crate) fn epoch(&self) -> Option<u64> {
        let changed = self.attributes.changed;
        let words = [
            self.generation,
            changed.seconds as u64,
            u64::from(changed.nanoseconds),
            self.changes_ended,
        ];
        (self.changes == 0 && self.stale_by == StaleBy::Nothing).then(|| hash(&words))
    }

    /// Whether the attributes may be told without asking the origin.
    pub(crate) fn is_trusted(&self, coherence: Coherence, now: Duration) -> bool {
        self.stale_by == StaleBy::Nothing
            && !self.restored
            && is_trusted(self.checked_at, coherence, now)
    }

    /// Whether the contents may be read without asking the origin, through a file that is open.
    pub(crate) fn is_readable(&self, coherence: Coherence, now: Duration) -> bool {
        match coherence {
            Coherence::Exclusive | Coherence::Open => true,
            Coherence::Ttl(_) => is_trusted(self.checked_at, coherence, now),
        }
    }

    /// How long the attributes may still be told without asking the origin.
    pub(crate) fn trusted_for(&self, coherence: Coherence, now: Duration) -> Duration {
        match self.stale_by {
            StaleBy::Nothing if !self.restored => trusted_for(self.checked_at, coherence, now),
            _ => Duration::ZERO,
        }
    }
}

/// How long after its check an answer may be given without asking the origin.
pub(crate) fn trust(coherence: Coherence) -> Duration {
    match coherence {
        Coherence::Exclusive => Duration::MAX,
        Coherence::Open => OPEN_TRUST,
        Coherence::Ttl(ttl) => ttl,
    }
}

/// Whether an answer that was checked at `checked_at` may be given without asking the origin.
pub(crate) fn is_trusted(checked_at: Duration, coherence: Coherence, now: Duration) -> bool {
    now.saturating_sub(checked_at) < trust(coherence)
}

/// How long an answer that was checked at `checked_at` may still be given.
pub(crate) fn trusted_for(checked_at: Duration, coherence: Coherence, now: Duration) -> Duration {
    trust(coherence).saturating_sub(now.saturating_sub(checked_at))
}

fn generation(validator: &Validator, record_bytes: u64, renewal: u64) -> u64 {
    let born = validator.born.unwrap_or_default();
    hash(&[
        validator.size,
        validator.modified.seconds as u64,
        u64::from(validator.modified.nanoseconds),
        validator.changed.seconds as u64,
        u64::from(validator.changed.nanoseconds),
        born.seconds as u64,
        u64::from(born.nanoseconds),
        record_bytes,
        renewal,
    ])
}

fn hash<const WORDS: usize>(words: &[u64; WORDS]) -> u64 {
    xxh3_64(words.map(u64::to_le_bytes).as_flattened())
}

#[cfg(test)]
mod tests {
    use storage::Kind;

    use super::*;

    fn attributes(size: u64, modified: i64, changed: i64) -> Attributes {
        let at = |seconds| Timestamp { seconds, nanoseconds: 5 };
        Attributes {
            kind: Kind::File,
            permissions: 0o644,
            links: 1,
            uid: 0,
            gid: 0,
            size,
            blocks_512: 8,
            block_size: 4096,
            device: 0,
            accessed: at(0),
            modified: at(modified),
            changed: at(changed),
            born: None,
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn any_change_behind_our_back_starts_a_generation() {
        let first = Version::new(attributes(10, 1, 1), 4096, SECOND);
        for seen in [attributes(11, 1, 1), attributes(10, 2, 1), attributes(10, 1, 2)] {
            let mut version = first;
            assert!(version.observe(seen, SECOND));
            assert_ne!(version.generation, first.generation);
        }
        let mut version = first;
        assert!(!version.observe(attributes(10, 1, 1), SECOND));
        assert_eq!(version.generation, first.generation);
    }

    #[test]
    fn our_own_changes_keep_the_generation() {
        let first = Version::new(attributes(10, 1, 1), 4096, SECOND);
        let mut version = first;
        version.adopt(attributes(20, 2, 2), SECOND);
        version.expire(StaleBy::Attributes);
        assert!(!version.is_trusted(Coherence::Exclusive, SECOND));
        assert!(!version.observe(attributes(20, 2, 3), SECOND), "only the change time moved");
        assert_eq!(version.generation, first.generation);
        version.expire(StaleBy::Attributes);
        assert!(version.observe(attributes(20, 9, 9), SECOND), "somebody else wrote as well");
        let written = version.generation;
        version.expire(StaleBy::Contents);
        assert!(!version.observe(attributes(30, 10, 10), SECOND), "that was our write");
        assert_eq!(version.generation, written);
    }

    #[test]
    fn nothing_is_judged_while_a_change_of_ours_is_under_way() {
        let mut version = Version::new(attributes(10, 1, 1), 4096, SECOND);
        version.begin_change();
        assert!(!version.observe(attributes(11, 2, 2), SECOND));
        assert_eq!(version.attributes.size, 10);
        version.end_change(StaleBy::Contents);
        assert!(!version.observe(attributes(11, 2, 2), SECOND));
        assert_eq!(version.attributes.size, 11);
    }

    #[test]
    fn the_same_version_has_the_same_generation_but_a_renewed_one_never_has() {
        let first = Version::new(attributes(10, 1, 1), 4096, SECOND);
        let again = Version::new(attributes(10, 1, 1), 4096, SECOND * 9);
        assert_eq!(first.generation, again.generation);
        let mut version = first;
        version.renew(8192);
        version.renew(4096);
        assert_ne!(version.generation, first.generation);
    }

    #[test]
    fn trust_ends_with_its_time() {
        let version = Version::new(attributes(10, 1, 1), 4096, SECOND);
        assert!(version.is_trusted(Coherence::Exclusive, SECOND * 1_000_000));
        assert!(version.is_trusted(Coherence::Ttl(SECOND * 5), SECOND * 5));
        assert!(!version.is_trusted(Coherence::Ttl(SECOND * 5), SECOND * 6));
        assert!(!version.is_readable(Coherence::Ttl(SECOND * 5), SECOND * 6));
        assert!(version.is_trusted(Coherence::Open, SECOND));
        assert!(!version.is_trusted(Coherence::Open, SECOND * 2));
        assert!(version.is_readable(Coherence::Open, SECOND * 2));
    }
}
