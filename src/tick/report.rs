//! How a tick ended, for the host, for the log and for people.

use std::error::Error;
use std::time::Duration;

use chrono::TimeDelta;
use serde::Serialize;

use super::layout::LayoutError;
use super::memory::remembered;
use super::operate::OperateError;
use super::sweeping::Held;
use crate::clock::Timestamp;
use crate::model::definition::Difference;
use crate::model::late::Sight;
use crate::model::lease::to_delta;
use crate::model::schema::SchemaChange;
use crate::model::sinks::{SinkState, SinksDiffer};
use crate::model::state::{DocumentError, StateDocument};
use crate::model::transitions::Refusal;
use crate::sink::DeliveryFailure;
use crate::source::SourceError;
use crate::store::StoreError;

/// A tick that did what it should; the host is told 200.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing new: one read of the state, one query, no write.
    Idle,
    /// Everything visible was delivered and committed.
    Drained,
    /// Nothing new, and what was delivered before is now below the checkpoint, or on its way there.
    Settled,
    /// As many delivered rows are remembered as can be; it goes on when the checkpoint may pass them.
    Full,
    /// Nothing new, and a sink that was behind was brought forward, as far as it took rows.
    CaughtUp,
    /// The time budget ran out with rows left; the next tick goes on.
    BudgetSpent,
    /// Others waited for their turn; it goes on when it is its own again.
    Yielded,
    /// Another instance works on it, or was faster.
    HeldElsewhere {
        owner: String,
    },
    Paused,
    /// A receiver asked not to be called yet, or is left alone because it has failed too often.
    NotBefore {
        until: Timestamp,
    },
    /// `start: now` has written down where it begins.
    Started,
}

/// A tick that failed; the host is told 500, and the rows come again.
#[derive(Debug, thiserror::Error)]
pub enum TickError {
    #[error("delivery to {sink} failed (attempt {attempts}): {failure}{}", if *paused {
        format!("; the poller is paused, when somebody is there again: `dbtick resume {poller}`")
    } else {
        String::new()
    })]
    Delivery {
        poller: String,
        sink: String,
        attempts: u32,
        /// Nobody is there any more.
        paused: bool,
        #[source]
        failure: DeliveryFailure,
    },
    #[error(
        "the receivers are not those that the state was made for: {}; a new one gets rows from the \
         checkpoint on, one that is gone gets no more: if that is meant, `dbtick adopt {poller}`; a \
         receiver that only has another name is a new one too",
        receivers(differ)
    )]
    SinksChanged { poller: String, differ: SinksDiffer },
    #[error("the lease was lost while working; what was not committed comes again: {reason}")]
    LeaseLost { reason: String },
    #[error("poller is marked failed; look into it, then `dbtick reset` it")]
    MarkedFailed,
    #[error(
        "the source has changed since the checkpoint was made: {}; \
         if the same rows are meant, keep the checkpoint: `dbtick adopt {poller}`; \
         to start over: `dbtick reset {poller} --to beginning`; \
         to go on under another name: `dbtick clone {poller} --as NAME`",
        told(changes)
    )]
    Fingerprint {
        poller: String,
        changes: Vec<Difference>,
    },
    #[error(
        "{}; rows could be passed over. If the order of the rows is what it was, keep the \
         checkpoint: `dbtick adopt {poller}`; otherwise start over: `dbtick reset {poller} --to beginning`",
        listed(changes)
    )]
    SchemaChanged {
        poller: String,
        changes: Vec<SchemaChange>,
    },
    #[error(
        "another server answers than the one that the checkpoint is from ({was} then, {is} now); if it \
         holds the same rows, keep the checkpoint: `dbtick adopt {poller}`; otherwise start over: \
         `dbtick reset {poller} --to beginning`"
    )]
    OtherServer {
        poller: String,
        was: String,
        is: String,
    },
    #[error(
        "{key}: the state document is gone, but this poller has run before; \
         restore it: `dbtick state import {poller} FILE`, or start over: `dbtick reset {poller} --to beginning`"
    )]
    DocumentGone { key: String, poller: String },
    #[error(
        "{key}: {source}; it is left as it is. Restore a good copy: \
         `dbtick state import {poller} FILE --discard-corrupt`, or start over: \
         `dbtick reset {poller} --to beginning --discard-corrupt`"
    )]
    Document {
        key: String,
        poller: String,
        #[source]
        source: DocumentError,
    },
    #[error(
        "the database was restored from a copy that is older than every kept checkpoint: rows that come \
         now are below them; start over, `dbtick reset {poller} --to beginning`, or from a cursor that the \
         copy surely has: `dbtick reset {poller} --to-cursor … --to-key …`"
    )]
    Restored { poller: String },
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a change of the state was refused: {0}")]
    Refused(#[from] Refusal),
    #[error("dbtick has a bug and abandoned this tick, nothing is lost: {what}")]
    Bug { what: String },
    #[error(
        "it was never its turn: other pollers of this process were at work until the time budget of the \
         invocation was spent; see docs/load.md for what to set"
    )]
    Crowded,
    #[error("the state document kept changing under {tries} tries to write it")]
    Contended { tries: u32 },
}

