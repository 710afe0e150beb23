//! Why did this row not arrive? What is known about a row, as statements that each say what they rest
//! on, and one conclusion. Pure: the facts are gathered in `tick::trail`.
//!
//! A statement is never more than its evidence (F6). That a row lies below the checkpoint does not
//! prove that it was delivered: one that came to its place without the poller's rules (A7) looks the same.

mod facts;
mod sought;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::page::{EventId, Op};
use super::position::Position;

pub use facts::{
    Behind, Facts, FailureFacts, LedgerFacts, LedgerLine, Obstacle, RowFacts, SetAside, SinkFacts,
};
pub use sought::Sought;

/// What a statement rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// The database or the configuration says so now.
    Observed,
    /// It stands in the state, in the quarantine or in the ledger.
    Recorded,
    /// It follows from positions alone.
    Inferred,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Statement {
    pub evidence: Evidence,
    pub text: String,
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Absent,
    NoCursor,
    Filtered,
    Quarantined,
    Failing,
    Behind,
    Delivered,
    /// The checkpoint has passed it, and the ledger does not have it.
    Missing,
    Halted,
    Stopped,
    Future,
    Blocked,
    Waiting,
    Pending,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conclusion {
    pub verdict: Verdict,
    pub evidence: Evidence,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trail {
    pub statements: Vec<Statement>,
    pub conclusion: Conclusion,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Observed => "observed",
            Self::Recorded => "recorded",
            Self::Inferred => "inferred",
        })
    }
}

/// Everything that can be said, and what follows from it for the newest version of the row.
#[must_use]
pub fn follow(facts: &Facts) -> Trail {
    let mut said = Said::default();
    facts.tell_rows(&mut said);
    for row in &facts.rows {
        facts.tell_place(row, &mut said);
    }
    facts.tell_set_aside(&mut said);
    facts.tell_sinks(&mut said);
    facts.tell_poller(&mut said);
    let newest = facts.rows.iter().max_by_key(|row| row.position.clone());
    let (verdict, evidence, text) = match newest {
        None => facts.conclude_absent(),
        Some(row) => facts.conclude(row),
    };
    Trail {
        statements: said.0,
        conclusion: Conclusion {
            verdict,
            evidence,
            text,
        },
    }
}

#[derive(Default)]
struct Said(Vec<Statement>);

impl Said {
    fn observed(&mut self, text: impl Into<String>) {
        self.say(Evidence::Observed, text.into());
    }

    fn recorded(&mut self, text: impl Into<String>) {
        self.say(Evidence::Recorded, text.into());
    }

    fn inferred(&mut self, text: impl Into<String>) {
        self.say(Evidence::Inferred, text.into());
    }

    fn say(&mut self, evidence: Evidence, text: String) {
        self.0.push(Statement { evidence, text });
    }
}

type Concluded = (Verdict, Evidence, String);

impl Facts {
    fn tell_rows(&self, said: &mut Said) {
        if self.rows.is_empty() {
            said.observed(match self.is_query {
                true => "the query shows no row with this key now",
                false => "the table has no row with this key now",
            });
        }
        for row in &self.rows {
            let what = match row.op {
                Op::Upsert => "the row is there now",
                Op::Delete => "it is deleted",
            };
            said.observed(match (&row.position, row.id) {
                (Some(position), Some(id)) => format!("{what}, at {position}, as event {id}"),
                _ => format!("{what}, and its cursor is NULL: it has no place in the order"),
            });
            if !row.passes_filter {
                said.observed("the filter leaves it out");
            } else if self.has_filter {
                said.observed("the filter lets it pass");
            }
            if row.is_future {
                said.observed("its cursor is ahead of the database's clock or sequence");
            }
        }
    }

    fn tell_place(&self, row: &RowFacts, said: &mut Said) {
        let (Some(position), Some(id)) = (&row.position, row.id) else {
            return;
        };
        match &self.checkpoint {
            _ if self.elsewhere.is_some() => {}
            _ if !self.begun => said.recorded("the poller has no state yet: it has not run"),
            Some(checkpoint) if position <= checkpoint => said.recorded(format!(
                "the checkpoint {checkpoint} is {} it",
                if position == checkpoint { "at" } else { "past" }
            )),
            Some(checkpoint) => {
                said.recorded(format!("the checkpoint {checkpoint} is before it"));
            }
            None => said.recorded("the checkpoint is at the beginning"),
        }
        if row.is_remembered {
            said.recorded(format!(
                "event {id} is among those delivered above the checkpoint"
            ));
        }
        for line in row.ledger.iter().flat_map(|ledger| &ledger.lines) {
            let LedgerLine { sink, at, taken } = line;
            said.recorded(match taken {
                true => format!("the ledger has it: {sink} took it at {at}"),
                false => format!("the ledger has it: {sink} did not take it at {at}"),
            });
        }
        let missing = row.without_a_line();
        if !missing.is_empty() {
            said.recorded(format!(
                "the ledger reaches to its place, and does not have event {id} for {}",
                missing.join(", ")
            ));
        }
        let told = !row.takers().is_empty() || !missing.is_empty();
        let is_known = told || row.is_remembered || self.set_aside_as(id).is_some();
        if self.is_passed(row) && !is_known {
            said.inferred(self.passed());
        }
    }

