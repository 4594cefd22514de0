use std::sync::Arc;
use std::time::Duration;

use lab::machine::{Machine, MachineParameters, Step, Steps};
use parking_lot::Mutex;

/// The machine with which the source's random reads are repeated.
const MACHINE: &str = "storage-server-2019";
const REQUEST_BYTES: u64 = 4096;
const CLIENTS: u64 = 12;
const THREADS_EACH: usize = 16;
/// Blocks of each client's file: with the machine's divisor, what 100 GiB are.
const BLOCKS_EACH: u64 = 100 << (30 - 10 - 12);
/// What brings the files in reads so many bytes at a time.
const WARMING_BYTES: u64 = 128 << 10;
/// Virtual time of a round.
const ROUND: Duration = Duration::from_millis(1500);

/// The engine on a modelled machine, warm, with clients that read at random places.
pub(crate) struct Engine {
    machine: Arc<Machine>,
    threads: Vec<Steps>,
}

impl Engine {
    /// Builds the machine and reads `share_percent` of each file, of which the clients then ask for
    /// all. A small share fits into RAM whole.
    pub(crate) fn prepare(share_percent: u64) -> Result<Engine, String> {
        let parameters = MachineParameters::shipped(MACHINE).map_err(|error| error.to_string())?;
        let machine = Machine::new(&parameters, 1).map_err(|error| error.to_string())?;
        let blocks = BLOCKS_EACH * share_percent / 100;
        let threads = (0..CLIENTS).flat_map(|client| {
            let file = machine.file(&client.to_string(), BLOCKS_EACH * REQUEST_BYTES);
            let mut next = 0;
            let whole = file.clone();
            let warming: Steps = Arc::new(Mutex::new(move || {
                let offset = next;
                next += WARMING_BYTES;
                let bytes = WARMING_BYTES;
                let step = Step { file: whole.clone(), offset, bytes, write: false };
                (offset < blocks * REQUEST_BYTES).then_some(step)
            }));
            machine.load(&vec![warming; THREADS_EACH], None);
            let mut random = storage::Random::new(client);
            let steps: Steps = Arc::new(Mutex::new(move || {
                let offset = random.below(blocks) * REQUEST_BYTES;
                let bytes = REQUEST_BYTES;
                Some(Step { file: file.clone(), offset, bytes, write: false })
            }));
            std::iter::repeat_n(steps, THREADS_EACH)
        });
        let threads = threads.collect();
        Ok(Engine { machine, threads })
    }

    /// Thousand requests that were simulated in a second of the processor, and the share of them
    /// that RAM answered.
    pub(crate) fn rate(&self) -> (f64, f64) {
        let before = self.hits();
        let started = crate::cpu_seconds();
        let tally = self.machine.load(&self.threads, Some(ROUND));
        let seconds = crate::cpu_seconds() - started;
        let hits = (self.hits() - before) as f64;
        // Some that RAM answers are still under way when the round ends.
        let share = (hits / tally.operations as f64).min(1.0);
        (tally.operations as f64 / 1e3 / seconds, 100.0 * share)
    }

    fn hits(&self) -> u64 {
        self.machine.counter("demand_data_hits")
    }
}