/// What a tick did, whether it ended well or not.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tally {
    pub batches: u64,
    pub rows: u64,
    pub bytes: u64,
    /// Writes to the state store, heartbeats included.
    pub writes: u64,
    /// Delivered and committed, but still in an outbox that should be without them.
    #[serde(skip_serializing_if = "is_none")]
    pub left_behind: u64,
    /// Rows set aside, because a sink never takes them.
    #[serde(skip_serializing_if = "is_none")]
    pub quarantined: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

#[derive(Debug)]
pub struct TickReport {
    pub poller: String,
    pub result: Result<Outcome, TickError>,
    pub tally: Tally,
    pub took_ms: u64,
    /// The checkpoint as this tick left it, for people.
    pub checkpoint: Option<String>,
    /// Only where it is beyond the lease's margin.
    pub clock_skew: Option<ClockSkew>,
    /// What is different about the columns since the commit before: said once.
    pub schema_changes: Vec<SchemaChange>,
    pub late: LateReport,
    /// The checkpoint went back before this tick, and why: what was delivered since comes again.
    pub rewound: Option<String>,
    /// Sinks that do not have what the others have.
    pub behind: Vec<Behind>,
    /// One of them got rows that it lacked; the tally has had them before.
    pub caught_up: bool,
    /// The state tells why it has failed, if it has.
    pub is_told: bool,
}

/// A sink that catches up by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Behind {
    pub sink: String,
    pub since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Behind {
    pub(super) fn all(document: &StateDocument) -> Vec<Self> {
        let behind = |(name, state): (&String, &SinkState)| {
            state.lag.as_ref().map(|lag| Self {
                sink: name.clone(),
                since: lag.since,
                error: state.failure.as_ref().map(|failure| failure.error.clone()),
            })
        };
        document.sinks.iter().filter_map(behind).collect()
    }

    fn sentence(&self) -> String {
        let Self { sink, since, error } = self;
        let why = error.as_ref().map(|error| format!(": {error}"));
        format!("{sink} is behind since {since}{}", why.unwrap_or_default())
    }
}

/// What is above the checkpoint, and why it is.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct LateReport {
    /// Rows that were delivered and that the checkpoint may not pass yet.
    #[serde(skip_serializing_if = "is_none")]
    pub remembered: u64,
    /// Transactions, or rows in flight, that are waited for.
    #[serde(skip_serializing_if = "is_none")]
    pub witnesses: u64,
    /// One of those that have been waited for the longest, as the database names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_witness: Option<String>,
    /// How long the oldest of them has been waited for, by the database's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_witness_s: Option<i64>,
    /// Rows whose cursor is ahead of the database's clock or sequence; on one page.
    #[serde(skip_serializing_if = "is_none")]
    pub future_rows: u64,
    /// Rows that wait for transactions that could come before them.
    #[serde(skip_serializing_if = "is_none")]
    pub waiting_rows: u64,
}

