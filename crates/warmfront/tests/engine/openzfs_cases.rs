//! Cases of OpenZFS's test suite for its L2ARC that need an engine, besides those of `flash`.

use crate::common::READ;
use crate::flash::{RECORD, device, with_file};

/// `l2arc_l2miss_pos`.
#[test]
fn misses_of_flash_count_only_where_there_is_a_device() {
    let (mut machine, contents) = with_file();
    let without = machine.start(&[], &[]);
    let file = without.open("file", READ);
    assert_eq!(without.read(&file, 0, contents.len()), contents);
    assert_eq!((without.counter("l2_misses"), without.counter("l2_hits")), (0, 0));
    assert!(without.counter("misses") > 0);
    drop((file, without));
    let with = machine.start(&[], &[device(16 << 20)]);
    let file = with.open("file", READ);
    assert_eq!(with.read(&file, 0, contents.len()), contents);
    assert!(with.counter("l2_misses") >= (contents.len() / RECORD) as u64);
}
