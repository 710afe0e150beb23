//! What a backfill is to do and what has become of it: one document that changes by compare-and-swap.

use std::sync::atomic::{AtomicBool, Ordering};

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::model::position::{Position, PositionError};
use crate::model::transitions::Operator;
use crate::store::key::KeyError;
use crate::store::{StoreError, StoreKey, Swap};
use crate::tick::Poller;

const VERSION: u32 = 1;
/// Each time somebody else was faster, or the answer was lost.
const MOST_TRIES: u32 = 8;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub version: u32,
    pub poller: String,
    pub name: String,
    pub source_fingerprint: String,
    /// As they were given; `None`: the beginning, and the live checkpoint.
    pub from: Option<String>,
    pub to: Option<String>,
    pub ranges: Vec<Range>,
    pub started_at: Timestamp,
    pub who: String,
    pub why: String,
    pub status: Status,
    /// How often rows that were missing have been looked for again.
    pub round: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// Who gave it up, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned: Option<Abandoned>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abandoned {
    pub at: Timestamp,
    pub who: String,
    pub why: String,
}

/// Rows behind `after`, up to and with `up_to`; both typed, as in the state document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    pub after: Option<String>,
    pub up_to: String,
    /// When it was planned.
    pub rows: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Running,
    Complete,
    Abandoned,
}

/// `total` is the sum of the three below it (F5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// In the source, when it was reconciled.
    pub total: u64,
    pub delivered: u64,
    pub quarantined: u64,
    pub missing: u64,
    pub rounds: u32,
    pub started_at: Timestamp,
    pub reconciled_at: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{key} is not a plan of a backfill: {cause}")]
    Unreadable { key: StoreKey, cause: String },
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the plan of the backfill cannot be written: others were faster {MOST_TRIES} times")]
    Contended,
    #[error("the backfill {0:?} is gone")]
    Gone(String),
    #[error("a place in the plan of the backfill cannot be read")]
    Position(#[from] PositionError),
}

