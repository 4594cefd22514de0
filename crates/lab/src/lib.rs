//! The lab of Warmfront: what a cache of a given size and policy would do with a recorded load.
//!
//! A [`Trace`] is read from a file into dense object numbers; a [`policy::Policy`] is what decides
//! which objects stay; [`replay()`] runs policies and sizes over one trace, on all cores, and
//! returns a [`Row`] for each.
//!
//! ```
//! use lab::{Form, PolicyName, Replay, Size, Trace, replay};
//!
//! // Three blocks in a loop, and room for two.
//! let trace = Trace::from_blocks("loop", [1, 2, 3].repeat(100), 4096);
//! let plan = Replay {
//!     policies: vec![PolicyName::Lru, PolicyName::Min],
//!     sizes: vec![Size::Blocks(2)],
//!     form: Form::Plain,
//! };
//! let rows = replay(&trace, &plan, &|_| ());
//! assert_eq!(rows[0].misses, 300);
//! assert_eq!(rows[1].misses, 3 + 297 / 2);
//! ```

mod bars;
mod bounds;
pub mod experiment;
pub mod machine;
mod mini_sim;
pub mod model;
mod picture;
pub mod plot;
pub mod policy;
mod replay;
pub mod report;
pub mod sizing;
mod stack_distances;
mod standing;
pub mod system;
mod trace;
pub mod workload;

pub use bars::{BarGroup, grouped_bars};
pub use mini_sim::{Estimate, MiniSim, SAMPLED_REQUESTS_MIN, TooFewSampled};
pub use policy::PolicyName;
pub use replay::{CHARGED_RECORD_BYTES, Form, Replay, Row, Size, replay};
pub use stack_distances::StackDistances;
pub use standing::{Standing, standings};
pub use trace::{
    Format, OBJECTS_MAX, Place, REQUESTS_MAX, SPLIT_BYTES, Trace, TraceError, UnknownFormat, Usable,
};
