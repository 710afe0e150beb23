//! What a tick has learned about the sinks of its poller, as part of the write that says so.

use std::collections::BTreeMap;
use std::time::Duration;

use super::orders;
use crate::clock::Timestamp;
use crate::model::ledger::Ledger;
use crate::model::page::EventId;
use crate::model::position::Position;
use crate::model::sinks::{self, News};
use crate::model::state::{CursorMark, StateDocument, Status};

/// How far a sink that is behind has come. The lease is kept.
#[derive(Debug, Clone)]
pub struct CatchUp {
    pub sink: String,
    /// `None`: nowhere.
    pub to: Option<CursorMark>,
    /// Acknowledged above that place.
    pub delivered: BTreeMap<EventId, Position>,
    /// It has everything: from now on it gets live batches.
    pub arrived: bool,
    pub news: News,
    /// With the segment that tells of it; `None`: nobody wrote one.
    pub ledger: Option<Ledger>,
    pub ttl: Duration,
}

pub(super) fn note(next: &mut StateDocument, news: &News, now: Timestamp) {
    sinks::note(&mut next.sinks, news);
    for sink in news.sinks.values() {
        next.counters.told(u64::from(sink.set_aside), sink.resent);
    }
    if let Some(why) = &news.gone
        && next.status == Status::Active
    {
        next.status = Status::Paused;
        orders::audit_own(next, "pause", why, now);
    }
}

/// What is committed without the ledger ends what it says about everything.
pub(super) fn write_down(next: &mut StateDocument, ledger: Option<&Ledger>) {
    match (ledger, &mut next.ledger) {
        (Some(ledger), _) => next.ledger = Some(ledger.clone()),
        (None, Some(ended)) => ended.closed = true,
        (None, None) => {}
    }
}

/// Never beyond the checkpoint.
pub(super) fn catch_up(next: &mut StateDocument, step: &CatchUp, now: Timestamp) {
    let low = next.position().cloned();
    if let Some(state) = next.sinks.get_mut(&step.sink) {
        if step.arrived {
            state.lag = None;
        } else if let Some(lag) = &mut state.lag {
            lag.remember(&step.delivered);
            let to = step.to.as_ref();
            if let Some(to) = to.filter(|to| Some(&to.position) <= low.as_ref()) {
                lag.delivered.retain(|_, place| *place > to.position);
                lag.position = Some(to.clone());
            }
        }
    }
    note(next, &step.news, now);
    write_down(next, step.ledger.as_ref());
}
