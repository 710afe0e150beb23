//! What is shown: the JSON of the status routes and of `dbtick status --json`.
//!
//! Fields are added, never renamed: dashboards and scripts read them.

use schemars::JsonSchema;
use serde::Serialize;

use super::health::{Finding, Health, Phase};
use crate::clock::Timestamp;

/// All pollers of an app.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AppView {
    pub app: String,
    /// When it was looked at.
    pub at: Timestamp,
    /// The worst of all pollers and faults.
    pub health: Health,
    pub pollers: Vec<PollerView>,
    /// Functions that do not run, because their configuration is wrong.
    pub faults: Vec<String>,
}

/// One poller, as its document, its database and its quarantine tell it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PollerView {
    pub poller: String,
    /// The function that ticks it.
    pub function: String,
    pub health: Health,
    pub phase: Phase,
    /// The most important finding, or that all is well, in one sentence.
    pub headline: String,
    /// What is wrong and what to do about it; the worst first.
    pub findings: Vec<Finding>,
    pub source: SourceView,
    pub checkpoint: Option<CheckpointView>,
    /// `null`: it cannot be told; a finding says why.
    pub lag: Option<LagView>,
    pub lease: Option<LeaseView>,
    /// Ticks have been failing before they came to a delivery.
    pub trouble: Option<TroubleView>,
    pub late: Option<LateView>,
    pub sinks: Vec<SinkView>,
    /// `null`: it cannot be told.
    pub quarantine: Option<QuarantineView>,
    /// Seconds between two ticks, where the schedule is known.
    pub interval_s: Option<u64>,
    /// The last commit. A tick that finds nothing writes nothing.
    pub last_success: Option<Timestamp>,
    pub counters: CountersView,
    /// Rows and delay by minute, of the last hour in which there were commits.
    pub pulse: Vec<BeatView>,
    /// What somebody looks into.
    pub reviews: Vec<ReviewedView>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SourceView {
    /// Which database, without user and password.
    pub connection: String,
    /// The table, or `query`.
    pub rows: String,
    pub cursor: Vec<String>,
    pub key: Vec<String>,
    /// Of the definition.
    pub fingerprint: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CheckpointView {
    /// The place, for people; `null`: the beginning.
    pub place: Option<String>,
    /// Of the kept checkpoints this is the newest.
    pub version: Option<u64>,
    pub updated_at: Option<Timestamp>,
    pub batch_id: Option<String>,
    /// Of the state document.
    pub bytes: u64,
    /// Hash of the columns at the checkpoint.
    pub schema: Option<String>,
}

/// What is in the source and not delivered.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LagView {
    pub rows: u64,
    /// `false`: there are at least so many; counting stops there.
    pub exact: bool,
    /// How long the oldest of them has been waiting; 0 where there is none.
    pub seconds: u64,
    pub basis: LagBasis,
}

/// What the seconds are counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LagBasis {
    /// The cursor of the oldest row is a moment.
    Cursor,
    /// The last commit: it has been waiting for no longer than that.
    LastCommit,
    /// Nothing waits.
    Nothing,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LeaseView {
    pub owner: String,
    pub token: u64,
    pub acquired_at: Timestamp,
    pub heartbeat_at: Timestamp,
    pub expires_at: Timestamp,
    /// Since the last heartbeat, by the clock of the store where it has one.
    pub age_s: u64,
    /// Its holder has not been heard of for so long that anybody may take it.
    pub expired: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TroubleView {
    /// The outcome of the ticks, as in the log.
    pub outcome: String,
    pub error: String,
    pub since: Timestamp,
    /// Written down at least every few minutes while it lasts.
    pub last_at: Timestamp,
}

/// Rows that commit late.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LateView {
    /// PROVEN, BOUNDED(…) or UNSAFE; `null`: not asked for, or it cannot be told.
    pub grade: Option<String>,
    pub reason: Option<String>,
    /// Rows that were delivered and that the checkpoint may not pass yet.
    pub remembered: u64,
    /// Transactions that are waited for.
    pub witnesses: u64,
    pub oldest_witness: Option<String>,
    /// Since when, by the clock of the database.
    pub oldest_witness_since: Option<Timestamp>,
    /// Who that is, where the database tells.
    pub oldest_witness_is: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SinkView {
    pub name: String,
    pub required: bool,
    /// Rows that it has taken, or will never take.
    pub rows: u64,
    pub failure: Option<FailureView>,
    pub behind: Option<BehindView>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FailureView {
    /// The event at which it fails.
    pub event_id: String,
    pub attempts: u32,
    /// Of these, those in which the receiver said that it does not take the row.
    pub rejections: u32,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// It is not asked again before.
    pub not_before: Option<Timestamp>,
    pub error: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BehindView {
    pub since: Timestamp,
    /// Its own place, for people; `null`: the beginning.
    pub place: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct QuarantineView {
    pub rows: u64,
    /// When the one that has been there the longest came, as far as was looked.
    pub oldest: Option<Timestamp>,
    /// Objects among them that cannot be read.
    pub unreadable: u64,
}

/// Since the poller began; they ride in the document.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct CountersView {
    pub batches: u64,
    pub rows: u64,
    pub failed_ticks: u64,
    pub quarantined: u64,
    /// Of the committed batches.
    pub bytes: u64,
    /// Rows that were sent again to a receiver that may have them.
    pub resent: u64,
    /// Writes of a lease holder that did not succeed, or whose answer was lost.
    pub failed_commits: u64,
    /// Of the committed batches.
    pub read: TimingView,
    /// Of the committed batches.
    pub deliver: TimingView,
    /// Of lease holders: claims, commits, heartbeats.
    pub commit: TimingView,
}

/// How often, and for how many microseconds in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TimingView {
    pub count: u64,
    pub us: u64,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BeatView {
    pub minute: Timestamp,
    pub rows: u64,
    /// How old the last row of a commit was, at the most; `null` where cursors are no moments.
    pub delay_ms: Option<u64>,
}

/// Something stuck that somebody looks into.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReviewedView {
    /// What is stuck, as `dbtick orphans` names it.
    pub kind: String,
    pub since: Timestamp,
    pub at: Timestamp,
    pub who: String,
    pub why: String,
}

/// One kept checkpoint.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HistoryView {
    pub version: u64,
    pub at: Timestamp,
    pub checkpoint: Option<String>,
    pub batch_id: Option<String>,
    pub rows: u64,
    pub total_rows: u64,
    pub schema: Option<String>,
    pub source: String,
    pub by: Option<String>,
}

/// Who changed what by hand.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AuditView {
    pub at: Timestamp,
    pub who: String,
    pub what: String,
    pub why: String,
}

/// One column of the schema at a checkpoint.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ColumnView {
    pub name: String,
    #[serde(rename = "type")]
    pub declared: String,
    pub role: &'static str,
}

/// One row in quarantine, without its data.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CaseView {
    pub event_id: String,
    pub sink: String,
    /// Of the row, as JSON.
    pub key: String,
    pub quarantined_at: Timestamp,
    pub attempts: u32,
    pub reason: String,
    /// A newer version of the row was found when it was to be sent again.
    pub superseded: bool,
}

/// One poller with its past.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PollerDetail {
    #[serde(flatten)]
    pub view: PollerView,
    /// The newest last.
    pub history: Vec<HistoryView>,
    /// The newest last.
    pub audit: Vec<AuditView>,
    pub schema: Vec<ColumnView>,
}
