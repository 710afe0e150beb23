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
use crate::config::{App, FanOutFunction};
use crate::model::plain::plain;
use crate::schedule::Schedule;
use crate::telemetry;
use crate::wiring::Parts;

/// Puts on their way at the same time.
const AT_ONCE: usize = 16;
/// Where a schedule does not tell.
const USUAL_INTERVAL: Duration = Duration::from_secs(60);

/// Hosts fire a little early.
const EARLY: TimeDelta = TimeDelta::seconds(1);

/// A timer function that lets others tick.
#[derive(Debug)]
pub(super) struct FanOut {
    name: String,
    app: String,
    schedule: Schedule,
    queue: Queue,
    pollers: Vec<String>,
}

/// Says which poller is to tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    /// Whose state it is about: a queue may be shared by mistake, with a slot above all.
    app: String,
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
    "{binding} holds no message of a fan-out: {{\"app\", \"poller\", \"scheduled\", \"expires\"}} is expected"
)]
pub(super) struct NotAMessage {
    binding: String,
}

impl FanOut {
    pub(super) fn new(app: &App, function: &FanOutFunction, parts: &Parts) -> Self {
        Self {
            name: function.name.clone(),
            app: app.name.clone(),
            schedule: function.schedule.clone(),
            queue: parts.queue(&function.queue),
            pollers: function.pollers.clone(),
        }
    }

    /// Every poller gets its message, also where that of another one fails.
    pub(super) async fn run(&self, now: Timestamp, invocation_id: &str) -> Answer {
        let lives = lives(&self.schedule, now);
        let expires = now + TimeDelta::from_std(lives).unwrap_or(TimeDelta::MAX);
        let puts = in_turn(&self.pollers, now, lives).map(|poller| {
            let message = Message {
                app: self.app.clone(),
                poller: poller.clone(),
                scheduled: now,
                expires,
            };
            async move {
                let put = self.put(&message, lives).await;
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
                u32::try_from(lives.as_secs().saturating_add(1)).unwrap_or(u32::MAX),
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

/// Each time another one comes first: where there is too little time for all, it is not the same ones whose
/// messages pass.
fn in_turn(pollers: &[String], now: Timestamp, lives: Duration) -> impl Iterator<Item = &String> {
    let count = pollers.len();
    let firing = now.timestamp().unsigned_abs() / lives.as_secs().max(1);
    let first = usize::try_from(firing % (count.max(1) as u64)).unwrap_or(0);
    pollers.iter().cycle().skip(first).take(count)
}

/// Until the next message is due.
fn lives(schedule: &Schedule, now: Timestamp) -> Duration {
    let next = schedule.next_after(now + EARLY);
    let lives = (next - now).to_std().unwrap_or(USUAL_INTERVAL);
    lives.max(Duration::from_secs(1))
}

impl Message {
    /// Why it is for nobody here.
    pub(super) fn is_for_another(&self, app: &str) -> Option<String> {
        (self.app != app).then(|| {
            format!(
                "the message was put by {}, and this is {app}: give each app, and each slot, a queue of its own; the host gives \
                 it again",
                plain(&self.app)
            )
        })
    }

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
        // One from a clock that is ahead must not stand for all until then.
        let is_same = |last: &Timestamp| (message.scheduled..=message.expires).contains(last);
        let is_new = !last.is_some_and(is_same);
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
            app: "shop".to_owned(),
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
    fn a_clock_that_is_ahead_does_not_stop_a_poller_until_then() {
        let taken = Taken::default();
        assert_eq!(message(3600).in_vain(&taken, 1, at(1)), None);
        assert_eq!(message(15).in_vain(&taken, 1, at(16)), None);
        assert!(message(15).in_vain(&taken, 1, at(17)).is_some());
    }

    #[test]
    fn each_time_another_poller_comes_first() {
        let pollers = ["a", "b", "c"].map(str::to_owned);
        let lives = Duration::from_secs(15);
        let order = |firing: i64| {
            let turn = in_turn(&pollers, at(firing * 15), lives);
            turn.map(String::as_str).collect::<String>()
        };
        let mut orders = [order(0), order(1), order(2)];
        orders.sort();
        assert_eq!(orders, ["abc", "bca", "cab"]);
    }

    #[test]
    fn a_message_lives_until_the_next_firing_also_where_the_intervals_differ() {
        let schedule = Schedule::parse("0 0,5 * * * *").unwrap();
        let time = |minute: u32, second: u32| {
            use chrono::TimeZone;
            let time = chrono::Utc.with_ymd_and_hms(2026, 4, 1, 9, minute, second);
            time.unwrap()
        };
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        assert_eq!(lives(&schedule, time(0, 0)), minutes(5));
        assert_eq!(lives(&schedule, time(5, 0)), minutes(55));
        // Late, and a moment early.
        assert_eq!(lives(&schedule, time(6, 0)), minutes(54));
        let early = time(5, 0) - TimeDelta::milliseconds(20);
        assert_eq!(lives(&schedule, early).as_secs(), 55 * 60);
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
