use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{
    Disk, DiskParameters, Elevator, Flash, FlashParameters, InOrder, Model, NetworkParameters,
    ObjectStore, ObjectStoreParameters, ProcessorParameters, Queue, Schedule, SolidState,
    SolidStateParameters,
};
use crate::bounds::{self, OutOfBounds};

/// What a TOML file describes: one device, in a table named after its kind.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Equipment {
    /// A spinning disk.
    Disk(DiskParameters),
    /// Flash, page by page.
    Flash(FlashParameters),
    /// An SSD from outside.
    SolidState(SolidStateParameters),
    /// An object store.
    ObjectStore(ObjectStoreParameters),
    /// A network, to be put before another device.
    Network(NetworkParameters),
    /// A processor.
    Processor(ProcessorParameters),
}

/// Why a description of equipment cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EquipmentError {
    /// It is not TOML, has unknown keys, lacks some, or has values that cannot be.
    #[error("the equipment in {name} cannot be read; mend it there: {source}")]
    Malformed {
        /// The file.
        name: String,
        /// What and where.
        source: Box<toml::de::Error>,
    },
    /// There is nothing in it.
    #[error("{name} describes no equipment; begin it with [disk], [flash] or [solid-state]")]
    Empty {
        /// The file.
        name: String,
    },
    /// Its file cannot be read.
    #[error("cannot read the equipment in {}: {source}; name a TOML file", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A value is larger or smaller than any that equipment can have.
    #[error("the equipment in {name} cannot be built: {bounds}")]
    OutOfBounds {
        /// The file.
        name: String,
        /// Which value, and what is allowed.
        bounds: OutOfBounds,
    },
    /// The values do not fit together.
    #[error("the equipment in {name} cannot be built: {reason}")]
    Unfit {
        /// The file.
        name: String,
        /// Which, and what to do.
        reason: String,
    },
    /// Nothing that comes with the lab is called so.
    #[error("no equipment is called {name:?}; there are {}, and files that end in .toml",
        Equipment::names().join(", "))]
    Unknown {
        /// The name.
        name: String,
    },
}

/// What comes with the lab: names and texts.
const SHIPPED: &[(&str, &str)] = &[
    ("gigabit-ethernet", include_str!("../../devices/gigabit-ethernet.toml")),
    ("nearline-7200", include_str!("../../devices/nearline-7200.toml")),
    ("nvme", include_str!("../../devices/nvme.toml")),
    ("object-store", include_str!("../../devices/object-store.toml")),
    ("processor", include_str!("../../devices/processor.toml")),
    ("quantum-atlas-10k", include_str!("../../devices/quantum-atlas-10k.toml")),
    ("sas-10k", include_str!("../../devices/sas-10k.toml")),
    ("sata-ssd", include_str!("../../devices/sata-ssd.toml")),
    ("seagate-cheetah-9lp", include_str!("../../devices/seagate-cheetah-9lp.toml")),
    ("sun-f20-mlc", include_str!("../../devices/sun-f20-mlc.toml")),
    ("sun-f20-slc", include_str!("../../devices/sun-f20-slc.toml")),
];

impl Equipment {
    /// Reads a description; `name` says in messages where it comes from.
    ///
    /// # Errors
    /// When it is not TOML, or its keys and values are not those of any equipment.
    pub fn parse(name: &str, text: &str) -> Result<Equipment, EquipmentError> {
        let malformed =
            |source| EquipmentError::Malformed { name: name.to_owned(), source: Box::new(source) };
        let table: toml::Table = toml::from_str(text).map_err(malformed)?;
        if table.is_empty() {
            return Err(EquipmentError::Empty { name: name.to_owned() });
        }
        let equipment = toml::from_str(text).map_err(malformed)?;
        bounds::check_all(&table)
            .map_err(|bounds| EquipmentError::OutOfBounds { name: name.to_owned(), bounds })?;
        Ok(equipment)
    }

