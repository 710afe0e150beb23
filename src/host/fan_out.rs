//! Ticks that are spread over instances: a timer puts a message for each poller, and whoever takes it ticks
//! that poller.
//!
//! A message is a wish that passes: it lives until the next one is due. Queues give messages late, twice and
//! in heaps; one that is stale, or was taken before, ends at once. What a tick does is kept right by its
//! lease alone, as ever, so a message that is lost costs an interval, and one too many costs a look.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use chrono::TimeDelta;
use data_encoding::BASE64;
use futures_util::StreamExt;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::invocation::{Answer, unquoted};
use crate::azure::queue::{Posting, Queue, QueueError, TimeToLive};
use crate::clock::Timestamp;
use crate::config::FanOutFunction;
use crate::model::plain::plain;
use crate::schedule::Schedule;
use crate::telemetry;
use crate::wiring::Parts;

/// Puts on their way at the same time.
const AT_ONCE: usize = 16;
/// Where a schedule does not tell.
const USUAL_INTERVAL: Duration = Duration::from_secs(60);

/// A timer function that lets others tick.
#[derive(Debug)]
pub(super) struct FanOut {
    name: String,
    schedule: Schedule,
    queue: Queue,
    pollers: Vec<String>,
}

/// Says which poller is to tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    pub(super) poller: String,
    scheduled: Timestamp,
    /// The next one is due.
    expires: Timestamp,
}

/// When the newest message for each poller was due that came here. What another process has taken is not
/// known: there the lease decides.
#[derive(Debug, Default)]
pub(super) struct Taken(Mutex<BTreeMap<String, Timestamp>>);

#[derive(Debug, thiserror::Error)]
#[error(
    "{binding} holds no message of a fan-out: {{\"poller\", \"scheduled\", \"expires\"}} is expected"
)]
pub(super) struct NotAMessage {
    binding: String,
}

impl FanOut {
    pub(super) fn new(function: &FanOutFunction, parts: &Parts) -> Self {
        Self {
            name: function.name.clone(),
            schedule: function.schedule.clone(),
            queue: parts.queue(&function.queue),
            pollers: function.pollers.clone(),
        }
    }

    /// Every poller gets its message, also where that of another one fails.
    pub(super) async fn run(&self, now: Timestamp, invocation_id: &str) -> Answer {
        let interval = self.schedule.interval(now).unwrap_or(USUAL_INTERVAL);
        let interval = interval.max(Duration::from_secs(1));
        let expires = now + TimeDelta::from_std(interval).unwrap_or(TimeDelta::MAX);
        let puts = self.pollers.iter().map(|poller| {
            let message = Message {
                poller: poller.clone(),
                scheduled: now,
                expires,
            };
            async move {
                let put = self.put(&message, interval).await;
                put.map_err(|error| format!("{}: no message for {poller}: {error}", self.name))
            }
        });
        let puts: Vec<_> = puts.collect();
        let put: Vec<Result<(), String>> =
            stream::iter(puts).buffer_unordered(AT_ONCE).collect().await;
        let problems: Vec<String> = put.into_iter().filter_map(Result::err).collect();
        if problems.is_empty() {
            let (count, queue) = (self.pollers.len(), self.queue.name());
            return Answer::ok(vec![format!("{count} messages put into {queue}")]);
        }
        telemetry::refused(&self.name, invocation_id, &problems);
        Answer::failed(StatusCode::INTERNAL_SERVER_ERROR, problems)
    }

    async fn put(&self, message: &Message, lives: Duration) -> Result<(), QueueError> {
        let text = serde_json::to_vec(message).expect("names and times are representable");
        let text = BASE64.encode(&text);
        let posting = Posting {
            time_to_live: Some(TimeToLive::Seconds(
                u32::try_from(lives.as_secs()).unwrap_or(u32::MAX).max(1),
            )),
            visible_after: Duration::ZERO,
        };
        match self.queue.put(text.clone(), posting).await {
            Err(QueueError::Missing { .. }) => {
                self.queue.create().await?;
                self.queue.put(text, posting).await
            }
            put => put,
        }
    }
}

