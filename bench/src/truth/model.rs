use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lab::machine::{Machine, MachineParameters, Step, Steps};
use parking_lot::Mutex;
use storage::Spawn;
use warmfront::OpenFile;

use super::calibration::Calibration;
use super::load::{Clients, Load, SETTINGS, SETTLE};
use super::{COUNTERS, Reached};

/// What brings the files in reads so many bytes at a time.
const WARMING_BYTES: u64 = 1 << 20;

/// Does a load in the lab, with devices as they were found to be.
pub(super) fn run(load: &Load, calibration: &Calibration) -> Result<Reached, String> {
    let text = machine(load, calibration);
    let message = |error: &dyn std::fmt::Display| error.to_string();
    let parameters = MachineParameters::parse("truth", &text).map_err(|error| message(&error))?;
    let machine = Machine::new(&parameters, 1).map_err(|error| message(&error))?;
    let files: Vec<Arc<OpenFile>> =
        load.clients.iter().map(|it| machine.file(it.file, it.file_bytes)).collect();
    for (clients, file) in load.clients.iter().zip(&files) {
        warm(&machine, clients, file.clone());
    }
    let count = Arc::new(AtomicU64::new(0));
    let end = machine.now() + SETTLE + load.measured;
    for (clients, file) in load.clients.iter().zip(&files) {
        for thread in 0..clients.threads {
            let requests = clients.requests(thread)?;
            let bytes = clients.request_bytes;
            let (machine, file, count) = (machine.clone(), file.clone(), count.clone());
            let (think, simulation) = (clients.think, machine.simulation().clone());
            simulation.spawn(Box::pin(async move {
                for request in requests {
                    match request.write {
                        true => machine.write(&file, request.offset, bytes).await,
                        false => drop(machine.read(&file, request.offset, bytes).await),
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                    if machine.now() >= end {
                        break;
                    }
                    if !think.is_zero() {
                        machine.sleep(think).await;
                    }
                }
            }));
        }
    }
    machine.run(machine.sleep(SETTLE));
    let before = (count.load(Ordering::Relaxed), counters(&machine));
    machine.run(machine.sleep(load.measured));
    let operations = count.load(Ordering::Relaxed) - before.0;
    let after = counters(&machine);
    // Those who are under way hold the machine.
    machine.run(machine.sleep(Duration::from_secs(60)));
    Ok(Reached::new(operations as f64 / load.measured.as_secs_f64(), before.1, after))
}

fn warm(machine: &Arc<Machine>, clients: &Clients, file: Arc<OpenFile>) {
    let (mut next, end) = (0, clients.file_bytes);
    let steps: Steps = Arc::new(Mutex::new(move || {
        let offset = next;
        next += WARMING_BYTES;
        let step = Step { file: file.clone(), offset, bytes: WARMING_BYTES, write: false };
        (offset < end).then_some(step)
    }));
    machine.load(&[steps], None);
}

fn counters(machine: &Machine) -> [u64; 4] {
    COUNTERS.map(|name| machine.counter(name))
}

fn machine(load: &Load, calibration: &Calibration) -> String {
    let settings = SETTINGS.iter().chain(&[("write", "back")]);
    let settings: Vec<String> =
        settings.map(|(name, value)| format!("{name} = {value:?}")).collect();
    let caches = load.flash_bytes.map_or(String::new(), |bytes| {
        let flash = &calibration.flash;
        format!(
            "[caches]\ndevice = \"measured\"\ncount = 1\nbytes = {bytes}\nsecond_touch = true\n\
             [equipment.measured.solid-state]\ncapacity_bytes = {bytes}\nchannels = {}\n\
             stripe_bytes = 65536\nread_us = {:.1}\nwrite_us = {:.1}\nread_mb_s = {:.1}\n\
             write_mb_s = {:.1}\nflush_us = {:.1}\ncommand_us = 1\n",
            flash.channels,
            flash.read_us,
            flash.write_us,
            flash.read_mb_s,
            flash.write_mb_s,
            flash.flush_us
        )
    });
    format!(
        "about = \"as measured\"\nmemory_bytes = {}\ndivisor = 1\n\
         disk = \"nearline-7200\"\nslow = {:?}\nsettings = {{ {} }}\n\
         [processor]\ncores = {}\noperation_us = {:.2}\ncopy_mb_s = {:.0}\n\
         [disks]\nmirrors = 1\nsides = 1\nrun_bytes = 131072\n{caches}",
        load.ceiling_bytes,
        load.slow,
        settings.join(", "),
        calibration.cores,
        calibration.operation_us,
        calibration.copy_mb_s,
    )
}
