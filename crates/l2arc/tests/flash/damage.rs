//! Whatever goes bad on a device: a miss, never wrong contents, never a panic.

use std::sync::Arc;

use l2arc::{AddError, Cipher, Opened, Options};
use proptest::prelude::*;
use storage::{MemoryDevice, Random};

use crate::common::{DEVICE_BYTES, Subject, key, opening, options};

fn keys() -> impl Iterator<Item = l2arc::Key> {
    (0..120).map(|part| key(1, part))
}

/// The image of a device with records, some of which were killed, after a stop or without one.
fn image(options: Options, stops: bool) -> Vec<u8> {
    let device = Arc::new(MemoryDevice::new(DEVICE_BYTES, 512));
    let subject = Subject::new(1, options);
    subject.add(device.clone(), &opening(1)).expect("added");
    subject.fill(keys());
    keys().filter(|key| key.part % 4 == 1).for_each(|key| subject.kill(&key));
    if stops {
        subject.simulation.run(subject.flash.stop());
    }
    device.image()
}

/// Starts on an image. No record that is served is another version, none is one that was killed.
fn check(image: Vec<u8>, options: Options) -> Result<usize, AddError> {
    let device = Arc::new(MemoryDevice::with_image(image, 512));
    let subject = Subject::new(2, options);
    subject.add(device, &opening(2))?;
    let killed = subject.present(keys().filter(|key| key.part % 4 == 1));
    assert_eq!(killed, 0, "a copy came back that was killed");
    let hits = subject.present(keys());
    subject.flash.validate();
    // It goes on working, whatever it found.
    subject.fill((0..60).map(|part| key(3, part)));
    subject.simulation.run(subject.flash.settle());
    subject.flash.validate();
    Ok(hits)
}

#[test]
fn a_whole_image_serves_what_was_not_killed() {
    for stops in [true, false] {
        let hits = check(image(options(), stops), options()).expect("added");
        assert!(hits > if stops { 89 } else { 80 }, "{hits} of 90");
    }
}

#[test]
fn any_flipped_bit_costs_a_record_at_most_a_few() {
    let cipher = Options { cipher: Some(Cipher::new(&[4; 32])), ..options() };
    for (seed, options) in [(1, options()), (2, cipher)] {
        let whole = image(options.clone(), false);
        let mut random = Random::new(seed);
        let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
        for _ in 0..400 {
            let mut image = whole.clone();
            image[used[random.below(used.len() as u64) as usize]] ^= 1 << random.below(8);
            check(image, options.clone()).expect("added");
        }
    }
}

#[test]
fn lost_and_misdirected_blocks_cost_records_only() {
    let whole = image(options(), false);
    let mut random = Random::new(3);
    // Behind superblocks and journal, which have copies of their own.
    let first = whole.len() / 512 / 2;
    for _ in 0..200 {
        let mut image = whole.clone();
        let mut block = || first + random.below((image.len() / 512 - first) as u64) as usize;
        let (from, to, lost) = (block(), block(), block());
        image.copy_within(from * 512..(from + 8).min(4096) * 512, to.min(4088) * 512);
        image[lost * 512..lost * 512 + 512].fill(0);
        check(image, options()).expect("added");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Noise anywhere: nothing is served that was not written, and nothing panics. (Tombstones may
    /// be lost to it, so what was killed is not asked for.)
    #[test]
    fn noise_never_becomes_a_record(seed: u64, stretches in 1..20_u64) {
        let mut image = image(options(), seed.is_multiple_of(2));
        let mut random = Random::new(seed);
        for _ in 0..stretches {
            let at = random.below(image.len() as u64) as usize;
            let length = random.below(20_000) as usize;
            let end = (at + length).min(image.len());
            image[at..end].iter_mut().for_each(|byte| *byte = random.draw() as u8);
        }
        let device = Arc::new(MemoryDevice::with_image(image, 512));
        let subject = Subject::new(seed, options());
        let force = l2arc::Opening { force: true, ..opening(2) };
        let opened = subject.add(device, &force).expect("added");
        let hits = subject.present(keys());
        prop_assert!(opened == Opened::Warm || hits == 0);
        subject.flash.validate();
    }
}
