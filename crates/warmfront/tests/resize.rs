//! A cache of a program's own values that is made smaller, or emptied: the memory comes back to
//! the system. One test only, since all tests of a program share its memory.

#![cfg(target_env = "gnu")]

use std::sync::Arc;

use warmfront::cache::Cache;

const MIB: u64 = 1 << 20;

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number") * rustix::param::page_size() as u64
}

#[test]
fn what_a_smaller_cache_drops_comes_back_to_the_system() {
    let value_bytes = 4 << 10;
    let cache = Cache::<u64, Arc<Vec<u8>>>::builder()
        .capacity_bytes(256 * MIB)
        .weigher(|_, value| value.capacity() as u64)
        .build()
        .expect("a cache");
    let fill = || {
        for key in 0..(240 * MIB / value_bytes) {
            cache.insert(key, Arc::new(vec![1; value_bytes as usize])).expect("it fits");
        }
        let full = resident_bytes();
        assert!(full > 240 * MIB, "{full} bytes are resident");
    };
    let is_given_back = |how: &str| {
        let resident = resident_bytes();
        assert!(resident < 64 * MIB, "{how}: {} MiB are resident", resident / MIB);
    };
    fill();
    assert!(cache.resize(32 * MIB) > 200 * MIB);
    is_given_back("resized");
    cache.resize(256 * MIB);
    fill();
    (0..=28).for_each(|step| _ = cache.resize((256 - 8 * step) * MIB));
    is_given_back("resized in steps");
    cache.resize(256 * MIB);
    fill();
    assert!(cache.clear() > 0);
    is_given_back("cleared");
    cache.validate().expect("sums hold");
}
