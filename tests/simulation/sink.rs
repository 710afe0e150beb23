//! Receivers behind a network, which loses answers and lets deliveries land late.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use dbtick::model::envelope::{Batch, Fence};
use dbtick::sink::{DeliveryFailure, FailureKind, Sink, Stance, Unaccepted, Verdict};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::backfill::Hand;
use super::faults::{Arrives, Bug, MOST_LATE, MOST_NOT_BEFORE, Mode, Takes, Told};
use super::manners::Bad;
use super::receivers::Event;
use super::world::World;

#[derive(Debug, Clone)]
pub(crate) struct SimSink {
    pub(crate) world: Arc<World>,
    pub(crate) hand: Hand,
    pub(crate) name: String,
    pub(crate) index: usize,
}

impl SimSink {
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

    /// What the receiver itself does, by its manners.
    fn receive(&self, fence: Fence, events: &[Event], takes: Takes) -> Verdict {
        let world = &self.world;
        let part = takes == Takes::Part;
        let manners = world.receivers().at(self.index).manners.clone();
        if let Some(kind) = manners.mood(world.elapsed()) {
            return self.answered(kind, "it takes nothing now");
        }
        if manners.most_rows.is_some_and(|most| events.len() > most) {
            return self.answered(FailureKind::TooLarge, "413");
        }
        let mut unaccepted = Vec::new();
        let mut taken = Vec::new();
        for event in events {
            let stance = match manners.bad.get(&event.version) {
                Some(Bad::Rejects) => return self.answered(FailureKind::Rejected, "a bad row"),
                Some(Bad::Breaks) => return self.answered(FailureKind::Broken, "a bad row"),
                Some(Bad::NamesForGood) => Stance::Never,
                Some(Bad::NamesAgain) => Stance::NotNow,
                None if part && world.draw(3) == 0 => Stance::NotNow,
                None if part && world.draw(3) == 0 => Stance::NotTried,
                None => {
                    taken.push(event.clone());
                    continue;
                }
            };
            unaccepted.push((event, stance));
        }
        if !self.take(fence, &taken) {
            return self.failed("an older attempt", false);
        }
        if unaccepted.is_empty() {
            return Verdict::Acknowledged;
        }
        let mut receivers = world.receivers();
        let unaccepted = unaccepted.into_iter().map(|(event, stance)| {
            if stance != Stance::NotTried {
                receivers.at(self.index).name(event);
            }
            Unaccepted {
                id: event.id,
                reason: format!("row {}", event.place),
                stance,
            }
        });
        Verdict::Partly(unaccepted.collect())
    }

    fn take(&self, fence: Fence, events: &[Event]) -> bool {
        let world = &self.world;
        let taken = world.receivers().take(self.index, fence, events, self.hand);
        let places: Vec<_> = events.iter().map(|event| event.place.to_string()).collect();
        world.note(format_args!(
            "{}: {fence:?} {places:?}: {taken:?}",
            self.name
        ));
        match taken {
            Ok(taken) => taken,
            Err(found) => {
                world.judge(Err(found));
                true
            }
        }
    }

    fn answered(&self, kind: FailureKind, reason: &str) -> Verdict {
        Verdict::Failed(DeliveryFailure::new(kind, reason))
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

    /// What a planted bug makes of an answer.
    fn misunderstood(&self, verdict: Verdict) -> Verdict {
        let world = &self.world;
        let failure = match &verdict {
            Verdict::Failed(failure) => Some(failure.kind),
            _ => None,
        };
        let counts_as_done = match world.plan.bug {
            Some(Bug::FailureCountedAsDone) => true,
            Some(Bug::NamedCountedAsTaken) => matches!(verdict, Verdict::Partly(_)),
            Some(Bug::TooLargeCountedAsTaken) => failure == Some(FailureKind::TooLarge),
            Some(Bug::LagFailureCountedAsDone) => {
                let states = world.states();
                let mut begun = states.iter().flatten();
                let behind = begun.any(|it| it.sink(&self.name).lag.is_some());
                behind && failure.is_some()
            }
            _ => false,
        };
        match counts_as_done {
            true => Verdict::Acknowledged,
            false => verdict,
        }
    }
}

#[async_trait]
impl Sink for SimSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, batch: &Batch) -> Verdict {
        let (fence, events) = (batch.fence, Event::all(&batch.body));
        let fate = self.world.fate_of_a_delivery();
        let seen = self.world.receivers().see(&events);
        self.world.judge(seen);
        if self.hand == Hand::Range {
            self.world.check_what_is_sent_again(&events);
        }
        if self.world.has(Bug::SecondSinkForgotten) && self.index == 1 {
            return Verdict::Acknowledged;
        }
        let (answer, answered) = oneshot::channel();
        let mut answer = Some(answer);
        let sink = self.clone();
        self.world.send(async move {
            sink.work().await;
            let early = sink.world.has(Bug::AcknowledgedBeforeStored);
            if early && fate.told == Told::Answer {
                drop(answer.take().map(|it| it.send(Verdict::Acknowledged)));
                sink.world.travel().await;
                if sink.world.draw(10) > 0 {
                    sink.take(fence, &events);
                }
                return;
            }
            if fate.arrives == Arrives::Late {
                drop(answer.take());
                sleep(sink.world.draw_time(MOST_LATE)).await;
            }
            let own = match fate.arrives {
                Arrives::Never => Verdict::Acknowledged,
                _ => sink.receive(fence, &events, fate.takes),
            };
            let verdict = match fate.told {
                Told::Answer => own,
                Told::Nothing => sink.failed("the answer was lost", false),
                Told::Refused => sink.failed("refused", false),
                Told::Wait => sink.failed("429", true),
                Told::Broken => sink.answered(FailureKind::Broken, "500"),
            };
            if verdict != Verdict::Acknowledged {
                sink.world.note(format_args!("{}: {verdict:?}", sink.name));
            }
            sink.world.travel().await;
            // Nobody listens when the sender has died or given up.
            drop(answer.map(|it| it.send(verdict)));
        });
        let verdict = answered.await.unwrap_or_else(|_| self.failed("cut", false));
        self.misunderstood(verdict)
    }
}
