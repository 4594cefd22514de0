//! Tests of the origins, as their users see them.

mod common;
mod conformance;
mod directory;
mod slowness;
