//! The fan-out block as it is written.

use schemars::JsonSchema;
use serde::Deserialize;

/// A timer function that puts one message for each poller of another function into the queue of that one.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct FanOut {
    /// The function of this app whose pollers are ticked: it has a queueTrigger in place of a timer.
    #[schemars(length(min = 1))]
    pub(in crate::config) function: String,
}
