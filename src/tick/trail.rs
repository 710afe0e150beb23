//! What is known about one row: gathered from the source, the state and the quarantine, and judged in
//! `model::trail`. Nothing is written.

use std::time::Duration;

use super::budget::Budget;
use super::keeper::Standing;
use super::memory::Memory;
use super::operate::Found;
use super::reading::{load_document, look, read_located};
use super::report::{Outcome, TickError};
use super::{Poller, reason_to_stop};
use crate::config::Start;
use crate::model::halt::Halt;
use crate::model::late::{Ordering, Sight};
use crate::model::position::Position;
use crate::model::sinks::SinkState;
use crate::model::state::StateDocument;
use crate::model::trail::{
    Behind, Delivered, Facts, FailureFacts, Obstacle, RowFacts, SetAside, SinkFacts,
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
        let mut facts = Facts {
            begun: standing.is_some(),
            is_query: self.definition.query.is_some(),
            has_filter: self.definition.filter.is_some(),
            starts_later: self.start != Start::Beginning,
            set_aside: self.set_aside_with(key).await?,
            waits_for: self.waits_for(document, &sight),
            ..Facts::default()
        };
        for located in located {
            let ledger = self.in_the_ledger(&located).await?;
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
            self.add_state(&mut facts, standing, key);
        }
        Ok(facts)
    }

    /// The ledger's answer goes in here; `None`: there is no ledger, or it does not reach back so far.
    async fn in_the_ledger(&self, _: &Located) -> Result<Option<Vec<Delivered>>, TickError> {
        Ok(None)
    }

    fn add_state(&self, facts: &mut Facts, standing: &Standing, key: &[String]) {
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
            Err(TickError::MarkedFailed) => None,
            Err(error) => Some(Obstacle::Fails(error.story())),
        };
        let moves = ["reset", "rollback", "import", "clone"];
        let moved = document.audit.iter().rev();
        let mut moved = moved.filter(|entry| moves.iter().any(|it| entry.what.starts_with(it)));
        facts.moved = moved
            .next()
            .map(|entry| format!("{}, {}", entry.what, entry.at.format("%Y-%m-%d %H:%M:%S")));
        let now: Vec<_> = facts.rows.iter().filter_map(|row| row.id).collect();
        let versions = document.delivered.iter();
        facts.other_versions = versions
            .filter(|(id, place)| !now.contains(id) && has_key(place, key))
            .count();
        let sinks = document.sinks.iter();
        facts.sinks = sinks
            .map(|(name, state)| sink_facts(name, state, typed))
            .collect();
    }

    async fn set_aside_with(&self, key: &[String]) -> Result<Vec<SetAside>, TickError> {
        let kepts = self.quarantined().await?.rows.into_iter();
        let of_key = kepts.filter(|kept| {
            let position = kept.case.position();
            position.is_ok_and(|place| has_key(&place, key))
        });
        Ok(of_key
            .map(|kept| SetAside {
                id: kept.case.id(),
                at: kept.case.quarantined_at,
                sink: kept.case.sink,
                error: kept.case.error,
            })
            .collect())
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

/// As it is shown, since that is how it was asked for.
fn has_key(place: &Position, key: &[String]) -> bool {
    let shown: Vec<_> = place.key().iter().map(ToString::to_string).collect();
    shown == key
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
