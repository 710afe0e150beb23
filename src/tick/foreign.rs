//! Rows of other shards, which are read and passed.
//!
//! They are nobody's who reads this shard, so the checkpoint may pass them like rows that were delivered. A
//! shard that has few rows of its own, or none, would otherwise read the others again with every tick.

use tokio::time::Instant;

use super::budget::Budget;
use super::report::Outcome;
use crate::model::late::{Fence, Late};
use crate::model::state::{CursorMark, StateDocument};

/// So many are worth a write that passes them.
const MANY: usize = 1000;

/// What was passed where nothing of its own was found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) rows: usize,
    /// There were so many that the time was up: it is not known whether anything is left.
    pub(super) took_too_long: bool,
}

impl Foreign {
    pub(super) fn outcome(self, otherwise: Outcome, budget: &Budget, now: Instant) -> Outcome {
        match self.took_too_long {
            false => otherwise,
            true if budget.is_spent(now) => Outcome::BudgetSpent,
            true => Outcome::Yielded,
        }
    }

    /// Whether to write down what is proven, only so that they need not be read again. Those below a fence
    /// that time alone clears are, for a while; without the fence they always would be.
    pub(super) fn is_worth_a_write(
        self,
        document: &StateDocument,
        to: Option<&CursorMark>,
        late: &Late,
    ) -> bool {
        let last = |fences: &[Fence]| fences.iter().map(|fence| fence.up_to.clone()).max();
        let further = last(&late.fences) > last(&document.late.fences);
        let many = self.rows >= MANY || self.took_too_long;
        many && (to.is_some() || further)
    }
}
