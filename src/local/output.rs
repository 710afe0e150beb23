//! Output bindings, written for real: after the handler's answer, before the caller's.
//!
//! Only queues, and only from an array of texts: the one form that the real host writes byte for
//! byte. Everything else it would decode or write anew, and here it fails the invocation.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use data_encoding::BASE64;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::answer::Reply;
use super::app::{AppDirectory, Function, OutputBinding, QueueOutput};
use super::invocation::InvocationFailure;
use crate::azure::Azure;
use crate::azure::connection::{Service, StorageConnection};
use crate::azure::queue::{Posting, Queue, QueueError};
use crate::clock::Clock;
use crate::config::Settings;

/// A write that fails on demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputFault {
    /// Which of the host's writes, from 1; one write is all messages of one binding in one invocation.
    pub write: u64,
    /// How many of its messages are written before it fails.
    pub after: usize,
}

/// What writing needs.
#[derive(Debug)]
pub(super) struct Outputs {
    settings: Settings,
    in_base64: bool,
    faults: Vec<OutputFault>,
    writes: AtomicU64,
    clock: Arc<dyn Clock>,
    /// Made by the first write: most apps have none.
    azure: OnceCell<Azure>,
}

impl Outputs {
    pub(super) fn new(app: &AppDirectory, faults: Vec<OutputFault>, clock: Arc<dyn Clock>) -> Self {
        Outputs {
            settings: app.environment.iter().collect(),
            in_base64: app.queue_messages_in_base64,
            faults,
            writes: AtomicU64::new(0),
            clock,
            azure: OnceCell::new(),
        }
    }

    /// All bindings at once, the messages of each one after the other, as in the host.
    pub(super) async fn write(
        &self,
        function: &Function,
        reply: &Reply,
    ) -> Result<(), InvocationFailure> {
        let writes = function.outputs.iter().map(|binding| async move {
            let Some(target) = &binding.queue else {
                return Ok(());
            };
            let texts = texts(binding, reply.output(binding))?;
            if texts.is_empty() {
                return Ok(());
            }
            let written = self.write_queue(target, &texts).await;
            written.map_err(|why| InvocationFailure::OutputFailed {
                binding: binding.name.clone(),
                why,
            })
        });
        join_all(writes).await.into_iter().collect()
    }

    async fn write_queue(&self, target: &QueueOutput, texts: &[&str]) -> Result<(), String> {
        let number = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let fault = self.faults.iter().find(|fault| fault.write == number);
        let queue = self.queue(target).await?;
        for (index, text) in texts.iter().enumerate() {
            fail_at(fault, index)?;
            self.put(&queue, text).await?;
        }
        fail_at(fault, texts.len())
    }

    async fn put(&self, queue: &Queue, text: &str) -> Result<(), String> {
        let text = match self.in_base64 {
            true => BASE64.encode(text.as_bytes()),
            false => text.to_owned(),
        };
        self.put_encoded(queue, text).await
    }

    /// As it is; a queue that is missing is made.
    pub(super) async fn put_encoded(&self, queue: &Queue, text: String) -> Result<(), String> {
        let put = |text| queue.put(text, Posting::default());
        match put(text.clone()).await {
            Err(QueueError::Missing { .. }) => {
                queue.create().await.map_err(story)?;
                put(text).await.map_err(story)
            }
            other => other.map_err(story),
        }
    }

    /// Where a binding reads or writes.
    pub(super) async fn queue(&self, target: &QueueOutput) -> Result<Queue, String> {
        let connection = StorageConnection::resolve(&self.settings, &target.connection);
        let endpoint = connection
            .and_then(|connection| connection.service(Service::Queue))
            .map_err(story)?;
        let azure = self
            .azure
            .get_or_try_init(|| async { Azure::new(Arc::clone(&self.clock)).map_err(story) })
            .await?;
        let clock = Arc::clone(&self.clock);
        Ok(Queue::new(azure, Arc::new(endpoint), &target.queue, clock))
    }
}

/// The messages of a value, or why the local host does not write it.
pub(super) fn texts<'a>(
    binding: &OutputBinding,
    value: &'a Value,
) -> Result<Vec<&'a str>, InvocationFailure> {
    let refused = |why: &str| InvocationFailure::OutputFailed {
        binding: binding.name.clone(),
        why: why.to_owned(),
    };
    let items = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(items) => items,
        _ => return Err(refused("only an array of texts is written as it is")),
    };
    let texts = items.iter().map(|item| match item.as_str() {
        Some(text) if is_date(text) => Err(refused("the host would write a bare date anew")),
        Some(text) => Ok(text),
        None => Err(refused(
            "the host would write a value that is not a text anew",
        )),
    });
    texts.collect()
}

/// Roughly what Json.NET takes for one: too many are refused rather than too few.
fn is_date(text: &str) -> bool {
    let digits = |range| {
        let part = text.as_bytes().get(range);
        part.is_some_and(|part: &[u8]| part.iter().all(u8::is_ascii_digit))
    };
    text.as_bytes().get(4) == Some(&b'-') && digits(0..4) && digits(5..7)
        || text.starts_with("/Date(")
}

pub(super) fn decoded(in_base64: bool, text: &str) -> Option<String> {
    match in_base64 {
        true => String::from_utf8(BASE64.decode(text.as_bytes()).ok()?).ok(),
        false => Some(text.to_owned()),
    }
}

fn fail_at(fault: Option<&OutputFault>, written: usize) -> Result<(), String> {
    match fault {
        Some(fault) if fault.after == written => {
            Err(format!("told to fail, after {written} messages"))
        }
        _ => Ok(()),
    }
}

fn story(error: impl Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_array_of_texts_is_written_and_each_as_it_is() {
        let binding = OutputBinding {
            name: "messages".to_owned(),
            kind: "queue".to_owned(),
            queue: None,
        };
        for (value, expected) in [
            (json!(null), Some(vec![])),
            (json!([]), Some(vec![])),
            (
                json!(["{\"a\": 1.10}", "dGVzdA=="]),
                Some(vec!["{\"a\": 1.10}", "dGVzdA=="]),
            ),
            (json!(["2026-01-02T03:04:05+02:00"]), None),
            (json!(["/Date(1198908717056)/"]), None),
            (json!([{ "a": 1 }]), None),
            (json!({ "a": 1 }), None),
            (json!("{}"), None),
            (json!("[]"), None),
            (json!(5), None),
        ] {
            let texts = texts(&binding, &value).ok();
            assert_eq!(texts, expected, "{value}");
        }
    }
}
