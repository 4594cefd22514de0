use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use storage::Random;

use super::*;
use crate::model::{Equipment, Positive, Queue};

fn parameters(name: &str) -> DiskParameters {
    match Equipment::shipped(name) {
        Ok(Equipment::Disk(parameters)) => parameters,
        other => panic!("{name} is not a disk: {other:?}"),
    }
}

fn disk(name: &str) -> Disk {
    Disk::new(&parameters(name)).expect("it can be built")
}

/// A file among the shared traces, unless there are none.
fn shared(name: &str) -> Option<PathBuf> {
    let directory = match std::env::var_os("WARMFRONT_SHARED") {
        Some(chosen) => PathBuf::from(chosen),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let file = directory.join("traces/disk").join(name);
    file.exists().then_some(file)
}

/// A request of a measured trace, its time on the real drive, and the pause after it.
struct Measured {
    request: Request,
    service_ms: f64,
    pause_ms: f64,
}

fn measured(file: &Path) -> Vec<Measured> {
    let mut text = String::new();
    let file = std::fs::File::open(file).expect("the trace can be opened");
    let mut decoder = zstd::Decoder::new(file).expect("it is compressed");
    decoder.read_to_string(&mut text).expect("it is text");
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| -> f64 { words[index].parse().expect("a number") };
        let (offset, bytes) = (number(2) as u64 * 512, number(3) as u64 * 512);
        let read = words[0] == "R";
        Measured {
            request: if read {
                Request::read(offset, bytes)
            } else {
                Request::write(offset, bytes)
            },
            service_ms: number(4) / 1e3,
            pause_ms: number(5) / 1e3,
        }
    };
    text.lines().map(parse).collect()
}

/// The root of the mean squared distance between two distributions, at 10,000 quantiles.
fn distance(mut one: Vec<f64>, mut other: Vec<f64>) -> f64 {
    one.sort_by(f64::total_cmp);
    other.sort_by(f64::total_cmp);
    let squares = (0..10_000).map(|step| {
        let quantile = |sorted: &[f64]| sorted[(sorted.len() - 1) * step / 9_999];
        (quantile(&one) - quantile(&other)).powi(2)
    });
    (squares.sum::<f64>() / 10_000.0).sqrt()
}

#[test]
fn service_times_are_distributed_as_on_real_drives() {
    for (name, trace) in [
        ("quantum-atlas-10k", "atlas10k.trace.zst"),
        ("seagate-cheetah-9lp", "cheetah9LP.trace.zst"),
    ] {
        let Some(file) = shared(trace) else {
            // Past the test harness, which would keep it to itself.
            let _ = writeln!(std::io::stderr(), "skipped: {name}: there is no {trace}");
            continue;
        };
        let requests = measured(&file);
        let mut disk = disk(name);
        let mut now = 0;
        let mut modelled = Vec::new();
        for measured in &requests {
            let done = disk.serve(now, measured.request).expect("it is served");
            modelled.push((done - now) as f64 / 1e6);
            now = done + (measured.pause_ms * 1e6) as Nanoseconds;
        }
        let real: Vec<f64> = requests.iter().map(|measured| measured.service_ms).collect();
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        let (real_mean, modelled_mean) = (mean(&real), mean(&modelled));
        let rms = distance(real, modelled);
        println!("{name}: rms {rms:.3} ms, mean {modelled_mean:.3} for {real_mean:.3} ms");
        assert!(rms <= 0.5, "{name}: {rms} ms");
    }
}

/// One disk without a cache that would help, and one sector read at random places, so often.
fn random_reads(reads: u32) -> (Vec<Served>, DiskParameters, Disk) {
    let parameters = parameters("quantum-atlas-10k");
    let mut disk = Disk::new(&parameters).expect("it can be built");
    let (sectors, mut random, mut now) = (disk.size_bytes() / 512, Random::new(5), 0);
    let mut served = Vec::new();
    for _ in 0..reads {
        let request = Request::read(random.below(sectors) * 512, 512);
        // The arm stays where it is only if nothing is read ahead.
        now = disk.serve(now, request).expect("it is served");
        disk.ahead = None;
        served.push(disk.served());
    }
    (served, parameters, disk)
}

#[test]
fn random_reads_seek_and_turn_as_long_as_theory_says() {
    let (served, parameters, disk) = random_reads(100_000);
    // The distribution of cylinders is that of sectors.
    let weights: Vec<(u32, f64)> = parameters
        .zones
        .iter()
        .flat_map(|zone| {
            let weight = f64::from(zone.sectors_per_track.get());
            (zone.first_cylinder..=zone.last_cylinder).map(move |cylinder| (cylinder, weight))
        })
        .collect();
    // Every sixteenth cylinder with every other one: as exact as is needed.
    let (mut sum, mut all) = (0.0, 0.0);
    for (from, from_weight) in weights.iter().step_by(16) {
        for (to, to_weight) in weights.iter().step_by(2) {
            let distance = from.abs_diff(*to);
            let time = if distance == 0 { 0.0 } else { parameters.seek.time_ns(distance) };
            sum += from_weight * to_weight * time;
            all += from_weight * to_weight;
        }
    }
    let missed: Vec<&Served> = served.iter().filter(|served| !served.cached).collect();
    assert!(missed.len() > 99_000);
    let mean = |part: fn(&Served) -> f64| -> f64 {
        missed.iter().map(|served| part(served)).sum::<f64>() / missed.len() as f64
    };
    let (seek, theory) = (mean(|served| served.seek_ns), sum / all);
    assert!((seek / theory - 1.0).abs() < 0.01, "{seek} for {theory}");
    let (turn, half) = (mean(|served| served.rotation_ns), disk.revolution_ns / 2.0);
    assert!((turn / half - 1.0).abs() < 0.01, "{turn} for {half}");
}

