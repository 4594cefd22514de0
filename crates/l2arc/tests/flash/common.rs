//! A flash level in a simulation, and records that tell which they are.

use std::sync::Arc;

use l2arc::{
    AddError, Admission, Compression, Flash, Key, Miss, Opened, Opening, Options, Refused,
};
use storage::{Clock, Device, Random, Simulation};

/// Small, so that rings come round and journals fill soon.
pub fn options() -> Options {
    Options {
        segment_bytes: Some(64 << 10),
        chunk_bytes: 16 << 10,
        buffers_bytes_max: 256 << 10,
        dwpd_hundredths: None,
        second_touch: false,
        ..Options::default()
    }
}

/// A device for these options, with about twenty segments.
pub const DEVICE_BYTES: usize = 2 << 20;

pub fn opening(life: u128) -> Opening {
    Opening {
        pool: [1; 16],
        device: [life as u8; 16],
        salt: (0x9e37_79b9_7f4a_7c15_u128.wrapping_mul(life + 1)).to_le_bytes(),
        life,
        lives: None,
        wall_seconds: 1_000_000 + life as u64,
        force: false,
        empty: false,
    }
}

pub fn key(object: u64, part: u64) -> Key {
    Key { object, generation: object ^ 5, part }
}

/// Contents of a version of a record: of a length of its own, half of it easy to compress.
pub fn contents(key: &Key, version: u64) -> Vec<u8> {
    let mut random = Random::new(key.object << 40 ^ key.part << 20 ^ version);
    let length = 1 + random.below(6000) as usize;
    let mut bytes: Vec<u8> = (0..length / 2 + 1).map(|_| random.draw() as u8).collect();
    bytes.resize(length, key.part as u8);
    bytes
}

pub struct Subject {
    pub simulation: Simulation,
    pub flash: Arc<Flash>,
}

impl Subject {
    pub fn new(seed: u64, options: Options) -> Subject {
        let simulation = Simulation::new(seed);
        let flash = Subject::flash(&simulation, options);
        Subject { simulation, flash }
    }

    pub fn flash(simulation: &Simulation, options: Options) -> Arc<Flash> {
        let clock: Arc<dyn Clock> = Arc::new(simulation.clone());
        Arc::new(Flash::new(options, clock, Arc::new(simulation.clone())))
    }

    pub fn add(&self, device: Arc<dyn Device>, opening: &Opening) -> Result<Opened, AddError> {
        let opened = self.simulation.run(self.flash.add(device, opening));
        if opened.is_ok() {
            self.simulation.run(self.flash.recovered());
        }
        opened
    }

    pub fn admit(&self, key: &Key, version: u64) -> Result<(), Refused> {
        self.admit_as(key, version, |_| {})
    }

    pub fn admit_as(
        &self,
        key: &Key,
        version: u64,
        change: impl FnOnce(&mut Admission),
    ) -> Result<(), Refused> {
        let mut admission = admission(&self.flash, key);
        change(&mut admission);
        self.flash.admit(key, &contents(key, version), &admission)
    }

    /// The record, which must be this version if it is there.
    #[track_caller]
    pub fn read(&self, key: &Key, version: u64) -> Result<(), Miss> {
        let mut into = vec![0; 8192];
        let length = self.simulation.run(self.flash.read(key, &mut into, None))?;
        assert!(into[..length] == contents(key, version), "{key:?} is not version {version}");
        Ok(())
    }

    pub fn kill(&self, key: &Key) {
        self.simulation.run(self.flash.kill(&[*key])).expect("the device works");
    }

    /// Admits records of version 0, and waits while there is no room.
    pub fn fill(&self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            for attempt in 0.. {
                match self.admit(&key, 0) {
                    Ok(()) => break,
                    Err(Refused::Buffers | Refused::NoSegment) if attempt < 100 => {
                        self.simulation.run(self.flash.settle());
                    }
                    Err(refused) => panic!("{key:?}: {refused}"),
                }
            }
        }
        self.simulation.run(self.flash.settle());
    }

    /// How many of the records are there, as version 0.
    #[track_caller]
    pub fn present(&self, keys: impl IntoIterator<Item = Key>) -> usize {
        keys.into_iter().filter(|key| self.read(key, 0).is_ok()).count()
    }
}

pub fn admission(flash: &Flash, key: &Key) -> Admission {
    Admission {
        stamp: flash.stamp(key.object),
        tenant: (key.object % 3) as u16,
        metadata: key.part == 0,
        touches: 2,
        compression: [Compression::Off, Compression::Lz4, Compression::Zstd]
            [(key.part % 3) as usize],
        limit_bytes: None,
        vital: false,
    }
}
