//! What PostgreSQL shows of transactions in flight, to a user who may only read (B5).
//!
//! A look is a row of statements, each in a snapshot of its own: where the clock or sequence stands,
//! then who holds locks; rows are read later, by others. The order is the proof: whoever drew a cursor
//! below the bound was there when the locks were looked at, or had ended before rows are read.

mod bound;
mod evidence;
mod facts;
mod session;
mod stamp;
mod tables;
mod trigger;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnection;

use super::catalogue;
use super::fault::Faults;
use super::kind::Kind;
use super::page::Reading;
use super::shape::PostgresShape;
use crate::config::{FutureRows, LateMode, SourceConfig};
use crate::model::late::{Bound, Highest, Sight, Witness};
use crate::model::position::{MomentKind, Position, Scalar, ScalarType};
use crate::source::findings::finding;
use crate::source::late::{ClockBound, Evidence, Plan, Stamp, clock_bound};
use crate::source::names::shown;
use crate::source::{Finding, Grade, SourceError};
use bound::{Allowed, Sample, Sampling};
use evidence::Seen;
use facts::{Asked, Facts};
pub(super) use session::who_is;
use stamp::{Cursor, Fence, Verdict};
use tables::Tables;

/// Schemas that change faster than this are not waited for.
const ATTEMPTS: usize = 3;
/// Timestamps without a precision have this one.
const FINEST: i32 = 6;
/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
const BAD_VALUE: &str = "22023";
/// Where nobody says in which zone writers write.
const DEFAULT_ZONE: &str = "UTC";

/// What was judged last; as good as new while the catalogue says the same.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Option<Arc<Judged>>>);

#[derive(Debug)]
struct Judged {
    allowed: Allowed,
    /// With the version of the catalogue's facts; `None` where nothing is asked of it.
    of: Option<(Asked, String)>,
    verdict: Verdict,
    /// Why locks say nothing about these tables.
    unseen: Option<String>,
}

/// One look, on a connection of its own.
pub(super) struct Looking<'a> {
    pub(super) config: &'a SourceConfig,
    pub(super) connection: &'a mut PgConnection,
    pub(super) shape: &'a PostgresShape,
    pub(super) memory: &'a Memory,
}

/// The first statement's answer, and what it is worth.
#[derive(Debug)]
pub(super) struct Outlook {
    judged: Arc<Judged>,
    sample: Sample,
    pub(super) plan: Plan,
}

impl Memory {
    /// Errors may come from what has changed since.
    pub(super) fn forget(&self) {
        self.set(None);
    }

    fn get(&self) -> Option<Arc<Judged>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, judged: Option<Arc<Judged>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = judged;
    }
}

