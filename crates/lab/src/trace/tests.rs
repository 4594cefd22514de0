//! Every format, whole and damaged.

use std::io::{Cursor, Write};

use proptest::prelude::*;

use super::*;

/// `7 7 8` as lines of the LIRS format, compressed by xz.
const XZ: [u8; 64] = [
    0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01,
    0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00, 0x05, 0x37, 0x0a, 0x37, 0x0a, 0x38,
    0x0a, 0x00, 0x00, 0x00, 0xae, 0x11, 0xa8, 0xa5, 0xcd, 0xfc, 0xd8, 0x1e, 0x00, 0x01, 0x1e, 0x06,
    0xc1, 0x2f, 0xa4, 0x1d, 0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a,
];

fn read_as(name: &str, bytes: &[u8], format: Option<Format>) -> Result<Trace, TraceError> {
    let path = Path::new(name);
    Trace::from_input(path, Input::new(path, Cursor::new(bytes.to_vec()))?, format)
}

/// Reads it, with its format recognised and named.
#[track_caller]
fn read(bytes: &[u8], format: Format) -> Trace {
    let recognised = read_as("x.trace", bytes, None).expect("it is recognised");
    let named = read_as("x.trace", bytes, Some(format)).expect("it is well formed");
    assert_eq!(recognised.ids(), named.ids());
    assert_eq!(recognised.block_bytes(), named.block_bytes());
    named
}

#[track_caller]
fn fails(bytes: &[u8], format: Format, parts: &[&str]) {
    let error = read_as("x.trace", bytes, Some(format)).expect_err("it is damaged").to_string();
    for part in ["x.trace"].iter().chain(parts) {
        assert!(error.contains(part), "no {part:?} in {error:?}");
    }
}

fn vscsi_record(bytes: u32, command: u16, version: u16, first_sector: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(1u32.to_le_bytes());
    record.extend(bytes.to_le_bytes());
    record.extend(1u32.to_le_bytes());
    record.extend(command.to_le_bytes());
    record.extend(version.to_le_bytes());
    record.extend(first_sector.to_le_bytes());
    record.extend(77u64.to_le_bytes());
    record
}

fn oracle_record(time_s: u32, object: u64, bytes: u32, next: i64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(time_s.to_le_bytes());
    record.extend(object.to_le_bytes());
    record.extend(bytes.to_le_bytes());
    record.extend(next.to_le_bytes());
    record
}

#[test]
fn arc_lines_stand_for_runs_of_blocks() {
    let trace = read(b"100 3 0 0\n102 1 0 1\n\n99 2 0 2\n", Format::Arc);
    assert_eq!(trace.ids(), [0, 1, 2, 2, 3, 0]);
    assert_eq!((trace.distinct(), trace.block_bytes()), (4, Some(512)));
    assert_eq!(trace.distinct_bytes(), 2048);
    fails(b"1 1 0 0\n2 x 0 1\n", Format::Arc, &["line 2", "`x` is not a number of blocks"]);
    fails(b"1 1 0 0\n2\n", Format::Arc, &["line 2", "missing"]);
    fails(b"18446744073709551615 2 0 0\n", Format::Arc, &["line 1", "cannot be"]);
    fails(b"5 0 0 0\n", Format::Arc, &["no requests"]);
    fails(b"0 300000000 0 0\n", Format::Arc, &["line 1", "268435456", "cut"]);
}

#[test]
fn lirs_lines_are_blocks_and_marks() {
    let trace = read(b"7\n*\n8\r\n7\n", Format::Lirs);
    assert_eq!(trace.ids(), [0, 1, 0]);
    assert_eq!(trace.block_bytes(), Some(4096));
    // A last line that is cut short is a line, for nothing can tell.
    assert_eq!(read(b"7\n8\n7", Format::Lirs).ids(), [0, 1, 0]);
    fails(b"7\n-8\n", Format::Lirs, &["line 2", "`-8`"]);
    fails(b"7\n\xff\xfe\n", Format::Lirs, &["line 2", "no text"]);
    fails(&vec![b'7'; 100_000], Format::Lirs, &["line 1", "too long"]);
    fails(b"7\n\0\0\0", Format::Lirs, &["line 2", "zero", "1 request before that is usable;"]);
}

