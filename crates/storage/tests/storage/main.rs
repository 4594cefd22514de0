//! Tests of origins and devices, as their users see them.

mod common;
mod conformance;
mod devices;
mod directory;
mod slowness;
