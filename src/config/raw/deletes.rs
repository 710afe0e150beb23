//! How deleted rows are noticed, and what becomes of an outbox, as it is written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Names;

/// How deleted rows are noticed: by one of these.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct Deletes {
    /// A column that is set in deleted rows: not NULL, not false, not zero. Setting it must move the
    /// cursor too.
    #[schemars(length(min = 1))]
    pub(in crate::config) soft: Option<String>,
    pub(in crate::config) tombstones: Option<Tombstones>,
}

/// A table in which a trigger writes down what was deleted.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct Tombstones {
    /// `table` or `schema.table`.
    #[schemars(length(min = 1))]
    pub(in crate::config) table: String,
    /// Its column or columns that continue the cursor; named as in the table unless told.
    pub(in crate::config) cursor: Option<Names>,
    /// Its column or columns with the key of the deleted row; named as in the table unless told.
    pub(in crate::config) key: Option<Names>,
}

/// The table is an outbox: one column is the message.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct Outbox {
    /// The column that is delivered as `data`, as it is.
    #[schemars(length(min = 1))]
    pub(in crate::config) payload: String,
    /// What happens to delivered rows after the commit; `keep` unless told.
    pub(in crate::config) clean_up: Option<CleanUp>,
    /// The app setting whose connection may clean up; `source.connection` unless told.
    #[schemars(length(min = 1))]
    pub(in crate::config) connection: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::config) enum CleanUp {
    Word(CleanUpWord),
    Mark(Mark),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::config) enum CleanUpWord {
    /// They stay as they are.
    Keep,
    /// They are deleted.
    Delete,
}

/// The current time is written into a column of theirs.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct Mark {
    /// A column for a time, NULL until then; never the cursor.
    #[schemars(length(min = 1))]
    pub(in crate::config) mark: String,
}
