//! Bytes that claim to be a trace, in any format, compressed or not: they are read or refused,
//! and what was read agrees with itself.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use lab::{Format, Trace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| run(input));

/// The first byte chooses the format; the rest is the file.
fn run(input: &[u8]) {
    let Some((&choice, file)) = input.split_first() else { return };
    // One beyond the formats: recognised by what it looks like.
    let format = Format::ALL.get(usize::from(choice) % (Format::ALL.len() + 1)).copied();
    let read = Trace::from_reader(Path::new("fuzzed"), Cursor::new(file.to_vec()), format);
    match read {
        Ok(trace) => {
            assert!(trace.requests() > 0 && trace.distinct() <= trace.requests());
            assert!(trace.ids().iter().all(|&id| u64::from(id) < trace.distinct()));
            if let Some(sizes) = trace.object_bytes() {
                assert_eq!(sizes.len() as u64, trace.distinct());
            }
            assert_eq!(trace.next_accesses().len(), trace.ids().len());
        }
        Err(error) => assert!(error.to_string().contains("fuzzed"), "{error} names the file"),
    }
}
