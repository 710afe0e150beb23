//! Rows that commit late, and servers that go back in time: production ticks on real servers.
//!
//! Whatever becomes of a server (a restart, a crash, an older copy of its data) and of the poller (a
//! kill at any await, a lost object, a plain reader in between), no row that is committed is lost.

#![allow(clippy::unwrap_used)]

#[path = "late_server/documents.rs"]
mod documents;
#[path = "late_server/idle.rs"]
mod idle;
#[path = "late_server/restarted.rs"]
mod restarted;
#[path = "late_server/restored.rs"]
mod restored;
mod support;
#[path = "late_server/takeover.rs"]
mod takeover;
#[path = "late_server/world.rs"]
mod world;
