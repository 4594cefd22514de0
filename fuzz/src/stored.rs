//! Bytes that claim to be a metadata answer on flash: they are one, and are written the same way
//! again, or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| run(input));

fn run(input: &[u8]) {
    let _is_answer = warmfront::flash::check_stored(input);
}
