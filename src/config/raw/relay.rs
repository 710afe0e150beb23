//! The two ends of a relay, as they are written: a receiver, and the function that it names.

use schemars::JsonSchema;
use serde::Deserialize;

/// Batches are posted through the host to a function of this app, which hands them to its output
/// binding; only when the host has written them does it answer, and that acknowledges.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct Relay {
    /// The name of the function: the directory with a `relay` block in its function.json.
    #[schemars(length(min = 1))]
    pub(in crate::config) function: String,
    /// `%NAME%` of the app setting with a key of that function.
    #[schemars(length(min = 1))]
    pub(in crate::config) key: String,
    /// From connect to the last byte of the answer, which comes when all is written, at most
    /// 230s; 100s unless told.
    pub(in crate::config) timeout: Option<String>,
}

/// An HTTP function that hands what a poller posts to it to an output binding.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct RelayFunction {
    /// The name of the output binding; needed only where there are several besides the answer.
    #[schemars(length(min = 1))]
    pub(in crate::config) output: Option<String>,
}
