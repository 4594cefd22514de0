//! Bytes that claim to be a record of the intent log: they are read or refused, and what was read
//! is written as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zil::Record;

fuzz_target!(|input: &[u8]| run(input));

fn run(input: &[u8]) {
    let Ok((record, length)) = Record::decode(input) else { return };
    assert!(length <= input.len());
    let mut again = vec![0; record.encoded_bytes().expect("what was read can be written")];
    record.encode(&mut again);
    assert_eq!(Record::decode(&again), Ok((record, length)));
    assert!(!record.to_string().is_empty());
}
