//! [`Tuner`]: chooses the setting of [`PolicyKind::Auto`](crate::PolicyKind::Auto) by shadow
//! caches on a sample of the load.

use std::sync::Arc;
use std::time::Duration;

use crate::behaviour::{Behaviour, GHOSTS_MIN};
use crate::duel::Duel;
use crate::list::Class;
use crate::options::Options;
use crate::policy::Policy;
use crate::record::{Charge, Kind};
use crate::setting::{PolicyKind, SETTINGS, Setting};
use crate::sync::{AtomicU8, AtomicU32, Mutex, Relaxed};

/// Records of a shadow at which the sample is made thinner by half.
const SHADOW_RECORDS_MAX: usize = 8192;

/// The same, while the sample is denser than one key of two to the power of [`DENSE`], so that
/// shadows cost little time.
const SHADOW_RECORDS_DENSE: usize = 2000;

/// See [`SHADOW_RECORDS_DENSE`].
const DENSE: u32 = 4;

/// A sample is made denser when a full shadow holds less than its bound divided by this.
const DENSER_SHARE: usize = 8;

/// Memory of a shadow for each of its records, bytes: a record, and up to three ghosts.
const SHADOW_RECORD_BYTES: u64 = 160;

/// All shadows together may take the capacity divided by this.
const SHADOW_SHARE: u64 = 64;

/// Sampled accesses between two looks at the size of the sample.
const CHECK_ACCESSES: u64 = 256;

/// The thinnest sample is one key of two to this power.
const THINNING_MAX: u32 = 24;

/// Parts by which a shadow's capacity follows the cache's.
const CAPACITY_STEP: f64 = 1.0 / 16.0;

/// Chooses the setting in force.
///
/// Of each setting a shadow runs: a [`Policy`] without values, which sees the keys whose hash lies
/// below a threshold, and is as much smaller than the cache as its keys are fewer (MiniSim,
/// Waldspurger et al., ATC 2017; SHARDS, FAST 2015). The settings are compared in pairs, as told
/// in `duel.rs`. When another one does better than the one in force by more than chance, the cache
/// takes one step towards it. What it holds stays: the settings are settings of one structure.
///
/// A hit that changes nothing in the record is not told to the shadows: it would change nothing
/// there either. So a load of hits only pays nothing.
///
/// What was prefetched is told with its first read, as the miss that it would have been. A sample
/// must have all accesses of its keys: with some left out fewer records come between two accesses
/// to one, and a loop that is too large seems to fit.
#[derive(Debug)]
pub(crate) struct Tuner {
    setting: AtomicU8,
    /// Sampled are hashes whose 32 middle bits are at most this.
    threshold: AtomicU32,
    shadows: Mutex<Shadows>,
}

/// What each setting makes of the load.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SettingStatistics {
    /// The setting in force; `None` under ARC.
    pub in_force: Option<Setting>,
    /// Hit ratio that each setting has on the sample, in the order of [`Setting::ALL`], for the
    /// recent past; zeros before anything was sampled.
    pub hit_ratios: [f64; SETTINGS],
    /// How often the setting was changed.
    pub changes: u64,
    /// Accesses that were sampled.
    pub sampled: u64,
}

#[derive(Debug)]
struct Shadows {
    policies: [Policy<u64, ()>; SETTINGS],
    duel: Duel,
    /// Shards of the cache, whose even parts are told as its capacity.
    shards: u64,
    /// Bytes of the whole cache that it can have for records and ghosts.
    capacity: f64,
    /// The sample is one key of `1 << thinning`.
    thinning: u32,
    /// Records that a shadow may have before the sample is made thinner.
    records_max: usize,
    sampled: u64,
    changes: u64,
    /// Whether shadows have evicted since the sample last changed.
    full: bool,
    /// Whether shadows have ever evicted.
    filled: bool,
    /// Whether anything that was sampled was used again.
    reused: bool,
    gone: Vec<(u64, ())>,
}

impl Tuner {
    /// For a cache of `shards` policies.
    pub fn new(options: &Options, shards: usize) -> Self {
        let policies = Setting::ALL.map(|setting| {
            let options = Options { capacity_bytes: 0, record_share: 1, ..*options };
            Policy::with_behaviour(&options, Behaviour::Fixed(setting))
        });
        let shadows = Shadows {
            policies,
            duel: Duel::new(),
            shards: shards as u64,
            capacity: 0.0,
            thinning: 0,
            records_max: SHADOW_RECORDS_MAX,
            sampled: 0,
            changes: 0,
            full: false,
            filled: false,
            reused: false,
            gone: Vec::new(),
        };
        Self {
            setting: AtomicU8::new(Setting::FIRST as u8),
            threshold: AtomicU32::new(u32::MAX),
            shadows: Mutex::new(shadows),
        }
    }

    /// The behaviour of the kind asked for, with a tuner for `shards` policies if it has one.
    pub fn for_kind(options: &Options, shards: usize) -> Behaviour {
        match options.policy {
            PolicyKind::Arc => Behaviour::Arc,
            PolicyKind::Auto => Behaviour::Tuned(Arc::new(Self::new(options, shards))),
        }
    }

    /// What the shadows of a cache of `capacity` bytes may take, bytes.
    pub const fn bytes_max(capacity: u64) -> u64 {
        let share = capacity / SHADOW_SHARE;
        let most = SETTINGS as u64 * SHADOW_RECORD_BYTES * SHADOW_RECORDS_MAX as u64;
        if share < most { share } else { most }
    }

