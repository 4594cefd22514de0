use std::num::NonZeroU32;

use serde::Deserialize;

use super::Seek;
use crate::model::Positive;

/// What a spinning disk is like.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskParameters {
    /// Revolutions a minute.
    pub rpm: Positive,
    /// Surfaces, each with a head.
    pub heads: NonZeroU32,
    /// Bytes of a sector.
    pub sector_bytes: NonZeroU32,
    /// In which order the tracks follow each other.
    pub layout: Layout,
    /// To go on with another head on the same cylinder.
    pub head_switch_ms: Positive,
    /// What a seek takes longer before a write; nothing without.
    pub write_settle_ms: Option<Positive>,
    /// Over the interface, for each sector.
    pub bus_ms_per_sector: Positive,
    /// What the controller takes for each request.
    #[serde(default)]
    pub overheads: Overheads,
    /// The cache.
    pub cache: TrackCache,
    /// The seek curve.
    pub seek: Seek,
    /// The zones, from the outermost inwards.
    pub zones: Vec<Zone>,
}

/// In which order the tracks follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Each cylinder begins with the first head.
    Cylinders,
    /// Every other cylinder goes backwards through its heads.
    Serpentine,
}

/// What the controller takes for each request; nothing where it is left out.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overheads {
    /// A read that the cache has, after a read.
    pub read_hit_after_read_ms: Option<Positive>,
    /// A read that the cache has, after a write.
    pub read_hit_after_write_ms: Option<Positive>,
    /// Another read, after a read.
    pub read_miss_after_read_ms: Option<Positive>,
    /// Another read, after a write.
    pub read_miss_after_write_ms: Option<Positive>,
    /// A write after a read.
    pub write_after_read_ms: Option<Positive>,
    /// A write after a write.
    pub write_after_write_ms: Option<Positive>,
}

/// A disk's cache: segments, each of which holds sectors that follow each other.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrackCache {
    /// How many there are.
    pub segments: NonZeroU32,
    /// Sectors that each holds.
    pub segment_sectors: NonZeroU32,
    /// Sectors that are read on after a read; none are without.
    pub read_ahead_sectors: Option<NonZeroU32>,
    /// Whether sectors are kept that come by before those that are asked for.
    pub keeps_passing_sectors: bool,
    /// Whether a write is acknowledged before it is on the platter.
    pub acknowledges_writes: bool,
    /// How many writes may be on their way to the platter.
    pub write_segments: NonZeroU32,
}

/// Cylinders with equally many sectors to a track.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// The first cylinder.
    pub first_cylinder: u32,
    /// The last one.
    pub last_cylinder: u32,
    /// Sectors to a track.
    pub sectors_per_track: NonZeroU32,
    /// By how many sectors a track begins later than the one before on the same cylinder.
    pub track_skew_sectors: f64,
    /// By how many sectors a track begins later than the one before on the cylinder before.
    pub cylinder_skew_sectors: f64,
    /// Sectors at the end of the zone that are kept back.
    #[serde(default)]
    pub spare_sectors: u32,
    /// Sectors of the zone that are left out, in order.
    #[serde(default)]
    pub slipped_sectors: Vec<u32>,
}
