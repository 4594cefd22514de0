//! What the measurements have in common: tables in Markdown, and pictures of the figures in them.

mod picture;
mod table;

pub use picture::{bars, write};
pub use table::{Table, figure, read};
