//! Which evidence protects a source against rows that commit late, and how well (B5). Pure: what the
//! catalogue says comes in, a plan goes out.
//!
//! The grade depends on who gives a row its cursor, because a number or a time that is drawn long
//! before its row is written leaves no trace in between.

use std::time::Duration;

use chrono::{NaiveDateTime, TimeDelta};

use super::{Finding, SourceError, findings};
use crate::config::{FutureRows, LateCommits, LateMode, StampedBy, human};
use crate::model::late::{Protected, Protection};
use crate::model::position::{Moment, MomentKind, Scalar};

/// Where writers may give a cursor of their own.
pub(super) const DEFAULT_WINDOW: Duration = Duration::from_secs(5);
/// Between the moment that a statement or transaction takes as its time, and the moment from which it
/// can be seen.
pub(super) const MARGIN: Duration = Duration::from_secs(1);
/// Clocks that are ahead by less make no rows of the future.
pub(super) const TOLERANCE: Duration = Duration::from_secs(60);
/// Zones are this far from UTC at most, which a date does not tell.
const FURTHEST_ZONE: Duration = Duration::from_secs(14 * 3600);

/// Who gives a row its cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stamp {
    /// The database, inside the statement that writes the row; nobody can override it.
    Statement,
    /// The database, with the time at which the transaction began; nobody can override it.
    Transaction,
    /// The database, with the number of the transaction.
    TransactionId,
    /// Somebody else, or a default of the database that writers may override; the text says which.
    Overridable(String),
}

/// What a database shows of transactions in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Evidence {
    /// All who could commit a row, from before it is drawn.
    Writers(&'static str),
    /// Rows that are written and not committed. A statement that waits for a lock shows nothing, for so
    /// long.
    Rows { hidden_for: Duration },
    /// There is never more than one writer, and it draws under its lock.
    OneWriter,
    /// Nothing, and why.
    Nothing(String),
}

/// What to do about late commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Ask for the evidence before each sweep.
    pub(super) asks: bool,
    /// How long a row may be on its way without a trace.
    pub(super) window: Option<Duration>,
    pub(super) protection: Protection,
}

impl Plan {
    pub(super) fn of(stamp: &Stamp, evidence: &Evidence, late: &LateCommits) -> Self {
        let (asked, is_set) = match late.mode {
            LateMode::Off => return Self::nothing(Protected::Unsafe, "late_commits is off".into()),
            LateMode::Settle(age) => {
                let reason = format!(
                    "rows go out {} after they were drawn; a transaction that takes longer loses its rows",
                    human::show_duration(age)
                );
                return Self {
                    window: Some(age),
                    ..Self::nothing(Protected::Bounded(age), reason)
                };
            }
            LateMode::Auto => (DEFAULT_WINDOW, false),
            LateMode::Window(window) => (window, true),
        };
        let window = |window: Duration, reason: String| Self {
            asks: true,
            window: Some(window),
            protection: Protection {
                grade: Protected::Bounded(window),
                reason,
            },
        };
        match (evidence, stamp) {
            (Evidence::Nothing(why), _) if is_set => Self {
                asks: false,
                ..window(
                    asked,
                    format!("{why}; rows that commit within the window are found"),
                )
            },
            (Evidence::Nothing(why), _) => Self::nothing(Protected::Unsafe, why.clone()),
            (Evidence::Rows { hidden_for }, _) => {
                let width = if is_set {
                    asked
                } else {
                    asked.max(*hidden_for)
                };
                let reason = "uncommitted rows are seen, a statement that waits for a lock is not: the window is as long as it may wait".to_owned();
                window(width, reason)
            }
            (Evidence::Writers(_) | Evidence::OneWriter, Stamp::Overridable(why)) => {
                window(asked, why.clone())
            }
            (Evidence::Writers(seen), stamp) => Self {
                asks: true,
                window: is_set.then_some(asked),
                protection: Protection {
                    grade: Protected::Proven,
                    reason: format!("{}, and {seen}", stamp.sentence()),
                },
            },
            (Evidence::OneWriter, stamp) => Self {
                asks: true,
                window: is_set.then_some(asked),
                protection: Protection {
                    grade: Protected::Proven,
                    reason: format!("{}, and there is one writer at a time", stamp.sentence()),
                },
            },
        }
    }