impl Looking<'_> {
    pub(super) async fn sight(mut self, known: &BTreeSet<Witness>) -> Result<Sight, SourceError> {
        let outlook = self.outlook().await?;
        outlook.plan.allowed(&self.config.late)?;
        let bound = self.bound(&outlook).await?;
        let seen = self.evidence(&outlook).await?;
        let fence = match outlook.plan.asks {
            true => outlook.judged.verdict.fence,
            false => Fence::Nobody,
        };
        let Outlook { sample, plan, .. } = outlook;
        let is_cut = matches!(self.scalar()?, ScalarType::Moment(_));
        Ok(Sight {
            epoch: Some(sample.epoch),
            now: Some(sample.now),
            bound: bound.bound,
            writers: seen.writers,
            disguised: seen.disguised,
            unanswered: evidence::unanswered(fence, known),
            // Of times, the window is what was cut off.
            window: plan.window.filter(|_| !is_cut),
            ceiling: bound.ceiling,
            ..Sight::default()
        })
    }

    /// Where clock and sequence stand, and how well that protects.
    pub(super) async fn outlook(&mut self) -> Result<Outlook, SourceError> {
        for _ in 0..ATTEMPTS {
            let judged = self.judged().await?;
            let zone = self.zone()?;
            let sampling = Sampling {
                allowed: &judged.allowed,
                asked: judged.of.as_ref().map(|(asked, _)| asked),
                sequence: judged.verdict.sequence.as_ref(),
                zone: zone.as_deref(),
            };
            let sample = sampling.sample(self.connection).await;
            let sample = sample.map_err(|error| self.explain("reading the clock", error))?;
            let version = judged.of.as_ref().map(|(_, version)| version);
            if sample.version.as_ref() != version {
                self.memory.forget();
                continue;
            }
            let evidence = judged.evidence(&sample);
            let plan = Plan::of(&judged.verdict.stamp, &evidence, &self.config.late);
            return Ok(Outlook {
                judged,
                sample,
                plan,
            });
        }
        Err(SourceError::Unreachable {
            context: format!(
                "the schema of {} changes again and again; it is looked at later",
                self.config.connection_name
            ),
            cause: None,
        })
    }

    async fn judged(&mut self) -> Result<Arc<Judged>, SourceError> {
        let known = self.memory.get();
        if !self.asks() {
            return match known {
                Some(known) => Ok(known),
                None => self.unasked().await,
            };
        }
        let tables = Tables::of(self.connection, self.shape).await;
        let tables = tables.map_err(|error| self.explain("looking for the tables", error))?;
        if let Some(known) = known
            && let Some((asked, _)) = &known.of
            && asked.tables == tables
            && asked.shown == self.shape.declared(self.cursor()).origin
        {
            return Ok(known);
        }
        self.judge(tables).await
    }

    /// Where the owner wants no evidence, none is looked for.
    fn asks(&self) -> bool {
        match self.config.late.mode {
            LateMode::Auto | LateMode::Window(_) => true,
            LateMode::Off | LateMode::Settle(_) => false,
        }
    }

    async fn unasked(&mut self) -> Result<Arc<Judged>, SourceError> {
        let judged = Arc::new(Judged {
            allowed: Allowed::find(self.connection).await,
            of: None,
            verdict: Verdict {
                stamp: Stamp::Overridable("nothing is asked".to_owned()),
                fence: Fence::Nobody,
                sequence: None,
            },
            unseen: None,
        });
        self.memory.set(Some(Arc::clone(&judged)));
        Ok(judged)
    }

    async fn judge(&mut self, tables: Tables) -> Result<Arc<Judged>, SourceError> {
        let shown = self.shape.declared(self.cursor()).origin;
        let base = catalogue::base(self.connection, shown).await;
        let asked = Asked {
            tables,
            shown,
            base: base.map_err(|error| self.explain("reading the catalogue", error))?,
        };
        let allowed = Allowed::find(self.connection).await;
        let facts = Facts::load(self.connection, allowed.subscriptions, &asked).await;
        let (facts, version) =
            facts.map_err(|error| self.explain("reading the catalogue", error))?;
        let declared = self.shape.declared(self.cursor());
        let cursor = Cursor {
            name: &declared.name,
            scalar: self.scalar()?,
            is_xid: declared.typed.form().kind == Kind::Xid8,
            buried: self.shape.shape.keyset.tombstones.is_some(),
        };
        let judged = Arc::new(Judged {
            verdict: stamp::judge(&facts, cursor, &self.config.late)?,
            unseen: unseen(&facts, &asked.tables),
            allowed,
            of: Some((asked, version)),
        });
        self.memory.set(Some(Arc::clone(&judged)));
        Ok(judged)
    }

    async fn bound(&mut self, outlook: &Outlook) -> Result<Bounded, SourceError> {
        let Outlook {
            judged,
            sample,
            plan,
        } = outlook;
        let holds = self.config.late.future == FutureRows::Hold;
        if self.config.late.mode == LateMode::Off {
            return Ok(Bounded::default());
        }
        if let ScalarType::Moment(kind) = self.scalar()? {
            let late = &self.config.late;
            let at = |wall| clock_bound(kind, wall, self.tick(), plan, late);
            let ClockBound { below, .. } = at(sample.wall.lowest);
            let ClockBound { ceiling, .. } = at(sample.wall.highest);
            let highest = match kind {
                MomentKind::Instant => Highest::Any,
                MomentKind::Local | MomentKind::Date => Highest::Visible(self.last().await?),
            };
            return Ok(Bounded::of(highest, Some(below), ceiling));
        }
        if judged.verdict.stamp == Stamp::TransactionId {
            let ended = sample.ended_below.map(|number| self.number(number.into()));
            return Ok(Bounded::of(Highest::Any, ended.transpose()?, None));
        }
        // What a standby has of a sequence is ahead of what was given out.
        if let Some(next) = sample.next.filter(|_| !sample.in_recovery) {
            let next = self.number(next)?;
            let ceiling = holds.then(|| next.clone());
            return Ok(Bounded::of(Highest::Any, Some(next), ceiling));
        }
        let last = self.last().await?;
        Ok(Bounded::of(Highest::Visible(last), None, None))
    }

    async fn evidence(&mut self, outlook: &Outlook) -> Result<Seen, SourceError> {
        let Some((asked, _)) = outlook.judged.of.as_ref().filter(|_| outlook.plan.asks) else {
            return Ok(Seen::default());
        };
        let fence = outlook.judged.verdict.fence;
        let seen = evidence::seen(self.connection, fence, &asked.tables).await;
        seen.map_err(|error| self.explain("looking for writers", error))
    }

    async fn last(&mut self) -> Result<Option<Position>, SourceError> {
        let mut reading = Reading {
            connection: &mut *self.connection,
            shape: self.shape,
            faults: Faults::of(self.config),
        };
        reading.last(None).await
    }

    /// The column that decides; those behind it only part rows that share it.
    fn cursor(&self) -> usize {
        self.shape.shape.cursor[0]
    }

    fn scalar(&self) -> Result<ScalarType, SourceError> {
        let ordered = self.shape.ordered(self.cursor());
        ordered.ok_or_else(|| self.misfit("has no order"))
    }

    /// As positions have it.
    fn number(&self, number: i128) -> Result<Scalar, SourceError> {
        let scalar = Scalar::Integer(number).as_type(self.scalar()?);
        scalar.ok_or_else(|| self.misfit("is no number"))
    }

    fn misfit(&self, what: &str) -> SourceError {
        let name = &self.shape.declared(self.cursor()).name;
        SourceError::Mismatch {
            what: format!("the cursor {} {what}", shown(name)),
            remedy: "take another column".to_owned(),
        }
    }

    fn tick(&self) -> Duration {
        let precision = self.shape.declared(self.cursor()).typed.modifier;
        let places = match precision {
            0..=FINEST => FINEST - precision,
            _ => 0,
        };
        Duration::from_micros(10_u64.pow(places.unsigned_abs()))
    }

    /// In which the clock is read, for cursors that have none.
    fn zone(&self) -> Result<Option<String>, SourceError> {
        let has_none = matches!(
            self.scalar()?,
            ScalarType::Moment(MomentKind::Local | MomentKind::Date)
        );
        let zone = self.config.late.time_zone.as_deref();
        Ok(has_none.then(|| zone.map_or_else(|| DEFAULT_ZONE.to_owned(), as_postgres_means_it)))
    }

    fn explain(&self, doing: &'static str, error: sqlx::Error) -> SourceError {
        let code = error.as_database_error().and_then(|error| error.code());
        match (code.as_deref(), &self.config.late.time_zone) {
            (Some(BAD_VALUE), Some(zone)) => SourceError::Mismatch {
                what: format!("source.time_zone is {zone:?}, which the database does not know"),
                remedy: "write a name of pg_timezone_names, such as \"Europe/Berlin\"".to_owned(),
            },
            _ => Faults::of(self.config).explain(doing, error),
        }
    }
}

