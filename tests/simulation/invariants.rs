//! What must hold. The numbers are those of `reliability.md`.
//!
//! I7 (every write is conditional) holds by construction: the seam has no other write.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dbtick::model::ledger::{LedgerMode, Mark, Segment};
use dbtick::model::page::EventId;
use dbtick::model::policy::PoisonPolicy;
use dbtick::model::state::StateDocument;
use dbtick::tick::report::{TickError, TickReport};

use super::faults::Mode;
use super::receivers::Receivers;
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
    /// Times that a sink fell behind.
    pub(crate) lags: u64,
    pub(crate) quarantined: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Invariants {
    first: Option<Violation>,
    /// Who got each fencing token, by the nonce of the claim.
    claims: BTreeMap<u64, String>,
    /// Most events that were remembered above the checkpoint at once.
    most_delivered: u64,
    ledger: Written,
    pub(crate) summary: Summary,
}

/// What the ledger of the document says, read along.
#[derive(Debug, Default)]
struct Written {
    head: Option<String>,
    /// Sink and event.
    events: BTreeSet<(String, EventId)>,
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
        layout: Layout,
        table: &Table,
        receivers: &Receivers,
    ) -> Result<(), Violation> {
        self.count(before, after);
        let passage = Passage {
            after,
            layout,
            table,
            receivers,
        };
        passage.nothing_is_passed_over()?;
        passage.whoever_is_behind_has_what_it_says()?;
        versions_are_given_once(before, after)?;
        let news = before.map_or(0, |before| before.audit.len()) < after.audit.len();
        match after.audit.last().filter(|_| news) {
            // A poller that pauses by itself does so in a write of its holder.
            Some(entry) if entry.id.is_some() && entry.what != "resume" => {
                return self.an_order_fences_and_happens_once(before, after);
            }
            Some(entry) if entry.id.is_some() => {
                return a_resume_changes_nothing_else(before, after);
            }
            _ => {}
        }
        if before.is_some_and(|before| is_a_report(before, after)) {
            return Ok(());
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
            let falls = |name: &String| before.sink(name).lag.is_none();
            let behind = after.sinks.iter().filter(|(_, sink)| sink.lag.is_some());
            self.summary.lags += behind.filter(|(name, _)| falls(name)).count() as u64;
        }
        self.most_delivered = self.most_delivered.max(after.delivered.len() as u64);
    }

    /// F6: the segment that a write names is there, follows the one before, and tells nothing that did not
    /// happen.
    pub(crate) fn read_ledger(
        &mut self,
        segment: Option<(String, Option<Bytes>)>,
        after: &StateDocument,
        layout: Layout,
        receivers: &Receivers,
    ) -> Result<(), Violation> {
        let ledger = &mut self.ledger;
        let head = segment.as_ref().map(|(head, _)| head);
        let wanted = layout.ledger == LedgerMode::Full;
        require(wanted || head.is_none(), "F6", || {
            "a ledger that nobody has asked for".to_owned()
        })?;
        let Some((head, body)) = segment.clone().filter(|_| head != ledger.head.as_ref()) else {
            return require(head == ledger.head.as_ref(), "F6", || {
                format!("the ledger {:?} is forgotten", ledger.head)
            });
        };
        let segment = body.and_then(|body| Segment::decode(&head, &body).ok());
        let Some(segment) = segment else {
            return violation("F6", format!("{head} is named, and not kept"));
        };
        require(segment.previous == ledger.head, "F6", || {
            format!(
                "{head} follows {:?}, not {:?}",
                segment.previous, ledger.head
            )
        })?;
        let held = after.ledger.as_ref().is_some_and(|ledger| !ledger.closed);
        require(held, "F6", || format!("{head} closes the ledger"))?;
        for (name, receiver) in receivers.all() {
            let marks = segment.sinks.get(&name).cloned().unwrap_or_default();
            for mark in [Mark::Taken, Mark::Quarantined] {
                for at in marks.all(mark) {
                    let id = segment.ids[at];
                    let row = receivers.version_of(id);
                    let is_so = row.is_some_and(|row| match mark {
                        Mark::Taken => receiver.stored(row),
                        Mark::Quarantined => receiver.is_aside(row),
                    });
                    require(is_so, "F6", || {
                        format!("{row:?} is recorded as {mark:?} for {name}, and is not")
                    })?;
                    ledger.events.insert((name.clone(), id));
                }
            }
        }
        ledger.head = Some(head);
        Ok(())
    }

    /// F6: what was committed as delivered, for whomever, is in the ledger.
    pub(crate) fn check_ledger(
        &self,
        after: &StateDocument,
        layout: Layout,
        table: &Table,
        receivers: &Receivers,
    ) -> Result<(), Violation> {
        if layout.ledger == LedgerMode::Off {
            return Ok(());
        }
        let checkpoint = Place::of(after);
        let remembered = |id| after.delivered.contains_key(&id);
        for (place, version) in table.rows() {
            let Some(id) = receivers.id_of((place.key, version)) else {
                continue;
            };
            if Some(place) > checkpoint && !remembered(id) {
                continue;
            }
            for (name, _) in receivers.all() {
                let comes = after.sink(&name).lag.is_some_and(|lag| {
                    let at = lag.position.as_ref();
                    let at = at.map(|mark| Place::from(&mark.position));
                    at < Some(place) && !lag.delivered.contains_key(&id)
                });
                let known = self.ledger.events.contains(&(name.clone(), id));
                require(comes || known, "F6", || {
                    format!("row {place} is passed, and the ledger does not have it for {name}")
                })?;
            }
        }
        Ok(())
    }

    /// C6, C7 and I4 for a move by hand.
    fn an_order_fences_and_happens_once(
        &mut self,
        before: Option<&StateDocument>,
        after: &StateDocument,
    ) -> Result<(), Violation> {
        self.summary.orders += 1;
        let ids = || after.audit.iter().filter_map(|entry| entry.id.as_ref());
        let different: BTreeSet<_> = ids().collect();
        require(different.len() == ids().count(), "C7", || {
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
            | TickError::Crowded
            | TickError::Bug { .. } => false,
        };
        require(planned, "false alarm", || report.sentence())?;
        require(mode == Mode::Chaos, "calm", || report.sentence())
    }

    pub(crate) fn check_end(&self, end: &End<'_>) -> Result<(), Violation> {
        end.everybody_has_everything()?;
        end.only_bad_rows_are_aside()?;
        let duplicates = end.receivers.duplicates();
        if end.mode == Mode::Calm {
            require(duplicates == 0, "I11", || {
                format!("{duplicates} duplicates in a calm world")
            })?;
        }
        if self.summary.orders > 0 {
            return Ok(());
        }
        end.what_is_aside_is_counted()?;
        // A holder has one batch in flight, so each claim repeats at most one, to each sink. Who looks
        // for a bad row sends one that was taken once more, or a few that were delivered before. Who is
        // behind has a batch of its own, and gets what is above the checkpoint all at once.
        let claims = end.document.map_or(0, |it| it.lease.token.get());
        let batch = end.layout.max_rows as u64;
        let each = match (end.layout.has_manners, end.layout.leaves_behind()) {
            (false, _) => batch,
            (true, false) => batch + 4,
            (true, true) => 2 * (batch + 4) + self.most_delivered,
        };
        let most = claims * end.layout.sinks as u64 * each;
        require(duplicates <= most, "I9", || {
            format!("{duplicates} duplicates by {claims} claims")
        })
    }
}

