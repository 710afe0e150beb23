//! Who gives a row its cursor, and so which transactions matter. Pure: facts in, a verdict out.

use super::facts::{Facts, Sequence};
use super::trigger::{self, Time};
use crate::config::{LateCommits, StampedBy};
use crate::model::position::{MomentKind, ScalarType};
use crate::source::SourceError;
use crate::source::late::Stamp;
use crate::source::names::shown;

/// What is known about the column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) name: &'a str,
    pub(super) scalar: ScalarType,
    /// Of a type that holds nothing but numbers of transactions.
    pub(super) is_xid: bool,
    /// Rows come from a table of deletions too, whose cursor may be another time.
    pub(super) buried: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) stamp: Stamp,
    pub(super) fence: Fence,
    /// Whose last number is the bound.
    pub(super) sequence: Option<Sequence>,
}

/// Which transactions could still commit a row within the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    /// None: the bound itself is before all of them.
    Nobody,
    /// Those that hold or await the lock of a writer on one of the tables.
    Writers,
    /// All of the database: one that has begun has its time, and no lock yet.
    Transactions,
}

impl Fence {
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Self::Nobody => "a snapshot tells below which number all transactions have ended",
            Self::Writers => "every transaction that writes to the table is seen in pg_locks",
            Self::Transactions => {
                "every transaction that could have begun before is seen in pg_locks"
            }
        }
    }
}

/// The catalogue is asked even where the owner has declared something: what contradicts it counts.
pub(super) fn judge(
    facts: &Facts,
    cursor: Cursor<'_>,
    late: &LateCommits,
) -> Result<Verdict, SourceError> {
    let declared = late.stamped_by.map(Stamp::declared);
    let stamp = match cursor.scalar {
        _ if cursor.is_xid || declared == Some(Stamp::TransactionId) => {
            return transaction_id(cursor);
        }
        ScalarType::Moment(kind) => moment(facts, cursor, kind, declared, late),
        _ if declared == Some(Stamp::Transaction) => {
            return Err(mismatch(cursor, "transaction", "a timestamp"));
        }
        ScalarType::Integer | ScalarType::Decimal => {
            let sequence = drawn_from(facts).filter(|_| !is_by_application(late));
            let stamp = declared.unwrap_or_else(|| number(facts, cursor, sequence));
            return Ok(Verdict {
                stamp: sequence.and_then(blocks).unwrap_or(stamp),
                fence: Fence::Writers,
                sequence: sequence.filter(|sequence| is_bound(sequence)).cloned(),
            });
        }
        _ => declared.unwrap_or_else(|| unknown(cursor)),
    };
    let is_moment = matches!(cursor.scalar, ScalarType::Moment(_));
    let fence = match &stamp {
        Stamp::Statement if !cursor.buried => Fence::Writers,
        _ if is_moment => Fence::Transactions,
        _ => Fence::Writers,
    };
    Ok(Verdict {
        stamp,
        fence,
        sequence: None,
    })
}

fn transaction_id(cursor: Cursor<'_>) -> Result<Verdict, SourceError> {
    match cursor.scalar {
        ScalarType::Integer | ScalarType::Decimal => Ok(Verdict {
            stamp: Stamp::TransactionId,
            fence: Fence::Nobody,
            sequence: None,
        }),
        _ => Err(mismatch(cursor, "transaction_id", "a number")),
    }
}

fn mismatch(cursor: Cursor<'_>, by: &str, wanted: &str) -> SourceError {
    SourceError::Mismatch {
        what: format!(
            "source.stamped_by is {by:?}, and the cursor {} is not {wanted}",
            shown(cursor.name)
        ),
        remedy: "take another cursor, or leave stamped_by out".to_owned(),
    }
}

fn is_by_application(late: &LateCommits) -> bool {
    late.stamped_by == Some(StampedBy::Application)
}