impl Outlook {
    /// A row with a greater number than the sequence has given out.
    pub(super) fn ahead(&self, last: Option<&Position>) -> Option<Finding> {
        let next = self.sample.next.filter(|_| !self.sample.in_recovery)?;
        let sequence = self.judged.verdict.sequence.as_ref()?;
        let last = last?.cursor().first()?;
        let is_ahead = *last >= Scalar::Integer(next).as_type(last.scalar_type())?;
        is_ahead.then(|| {
            let text = format!(
                "the last row has {last}, and the sequence {} has not come to it: such rows are of \
                 the future and wait; set the sequence with setval, or source.future to \"deliver\", \
                 or source.stamped_by to \"application\" if ids do not come from it",
                sequence.name
            );
            finding(Grade::Warn, "future rows", text)
        })
    }
}

impl Judged {
    fn evidence(&self, sample: &Sample) -> Evidence {
        let is_numbered = self.verdict.stamp == Stamp::TransactionId;
        if is_numbered && sample.ended_below.is_none() {
            return Evidence::Nothing("this user may not see snapshots".to_owned());
        }
        if let Some(why) = &self.unseen {
            return Evidence::Nothing(why.clone());
        }
        if sample.in_recovery && !is_numbered {
            let why =
                "the server is a standby, which does not show the transactions of its primary";
            return Evidence::Nothing(why.to_owned());
        }
        Evidence::Writers(self.verdict.fence.sentence())
    }
}

/// A bound, and what is beyond it in the future.
#[derive(Debug, Default)]
struct Bounded {
    bound: Bound,
    ceiling: Option<Scalar>,
}

impl Bounded {
    fn of(highest: Highest, below: Option<Scalar>, ceiling: Option<Scalar>) -> Self {
        let below = below.map(|scalar| vec![scalar]);
        Self {
            bound: Bound { highest, below },
            ceiling,
        }
    }
}

/// An offset counts hours to the west of Greenwich there, where the rest of the world, and we, count
/// those to the east.
fn as_postgres_means_it(zone: &str) -> String {
    let is_offset = |digits: &str| digits.starts_with(|first: char| first.is_ascii_digit());
    match (zone.strip_prefix('+'), zone.strip_prefix('-')) {
        (Some(east), _) if is_offset(east) => format!("-{east}"),
        (_, Some(west)) if is_offset(west) => format!("+{west}"),
        _ => zone.to_owned(),
    }
}

/// Writers of these tables hold no lock here.
fn unseen(facts: &Facts, tables: &Tables) -> Option<String> {
    if let Some(elsewhere) = &tables.elsewhere {
        return Some(format!(
            "rows come from {elsewhere}, of which no lock tells who writes them"
        ));
    }
    let kinds = facts.kinds.as_deref().unwrap_or_default();
    let has = |kind: &str| kinds.iter().any(|found| found == kind);
    if has("f") {
        return Some("the rows of a foreign table are written on another server".to_owned());
    }
    if has("m") {
        return Some("a materialized view shows rows long after they were written".to_owned());
    }
    facts.subscribed.then(|| {
        "the rows come from a subscription, and their writers are on another server".to_owned()
    })
}