    fn tell_set_aside(&self, said: &mut Said) {
        let now: Vec<_> = self.rows.iter().filter_map(|row| row.id).collect();
        for SetAside {
            sink,
            id,
            at,
            error,
        } in &self.set_aside
        {
            let version = match id {
                Some(id) if now.contains(id) => "it".to_owned(),
                Some(id) => format!("an older version of it, event {id},"),
                None => "a version of it".to_owned(),
            };
            said.recorded(format!(
                "{version} is in quarantine since {at}, because {sink} did not take it: {error}"
            ));
        }
        if self.set_aside.is_empty() {
            said.recorded(self.nothing_set_aside());
        }
        if self.other_versions > 0 {
            said.recorded(format!(
                "{} other version(s) of it were delivered above the checkpoint",
                self.other_versions
            ));
        }
    }

    fn tell_sinks(&self, said: &mut Said) {
        for sink in &self.sinks {
            let name = &sink.name;
            if let Some(behind) = &sink.behind {
                let from = match &behind.position {
                    Some(position) => position.to_string(),
                    None => "the beginning".to_owned(),
                };
                said.recorded(format!(
                    "{name} is behind since {}, at {from}",
                    behind.since
                ));
            }
            if let Some(failure) = &sink.failure {
                let ids = self.rows.iter().filter_map(|row| row.id);
                let whose = match ids.into_iter().any(|id| failure.concerns(id)) {
                    true => "this very event",
                    false => "another event",
                };
                said.recorded(format!(
                    "{name} fails at {whose}, {} time(s) so far: {}",
                    failure.attempts, failure.error
                ));
            }
        }
    }

    fn tell_poller(&self, said: &mut Said) {
        if let Some(place) = &self.elsewhere {
            said.recorded(format!(
                "the checkpoint {place} is a place in another source or order, and says nothing about it"
            ));
        }
        if let Some(halt) = &self.halt {
            said.recorded(format!("the poller is {halt}"));
        }
        match &self.obstacle {
            Some(Obstacle::Held(owner)) => said.recorded(format!("{owner} is at work on it")),
            Some(Obstacle::Waits(text)) => said.recorded(format!("the poller {text}")),
            Some(Obstacle::Fails(text)) => said.observed(format!("a tick fails now: {text}")),
            None => {}
        }
        if let Some(who) = &self.waits_for {
            said.observed(format!(
                "rows are delivered in the order of the cursor, and wait for {who}"
            ));
        }
    }

    fn conclude_absent(&self) -> Concluded {
        if let Some(aside) = self.set_aside.last() {
            return (
                Verdict::Quarantined,
                Evidence::Recorded,
                format!(
                    "it was not delivered to {}, is in quarantine, and is gone from the table since",
                    aside.sink
                ),
            );
        }
        let text = match self.is_query {
            true => {
                "there is nothing to deliver: the query does not show it, or it was never committed"
            }
            false => {
                "there is nothing to deliver: it was never committed, or was deleted without a trace that \
                 the poller reads"
            }
        };
        (Verdict::Absent, Evidence::Observed, text.to_owned())
    }

    fn conclude(&self, row: &RowFacts) -> Concluded {
        let (Some(position), Some(id)) = (&row.position, row.id) else {
            let text = "it is never delivered while its cursor is NULL; with source.nulls \"fail\", every tick fails \
                        of it too";
            return (Verdict::NoCursor, Evidence::Observed, text.to_owned());
        };
        if let Some(set_aside) = self.set_aside_as(id) {
            let text = format!(
                "{} did not take it, and it was set aside: `dbtick quarantine` shows it and sends it again",
                set_aside.sink
            );
            return (Verdict::Quarantined, Evidence::Recorded, text);
        }
        if !row.passes_filter && !row.is_remembered && row.takers().is_empty() {
            let text =
                "it is not delivered, because the filter leaves it out as it is now".to_owned();
            return (Verdict::Filtered, Evidence::Observed, text);
        }
        if let Some((sink, failure)) = self.failing_at(id) {
            let text = format!(
                "{sink} was asked {} time(s) and did not take it: {}",
                failure.attempts, failure.error
            );
            return (Verdict::Failing, Evidence::Recorded, text);
        }
        let lacking = self.lacking(row, position, id);
        if !lacking.is_empty() {
            let text = format!(
                "{} got no live rows while it was behind, and gets it by catching up",
                lacking.join(", ")
            );
            return (Verdict::Behind, Evidence::Inferred, text);
        }
        let missing = row.without_a_line();
        if self.is_passed(row) && !row.is_remembered && !missing.is_empty() {
            return (Verdict::Missing, Evidence::Recorded, self.missing(&missing));
        }
        let takers = row.takers();
        let refusers = row.refusers();
        if !refusers.is_empty() {
            let text = format!(
                "{} did not take it, and {}",
                joined(&refusers),
                self.gone_from_quarantine()
            );
            return (Verdict::Quarantined, Evidence::Recorded, text);
        }
        if !takers.is_empty() {
            let text = format!("it was delivered to {}", joined(&takers));
            return (Verdict::Delivered, Evidence::Recorded, text);
        }
        if row.is_remembered {
            let text = "it was delivered as it is now".to_owned();
            return (Verdict::Delivered, Evidence::Recorded, text);
        }
        if self.is_passed(row) {
            return (Verdict::Delivered, Evidence::Inferred, self.passed());
        }
        self.conclude_ahead(row)
    }

