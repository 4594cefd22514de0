use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::bounds::{self, OutOfBounds};
use crate::model::{
    Equipment, EquipmentError, NetworkParameters, Positive, ProcessorParameters, Queue, Stripe,
    StripeParameters,
};

/// Least RAM, after it was divided.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// Most cache devices, and most bytes of each: what is written to it takes as much memory here.
const CACHES_MAX: u32 = 64;
const CACHE_BYTES_MAX: u64 = 8 << 30;

/// What a machine is like.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineParameters {
    /// What it is, in a line.
    pub about: String,
    /// RAM that the cache may take.
    pub memory_bytes: NonZeroU64,
    /// All sizes are divided by it.
    pub divisor: NonZeroU64,
    /// The processor that serves the requests.
    pub processor: ProcessorParameters,
    /// The network between it and its clients; there is none where they run on it.
    pub network: Option<NetworkParameters>,
    /// The disk of which the pool is made.
    pub disk: String,
    /// How it is made of them.
    pub disks: StripeParameters,
    /// Bytes of contents for each byte on the disks; 1 without.
    pub compression_ratio: Option<Positive>,
    /// Contents that become from what lies on the disks, MB (10^6 bytes) a second; in no time
    /// without.
    pub decompression_mb_s: Option<Positive>,
    /// Cache devices.
    pub caches: Option<CacheParameters>,
    /// An origin as slow as this model, instead of the disks.
    pub slow: Option<String>,
    /// Equipment that does not come with the lab, by name.
    #[serde(default)]
    pub equipment: BTreeMap<String, Equipment>,
    /// Properties of the pool that differ from the defaults.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// The cache devices of a machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheParameters {
    /// Which.
    pub device: String,
    /// How many.
    pub count: u32,
    /// Bytes of each.
    pub bytes: NonZeroU64,
    /// Bytes a second that are written to each at most.
    pub feed_bytes_per_s: Option<u64>,
    /// Once they are full, records come in only when they were touched again, as in a mount.
    #[serde(default)]
    pub second_touch: bool,
    /// They are read as by ZFS: what they have, even where the origin is expected to be sooner.
    #[serde(default)]
    pub reads_as_zfs: bool,
}

impl CacheParameters {
    /// Whether there are no more than can be followed.
    ///
    /// # Errors
    /// When there are.
    pub fn check_count(&self) -> Result<(), MachineError> {
        match self.count > CACHES_MAX {
            true => Err(MachineError::Unfit(format!(
                "it has {} caches, and at most {CACHES_MAX}",
                self.count
            ))),
            false => Ok(()),
        }
    }
}

/// Why a machine cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// No machine is called so.
    #[error("no machine is called {name:?}; there are {}, and files that end in .toml",
        MachineParameters::names().join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
    /// It is not TOML, has unknown keys, lacks some, or has values that cannot be.
    #[error("the machine {name} cannot be read; mend it: {source}")]
    Malformed {
        /// Its name.
        name: String,
        /// What and where.
        source: Box<toml::de::Error>,
    },
    /// Its file cannot be read.
    #[error("cannot read the machine {}: {source}; name a TOML file", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A value is larger or smaller than any that a machine can have.
    #[error("the machine {name} cannot be built: {bounds}")]
    OutOfBounds {
        /// Its name.
        name: String,
        /// Which value, and what is allowed.
        bounds: OutOfBounds,
    },
    /// A part of it cannot be had.
    #[error(transparent)]
    Equipment(#[from] EquipmentError),
    /// Its parts do not fit together.
    #[error("the machine cannot be built: {0}")]
    Unfit(String),
}

/// What comes with the lab: names and texts.
const SHIPPED: &[(&str, &str)] = &[
    ("backup-server-2013", include_str!("../../machines/backup-server-2013.toml")),
    ("database-server-2014", include_str!("../../machines/database-server-2014.toml")),
    ("directory-server-2010", include_str!("../../machines/directory-server-2010.toml")),
    ("solaris-server-2009", include_str!("../../machines/solaris-server-2009.toml")),
    ("solaris-server-2009-large", include_str!("../../machines/solaris-server-2009-large.toml")),
    ("storage-server-2019", include_str!("../../machines/storage-server-2019.toml")),
    ("storage-server-small", include_str!("../../machines/storage-server-small.toml")),
];