/// How the world stands when all is over.
pub(crate) struct End<'a> {
    pub(crate) document: Option<&'a StateDocument>,
    pub(crate) mode: Mode,
    pub(crate) layout: Layout,
    /// Receivers failed at batches whatever was in them.
    pub(crate) breaks_at_random: bool,
    pub(crate) table: &'a Table,
    pub(crate) receivers: &'a Receivers,
}

impl End<'_> {
    /// I2, for every sink.
    fn everybody_has_everything(&self) -> Result<(), Violation> {
        for (place, version) in self.table.rows() {
            for (name, receiver) in self.receivers.all() {
                require(receiver.has((place.key, version)), "I2", || {
                    format!("row {place} (version {version}) never came to {name}")
                })?;
            }
        }
        let behind = self.document.is_some_and(StateDocument::is_anybody_behind);
        require(!behind, "I2", || "somebody is still behind".to_owned())
    }

    /// I13. A receiver that takes nothing for a while, from one moment to another, convicts no row.
    /// Two kinds of good rows may be aside: those that a receiver itself has named, and those at which
    /// it failed again and again by chance, of which there are few.
    fn only_bad_rows_are_aside(&self) -> Result<(), Violation> {
        let most = u64::from(PoisonPolicy::default().most);
        for (name, receiver) in self.receivers.all() {
            let good = receiver.aside().filter(|row| {
                !receiver.manners.bad.contains_key(&row.1) && !receiver.has_named(*row)
            });
            let good: Vec<_> = good.collect();
            let excused = self.breaks_at_random && good.len() as u64 <= most;
            require(good.is_empty() || excused, "I13", || {
                format!("{good:?} are aside, and {name} would have taken them")
            })?;
        }
        Ok(())
    }

    /// I20: each row is counted once, when the checkpoint or the sink's own place passes it. One that was
    /// kept before a crash, and has a newer version since, is not.
    fn what_is_aside_is_counted(&self) -> Result<(), Violation> {
        let counted = self.document.map_or(0, |it| it.counters.quarantined);
        let (mut least, mut most) = (0, 0);
        for (_, receiver) in self.receivers.all() {
            most += receiver.aside().count() as u64;
            let rows = self
                .table
                .rows()
                .map(|(place, version)| (place.key, version));
            let aside = rows.filter(|row| receiver.is_aside(*row) && !receiver.stored(*row));
            least += aside.count() as u64;
        }
        require((least..=most).contains(&counted), "I20", || {
            format!("{counted} rows are counted as set aside, there are {least} to {most}")
        })
    }
}