impl LateReport {
    pub(super) fn of(document: &StateDocument, sight: &Sight) -> Self {
        let fences = document.late.fences.iter();
        let oldest = fences
            .filter(|fence| !fence.witnesses.is_empty())
            .min_by_key(|fence| fence.since);
        Self {
            remembered: remembered(document),
            witnesses: document.late.witnesses().len() as u64,
            oldest_witness: oldest
                .and_then(|fence| fence.witnesses.first().map(ToString::to_string)),
            oldest_witness_s: oldest
                .zip(sight.now)
                .map(|(fence, now)| (now - fence.since).num_seconds().max(0)),
            ..Self::default()
        }
    }

    /// What is behind, in words; nothing where nothing is.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let rows = rows_of;
        let mut said = Vec::new();
        let age = self
            .oldest_witness_s
            .map(|seconds| format!(", the oldest for {seconds} s"));
        match (self.remembered, self.witnesses) {
            (0, _) => {}
            (remembered, 1..) => said.push(format!(
                "{} delivered above the checkpoint, which waits for {} in flight{}",
                rows(remembered),
                self.witnesses,
                age.unwrap_or_default()
            )),
            (remembered, 0) => said.push(format!(
                "{} delivered above the checkpoint, which follows when they have settled",
                rows(remembered)
            )),
        }
        if self.future_rows > 0 {
            said.push(format!(
                "{} ahead of the database's clock or sequence, held until their time has come",
                rows(self.future_rows)
            ));
        }
        if self.waiting_rows > 0 {
            said.push(format!(
                "{} or more wait for transactions that could come before them",
                rows(self.waiting_rows)
            ));
        }
        said
    }

    pub(super) fn held(&mut self, held: Held) {
        self.future_rows = held.future;
        self.waiting_rows = held.waiting;
    }
}

/// How far this machine's clock is from the store's. Leases do not mind, because their age is told
/// by the store; times that people read, and waits that receivers ask for, do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSkew(TimeDelta);

impl From<OperateError> for TickError {
    fn from(error: OperateError) -> Self {
        match error {
            OperateError::Tick(error) => error,
            OperateError::Held { refusal } | OperateError::Refused(refusal) => refusal.into(),
            // A document that was there a moment ago.
            OperateError::NotBegun { poller } => Self::Bug {
                what: format!("{poller} has no document to go back in"),
            },
        }
    }
}

impl Outcome {
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Drained => "drained",
            Self::Settled => "settled",
            Self::CaughtUp => "caught_up",
            Self::Full => "full",
            Self::BudgetSpent => "budget_spent",
            Self::Yielded => "yielded",
            Self::HeldElsewhere { .. } => "held_elsewhere",
            Self::Paused => "paused",
            Self::NotBefore { .. } => "not_before",
            Self::Started => "started",
        }
    }

    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Idle => "nothing new".to_owned(),
            Self::Drained => "drained".to_owned(),
            Self::Settled => "nothing new; what is proven was written down".to_owned(),
            Self::CaughtUp => "nothing new; a receiver that was behind got what it had missed".to_owned(),
            Self::Full => "no more delivered rows can be remembered above the checkpoint; the next tick goes on".to_owned(),
            Self::BudgetSpent => "time budget spent, the next tick goes on".to_owned(),
            Self::Yielded => "others waited for their turn, it goes on after them".to_owned(),
            Self::HeldElsewhere { owner } => {
                format!("the lease is held by {owner}, nothing to do here")
            }
            Self::Paused => "paused".to_owned(),
            Self::NotBefore { until } => format!(
                "waits until {until}: a receiver asked for that, or has failed too often to be asked at once"
            ),
            Self::Started => "starts from now".to_owned(),
        }
    }
}

