/// Why a modelled device does not serve a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request lies outside the device.
    #[error(
        "{bytes} bytes at {offset} end behind the device, which has {size_bytes} bytes; ask for \
         less or model a larger one"
    )]
    OutOfRange {
        /// The first byte that was asked for.
        offset: u64,
        /// How many bytes.
        bytes: u64,
        /// How many bytes the device has.
        size_bytes: u64,
    },
    /// Flash whose blocks are used up.
    #[error(
        "the flash is worn out: {bad} of {blocks} blocks of a channel are bad, and what is left \
         holds no more than its contents; it can still be read"
    )]
    WornOut {
        /// Bad blocks of the channel.
        bad: u32,
        /// Blocks of the channel.
        blocks: u32,
    },
}