impl Message {
    /// The message in a body of the host, and how often the queue has given it.
    pub(super) fn read(body: &[u8], binding: &str) -> Result<(Self, u64), NotAMessage> {
        let read = || {
            let body: Map<String, Value> = serde_json::from_slice(body).ok()?;
            // Text, as JSON, inside of text; more leniently, less of that.
            let mut message = body.get("Data")?.get(binding)?.clone();
            for _ in 0..2 {
                message = unquoted(&message);
            }
            let count = body.get("Metadata").and_then(|it| it.get("DequeueCount"));
            let count = count.map(unquoted).and_then(|count| count.as_u64());
            Some((serde_json::from_value(message).ok()?, count.unwrap_or(1)))
        };
        read().ok_or_else(|| NotAMessage {
            binding: binding.to_owned(),
        })
    }

    /// For who gets a message that nothing shall follow from.
    pub(super) fn in_vain(&self, taken: &Taken, dequeued: u64, now: Timestamp) -> Option<String> {
        let poller = plain(&self.poller);
        if now >= self.expires {
            let expired = self.expires.format("%H:%M:%S");
            return Some(format!(
                "{poller}: the message is stale since {expired} UTC, and the next one is there; nothing was done"
            ));
        }
        let ends = "nothing was done, the next one lets it tick";
        if dequeued > 1 {
            return Some(format!("{poller}: the message was taken before; {ends}"));
        }
        match taken.is_new(self) {
            true => None,
            false => Some(format!("{poller}: the message is a duplicate; {ends}")),
        }
    }
}

impl Taken {
    fn is_new(&self, message: &Message) -> bool {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = taken.get(&message.poller);
        let is_new = last.is_none_or(|last| *last < message.scheduled);
        if is_new {
            taken.insert(message.poller.clone(), message.scheduled);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        chrono::DateTime::from_timestamp(1_775_000_000 + second, 0).unwrap()
    }

    fn message(scheduled: i64) -> Message {
        Message {
            poller: "orders.0of4".to_owned(),
            scheduled: at(scheduled),
            expires: at(scheduled + 15),
        }
    }

    #[test]
    fn a_message_that_is_stale_or_was_taken_before_ends_at_once() {
        let taken = Taken::default();
        let in_vain = |scheduled, dequeued, now| {
            let said = message(scheduled).in_vain(&taken, dequeued, at(now));
            said.map(|said| said.split("; ").next().unwrap_or_default().to_owned())
        };
        assert_eq!(in_vain(0, 1, 1), None);
        let duplicate = Some("orders.0of4: the message is a duplicate".to_owned());
        assert_eq!(in_vain(0, 1, 2), duplicate);
        assert_eq!(in_vain(-15, 1, -5), duplicate);
        let again = Some("orders.0of4: the message was taken before".to_owned());
        assert_eq!(in_vain(15, 2, 16), again);
        let stale = in_vain(15, 1, 30).unwrap();
        assert!(stale.contains("is stale since"), "{stale}");
        // Neither of the two was worked on.
        assert_eq!(in_vain(15, 1, 17), None);
    }

    #[test]
    fn a_message_is_read_in_every_form_that_the_host_may_give_it() {
        let message = message(0);
        let text = serde_json::to_string(&message).unwrap();
        let quoted = Value::from(text.as_str()).to_string();
        for (data, count) in [
            (text.clone(), 1),
            (quoted.clone(), 1),
            (Value::from(quoted.as_str()).to_string(), 3),
        ] {
            let metadata = format!(r#"{{"DequeueCount":"{count}"}}"#);
            let body = format!(r#"{{"Data":{{"shard":{data}}},"Metadata":{metadata}}}"#);
            let read = Message::read(body.as_bytes(), "shard").unwrap();
            assert_eq!(read, (message.clone(), count));
        }
        for body in ["", "{}", r#"{"Data":{}}"#, r#"{"Data":{"shard":"x"}}"#] {
            assert!(Message::read(body.as_bytes(), "shard").is_err(), "{body}");
        }
    }
}