impl TickError {
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Delivery { .. } => "delivery_failed",
            Self::SinksChanged { .. } => "sinks_changed",
            Self::LeaseLost { .. } => "lease_lost",
            Self::MarkedFailed => "marked_failed",
            Self::Fingerprint { .. } => "fingerprint_changed",
            Self::SchemaChanged { .. } => "schema_changed",
            Self::OtherServer { .. } => "other_server",
            Self::DocumentGone { .. } => "document_gone",
            Self::Document { .. } => "document_refused",
            Self::Restored { .. } => "restored",
            Self::Layout(_) => "resharded",
            Self::Source(_) => "source_failed",
            Self::Store(_) => "store_failed",
            Self::Refused(_) => "refused",
            Self::Bug { .. } => "bug",
            Self::Contended { .. } => "contended",
            Self::Crowded => "crowded",
        }
    }

    /// The error and its causes on one line.
    #[must_use]
    pub fn story(&self) -> String {
        let mut story = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !story.contains(&text) {
                story.push_str(": ");
                story.push_str(&text);
            }
            cause = error.source();
        }
        story.replace(['\n', '\r'], " ")
    }
}

impl ClockSkew {
    #[must_use]
    pub fn beyond(margin: Duration, skew: TimeDelta) -> Option<Self> {
        (skew.abs() > to_delta(margin)).then_some(Self(skew))
    }

    /// Positive: this machine is ahead.
    #[must_use]
    pub fn seconds(self) -> i64 {
        self.0.num_seconds()
    }

    #[must_use]
    pub fn sentence(self) -> String {
        let (seconds, way) = match self.seconds() {
            seconds if seconds < 0 => (-seconds, "behind"),
            seconds => (seconds, "ahead of"),
        };
        format!(
            "this machine's clock is at least {seconds} s {way} the state store's: set it by NTP; \
             leases stay safe, but times in documents and waits are wrong"
        )
    }
}

impl TickReport {
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.result.is_err()
    }

    /// One sentence for the invocation's log.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Tally { batches, rows, .. } = self.tally;
        let done = match (batches, &self.checkpoint) {
            (0, _) => String::new(),
            (_, Some(checkpoint)) => {
                format!("; {rows} rows in {batches} batches committed up to {checkpoint}")
            }
            (_, None) => format!("; {rows} rows in {batches} batches committed"),
        };
        let schema = match self.schema_changes.as_slice() {
            [] => String::new(),
            changes => format!("; {}", listed(changes)),
        };
        let mut late: Vec<_> = self.late.sentences();
        late.extend(self.rewound.iter().map(|why| {
            format!("{why}, so the checkpoint went back: what was delivered since comes again")
        }));
        late.extend(self.behind.iter().map(Behind::sentence));
        if self.tally.quarantined > 0 {
            late.push(format!(
                "{} of them set aside, not delivered: `dbtick quarantine list {}`",
                self.tally.quarantined, self.poller
            ));
        }
        let late: String = late.iter().map(|said| format!("; {said}")).collect();
        let poller = &self.poller;
        match &self.result {
            Ok(Outcome::CaughtUp) if !self.behind.is_empty() => {
                format!("{poller}: nothing new; a receiver that is behind was asked again{late}")
            }
            Ok(outcome) => format!("{poller}: {}{done}{schema}{late}", outcome.sentence()),
            Err(error) => format!("{poller}: {}{done}{schema}{late}", error.story()),
        }
    }
}

fn rows_of(count: u64) -> String {
    match count {
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    }
}

fn listed(changes: &[SchemaChange]) -> String {
    let texts: Vec<_> = changes.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

fn receivers(SinksDiffer { added, removed }: &SinksDiffer) -> String {
    let added = added.iter().map(|name| format!("{name} is new"));
    let removed = removed.iter().map(|name| format!("{name} is gone"));
    added.chain(removed).collect::<Vec<_>>().join(", ")
}

fn told(changes: &[Difference]) -> String {
    if changes.is_empty() {
        return "the document does not say from what".to_owned();
    }
    let texts: Vec<_> = changes.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
