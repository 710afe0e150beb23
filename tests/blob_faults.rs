//! State in Azure Blob Storage through a proxy that does harm: what the contract promises of a tick
//! (C1 to C8, D2, D3, D6, D7) holds on a real server whose answers are lost, late, cut or refused.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "blob_faults/world.rs"]
mod world;

#[path = "blob_faults/clocks.rs"]
mod clocks;
#[path = "blob_faults/cost.rs"]
mod cost;
#[path = "blob_faults/foreign.rs"]
mod foreign;
#[path = "blob_faults/late.rs"]
mod late;
#[path = "blob_faults/reads.rs"]
mod reads;
#[path = "blob_faults/seam.rs"]
mod seam;
#[path = "blob_faults/writes.rs"]
mod writes;
