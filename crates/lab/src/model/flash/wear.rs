use super::translation::Translation;

/// What became of the blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Wear {
    /// Erasures of the least worn block.
    pub erasures_min: u32,
    /// Erasures of a block on average.
    pub erasures_mean: f64,
    /// Erasures of the most worn block.
    pub erasures_max: u32,
    /// Blocks that are out of use.
    pub bad_blocks: u32,
    /// Share of the erasures that the blocks withstand which is still to come, percent.
    pub life_left_percent: f64,
    /// Blocks by their erasures, in [`Wear::BINS`] equal steps from none to the most worn one.
    pub histogram: Vec<u64>,
}

impl Wear {
    /// Steps of the histogram.
    pub const BINS: usize = 16;

    pub(super) fn of<'a>(
        channels: impl Iterator<Item = &'a Translation> + Clone,
        endurance_cycles: u32,
    ) -> Wear {
        let erasures = channels.clone().flat_map(Translation::erasures);
        let blocks = erasures.clone().count().max(1);
        let most = erasures.clone().max().unwrap_or(0);
        let sum: u64 = erasures.clone().map(u64::from).sum();
        let mut histogram = vec![0; Wear::BINS];
        for erasures in erasures.clone() {
            let bin = u64::from(erasures) * Wear::BINS as u64 / (u64::from(most) + 1);
            histogram[bin as usize] += 1;
        }
        let mean = sum as f64 / blocks as f64;
        Wear {
            erasures_min: erasures.min().unwrap_or(0),
            erasures_mean: mean,
            erasures_max: most,
            bad_blocks: channels.map(Translation::bad_blocks).sum(),
            life_left_percent: (100.0 * (1.0 - mean / f64::from(endurance_cycles))).max(0.0),
            histogram,
        }
    }
}
