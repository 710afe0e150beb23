//! What is known about one row: gathered from the source, the state, the ledger and the quarantine, and judged in
//! `model::trail`. Nothing is written.

use std::time::Duration;

use super::budget::Budget;
use super::keeper::Standing;
use super::ledger::Records;
use super::memory::Memory;
use super::operate::Found;
use super::quarantine::Kept;
use super::reading::{load_document, look, read_located};
use super::report::{Outcome, TickError};
use super::{Poller, reason_to_stop};
use crate::config::Start;
use crate::model::halt::Halt;
use crate::model::late::{Ordering, Sight};
use crate::model::ledger::Mark;
use crate::model::position::Position;
use crate::model::sinks::SinkState;
use crate::model::state::StateDocument;
use crate::model::trail::{
    Behind, Facts, FailureFacts, LedgerFacts, LedgerLine, Obstacle, RowFacts, SetAside, SinkFacts,
    Sought,
};
use crate::source::Located;

const LONGEST_LOOK: Duration = Duration::from_secs(30);

impl Poller {
    /// Everything about the rows that have this key: values as text, one for each column of it.
    pub async fn facts(&self, key: &[String]) -> Result<Facts, TickError> {
        let budget = Budget::starting(self.clock.monotonic(), Some(LONGEST_LOOK));
        let standing = match load_document(self).await? {
            Some(standing) => Some(standing),
            None => match self.found().await? {
                Found::Nothing { born: true } => {
                    return Err(TickError::DocumentGone {
                        key: self.state_key.to_string(),
                        poller: self.name.clone(),
                    });
                }
                _ => None,
            },
        };
        let located = read_located(self, key, &budget).await?;
        let document = standing.as_ref().map(|standing| &standing.document);
        let witnesses = document.map(|document| document.late.witnesses());
        let sight = look(self, &witnesses.unwrap_or_default(), &budget).await?;
        let memory = match document {
            Some(document) => Memory::load(self, document, None).await?,
            None => Memory::default(),
        };
        let found = located.iter().map(|it| (it.position.as_ref(), it.id));
        let sought = Sought::new(key, found);
        let (set_aside, unreadable) = self.set_aside_of(&sought).await?;
        let mut facts = Facts {
            begun: standing.is_some(),
            is_query: self.definition.query.is_some(),
            has_filter: self.definition.filter.is_some(),
            starts_later: self.start != Start::Beginning,
            set_aside,
            unreadable,
            waits_for: self.waits_for(document, &sight),
            ..Facts::default()
        };
        let ids = located.iter().filter_map(|it| it.id).collect();
        let records = self.recorded(&ids).await?;
        for located in located {
            let ledger = in_the_ledger(&records, &located);
            facts.rows.push(RowFacts {
                is_future: located
                    .position
                    .as_ref()
                    .is_some_and(|place| sight.is_future(place)),
                is_remembered: located.id.is_some_and(|id| memory.has(&id)),
                position: located.position,
                op: located.op,
                id: located.id,
                passes_filter: located.passes_filter,
                ledger,
            });
        }
        if let Some(standing) = &standing {
            self.add_state(&mut facts, standing, &sought);
        }
        Ok(facts)
    }

