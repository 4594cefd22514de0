//! A log in a simulation, and records that tell which they are.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use storage::{Clock, Device, ObjectId, Random, RenameFlags, Simulation, Timestamp};
use zil::{
    Log, Made, Name, OpenError, Opening, Options, Place, Position, Record, Recovery, ReplayError,
};

/// Small, so that rings come round soon.
pub fn options() -> Options {
    Options {
        block_bytes_max: 16 << 10,
        buffer_bytes_max: 64 << 10,
        full_wait: std::time::Duration::from_millis(50),
        ..Options::default()
    }
}

/// A device for these options, with sixteen of the longest blocks.
pub const DEVICE_BYTES: usize = (128 << 10) + (256 << 10);

pub fn opening(life: u64) -> Opening {
    let seed = (0x9e37_79b9_7f4a_7c15_u128.wrapping_mul(u128::from(life) + 1)).to_le_bytes();
    Opening { pool: [1; 16], log: [2; 16], seed, force: false }
}

/// What a record is made of; another one for each number.
pub struct Sample {
    path: OsString,
    data: Vec<u8>,
    number: u64,
}

pub fn sample(number: u64) -> Sample {
    let mut random = Random::new(number);
    let length = match random.below(10) {
        0 => random.below(12_000),
        1..4 => 4096,
        _ => random.below(600),
    };
    // Files often have zeros.
    let byte = |random: &mut Random| if number.is_multiple_of(3) { 0 } else { random.draw() as u8 };
    let data = (0..length).map(|_| byte(&mut random)).collect();
    Sample { path: format!("directory/{number}").into(), data, number }
}

impl Sample {
    pub fn record(&self) -> Record<'_> {
        let Sample { path, data, number } = self;
        let object = ObjectId(*number);
        let born = Some(Timestamp { seconds: *number as i64, nanoseconds: 7 });
        let file = Place { object, born, path };
        let name = Name { parent: file, name: OsStr::new("name") };
        match number % 7 {
            0 => Record::Truncate { file, size: *number },
            1 => Record::Rename {
                object: file.identity(),
                from: name,
                to: name,
                replaced: (number % 2 == 0).then_some(file.identity()),
                is_last: number % 3 == 0,
                flags: RenameFlags::empty(),
            },
            2 => Record::Create(Made { name, object, born, permissions: 0o644, uid: 1, gid: 2 }),
            _ => Record::Write { file, offset: *number, data },
        }
    }
}

pub fn encoded(record: &Record<'_>) -> Vec<u8> {
    let mut bytes = vec![0; record.encoded_bytes().expect("short enough")];
    record.encode(&mut bytes);
    bytes
}

pub fn clock(simulation: &Simulation) -> Arc<dyn Clock> {
    Arc::new(simulation.clone())
}

/// A log on a new device.
pub async fn format(simulation: &Simulation, device: Arc<dyn Device>, options: Options) -> Log {
    let log = Log::format(device, opening(0), options, clock(simulation)).await;
    log.expect("a blank device")
}

pub async fn open(
    simulation: &Simulation,
    device: Arc<dyn Device>,
    life: u64,
) -> Result<Recovery, OpenError> {
    Log::open(device, opening(life), options(), clock(simulation)).await
}

/// Appends the sample of each number, and commits them together.
pub async fn commit(log: &Log, numbers: impl IntoIterator<Item = u64>) -> Position {
    let mut last = Position::NONE;
    for number in numbers {
        last = log.append(&sample(number).record()).await.expect("there is room");
    }
    log.commit(last).await.expect("the device works");
    last
}

/// All that is left of a log: positions, and the bytes of the records.
pub async fn rest(recovery: &mut Recovery) -> Result<Vec<(u64, Vec<u8>)>, ReplayError> {
    let mut all = Vec::new();
    while let Some((position, record)) = recovery.next().await? {
        all.push((position.0, encoded(&record)));
    }
    Ok(all)
}

/// The records of samples, at positions from `first` on.
pub fn expected(first: u64, numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, Vec<u8>)> {
    let all = numbers.into_iter().zip(first..);
    all.map(|(number, position)| (position, encoded(&sample(number).record()))).collect()
}
