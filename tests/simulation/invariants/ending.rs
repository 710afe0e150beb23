//! What must be true when the world has healed and nothing is left to do.

use std::sync::Arc;

use dbtick::model::policy::PoisonPolicy;
use dbtick::model::state::StateDocument;
use dbtick::tick::MOST_UNCOMMITTED;

use super::super::faults::Mode;
use super::super::layout::{Fences, Layout};
use super::super::receivers::Receivers;
use super::super::table::Table;
use super::{Held, Invariants, require};

/// How the world stands when all is over.
pub(crate) struct End<'a> {
    /// Of the poller: one, or one for each shard.
    pub(crate) documents: &'a [Arc<StateDocument>],
    pub(crate) mode: Mode,
    pub(crate) layout: Layout,
    /// Receivers failed at batches whatever was in them.
    pub(crate) breaks_at_random: bool,
    pub(crate) table: &'a Table,
    pub(crate) receivers: &'a Receivers,
}

pub(super) fn everybody_has_everything(_: &Invariants, end: &End<'_>) -> Held {
    for (place, version) in end.table.rows() {
        for (name, receiver) in end.receivers.all() {
            require(receiver.has((place.key, version)), || {
                format!("row {place} (version {version}) never came to {name}")
            })?;
        }
    }
    let behind = end.documents.iter().any(|it| it.is_anybody_behind());
    require(!behind, || "somebody is still behind".to_owned())
}

/// Whatever came late, or by a backfill (H3).
pub(super) fn whoever_compares_fences_has_the_newest(_: &Invariants, end: &End<'_>) -> Held {
    if end.layout.fences == Fences::Ignored {
        return Ok(());
    }
    for (place, version) in end.table.rows() {
        for (name, receiver) in end.receivers.all() {
            let latest = receiver.latest_of(place.key);
            let aside = receiver.is_aside((place.key, version));
            require(aside || latest == Some(version), || {
                format!("{name} ends with version {latest:?} of row {place}, not {version}")
            })?;
        }
    }
    Ok(())
}

/// A receiver that takes nothing for a while, from one moment to another, convicts no row.
/// Two kinds of good rows may be aside: those that a receiver itself has named, and those at which
/// it failed again and again by chance, of which there are few.
pub(super) fn only_bad_rows_are_aside(_: &Invariants, end: &End<'_>) -> Held {
    let most = u64::from(PoisonPolicy::default().most);
    for (name, receiver) in end.receivers.all() {
        let good = receiver
            .aside()
            .filter(|row| !receiver.manners.bad.contains_key(&row.1) && !receiver.has_named(*row));
        let good: Vec<_> = good.collect();
        let excused = end.breaks_at_random && good.len() as u64 <= most;
        require(good.is_empty() || excused, || {
            format!("{good:?} are aside, and {name} would have taken them")
        })?;
    }
    Ok(())
}

pub(super) fn a_calm_world_has_no_duplicates(_: &Invariants, end: &End<'_>) -> Held {
    let duplicates = end.receivers.duplicates();
    require(end.mode == Mode::Chaos || duplicates == 0, || {
        format!("{duplicates} duplicates in a calm world")
    })
}

/// Each row is counted once, when the checkpoint or the sink's own place passes it. One that was kept
/// before a crash, and has a newer version since, is not; one that comes again may be counted again.
pub(super) fn what_is_aside_is_counted(known: &Invariants, end: &End<'_>) -> Held {
    let counted = end.documents.iter().map(|it| it.counters.quarantined);
    let counted: u64 = counted.sum();
    let (mut least, mut most) = (0, known.forgotten());
    for (_, receiver) in end.receivers.all() {
        most += receiver.aside().count() as u64;
        let rows = end.table.rows();
        let rows = rows.map(|(place, version)| (place.key, version));
        let aside = rows.filter(|row| receiver.is_aside(*row) && !receiver.stored(*row));
        least += aside.count() as u64;
    }
    let moved = known.orders() > 0 || end.layout.filling.is_some();
    require(moved || (least..=most).contains(&counted), || {
        format!("{counted} rows are counted as set aside, there are {least} to {most}")
    })
}

/// A holder has some batches in flight and some that are not committed yet, so each claim repeats at most
/// these, to each sink; after a failure, one of
/// two rows at the least, so that one can show whose fault it is. Who looks for a bad
/// row sends one that was taken once more, or a few that were delivered before. Who is behind has a batch
/// of its own, and gets what is above the checkpoint all at once.
pub(super) fn a_claim_repeats_what_was_in_flight(known: &Invariants, end: &End<'_>) -> Held {
    let duplicates = end.receivers.duplicates();
    let claims: u64 = end.documents.iter().map(|it| it.lease.token.get()).sum();
    let batch = end.layout.max_rows as u64;
    let each = match (end.layout.has_manners, end.layout.leaves_behind()) {
        (false, _) => batch.max(2),
        (true, false) => batch + 4,
        (true, true) => 2 * (batch + 4) + known.most_delivered(),
    };
    let ahead = (MOST_UNCOMMITTED + end.layout.max_inflight) as u64;
    let most = claims * end.layout.sinks as u64 * (each + ahead * batch);
    let moved = known.orders() > 0 || end.layout.filling.is_some();
    require(moved || duplicates <= most, || {
        format!("{duplicates} duplicates by {claims} claims")
    })
}
