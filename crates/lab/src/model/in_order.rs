use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::{Completion, Model, Nanoseconds, Queue, Refusal, Request, Ticket};

/// A [`Model`] behind a [`Queue`]: requests are begun in the order in which they come, and end
/// when the model says.
#[derive(Debug)]
pub struct InOrder<M> {
    model: M,
    submitted: u64,
    under_way: BinaryHeap<Reverse<(Nanoseconds, Ticket)>>,
    refused: BTreeMap<Ticket, Refusal>,
}

impl<M: Model> InOrder<M> {
    /// An empty queue.
    pub fn new(model: M) -> InOrder<M> {
        InOrder { model, submitted: 0, under_way: BinaryHeap::new(), refused: BTreeMap::new() }
    }

    /// The device.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The device, to be asked for more than requests.
    pub fn model_mut(&mut self) -> &mut M {
        &mut self.model
    }
}

impl<M: Model> Queue for InOrder<M> {
    fn size_bytes(&self) -> u64 {
        self.model.size_bytes()
    }

    fn submit(&mut self, now: Nanoseconds, request: Request) -> Ticket {
        let ticket = Ticket(self.submitted);
        self.submitted += 1;
        let at = self.model.serve(now, request).unwrap_or_else(|refusal| {
            self.refused.insert(ticket, refusal);
            now
        });
        self.under_way.push(Reverse((at, ticket)));
        ticket
    }

    fn due(&self) -> Option<Nanoseconds> {
        self.under_way.peek().map(|&Reverse((at, _))| at)
    }

    fn complete(&mut self, now: Nanoseconds) -> Option<Completion> {
        let &Reverse((at, ticket)) = self.under_way.peek()?;
        if at > now {
            return None;
        }
        self.under_way.pop();
        let outcome = self.refused.remove(&ticket).map_or(Ok(()), Err);
        Some(Completion { ticket, at, outcome })
    }
}
