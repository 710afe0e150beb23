//! The read model behind the status page, `dbtick status`, the metrics and `dbtick orphans`: what is
//! known about every poller of an app, and what that comes to.
//!
//! Nothing in here lives in a process: everything is told by the state documents, by the quarantine
//! and by the databases themselves, because the page may run on another instance than the timers. No
//! secret and no row is in it.

pub mod health;
mod looking;
pub mod metrics;
pub mod orphans;
pub mod view;
mod watched;
pub(crate) mod words;

pub use view::{AppView, PollerDetail, PollerView};
pub use watched::Overview;
