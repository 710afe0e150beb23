//! Documents with other shards take the place of those that are there. The old ones are shut out first, all
//! of them; the new ones begin where the last of the old ones stood. So a row may come twice, and none is
//! passed over.

use super::{begun_again, fence_off, standing};
use crate::clock::Timestamp;
use crate::model::definition::SourceIdentity;
use crate::model::parting::Beginning;
use crate::model::shard::Layout;
use crate::model::sinks;
use crate::model::state::{StateDocument, Status};
use crate::model::transitions::{Refusal, remember};

/// Begins what the audit trail says of a document that was left behind.
const RETIRED: &str = "mark failed: resharded into ";
/// Ends it.
const PAUSED: &str = ", paused";

#[derive(Debug, Clone)]
pub enum Parting {
    /// Documents with other shards take the place of this one.
    Retire { into: Layout },
    /// They do not: it goes on where it stands.
    TakeBack,
    /// It takes the place of documents with other shards.
    Begin {
        beginning: Box<Beginning>,
        source: Box<SourceIdentity>,
        /// The names of all sinks.
        sinks: Vec<String>,
    },
}

/// A document was left behind by a reshard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retirement<'a> {
    /// What has taken its place, as a layout is written.
    pub into: &'a str,
    /// It was, before.
    pub paused: bool,
    /// That of the order, which is in the trail of those that it has begun, too.
    pub order: &'a str,
    pub at: Timestamp,
}

#[must_use]
pub fn retirement(document: &StateDocument) -> Option<Retirement<'_>> {
    if document.status != Status::Failed {
        return None;
    }
    let mut trail = document.audit.iter().rev();
    let entry = trail.find(|entry| entry.what.starts_with("mark failed"))?;
    let into = entry.what.strip_prefix(RETIRED)?;
    Some(Retirement {
        into: into.strip_suffix(PAUSED).unwrap_or(into),
        paused: into.ends_with(PAUSED),
        order: entry.id.as_deref().unwrap_or_default(),
        at: entry.at,
    })
}

/// `None`: it was done before.
pub(super) fn apply(
    document: &StateDocument,
    step: &Parting,
    now: Timestamp,
) -> Option<(StateDocument, String)> {
    match step {
        Parting::Retire { into } => Some(retire(document, *into)),
        Parting::TakeBack => take_back(document),
        Parting::Begin {
            beginning,
            source,
            sinks,
        } => Some(begin(document, beginning, source, sinks, now)),
    }
}

/// Whether it is about the same rows of a source that is parted: what another part has passed, this one
/// has not.
pub fn same_part(document: &StateDocument, source: &SourceIdentity) -> Result<(), Refusal> {
    let was = document.source.as_ref().and_then(|was| was.shard.clone());
    match was == source.definition.shard {
        true => Ok(()),
        false => Err(Refusal::OtherShard {
            was: was.unwrap_or_else(|| Layout::Whole.to_string()),
            is: (source.definition.shard.clone()).unwrap_or_else(|| Layout::Whole.to_string()),
        }),
    }
}

/// Also where an order that came to nothing has done it before: this one is known by its own entry.
fn retire(document: &StateDocument, into: Layout) -> (StateDocument, String) {
    let was_paused = retirement(document).is_some_and(|it| it.paused);
    let paused = match was_paused || document.status == Status::Paused {
        true => PAUSED,
        false => "",
    };
    let mut next = document.clone();
    fence_off(&mut next);
    next.status = Status::Failed;
    (next, format!("{RETIRED}{into}{paused}"))
}

fn take_back(document: &StateDocument) -> Option<(StateDocument, String)> {
    let Retirement { into, paused, .. } = retirement(document)?;
    let mut next = document.clone();
    fence_off(&mut next);
    next.status = match paused {
        true => Status::Paused,
        false => Status::Active,
    };
    Some((next, format!("reshard into {into} taken back")))
}

fn begin(
    document: &StateDocument,
    beginning: &Beginning,
    source: &SourceIdentity,
    names: &[String],
    now: Timestamp,
) -> (StateDocument, String) {
    let mut next = begun_again(document, source, now);
    next.lease.token = next.lease.token.max(beginning.token.next());
    next.checkpoint.cursor.clone_from(&beginning.at);
    next.checkpoint.last_successful_batch_id = None;
    next.checkpoint.metadata.remove("row_count");
    // Whoever was behind gets from here on what all get; another receiver than those is an explicit step.
    next.sinks.clear();
    sinks::register(&mut next.sinks, names, None);
    // A restore or a fail-over that nobody has noticed yet is noticed by the next tick.
    next.schema.clone_from(&beginning.schema);
    next.server.clone_from(&beginning.server);
    next.late.epoch.clone_from(&beginning.epoch);
    next.status = match beginning.paused {
        true => Status::Paused,
        false => Status::Active,
    };
    remember(document, &mut next, Some("reshard"), now);
    if let Some(entry) = next.history.last_mut() {
        entry.at = beginning.since.unwrap_or(entry.at);
        entry.transaction = beginning.transaction;
    }
    let what = match beginning.paused {
        // As a pause is told of.
        true => format!("pause, reshard, begins {}", standing(&next)),
        false => format!("reshard, begins {}", standing(&next)),
    };
    (next, what)
}
