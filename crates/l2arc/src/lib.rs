//! The flash level of Warmfront: copies of the origin's records on cache devices.
//!
//! [`Flash`] is a pool's flash level. Each device is a ring of large segments that are written one
//! after the other, each in large writes; the index in RAM takes at most 16 bytes a record. What
//! the bytes on a device mean is in `docs/format.md`.
//!
//! ```
//! use std::sync::Arc;
//! use l2arc::{Admission, Compression, Flash, Key, Opening, Options};
//! use storage::{MemoryDevice, Simulation};
//!
//! let simulation = Simulation::new(1);
//! let flash = Flash::new(
//!     Options::default(),
//!     Arc::new(simulation.clone()),
//!     Arc::new(simulation.clone()),
//! );
//! let device = Arc::new(MemoryDevice::new(64 << 20, 4096));
//! let opening = Opening {
//!     pool: [1; 16],
//!     device: [2; 16],
//!     salt: [3; 16],
//!     life: 1,
//!     lives: None,
//!     wall_seconds: 0,
//!     force: false,
//!     empty: false,
//! };
//! simulation.run(async {
//!     flash.add(device, &opening).await.expect("a blank device");
//!     flash.recovered().await;
//!     let key = Key { object: 7, generation: 1, part: 0 };
//!     let admission = Admission {
//!         stamp: flash.stamp(key.object),
//!         tenant: 0,
//!         metadata: false,
//!         touches: 2,
//!         compression: Compression::Lz4,
//!         limit_bytes: None,
//!         vital: false,
//!     };
//!     flash.admit(&key, &[9; 4096], &admission).expect("there is room");
//!     let mut record = [0; 4096];
//!     assert_eq!(flash.read(&key, &mut record, None).await, Ok(4096));
//!     assert_eq!(record, [9; 4096]);
//!     flash.kill(&[key]).await.expect("the device works");
//!     assert!(flash.read(&key, &mut record, None).await.is_err());
//! });
//! ```

mod buffers;
mod cipher;
mod compression;
mod directory;
mod doorkeeper;
mod error;
mod flash;
mod health;
mod index;
mod journal;
mod key;
mod lanes;
mod layout;
mod location;
mod options;
mod rate;
mod record;
mod refused;
mod reserves;
mod ring;
mod stamps;
mod statistics;
mod superblock;
mod wear;

pub use cipher::{CIPHER_KEY_BYTES, Cipher};
pub use compression::Compression;
pub use error::{AddError, NotDurable};
pub use flash::{Admission, Detached, Flash, Opening};
pub use health::{Bypass, Failures, Slower};
pub use key::Key;
pub use location::RINGS_MAX;
pub use options::Options;
pub use refused::{Miss, Refused};
pub use ring::Opened;
pub use stamps::Stamp;
pub use statistics::{Condition, RingStatistics, Statistics};
