use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::RwLock;

/// The share of all space that reserves may have together: one in so many bytes. What is reserved
/// is written anew each time the hand comes round, so the more there is of it, the more is written
/// for each record that comes in.
const SHARE: u64 = 2;

/// Bytes on flash that the records of others may not push out, by dataset.
#[derive(Default)]
pub(crate) struct Reserves {
    bytes: RwLock<HashMap<u16, u64>>,
    any: AtomicBool,
    /// Bytes for records on all devices.
    data_bytes: AtomicU64,
}

impl Reserves {
    /// Sets a dataset's reserve; zero is none.
    pub(crate) fn set(&self, tenant: u16, bytes: u64) {
        let mut table = self.bytes.write();
        match bytes {
            0 => drop(table.remove(&tenant)),
            bytes => drop(table.insert(tenant, bytes)),
        }
        self.any.store(!table.is_empty(), Ordering::Relaxed);
    }

    /// Takes note of how much space there is.
    pub(crate) fn resize(&self, data_bytes: u64) {
        self.data_bytes.store(data_bytes, Ordering::Relaxed);
    }

    /// How much space there is, bytes.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes.load(Ordering::Relaxed)
    }

    /// What may be reserved in all, bytes.
    pub(crate) fn reservable_bytes(&self) -> u64 {
        self.data_bytes() / SHARE
    }

    /// Whether anything is reserved.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// What of a dataset's reserve falls to a device with `data_bytes`: its share of the space, as
    /// records are spread. If more is reserved than may be, as when a device is gone, each reserve
    /// is cut in proportion.
    pub(crate) fn of(&self, tenant: u16, data_bytes: u64) -> u64 {
        let granted = u128::from(self.granted(tenant));
        let space = self.data_bytes().max(data_bytes).max(1);
        let here = granted * u128::from(data_bytes) / u128::from(space);
        here.try_into().unwrap_or(u64::MAX)
    }

    /// What of a dataset's reserve is in force, on all devices together, bytes.
    pub(crate) fn granted(&self, tenant: u16) -> u64 {
        let table = self.bytes.read();
        let Some(bytes) = table.get(&tenant) else { return 0 };
        let all: u128 = table.values().map(|bytes| u128::from(*bytes)).sum();
        let granted = u128::from(*bytes) * u128::from(self.reservable_bytes()).min(all) / all;
        granted.try_into().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_are_spread_over_devices_and_cut_to_what_there_is() {
        let reserves = Reserves::default();
        assert!(!reserves.any() && reserves.of(1, 100) == 0);
        reserves.resize(1000);
        reserves.set(1, 100);
        reserves.set(2, 300);
        assert_eq!(reserves.reservable_bytes(), 500);
        assert_eq!([reserves.of(1, 250), reserves.of(1, 750), reserves.of(2, 1000)], [25, 75, 300]);
        reserves.resize(200);
        assert_eq!([reserves.of(1, 200), reserves.of(2, 200)], [25, 75]);
        reserves.set(1, 0);
        reserves.set(2, u64::MAX);
        assert_eq!([reserves.of(1, 200), reserves.of(2, 200)], [0, 100]);
        reserves.set(2, 0);
        assert!(!reserves.any());
    }
}