#[test]
fn reading_on_comes_at_the_speed_of_the_zone_less_the_skews() {
    let parameters = parameters("quantum-atlas-10k");
    let mut disk = Disk::new(&DiskParameters {
        // A bus that is never the limit.
        bus_ms_per_sector: Positive::try_from(1e-6).expect("above zero"),
        ..parameters.clone()
    })
    .expect("it can be built");
    let zone = &parameters.zones[0];
    let tracks = 600;
    let sectors = tracks * u64::from(zone.sectors_per_track.get());
    let mut now = 0;
    for start in (0..sectors).step_by(128) {
        let bytes = (sectors - start).min(128) * 512;
        now = disk.serve(now, Request::read(start * 512, bytes)).expect("it is served");
    }
    // Each track takes a revolution, and its skew; a sixth of them that of a cylinder.
    let skew = (zone.track_skew_sectors * 5.0 + zone.cylinder_skew_sectors) / 6.0;
    let turns = 1.0 + skew / f64::from(zone.sectors_per_track.get());
    let theory = tracks as f64 * turns * disk.revolution_ns;
    let ratio = now as f64 / theory;
    assert!((0.99..1.01).contains(&ratio), "{now} for {theory}");
}

#[test]
fn an_elevator_is_quicker_than_first_come_and_serves_all() {
    let time = |schedule| {
        let mut queue = Elevator::new(disk("seagate-cheetah-9lp"), schedule);
        let (sectors, mut random) = (queue.size_bytes() / 512, Random::new(9));
        let mut tickets = std::collections::BTreeSet::new();
        let mut submit = |queue: &mut Elevator, now| {
            tickets.insert(queue.submit(now, Request::read(random.below(sectors) * 512, 4096)))
        };
        for _ in 0..32 {
            submit(&mut queue, 0);
        }
        let (mut now, mut done) = (0, std::collections::BTreeSet::new());
        while let Some(due) = queue.due() {
            assert!(due >= now);
            now = due;
            let completion = queue.complete(now).expect("it is due");
            assert!(done.insert(completion.ticket), "once only");
            if done.len() < 2000 {
                submit(&mut queue, now);
            }
        }
        assert_eq!(done, tickets);
        now as f64
    };
    let first_come = time(Schedule::FirstCome);
    let [elevator, shortest] = [Schedule::Elevator, Schedule::ShortestSeek].map(time);
    assert!(elevator < 0.75 * first_come, "{elevator} {first_come}");
    assert!(shortest < 0.75 * first_come, "{shortest} {first_come}");
}

#[test]
fn writes_are_safe_after_a_flush_and_slow_without_a_cache() {
    let mut cached = disk("quantum-atlas-10k");
    let far = cached.size_bytes() / 2;
    let acknowledged = cached.serve(0, Request::write(far, 4096)).expect("it is served");
    let flushed = cached.serve(acknowledged, Request::flush()).expect("it is served");
    assert!(flushed > acknowledged + 4_000_000, "{acknowledged} {flushed}");
    let mut parameters = parameters("quantum-atlas-10k");
    parameters.cache.acknowledges_writes = false;
    let mut plain = Disk::new(&parameters).expect("it can be built");
    let done = plain.serve(0, Request::write(far, 4096)).expect("it is served");
    assert!(done >= flushed - 1_000_000, "{done} {flushed}");
    let read = cached.serve(flushed, Request::read(far, 4096)).expect("it is served");
    assert!(read < flushed + 2_000_000 && cached.served().cached);
}

#[test]
fn bad_geometry_is_named() {
    let good = parameters("quantum-atlas-10k");
    let said = |change: fn(&mut DiskParameters)| {
        let mut bad = good.clone();
        change(&mut bad);
        Disk::new(&bad).map(|_| ()).expect_err("it is refused")
    };
    assert!(said(|disk| disk.zones.clear()).contains("zones"));
    assert!(said(|disk| disk.zones[1].first_cylinder = 0).contains("does not follow"));
    assert!(said(|disk| disk.zones[0].spare_sectors = u32::MAX).contains("spare"));
    let curve = |text: &str| toml::from_str::<toml::Table>(text).expect("TOML")["seek"].clone();
    for (text, expected) in [
        ("seek = []", "begins with one"),
        ("seek = [[2, 1.0]]", "begins with one"),
        ("seek = [[1, 1.0], [1, 2.0]]", "goes up"),
        ("seek = [[1, 0]]", "above zero"),
    ] {
        let error = curve(text).try_into::<Seek>().expect_err("it is refused").to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

/// What its file says that long reads get.
#[test]
fn long_reads_get_what_tracks_and_skews_leave() {
    let Ok(Equipment::Disk(parameters)) = Equipment::shipped("sas-10k") else {
        panic!("a disk comes with the lab")
    };
    let bytes = 256 << 20;
    let rate = |outer: bool| {
        let mut disk = Disk::new(&parameters).expect("it can be built");
        let offset = if outer { 0 } else { disk.size_bytes() - bytes };
        let done = disk.serve(0, Request::read(offset, bytes)).expect("it is on the disk");
        bytes as f64 * 1e3 / done as f64
    };
    for (outer, mb_s) in [(true, 98.8), (false, 71.8)] {
        let rate = rate(outer);
        assert!((rate / mb_s - 1.0).abs() < 0.01, "{outer}: {rate}");
    }
}
