//! The local Functions host.

pub mod app;
pub mod retry;
pub mod schedule;
pub mod time_span;