    fn nothing(grade: Protected, reason: String) -> Self {
        Self {
            asks: false,
            window: None,
            protection: Protection { grade, reason },
        }
    }

    /// Running without protection needs a word of the owner.
    pub(super) fn allowed(&self, late: &LateCommits) -> Result<(), SourceError> {
        match (self.protection.grade, late.mode) {
            (Protected::Unsafe, LateMode::Auto) => Err(SourceError::Mismatch {
                what: format!(
                    "rows that commit late would be lost: {}",
                    self.protection.reason
                ),
                remedy: "set source.late_commits to { \"window\": … }, longer than the longest \
                         transaction, or to \"off\" to accept the loss"
                    .to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

impl Stamp {
    /// What the owner declares, where that is more than the catalogue knows.
    pub(super) fn declared(by: StampedBy) -> Self {
        match by {
            StampedBy::Database => Self::Statement,
            StampedBy::Transaction => Self::Transaction,
            StampedBy::TransactionId => Self::TransactionId,
            StampedBy::Application => {
                Self::Overridable("writers give rows their cursor".to_owned())
            }
        }
    }

    /// The same for a database that stamps nothing with its transactions.
    pub(super) fn declared_without_transactions(
        by: StampedBy,
        database: &str,
    ) -> Result<Self, SourceError> {
        match by {
            StampedBy::Database | StampedBy::Application => Ok(Self::declared(by)),
            StampedBy::Transaction | StampedBy::TransactionId => Err(SourceError::Mismatch {
                what: format!(
                    "source.stamped_by names the transaction, by which PostgreSQL stamps rows and {database} does not"
                ),
                remedy: "set it to \"database\" or \"application\", or leave it out".to_owned(),
            }),
        }
    }

    fn sentence(&self) -> &'static str {
        match self {
            Self::Statement => "the database gives a row its cursor as it is written",
            Self::Transaction => "the cursor is the time at which a transaction began",
            Self::TransactionId => "the cursor is the number of the transaction",
            Self::Overridable(_) => "writers may give a row its cursor",
        }
    }
}

/// The grade, and what would make it better.
pub(super) fn finding(plan: &Plan, late: &LateCommits) -> Finding {
    let mut finding = findings::late_commits(&plan.protection, late.mode);
    let is_bounded = matches!(plan.protection.grade, Protected::Bounded(_));
    if is_bounded && plan.asks && late.stamped_by.is_none() {
        finding.text.push_str(
            "; if nobody but the database gives rows their cursor, say so by source.stamped_by: \"database\"",
        );
    }
    finding
}

/// Where a clock that rows are stamped by stands, in the terms of the cursor's column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClockBound {
    /// Whatever is below it was stamped before the sample.
    pub(super) below: Scalar,
    /// From here on rows belong to the future, if those are held.
    pub(super) ceiling: Option<Scalar>,
}

/// `now` in the zone that the column is written in; `tick` is the column's resolution. A value v was
/// stamped at v + tick at the latest, whether it was rounded or cut.
pub(super) fn clock_bound(
    kind: MomentKind,
    now: NaiveDateTime,
    tick: Duration,
    plan: &Plan,
    late: &LateCommits,
) -> ClockBound {
    let back = match late.mode {
        LateMode::Settle(age) => age,
        _ => plan.window.unwrap_or(MARGIN).max(MARGIN),
    };
    let (tick, ahead) = match kind {
        MomentKind::Date => {
            let day = Duration::from_secs(24 * 3600);
            (day + FURTHEST_ZONE, TOLERANCE + day + FURTHEST_ZONE)
        }
        MomentKind::Instant | MomentKind::Local => (tick, TOLERANCE + tick),
    };
    let scalar = |at: NaiveDateTime| Scalar::Moment(Moment::at(kind, at));
    ClockBound {
        below: scalar(now - delta(back) - delta(tick)),
        ceiling: (late.future == FutureRows::Hold).then(|| scalar(now + delta(ahead))),
    }
}

fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::days(366))
}
