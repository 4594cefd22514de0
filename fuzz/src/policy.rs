//! Operations on a policy, read from bytes: after each one every sum is recounted, and the bound
//! holds.
#![no_main]

use std::time::Duration;

use arc::{Charge, Class, Kind, List, Options, Policy, PolicyKind, Share};
use libfuzzer_sys::fuzz_target;

/// Largest capacity that an input asks for, bytes.
const CAPACITY_MAX: u64 = 1 << 15;

/// Most operations of an input: more take longer and find no more.
const OPERATIONS_MAX: usize = 200;

/// Bytes that one operation is read from.
const OPERATION_BYTES: usize = 5;

fuzz_target!(|input: &[u8]| run(input));

/// Splits the input in a head, which says how the policy is made, and operations.
fn run(input: &[u8]) {
    let Some((&[flags, high, low], operations)) = input.split_first_chunk() else { return };
    let window = if flags & 1 == 0 { Duration::ZERO } else { arc::CORRELATED_WINDOW };
    let options = Options {
        charge_overhead: flags & 2 == 0,
        correlated_window: window,
        policy: if flags & 8 == 0 { PolicyKind::Auto } else { PolicyKind::Arc },
        ..Options::new(u64::from(u16::from_be_bytes([high, low])) % CAPACITY_MAX)
    };
    let mut policy = Policy::new(&options);
    // Few hashes for many keys: their ghosts are taken for each other.
    let mask = if flags & 4 == 0 { u64::MAX } else { 0x0F };
    let mut now = Duration::from_secs(1);
    let operations = operations.chunks_exact(OPERATION_BYTES).take(OPERATIONS_MAX);
    for (version, operation) in operations.enumerate() {
        step(&mut policy, operation, version as u32, mask, &mut now);
        if let Err(why) = policy.validate() {
            panic!("after operation {version}: {why}");
        }
        assert!(policy.charged_bytes() <= policy.capacity_bytes(), "after operation {version}");
    }
}

/// Does one operation.
fn step(policy: &mut Policy<u8, u32>, bytes: &[u8], version: u32, mask: u64, now: &mut Duration) {
    let &[operation, key, detail, high, low] = bytes else { return };
    let hash = u64::from(key & mask as u8).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let size = u64::from(u16::from_be_bytes([high, low]));
    let class = Class::ALL[usize::from(detail & 1)];
    let kind =
        [Kind::Demand, Kind::Prefetch, Kind::Prime, Kind::Demand][usize::from(detail >> 1 & 3)];
    let charge = Charge { bytes: size, class, kind, tenant: u32::from(detail >> 3 & 7) };
    let before = policy.peek(hash, &key);
    let resident = policy.len();
    let mut gone = Vec::new();
    match operation % 19 {
        0..=4 => {
            let inserted = policy.insert(hash, key, version, charge, *now, &mut gone);
            let after = inserted.is_ok().then_some(version);
            assert_eq!(policy.peek(hash, &key), after, "the new value or none");
            let came = usize::from(after.is_some());
            assert_eq!(policy.len() + gone.len(), resident + came, "no value is lost");
        }
        5..=9 => assert_eq!(policy.get(hash, &key, *now), before),
        10 => {
            let replaced = policy.replace(hash, &key, version, size, &mut gone);
            let after = (replaced == Ok(true)).then_some(version);
            assert_eq!(policy.peek(hash, &key), after, "the new value or none");
        }
        11 => {
            assert_eq!(policy.remove(hash, &key), before);
            assert!(!policy.contains(hash, &key));
        }
        12 => assert_eq!(policy.demote(hash, &key), before.is_some()),
        13 => {
            policy.set_capacity(size % CAPACITY_MAX, &mut gone);
            assert_eq!(policy.len() + gone.len(), resident, "no value is lost");
        }
        14 => {
            policy.retain(|other, _| other % 4 != key % 4, &mut gone);
            assert!(!policy.contains(hash, &key));
            assert_eq!(policy.len() + gone.len(), resident, "no value is lost");
        }
        15 => *now += Duration::from_micros(size * 4),
        16 => {
            let share = Share { reserve_bytes: size, limit_bytes: size * u64::from(detail) };
            policy.set_share(usize::from(key & 3) + 1, share);
        }
        17 => {
            let list = List::ALL[usize::from(key) % List::ALL.len()];
            let (mut first, mut again) = (Vec::new(), Vec::new());
            policy.offer(list, size, usize::from(detail), &mut first);
            policy.offer(list, size, usize::MAX, &mut again);
            assert!(first.len() <= usize::from(detail), "no more than was asked for");
            for offer in &first {
                assert!(policy.newest(list).any(|(key, _)| *key == offer.key));
                assert!(again.iter().all(|other| other.key != offer.key), "offered twice");
            }
        }
        _ => {
            // A partition is known once it has a share.
            policy.set_share(usize::from(key & 3) + 1, Share::FREE);
            policy.assign(charge.tenant, usize::from(key & 3) + 1);
        }
    }
}
