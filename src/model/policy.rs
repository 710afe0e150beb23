//! What it takes to move on: whose acknowledgement counts, and when a row is given up on.

use std::num::NonZeroUsize;

/// Over the sinks of a poller (E1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommitPolicy {
    /// Every sink must acknowledge.
    All,
    /// Every sink that is required must.
    #[default]
    Required,
    /// So many of them must, whichever they are.
    Quorum(NonZeroUsize),
}

/// About rows that a receiver never takes (D8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoisonPolicy {
    /// Failed ticks in a row at the same event before it is looked for.
    pub attempts: u32,
    pub then: Poisoned,
    /// Of a thousand rows, so many may be set aside; more are the receiver's fault.
    pub most: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poisoned {
    /// It is kept aside, and the others go on.
    Quarantine,
    /// Nothing behind it goes on.
    Block,
}

impl Default for PoisonPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            then: Poisoned::Quarantine,
            most: 10,
        }
    }
}
