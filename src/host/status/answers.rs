//! What is answered besides the views of the read model. Fields are added, never renamed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::clock::Timestamp;
use crate::overview::health::Health;
use crate::overview::orphans::Orphan;
use crate::overview::view::{AuditView, CaseView, ColumnView, HistoryView};

/// For probes: 200, or 503 where something is stuck.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HealthAnswer {
    pub(super) health: Health,
    pub(super) at: Timestamp,
    /// The names of the pollers that do not get on by themselves.
    pub(super) stuck: Vec<String>,
    /// How many functions do not run, because their configuration is wrong.
    pub(super) faults: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct OrphansAnswer<'a> {
    /// What has moved since is not listed.
    pub(super) grace_s: u64,
    /// The oldest first.
    pub(super) orphans: &'a [Orphan],
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HistoryAnswer<'a> {
    pub(super) poller: &'a str,
    /// The newest last.
    pub(super) history: &'a [HistoryView],
    /// The newest last.
    pub(super) audit: &'a [AuditView],
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SchemaAnswer {
    pub(super) poller: String,
    /// Of the kept checkpoint that had these columns.
    pub(super) version: u64,
    pub(super) hash: String,
    pub(super) columns: Vec<ColumnView>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct QuarantineAnswer<'a> {
    pub(super) poller: &'a str,
    /// At most 200 of them, by name; of these the oldest first.
    pub(super) rows: Vec<CaseView>,
    /// Of the objects that were looked at, those that cannot be read.
    pub(super) unreadable: usize,
    /// How many there are, shown or not.
    pub(super) total: usize,
}

/// One event; more than one receiver may not have taken it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CaseAnswer<'a> {
    pub(super) poller: &'a str,
    pub(super) rows: Vec<CaseDetail>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CaseDetail {
    #[serde(flatten)]
    pub(super) case: CaseView,
    pub(super) batch_id: String,
    pub(super) first_failed_at: Timestamp,
    /// The event as it was sent: row data, only where `?data=1` asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub(super) event: Option<Box<RawValue>>,
}

/// What an action needs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Because {
    /// For the audit trail; at most 500 characters.
    #[serde(default)]
    pub(super) reason: String,
    /// Redrive: send what was kept, even if the row has changed since or is gone.
    #[serde(default)]
    pub(super) as_is: bool,
    /// Redrive: give the event a new id, for a receiver that remembers having seen this one.
    #[serde(default)]
    pub(super) new_ids: bool,
    /// Redrive and discard: the receiver that did not take the row; needed where several did not.
    pub(super) sink: Option<String>,
}

/// What an action came to.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ActionAnswer {
    pub(super) poller: String,
    /// `pause`, `resume`, `redrive` or `discard`.
    pub(super) what: &'static str,
    /// `false`: it was so already, or the receiver did not take the row.
    pub(super) done: bool,
    /// In words.
    pub(super) says: String,
    /// Who stands in the audit trail.
    pub(super) who: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Refusal {
    /// What is wrong.
    pub(super) error: String,
    /// What to do.
    pub(super) hint: String,
}
