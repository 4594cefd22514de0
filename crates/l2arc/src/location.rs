/// The granule of places in a segment, bytes: where records begin.
pub(crate) const UNIT_BYTES: usize = 64;
/// Most units of a segment.
pub(crate) const UNITS_MAX: u32 = 1 << UNIT_BITS;
/// Most segments of a ring.
pub(crate) const SEGMENTS_MAX: u32 = 1 << SEGMENT_BITS;
/// Most rings of a pool.
pub const RINGS_MAX: usize = 1 << RING_BITS;

const UNIT_BITS: u32 = 20;
const SEGMENT_BITS: u32 = 18;
const RING_BITS: u32 = 6;

/// Bits of a packed location.
pub(crate) const LOCATION_BITS: u32 = UNIT_BITS + SEGMENT_BITS + RING_BITS;

/// Where a record begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Location {
    pub(crate) ring: u8,
    pub(crate) segment: u32,
    /// Units from the beginning of the segment.
    pub(crate) unit: u32,
}

impl Location {
    pub(crate) fn pack(self) -> u64 {
        debug_assert!(self.unit < UNITS_MAX && self.segment < SEGMENTS_MAX);
        u64::from(self.ring) << (UNIT_BITS + SEGMENT_BITS)
            | u64::from(self.segment) << UNIT_BITS
            | u64::from(self.unit)
    }

    pub(crate) fn unpack(bits: u64) -> Location {
        let field = |shift: u32, bits_of: u32| (bits >> shift) & ((1 << bits_of) - 1);
        Location {
            ring: field(UNIT_BITS + SEGMENT_BITS, RING_BITS) as u8,
            segment: field(UNIT_BITS, SEGMENT_BITS) as u32,
            unit: field(0, UNIT_BITS) as u32,
        }
    }
}
