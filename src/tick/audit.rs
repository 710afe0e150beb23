//! The source as it is now against the ledger: what is there, and was neither taken nor set aside (F5, F6).
//!
//! An id is 16 bytes in a sorted list, so that ten million rows fit into 160 MB for each sink.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Poller;
use super::budget::Budget;
use super::ledger::{LedgerOf, Reach};
use super::reading::{read_page, refuse_another_source};
use super::report::TickError;
use crate::model::ledger::Mark;
use crate::model::page::EventId;
use crate::model::position::Position;
use crate::model::sinks::Lag;
use crate::model::state::StateDocument;

/// For one page.
const LONGEST_READ: Duration = Duration::from_secs(120);

/// Whatever a document says.
const MOST_RESERVED: usize = 1 << 26;

/// What was written down of deliveries, by sink.
#[derive(Debug, Default)]
pub struct Accounts {
    sinks: BTreeMap<String, Account>,
}

#[derive(Debug, Default)]
struct Account {
    taken: Vec<EventId>,
    aside: Vec<EventId>,
}

/// A row that was not accounted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub id: EventId,
    pub position: Position,
    /// Those that do not have it.
    pub sinks: Vec<String>,
}

/// Rows between two places. `total` is the sum of the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Audit {
    pub total: u64,
    /// To every sink.
    pub delivered: u64,
    /// At least one sink has it aside; the others have taken it.
    pub quarantined: u64,
    /// A sink that is behind has not got it yet; the others have.
    pub pending: u64,
    /// The ledger does not reach back to it.
    pub untold: u64,
    pub missing: u64,
    /// As many as were asked for.
    pub rows: Vec<Missing>,
}

/// For whom, and about which rows.
#[derive(Debug, Clone, Default)]
pub struct Demand {
    sinks: BTreeMap<String, Share>,
}

#[derive(Debug, Clone, Default)]
struct Share {
    /// Only what is above it is told of; `None`: all.
    above: Option<Position>,
    lag: Option<Lag>,
}

impl Demand {
    /// Every row, for every sink of a poller.
    #[must_use]
    pub fn everything(poller: &Poller) -> Self {
        let names = poller.sink_names().into_iter();
        Self {
            sinks: names.map(|name| (name, Share::default())).collect(),
        }
    }

    /// What a ledger covers. Sinks of which it tells nothing are left out.
    #[must_use]
    pub fn covered(document: &StateDocument, reach: &Reach) -> Self {
        let covers = reach.covers.iter();
        let covers = covers.filter(|(sink, _)| document.sinks.contains_key(*sink));
        let share = |(sink, above): (&String, &Option<Position>)| {
            let share = Share {
                above: above.clone(),
                lag: document.sink(sink).lag,
            };
            (sink.clone(), share)
        };
        Self {
            sinks: covers.map(share).collect(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sinks.is_empty()
    }
}

impl Accounts {
    /// Adds what a ledger of this poller says.
    pub async fn read(&mut self, poller: &Poller, ledger: &LedgerOf) -> Result<Reach, TickError> {
        let sinks = &mut self.sinks;
        let most = usize::try_from(ledger.ledger.rows).unwrap_or(usize::MAX);
        let most = most.min(MOST_RESERVED);
        let reach = poller.read_ledger(ledger, |segment| {
            for (name, marks) in &segment.sinks {
                let account = sinks.entry(name.clone()).or_default();
                // Once: a list that doubles takes three times the room while it grows.
                account
                    .taken
                    .reserve(most.saturating_sub(account.taken.len()));
                let ids = |mark| {
                    marks
                        .all(mark)
                        .filter_map(|at| segment.ids.get(at).copied())
                };
                account.taken.extend(ids(Mark::Taken));
                account.aside.extend(ids(Mark::Quarantined));
            }
        });
        let reach = reach.await?;
        for account in self.sinks.values_mut() {
            for ids in [&mut account.taken, &mut account.aside] {
                ids.sort_unstable();
                ids.dedup();
                ids.shrink_to_fit();
            }
        }
        Ok(reach)
    }

    #[must_use]
    pub fn of(&self, sink: &str, id: &EventId) -> Option<Mark> {
        let account = self.sinks.get(sink)?;
        if account.taken.binary_search(id).is_ok() {
            return Some(Mark::Taken);
        }
        let aside = account.aside.binary_search(id).is_ok();
        aside.then_some(Mark::Quarantined)
    }
}

impl Audit {
    /// Of several parts.
    pub fn add(&mut self, other: Self) {
        self.total += other.total;
        self.delivered += other.delivered;
        self.quarantined += other.quarantined;
        self.pending += other.pending;
        self.untold += other.untold;
        self.missing += other.missing;
        self.rows.extend(other.rows);
    }

    fn see(
        &mut self,
        id: EventId,
        position: &Position,
        demand: &Demand,
        accounts: &Accounts,
        most: usize,
    ) {
        self.total += 1;
        let (mut told, mut aside, mut waits) = (false, false, false);
        let mut lacking = Vec::new();
        for (sink, share) in &demand.sinks {
            if Some(position) <= share.above.as_ref() {
                continue;
            }
            told = true;
            let comes = share.lag.as_ref().is_some_and(|lag| {
                let at = lag.position.as_ref().map(|mark| &mark.position);
                Some(position) > at && !lag.delivered.contains_key(&id)
            });
            match accounts.of(sink, &id) {
                Some(Mark::Taken) => {}
                Some(Mark::Quarantined) => aside = true,
                None if comes => waits = true,
                None => lacking.push(sink.clone()),
            }
        }
        if !told {
            self.untold += 1;
        } else if !lacking.is_empty() {
            self.missing += 1;
            if self.rows.len() < most {
                self.rows.push(Missing {
                    id,
                    position: position.clone(),
                    sinks: lacking,
                });
            }
        } else if waits {
            self.pending += 1;
        } else if aside {
            self.quarantined += 1;
        } else {
            self.delivered += 1;
        }
    }
}

impl Poller {
    /// Reads every row behind `after`, up to and with `up_to`, and looks for it in the accounts. At most
    /// `most` of those that are missing are named. `known`: the documents that the accounts belong to; rows
    /// of another server than theirs say nothing about what was delivered (B9).
    pub async fn audit(
        &self,
        known: &[&StateDocument],
        (after, up_to): (Option<&Position>, &Position),
        demand: &Demand,
        accounts: &Accounts,
        most: usize,
    ) -> Result<Audit, TickError> {
        let mut audit = Audit::default();
        let mut after = after.cloned();
        loop {
            let budget = Budget::starting(self.clock.monotonic(), Some(LONGEST_READ));
            let mut read = read_page(self, after.as_ref(), &budget).await?;
            for document in known {
                refuse_another_source(self, document, &read)?;
            }
            let beyond = !read.page.cut(|place| place <= up_to).is_empty();
            for event in read.page.events() {
                audit.see(event.id, &event.position, demand, accounts, most);
            }
            match read.page.reached() {
                Some(last) if !read.end && !beyond => after = Some(last.clone()),
                _ => return Ok(audit),
            }
        }
    }
}
