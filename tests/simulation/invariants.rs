//! What must hold. The numbers are those of `reliability.md`.
//!
//! I7 (every write is conditional) holds by construction: the seam has no other write.

use std::collections::{BTreeMap, BTreeSet};

use dbtick::model::state::StateDocument;
use dbtick::tick::report::{TickError, TickReport};

use super::faults::Mode;
use super::sink::Receivers;
use super::table::{Place, Table};
use super::world::Layout;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) name: &'static str,
    pub(crate) what: String,
}

/// What a run was made of: a run in which nothing happened proves nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Summary {
    pub(crate) ticks: u64,
    pub(crate) failed_ticks: u64,
    /// Ticks that the host would have killed.
    pub(crate) overran: u64,
    pub(crate) crashes: u64,
    pub(crate) commits: u64,
    pub(crate) takeovers: u64,
    pub(crate) duplicates: u64,
    /// Moves by hand.
    pub(crate) orders: u64,
    pub(crate) rows: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Invariants {
    first: Option<Violation>,
    /// Who got each fencing token, by the nonce of the claim.
    claims: BTreeMap<u64, String>,
    pub(crate) summary: Summary,
}

pub(crate) fn violation<T>(name: &'static str, what: String) -> Result<T, Violation> {
    Err(Violation { name, what })
}

fn require(
    holds: bool,
    name: &'static str,
    what: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if holds {
        Ok(())
    } else {
        violation(name, what())
    }
}

impl Invariants {
    /// Only the first counts: the others may follow from it.
    pub(crate) fn violated(&mut self, name: &'static str, what: String) {
        self.first.get_or_insert(Violation { name, what });
    }

    pub(crate) fn take_violation(&mut self) -> Option<Violation> {
        self.first.take()
    }

    pub(crate) fn check_write(
        &mut self,
        before: Option<&StateDocument>,
        after: &StateDocument,
        table: &Table,
        receivers: &Receivers,
    ) -> Result<(), Violation> {
        self.count(before, after);
        nothing_is_passed_over(after, table, receivers)?;
        versions_are_given_once(before, after)?;
        if before.map_or(0, |before| before.audit.len()) < after.audit.len() {
            return self.an_order_fences_and_happens_once(before, after);
        }
        the_checkpoint_is_monotone(before, after)?;
        self.tokens_fence(before, after)
    }

    fn count(&mut self, before: Option<&StateDocument>, after: &StateDocument) {
        if let Some(before) = before {
            let commits = |document: &StateDocument| document.counters.batches;
            self.summary.commits += commits(after).saturating_sub(commits(before));
            let taken = before.lease.held.is_some() && before.lease.token < after.lease.token;
            self.summary.takeovers += u64::from(taken);
        }
    }

    /// C6, C7 and I4 for a move by hand.
    fn an_order_fences_and_happens_once(
        &mut self,
        before: Option<&StateDocument>,
        after: &StateDocument,
    ) -> Result<(), Violation> {
        self.summary.orders += 1;
        let ids: BTreeSet<_> = after.audit.iter().map(|entry| &entry.id).collect();
        require(ids.len() == after.audit.len(), "C7", || {
            format!("an order has happened twice: {:?}", after.audit)
        })?;
        let old = before.map_or(0, |document| document.lease.token.get());
        let token = after.lease.token.get();
        let free = after.holder.is_none() && after.lease.held.is_none();
        require(token == old + 1 && free, "I4", || {
            format!("an order leaves token {old} at {token}, free: {free}")
        })?;
        let owner = self.claims.entry(token).or_default();
        require(owner.is_empty(), "I5", || {
            format!("token {token} has two claims: {owner} and an order")
        })?;
        "an order".clone_into(owner);
        Ok(())
    }

    /// I4, I5 and I9.
    fn tokens_fence(
        &mut self,
        before: Option<&StateDocument>,
        after: &StateDocument,
    ) -> Result<(), Violation> {
        let token = after.lease.token.get();
        let Some(holder) = &after.holder else {
            return violation("I4", "a write without a holder".to_owned());
        };
        require(holder.token == after.lease.token, "I9", || {
            format!("a write of token {:?} while {token} exists", holder.token)
        })?;
        let highest = self.claims.keys().next_back().copied().unwrap_or(0);
        require(token >= highest, "I9", || {
            format!("a write of token {token} changes something after {highest} exists")
        })?;
        let nonce = |document: &StateDocument| document.holder.as_ref().map(|h| h.nonce.clone());
        let acquired = before.and_then(nonce).as_ref() != Some(&holder.nonce);
        let old = before.map_or(0, |document| document.lease.token.get());
        require(token == old + u64::from(acquired), "I4", || {
            format!("token {old} is followed by {token}, acquired: {acquired}")
        })?;
        let owner = self
            .claims
            .entry(token)
            .or_insert_with(|| holder.nonce.clone());
        require(*owner == holder.nonce, "I5", || {
            format!("token {token} has two claims: {owner} and {}", holder.nonce)
        })
    }

