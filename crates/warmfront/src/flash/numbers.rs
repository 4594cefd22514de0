use std::collections::HashMap;

use parking_lot::RwLock;
use xxhash_rust::xxh3::xxh3_64;

/// The numbers by which flash knows datasets.
///
/// A dataset's number is a hash of its name, so that it is the same after a restart, wherever the
/// device is taken. Where two have the same hash, the one that comes second gets the next number
/// that is free. A number is never given to another dataset until the pool is opened again.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    of: RwLock<HashMap<Box<str>, u16>>,
}

impl Numbers {
    /// The number of a dataset.
    pub(crate) fn of(&self, dataset: &str) -> u16 {
        if let Some(number) = self.of.read().get(dataset) {
            return *number;
        }
        let mut of = self.of.write();
        if let Some(number) = of.get(dataset) {
            return *number;
        }
        let hash = xxh3_64(dataset.as_bytes()) as u16;
        let free = (0..=u16::MAX)
            .map(|step| hash.wrapping_add(step))
            .find(|number| !of.values().any(|taken| taken == number));
        // With more datasets than numbers, some have to share.
        let Some(number) = free else { return hash };
        of.insert(dataset.into(), number);
        number
    }

    /// Datasets that have numbers, with these.
    pub(crate) fn all(&self) -> Vec<(Box<str>, u16)> {
        self.of.read().iter().map(|(name, number)| (name.clone(), *number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_datasets_have_one_number() {
        let names = |count: u32| (0..count).map(|number| format!("pool/{number}"));
        let numbers = Numbers::default();
        let mut given: Vec<u16> = names(3000).map(|name| numbers.of(&name)).collect();
        assert_eq!(given, names(3000).map(|name| numbers.of(&name)).collect::<Vec<_>>());
        let hashes = names(3000).map(|name| xxh3_64(name.as_bytes()) as u16);
        let as_hashed = hashes.zip(&given).filter(|(hash, number)| hash == *number).count();
        assert!((2500..3000).contains(&as_hashed), "{as_hashed} of 3000 have their hash");
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 3000);
        assert_eq!(numbers.all().len(), 3000);
    }
}
