//! The status block as it is written.

use schemars::JsonSchema;
use serde::Deserialize;

/// An HTTP function that shows the pollers of the app: a page, and JSON.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct StatusFunction {
    /// Whether it also pauses, resumes, sends quarantined rows again and discards them; `true` unless
    /// told. `false`: it only shows.
    pub(in crate::config) actions: Option<bool>,
}