#[test]
fn vscsi_ranges_are_split() {
    let mut bytes = vscsi_record(4096, 0x28, 0x100, 8);
    // Unaligned: it touches three blocks.
    bytes.extend(vscsi_record(8192, 0x2a, 0x100, 9));
    assert_eq!(read(&bytes, Format::Vscsi).ids(), [0, 0, 1, 2]);
    // INQUIRY transfers no blocks.
    bytes.extend(vscsi_record(96, 0x12, 0x100, 0));
    let trace = read_as("x", &bytes, Some(Format::Vscsi)).expect("well formed");
    assert_eq!((trace.requests(), trace.block_bytes()), (4, Some(4096)));
    fails(&bytes[..90], Format::Vscsi, &["byte 64", "cut short", "32 bytes"]);
    let foreign = vscsi_record(4096, 0x28, 0x200, 8);
    fails(&[&bytes[..32], &foreign].concat(), Format::Vscsi, &["byte 32", "version 2"]);
    fails(&vscsi_record(512, 0x28, 0x100, u64::MAX), Format::Vscsi, &["byte 0", "beyond"]);
}

#[test]
fn oracle_general_has_objects_of_any_size() {
    let mut bytes = oracle_record(1, 70, 100, 2);
    bytes.extend(oracle_record(1, 80, 300, -1));
    bytes.extend(oracle_record(9, 70, 999, i64::MAX));
    let trace = read(&bytes, Format::OracleGeneral);
    assert_eq!(trace.ids(), [0, 1, 0]);
    assert_eq!(trace.block_bytes(), None);
    assert_eq!(trace.object_bytes().map(|sizes| sizes.to_vec()), Some(vec![100, 300]));
    assert_eq!(trace.distinct_bytes(), 400);
    fails(&bytes[..71], Format::OracleGeneral, &["byte 48", "cut short"]);
    // Bytes that were overwritten: the time is beyond all that come after.
    let damaged = [&bytes[..], &oracle_record(2_000_000_000, 1, 1, -1), &bytes[48..]].concat();
    fails(&damaged, Format::OracleGeneral, &["byte 96", "goes back from 2000000000 to 9 s"]);
}

#[test]
fn ssdsim_lines_are_split_and_devices_kept_apart() {
    let trace = read(b"0 0 8 8 1\n5 1 8 8 0\n9 0 9 8 1\n", Format::Ssdsim);
    assert_eq!(trace.ids(), [0, 1, 0, 2]);
    assert_eq!(trace.block_bytes(), Some(4096));
    // Nothing is asked for, also in the middle of a block.
    assert_eq!(read(b"0 0 8 8 1\n5 0 17 0 0\n", Format::Ssdsim).ids(), [0]);
    fails(b"0 0 8 8 1\n0 0 8\n", Format::Ssdsim, &["line 2", "number of sectors is missing"]);
    fails(b"0 4096 8 8 1\n", Format::Ssdsim, &["line 1", "4095"]);
    fails(b"0 0 36028797018963968 8 1\n", Format::Ssdsim, &["line 1", "2^64"]);
    fails(b"0 0 8 18446744073709551615 1\n", Format::Ssdsim, &["line 1"]);
}

