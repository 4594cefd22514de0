const OTHER: &str = "data of another program";

/// Names what another program has put on a device whose first bytes are these; `None` if they are
/// zeros.
///
/// ```
/// assert_eq!(storage::foreign_contents(&[0; 4096]), None);
/// assert_eq!(storage::foreign_contents(b"XFSB and so on"), Some("an XFS file system"));
/// ```
pub fn foreign_contents(bytes: &[u8]) -> Option<&'static str> {
    let at = |offset: usize, magic: &[u8]| bytes.get(offset..offset + magic.len()) == Some(magic);
    let known: [(usize, &[u8], &'static str); 11] = [
        (0, b"WARMFLSH", "a cache of a Warmfront pool"),
        (0, b"WARMFLOG", "an intent log of a Warmfront pool"),
        (0x438, &[0x53, 0xef], "an ext2, ext3 or ext4 file system"),
        (0, b"XFSB", "an XFS file system"),
        (0x10040, b"_BHRfS_M", "a btrfs file system"),
        (0, b"LUKS\xba\xbe", "a LUKS volume"),
        (0x218, b"LVM2 001", "an LVM volume"),
        (4086, b"SWAPSPACE2", "swap space"),
        (3, b"NTFS    ", "an NTFS file system"),
        (0x200, b"EFI PART", "a partition table"),
        (510, &[0x55, 0xaa], "a boot sector or partition table"),
    ];
    let found = known.iter().find(|(offset, magic, _)| at(*offset, magic)).map(|it| it.2);
    found.or_else(|| bytes.iter().any(|byte| *byte != 0).then_some(OTHER))
}

/// Names what another program has put on a device whose last bytes are these; `None` if they are
/// zeros. Some keep nothing at the beginning that would tell of them.
///
/// ```
/// let mut end = vec![0; 4096];
/// assert_eq!(storage::foreign_end(&end), None);
/// end[3584..3592].copy_from_slice(b"EFI PART");
/// assert_eq!(storage::foreign_end(&end), Some("the backup of a partition table"));
/// ```
pub fn foreign_end(bytes: &[u8]) -> Option<&'static str> {
    const MD: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
    let at_end = |back: usize| bytes.len().checked_sub(back).map(|at| &bytes[at..]);
    let is_table = |back| at_end(back).is_some_and(|bytes| bytes.starts_with(b"EFI PART"));
    if is_table(512) || is_table(4096) {
        return Some("the backup of a partition table");
    }
    if bytes.chunks(512).any(|sector| sector.starts_with(MD)) {
        return Some("a member of an md array");
    }
    bytes.iter().any(|byte| *byte != 0).then_some(OTHER)
}