    /// The checkpoint is before it, and it was not delivered.
    fn conclude_ahead(&self, row: &RowFacts) -> Concluded {
        if let Some(halt) = &self.halt {
            let text = format!("it is not delivered, because the poller is {halt}");
            return (Verdict::Halted, Evidence::Recorded, text);
        }
        if let Some(Obstacle::Fails(text)) = &self.obstacle {
            let text = format!("it is not delivered, because every tick fails: {text}");
            return (Verdict::Stopped, Evidence::Observed, text);
        }
        if row.is_future {
            let text = "it is held until the database's clock or sequence has come to its cursor";
            return (Verdict::Future, Evidence::Observed, text.to_owned());
        }
        if let Some(Obstacle::Waits(text)) = &self.obstacle {
            let text = format!("it is not delivered yet: the poller {text}");
            return (Verdict::Waiting, Evidence::Recorded, text);
        }
        if let Some((sink, failure)) = self.failing() {
            let text = format!(
                "it waits behind another event, at which {sink} fails: {}",
                failure.error
            );
            return (Verdict::Blocked, Evidence::Inferred, text);
        }
        if let Some(who) = &self.waits_for {
            let text = format!("it may have to wait for {who}, which could come before it");
            return (Verdict::Waiting, Evidence::Inferred, text);
        }
        if let Some(Obstacle::Held(owner)) = &self.obstacle {
            let text = format!("{owner} is at work, and has it in hand or comes to it");
            return (Verdict::Pending, Evidence::Inferred, text);
        }
        let text = match (self.begun, self.starts_later) {
            (false, true) => {
                "the poller has not run yet, and what is there before it does may not be delivered \
                 (source.start)"
            }
            (false, false) => "the first tick, or one after it, delivers it",
            (true, _) => "it is new: the next tick, or one after it, delivers it",
        };
        (Verdict::Pending, Evidence::Inferred, text.to_owned())
    }

    fn is_passed(&self, row: &RowFacts) -> bool {
        let comparable = self.begun && self.elsewhere.is_none();
        comparable && row.position.is_some() && row.position <= self.checkpoint
    }

    /// The ledger would have it.
    fn missing(&self, sinks: &[&str]) -> String {
        let mut text = format!(
            "the checkpoint has passed its place, and {} did not get it as it is now: it was changed, or came there, \
             without a new cursor value",
            sinks.join(", ")
        );
        if let Some(moved) = &self.moved {
            text += &format!(", or was passed over by hand ({moved})");
        }
        text + "; `dbtick backfill` brings it"
    }

    /// As much as a position says, and no more.
    fn passed(&self) -> String {
        let mut text = format!(
            "it lies below the checkpoint and {}, as delivered rows do; a row that got its cursor, or came into the \
             filter or query, without a new cursor value looks the same and was not delivered",
            self.not_set_aside()
        );
        if self.starts_later {
            text += "; so does one that was there before the poller began (source.start)";
        }
        if let Some(moved) = &self.moved {
            text += &format!("; so does one that was passed over by hand ({moved})");
        }
        text
    }

    fn failing_at(&self, id: EventId) -> Option<(&str, &FailureFacts)> {
        self.failures().find(|(_, failure)| failure.concerns(id))
    }

    /// A sink that holds everybody up.
    fn failing(&self) -> Option<(&str, &FailureFacts)> {
        let behind = |name: &str| {
            let sink = self.sinks.iter().find(|sink| sink.name == name);
            sink.is_some_and(|sink| sink.behind.is_some())
        };
        self.failures().find(|(name, _)| !behind(name))
    }

    fn failures(&self) -> impl Iterator<Item = (&str, &FailureFacts)> {
        let sinks = self.sinks.iter();
        sinks.filter_map(|sink| Some((sink.name.as_str(), sink.failure.as_ref()?)))
    }

    /// Sinks that do not have what the others have.
    fn lacking(&self, row: &RowFacts, position: &Position, id: EventId) -> Vec<&str> {
        let others_have_it = self.is_passed(row) || row.is_remembered;
        let lacks = |sink: &&SinkFacts| {
            let Some(behind) = &sink.behind else {
                return false;
            };
            let recorded = row.takers().contains(sink.name.as_str());
            Some(position) > behind.position.as_ref()
                && !behind.delivered.contains(&id)
                && !recorded
        };
        let sinks = self.sinks.iter().filter(|_| others_have_it);
        sinks.filter(lacks).map(|sink| sink.name.as_str()).collect()
    }
}

fn joined(names: &BTreeSet<&str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
