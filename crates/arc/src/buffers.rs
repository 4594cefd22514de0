//! Buffers for records: whole pages, from an arena that keeps to a budget.
//!
//! A general allocator keeps what is freed in the hope of using it again, rounds sizes up, and
//! tells nobody; a cache with a ceiling can have none of that. The [`Arena`] hands out runs of
//! pages from chunks of 2 MiB, so that a chunk can be one huge page: fewer page faults when it is
//! filled, and fewer page-table walks when the kernel copies out of it. What is freed stays
//! resident for the next buffer, up to [`Arena::kept_bytes_max`]; beyond that it goes back to the
//! system at once. So resident memory is at most what the buffers hold, and that.
//!
//! ```text
//!   chunk   |uuuuuuuu|uuuu....|....uuuu|~~~~~~~~|     u  in use
//!             record   record   free     given back   .  free, resident     ~  free, not resident
//! ```

mod arena;
mod buffer;
mod chunk;
mod pages;
mod region;

pub use arena::{Arena, ArenaStatistics};
pub use buffer::Buffer;
pub use chunk::{CHUNK_BYTES, PAGE_BYTES};
pub use region::OutOfMemory;
