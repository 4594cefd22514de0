//! [`Offer`]: a record near the tail of its list, told to a level below before it is evicted.

use crate::list::{Class, List, Queue};

/// The lists whose records are offered, in the order in which a level below should take them.
pub(crate) const OFFER_ORDER: [List; 4] = [
    List::new(Class::Metadata, Queue::Mfu),
    List::new(Class::Metadata, Queue::Mru),
    List::new(Class::Data, Queue::Mfu),
    List::new(Class::Data, Queue::Mru),
];

/// A resident record that will go soon, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer<K, V> {
    /// The record's key.
    pub key: K,
    /// Its value.
    pub value: V,
    /// Its payload bytes.
    pub bytes: u64,
    /// The list on which it stands.
    pub list: List,
    /// Accesses since it came in, the first one included; a burst counts once. Zero if it was
    /// prefetched or primed and not yet read.
    pub touches: u16,
    /// Index of the dataset.
    pub tenant: u32,
    /// It was prefetched or primed, and not yet read.
    pub prefetched: bool,
}
