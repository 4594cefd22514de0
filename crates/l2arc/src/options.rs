use crate::cipher::Cipher;

/// How a flash level works.
///
/// ```
/// use l2arc::Options;
///
/// // At most three drive writes a day, and at most 200 MB/s.
/// let (dwpd_hundredths, rate_bytes) = (Some(300), Some(200_000_000));
/// let options = Options { dwpd_hundredths, rate_bytes, ..Options::default() };
/// assert!(options.second_touch, "what is used once is not written");
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// RAM for what is not written yet, for each device, bytes.
    pub buffers_bytes_max: usize,
    /// RAM for the index, bytes.
    pub index_bytes_max: u64,
    /// Length of a write, bytes.
    pub chunk_bytes: usize,
    /// Length of a segment of a device that is formatted, bytes; otherwise by its size.
    pub segment_bytes: Option<u64>,
    /// Drive writes a day that a device is meant for, in hundredths; `None` is without limit.
    pub dwpd_hundredths: Option<u32>,
    /// Most bytes a second that are written to a device; `None` is without limit.
    pub rate_bytes: Option<u64>,
    /// Takes in only what was touched twice, once the device has been filled.
    pub second_touch: bool,
    /// Records that were hit are written anew before their segment is overwritten.
    pub second_life: bool,
    /// Reads as ZFS does, for experiments: what a device has even where the origin is expected to
    /// be sooner, but nothing ahead where what is read ahead is not kept.
    pub reads_as_zfs: bool,
    /// Tells the device what is no longer needed.
    pub trim: bool,
    /// Encrypts what lies on flash.
    pub cipher: Option<Cipher>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            buffers_bytes_max: 32 << 20,
            index_bytes_max: u64::MAX,
            chunk_bytes: 1 << 20,
            segment_bytes: None,
            dwpd_hundredths: Some(100),
            rate_bytes: None,
            second_touch: true,
            second_life: true,
            reads_as_zfs: false,
            trim: true,
            cipher: None,
        }
    }
}
