//! Rows below the checkpoint of a live poller, once more and beside it (H1 to H3).
//!
//! A backfill has a name, a plan and, for each of its ranges, a state document with a lease of its own, worked
//! on by the production tick. The live poller's document is only read. It is complete when every row that
//! is in the source now is in the ledger of its range (F5).

pub mod plan;
mod progress;
mod range;
mod ranges;
mod reconcile;
mod run;

pub use plan::{Plan, PlanError, Range, Report, Status};
pub use progress::Progress;
pub use range::range_of;
pub use ranges::Bounds;
pub use run::{Backfill, Ended, Stuck, Wishes};