/// An accepted write, seen against the truth.
struct Passage<'a> {
    after: &'a StateDocument,
    layout: Layout,
    table: &'a Table,
    receivers: &'a Receivers,
}

impl Passage<'_> {
    /// I1, for every row that is visible now: at or below the checkpoint, or remembered above it.
    fn nothing_is_passed_over(&self) -> Result<(), Violation> {
        for (id, position) in &self.after.delivered {
            let place = Place::from(position);
            let Some((_, version)) = self.receivers.version_of(*id) else {
                return violation(
                    "I1",
                    format!("row {place} is remembered and was never sent"),
                );
            };
            if self.table.version_at(place) == Some(version) {
                self.is_covered(place, version)?;
            }
        }
        let Some(checkpoint) = Place::of(self.after) else {
            return Ok(());
        };
        for place in self.table.on_the_way() {
            require(place > checkpoint, "I1", || {
                format!("the checkpoint {checkpoint} passes row {place}, which is on its way")
            })?;
        }
        let rows = self.table.rows();
        for (place, version) in rows.take_while(|(place, _)| *place <= checkpoint) {
            self.is_covered(place, version)?;
        }
        Ok(())
    }

    /// Enough sinks have this row, and it is still to come to each of the others (E1, E3).
    fn is_covered(&self, place: Place, version: u64) -> Result<(), Violation> {
        let row = (place.key, version);
        let votes = self.receivers.all().zip(self.layout.optional);
        let votes = votes.map(|((_, receiver), optional)| (!optional, receiver.has(row)));
        require(self.layout.commit.is_met(votes), "I1", || {
            format!("row {place} is passed, and too few have it")
        })?;
        let id = self.receivers.id_of(row);
        for (name, _) in self.receivers.all().filter(|(_, it)| !it.has(row)) {
            let lag = self.after.sink(&name).lag;
            let comes = lag.is_some_and(|lag| {
                let at = lag
                    .position
                    .as_ref()
                    .map(|mark| Place::from(&mark.position));
                at < Some(place) && id.is_none_or(|id| !lag.delivered.contains_key(&id))
            });
            require(comes, "I1", || {
                format!("row {place} is passed, and never comes to {name}")
            })?;
        }
        Ok(())
    }

    /// I1, for a sink with a place of its own.
    fn whoever_is_behind_has_what_it_says(&self) -> Result<(), Violation> {
        for (name, receiver) in self.receivers.all() {
            let Some(lag) = self.after.sink(&name).lag else {
                continue;
            };
            let at = lag
                .position
                .as_ref()
                .map(|mark| Place::from(&mark.position));
            require(at <= Place::of(self.after), "I1", || {
                format!("{name} is behind at {at:?}, beyond the checkpoint")
            })?;
            for (id, position) in &lag.delivered {
                let version = self.receivers.version_of(*id);
                // A version that is no more cannot be missed.
                let place = Place::from(position);
                if version.is_some_and(|(_, version)| self.table.version_at(place) != Some(version))
                {
                    continue;
                }
                require(version.is_some_and(|it| receiver.has(it)), "I1", || {
                    format!("{name} is said to have {}", Place::from(position))
                })?;
            }
        }
        Ok(())
    }
}

/// A tick that came to nothing has said why, or that this is over, and nothing else.
fn is_a_report(before: &StateDocument, after: &StateDocument) -> bool {
    let mut told = before.clone();
    told.trouble.clone_from(&after.trouble);
    told.counters.failed_ticks = after.counters.failed_ticks;
    before.trouble != after.trouble && told == *after
}

fn a_resume_changes_nothing_else(
    before: Option<&StateDocument>,
    after: &StateDocument,
) -> Result<(), Violation> {
    let same = before.is_some_and(|before| {
        before.lease == after.lease
            && before.checkpoint == after.checkpoint
            && before.sinks == after.sinks
    });
    require(same, "I3", || "a resume has moved something".to_owned())
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
