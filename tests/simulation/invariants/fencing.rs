//! Who may write: leases, tokens, orders by hand, versions.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use dbtick::model::state::StateDocument;

use super::super::instance::LEASE;
use super::super::table::Place;
use super::{Accepted, Held, Known, require};

/// Whose write it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// A holder, or one who becomes it.
    Holder,
    /// A move by hand.
    Order,
    /// A resume by hand.
    Resume,
    /// A first document by hand, with nobody in it.
    Beginning,
    /// A tick that came to nothing says why, or that this is over, and nothing else.
    Report,
}

impl Accepted<'_> {
    fn by(&self) -> By {
        let news = self.before.map_or(0, |before| before.audit.len()) < self.after.audit.len();
        match self.after.audit.last().filter(|_| news) {
            // A poller that pauses by itself does so in a write of its holder.
            Some(entry) if entry.id.is_some() && entry.what == "resume" => By::Resume,
            Some(entry) if entry.id.is_some() && self.before.is_none() => By::Beginning,
            Some(entry) if entry.id.is_some() => By::Order,
            _ if self.before.is_some_and(|it| is_a_report(it, self.after)) => By::Report,
            _ => By::Holder,
        }
    }

    fn nonce(&self) -> Option<&str> {
        Some(&self.after.holder.as_ref()?.nonce)
    }

    fn is_a_claim(&self) -> bool {
        let before = self.before.and_then(|before| before.holder.as_ref());
        self.nonce() != before.map(|holder| holder.nonce.as_str())
    }

    fn tokens(&self) -> (u64, u64) {
        let old = self.before.map_or(0, |before| before.lease.token.get());
        (old, self.after.lease.token.get())
    }
}

fn is_a_report(before: &StateDocument, after: &StateDocument) -> bool {
    if before.trouble == after.trouble {
        return false;
    }
    let mut told = before.clone();
    told.trouble.clone_from(&after.trouble);
    told.counters.failed_ticks = after.counters.failed_ticks;
    told == *after
}

impl Known {
    pub(super) fn remember_the_claim(&mut self, write: &Accepted<'_>) {
        let owner = match write.by() {
            By::Holder => write.nonce(),
            By::Order => Some("an order"),
            By::Resume | By::Report | By::Beginning => None,
        };
        if let Some(owner) = owner {
            let (_, token) = write.tokens();
            self.orders += u64::from(write.by() == By::Order);
            self.claims.entry(token).or_insert_with(|| owner.to_owned());
        }
    }
}

pub(super) fn versions_are_given_once(_: &mut Known, write: &Accepted<'_>) -> Held {
    let Accepted { before, after, .. } = write;
    let (from, to) = (before.and_then(StateDocument::version), after.version());
    let moved = before.is_some_and(|before| before.position() != after.position());
    require(if moved { from < to } else { from <= to }, || {
        format!("version {from:?} is followed by {to:?}")
    })?;
    let last = after.history.last().map(|entry| entry.cursor.as_ref());
    let stands = after.checkpoint.cursor.as_ref();
    require(last.is_none_or(|last| last == stands), || {
        format!("the last version is not the checkpoint: {last:?} and {stands:?}")
    })
}

/// C6, C7
pub(super) fn an_order_happens_once(_: &mut Known, write: &Accepted<'_>) -> Held {
    let ids = || {
        write
            .after
            .audit
            .iter()
            .filter_map(|entry| entry.id.as_ref())
    };
    let different: BTreeSet<_> = ids().collect();
    require(different.len() == ids().count(), || {
        format!("an order has happened twice: {:?}", write.after.audit)
    })
}

/// Except by a move by hand, which is audited.
pub(super) fn the_checkpoint_is_monotone(_: &mut Known, write: &Accepted<'_>) -> Held {
    let Accepted { before, after, .. } = write;
    match write.by() {
        By::Order | By::Report | By::Beginning => Ok(()),
        By::Resume => {
            let same = before.is_some_and(|before| {
                before.lease == after.lease
                    && before.checkpoint == after.checkpoint
                    && before.sinks == after.sinks
            });
            require(same, || "a resume has moved something".to_owned())
        }
        By::Holder => {
            let (from, to) = (before.and_then(Place::of), Place::of(after));
            require(from <= to, || {
                format!("the checkpoint goes from {from:?} to {to:?}")
            })
        }
    }
}

pub(super) fn an_old_token_changes_nothing(known: &mut Known, write: &Accepted<'_>) -> Held {
    if write.by() != By::Holder {
        return Ok(());
    }
    let (_, token) = write.tokens();
    let holder = write.after.holder.as_ref();
    let holder = holder.map(|holder| holder.token);
    require(holder == Some(write.after.lease.token), || {
        format!("a write of token {holder:?} while {token} exists")
    })?;
    let highest = known.claims.keys().next_back().copied().unwrap_or(0);
    require(token >= highest, || {
        format!("a write of token {token} changes something after {highest} exists")
    })
}

/// By a holder as by a move by hand, which leaves nobody in it.
pub(super) fn each_acquisition_counts_one(_: &mut Known, write: &Accepted<'_>) -> Held {
    let (old, token) = write.tokens();
    match write.by() {
        By::Resume | By::Report => Ok(()),
        By::Order | By::Beginning => {
            let free = write.after.holder.is_none() && write.after.lease.held.is_none();
            let wanted = old + u64::from(write.by() == By::Order);
            require(token == wanted && free, || {
                format!("an order leaves token {old} at {token}, free: {free}")
            })
        }
        By::Holder => {
            let acquired = write.is_a_claim();
            require(token == old + u64::from(acquired), || {
                format!("token {old} is followed by {token}, acquired: {acquired}")
            })
        }
    }
}

pub(super) fn a_token_has_one_owner(known: &mut Known, write: &Accepted<'_>) -> Held {
    let (_, token) = write.tokens();
    let owner = known.claims.get(&token).map(String::as_str);
    match write.by() {
        By::Resume | By::Report | By::Beginning => Ok(()),
        By::Order => require(owner.is_none(), || {
            format!("token {token} has two claims: {owner:?} and an order")
        }),
        By::Holder => require(owner.is_none() || owner == write.nonce(), || {
            let nonce = write.nonce();
            format!("token {token} has two claims: {owner:?} and {nonce:?}")
        }),
    }
}

/// Where the store tells the time, whatever the clocks of processes say.
pub(super) fn an_unexpired_lease_is_not_taken(_: &mut Known, write: &Accepted<'_>) -> Held {
    let held = write.before.is_some_and(|it| it.lease.held.is_some());
    let (Some(written), true) = (write.written, write.store_tells_time) else {
        return Ok(());
    };
    if !held || write.by() != By::Holder || !write.is_a_claim() {
        return Ok(());
    }
    let age = write.now - written;
    require(age >= TimeDelta::from_std(LEASE.ttl).unwrap(), || {
        format!("a lease is taken {age} after it was renewed")
    })
}

/// Otherwise a document that is deleted would be taken for one that never was.
pub(super) fn whoever_has_begun_is_marked(_: &mut Known, write: &Accepted<'_>) -> Held {
    let begun = write.after.counters.batches > 0 || write.by() == By::Order;
    require(!begun || write.marked, || {
        "something is committed, and the marker is missing".to_owned()
    })
}