    /// A tick may fail because the world does; it must not see damage where there is none.
    pub(crate) fn check_report(
        &mut self,
        report: &TickReport,
        mode: Mode,
    ) -> Result<(), Violation> {
        self.summary.ticks += 1;
        let Err(error) = &report.result else {
            return Ok(());
        };
        self.summary.failed_ticks += 1;
        let planned = match error {
            TickError::Delivery { .. }
            | TickError::LeaseLost { .. }
            | TickError::Source(_)
            | TickError::Store(_)
            | TickError::Contended { .. } => true,
            TickError::MarkedFailed
            | TickError::Fingerprint { .. }
            | TickError::SinksChanged { .. }
            | TickError::SchemaChanged { .. }
            | TickError::OtherServer { .. }
            | TickError::Restored { .. }
            | TickError::DocumentGone { .. }
            | TickError::Document { .. }
            | TickError::Refused(_)
            | TickError::Bug { .. } => false,
        };
        require(planned, "false alarm", || report.sentence())?;
        require(mode == Mode::Chaos, "calm", || report.sentence())
    }

    pub(crate) fn check_end(
        &self,
        document: Option<&StateDocument>,
        mode: Mode,
        layout: Layout,
        table: &Table,
        receivers: &Receivers,
    ) -> Result<(), Violation> {
        for (place, version) in table.rows() {
            require(receivers.have(place.key, version), "I2", || {
                format!("row {place} (version {version}) was never delivered")
            })?;
        }
        let duplicates = receivers.duplicates();
        if mode == Mode::Calm {
            require(duplicates == 0, "I11", || {
                format!("{duplicates} duplicates in a calm world")
            })?;
        }
        if self.summary.orders > 0 {
            return Ok(());
        }
        // A holder has one batch in flight, so each claim repeats at most one, to each sink.
        let claims = document.map_or(0, |document| document.lease.token.get());
        let most = claims * (layout.max_rows * layout.sinks) as u64;
        require(duplicates <= most, "I9", || {
            format!("{duplicates} duplicates by {claims} claims")
        })
    }
}

/// I1, for every row that is visible now.
fn nothing_is_passed_over(
    after: &StateDocument,
    table: &Table,
    receivers: &Receivers,
) -> Result<(), Violation> {
    let Some(checkpoint) = Place::of(after) else {
        return Ok(());
    };
    for place in table.on_the_way() {
        require(place > checkpoint, "I1", || {
            format!("the checkpoint {checkpoint} passes row {place}, which is on its way")
        })?;
    }
    for (place, version) in table.rows().take_while(|(place, _)| *place <= checkpoint) {
        require(receivers.have(place.key, version), "I1", || {
            format!("the checkpoint {checkpoint} passes row {place}, which nobody acknowledged")
        })?;
    }
    Ok(())
}

/// G3
fn versions_are_given_once(
    before: Option<&StateDocument>,
    after: &StateDocument,
) -> Result<(), Violation> {
    let (from, to) = (before.and_then(StateDocument::version), after.version());
    let moved = before.is_some_and(|before| before.position() != after.position());
    require(if moved { from < to } else { from <= to }, "G3", || {
        format!("version {from:?} is followed by {to:?}")
    })?;
    let last = after.history.last().map(|entry| entry.cursor.as_ref());
    let stands = after.checkpoint.cursor.as_ref();
    require(last.is_none_or(|last| last == stands), "G3", || {
        format!("the last version is not the checkpoint: {last:?} and {stands:?}")
    })
}

/// I3
fn the_checkpoint_is_monotone(
    before: Option<&StateDocument>,
    after: &StateDocument,
) -> Result<(), Violation> {
    let (from, to) = (before.and_then(Place::of), Place::of(after));
    require(from <= to, "I3", || {
        format!("the checkpoint goes from {from:?} to {to:?}")
    })
}