#[test]
fn words_are_blocks_in_either_order() {
    let named = |bytes: &[u8], format: Format| {
        read_as("x", bytes, Some(format)).expect("well formed").ids().to_vec()
    };
    assert_eq!(named(&[1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0], Format::U32le), [0, 1, 0]);
    assert_eq!(named(&[1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0], Format::U32be), [0, 1, 0]);
    assert_eq!(named(&[[3; 8], [4; 8], [3; 8]].concat(), Format::U64le), [0, 1, 0]);
    assert_eq!(named(&[[3; 8], [4; 8], [3; 8]].concat(), Format::U64be), [0, 1, 0]);
    fails(&[1, 2, 3, 4, 5], Format::U32le, &["byte 4", "cut short"]);
    fails(&[1; 9], Format::U64be, &["byte 8", "cut short"]);
    let by_name = read_as("x.u32be.zst", &[0, 0, 0, 1, 0, 0, 0, 1], None);
    assert_eq!(by_name.expect("the name tells").ids(), [0, 0]);
}

#[test]
fn recordings_are_ranges_of_files() {
    let text = "warmfront recording 1, 100 % of all contents\n\
                5 r 00ab 0 8192\n7 w 00cd 4096 1\n9 r 00ab 4096 4096\n";
    let trace = read(text.as_bytes(), Format::Recording);
    assert_eq!((trace.ids(), trace.block_bytes()), (&[0, 1, 2, 1][..], Some(4096)));
    let records = trace.in_records(8192).expect("blocks");
    assert_eq!(records.ids(), [0, 0, 1, 0], "files are kept apart");
    fails(b"5 r 00ab 0 8192\n", Format::Recording, &["line 1", "warmfront recording"]);
    let second = text.replace("recording 1", "recording 2");
    fails(second.as_bytes(), Format::Recording, &["line 1", "version 2", "version 1 is read"]);
    let unnamed = read_as("x.trace", second.as_bytes(), None).expect_err("another version");
    assert!(unnamed.to_string().contains("version 2"), "{unnamed}");
    for percent in ["0", "101", "x"] {
        let text = text.replace("100", percent);
        fails(text.as_bytes(), Format::Recording, &["line 1", "how many %"]);
    }
    let quarter = read(text.replace("100", "25").as_bytes(), Format::Recording);
    assert_eq!((trace.recorded_share(), quarter.recorded_share()), (1.0, 0.25));
    assert_eq!(quarter.in_records(8192).map(|it| it.recorded_share()), Some(0.25));
    let after = |line: &str| text.to_owned() + line;
    fails(after("9 x 00ab 0 1\n").as_bytes(), Format::Recording, &["line 5", "`x`", "r nor w"]);
    fails(after("9 r 00ab 0\n").as_bytes(), Format::Recording, &["line 5", "missing"]);
    fails(after("9 r WWWW 0 1\n").as_bytes(), Format::Recording, &["line 5", "`WWWW`"]);
    fails(after("9 r 00ab 0 1 1\n").as_bytes(), Format::Recording, &["line 5", "behind the last"]);
    // A number that has lost digits is a number, too: only the end of the line tells.
    let cut = &text.as_bytes()[..text.len() - 3];
    let usable = "2 requests before that are usable, for 3 blocks;";
    fails(cut, Format::Recording, &["line 4", "no end", "cut short", usable]);
    // The first line says what it is, whatever comes behind it.
    for damage in [&b"\0\0\0"[..], &[0xff, 0xfe]] {
        let damaged = [text.as_bytes(), damage, &b"\n"[..]].concat();
        let error = read_as("x.trace", &damaged, None).expect_err("it is damaged").to_string();
        assert!(error.contains("line 5") && error.contains("head -n 4"), "{error}");
    }
    // Where it is written down, nothing is asked for and time goes on.
    fails(after("9 r 00ab 1 0\n").as_bytes(), Format::Recording, &["line 5", "0 bytes"]);
    let back = after("9 r 00ab 0 1\n8 r 00ab 0 1\n");
    fails(
        back.as_bytes(),
        Format::Recording,
        &["line 6", "goes back from 9 to 8 us", "4 requests"],
    );
    let far = after("9 r 00ab 18446744073709551615 1\n");
    fails(far.as_bytes(), Format::Recording, &["line 5", "beyond the end of any file"]);
}

