//! The listener of one queue: takes messages, and lets the function run for each.
//!
//! A message whose function succeeds is deleted. One whose function fails is seen again, until it has failed
//! `maxDequeueCount` times: then it goes to the queue `<name>-poison`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::to_raw_value;
use tokio::task::JoinSet;

use super::app::{Function, QueueOutput};
use super::envelope::{Members, TriggerData, dotnet_time};
use super::event::{LogLevel, LogSource};
use super::invocation::Invoker;
use super::output::decoded;
use crate::azure::queue::{Queue, QueueError, Received};
use crate::clock::Timestamp;

/// While a function works on it. The host renews it; nothing runs so long here.
const HIDDEN: Duration = Duration::from_secs(600);
/// Between two looks at a queue: less after a message, more while there is none.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Until the host stops.
pub(super) async fn listen(invoker: Arc<Invoker>, function: Function, trigger: QueueOutput) {
    let queue = match invoker.outputs.queue(&trigger).await {
        Ok(queue) => queue,
        Err(why) => return warn(&invoker, &format!("{} is not run: {why}", function.name)),
    };
    let listener = Listener {
        invoker,
        function: Arc::new(function),
        trigger: Arc::new(trigger),
        queue,
    };
    listener.listen().await;
}

/// What a manual run carries: a message of no text.
pub(super) fn manual() -> TriggerData {
    data("")
}

#[derive(Clone)]
struct Listener {
    invoker: Arc<Invoker>,
    function: Arc<Function>,
    trigger: Arc<QueueOutput>,
    queue: Queue,
}

impl Listener {
    async fn listen(self) {
        let stopping = self.invoker.stopping.clone();
        let options = self.invoker.app.queues;
        let mut running = JoinSet::new();
        let mut pause = SHORTEST_PAUSE;
        loop {
            let has_room = running.len() <= usize::from(options.new_batch_threshold);
            let found = match has_room {
                true => self.take().await,
                false => Vec::new(),
            };
            pause = match found.is_empty() {
                true => LONGEST_PAUSE.min(pause * 2),
                false => SHORTEST_PAUSE,
            };
            for message in found {
                let listener = self.clone();
                running.spawn(async move { listener.run(message).await });
            }
            tokio::select! {
                () = stopping.cancelled() => return running.detach_all(),
                Some(_) = running.join_next(), if !running.is_empty() => pause = SHORTEST_PAUSE,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn take(&self) -> Vec<Received> {
        let most = i32::from(self.invoker.app.queues.batch_size);
        match self.queue.receive_some(most, HIDDEN).await {
            Ok(found) => found,
            // It is made by whoever puts the first message.
            Err(QueueError::Missing { .. }) => Vec::new(),
            Err(error) => {
                self.warn(&format!("its queue cannot be read: {error}"));
                Vec::new()
            }
        }
    }

    async fn run(&self, message: Received) {
        let text = decoded(self.invoker.app.queue_messages_in_base64, &message.text);
        let succeeded = match &text {
            // A host that died with it has counted nothing; the queue has.
            Some(text) if message.dequeued <= self.most() => {
                let data = triggered(text, &message);
                self.invoker.invoke(&self.function, data).await.succeeded()
            }
            _ => false,
        };
        let ended = match succeeded {
            true => self.queue.delete(&message).await,
            false if text.is_none() || message.dequeued >= self.most() => {
                self.poison(&message).await
            }
            false => {
                let hidden = self.invoker.app.queues.visibility_timeout;
                self.queue.release(&message, hidden).await
            }
        };
        if let Err(error) = ended {
            self.warn(&format!("a message will come again: {error}"));
        }
    }

    fn most(&self) -> i64 {
        self.invoker.app.queues.max_dequeue_count.into()
    }

    /// First there, then no longer here.
    async fn poison(&self, message: &Received) -> Result<(), QueueError> {
        let target = QueueOutput {
            queue: format!("{}-poison", self.trigger.queue),
            connection: self.trigger.connection.clone(),
        };
        let outputs = &self.invoker.outputs;
        let put = match outputs.queue(&target).await {
            Ok(queue) => outputs.put_encoded(&queue, message.text.clone()).await,
            Err(why) => Err(why),
        };
        match put {
            Ok(()) => {
                self.warn(&format!(
                    "a message has failed {} times and was moved to {}",
                    message.dequeued, target.queue
                ));
                self.queue.delete(message).await
            }
            Err(why) => {
                self.warn(&format!("the poison queue cannot be written: {why}"));
                let hidden = self.invoker.app.queues.visibility_timeout;
                self.queue.release(message, hidden).await
            }
        }
    }

    fn warn(&self, what: &str) {
        warn(&self.invoker, &format!("{}: {what}", self.function.name));
    }
}

fn warn(invoker: &Invoker, line: &str) {
    let reporter = &invoker.reporter;
    reporter.log(LogSource::Host, LogLevel::Warning, line);
}

/// The text as JSON inside a string.
fn data(text: &str) -> TriggerData {
    let text = Value::from(text).to_string();
    TriggerData {
        data: to_raw_value(&text).unwrap_or_default(),
        metadata: Members::default(),
    }
}

/// Besides, what the queue knows of the message, and the members of a JSON object that are no arrays.
fn triggered(text: &str, message: &Received) -> TriggerData {
    let mut trigger = data(text);
    let metadata = &mut trigger.metadata;
    let time = |time: Option<Timestamp>| {
        let time = time.unwrap_or_default();
        format!("{}+00:00", dotnet_time(time))
    };
    metadata.push("DequeueCount", &message.dequeued.to_string());
    metadata.push("ExpirationTime", &time(message.expires));
    metadata.push_text("Id", &message.id);
    metadata.push("InsertionTime", &time(message.inserted));
    metadata.push("NextVisibleTime", &time(message.next_visible));
    metadata.push_text("PopReceipt", &message.receipt);
    if let Ok(Value::Object(members)) = serde_json::from_str(text) {
        for (name, value) in members {
            match value {
                Value::Array(_) => {}
                _ if metadata.has(&name) => {}
                Value::String(text) => metadata.push_text(name, &text),
                other => metadata.push(name, &other.to_string()),
            }
        }
    }
    trigger
}
