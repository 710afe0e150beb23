//! How the rows of a poller are parted, as it is written.

use schemars::JsonSchema;
use serde::Deserialize;

/// Into how many shards the rows are parted by their key; or that, and the column that says which row is
/// in which.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::config) enum Shards {
    Count(#[schemars(range(min = 1, max = 256))] u16),
    By(ShardsBy),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct ShardsBy {
    /// How many shards; 1 is none.
    #[schemars(range(min = 1, max = 256))]
    pub(in crate::config) count: u16,
    /// A column that is a whole number from 0 to `count` - 1 in every row, the same for all versions of a row,
    /// with an index on it, the cursor and the key: each shard reads its own rows only. Without it, each shard
    /// reads every row and sends those that are its own by a hash of the key.
    #[schemars(length(min = 1))]
    pub(in crate::config) column: Option<String>,
}
