//! A cache device that something else has written on: it is opened or refused, what it holds is
//! served or not, and it can be used afterwards. Checksums are not compared while fuzzing.
#![no_main]

use std::sync::{Arc, OnceLock};

use l2arc::{Admission, Compression, Flash, Key, Opening, Options};
use libfuzzer_sys::fuzz_target;
use storage::{Clock, MemoryDevice, Simulation};

/// Bytes of the device.
const DEVICE_BYTES: usize = 2 << 20;
/// Records on it before something else writes there.
const RECORDS: u64 = 40;
/// Bytes of a change: where, how long it is, and what it becomes.
const CHANGE_BYTES: usize = 4;

fuzz_target!(|input: &[u8]| run(input));

fn run(input: &[u8]) {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    let mut image = IMAGE.get_or_init(image).clone();
    for change in input.chunks_exact(CHANGE_BYTES) {
        // The parts that say what the rest means are small and lie in front.
        let place = u32::from_le_bytes([change[0], change[1], change[2] & 31, 0]) as usize;
        let length = 1 + usize::from(change[2] >> 5);
        let end = (place + length).min(image.len());
        image[place..end].fill(change[3]);
    }
    let simulation = Simulation::new(1);
    let flash = flash(&simulation);
    let device = Arc::new(MemoryDevice::with_image(image, 4096));
    if simulation.run(flash.add(device, &opening(2))).is_err() {
        return;
    }
    simulation.run(async {
        flash.recovered().await;
        let mut into = vec![0; 8192];
        for part in 0..RECORDS {
            // What comes is not compared: checksums would have.
            let _ = flash.read(&key(part), &mut into, None).await;
        }
        flash.kill(&[key(1), key(RECORDS + 1)]).await.expect("memory works");
        let mut taken = 0;
        for part in 100..140 {
            taken += u32::from(admit(&flash, part).is_ok());
        }
        flash.settle().await;
        flash.validate();
        let served = flash.read(&key(139), &mut into, None).await;
        assert!(taken == 0 || flash.statistics().records > 0 || served.is_err());
        flash.stop().await;
    });
}

fn image() -> Vec<u8> {
    let simulation = Simulation::new(1);
    let flash = flash(&simulation);
    let device = Arc::new(MemoryDevice::new(DEVICE_BYTES, 4096));
    simulation.run(async {
        flash.add(device.clone(), &opening(1)).await.expect("a blank device");
        flash.recovered().await;
        for part in 0..RECORDS {
            admit(&flash, part).expect("there is room");
            flash.settle().await;
        }
        flash.kill(&[key(3)]).await.expect("memory works");
        flash.kill_object(9).await.expect("memory works");
        flash.stop().await;
    });
    device.image()
}

fn flash(simulation: &Simulation) -> Flash {
    let options = Options {
        segment_bytes: Some(64 << 10),
        chunk_bytes: 16 << 10,
        buffers_bytes_max: 256 << 10,
        dwpd_hundredths: None,
        second_touch: false,
        ..Options::default()
    };
    let clock: Arc<dyn Clock> = Arc::new(simulation.clone());
    Flash::new(options, clock, Arc::new(simulation.clone()))
}

fn opening(life: u128) -> Opening {
    Opening {
        pool: [1; 16],
        device: [life as u8; 16],
        salt: [life as u8; 16],
        life,
        lives: None,
        wall_seconds: 1_000_000,
        force: true,
        empty: false,
    }
}

fn key(part: u64) -> Key {
    Key { object: 7, generation: 1, part }
}

fn admit(flash: &Flash, part: u64) -> Result<(), l2arc::Refused> {
    let admission = Admission {
        stamp: flash.stamp(7),
        tenant: 0,
        metadata: false,
        vital: false,
        touches: 2,
        compression: Compression::Lz4,
        limit_bytes: None,
    };
    let contents: Vec<u8> = (0..4000_u64).map(|at| (at * part % 251) as u8).collect();
    flash.admit(&key(part), &contents, &admission)
}