fn moment(
    facts: &Facts,
    cursor: Cursor<'_>,
    kind: MomentKind,
    declared: Option<Stamp>,
    late: &LateCommits,
) -> Stamp {
    let name = shown(cursor.name);
    let default = default(facts).and_then(trigger::time);
    let stamp = match declared {
        // now() is no time of the statement, whoever says so.
        Some(Stamp::Statement) if default == Some(Time::Transaction) => Stamp::Transaction,
        Some(declared) => declared,
        None => match by_trigger(facts) {
            Some(Time::Statement) => Stamp::Statement,
            Some(Time::Transaction) => Stamp::Transaction,
            None if default.is_some() => Stamp::Overridable(format!(
                "{name} has a default that writers may override; a trigger that always stamps it, \
                 or source.stamped_by \"transaction\" if they never do, makes it PROVEN"
            )),
            None => unknown(cursor),
        },
    };
    let is_certain = matches!(stamp, Stamp::Statement | Stamp::Transaction);
    if is_certain && kind == MomentKind::Local && late.time_zone.is_none() {
        return Stamp::Overridable(format!(
            "{name} has no time zone, and each writer's session may have its own; source.time_zone, \
             if it is the one of all writers, makes it PROVEN"
        ));
    }
    stamp
}

fn unknown(cursor: Cursor<'_>) -> Stamp {
    let name = shown(cursor.name);
    Stamp::Overridable(match cursor.scalar {
        ScalarType::Moment(_) => format!(
            "nothing in the schema says who stamps {name}; a trigger that always does, or \
             source.stamped_by, makes it PROVEN"
        ),
        _ => format!(
            "nothing in the schema says who gives {name} its values; source.stamped_by \"database\", \
             if they grow and are drawn as a row is written, makes it PROVEN"
        ),
    })
}

fn default(facts: &Facts) -> Option<&str> {
    facts.column.as_ref()?.default.as_deref()
}

/// In each table that has rows of its own.
fn by_trigger(facts: &Facts) -> Option<Time> {
    let column = &facts.column.as_ref()?.name;
    let places = facts.places.as_deref()?;
    let times = places
        .iter()
        .filter(|place| place.kind != "p")
        .map(|place| trigger::always(place.triggers.as_deref().unwrap_or_default(), column))
        .collect::<Option<Vec<_>>>()?;
    times.into_iter().max()
}

/// The sequence of an identity, or of a default that is nothing but its next number.
fn drawn_from(facts: &Facts) -> Option<&Sequence> {
    let is_identity = !facts.column.as_ref()?.identity.is_empty();
    let is_next = default(facts).is_some_and(|default| {
        default.starts_with("nextval('") && default.ends_with("'::regclass)")
    });
    let sequence = facts.sequence.as_ref()?;
    (is_identity || is_next).then_some(sequence)
}

/// Its last number tells which ones were given out.
fn is_bound(sequence: &Sequence) -> bool {
    sequence.readable && sequence.increment > 0 && !sequence.cycle
}

/// True of a sequence whatever the owner says of its column.
fn blocks(sequence: &Sequence) -> Option<Stamp> {
    let name = &sequence.name;
    let why = if sequence.cache > 1 {
        let cache = sequence.cache;
        format!(
            "the sequence {name} has CACHE {cache}: each session draws a block of numbers and uses \
             them later; ALTER SEQUENCE {name} CACHE 1 mends it"
        )
    } else if sequence.increment < 0 {
        format!("the sequence {name} counts down, so that later rows come before earlier ones")
    } else if sequence.cycle {
        format!("the sequence {name} begins again at its end; NO CYCLE mends it")
    } else {
        return None;
    };
    Some(Stamp::Overridable(why))
}

fn number(facts: &Facts, cursor: Cursor<'_>, sequence: Option<&Sequence>) -> Stamp {
    let Some(sequence) = sequence else {
        return unknown(cursor);
    };
    let is_always = |identity: &str| identity == "a";
    let column = facts.column.as_ref();
    let places = facts.places.as_deref().unwrap_or_default();
    if !column.is_some_and(|column| is_always(&column.identity)) {
        return Stamp::Overridable(
            "writers may give an id of their own instead of the sequence's; GENERATED ALWAYS AS \
             IDENTITY, or source.stamped_by \"database\" if they never do, makes it PROVEN"
                .to_owned(),
        );
    }
    if !places.iter().all(|place| is_always(&place.identity)) {
        return Stamp::Overridable(
            "rows that are written straight into a partition or child table have an id of their \
             writer; source.stamped_by \"database\", if nobody does that, makes it PROVEN"
                .to_owned(),
        );
    }
    if !sequence.readable {
        let (name, user) = (&sequence.name, &facts.user);
        return Stamp::Overridable(format!(
            "the sequence {name} may not be read, so that it is not known which ids were given out; \
             GRANT SELECT ON SEQUENCE {name} TO {user} makes it PROVEN"
        ));
    }
    Stamp::Statement
}
