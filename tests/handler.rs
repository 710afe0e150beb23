//! The real `dbtick serve`, driven over raw HTTP as the Functions host drives it.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "handler/canaries.rs"]
mod canaries;
#[path = "handler/configuration.rs"]
mod configuration;
#[path = "handler/forged.rs"]
mod forged;
#[path = "handler/postgres.rs"]
mod postgres;
#[path = "handler/protocol.rs"]
mod protocol;
#[path = "handler/secrets.rs"]
mod secrets;
#[path = "handler/stopping.rs"]
mod stopping;
#[path = "handler/ticks.rs"]
mod ticks;
#[path = "handler/traces.rs"]
mod traces;
