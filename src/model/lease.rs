//! The lease: economy, not safety. What keeps rows safe is the compare-and-swap and the fencing
//! token; the lease only keeps two instances from doing the same work.

pub mod answers;

use std::time::Duration;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// Grows by one with every acquisition and never decreases, not even by a release (I4).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct FencingToken(u64);

impl FencingToken {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// For a document that takes the place of a lost one: receivers may remember its tokens.
    #[must_use]
    pub fn at_least(self, floor: u64) -> Self {
        Self(self.0.max(floor))
    }

    /// Less than this one; what was sent under it is over.
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

/// Names one write of one holder, so that a write whose answer was lost can be found again (C6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteMark {
    pub token: FencingToken,
    /// Fresh per claim: two claims of one process never share it.
    pub nonce: String,
    pub sequence: u64,
}

/// Who may write, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lease {
    pub token: FencingToken,
    pub held: Option<Held>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub owner_id: String,
    pub acquired_at: Timestamp,
    pub heartbeat_at: Timestamp,
    pub expires_at: Timestamp,
}

/// The store's own view of time: both values from one answer, so no client's clock takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreClock {
    pub now: Timestamp,
    pub last_write: Timestamp,
}

impl StoreClock {
    /// How far the local clock is surely ahead of the store's, or behind it (negative), when the
    /// store answered between these two readings of it. The store tells whole seconds.
    #[must_use]
    pub fn skew_of(&self, asked: Timestamp, answered: Timestamp) -> TimeDelta {
        let latest = self.now + TimeDelta::seconds(1);
        if asked > latest {
            asked - latest
        } else if answered < self.now {
            answered - self.now
        } else {
            TimeDelta::zero()
        }
    }
}

/// What a contender knows about time when it looks at somebody else's lease.
#[derive(Debug, Clone, Copy)]
pub struct AgeEvidence {
    pub local_now: Timestamp,
    pub store: Option<StoreClock>,
    pub margin: Duration,
}

impl Held {
    /// An unexpired lease is never taken, not even by the same process (C2).
    #[must_use]
    pub fn may_be_taken(&self, evidence: AgeEvidence) -> bool {
        match evidence.store {
            Some(store) => {
                let lifetime = self.expires_at - self.heartbeat_at;
                store.now - store.last_write >= lifetime + to_delta(evidence.margin)
            }
            None => evidence.local_now >= later(self.expires_at, evidence.margin),
        }
    }
}

/// For how long a holder trusts its lease, counted from before its last good write was sent. Nobody takes
/// it for two margins more.
#[must_use]
pub fn trusted_for(ttl: Duration, margin: Duration) -> Duration {
    ttl.saturating_sub(margin)
}

/// As late as a document can say it, at the most: one that was damaged may have any time.
#[must_use]
pub(crate) fn later(at: Timestamp, duration: Duration) -> Timestamp {
    at.checked_add_signed(to_delta(duration))
        .unwrap_or(Timestamp::MAX_UTC)
}

/// Durations from configuration are bounded, so this never saturates in practice.
#[must_use]
pub(crate) fn to_delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests;