    /// Bounds the memory of the shadows.
    pub fn set_bytes_max(&self, bytes: u64) {
        let affordable = bytes / (SETTINGS as u64 * SHADOW_RECORD_BYTES);
        self.shadows.lock().records_max = affordable.min(SHADOW_RECORDS_MAX as u64) as usize;
    }

    /// The setting in force.
    #[inline]
    pub fn setting(&self) -> Setting {
        Setting::ALL[self.setting.load(Relaxed) as usize]
    }

    /// Goes on with the setting that was in force in an earlier start.
    pub fn resume(&self, setting: Setting) {
        let mut shadows = self.shadows.lock();
        // It is not one with which a load begins of which nothing is known.
        shadows.filled = true;
        self.setting.store(setting as u8, Relaxed);
    }

    /// Whether accesses of the key are to be told.
    #[inline]
    pub fn samples(&self, hash: u64) -> bool {
        sample_bits(hash) <= self.threshold.load(Relaxed)
    }

    /// Tells of an access to a sampled record of `bytes`, while the cache had `bound` bytes in the
    /// shard concerned. `patient` callers wait for the shadows; without, the access is not told if
    /// somebody else is telling one.
    pub fn access(
        &self,
        hash: u64,
        bytes: u64,
        class: Class,
        now: Duration,
        bound: u64,
        patient: bool,
    ) {
        let mut shadows = match self.shadows.try_lock() {
            Some(shadows) => shadows,
            None if patient => self.shadows.lock(),
            None => return,
        };
        let charge = Charge { bytes, class, kind: Kind::Demand, tenant: 0 };
        let filled = shadows.filled;
        shadows.access(hash, charge, now, bound);
        if !filled && shadows.reused {
            self.setting.store(Setting::START as u8, Relaxed);
        }
        if let Some(next) = shadows.duel.next(self.setting.load(Relaxed) as usize) {
            shadows.changes += 1;
            self.setting.store(next as u8, Relaxed);
        }
        if shadows.sampled.is_multiple_of(CHECK_ACCESSES) {
            shadows.fit();
            self.threshold.store(u32::MAX >> shadows.thinning, Relaxed);
        }
    }

    /// The setting in force, and what each would have had.
    pub fn statistics(&self) -> SettingStatistics {
        let shadows = self.shadows.lock();
        SettingStatistics {
            in_force: Some(self.setting()),
            hit_ratios: shadows.duel.hit_ratios(),
            changes: shadows.changes,
            sampled: shadows.sampled,
        }
    }

    /// Recounts the shadows.
    pub fn validate(&self) -> Result<(), String> {
        let shadows = self.shadows.lock();
        for (policy, setting) in shadows.policies.iter().zip(Setting::ALL) {
            policy.validate().map_err(|why| format!("shadow {}: {why}", setting.name()))?;
        }
        Ok(())
    }
}

impl Shadows {
    /// Makes the access in all shadows.
    fn access(&mut self, hash: u64, charge: Charge, now: Duration, bound: u64) {
        let bound = (bound * self.shards) as f64;
        let step = if self.sampled == 0 { 1.0 } else { CAPACITY_STEP };
        self.capacity += (bound - self.capacity) * step;
        self.sampled += 1;
        let capacity = (self.capacity / f64::from(1u32 << self.thinning)).round() as u64;
        let mut missed = [false; SETTINGS];
        for (policy, missed) in self.policies.iter_mut().zip(&mut missed) {
            if policy.capacity_bytes() != capacity {
                policy.set_capacity(capacity, &mut self.gone);
            }
            *missed = policy.get(hash, &hash, now).is_none();
            if *missed {
                let inserted = policy.insert(hash, hash, (), charge, now, &mut self.gone);
                self.full |= inserted.is_ok_and(|inserted| inserted.evicted.records > 0);
            }
            self.gone.clear();
        }
        self.filled |= self.full;
        self.reused |= missed.contains(&false);
        self.duel.round(&missed, self.records());
    }

    /// Records of the fullest shadow.
    fn records(&self) -> usize {
        self.policies.iter().map(Policy::len).max().unwrap_or(0)
    }

    /// Makes the sample thinner or denser, so that shadows are large enough to tell and small
    /// enough to afford.
    fn fit(&mut self) {
        while self.thinning < THINNING_MAX && self.records() > self.limit(self.thinning) {
            self.thin_out(self.thinning + 1);
        }
        if self.full
            && let Some(denser) = self.thinning.checked_sub(1)
            && self.records() < self.limit(denser) / DENSER_SHARE
        {
            // Keys that come in by this are new to all shadows alike.
            self.thin_out(denser);
        }
    }

    /// Records that a shadow may have with a sample of this thinning.
    fn limit(&self, thinning: u32) -> usize {
        let limit = if thinning < DENSE { SHADOW_RECORDS_DENSE } else { SHADOW_RECORDS_MAX };
        limit.min(self.records_max)
    }

    fn thin_out(&mut self, thinning: u32) {
        self.thinning = thinning;
        self.full = false;
        let capacity = (self.capacity / f64::from(1u32 << thinning)).round() as u64;
        for policy in &mut self.policies {
            policy.retain(|&hash, _| sample_bits(hash) <= u32::MAX >> thinning, &mut self.gone);
            policy.retain_ghosts(|hash| sample_bits(hash) <= u32::MAX >> thinning);
            policy.set_ghosts_min(GHOSTS_MIN >> thinning);
            policy.set_capacity(capacity, &mut self.gone);
            self.gone.clear();
        }
    }
}

#[inline]
const fn sample_bits(hash: u64) -> u32 {
    (hash >> 8) as u32
}