#[test]
fn blkparse_lines_count_when_they_come_in() {
    let text = "  8,0    3        1     0.000000000   697  Q   R 8 + 16 [fio]\n\
                  8,0    3        2     0.000001000   697  G   R 8 + 16 [fio]\n\
                  8,16   3        3     0.000002000   697  Q  WS 8 + 8 [jbd2/sda1-8]\n\
                  8,0    3        4     0.000003000     0  C   R 8 + 16 [0]\n\
                  8,0    3        5     0.000004000   697  Q   D 8 + 16 [fio]\n\
                  8,0    3        6     0.000005000   697  P   N [fio]\n\
                CPU3 (sda):\n Reads Queued:           1,        8KiB\n";
    let trace = read(text.as_bytes(), Format::Blkparse);
    assert_eq!((trace.ids(), trace.block_bytes()), (&[0, 1, 2][..], Some(4096)));
    let cut = "8,0 3 1 0.000000000 697 Q R 8 +\n";
    fails(cut.as_bytes(), Format::Blkparse, &["line 1", "number of sectors is missing"]);
    let far = cut.replace("8 +", "36028797018963968 + 8");
    fails(far.as_bytes(), Format::Blkparse, &["line 1", "beyond the end of any disk"]);
    fails(b"Q R 8 + 16\n", Format::Blkparse, &["line 1", "does not begin"]);
}

#[test]
fn fio_logs_have_offsets() {
    let second = "fio version 2 iolog\n/a add\n/a open\n/a read 0 4096\n/b write 0 4096\n\
                  /a sync 0 0\n/a read 2048 4096\n/a close\n";
    assert_eq!(read(second.as_bytes(), Format::FioIolog).ids(), [0, 1, 0, 2]);
    let third = "fio version 3 iolog\n0 /a add\n0 /a open\n3 /a read 0 4096\n9 /a close\n";
    assert_eq!(read(third.as_bytes(), Format::FioIolog).ids(), [0]);
    let unknown = second.to_owned() + "/a fly 0 1\n";
    fails(unknown.as_bytes(), Format::FioIolog, &["line 9", "`fly`"]);
    fails(b"fio version 9 iolog\n", Format::FioIolog, &["line 1", "fio version 2"]);
    let log = "1, 52000, 0, 4096, 0, 0\n2, 48000, 1, 4096, 8192, 0\n3, 9, 0, 4096, 0, 0\n";
    let trace = read(log.as_bytes(), Format::FioLog);
    assert_eq!((trace.ids(), trace.block_bytes()), (&[0, 1, 0][..], Some(4096)));
    fails(b"1, 52000, 0, 4096\n", Format::FioLog, &["line 1", "log_offset=1"]);
    fails(b"1, 52000, 7, 4096, 0\n", Format::FioLog, &["line 1", "7 is no direction"]);
}

#[test]
fn csv_columns_are_found_by_heading_or_place() {
    assert_eq!(read(b"1,70,5\n2,80,6\n3,70,5\n", Format::Csv).ids(), [0, 1, 0]);
    let trace = read(b"1 70 5\n2 80 0\n", Format::Csv);
    assert_eq!(trace.object_bytes().map(|sizes| sizes.to_vec()), Some(vec![5, 1]));
    let trace = read(b"size,op,id\n10,get,a-b\n20,get,c\n10,put,a-b\n", Format::Csv);
    assert_eq!(trace.ids(), [0, 1, 0]);
    assert_eq!(trace.distinct_bytes(), 30);
    let trace = read(b"time,key\n1,x\n2,x\n", Format::Csv);
    assert_eq!((trace.ids(), trace.block_bytes()), (&[0, 0][..], Some(4096)));
    let heading = "op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,\
                   op_name,op_count,host_name,rs_shard_id\n";
    let cachelib = format!("{heading}17,12ce-d0,40,8388608,0,42,34,getChunkData.Init,1,5,4\n");
    let trace = read(cachelib.as_bytes(), Format::Csv);
    assert_eq!((trace.requests(), trace.distinct_bytes()), (1, 8 << 20));
    fails(b"a,b,c\n1,2,3\n", Format::Csv, &["line 1", "block_id or obj_id"]);
    fails(b"1,2,3\n1,2\n", Format::Csv, &["line 2", "missing"]);
    fails(b"1,2,3\n1,2,5000000000\n", Format::Csv, &["line 2", "5000000000"]);
    // A page that was never written is no object.
    for zeros in [1, 9, 4096, 100_000] {
        let lost = [&b"key,time\n1,5\n2,6\n"[..], &vec![0; zeros]].concat();
        fails(&lost, Format::Csv, &["line 4", "bytes that are zero", "2 requests"]);
    }
    let unknown = read_as("x", &[0; 4096], None).expect_err("it is nothing").to_string();
    assert!(unknown.contains("not text"), "{unknown}");
}

