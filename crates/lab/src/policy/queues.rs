use super::objects::Objects;
use crate::trace::OBJECTS_MAX;

/// On no queue.
const NOWHERE: usize = 7;

/// Bits of a link; those above it tell the queue.
const LINK_BITS: u32 = 29;
const LINK: u32 = (1 << LINK_BITS) - 1;

const _: () = assert!(OBJECTS_MAX + NOWHERE <= LINK as usize, "a link has room for all");

/// `N` queues over the objects of a trace, each object on at most one of them.
///
/// Links are an array over object numbers; a queue's ends are one more entry behind them, which
/// closes the queue to a ring, so that linking needs no special cases. An entry is kept small, for
/// the time goes into fetching it.
#[derive(Debug)]
pub(crate) struct Queues<const N: usize> {
    objects: Objects,
    nodes: Vec<Node>,
    weights: [u64; N],
}

#[derive(Debug, Clone, Copy)]
struct Node {
    /// The link to the newer one, and the queue.
    newer: u32,
    older: u32,
}

impl Node {
    #[inline]
    fn new(newer: u32, older: u32, queue: usize) -> Node {
        Node { newer: newer | (queue as u32) << LINK_BITS, older }
    }

    #[inline]
    fn newer(self) -> u32 {
        self.newer & LINK
    }

    #[inline]
    fn queue(self) -> usize {
        (self.newer >> LINK_BITS) as usize
    }

    #[inline]
    fn set_newer(&mut self, newer: u32) {
        self.newer = self.newer & !LINK | newer;
    }
}

impl<const N: usize> Queues<N> {
    /// Empty queues.
    pub fn new(objects: &Objects) -> Self {
        const { assert!(N < NOWHERE) };
        let ends = objects.count()..objects.count() + N;
        let mut nodes = vec![Node::new(0, 0, NOWHERE); ends.end];
        for end in ends {
            nodes[end] = Node::new(end as u32, end as u32, NOWHERE);
        }
        Self { objects: objects.clone(), nodes, weights: [0; N] }
    }

    /// The objects that may stand on them.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The queue that an object stands on.
    #[inline]
    pub fn of(&self, id: u32) -> Option<usize> {
        let queue = self.nodes[id as usize].queue();
        (queue != NOWHERE).then_some(queue)
    }

    /// Whether an object stands on this queue.
    #[inline]
    pub fn is_on(&self, queue: usize, id: u32) -> bool {
        self.nodes[id as usize].queue() == queue
    }

    /// Whether no object stands on a queue.
    pub fn is_empty(&self, queue: usize) -> bool {
        self.oldest(queue).is_none()
    }

    /// What the objects of a queue weigh together.
    #[inline]
    pub fn weight(&self, queue: usize) -> u64 {
        self.weights[queue]
    }

    /// The object that was pushed first.
    #[inline]
    pub fn oldest(&self, queue: usize) -> Option<u32> {
        self.item(self.nodes[self.end(queue) as usize].newer())
    }

    /// The object that was pushed after `id`.
    #[inline]
    pub fn newer(&self, id: u32) -> Option<u32> {
        self.item(self.nodes[id as usize].newer())
    }

    /// Takes an object, on whichever queue or none, to the new end of a queue.
    #[inline]
    pub fn push(&mut self, queue: usize, id: u32) {
        self.remove(id);
        let end = self.end(queue);
        let newest = self.nodes[end as usize].older;
        self.nodes[id as usize] = Node::new(end, newest, queue);
        self.nodes[newest as usize].set_newer(id);
        self.nodes[end as usize].older = id;
        self.weights[queue] += self.objects.weight(id);
    }

    /// Takes an object off its queue, if it stands on one.
    #[inline]
    pub fn remove(&mut self, id: u32) {
        let node = self.nodes[id as usize];
        let (newer, queue) = (node.newer(), node.queue());
        if queue == NOWHERE {
            return;
        }
        self.nodes[newer as usize].older = node.older;
        self.nodes[node.older as usize].set_newer(newer);
        self.nodes[id as usize] = Node::new(0, 0, NOWHERE);
        self.weights[queue] -= self.objects.weight(id);
    }

    /// Takes the oldest object off a queue.
    #[inline]
    pub fn pop(&mut self, queue: usize) -> Option<u32> {
        let id = self.oldest(queue)?;
        self.remove(id);
        Some(id)
    }

    /// Takes the oldest object of one queue to the new end of another, or of the same one.
    #[inline]
    pub fn shift(&mut self, from: usize, to: usize) -> Option<u32> {
        let id = self.oldest(from)?;
        self.push(to, id);
        Some(id)
    }

    /// The objects of a queue, oldest first.
    pub fn iter(&self, queue: usize) -> impl Iterator<Item = u32> {
        std::iter::successors(self.oldest(queue), |&id| self.newer(id))
    }

    /// Recounts everything.
    pub fn validate(&self) -> Result<(), String> {
        let mut standing = 0;
        for queue in 0..N {
            // A ring that is broken might never end.
            let ids: Vec<u32> = self.iter(queue).take(self.objects.count() + 1).collect();
            let weight: u64 = ids.iter().map(|&id| self.objects.weight(id)).sum();
            if weight != self.weights[queue] {
                return Err(format!("queue {queue} holds {} items of {weight}", ids.len()));
            }
            if let Some(id) = ids.iter().find(|&&id| !self.is_on(queue, id)) {
                return Err(format!("object {id} is on queue {queue} and does not know it"));
            }
            standing += ids.len();
        }
        let ids = &self.nodes[..self.objects.count()];
        match ids.iter().filter(|node| node.queue() != NOWHERE).count() {
            count if count == standing => Ok(()),
            count => Err(format!("{count} objects believe to be queued, {standing} are")),
        }
    }

    #[inline]
    fn end(&self, queue: usize) -> u32 {
        assert!(queue < N);
        (self.objects.count() + queue) as u32
    }

    #[inline]
    fn item(&self, node: u32) -> Option<u32> {
        ((node as usize) < self.objects.count()).then_some(node)
    }
}
