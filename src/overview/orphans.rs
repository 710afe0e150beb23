//! Work that is stuck, found by time (F1): what has not moved for longer than the grace period.

use std::time::Duration;

use chrono::TimeDelta;
use schemars::JsonSchema;
use serde::Serialize;

use super::health::Phase;
use super::view::PollerView;
use super::words::ago;
use crate::backfill::{Plan, PlanError, Status};
use crate::clock::Timestamp;
use crate::model::state::{self, Review, StateDocument};
use crate::tick::Poller;

/// Unless told.
pub const GRACE: Duration = Duration::from_secs(2 * 60 * 60);

/// One thing that is stuck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Orphan {
    pub poller: String,
    pub kind: OrphanKind,
    /// Of a backfill.
    pub name: Option<String>,
    pub since: Timestamp,
    /// What is, and why.
    pub says: String,
    /// Who looks into it already.
    pub review: Option<ReviewView>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OrphanKind {
    /// The lease of an owner that died, and that nobody took.
    Lease,
    /// A receiver fails at the same row.
    Failure,
    /// Ticks fail before a delivery.
    Trouble,
    /// Rows that were set aside and never sent again.
    Quarantine,
    /// It was begun and is not complete.
    Backfill,
    /// A state document whose poller is not configured any more.
    NoPoller,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReviewView {
    pub at: Timestamp,
    pub who: String,
    pub why: String,
}

impl OrphanKind {
    pub const ALL: [Self; 6] = [
        Self::Lease,
        Self::Failure,
        Self::Trouble,
        Self::Quarantine,
        Self::Backfill,
        Self::NoPoller,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Failure => "failure",
            Self::Trouble => "trouble",
            Self::Quarantine => "quarantine",
            Self::Backfill => "backfill",
            Self::NoPoller => "no_poller",
        }
    }
}

impl Orphan {
    /// By which it is reviewed: there may be several backfills.
    #[must_use]
    pub fn code(&self) -> String {
        match &self.name {
            Some(name) => format!("{} {name}", self.kind.name()),
            None => self.kind.name().to_owned(),
        }
    }
}

/// Who looks into a thing; a review of something that happened before is none of this.
fn review<'a>(
    code: &str,
    since: Timestamp,
    mut reviews: impl Iterator<Item = (&'a str, Review)>,
) -> Option<ReviewView> {
    let found = reviews.find(|(of, review)| *of == code && review.since == since);
    found.map(|(_, review)| ReviewView {
        at: review.at,
        who: review.who,
        why: review.why,
    })
}

/// A document whose poller is not configured any more.
pub(super) fn stray(document: &StateDocument, grace: Duration, now: Timestamp) -> Option<Orphan> {
    let held = document.lease.held.as_ref().map(|held| held.heartbeat_at);
    let since = document.checkpoint.updated_at.max(held)?;
    if document.status == state::Status::Failed || !is_stuck(since, grace, now) {
        return None;
    }
    let kind = OrphanKind::NoPoller;
    let reviews = document.reviews.iter();
    let reviews = reviews.map(|(of, review)| (of.as_str(), review.clone()));
    Some(Orphan {
        poller: document.poller_name.clone(),
        kind,
        name: None,
        since,
        says: format!(
            "the state of {} is here, and no function of the app has such a poller",
            document.poller_name
        ),
        review: review(kind.name(), since, reviews),
    })
}

/// What is stuck with one poller.
#[must_use]
pub(super) fn of(view: &PollerView, grace: Duration, now: Timestamp) -> Vec<Orphan> {
    let mut found = Vec::new();
    // Stopped for good by a person: nothing of it waits for anybody.
    if view.phase == Phase::Failed {
        return found;
    }
    let mut add = |kind, since: Timestamp, says: String| {
        found.push(Orphan {
            poller: view.poller.clone(),
            kind,
            name: None,
            since,
            says,
            review: None,
        });
    };
    if let Some(lease) = view.lease.as_ref().filter(|lease| lease.expired) {
        let says = format!("{} died holding the lease, and nobody took it", lease.owner);
        add(OrphanKind::Lease, lease.heartbeat_at, says);
    }
    let failures = view.sinks.iter().filter_map(|sink| {
        let failure = sink.failure.as_ref()?;
        Some((failure.first_at, sink, failure))
    });
    if let Some((since, sink, failure)) = failures.min_by_key(|(since, ..)| *since) {
        let says = format!(
            "{} does not take event {} after {} attempts: {}",
            sink.name, failure.event_id, failure.attempts, failure.error
        );
        add(OrphanKind::Failure, since, says);
    }
    if let Some(trouble) = &view.trouble {
        add(OrphanKind::Trouble, trouble.since, trouble.error.clone());
    }
    if let Some(kept) = &view.quarantine
        && let Some(oldest) = kept.oldest
    {
        let says = format!(
            "{} in quarantine, the oldest for {}",
            match kept.rows {
                1 => "1 row".to_owned(),
                rows => format!("{rows} rows"),
            },
            ago(now - oldest)
        );
        add(OrphanKind::Quarantine, oldest, says);
    }
    found.retain(|orphan| is_stuck(orphan.since, grace, now));
    found
        .into_iter()
        .map(|orphan| reviewed(orphan, view))
        .collect()
}

/// Backfills of a poller that were begun, and that nobody goes on with.
pub(super) async fn unfinished(
    poller: &Poller,
    view: &PollerView,
    grace: Duration,
    now: Timestamp,
) -> Result<Vec<Orphan>, PlanError> {
    let mut found = Vec::new();
    let (plans, _) = Plan::all(poller).await?;
    for plan in plans.iter().filter(|plan| plan.status == Status::Running) {
        let since = plan.last_moved(poller).await?;
        if !is_stuck(since, grace, now) {
            continue;
        }
        let orphan = Orphan {
            poller: view.poller.clone(),
            kind: OrphanKind::Backfill,
            name: Some(plan.name.clone()),
            since,
            says: format!(
                "the backfill {} by {} is not complete; `dbtick backfill {} --name {}` goes on with it",
                plan.name, plan.who, view.poller, plan.name
            ),
            review: None,
        };
        found.push(reviewed(orphan, view));
    }
    Ok(found)
}

fn reviewed(orphan: Orphan, view: &PollerView) -> Orphan {
    let reviews = view.reviews.iter().map(|known| {
        let review = Review {
            since: known.since,
            at: known.at,
            who: known.who.clone(),
            why: known.why.clone(),
        };
        (known.kind.as_str(), review)
    });
    let review = review(&orphan.code(), orphan.since, reviews);
    Orphan { review, ..orphan }
}

pub(super) fn is_stuck(since: Timestamp, grace: Duration, now: Timestamp) -> bool {
    now - since >= TimeDelta::from_std(grace).unwrap_or(TimeDelta::MAX)
}