#[test]
fn compressed_files_are_read_as_plain_ones() {
    let plain = b"7\n7\n8\n";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(plain).expect("memory takes it");
    let gzip = gzip.finish().expect("memory takes it");
    let zstd = zstd::encode_all(&plain[..], 1).expect("memory takes it");
    for whole in [&gzip, &zstd, &XZ.to_vec()] {
        assert_eq!(read(whole, Format::Lirs).ids(), [0, 0, 1]);
        for length in 6..whole.len() {
            let error = read_as("x.trace", &whole[..length], Some(Format::Lirs));
            assert!(matches!(error, Err(TraceError::Read { .. })), "{length}: {error:?}");
        }
    }
}

/// Of a file that is damaged in its head, what comes before the damage counts.
#[test]
fn what_is_usable_before_damage_is_told() {
    let plain: String = (0..4000).map(|number| format!("{}\n", number * 7919 % 4001)).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(plain.as_bytes()).expect("memory takes it");
    let mut gzip = gzip.finish().expect("memory takes it");
    // The checksum stands 8 bytes before the end.
    let checksum = gzip.len() - 8;
    gzip[checksum] ^= 1;
    match read_as("x.trace", &gzip, Some(Format::Lirs)) {
        Err(TraceError::Read { place, usable, .. }) => {
            assert_eq!((place, usable.requests, usable.blocks), (Place::Line(4001), 4000, 4000));
        }
        other => panic!("{other:?}"),
    }
    let cut = &gzip[..gzip.len() / 2];
    match read_as("x.trace", cut, Some(Format::Lirs)) {
        Err(TraceError::Read { usable, .. }) => {
            assert!((1000..4000).contains(&usable.requests), "{usable}")
        }
        other => panic!("{other:?}"),
    }
    // Damage comes before what cannot be told from so little.
    let mut unknown = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    unknown.write_all(b"root:x:0:0\nbin:x:1:1\n").expect("memory takes it");
    let mut unknown = unknown.finish().expect("memory takes it");
    unknown.truncate(unknown.len() - 4);
    let error = read_as("x.trace", &unknown, None);
    assert!(matches!(error, Err(TraceError::Read { .. })), "{error:?}");
}

/// All that comes before the cut is read, and records that the cut divides are no fault of theirs.
#[test]
fn compression_that_is_cut_gives_what_it_has() {
    let numbers: String =
        (0..300_000u64).map(|number| format!("{}\n", number * 7_919 % 400_009)).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(numbers.as_bytes()).expect("memory takes it");
    let gzip = gzip.finish().expect("memory takes it");
    let zstd = zstd::encode_all(numbers.as_bytes(), 1).expect("memory takes it");
    for (by, whole, least) in [("gzip", gzip, 50_000), ("zstd", zstd, 10_000), ("xz", xz(), 1_000)]
    {
        let all = read_as("x.trace", &whole, Some(Format::Lirs)).expect("it is whole");
        assert_eq!(all.requests(), 300_000, "{by}");
        let cut = &whole[..whole.len() / 2];
        let error = read_as("x.trace", cut, Some(Format::Lirs)).expect_err("it is cut");
        let TraceError::Read { usable, .. } = &error else { panic!("{by}: {error:?}") };
        assert!((least..300_000).contains(&usable.requests), "{by}: {usable}");
        let told = error.to_string();
        assert!(told.contains(&format!("its {by} compression")), "{told}");
        let error = read_as("x.u64le", cut, Some(Format::U64le)).expect_err("it is cut");
        assert!(matches!(error, TraceError::Read { .. }), "{by}: {error:?}");
    }
    for (name, bytes, program) in [
        ("bzip2", &b"BZh91AY&SY"[..], "bunzip2"),
        ("lz4", &[0x04, 0x22, 0x4d, 0x18, 0x64, 0x40], "unlz4"),
    ] {
        let error = read_as("x", bytes, None).expect_err("it is not read").to_string();
        assert!(error.contains(name) && error.contains(program), "{error}");
    }
}

