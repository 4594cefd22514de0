use std::collections::VecDeque;

use super::parameters::FlashParameters;
use super::translation::{Translation, Work};
use crate::model::{Nanoseconds, Refusal};

/// One channel: its pages, and what it has to do.
#[derive(Debug)]
pub(super) struct Channel {
    pub translation: Translation,
    read_time: Nanoseconds,
    program_time: Nanoseconds,
    erase_time: Nanoseconds,
    idle_after: Option<Nanoseconds>,
    /// How many acknowledged pages it may have before it; none where there is no buffer.
    buffer_pages: usize,
    /// Pages that were acknowledged, and when.
    buffer: VecDeque<(u32, Nanoseconds)>,
    /// The acknowledged page whose programming was begun last, and when it is done.
    programming: Option<(u32, Nanoseconds)>,
    free_at: Nanoseconds,
}

impl Channel {
    pub fn new(parameters: &FlashParameters, seed: u64) -> Channel {
        let pages = parameters.buffer.as_ref().map_or(0, |buffer| {
            buffer.bytes.get()
                / u64::from(parameters.page_bytes.get())
                / u64::from(parameters.channels.get())
        });
        Channel {
            translation: Translation::new(parameters, seed),
            read_time: parameters.read_us.microseconds(),
            program_time: parameters.program_us.microseconds(),
            erase_time: parameters.erase_us.microseconds(),
            idle_after: parameters.idle_after_us.map(|idle| idle.microseconds()),
            buffer_pages: pages as usize,
            buffer: VecDeque::new(),
            programming: None,
            free_at: 0,
        }
    }

    /// Does what the channel does by itself until `now`: it programs what is in the buffer, and
    /// cleans when nothing else is to be done.
    pub fn advance(&mut self, now: Nanoseconds) {
        while let Some(&(_, arrived)) = self.buffer.front()
            && self.free_at.max(arrived) < now
        {
            self.program_next();
        }
        if let Some(idle_after) = self.idle_after
            && self.buffer.is_empty()
        {
            // The pause is kept once: a channel that has begun goes on.
            let mut start = self.free_at.saturating_add(idle_after);
            while start < now
                && let Some(work) = self.translation.clean_idle()
            {
                self.free_at = start + self.time_of(work);
                start = self.free_at;
            }
        }
    }

    /// When the page is in the controller.
    pub fn read(&mut self, page: u32, now: Nanoseconds) -> Nanoseconds {
        let buffered = self.buffer.iter().any(|&(waiting, _)| waiting == page);
        if buffered || !self.translation.is_written(page) {
            return now;
        }
        self.free_at = self.free_at.max(now) + self.read_time;
        self.free_at
    }

    /// When the write of a page is acknowledged.
    pub fn write(
        &mut self,
        page: u32,
        whole: bool,
        now: Nanoseconds,
    ) -> Result<Nanoseconds, Refusal> {
        // A part of a page is written with the rest of it.
        let now = if whole { now } else { self.read(page, now) };
        if self.buffer_pages == 0 {
            let work = self.translation.write(page)?;
            self.free_at = self.free_at.max(now) + self.time_of(work) + self.program_time;
            return Ok(self.free_at);
        }
        let mut acknowledged = now;
        while self.buffer.len() >= self.buffer_pages {
            acknowledged = acknowledged.max(self.program_next());
        }
        self.translation.check_wear()?;
        self.buffer.push_back((page, acknowledged));
        Ok(acknowledged)
    }

    /// Frees the place of a page.
    pub fn discard(&mut self, page: u32) {
        self.buffer.retain(|&(waiting, _)| waiting != page);
        self.translation.discard(page);
    }

    /// Programs everything that is in the buffer; returns when it is done.
    pub fn drain(&mut self) -> Nanoseconds {
        while !self.buffer.is_empty() {
            self.program_next();
        }
        self.free_at
    }

    /// The power fails: what is acknowledged and not programmed is lost, unless it is protected.
    pub fn lose_power(
        &mut self,
        now: Nanoseconds,
        protected: bool,
    ) -> impl Iterator<Item = u32> + use<> {
        if protected {
            self.drain();
        }
        let under_way = self.programming.take().filter(|&(_, done)| !protected && done > now);
        let lost: Vec<u32> = self.buffer.drain(..).chain(under_way).map(|(page, _)| page).collect();
        for &page in &lost {
            self.translation.discard(page);
        }
        self.free_at = now;
        lost.into_iter()
    }

    /// Programs the page that has waited longest; returns when it is done.
    fn program_next(&mut self) -> Nanoseconds {
        let Some((page, arrived)) = self.buffer.pop_front() else { return self.free_at };
        let start = self.free_at.max(arrived);
        // A device that is worn out by now loses the page: nobody is left to be told.
        let time = match self.translation.write(page) {
            Ok(work) => self.time_of(work) + self.program_time,
            Err(_) => 0,
        };
        self.free_at = start + time;
        self.programming = Some((page, self.free_at));
        self.free_at
    }

    fn time_of(&self, work: Work) -> Nanoseconds {
        u64::from(work.moved_pages) * (self.read_time + self.program_time)
            + u64::from(work.erased_blocks) * self.erase_time
    }
}
