//! Receivers behind a network: what they have stored is what was delivered, whatever the sender was
//! told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use dbtick::model::envelope::{Batch, Fence};
use dbtick::sink::{DeliveryFailure, FailureKind, Sink, Verdict};
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::faults::{Bug, MOST_LATE, MOST_NOT_BEFORE, Mode};
use super::invariants::{Violation, violation};
use super::table::Place;
use super::world::{Layout, World};

/// One version of one row.
type Version = (i64, u64);

#[derive(Debug)]
pub(crate) struct Receivers {
    layout: Layout,
    sinks: Vec<Receiver>,
    /// Every event that any receiver ever got (I12).
    ids: BTreeMap<Version, String>,
    versions: BTreeMap<String, Version>,
}

#[derive(Debug, Default)]
struct Receiver {
    stored: BTreeMap<Version, u64>,
    highest_fence: Option<Fence>,
    last_first: Option<Place>,
}

#[derive(Debug, Clone)]
struct Event {
    id: String,
    place: Place,
    version: u64,
}

#[derive(Deserialize)]
struct WireBatch {
    events: Vec<WireEvent>,
}

#[derive(Deserialize)]
struct WireEvent {
    id: String,
    cursor: i64,
    key: WireKey,
    data: WireData,
}

#[derive(Deserialize)]
struct WireKey {
    id: i64,
}

#[derive(Deserialize)]
struct WireData {
    version: u64,
}

impl Receivers {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            layout,
            sinks: (0..layout.sinks).map(|_| Receiver::default()).collect(),
            ids: BTreeMap::new(),
            versions: BTreeMap::new(),
        }
    }

    /// Every receiver has this version of the row.
    pub(crate) fn have(&self, key: i64, version: u64) -> bool {
        let stored = |sink: &Receiver| sink.stored.contains_key(&(key, version));
        self.sinks.iter().all(stored)
    }

    pub(crate) fn duplicates(&self) -> u64 {
        let per_sink = |sink: &Receiver| sink.stored.values().map(|times| times - 1).sum::<u64>();
        self.sinks.iter().map(per_sink).sum()
    }

    /// Stores a batch whole, or rejects it as older than what was seen.
    fn take(&mut self, sink: usize, fence: Fence, events: &[Event]) -> Result<bool, Violation> {
        let checks_fence = self.layout.receivers_check_fence;
        let receiver = &mut self.sinks[sink];
        if checks_fence && receiver.highest_fence.is_some_and(|seen| fence < seen) {
            return Ok(false);
        }
        receiver.highest_fence = receiver.highest_fence.max(Some(fence));
        for event in events {
            let version = (event.place.key, event.version);
            let known = self.ids.entry(version).or_insert_with(|| event.id.clone());
            if *known != event.id {
                return violation("I12", format!("{version:?} is {known}, then {}", event.id));
            }
            let known = *self.versions.entry(event.id.clone()).or_insert(version);
            if known != version {
                return violation("I12", format!("{known:?} and {version:?} share an id"));
            }
            let times = receiver.stored.entry(version).or_default();
            *times += 1;
            if *times == 1 && checks_fence && self.layout.is_in_order() {
                if receiver.last_first >= Some(event.place) {
                    let last = receiver.last_first;
                    return violation("I10", format!("{} comes after {last:?}", event.place));
                }
                receiver.last_first = Some(event.place);
            }
        }
        Ok(true)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct SimSink {
    pub(crate) world: Arc<World>,
    pub(crate) name: String,
    pub(crate) index: usize,
}

/// What becomes of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    Refused,
    AskedToWait,
    AnswerLost,
    LandsLate,
}

impl SimSink {
    fn fate(&self) -> Fate {
        let world = &self.world;
        if world.fault(|odds| odds.sink_refuses) {
            Fate::Refused
        } else if world.fault(|odds| odds.sink_asks_to_wait) {
            Fate::AskedToWait
        } else if world.fault(|odds| odds.sink_answer_lost) {
            Fate::AnswerLost
        } else if world.fault(|odds| odds.sink_lands_late) {
            Fate::LandsLate
        } else {
            Fate::Fine
        }
    }

    async fn work(&self) {
        let world = &self.world;
        world.travel().await;
        // In a calm world slow is no fault: longer than a lease, well within the budget.
        if world.plan.mode == Mode::Calm && world.draw(20) == 0 {
            sleep(world.draw_time(Duration::from_secs(15))).await;
        }
        if world.fault(|odds| odds.sink_slow) {
            sleep(world.draw_time(MOST_LATE)).await;
        }
    }

    fn take(&self, fence: Fence, events: &[Event]) -> bool {
        let world = &self.world;
        let taken = world.receivers().take(self.index, fence, events);
        let (first, last) = (events[0].place, events[events.len() - 1].place);
        world.note(format_args!(
            "{}: {fence:?} {} rows {first} to {last}: {taken:?}",
            self.name,
            events.len()
        ));
        match taken {
            Ok(taken) => taken,
            Err(found) => {
                world.judge(Err(found));
                true
            }
        }
    }

    fn failed(&self, reason: &str, wait: bool) -> Verdict {
        let wait = wait.then(|| {
            let time = self.world.draw_time(MOST_NOT_BEFORE);
            self.world.now() + TimeDelta::from_std(time).unwrap()
        });
        Verdict::Failed(DeliveryFailure {
            not_before: wait,
            ..DeliveryFailure::new(FailureKind::Passing, reason)
        })
    }

    fn verdict(&self, fence: Fence, events: &[Event]) -> Verdict {
        match self.take(fence, events) {
            true => Verdict::Acknowledged,
            false => self.failed("an older attempt", false),
        }
    }
}

fn parse(batch: &Batch) -> Vec<Event> {
    let wire: WireBatch = serde_json::from_slice(&batch.body).unwrap();
    let event = |event: WireEvent| Event {
        id: event.id,
        place: Place {
            cursor: event.cursor,
            key: event.key.id,
        },
        version: event.data.version,
    };
    wire.events.into_iter().map(event).collect()
}

#[async_trait]
impl Sink for SimSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, batch: &Batch) -> Verdict {
        let (fence, events, fate) = (batch.fence, parse(batch), self.fate());
        if self.world.has(Bug::SecondSinkForgotten) && self.index == 1 {
            return Verdict::Acknowledged;
        }
        let (answer, answered) = oneshot::channel();
        let sink = self.clone();
        self.world.send(async move {
            sink.work().await;
            let early = sink.world.has(Bug::AcknowledgedBeforeStored);
            let verdict = match fate {
                Fate::Refused => sink.failed("refused", false),
                Fate::AskedToWait => sink.failed("429", true),
                Fate::AnswerLost => {
                    sink.take(fence, &events);
                    sink.failed("the answer was lost", false)
                }
                Fate::LandsLate => {
                    drop(answer.send(sink.failed("no answer", false)));
                    sleep(sink.world.draw_time(MOST_LATE)).await;
                    sink.take(fence, &events);
                    return;
                }
                Fate::Fine if early => {
                    drop(answer.send(Verdict::Acknowledged));
                    sink.world.travel().await;
                    if sink.world.draw(10) > 0 {
                        sink.take(fence, &events);
                    }
                    return;
                }
                Fate::Fine => sink.verdict(fence, &events),
            };
            sink.world.travel().await;
            // Nobody listens when the sender has died or given up.
            drop(answer.send(verdict));
        });
        let verdict = answered.await.unwrap_or_else(|_| self.failed("cut", false));
        match self.world.has(Bug::FailureCountedAsDone) {
            true => Verdict::Acknowledged,
            false => verdict,
        }
    }
}
