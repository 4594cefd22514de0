//! Bytes that claim to be an intent log, a superblock and blocks: it is opened or refused, what it
//! holds is read or refused, and it can be used afterwards. Checksums are not compared while
//! fuzzing.
#![no_main]

use std::sync::Arc;

use futures::executor::block_on;
use libfuzzer_sys::fuzz_target;
use storage::{Clock, MemoryDevice, RealClock};
use zil::{End, Log, Opening, Options, Position, Record, Sync};

/// Bytes of the device.
const DEVICE_BYTES: usize = (128 + 128 + 4) << 10;
/// Bytes of a superblock, with which an input begins.
const SUPERBLOCK_BYTES: usize = 152;
/// Where its epoch, address, block, first, released and durable record stand, 8 bytes each.
const NUMBERS: [usize; 6] = [64, 96, 104, 112, 128, 136];
/// From 2^62 on a number is refused. No log gets there by counting, so what one that says it is
/// there does next is not asked.
const NUMBER_MAX: u64 = 1 << 61;
/// Where the superblock lies.
const SLOT: usize = 32 << 10;
/// Where the blocks lie, with which it goes on.
const RING: usize = 128 << 10;
/// Pages begin as blank ones do; the last one follows the ring.
const PAGE_BYTES: usize = 4096;

fuzz_target!(|input: &[u8]| block_on(run(input)));

async fn run(input: &[u8]) {
    let Some((superblock, ring)) = input.split_at_checked(SUPERBLOCK_BYTES) else { return };
    let number = |at: &usize| superblock[*at..][..8].try_into().map(u64::from_le_bytes);
    if NUMBERS.iter().any(|at| number(at).is_ok_and(|number| number > NUMBER_MAX)) {
        return;
    }
    let mut image = vec![0; DEVICE_BYTES];
    for page in image[RING..].chunks_exact_mut(PAGE_BYTES) {
        page[..8].copy_from_slice(b"WARMFNIL");
    }
    image[SLOT..SLOT + SUPERBLOCK_BYTES].copy_from_slice(superblock);
    let length = ring.len().min(DEVICE_BYTES - PAGE_BYTES - RING);
    image[RING..RING + length].copy_from_slice(&ring[..length]);
    let device = Arc::new(MemoryDevice::with_image(image, 512));
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let opening = Opening { pool: [1; 16], log: [2; 16], seed: [3; 16], force: true };
    let options = Options { sync: Some(Sync::Flush), ..Options::default() };
    let opened = Log::open(device.clone(), opening, options.clone(), clock.clone()).await;
    let Ok(mut recovery) = opened else { return };
    let found = recovery.found().clone();
    let mut last = Position(found.first.0 - 1);
    let whole = loop {
        match recovery.next().await {
            Ok(Some((position, record))) => {
                assert_eq!(position.0, last.0 + 1, "in order");
                assert!(!record.to_string().is_empty());
                last = position;
            }
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    assert!(last <= found.last && (!whole || last == found.last), "{last:?} of {found:?}");
    recovery.applied(last).await.expect("memory works");
    let finished = match whole && found.end == End::Whole {
        true => recovery.finish().await,
        false => recovery.discard().await,
    };
    if matches!(found.end, End::Cut { .. }) {
        assert!(finished.is_err(), "there is no room for it");
        return;
    }
    let log = finished.expect("memory works");
    let position = log.append(&Record::Committed { txg: 7 }).await.expect("it is empty");
    log.commit(position).await.expect("memory works");
    log.validate();
    let again = Log::open(device, opening, options, clock).await;
    let mut again = again.expect("it was written just now");
    assert_eq!(again.next().await, Ok(Some((position, Record::Committed { txg: 7 }))));
}
