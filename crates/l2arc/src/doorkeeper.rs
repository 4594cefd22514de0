use parking_lot::Mutex;

/// Fewest and most records that are remembered.
const SLOTS: (u64, u64) = (1 << 12, 1 << 20);
/// One is remembered for so many bytes of flash.
const BYTES_EACH: u64 = 128 << 10;

/// Remembers which records came by once, so that they come in the second time.
///
/// A table of prints, each at the place that its hash gives: a newer one takes the place of an
/// older one, so what came by long ago is forgotten. Four bytes a record.
#[derive(Default)]
pub(crate) struct Doorkeeper {
    prints: Mutex<Vec<u32>>,
}

impl Doorkeeper {
    /// Sets how much flash it stands before.
    pub(crate) fn resize(&self, flash_bytes: u64) {
        let slots = (flash_bytes / BYTES_EACH).clamp(SLOTS.0, SLOTS.1) as usize;
        let mut prints = self.prints.lock();
        if prints.len() != slots {
            *prints = vec![0; slots];
        }
    }

    /// Whether the record came by before; from now on it has.
    pub(crate) fn knows(&self, hash: u64) -> bool {
        let prints = &mut self.prints.lock();
        let slot = slot(prints, hash);
        prints.get_mut(slot).is_some_and(|it| std::mem::replace(it, print(hash)) == print(hash))
    }

    /// Whether the record came by before; asking changes nothing.
    pub(crate) fn has_seen(&self, hash: u64) -> bool {
        let prints = &self.prints.lock();
        prints.get(slot(prints, hash)) == Some(&print(hash))
    }

    /// RAM taken, bytes.
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.prints.lock().capacity() as u64 * 4
    }
}

fn slot(prints: &[u32], hash: u64) -> usize {
    (((hash >> 32) * prints.len() as u64) >> 32) as usize
}

fn print(hash: u64) -> u32 {
    hash as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_touch_comes_in_and_a_scan_does_not() {
        let doorkeeper = Doorkeeper::default();
        doorkeeper.resize(1 << 30);
        let mut random = storage::Random::new(5);
        let hashes: Vec<u64> = (0..1000).map(|_| random.draw()).collect();
        assert!(hashes.iter().all(|hash| !doorkeeper.knows(*hash)));
        let known = hashes.iter().filter(|hash| doorkeeper.knows(**hash)).count();
        // One in eight or so has lost its place to another.
        assert!(known > 800, "{known} of 1000 are known again");
        let seen = |hash: &&u64| doorkeeper.has_seen(**hash);
        let twice = [(); 2].map(|()| hashes.iter().filter(seen).count());
        assert!(twice[0] > 800 && twice[0] == twice[1], "asking changes nothing: {twice:?}");
        let strangers = (0..100_000).filter(|_| doorkeeper.knows(random.draw())).count();
        assert!(strangers < 10, "{strangers} of a scan came in");
        let known = hashes.iter().filter(|hash| doorkeeper.knows(**hash)).count();
        assert!(known < 100, "{known} are still known after a long scan");
    }
}
