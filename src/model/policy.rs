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

impl CommitPolicy {
    /// Whether these acknowledgements are enough; each stands for a sink, with whether it is required.
    #[must_use]
    pub fn is_met(self, sinks: impl IntoIterator<Item = (bool, bool)>) -> bool {
        let mut acknowledged = 0;
        for (required, has) in sinks {
            let needed = match self {
                Self::All => true,
                Self::Required => required,
                Self::Quorum(_) => false,
            };
            if needed && !has {
                return false;
            }
            acknowledged += usize::from(has);
        }
        match self {
            Self::All | Self::Required => acknowledged > 0,
            Self::Quorum(quorum) => acknowledged >= quorum.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_met_by_those_whom_it_names() {
        let quorum = |n| CommitPolicy::Quorum(NonZeroUsize::new(n).unwrap());
        // (required, has acknowledged)
        let (yes, no) = ((true, true), (true, false));
        let (opt, out) = ((false, true), (false, false));
        for (policy, sinks, expected) in [
            (CommitPolicy::All, vec![yes, opt], true),
            (CommitPolicy::All, vec![yes, out], false),
            (CommitPolicy::Required, vec![yes, out], true),
            (CommitPolicy::Required, vec![no, opt], false),
            (CommitPolicy::Required, vec![out], false),
            (quorum(1), vec![out, opt], true),
            (quorum(2), vec![yes, no, opt], true),
            (quorum(2), vec![yes, no, out], false),
            (CommitPolicy::All, vec![], false),
            (quorum(1), vec![], false),
        ] {
            assert_eq!(
                policy.is_met(sinks.clone()),
                expected,
                "{policy:?} {sinks:?}"
            );
        }
    }
}
