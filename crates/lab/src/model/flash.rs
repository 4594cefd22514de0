//! [`Flash`]: NAND behind a controller, as far as its speed and its wear go.

mod blocks;
mod channel;
mod parameters;
mod translation;
mod wear;

pub use parameters::{Cleaning, FlashParameters, WriteBuffer};
pub use translation::{Translation, Work};
pub use wear::Wear;

use super::{Model, Nanoseconds, Operation, Refusal, Request};
use channel::Channel;

/// A flash device: channels of erase blocks behind one link.
///
/// Flash programs pages and erases only whole blocks. So a page that is written again goes to a
/// fresh place and leaves a dead page behind, and once all blocks have been written, the blocks
/// with dead pages are cleaned to have fresh ones: what still lives in them is moved, they are
/// erased, and the writer waits for it. That is the cliff of erase-before-write. Cleaning in idle
/// time and reserve capacity put it off; TRIM tells of dead pages early. Pages are spread over the
/// channels by their number, each channel cleans by itself, and a read waits for no more than
/// what its channel is doing already.
///
/// Writes are acknowledged from a DRAM buffer where there is one. What it has acknowledged and not
/// yet programmed is lost with the power, unless a super-capacitor feeds it to the end.
#[derive(Debug)]
pub struct Flash {
    parameters: FlashParameters,
    channels: Vec<Channel>,
    link_free_at: Nanoseconds,
}

impl Flash {
    /// A new device, all of whose blocks are erased.
    ///
    /// # Errors
    /// What is wrong with the parameters, if no device can be built by them.
    pub fn new(parameters: &FlashParameters, seed: u64) -> Result<Flash, String> {
        parameters.check()?;
        let channels = 0..parameters.channels.get();
        Ok(Flash {
            parameters: parameters.clone(),
            channels: channels
                .map(|channel| Channel::new(parameters, seed.wrapping_add(u64::from(channel))))
                .collect(),
            link_free_at: 0,
        })
    }

    /// What became of the blocks, over all channels.
    pub fn wear(&self) -> Wear {
        let translations = self.channels.iter().map(|channel| &channel.translation);
        Wear::of(translations, self.parameters.endurance_cycles.get())
    }

    /// Pages programmed for each page that was written, so far.
    pub fn write_amplification(&self) -> f64 {
        let sum = |count: fn(&Translation) -> u64| -> f64 {
            self.channels.iter().map(|channel| count(&channel.translation)).sum::<u64>() as f64
        };
        let written = sum(Translation::written_pages);
        if written == 0.0 { 1.0 } else { 1.0 + sum(Translation::moved_pages) / written }
    }

    /// Begins to count anew what was written and moved, as after a warm-up.
    pub fn forget_counts(&mut self) {
        self.channels.iter_mut().for_each(|channel| channel.translation.forget_counts());
    }

    /// The power fails at `now` and comes back. Returns the offsets of the pages that had been
    /// acknowledged and are gone, in order.
    pub fn lose_power(&mut self, now: Nanoseconds) -> Vec<u64> {
        self.advance(now);
        let protected = self.parameters.buffer.as_ref().is_some_and(|dram| dram.super_capacitor);
        let (count, page_bytes) = (self.channels.len() as u64, self.page_bytes());
        let mut lost: Vec<u64> = Vec::new();
        for (index, channel) in self.channels.iter_mut().enumerate() {
            let pages = channel.lose_power(now, protected);
            lost.extend(pages.map(|page| (u64::from(page) * count + index as u64) * page_bytes));
        }
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    /// Does what the device does by itself until `now`.
    fn advance(&mut self, now: Nanoseconds) {
        for channel in &mut self.channels {
            channel.advance(now);
        }
    }

    fn page_bytes(&self) -> u64 {
        u64::from(self.parameters.page_bytes.get())
    }

    /// Takes the link for the bytes of a request that began at `begun` and are there at `there`;
    /// returns when they are over. Bytes that are there sooner do not wait for those of an earlier
    /// request.
    fn transfer(&mut self, begun: Nanoseconds, there: Nanoseconds, bytes: u64) -> Nanoseconds {
        let time = self.parameters.link_mb_s.transfer(bytes);
        self.link_free_at = self.link_free_at.max(begun) + time;
        self.link_free_at.max(there + time)
    }

    /// The pages of a request: the channel, the page within it, and whether all of it is meant.
    fn pages(&self, request: Request) -> impl Iterator<Item = (usize, u32, bool)> + use<> {
        let (page_bytes, count) = (self.page_bytes(), self.channels.len() as u64);
        let end = request.offset + request.bytes;
        (request.offset / page_bytes..end.div_ceil(page_bytes)).map(move |page| {
            let whole = page * page_bytes >= request.offset && (page + 1) * page_bytes <= end;
            ((page % count) as usize, (page / count) as u32, whole)
        })
    }
}

impl Model for Flash {
    fn size_bytes(&self) -> u64 {
        self.parameters.logical_pages() * self.page_bytes()
    }

    fn serve(&mut self, now: Nanoseconds, request: Request) -> Result<Nanoseconds, Refusal> {
        request.check(self.size_bytes())?;
        self.advance(now);
        let begun = now + self.parameters.command_us.microseconds();
        let mut done = begun;
        match request.operation {
            Operation::Read => {
                for (channel, page, _) in self.pages(request) {
                    done = done.max(self.channels[channel].read(page, begun));
                }
                Ok(self.transfer(begun, done, request.bytes))
            }
            Operation::Write => {
                let arrived = self.transfer(begun, begun, request.bytes);
                done = arrived;
                for (channel, page, whole) in self.pages(request) {
                    done = done.max(self.channels[channel].write(page, whole, arrived)?);
                }
                Ok(done)
            }
            Operation::Flush => {
                if self.parameters.buffer.as_ref().is_none_or(|dram| !dram.super_capacitor) {
                    for channel in &mut self.channels {
                        done = done.max(channel.drain());
                    }
                }
                Ok(done)
            }
            Operation::Discard => {
                for (channel, page, whole) in self.pages(request) {
                    if whole {
                        self.channels[channel].discard(page);
                    }
                }
                Ok(done)
            }
        }
    }

    fn validate(&self) -> Result<(), String> {
        self.channels.iter().try_for_each(|channel| channel.translation.validate())
    }
}

/// Pages programmed for each page written, if pages are written at random, all alike, and blocks
/// are cleaned in the order in which they were filled; `utilisation` is the share of the raw
/// capacity that holds contents.
///
/// With `a` the raw capacity over the contents it is `a / (a + W(-a exp(-a)))`, `W` being
/// Lambert's function: after P. Desnoyers, "Analytic Modeling of SSD Write Performance", SYSTOR
/// 2012.
pub fn fifo_amplification(utilisation: f64) -> f64 {
    let a = 1.0 / utilisation;
    // The share of a block that still lives when its turn comes solves x = exp(-a (1 - x)).
    let mut alive = 0.0f64;
    for _ in 0..10_000 {
        let next = (-a * (1.0 - alive)).exp();
        if (next - alive).abs() < 1e-15 {
            break;
        }
        alive = next;
    }
    1.0 / (1.0 - alive)
}

#[cfg(test)]
mod tests;
