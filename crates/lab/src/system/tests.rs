use super::*;

const MIB: u64 = 1 << 20;

fn ufs(change: impl FnOnce(&mut UfsParameters)) -> Ufs {
    let text = "memory_bytes = 8_388_608\nsegmap_percent = 12\nmaxcontig = 16\n\
                cachelist = true\nfreebehind = false\nforcedirectio = false\n";
    let mut parameters = toml::from_str(text).expect("well formed");
    change(&mut parameters);
    Ufs::new(&parameters, 64 * MIB)
}

fn zfs(change: impl FnOnce(&mut Zfs2009Parameters)) -> Zfs2009 {
    let text = "arc_bytes = 8_388_608\nrecord_bytes = 8192\nprefetch = true\n\
                keeps_streams = false\nvdev_cache_bytes = 0\nvdev_cache_bshift = 16\n";
    let mut parameters = toml::from_str(text).expect("well formed");
    change(&mut parameters);
    Zfs2009::new(&parameters, 64 * MIB).expect("it fits together")
}

/// Bytes asked of the disk for reads of `piece` bytes through so many from `offset` on.
fn stream(system: &mut dyn MemorySystem, offset: u64, bytes: u64, piece: u64) -> u64 {
    let of = |requests: &[Request]| requests.iter().map(|it| it.bytes).sum::<u64>();
    (offset..offset + bytes)
        .step_by(piece as usize)
        .map(|at| {
            let fetches = system.read(at, piece);
            assert_eq!(system.validate(), Ok(()));
            of(&fetches.demanded) + of(&fetches.ahead)
        })
        .sum()
}

#[test]
fn ufs_keeps_what_fell_out_of_segmap_while_memory_is_free() {
    let mut system = ufs(|_| ());
    assert_eq!(stream(&mut system, 0, 4 * MIB, 65_536), 4 * MIB + 128 * 1024);
    assert_eq!(stream(&mut system, 0, 4 * MIB, 65_536), 0, "four times what segmap maps");
    stream(&mut system, 16 * MIB, 16 * MIB, 65_536);
    assert_eq!(system.cached_bytes(), 8 * MIB, "no more than there is");
    assert!(stream(&mut system, 0, MIB, 65_536) >= MIB);
}

#[test]
fn ufs_lets_streams_go_and_reads_past_the_cache_when_told() {
    let mut system = ufs(|parameters| parameters.freebehind = true);
    stream(&mut system, 0, 32 * MIB, 65_536);
    assert!(system.cached_bytes() < MIB, "{}", system.cached_bytes());
    let mut system = ufs(|parameters| parameters.forcedirectio = true);
    assert_eq!(stream(&mut system, 0, MIB, 4096), MIB);
    assert_eq!(stream(&mut system, 0, MIB, 4096), MIB);
    assert_eq!(system.cached_bytes(), 0);
}

#[test]
fn ufs_reads_clusters_ahead_of_streams_only() {
    let mut system = ufs(|_| ());
    assert_eq!(system.read(8 * MIB, 8192).ahead, []);
    let fetches = system.read(8 * MIB + 8192, 8192);
    assert_eq!(fetches.ahead, [Request::read(8 * MIB + 16_384, 16 * 8192)]);
    assert_eq!(system.read(8 * MIB + 16_384, 8192).demanded, []);
}

#[test]
fn the_zfs_of_then_lets_streams_pass() {
    let mut system = zfs(|_| ());
    let read = stream(&mut system, 0, 4 * MIB, 8192);
    assert_eq!(read, 4 * MIB + AHEAD);
    assert!(system.cached_bytes() < MIB / 4, "{}", system.cached_bytes());
    let mut system = zfs(|parameters| parameters.keeps_streams = true);
    stream(&mut system, 0, 4 * MIB, 8192);
    assert_eq!(system.cached_bytes(), 4 * MIB + AHEAD);
    let mut system = zfs(|parameters| parameters.prefetch = false);
    assert!(system.read(0, 8192).ahead.is_empty() && system.read(8192, 8192).ahead.is_empty());
    assert!(system.read(16_384, 8192).ahead.is_empty());
}

/// Eight records beyond the end of a stream.
const AHEAD: u64 = 8 * 8192;