/// What the document of a range says about when it was worked on.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Moved {
    checkpoint: MovedTo,
    lease: HeldSince,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MovedTo {
    updated_at: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HeldSince {
    heartbeat_at: Option<Timestamp>,
}

impl Range {
    pub fn after(&self) -> Result<Option<Position>, PositionError> {
        self.after.as_deref().map(Position::from_tagged).transpose()
    }

    pub fn up_to(&self) -> Result<Position, PositionError> {
        Position::from_tagged(&self.up_to)
    }
}

impl Plan {
    /// One that has not begun. `from` and `to` are kept as they were given.
    #[must_use]
    pub fn new(
        poller: &Poller,
        name: &str,
        (from, to): (Option<String>, Option<String>),
        ranges: Vec<Range>,
        by: &Operator,
    ) -> Self {
        Self {
            version: VERSION,
            poller: poller.name.clone(),
            name: name.to_owned(),
            source_fingerprint: poller.fingerprint.clone(),
            from,
            to,
            ranges,
            started_at: poller.clock.now(),
            who: by.who.clone(),
            why: by.why.clone(),
            status: Status::Running,
            round: 0,
            report: None,
            abandoned: None,
        }
    }

    #[must_use]
    pub fn rows(&self) -> u64 {
        self.ranges.iter().map(|range| range.rows).sum()
    }

    /// Of the last time that it was reconciled, since it began.
    #[must_use]
    pub fn took(&self) -> Option<TimeDelta> {
        let report = self.report?;
        Some(report.reconciled_at - report.started_at)
    }

    fn key(poller: &Poller, name: &str) -> Result<StoreKey, KeyError> {
        StoreKey::new(format!("{}{name}/plan.json", poller.state_key.backfills()))
    }

    pub async fn load(poller: &Poller, name: &str) -> Result<Option<Self>, PlanError> {
        let key = Self::key(poller, name)?;
        let loaded = poller.store.load(&key).await?;
        loaded.map(|it| Self::parse(&key, &it.body)).transpose()
    }

    /// Creates it; one that is there already is as good, and is returned.
    pub async fn create(self, poller: &Poller) -> Result<Self, PlanError> {
        let key = Self::key(poller, &self.name)?;
        let body = self.bytes();
        let created = poller.store.create(&key, body.into()).await;
        match (created, Self::load(poller, &self.name).await?) {
            (_, Some(plan)) => Ok(plan),
            (Err(error), None) => Err(error.into()),
            (Ok(_), None) => Err(PlanError::Gone(self.name)),
        }
    }

    /// Changes it; `change` says whether there is anything to change. A write whose answer was lost is
    /// looked at again.
    pub async fn update(
        poller: &Poller,
        name: &str,
        change: impl Fn(&mut Self) -> bool,
    ) -> Result<Self, PlanError> {
        let key = Self::key(poller, name)?;
        for _ in 0..MOST_TRIES {
            let Some(loaded) = poller.store.load(&key).await? else {
                return Err(PlanError::Gone(name.to_owned()));
            };
            let mut plan = Self::parse(&key, &loaded.body)?;
            if !change(&mut plan) {
                return Ok(plan);
            }
            let body = plan.bytes().into();
            match poller.store.replace(&key, &loaded.tag, body).await {
                Ok(Swap::Won(_)) => return Ok(plan),
                Ok(Swap::Lost) | Err(StoreError::Unknown { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(PlanError::Contended)
    }

    /// It is not gone on with; `false`: it had ended already.
    pub async fn abandon(
        poller: &Poller,
        name: &str,
        by: &Operator,
    ) -> Result<(Self, bool), PlanError> {
        let changed = AtomicBool::new(false);
        let plan = Self::update(poller, name, |plan| {
            let runs = plan.status == Status::Running;
            changed.fetch_or(runs, Ordering::Relaxed);
            if runs {
                plan.status = Status::Abandoned;
                plan.abandoned = Some(Abandoned {
                    at: poller.clock.now(),
                    who: by.who.clone(),
                    why: by.why.clone(),
                });
            }
            runs
        })
        .await?;
        Ok((plan, changed.into_inner()))
    }

    /// When one of its ranges was last worked on, or when it began.
    pub async fn last_moved(&self, poller: &Poller) -> Result<Timestamp, PlanError> {
        let mut last = self.started_at;
        for number in 1..=self.ranges.len() {
            let prefix = poller.state_key.backfills();
            let key = StoreKey::new(format!("{prefix}{}/range-{number:02}.json", self.name))?;
            let Some(loaded) = poller.store.load(&key).await? else {
                continue;
            };
            let moved: Moved = serde_json::from_slice(&loaded.body).unwrap_or_default();
            let times = [moved.checkpoint.updated_at, moved.lease.heartbeat_at];
            last = times.into_iter().flatten().fold(last, Timestamp::max);
        }
        Ok(last)
    }

    /// All backfills of a poller, the oldest first; what cannot be read is told of.
    pub async fn all(poller: &Poller) -> Result<(Vec<Self>, Vec<PlanError>), PlanError> {
        let keys = poller.store.list(&poller.state_key.backfills()).await?;
        let (mut plans, mut unreadable) = (Vec::new(), Vec::new());
        for key in keys
            .iter()
            .filter(|key| key.as_str().ends_with("/plan.json"))
        {
            let Some(loaded) = poller.store.load(key).await? else {
                continue;
            };
            match Self::parse(key, &loaded.body) {
                Ok(plan) => plans.push(plan),
                Err(error) => unreadable.push(error),
            }
        }
        plans.sort_by_key(|plan| plan.started_at);
        Ok((plans, unreadable))
    }

    fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("a plan is always representable")
    }

    fn parse(key: &StoreKey, body: &[u8]) -> Result<Self, PlanError> {
        let unreadable = |cause: String| PlanError::Unreadable {
            key: key.clone(),
            cause,
        };
        let plan: Self =
            serde_json::from_slice(body).map_err(|error| unreadable(error.to_string()))?;
        match plan.version {
            VERSION => Ok(plan),
            other => Err(unreadable(format!("it has version {other}"))),
        }
    }
}
