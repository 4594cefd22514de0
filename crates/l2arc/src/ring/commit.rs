use std::sync::Arc;
use std::task::{Poll, Waker};

use storage::{AlignedBuffer, DeviceError};

use super::Ring;
use super::state::State;
use crate::journal::{
    BLOCK_BYTES, BlockHeader, BlockKind, ENTRIES_MAX, JournalEntry, checkpoint_blocks, encode,
};
use crate::statistics::add;

/// What is to be made to last.
pub(super) struct Journal {
    /// The half that is written.
    pub(super) half: usize,
    pub(super) epoch: u64,
    /// The next block in the half.
    pub(super) number: u64,
    pub(super) pending: Vec<JournalEntry>,
    /// Entries appended since the start.
    pub(super) appended: u64,
    /// How many of these last.
    pub(super) durable: u64,
    /// A task is writing.
    pub(super) committing: bool,
    /// The next commit is a checkpoint.
    pub(super) renew: bool,
    pub(super) failed: bool,
    pub(super) waiters: Vec<Waker>,
}

/// Why something could not be made to last: the journal has failed, now or before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failed;

/// One write of the journal.
struct Commit {
    offset: u64,
    buffer: AlignedBuffer,
    /// The position up to which everything lasts afterwards.
    upto: u64,
}

impl Ring {
    /// Appends to the journal what has just been done to the state. Nothing waits for it; see
    /// [`durable`](Ring::durable). Returns its position.
    pub(super) fn append(&self, _state: &mut State, entry: JournalEntry) -> u64 {
        let mut journal = self.journal.lock();
        if !journal.failed {
            journal.pending.push(entry);
        }
        journal.appended += 1;
        journal.appended
    }

    /// Waits until all that was appended up to a position lasts. Those who wait at the same time
    /// share one commit.
    pub(super) async fn durable(self: &Arc<Self>, position: u64) -> Result<(), Failed> {
        std::future::poll_fn(|context| {
            let mut journal = self.journal.lock();
            if journal.durable >= position {
                return Poll::Ready(Ok(()));
            }
            if journal.failed {
                return Poll::Ready(Err(Failed));
            }
            journal.waiters.push(context.waker().clone());
            if !journal.committing {
                journal.committing = true;
                self.spawn(commit(self.clone()));
            }
            Poll::Pending
        })
        .await
    }

    /// Prepares the next write, or says that there is none.
    fn next_commit(&self) -> Option<Commit> {
        let now = self.now();
        let state = &mut *self.state.lock();
        let journal = &mut *self.journal.lock();
        if journal.pending.is_empty() && !journal.renew || journal.failed {
            journal.committing = false;
            return None;
        }
        let layout = &self.superblock.layout;
        let room = layout.half_blocks() - journal.number;
        let full = checkpoint_blocks(journal.pending.len()) > room;
        let entries = if full || journal.renew {
            journal.renew = false;
            journal.half ^= 1;
            journal.epoch += 1;
            journal.number = 0;
            journal.pending.clear();
            state.checkpoint()
        } else {
            std::mem::take(&mut journal.pending)
        };
        let first = journal.number;
        let blocks = checkpoint_blocks(entries.len());
        assert!(first + blocks <= layout.half_blocks(), "a checkpoint fits into a half");
        let mut buffer = self.shared.buffers.take(2 * BLOCK_BYTES * blocks as usize);
        // The budget is brought up to date, so that what is written down is as of now.
        let _ = state.wear.is_affordable(0, now);
        state.wear.wrote(buffer.len() as u64);
        let chunks = entries.chunks(ENTRIES_MAX).chain(entries.is_empty().then_some(&[][..]));
        for ((at, entries), pair) in (0..).zip(chunks).zip(buffer.chunks_exact_mut(2 * BLOCK_BYTES))
        {
            let header = BlockHeader {
                epoch: journal.epoch,
                number: first + at,
                first,
                kind: match first {
                    0 if at + 1 == blocks => BlockKind::CheckpointEnd,
                    0 => BlockKind::Checkpoint,
                    _ => BlockKind::Log,
                },
                life: state.life,
                written_bytes: state.wear.written_bytes,
                credit_bytes: state.wear.credit_bytes(),
                wall_seconds: state.wall_offset_seconds.saturating_add(now.as_secs()),
                next_incarnation: state.next_incarnation,
            };
            encode(&header, entries, &self.superblock.salt, pair);
            pair.copy_within(..BLOCK_BYTES, BLOCK_BYTES);
        }
        journal.number += blocks;
        let offset = layout.half_offset(journal.half) + first * 2 * BLOCK_BYTES as u64;
        Some(Commit { offset, buffer, upto: journal.appended })
    }

    async fn write_commit(&self, offset: u64, buffer: AlignedBuffer) -> Result<(), DeviceError> {
        let buffer = Arc::new(buffer);
        let written = match self.device.write(offset, buffer.clone()).await {
            Ok(()) => self.device.flush().await,
            error => error,
        };
        if let Some(buffer) = Arc::into_inner(buffer) {
            self.shared.buffers.give(buffer);
        }
        written
    }
}

/// Commits until nothing is left to commit.
async fn commit(ring: Arc<Ring>) {
    while let Some(Commit { offset, buffer, upto }) = ring.next_commit() {
        let length = buffer.len() as u64;
        let written = ring.write_commit(offset, buffer).await;
        match written {
            Ok(()) => add(&ring.shared.counters.written_bytes, length),
            Err(_) => ring.state.lock().wear.failed(length),
        }
        add(&ring.shared.counters.commits, 1);
        let waiters = {
            let mut journal = ring.journal.lock();
            match &written {
                Ok(()) => journal.durable = upto,
                Err(error) => {
                    let device = &ring.device.info().name;
                    tracing::error!(device, %error, "the cache device's journal cannot be written");
                    journal.failed = true;
                    journal.pending.clear();
                }
            }
            std::mem::take(&mut journal.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
        if let Err(error) = written {
            ring.void(&error);
        }
    }
}
