use std::num::{NonZeroU32, NonZeroU64};

use serde::Deserialize;

use crate::model::Positive;

/// Spare blocks that a channel needs: the one that is being filled, the one that cleaning fills,
/// and one more, so that cleaning always finds dead pages.
pub(super) const SPARE_BLOCKS_MIN: u32 = 3;

/// What a flash device is like.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashParameters {
    /// Bytes that the device offers, rounded down to whole pages on all channels.
    pub capacity_bytes: NonZeroU64,
    /// Bytes of a page, the unit of programming.
    pub page_bytes: NonZeroU32,
    /// Pages of a block, the unit of erasing.
    pub pages_per_block: NonZeroU32,
    /// Channels, which work in parallel.
    pub channels: NonZeroU32,
    /// Share of the raw capacity that is kept back for cleaning and bad blocks.
    pub reserve_percent: Positive,
    /// Which block is cleaned next.
    pub cleaning: Cleaning,
    /// Idle time after which a channel cleans by itself; it never does without.
    pub idle_after_us: Option<Positive>,
    /// Share of its blocks that a channel wants to have erased, when it cleans by itself.
    pub idle_erased_percent: Option<Positive>,
    /// To read a page into the controller.
    pub read_us: Positive,
    /// To program a page.
    pub program_us: Positive,
    /// To erase a block.
    pub erase_us: Positive,
    /// Erasures that a block withstands.
    pub endurance_cycles: NonZeroU32,
    /// By how much blocks differ in this, up and down; none do without.
    pub endurance_spread_percent: Option<Positive>,
    /// Share of the blocks that are bad from the factory on; none are without.
    pub factory_bad_percent: Option<Positive>,
    /// How many erasures the most worn block may be ahead of the least worn one that holds
    /// contents, before these are moved.
    pub wear_gap_max: NonZeroU32,
    /// The link to the host, MB (10^6 bytes) a second.
    pub link_mb_s: Positive,
    /// The controller's time for each request.
    pub command_us: Positive,
    /// DRAM that acknowledges writes; none does without.
    pub buffer: Option<WriteBuffer>,
}

/// DRAM that acknowledges writes before they are programmed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteBuffer {
    /// Its size.
    pub bytes: NonZeroU64,
    /// Whether a super-capacitor feeds it to the end when the power fails.
    pub super_capacitor: bool,
}

/// Which block is cleaned next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cleaning {
    /// The one with the fewest living pages.
    Greedy,
    /// The one that was filled first.
    Fifo,
}

/// Most pages of a device: each takes some bytes here.
const PAGES_MAX: f64 = (1u64 << 26) as f64;
/// Smallest page.
const PAGE_BYTES_MIN: u32 = 512;

impl FlashParameters {
    /// Pages that the device offers.
    pub fn logical_pages(&self) -> u64 {
        u64::from(self.channel_pages()) * u64::from(self.channels.get())
    }

    /// Pages that each channel offers.
    pub(super) fn channel_pages(&self) -> u32 {
        let pages = self.capacity_bytes.get() / u64::from(self.page_bytes.get());
        (pages / u64::from(self.channels.get())).try_into().unwrap_or(u32::MAX)
    }

    /// Blocks that each channel has.
    pub(super) fn channel_blocks(&self) -> u32 {
        let share = 1.0 - self.reserve_percent.get() / 100.0;
        let pages = f64::from(self.channel_pages()) / share;
        (pages / f64::from(self.pages_per_block.get())).round() as u32
    }

    /// Blocks of each channel that are bad from the factory on.
    pub(super) fn factory_bad_blocks(&self) -> u32 {
        let percent = self.factory_bad_percent.map_or(0.0, Positive::get);
        (f64::from(self.channel_blocks()) * percent / 100.0) as u32
    }

    /// Erased blocks that a channel wants to have when it cleans by itself.
    pub(super) fn idle_erased_blocks(&self) -> u32 {
        let percent = self.idle_erased_percent.map_or(0.0, Positive::get);
        (f64::from(self.channel_blocks()) * percent / 100.0) as u32
    }

    /// A device that is `divisor` times smaller and otherwise the same: capacity and buffer are
    /// divided, the times stay.
    pub fn scaled_down(&self, divisor: NonZeroU64) -> FlashParameters {
        let divide =
            |bytes: NonZeroU64| NonZeroU64::new(bytes.get() / divisor).unwrap_or(NonZeroU64::MIN);
        let mut small = self.clone();
        small.capacity_bytes = divide(self.capacity_bytes);
        if let Some(buffer) = &mut small.buffer {
            buffer.bytes = divide(buffer.bytes);
        }
        small
    }

    /// What is wrong with values that are each well-formed.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.reserve_percent.get() >= 100.0 {
            return Err(format!(
                "reserve_percent leaves nothing to offer: it is {}, and must be below 100",
                self.reserve_percent.get()
            ));
        }
        let per_channel = self.capacity_bytes.get()
            / u64::from(self.page_bytes.get())
            / u64::from(self.channels.get());
        let raw = per_channel as f64 / (1.0 - self.reserve_percent.get() / 100.0);
        let page_bytes = self.page_bytes.get();
        if page_bytes < PAGE_BYTES_MIN {
            return Err(format!(
                "page_bytes is {page_bytes}, and must be at least {PAGE_BYTES_MIN}"
            ));
        }
        let pages = raw * f64::from(self.channels.get());
        if pages >= PAGES_MAX {
            return Err(format!(
                "capacity_bytes is more than can be modelled page by page: {pages:.0} pages, and \
                 at most {PAGES_MAX} are followed; take larger pages or a device scaled down"
            ));
        }
        if per_channel == 0 {
            return Err("capacity_bytes is less than a page for each channel".to_string());
        }
        let filled = self.channel_pages().div_ceil(self.pages_per_block.get());
        let spare = i64::from(self.channel_blocks())
            - i64::from(filled)
            - i64::from(self.factory_bad_blocks());
        if spare < i64::from(SPARE_BLOCKS_MIN) {
            return Err(format!(
                "reserve_percent is too small: it leaves {spare} spare blocks to a channel, and \
                 cleaning needs {SPARE_BLOCKS_MIN}"
            ));
        }
        match self.endurance_spread_percent {
            Some(spread) if spread.get() >= 100.0 => {
                Err(format!("endurance_spread_percent is {}, and must be below 100", spread.get()))
            }
            _ => Ok(()),
        }
    }
}
