//! One queue of a storage account.
//!
//! Each call is one request, and none is repeated: a put whose answer was lost may have put the
//! message, and only the caller knows what a second one costs. Messages are text, stored as given.

mod fault;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use azure_core::http::{RequestContent, XmlFormat};
use azure_storage_queue::models::{
    QueueClientPeekMessagesOptions, QueueClientReceiveMessagesOptions,
    QueueClientSendMessageOptions, QueueMessage,
};
use azure_storage_queue::{QueueClient, QueueClientOptions};

use super::Azure;
use super::connection::ServiceEndpoint;
use super::failure::Failure;
use crate::clock::{Clock, Timestamp};
use fault::Faults;

pub(crate) use fault::NEEDS;
pub use fault::QueueError;

/// Of one message, as the service stores it.
pub const LARGEST_MESSAGE: usize = 64 * 1024;

/// Cheap to clone; connects to nothing before the first call.
#[derive(Clone)]
pub struct Queue {
    client: Arc<QueueClient>,
    endpoint: Arc<ServiceEndpoint>,
    name: Arc<str>,
    clock: Arc<dyn Clock>,
}

/// How messages are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Posting {
    /// The service's own, which is seven days, unless told.
    pub time_to_live: Option<TimeToLive>,
    /// How long nobody sees the message.
    pub visible_after: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeToLive {
    Seconds(u32),
    Forever,
}

/// A message as it lies in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub text: String,
    pub expires: Option<Timestamp>,
    pub dequeued: i64,
}

/// A message that nobody else sees for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    pub text: String,
    pub id: String,
    pub receipt: String,
    /// How often it was taken, this time included.
    pub dequeued: i64,
    pub inserted: Option<Timestamp>,
    pub expires: Option<Timestamp>,
    pub next_visible: Option<Timestamp>,
}

impl Queue {
    #[must_use]
    pub fn new(
        azure: &Azure,
        endpoint: Arc<ServiceEndpoint>,
        name: &str,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let options = QueueClientOptions {
            client_options: azure.client_options(&endpoint),
            ..QueueClientOptions::default()
        };
        let client = QueueClient::new(endpoint.address([name]), None, Some(options))
            .expect("an endpoint is an http address, to which paths can be added");
        Self {
            client: Arc::new(client),
            endpoint,
            name: name.into(),
            clock,
        }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns when the service has stored the message.
    pub async fn put(&self, text: String, posting: Posting) -> Result<(), QueueError> {
        let message = QueueMessage {
            message_text: Some(text),
        };
        let message: RequestContent<QueueMessage, XmlFormat> = message
            .try_into()
            .map_err(|error| self.faults().unwritable(error))?;
        let visible_after = seconds(posting.visible_after);
        let options = QueueClientSendMessageOptions {
            message_time_to_live: posting.time_to_live.map(TimeToLive::parameter),
            visibility_timeout: (visible_after > 0).then_some(visible_after),
            ..QueueClientSendMessageOptions::default()
        };
        match self.client.send_message(message, Some(options)).await {
            // The status says it; what the answer tells about the message is of no use here.
            Ok(_) => Ok(()),
            Err(error) => Err(self.faults().put(Failure::from(error))),
        }
    }

    /// A queue that is there already is as good.
    pub async fn create(&self) -> Result<(), QueueError> {
        match self.client.create(None).await.map_err(Failure::from) {
            Ok(_) => Ok(()),
            Err(failure) => self.faults().create(failure),
        }
    }

    /// Up to 32 messages that are visible now; they stay as they are.
    pub async fn peek(&self) -> Result<Vec<Found>, QueueError> {
        let options = QueueClientPeekMessagesOptions {
            number_of_messages: Some(MOST_AT_ONCE),
            ..QueueClientPeekMessagesOptions::default()
        };
        let found = async {
            let answer = self.client.peek_messages(Some(options)).await?;
            answer.into_model()
        };
        let found = found
            .await
            .map_err(|error| self.faults().read(error.into()))?;
        let found = found.items.unwrap_or_default().into_iter();
        Ok(found
            .map(|message| Found {
                text: message.message_text.unwrap_or_default(),
                expires: message.expiration_time.and_then(timestamp),
                dequeued: message.dequeue_count.unwrap_or_default(),
            })
            .collect())
    }

    /// Up to 32 messages, hidden from others until they are deleted or `hidden` has passed.
    pub async fn receive(&self, hidden: Duration) -> Result<Vec<Received>, QueueError> {
        self.receive_some(MOST_AT_ONCE, hidden).await
    }

    /// The same, up to `most`, which is 32 or less.
    pub async fn receive_some(
        &self,
        most: i32,
        hidden: Duration,
    ) -> Result<Vec<Received>, QueueError> {
        let options = QueueClientReceiveMessagesOptions {
            number_of_messages: Some(most),
            visibility_timeout: Some(seconds(hidden)),
            ..QueueClientReceiveMessagesOptions::default()
        };
        let found = async {
            let answer = self.client.receive_messages(Some(options)).await?;
            answer.into_model()
        };
        let found = found
            .await
            .map_err(|error| self.faults().read(error.into()))?;
        let found = found.items.unwrap_or_default().into_iter();
        Ok(found
            .map(|message| Received {
                text: message.message_text.unwrap_or_default(),
                id: message.message_id.unwrap_or_default(),
                receipt: message.pop_receipt.unwrap_or_default(),
                dequeued: message.dequeue_count.unwrap_or_default(),
                inserted: message.insertion_time.and_then(timestamp),
                expires: message.expiration_time.and_then(timestamp),
                next_visible: message.time_next_visible.and_then(timestamp),
            })
            .collect())
    }

    /// Others see it again once `hidden` has passed.
    pub async fn release(&self, message: &Received, hidden: Duration) -> Result<(), QueueError> {
        let Received { id, receipt, .. } = message;
        let hidden = seconds(hidden);
        match self.client.update_message(id, receipt, hidden, None).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.faults().put(error.into())),
        }
    }

    pub async fn delete(&self, message: &Received) -> Result<(), QueueError> {
        let Received { id, receipt, .. } = message;
        match self.client.delete_message(id, receipt, None).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.faults().put(error.into())),
        }
    }

    fn faults(&self) -> Faults<'_> {
        Faults {
            endpoint: &self.endpoint,
            queue: &self.name,
            now: self.clock.now(),
        }
    }
}

/// What the service gives in one answer.
const MOST_AT_ONCE: i32 = 32;

impl TimeToLive {
    fn parameter(self) -> i32 {
        match self {
            Self::Seconds(seconds) => i32::try_from(seconds).unwrap_or(i32::MAX),
            Self::Forever => -1,
        }
    }
}

fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

fn timestamp(time: azure_core::time::OffsetDateTime) -> Option<Timestamp> {
    chrono::DateTime::from_timestamp(time.unix_timestamp(), 0)
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("connection", &self.endpoint.setting())
            .field("queue", &self.name)
            .finish_non_exhaustive()
    }
}
