use super::Arm;
use super::parameters::{DiskParameters, Layout, Zone};

/// Which sector lies where.
#[derive(Debug)]
pub(super) struct Geometry {
    heads: u32,
    layout: Layout,
    /// Each zone with its first sector.
    zones: Vec<(u64, Zone)>,
    sectors: u64,
}

/// Where a sector lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub arm: Arm,
    /// The turn of the platter at which it begins to pass, 0 to 1.
    pub angle: f64,
    pub sectors_per_track: u32,
    /// Sectors from this one to the end of the track or of what follows without a gap.
    pub left_on_track: u32,
    /// Sectors of the track before this one.
    pub before_on_track: u32,
}

/// Most sectors of a zone.
const SECTORS_MAX: u64 = 1 << 36;

impl Geometry {
    pub fn new(parameters: &DiskParameters) -> Result<Geometry, String> {
        let mut zones = Vec::new();
        let (mut sectors, mut cylinder) = (0, 0);
        for zone in &parameters.zones {
            if zone.first_cylinder < cylinder || zone.last_cylinder < zone.first_cylinder {
                return Err(format!(
                    "the zone of cylinders {} to {} does not follow the one before",
                    zone.first_cylinder, zone.last_cylinder
                ));
            }
            cylinder = zone.last_cylinder.saturating_add(1);
            let tracks =
                u64::from(cylinder - zone.first_cylinder) * u64::from(parameters.heads.get());
            let all = tracks.saturating_mul(zone.sectors_per_track.get().into());
            if all > SECTORS_MAX {
                return Err(format!(
                    "the zone of cylinders {} to {} has {all} sectors, and a disk has at most \
                     {SECTORS_MAX}",
                    zone.first_cylinder, zone.last_cylinder
                ));
            }
            let lost = u64::from(zone.spare_sectors).max(zone.slipped_sectors.len() as u64);
            if lost >= all || !zone.slipped_sectors.is_sorted() {
                return Err(format!(
                    "the zone of cylinders {} to {} has more spare or slipped sectors than \
                     sectors, or they are not in order",
                    zone.first_cylinder, zone.last_cylinder
                ));
            }
            zones.push((sectors, zone.clone()));
            sectors += all - lost;
        }
        match sectors {
            0 => Err("zones has no zone; a disk needs one".to_string()),
            _ => Ok(Geometry {
                heads: parameters.heads.get(),
                layout: parameters.layout,
                zones,
                sectors,
            }),
        }
    }

    /// How many sectors there are.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Where a sector lies, which is below [`Geometry::sectors`].
    pub fn locate(&self, sector: u64) -> Place {
        let zone = self.zones.partition_point(|&(first, _)| first <= sector) - 1;
        let (first, zone) = &self.zones[zone];
        let mut index = sector - first;
        let mut next_slip = u64::MAX;
        for &slipped in &zone.slipped_sectors {
            if u64::from(slipped) > index {
                next_slip = u64::from(slipped);
                break;
            }
            index += 1;
        }
        let per_track = u64::from(zone.sectors_per_track.get());
        let (track, on_track) = (index / per_track, index % per_track);
        let heads = u64::from(self.heads);
        let (cylinders, surface) = (track / heads, track % heads);
        let backwards = self.layout == Layout::Serpentine && cylinders % 2 == 1;
        let head = if backwards { heads - 1 - surface } else { surface };
        let skew = (track - cylinders) as f64 * zone.track_skew_sectors
            + cylinders as f64 * zone.cylinder_skew_sectors;
        let angle = (on_track as f64 + skew) / per_track as f64;
        let left = (per_track - on_track).min(next_slip - index);
        Place {
            arm: Arm { cylinder: zone.first_cylinder + cylinders as u32, head: head as u32 },
            angle: angle.fract(),
            sectors_per_track: per_track as u32,
            left_on_track: left as u32,
            before_on_track: on_track as u32,
        }
    }
}
