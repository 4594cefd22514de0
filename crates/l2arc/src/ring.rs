//! [`Ring`]: one device, written from one end to the other and round again.
//!
//! Records go into the open segment, through chunks in RAM that are written in one go each. A full
//! segment is sealed with a directory. Before the hand comes round to a segment it is emptied:
//! records that were hit are written anew, then the whole segment is retired.
//!
//! Two rules keep old copies from coming back. *The index is never short*: a record that a start
//! could find on flash is in the index, or its death is in the journal. *The journal is in
//! order*: what changes the index appends to the journal under the same lock, and a kill waits for
//! all that was appended. So a kill that finds nothing in the index, and nothing in the journal
//! that has not lasted yet, has nothing to do.

mod commit;
mod open;
mod read;
mod recover;
mod retire;
mod state;
mod write;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use storage::{Clock, Device, DeviceError, Spawn};

use crate::buffers::Buffers;
use crate::health::{Bypass, Call};
use crate::index::Index;
use crate::options::Options;
use crate::record::Place;
use crate::reserves::Reserves;
use crate::stamps::Stamps;
use crate::statistics::{Condition, Counters, RingStatistics};
use crate::superblock::Superblock;

use commit::Journal;
use state::State;

pub use open::Opened;
pub(crate) use write::Incoming;

/// What the rings of a pool share.
pub(crate) struct Shared {
    pub(crate) index: Index,
    pub(crate) options: Options,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawn: Arc<dyn Spawn>,
    pub(crate) counters: Counters,
    pub(crate) stamps: Stamps,
    pub(crate) buffers: Buffers,
    pub(crate) reserves: Reserves,
}

/// One device of a pool.
pub(crate) struct Ring {
    pub(crate) id: u8,
    device: Arc<dyn Device>,
    superblock: Superblock,
    shared: Arc<Shared>,
    /// Of the journal, when the ring was opened: what was encrypted since has it.
    epoch: u32,
    nonces: AtomicU64,
    state: Mutex<State>,
    /// Locked after the state.
    journal: Mutex<Journal>,
}

impl Ring {
    pub(crate) fn device_id(&self) -> [u8; 16] {
        self.superblock.device
    }

    pub(crate) fn index(&self) -> &crate::index::Index {
        &self.shared.index
    }

    pub(crate) fn cipher(&self) -> Option<&crate::cipher::Cipher> {
        self.shared.options.cipher.as_ref()
    }

    fn place(&self, incarnation: u64, segment: u32, unit: u32) -> Place {
        Place { salt: self.superblock.salt, incarnation, segment, unit }
    }

    fn now(&self) -> std::time::Duration {
        self.shared.clock.now()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.spawn.spawn(Box::pin(task));
    }

