//! The only reader of wall-clock time and entropy.
//!
//! Everything that decides takes `now` and nonces as arguments or asks a [`Clock`], so that the
//! simulator can run the same code in a world of its own. Monotonic time is `tokio::time::Instant`,
//! which a paused runtime controls.

#![allow(clippy::disallowed_methods)]

use std::fmt::Debug;

use chrono::{DateTime, SubsecRound, Utc};
use tokio::time::Instant;

/// A point in time with microseconds, in UTC: what documents and events carry.
pub type Timestamp = DateTime<Utc>;

/// Time and entropy of one process.
pub trait Clock: Debug + Send + Sync {
    /// The wall clock of this process; it may be wrong, and may jump.
    fn now(&self) -> Timestamp;

    /// Never goes back; only differences mean something, and only inside this process.
    fn monotonic(&self) -> Instant {
        Instant::now()
    }

    /// Fresh random bits, for nonces, tags and jitter.
    fn random(&self) -> u128;
}

/// The clock and the entropy of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Utc::now().trunc_subsecs(6)
    }

    fn random(&self) -> u128 {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).expect("the operating system provides entropy");
        u128::from_le_bytes(bytes)
    }
}
