//! What MySQL and MariaDB let be known of rows that commit late (B5).
//!
//! With SELECT on a table alone, rows that are not committed can be read and nothing else; with SELECT
//! on the performance schema, the metadata locks of everybody who writes to the table, from before
//! their statement draws a cursor. Which of the two it is may change with every grant, so it is asked
//! at every look.

mod clock;
mod dirty;
mod evidence;
mod locks;
mod session;
mod stamp;

use std::collections::BTreeSet;

use sqlx::mysql::MySqlConnection;

use super::fault::Faults;
use super::kind::Kind;
use super::page::Reading;
use super::shape::MySqlShape;
use crate::config::{LateMode, SourceConfig};
use crate::model::late::{Bound, Highest, Sight, Witness};
use crate::model::position::MomentKind;
use crate::source::late::{self, Evidence, Plan, Stamp};
use crate::source::{Finding, SourceError, findings};
use clock::Clock;
use locks::Watch;
pub(super) use session::who_is;

/// How rows that commit late are met, as of one moment.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) plan: Plan,
    evidence: Evidence,
    watch: Watch,
}

impl Judged {
    pub(super) async fn of(
        config: &SourceConfig,
        connection: &mut MySqlConnection,
        shape: &MySqlShape,
    ) -> Result<Self, SourceError> {
        let faults = Faults::of_source(config);
        let failed = |error| faults.of("looking for writers", error);
        let stamp = match config.late.stamped_by {
            Some(by) => Stamp::declared_without_transactions(by, "MySQL")?,
            None => stamp::of(connection, shape).await.map_err(failed)?,
        };
        let (evidence, watch) = match config.late.mode {
            LateMode::Auto | LateMode::Window(_) => {
                evidence::of(connection, shape).await.map_err(failed)?
            }
            LateMode::Off | LateMode::Settle(_) => (
                Evidence::Nothing("it is not asked for".to_owned()),
                Watch::Off,
            ),
        };
        Ok(Self {
            plan: Plan::of(&stamp, &evidence, &config.late),
            evidence,
            watch,
        })
    }

    /// Whether uncommitted rows are looked for before each page.
    pub(super) fn surveys(&self) -> bool {
        self.plan.asks && matches!(self.evidence, Evidence::Rows { .. })
    }

    fn watches(&self) -> bool {
        self.plan.asks && matches!(self.evidence, Evidence::Writers(_))
    }

    /// For `check`: the grade, and what would make it better.
    pub(super) fn finding(&self, config: &SourceConfig) -> Finding {
        if !self.surveys() {
            return late::finding(&self.plan, &config.late);
        }
        let mut finding = findings::late_commits(&self.plan.protection, config.late.mode);
        if let Some(remedy) = self.watch.remedy() {
            finding.text.push_str("; to see those that wait, too, ");
            finding.text.push_str(remedy);
        }
        finding
    }
}

impl Reading<'_> {
    /// The bound first, then who may still write.
    pub(super) async fn look(
        &mut self,
        config: &SourceConfig,
        judged: &Judged,
        known: &BTreeSet<Witness>,
    ) -> Result<Sight, SourceError> {
        judged.plan.allowed(&config.late)?;
        let clock = Clock::read(self.connection, &config.late, self.faults).await?;
        let mut sight = Sight {
            epoch: Some(clock.epoch()),
            now: Some(clock.now()),
            surveys: judged.surveys(),
            ..Sight::default()
        };
        if !judged.plan.asks {
            sight.unanswered = known.clone();
        }
        if config.late.mode == LateMode::Off {
            return Ok(sight);
        }
        self.sample(config, judged, &clock, &mut sight).await?;
        if judged.watches() {
            let failed = |error| self.faults.of("looking for writers", error);
            let writers = locks::writers(self.connection, self.shape).await;
            let (holders, prepared) = writers.map_err(failed)?.ok_or_else(unwatched)?;
            sight.writers = holders.union(&prepared).cloned().collect();
            sight.disguised = prepared;
        }
        if judged.plan.asks {
            sight.rows_in_flight = self.rows_in_flight(known).await?;
            if !judged.watches() {
                self.left_from_locks(judged, known, &mut sight).await;
            }
        }
        Ok(sight)
    }

    async fn sample(
        &mut self,
        config: &SourceConfig,
        judged: &Judged,
        clock: &Clock,
        sight: &mut Sight,
    ) -> Result<(), SourceError> {
        let typed = self.shape.typed(self.shape.shape.cursor[0]);
        let kind = match typed.kind {
            Kind::DateTime { instant: true, .. } => Some(MomentKind::Instant),
            Kind::DateTime { instant: false, .. } => Some(MomentKind::Local),
            Kind::Date => Some(MomentKind::Date),
            _ => None,
        };
        match kind {
            Some(kind) => {
                let tick = clock::tick(typed.described.digits);
                let bound = clock.bound(kind, tick, &judged.plan, &config.late);
                sight.bound.below = Some(vec![bound.below]);
                sight.ceiling = bound.ceiling;
            }
            None => sight.window = judged.plan.window,
        }
        if kind != Some(MomentKind::Instant) {
            sight.bound = Bound {
                highest: Highest::Visible(self.last(None).await?),
                ..std::mem::take(&mut sight.bound)
            };
        }
        Ok(())
    }

    /// Witnesses of a time when locks were seen. They cannot be taken for gone because nobody looks
    /// any more.
    async fn left_from_locks(
        &mut self,
        judged: &Judged,
        known: &BTreeSet<Witness>,
        sight: &mut Sight,
    ) {
        let is_lock = |witness: &&Witness| witness.as_row().is_none();
        let locks: BTreeSet<_> = known.iter().filter(is_lock).cloned().collect();
        // It is switched on and off by a restart, which no lock survives.
        if locks.is_empty() || judged.watch == Watch::Off {
            return;
        }
        match locks::writers(self.connection, self.shape).await {
            Ok(Some((holders, prepared))) => {
                let live =
                    |witness: &Witness| holders.contains(witness) || prepared.contains(witness);
                sight.rows_in_flight.extend(locks.into_iter().filter(live));
            }
            _ => sight.unanswered.extend(locks),
        }
    }
}

/// The next look finds out what there is in their place.
fn unwatched() -> SourceError {
    SourceError::Unreachable {
        context: "metadata locks have stopped to be recorded completely".to_owned(),
        cause: None,
    }
}
