//! A batch as messages of a storage queue, each answered by the service before it counts.
//!
//! A put whose answer was lost is not repeated inside the tick, and its events count as not put: they
//! come again, perhaps twice. A put that surely was not done is tried again a little. When one fails,
//! nothing new is begun, and the events that were not put are named: the others need not come again.

mod claims;
mod encoding;
mod plan;

use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::sleep;

use super::{DeliveryFailure, FailureKind, Sink, Stance, Unaccepted, Verdict};
use crate::azure::Azure;
use crate::azure::queue::{Queue, QueueError};
use crate::clock::Clock;
use crate::config::QueueConfig;
use crate::model::envelope::Batch;
use claims::ClaimStore;
pub(crate) use claims::NEEDS as CLAIM_NEEDS;
use plan::{Form, Message};

/// One at a time, a batch of a thousand events waits for a thousand answers in a row: 13 s on an
/// Azurite that is 8 ms away, 2.6 s with eight, 1.8 s with sixteen. A queue takes 2000 a second at most.
const MOST_IN_FLIGHT: usize = 8;
const TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// A service that asks for more patience than this gets it across ticks, not inside one.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Nor may it silence a poller for longer than this.
const LONGEST_SILENCE: TimeDelta = TimeDelta::hours(24);

#[derive(Debug)]
pub struct QueueSink {
    name: String,
    config: QueueConfig,
    queue: Queue,
    claims: Option<ClaimStore>,
    clock: Arc<dyn Clock>,
}

impl QueueSink {
    /// Connects to nothing yet. `app` keeps the claim checks of several apps apart.
    #[must_use]
    pub fn new(
        app: &str,
        name: &str,
        config: &QueueConfig,
        azure: &Azure,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let queue = Queue::new(
            azure,
            Arc::clone(&config.endpoint),
            &config.queue,
            Arc::clone(&clock),
        );
        let claims = config
            .claims
            .as_ref()
            .map(|claims| ClaimStore::new(azure, claims, app, name, Arc::clone(&clock)));
        Self {
            name: name.to_owned(),
            config: config.clone(),
            queue,
            claims,
            clock,
        }
    }

    /// A message of another kind than events. Too large: nothing was put.
    pub(crate) async fn post(&self, json: Vec<u8>) -> Result<(), DeliveryFailure> {
        if self.config.encoding.size(&json) > encoding::LARGEST {
            let reason = "it is larger than a message";
            return Err(DeliveryFailure::new(FailureKind::TooLarge, reason));
        }
        let put = self.put_text(&self.config.encoding.text(json)).await;
        put.map_err(|not_put| not_put.failure)
    }

    async fn put(&self, batch: &Batch, message: &Message) -> Result<(), NotPut> {
        let json = match message.form {
            Form::Event => batch.message(message.first()),
            Form::Packed => {
                let part = batch.part(message.events.clone(), batch.fence);
                part.body.to_vec()
            }
            Form::Claimed => match &self.claims {
                Some(claims) => self.check_in(claims, batch, message.first()).await?,
                None => return Err(self.no_claims(batch, message)),
            },
        };
        let text = self.config.encoding.text(json);
        self.put_text(&text).await
    }

    /// The message of an event that is in its blob when this returns: nobody reads of it before.
    async fn check_in(
        &self,
        claims: &ClaimStore,
        batch: &Batch,
        index: usize,
    ) -> Result<Vec<u8>, NotPut> {
        let blob = claims.name(batch, index);
        let json = batch.claim(index, &claims.check(&blob, batch.event_json(index)));
        if self.config.encoding.size(&json) > encoding::LARGEST {
            return Err(NotPut {
                failure: DeliveryFailure::new(
                    FailureKind::TooLarge,
                    "its key, its cursor and the types of its columns alone are larger than a message",
                ),
                reach: Reach::Message,
            });
        }
        claims.write(&blob, batch.event_json(index)).await?;
        Ok(json)
    }

    async fn put_text(&self, text: &str) -> Result<(), NotPut> {
        let mut created = false;
        let mut tries = 0;
        loop {
            let error = match self.queue.put(text.to_owned(), self.config.posting).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match &error {
                QueueError::Missing { .. } if self.config.create && !created => {
                    let made = self.queue.create().await;
                    made.map_err(|error| self.judge(&error))?;
                    created = true;
                }
                QueueError::NotDone { wait, .. } if tries + 1 < TRIES => {
                    let pause = wait.unwrap_or(FIRST_PAUSE * (1 << tries));
                    if pause > LONGEST_PAUSE {
                        return Err(self.judge(&error));
                    }
                    sleep(pause).await;
                    tries += 1;
                }
                _ => return Err(self.judge(&error)),
            }
        }
    }

