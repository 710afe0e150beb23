//! Faults that no other suite injects: what the list in docs/faults.md has and nobody else's job it is.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/rows.rs"]
mod rows;
#[path = "faults/state.rs"]
mod state;