    /// One of one's own, from a TOML file.
    ///
    /// # Errors
    /// When the file cannot be read, or describes no equipment.
    pub fn read(path: &Path) -> Result<Equipment, EquipmentError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| EquipmentError::Unreadable { path: path.to_owned(), source })?;
        Equipment::parse(&path.display().to_string(), &text)
    }

    /// What comes with the lab by this name.
    ///
    /// # Errors
    /// When there is no such thing.
    pub fn shipped(name: &str) -> Result<Equipment, EquipmentError> {
        match SHIPPED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Equipment::parse(name, text),
            None => Err(EquipmentError::Unknown { name: name.to_owned() }),
        }
    }

    /// What comes with the lab by this name, or is described in this file.
    ///
    /// # Errors
    /// When there is no such thing, or the file cannot be read or describes no equipment.
    pub fn named(name: &str) -> Result<Equipment, EquipmentError> {
        match Equipment::is_file(name) {
            true => Equipment::read(Path::new(name)),
            false => Equipment::shipped(name),
        }
    }

    /// Whether a name is that of a file, and not of what comes with the lab.
    pub fn is_file(name: &str) -> bool {
        name.ends_with(".toml")
    }

    /// Where a file lies that is named by one in this directory.
    pub(crate) fn path_beside(directory: &Path, name: &str) -> PathBuf {
        directory.join(name).components().collect()
    }

    /// The names of what comes with the lab.
    pub fn names() -> Vec<&'static str> {
        SHIPPED.iter().map(|(name, _)| *name).collect()
    }

    /// The bytes that a device of this kind offers, where it says so.
    pub fn capacity_bytes(&self) -> Option<u64> {
        match self {
            Equipment::SolidState(parameters) => Some(parameters.capacity_bytes.get()),
            Equipment::Flash(parameters) => Some(parameters.capacity_bytes.get()),
            Equipment::ObjectStore(parameters) => Some(parameters.capacity_bytes.get()),
            Equipment::Disk(parameters) => Disk::new(parameters).ok().map(|it| it.size_bytes()),
            Equipment::Network(_) | Equipment::Processor(_) => None,
        }
    }

    /// The same, smaller, if it is followed page by page and so has the size that is used.
    pub fn scaled_down(self, divisor: NonZeroU64) -> Equipment {
        match self {
            Equipment::Flash(parameters) => Equipment::Flash(parameters.scaled_down(divisor)),
            other => other,
        }
    }

    /// A device with its queue; disks have an elevator. What is drawn is drawn from `seed`.
    ///
    /// # Errors
    /// When the values do not fit together, or it is no device.
    pub fn build(&self, name: &str, seed: u64) -> Result<Box<dyn Queue>, EquipmentError> {
        let unfit = |reason| EquipmentError::Unfit { name: name.to_owned(), reason };
        Ok(match self {
            Equipment::Disk(parameters) => {
                let disk = Disk::new(parameters).map_err(unfit)?;
                Box::new(Elevator::new(disk, Schedule::Elevator))
            }
            Equipment::Flash(parameters) => {
                Box::new(InOrder::new(Flash::new(parameters, seed).map_err(unfit)?))
            }
            Equipment::SolidState(parameters) => {
                Box::new(InOrder::new(SolidState::new(parameters)))
            }
            Equipment::ObjectStore(parameters) => {
                Box::new(InOrder::new(ObjectStore::new(parameters, seed).map_err(unfit)?))
            }
            Equipment::Network(_) | Equipment::Processor(_) => {
                return Err(unfit("it holds no bytes; put it before a device that does".into()));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Request;

    #[test]
    fn all_that_is_shipped_can_be_read_and_devices_serve() {
        for name in Equipment::names() {
            let equipment = Equipment::shipped(name).unwrap_or_else(|error| panic!("{error}"));
            let holds_none = matches!(equipment, Equipment::Network(_) | Equipment::Processor(_));
            match equipment.build(name, 1) {
                Ok(mut queue) => {
                    assert!(!holds_none);
                    let ticket = queue.submit(5, Request::write(0, 4096));
                    let due = queue.due().expect("it is under way");
                    assert!(due > 5);
                    assert_eq!(queue.complete(due - 1), None);
                    let done = queue.complete(due).expect("it is done");
                    assert_eq!((done.ticket, done.at, done.outcome), (ticket, due, Ok(())));
                    assert_eq!(queue.due(), None);
                }
                Err(error) => assert!(holds_none, "{error}"),
            }
        }
    }

    #[test]
    fn a_mistake_is_shown_where_it_stands() {
        let said = |text: &str| Equipment::parse("my.toml", text).expect_err("bad").to_string();
        let network = "[network]\nround_trip_us = 200\nlink_mb_s = 117\n";
        assert!(Equipment::parse("my.toml", network).is_ok());
        let message = said(&network.replace("117", "-1"));
        assert!(message.contains("line 3") && message.contains("above zero"), "{message}");
        let message = said(&format!("{network}colour = 3\n"));
        assert!(message.contains("line 4") && message.contains("`colour`"), "{message}");
        assert!(said("[tape]\nspeed = 1\n").contains("`tape`"));
        assert!(said("[network").contains("my.toml"));
        let beside = |directory: &str| Equipment::path_beside(Path::new(directory), "./x.toml");
        assert_eq!(beside("."), Path::new("./x.toml"));
        assert_eq!(beside("lab"), Path::new("lab/x.toml"));
        for kind in ["[disk]", "[flash]", "[solid-state]"] {
            assert!(said("# nothing yet\n").contains(kind), "{kind}");
        }
        let message = Equipment::shipped("tape").expect_err("none").to_string();
        assert!(message.contains("quantum-atlas-10k"), "{message}");
    }
}