impl MachineParameters {
    /// The names of what comes with the lab.
    pub fn names() -> Vec<&'static str> {
        SHIPPED.iter().map(|(name, _)| *name).collect()
    }

    /// What comes with the lab by this name.
    ///
    /// # Errors
    /// When there is no such machine.
    pub fn shipped(name: &str) -> Result<MachineParameters, MachineError> {
        match SHIPPED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => MachineParameters::parse(name, text),
            None => Err(MachineError::Unknown { name: name.to_owned() }),
        }
    }

    /// Reads a machine; `name` says in messages which.
    ///
    /// # Errors
    /// When it is not TOML, or its keys and values are not those of a machine.
    pub fn parse(name: &str, text: &str) -> Result<MachineParameters, MachineError> {
        let malformed =
            |source| MachineError::Malformed { name: name.to_owned(), source: Box::new(source) };
        let machine = toml::from_str(text).map_err(malformed)?;
        let table: toml::Table = toml::from_str(text).map_err(malformed)?;
        bounds::check_all(&table)
            .map_err(|bounds| MachineError::OutOfBounds { name: name.to_owned(), bounds })?;
        Ok(machine)
    }

    /// One of one's own, from a TOML file. Equipment whose name ends in `.toml` is read from that
    /// file, beside it.
    ///
    /// # Errors
    /// When a file cannot be read, or is not what it should be.
    pub fn read(path: &Path) -> Result<MachineParameters, MachineError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| MachineError::Unreadable { path: path.to_owned(), source })?;
        let mut machine = MachineParameters::parse(&path.display().to_string(), &text)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let device = machine.caches.as_ref().map(|caches| caches.device.clone());
        for name in [Some(machine.disk.clone()), device].into_iter().flatten() {
            if Equipment::is_file(&name) && !machine.equipment.contains_key(&name) {
                let equipment = Equipment::read(&Equipment::path_beside(directory, &name))?;
                machine.equipment.insert(name, equipment);
            }
        }
        Ok(machine)
    }

    /// The equipment of this name: its own, or what comes with the lab.
    ///
    /// # Errors
    /// When there is no such thing.
    pub fn equipment(&self, name: &str) -> Result<Equipment, EquipmentError> {
        self.equipment.get(name).cloned().map_or_else(|| Equipment::shipped(name), Ok)
    }

    /// Its disks with nothing to do.
    ///
    /// # Errors
    /// When they are no disks, or do not fit together.
    pub fn stripe(&self) -> Result<Stripe, MachineError> {
        let stripe = match self.equipment(&self.disk)? {
            Equipment::Disk(disk) => Stripe::new(&disk, &self.disks),
            _ => Err(format!("{} is not a disk", self.disk)),
        };
        stripe.map_err(MachineError::Unfit)
    }

    /// Whether its parts are there and fit together.
    ///
    /// # Errors
    /// What is wrong, when it cannot be built.
    pub fn check(&self) -> Result<(), MachineError> {
        let unfit = |reason| Err(MachineError::Unfit(reason));
        self.stripe()?;
        let memory_bytes = self.memory_bytes.get() / self.divisor;
        if memory_bytes < MEMORY_BYTES_MIN {
            return unfit(format!(
                "memory_bytes = {} over the divisor {} are {memory_bytes} bytes, and at least \
                 {MEMORY_BYTES_MIN} are needed",
                self.memory_bytes, self.divisor
            ));
        }
        self.caches.as_ref().map_or(Ok(()), |caches| self.check_caches(caches))
    }

    fn check_caches(&self, caches: &CacheParameters) -> Result<(), MachineError> {
        let CacheParameters { device: name, bytes, .. } = caches;
        let unfit = |reason| Err(MachineError::Unfit(reason));
        caches.check_count()?;
        let divisor_min = bytes.get().div_ceil(CACHE_BYTES_MAX);
        if self.divisor.get() < divisor_min {
            return unfit(format!(
                "each of its caches takes {} GiB and may take {} here; set divisor = {divisor_min} \
                 or more",
                (bytes.get() / self.divisor) >> 30,
                CACHE_BYTES_MAX >> 30
            ));
        }
        match self.equipment(name)?.capacity_bytes() {
            Some(holds) if holds < bytes.get() => unfit(format!(
                "the device {name} holds {holds} bytes, and the cache wants {bytes}; set smaller \
                 bytes in [caches]"
            )),
            _ => Ok(()),
        }
    }

    /// Whether the disks hold so many bytes, as many as there are before sizes are divided.
    ///
    /// # Errors
    /// When they do not.
    pub fn check_data(&self, bytes: u128) -> Result<(), MachineError> {
        let ratio = self.compression_ratio.map_or(1.0, Positive::get);
        let (holds, wanted) = (self.stripe()?.size_bytes(), bytes as f64 / ratio);
        match self.slow.is_some() || wanted <= holds as f64 {
            true => Ok(()),
            false => Err(MachineError::Unfit(format!(
                "its disks hold {holds} bytes, and the data take {wanted:.0}; take fewer data, \
                 larger disks, more mirrors, or a larger scattered_percent"
            ))),
        }
    }

    /// The same with another property.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> MachineParameters {
        self.settings.insert(name.to_owned(), value.into());
        self
    }
}
