//! What the facts about a poller come to: health, phase, and findings that each name the next step.

use schemars::JsonSchema;
use serde::Serialize;

use crate::clock::Timestamp;

/// The better ones first, so that the worst of several is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    Ok,
    /// It works, and somebody should look at something.
    Attention,
    /// It stands still because somebody wants it to.
    Stopped,
    /// It does not get on by itself, or nobody can tell.
    Stuck,
}

/// What a poller is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It has not run yet.
    New,
    /// Nothing to do.
    Idle,
    /// Rows wait for the next tick.
    Due,
    /// A tick is running.
    Working,
    /// A receiver is left alone until a certain time.
    Waiting,
    /// Ticks fail.
    Failing,
    Paused,
    /// Marked failed.
    Failed,
    Unknown,
}

/// One thing that is worth knowing about a poller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// For machines; documented in docs/operations.md.
    pub code: &'static str,
    pub level: Health,
    /// What is, and why.
    pub says: String,
    /// What to do.
    pub next: String,
    pub since: Option<Timestamp>,
}