    /// Waits until `is_so` of the state. Whatever makes it so wakes those who wait.
    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        std::future::poll_fn(|context| {
            let mut state = self.state.lock();
            if is_so(&state) {
                return Poll::Ready(());
            }
            state.waiters.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Wakes those who wait for the state to change.
    fn changed(state: &mut State) {
        std::mem::take(&mut state.waiters).into_iter().for_each(Waker::wake);
    }

    /// Waits until what lies on the device is known.
    pub(crate) async fn recovered(&self) {
        self.until(|state| !state.recovering || state.condition != Condition::Works).await;
    }

    /// Whether somebody has seen to it that what the device holds is not used again.
    pub(crate) fn is_renounced(&self) -> bool {
        self.state.lock().renounced
    }

    /// Takes note that what the device holds will not be used again.
    pub(crate) fn renounce(&self) {
        self.state.lock().renounced = true;
    }

    /// Takes note of a call that failed, and says so in the log if the device is left alone now.
    fn failed(&self, state: &mut State, call: Call, error: &DeviceError) {
        let (now, device) = (self.now(), &self.device.info().name);
        tracing::warn!(device, ?call, %error, "a cache device failed");
        if state.health.failed(call, error, now)
            && let Some(bypass) = state.health.bypass(now)
        {
            let Bypass { failures, is_read, left, .. } = bypass;
            let what = if is_read { "written" } else { "used" };
            let seconds = left.as_secs();
            let times = state.health.bypasses;
            tracing::warn!(
                device, %failures, last = %error, times,
                "a cache device is not {what} for {seconds} s, then tried again"
            );
        }
    }

    /// Takes note of a call that was done, and says so in the log if the device is used again.
    fn worked(&self, state: &mut State, call: Call) {
        if state.health.worked(call, self.now()) {
            let device = &self.device.info().name;
            tracing::warn!(device, "a cache device that was bypassed works, and is used again");
        }
    }

    /// Gives up what the device holds.
    fn void(&self, error: &DeviceError) {
        let mut state = self.state.lock();
        state.health.error = Some(error.clone());
        if matches!(state.condition, Condition::Works) {
            tracing::error!(
                device = self.device.info().name,
                "the cache device takes no tombstones; what it holds is void"
            );
            state.condition = Condition::Void;
        }
        state.open = None;
        state.prepared = None;
        if let Some(chunk) = state.chunk.take() {
            state.buffered_bytes -= chunk.buffer.capacity();
        }
        Self::changed(&mut state);
        drop(state);
        self.shared.index.retain(|entry| entry.location.ring != self.id);
    }

    /// How the device does for those who read from it.
    pub(crate) fn condition(&self) -> Condition {
        let now = self.now();
        let state = self.state.lock();
        match state.shown_condition(now) {
            Condition::Bypassed if !state.health.is_spared(Call::Read, now) => Condition::Works,
            condition => condition,
        }
    }

    pub(crate) fn statistics(&self) -> RingStatistics {
        let now = self.now();
        let state = self.state.lock();
        let layout = &self.superblock.layout;
        let condition = state.shown_condition(now);
        let (lanes, write_rate_bytes) = state.lanes.chosen();
        // What is void is no longer held.
        let holds = condition != Condition::Void;
        let tenants = state.tenants.iter().filter(|_| holds);
        RingStatistics {
            device: self.superblock.device,
            name: self.device.info().name.clone(),
            condition,
            size_bytes: layout.size_bytes,
            data_bytes: u64::from(layout.segments) * layout.segment_bytes,
            segment_bytes: layout.segment_bytes,
            segments: (layout.segments, if holds { state.used_segments() } else { 0 }),
            stored_bytes: if holds { state.stored_bytes() } else { 0 },
            tenants: tenants.map(|(tenant, bytes)| (*tenant, *bytes)).collect(),
            tombstones: state.tombstones() as u64,
            written_bytes: state.wear.written_bytes,
            credit_bytes: state.wear.credit_bytes(),
            latency: state.health.latency(),
            is_filled: state.is_filled(),
            idle: now.saturating_sub(state.written_at),
            lanes: lanes.count,
            chunk_bytes: lanes.chunk_bytes,
            write_rate_bytes,
            read_rate_bytes: state.health.rate.bytes_a_second(),
            bypasses: state.health.bypasses,
            bypass: state.health.bypass(now),
            error: state.health.error.clone(),
            damaged: (state.health.damaged_records, state.health.damaged_segments),
            slower: state.health.slower(now),
        }
    }

    pub(crate) fn tenant_bytes(&self, tenant: u16) -> u64 {
        let state = self.state.lock();
        let held = state.tenants.get(&tenant).filter(|_| state.condition != Condition::Void);
        held.copied().unwrap_or(0)
    }

    pub(crate) fn data_bytes(&self) -> u64 {
        let layout = &self.superblock.layout;
        u64::from(layout.segments) * layout.segment_bytes
    }

    /// RAM taken, without index and buffers for reads, bytes.
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.state.lock().charged_bytes()
    }

    /// Recounts everything.
    ///
    /// # Panics
    /// When sums do not agree.
    pub(crate) fn validate(&self) {
        self.state.lock().validate(&self.superblock.layout);
    }
}