    fn judge(&self, error: &QueueError) -> NotPut {
        let (kind, reach) = match error {
            // One that was made a moment ago and is gone again will be made by the next tick.
            QueueError::Missing { .. } if self.config.create => (FailureKind::Passing, Reach::All),
            QueueError::Missing { .. } | QueueError::Refused { .. } => {
                (FailureKind::Refused, Reach::All)
            }
            QueueError::NotDone { .. } | QueueError::Unknown { .. } => {
                (FailureKind::Passing, Reach::All)
            }
            QueueError::Rejected { .. } => (FailureKind::Rejected, Reach::Message),
        };
        let hint = match error {
            QueueError::Missing { .. } if !self.config.create => {
                ": create it, or let it be created by \"create\": true"
            }
            _ => "",
        };
        let not_before = match error {
            QueueError::NotDone {
                wait: Some(wait), ..
            } => {
                let wait = TimeDelta::from_std(*wait).unwrap_or(LONGEST_SILENCE);
                Some(self.clock.now() + wait.min(LONGEST_SILENCE))
            }
            _ => None,
        };
        NotPut {
            failure: DeliveryFailure {
                reason: format!("{}{hint}", story(error)),
                kind,
                not_before,
            },
            reach,
        }
    }

    /// A person can mend this, and the row is not to blame: so it is no `Reach::Message`.
    fn no_claims(&self, batch: &Batch, message: &Message) -> NotPut {
        let id = batch.event_ids[message.first()];
        let setting = self.config.endpoint.setting();
        let reason = format!(
            "event {id} is larger than a message, and {setting} has no blob endpoint where its claim \
             check could lie: add one to the connection, or deliver fewer columns"
        );
        NotPut {
            failure: DeliveryFailure::new(FailureKind::Refused, reason),
            reach: Reach::All,
        }
    }

    /// Several at once, but never two of the same row: a row and its tombstone keep their order. What
    /// was not put keeps back what comes after it of the same row, and both come again.
    async fn put_all(&self, batch: &Batch, plan: &[Message]) -> Outcome {
        let mut outcome = Outcome::default();
        let mut flying = FuturesUnordered::new();
        let mut rows: HashSet<&[u8]> = HashSet::new();
        let mut kept_back: HashSet<&[u8]> = HashSet::new();
        let keys = |message: &Message| message.events.clone().map(|index| batch.event_key(index));
        let mut waiting = plan.iter().peekable();
        loop {
            let behind_a_failure =
                |message: &&Message| keys(message).any(|key| kept_back.contains(key));
            let free = |message: &&Message| {
                !outcome.stopped()
                    && flying.len() < MOST_IN_FLIGHT
                    && keys(message).all(|key| !rows.contains(key))
            };
            if let Some(message) = waiting.next_if(behind_a_failure) {
                outcome.never_begun.push(message.clone());
            } else if let Some(message) = waiting.next_if(free) {
                rows.extend(keys(message));
                flying.push(async move { (message, self.put(batch, message).await) });
            } else if let Some((message, result)) = flying.next().await {
                for key in keys(message) {
                    rows.remove(key);
                }
                match result {
                    Ok(()) => outcome.put += message.events.len(),
                    Err(not_put) => {
                        kept_back.extend(keys(message));
                        outcome.failed.push((message.clone(), not_put));
                    }
                }
            } else {
                break;
            }
        }
        outcome.never_begun.extend(waiting.cloned());
        outcome
    }
}

/// Why a message was not put, and whom it concerns.
#[derive(Debug)]
struct NotPut {
    failure: DeliveryFailure,
    reach: Reach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Others may well be put.
    Message,
    /// Others would fare the same.
    All,
}

#[derive(Debug, Default)]
struct Outcome {
    /// How many events.
    put: usize,
    failed: Vec<(Message, NotPut)>,
    never_begun: Vec<Message>,
}

impl Outcome {
    fn stopped(&self) -> bool {
        let all = |(_, not_put): &(_, NotPut)| not_put.reach == Reach::All;
        self.failed.iter().any(all)
    }

    fn verdict(mut self, batch: &Batch) -> Verdict {
        // What concerns all says more than what concerns one.
        self.failed
            .sort_by_key(|(message, not_put)| (not_put.reach != Reach::All, message.events.start));
        let Some((_, first)) = self.failed.first() else {
            return Verdict::Acknowledged;
        };
        if self.put == 0 {
            return Verdict::Failed(first.failure.clone());
        }
        let stopped_by = first.failure.reason.clone();
        let failed = self.failed.into_iter().map(|(message, not_put)| {
            let stance = match not_put.failure.kind {
                FailureKind::TooLarge => Stance::Never,
                FailureKind::Rejected => Stance::NotNow,
                _ => Stance::NotTried,
            };
            (message, not_put.failure.reason, stance)
        });
        let never_begun = self.never_begun.into_iter();
        let never_begun =
            never_begun.map(|message| (message, stopped_by.clone(), Stance::NotTried));
        let mut unaccepted: Vec<(usize, Unaccepted)> = Vec::new();
        for (message, reason, stance) in failed.chain(never_begun) {
            unaccepted.extend(message.events.map(|index| {
                let id = batch.event_ids[index];
                let reason = reason.clone();
                (index, Unaccepted { id, reason, stance })
            }));
        }
        unaccepted.sort_by_key(|(index, _)| *index);
        Verdict::Partly(unaccepted.into_iter().map(|(_, event)| event).collect())
    }
}

#[async_trait]
impl Sink for QueueSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, batch: &Batch) -> Verdict {
        let plan = plan::of(batch, self.config.per, self.config.encoding);
        self.put_all(batch, &plan).await.verdict(batch)
    }
}

/// An error and its causes in one line.
fn story(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&cause| cause.source());
    let lines: Vec<String> = causes.map(ToString::to_string).collect();
    lines.join(": ")
}