#[test]
fn the_cache_of_a_device_makes_small_reads_large() {
    let read = |bytes: u64, bshift: u32| {
        let mut system = zfs(|parameters| {
            (parameters.vdev_cache_bytes, parameters.vdev_cache_bshift) = (bytes, bshift);
        });
        system.read(10 * MIB + 8192, 8192).demanded
    };
    assert_eq!(read(0, 16), [Request::read(10 * MIB + 8192, 8192)]);
    assert_eq!(read(10 * MIB, 13), [Request::read(10 * MIB + 8192, 8192)]);
    assert_eq!(read(10 * MIB, 16), [Request::read(10 * MIB, 65_536)]);
    let mut system = zfs(|parameters| parameters.vdev_cache_bytes = 10 * MIB);
    assert_eq!(system.read(10 * MIB + 8192, 8192).demanded.len(), 1);
    assert_eq!(system.read(10 * MIB + 24_576, 8192).demanded, [], "it came with the first");
    let large = Zfs2009Parameters {
        record_bytes: std::num::NonZeroU64::new(131_072).expect("not zero"),
        ..system.parameters().clone()
    };
    let mut system = Zfs2009::new(&large, 64 * MIB).expect("it fits together");
    assert_eq!(system.read(MIB, 8192).demanded, [Request::read(MIB, 131_072)]);
    let shift = Zfs2009Parameters { vdev_cache_bshift: 3, ..large };
    assert!(Zfs2009::new(&shift, MIB).is_err_and(|error| error.contains("from 9 to 24")));
}

#[test]
fn memory_for_applications_is_forgotten_by_ufs_and_freed_by_zfs() {
    let mut system = ufs(|_| ());
    stream(&mut system, 0, 8 * MIB, 65_536);
    assert_eq!((system.leave(6 * MIB), system.cached_bytes()), (0, 6 * MIB));
    assert_eq!(system.leave(MIB / 2), 122 * 8192 - MIB / 2, "segmap too, if nothing else is left");
    assert_eq!((system.cached_bytes(), system.validate()), (MIB / 2, Ok(())));
    let mut system = ufs(|parameters| parameters.cachelist = false);
    stream(&mut system, 0, 8 * MIB, 65_536);
    assert_eq!(system.cached_bytes(), 122 * 8192, "12 %");
    assert_eq!(system.leave(6 * MIB), 0);

    let mut system = zfs(|parameters| parameters.keeps_streams = true);
    stream(&mut system, 0, 32 * MIB, 8192);
    assert_eq!(system.leave(9 * MIB), 0, "it has no more than 8");
    assert_eq!((system.leave(6 * MIB), system.cached_bytes()), (2 * MIB, 6 * MIB));
    assert_eq!(system.validate(), Ok(()));
    system.leave(8 * MIB);
    stream(&mut system, 0, 32 * MIB, 8192);
    assert_eq!((system.cached_bytes(), system.validate()), (8 * MIB, Ok(())));
}

#[test]
fn clients_wait_for_disks_for_each_other_and_for_the_processor() {
    use crate::model::{Equipment, Processor};
    let Ok(Equipment::Processor(processor)) = Equipment::shipped("processor") else {
        panic!("a processor comes with the lab")
    };
    let disk = || {
        let disk = Equipment::shipped("sas-10k").expect("shipped");
        disk.build("sas-10k", 1).expect("it can be built")
    };
    let system = Box::new(ufs(|_| ()));
    let mut server = Server::new(system, disk(), Processor::new(&processor));
    // All read the same: one read of the disk, and all wait for it.
    let mut left = 4;
    let mut same = || {
        left -= 1;
        (left >= 0).then_some((MIB, 8192))
    };
    server.load(4, &mut same);
    let served = server.served();
    assert_eq!((served.reads, served.found_in_memory, server.disk_bytes()), (4, 0, 8192));
    assert!(served.response_ns / 4 > 1_000_000, "a disk turns: {served:?}");
    // Again: all is found, and takes what the processor takes.
    let (mut left, begun) = (1000, server.now());
    server.load(4, &mut || {
        left -= 1;
        (left >= 0).then_some((MIB, 8192))
    });
    let found = server.served() - served;
    assert_eq!((found.reads, found.found_in_memory, server.disk_bytes()), (1000, 1000, 8192));
    let alone = Processor::new(&processor).work(0, 8192);
    let cores = u64::from(processor.cores.get()).min(4);
    assert_eq!(server.now() - begun, alone * 1000 / cores);
    // What is under way at the end of a span goes on in the next one.
    server.begin(1);
    let mut offsets = [(20 * MIB, 8192), (30 * MIB, 8192)].into_iter();
    let (begun, before) = (server.now(), server.served().reads);
    server.until(begun + 2 * alone, &mut || offsets.next());
    assert_eq!((server.now(), server.served().reads), (begun + 2 * alone, before));
    server.until(u64::MAX, &mut || offsets.next());
    assert_eq!(server.served().reads, before + 2);
}
