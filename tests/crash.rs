//! Real processes, killed, stopped and doubled: every row arrives, the checkpoint never goes back.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "crash/fencing.rs"]
mod fencing;
#[path = "crash/kills.rs"]
mod kills;
#[path = "crash/outage.rs"]
mod outage;