/// 300,000 lines of `n % 9973`, as xz compresses them.
fn xz() -> Vec<u8> {
    include_bytes!("tests/numbers.lis.xz").to_vec()
}

/// A header that asks for a window of gigabytes gets an error, not the memory.
#[test]
fn memory_for_decompression_is_bounded() {
    // No checksum, no size, a window of 2^(10 + 21) bytes.
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0x00, 0x00];
    let error = read_as("x", &zstd, Some(Format::Lirs)).expect_err("it is refused");
    assert!(matches!(error, TraceError::Read { .. }), "{error}");
}

#[test]
fn what_cannot_be_told_lists_the_formats() {
    for bytes in [&b"root:x:0:0\nbin:x:1:1\n"[..], b"", b"\x01\x02\x03", b"1 2\n3 4\n"] {
        let error = read_as("x.trace", bytes, None).expect_err("it is unknown").to_string();
        assert!(error.contains("--format: arc, lirs, vscsi"), "{error}");
    }
    for (bytes, part) in [
        (&b"name surname town\na b c\n"[..], "`name surname town`, which names no column"),
        (&[0x07, 0x74, 0x61, 0x65, 0, 0], "blkparse makes text of it"),
    ] {
        let error = read_as("x.trace", bytes, None).expect_err("it is unknown").to_string();
        assert!(error.contains(part), "{error}");
    }
    let error = Trace::read(Path::new("/nowhere/x"), None).expect_err("there is none").to_string();
    assert!(error.contains("cannot open the trace /nowhere/x"), "{error}");
    assert!(Trace::read(Path::new("/"), None).is_err());
}

#[test]
fn next_accesses_look_ahead() {
    let trace = Trace::from_blocks("x", [5, 6, 5, 5, 7, 6], 1);
    assert_eq!(trace.next_accesses()[..], [2, 5, 3, NEVER, NEVER, NEVER]);
}

#[test]
fn formats_are_named() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    let error = "blktrace".parse::<Format>().expect_err("there is none").to_string();
    assert!(error.contains("`blktrace`") && error.contains("oracle-general"), "{error}");
}

proptest! {
    /// Nothing makes it panic.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_as("x", &bytes, None);
        for format in Format::ALL {
            let _ = read_as("x", &bytes, Some(format));
        }
        for magic in [&XZ[..12], &[0x28, 0xb5, 0x2f, 0xfd], &[0x1f, 0x8b, 8, 0]] {
            let _ = read_as("x", &[magic, &bytes].concat(), Some(Format::Lirs));
        }
    }

    #[test]
    fn any_lines_are_read_or_refused(text in "([0-9]{1,20}[ ,\t*]?){0,9}\n?[-0-9a-z, \n]{0,60}") {
        for format in Format::ALL {
            // Runs of blocks that would fill the trace take long.
            if let Err(TraceError::UnknownFormat { .. }) = read_as("x", text.as_bytes(), None) {
                continue;
            }
            if !matches!(format, Format::Arc | Format::Ssdsim | Format::FioLog) {
                let _ = read_as("x", text.as_bytes(), Some(format));
            }
        }
    }
}
