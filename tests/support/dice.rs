//! Chance that can be had again.

use dbtick::clock::{Clock, SystemClock};

/// Small, seeded, and printed: a failure can be looked at again.
pub struct Dice(u64);

impl Dice {
    #[allow(clippy::disallowed_methods)] // A seed from outside repeats a run.
    pub fn thrown() -> Self {
        let given = std::env::var("DBTICK_SEED").ok();
        let fresh = || u64::try_from(SystemClock.random() >> 64).unwrap() | 1;
        let seed = given.map_or_else(fresh, |seed| seed.parse().unwrap());
        println!("DBTICK_SEED={seed}");
        Self(seed)
    }

    pub fn seeded(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// For somebody who throws at the same time.
    #[must_use]
    pub fn another(&mut self) -> Self {
        Self(self.below(u64::MAX).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// xorshift64
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
