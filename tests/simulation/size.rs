//! Smaller worlds. A violation is easier to read in one: of the smallest that still has it, any seed will
//! do.

use super::faults::{LeftOut, Odds};
use super::{Plan, run};

/// How large a world may be; `None` leaves it to the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) instances: Option<u64>,
    /// Until everything heals.
    pub(crate) seconds: Option<u64>,
    /// Transactions that write something.
    pub(crate) writes: Option<u64>,
    pub(crate) left_out: LeftOut,
}

impl Size {
    pub(crate) const AS_DRAWN: Self = Self {
        instances: None,
        seconds: None,
        writes: None,
        left_out: LeftOut::NOTHING,
    };

    const STEPS: usize = 3 + Odds::NAMES.len();

    /// A step smaller in one way.
    fn smaller(self, step: usize) -> Option<Self> {
        let halved = |now: Option<u64>, most| {
            let now = now.unwrap_or(most);
            (now > 1).then_some(now / 2)
        };
        let mut size = self;
        match step {
            0 => size.writes = Some(halved(self.writes, 64)?),
            1 => size.seconds = Some(halved(self.seconds, 64)?),
            2 => size.instances = Some(halved(self.instances, 4)?),
            fault => size.left_out = self.left_out.with(Odds::NAMES[fault - 3])?,
        }
        (size != self).then_some(size)
    }
}

/// The smallest world in which some seed breaks the same promise, and that seed.
pub(crate) fn shrink(plan: Plan, seed: u64, promise: &str, tries: u64) -> (Plan, u64) {
    let breaks = |seed: &u64, plan| {
        let found = run(*seed, plan).violation;
        found.is_some_and(|found| found.name == promise)
    };
    let (mut plan, mut seed) = (plan, seed);
    loop {
        let before = plan.size;
        for step in 0..Size::STEPS {
            let Some(size) = plan.size.smaller(step) else {
                continue;
            };
            let smaller = Plan { size, ..plan };
            if let Some(found) = (seed..seed + tries).find(|seed| breaks(seed, smaller)) {
                (plan, seed) = (smaller, found);
            }
        }
        if plan.size == before {
            return (plan, seed);
        }
    }
}