    fn add_state(&self, facts: &mut Facts, standing: &Standing, sought: &Sought<'_>) {
        let document = &standing.document;
        let like = facts.rows.iter().find_map(|row| row.position.clone());
        // A document without types has its moments as text.
        let typed = |place: &Position| match &like {
            Some(like) => place.typed_like(like),
            None => Some(place.clone()),
        };
        let same_source = document.source_fingerprint == self.fingerprint;
        facts.checkpoint = document.position().filter(|_| same_source).and_then(typed);
        if facts.checkpoint.is_none() {
            facts.elsewhere = document.position().map(ToString::to_string);
        }
        facts.halt = Halt::of(document).map(|halt| halt.to_string());
        facts.obstacle = match reason_to_stop(self, standing) {
            Ok(Some(Outcome::HeldElsewhere { owner })) => Some(Obstacle::Held(owner)),
            Ok(Some(outcome @ Outcome::NotBefore { .. })) => {
                Some(Obstacle::Waits(outcome.sentence()))
            }
            Ok(_) => None,
            Err(TickError::MarkedFailed | TickError::Layout(_)) => None,
            Err(error) => Some(Obstacle::Fails(error.story())),
        };
        let moves = ["reset", "rollback", "import", "clone", "discard"];
        let moved = document.audit.iter().rev();
        let mut moved = moved.filter(|entry| moves.iter().any(|it| entry.what.starts_with(it)));
        facts.moved = moved
            .next()
            .map(|entry| format!("{}, {}", entry.what, entry.at.format("%Y-%m-%d %H:%M:%S")));
        let versions = document.delivered.iter();
        facts.other_versions = versions
            .filter(|(id, _)| !sought.is_now(**id))
            .filter(|(_, place)| typed(place).is_some_and(|place| sought.was_at(&place)))
            .count();
        let sinks = document.sinks.iter();
        facts.sinks = sinks
            .map(|(name, state)| sink_facts(name, state, typed))
            .collect();
    }

    /// And how many objects in quarantine may be of the row and cannot be read.
    async fn set_aside_of(&self, sought: &Sought<'_>) -> Result<(Vec<SetAside>, usize), TickError> {
        let kepts = self.quarantined().await?;
        let mut unreadable = kepts.unreadable.len();
        let mut of_row = Vec::new();
        for Kept { case, .. } in kepts.rows {
            let id = case.id();
            let is_now = id.is_some_and(|id| sought.is_now(id));
            match case.position() {
                Err(_) if !is_now => unreadable += 1,
                Ok(place) if !is_now && !sought.was_at(&place) => {}
                _ => of_row.push(SetAside {
                    id,
                    at: case.quarantined_at,
                    sink: case.sink,
                    error: case.error,
                }),
            }
        }
        Ok((of_row, unreadable))
    }

    /// Only in the order of the cursor does a row wait for others to commit.
    fn waits_for(&self, document: Option<&StateDocument>, sight: &Sight) -> Option<String> {
        if self.ordering != Ordering::Cursor {
            return None;
        }
        let witnesses = document.map(|document| document.late.witnesses());
        let mut all = witnesses.unwrap_or_default();
        all.extend(sight.writers.iter().cloned());
        let first = all.first()?;
        Some(match all.len() {
            1 => first.to_string(),
            several => format!("{first} and {} more", several - 1),
        })
    }
}

/// What is not there says something only about sinks for which the ledger reaches back to the place.
fn in_the_ledger(records: &Records, located: &Located) -> Option<LedgerFacts> {
    let reach = records.reach.as_ref()?;
    let found = located.id.and_then(|id| records.found.get(&id));
    let lines = found.into_iter().flatten().map(|recorded| LedgerLine {
        sink: recorded.sink.clone(),
        at: recorded.at,
        taken: recorded.mark == Mark::Taken,
    });
    let covers = |above: &Option<Position>| located.position > *above;
    let reaches = reach.covers.iter().filter(|(_, above)| covers(above));
    Some(LedgerFacts {
        lines: lines.collect(),
        reaches: reaches.map(|(sink, _)| sink.clone()).collect(),
    })
}

fn sink_facts(
    name: &str,
    state: &SinkState,
    typed: impl Fn(&Position) -> Option<Position>,
) -> SinkFacts {
    SinkFacts {
        name: name.to_owned(),
        behind: state.lag.as_ref().map(|lag| Behind {
            since: lag.since,
            position: lag.position.as_ref().and_then(|mark| typed(&mark.position)),
            delivered: lag.delivered.keys().copied().collect(),
        }),
        failure: state.failure.as_ref().map(|failure| FailureFacts {
            event_id: failure.event_id.clone(),
            named: failure.named.keys().cloned().collect(),
            attempts: failure.attempts,
            error: failure.error.clone(),
        }),
    }
}
