use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: u64 = 4096;

/// The bytes of a file, kept page by page: what was never written takes no space.
#[derive(Debug, Clone, Default)]
pub(super) struct Contents {
    size: u64,
    pages: BTreeMap<u64, Arc<[u8]>>,
}

impl Contents {
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that the pages take.
    pub fn allocated(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    /// Reads from `offset` until `target` is full or the contents end.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> usize {
        let length = self.size.saturating_sub(offset).min(target.len() as u64) as usize;
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let start = (at % PAGE) as usize;
            let part = &mut target[done..length];
            let count = part.len().min(PAGE as usize - start);
            match self.pages.get(&(at / PAGE)) {
                Some(page) => part[..count].copy_from_slice(&page[start..start + count]),
                None => part[..count].fill(0),
            }
            done += count;
        }
        length
    }

    /// Writes `data` at `offset`, which with the length of `data` fits 64 bits.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let start = (at % PAGE) as usize;
            let count = (data.len() - done).min(PAGE as usize - start);
            let page = self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize].into());
            let page = Arc::make_mut(page);
            page[start..start + count].copy_from_slice(&data[done..done + count]);
            done += count;
        }
        if !data.is_empty() {
            self.size = self.size.max(offset + data.len() as u64);
        }
    }

    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.punch(size, self.size - size);
        }
        self.size = size;
    }

    /// Makes a range read as zeros, and gives whole pages back.
    pub fn punch(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        let touched: Vec<u64> =
            self.pages.range(offset / PAGE..=end / PAGE).map(|(number, _)| *number).collect();
        for number in touched {
            let from = offset.saturating_sub(number * PAGE).min(PAGE) as usize;
            let to = end.saturating_sub(number * PAGE).min(PAGE) as usize;
            if from == 0 && to == PAGE as usize {
                self.pages.remove(&number);
            } else if let Some(page) = self.pages.get_mut(&number) {
                Arc::make_mut(page)[from..to].fill(0);
            }
        }
    }

    /// The next byte at or after `offset` that lies in a page.
    pub fn next_data(&self, offset: u64) -> Option<u64> {
        if offset >= self.size {
            return None;
        }
        let (number, _) = self.pages.range(offset / PAGE..).next()?;
        Some((number * PAGE).max(offset)).filter(|at| *at < self.size)
    }

    /// The next byte at or after `offset` that lies in no page; the end counts as one.
    pub fn next_hole(&self, offset: u64) -> Option<u64> {
        if offset >= self.size {
            return None;
        }
        let mut number = offset / PAGE;
        while self.pages.contains_key(&number) {
            number += 1;
        }
        Some((number * PAGE).max(offset).min(self.size))
    }
}
