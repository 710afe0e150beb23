//! A receiver of messages: a queue of a storage account.

use std::sync::Arc;
use std::time::Duration;

use super::Reader;
use super::storage::NamedStorage;
use crate::azure::connection::{Service, ServiceEndpoint};
use crate::azure::queue::{Posting, TimeToLive};
use crate::config::fault::Place;
use crate::config::{Claims, MessageEncoding, Per, QueueConfig, human, raw};

const DEFAULT_CLAIMS: &str = "db-claims";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const LONGEST_LIFE: Duration = Duration::from_secs(i32::MAX as u64);
const LONGEST_DELAY: Duration = Duration::from_secs(7 * DAY.as_secs());

pub(super) fn queue(reader: &mut Reader<'_>, at: &Place, raw: raw::Queue) -> Option<QueueConfig> {
    let raw::Queue {
        queue,
        connection,
        per,
        create,
        ttl,
        visible_after,
        encoding,
        claim_check,
    } = raw;
    let queue = reader.queue_name(&at.key("queue"), &queue);
    let posting = reader.posting(at, ttl.as_deref(), visible_after.as_deref());
    let storage = reader.storage(at, connection.as_deref());
    let claims = match &storage {
        Some(storage) => reader.claims(at, storage, claim_check),
        None => None,
    };
    let endpoint = reader.service(&storage?, Service::Queue);
    Some(QueueConfig {
        endpoint: Arc::new(endpoint?),
        queue: queue?,
        per: match per {
            Some(raw::Per::Event) | None => Per::Event,
            Some(raw::Per::Packed) => Per::Packed,
        },
        create: create.unwrap_or(true),
        posting: posting?,
        encoding: match encoding {
            Some(raw::MessageEncoding::Base64) | None => MessageEncoding::Base64,
            Some(raw::MessageEncoding::Text) => MessageEncoding::Text,
        },
        claims: claims?,
    })
}

/// A queue for notices: small messages, as the Functions queue trigger expects them.
pub(super) fn notices(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: raw::PoisonQueue,
) -> Option<QueueConfig> {
    let raw::PoisonQueue { queue, connection } = raw;
    let unless_told = raw::Queue {
        queue,
        connection,
        per: None,
        create: None,
        ttl: None,
        visible_after: None,
        encoding: None,
        claim_check: None,
    };
    self::queue(reader, at, unless_told)
}

/// Where the messages of a queueTrigger are. `at`: of the binding.
pub(in crate::config) fn trigger(
    reader: &mut Reader<'_>,
    at: &Place,
    binding: &raw::Binding,
) -> Option<(Arc<ServiceEndpoint>, String)> {
    let name = binding.queue_name.as_deref().unwrap_or_default();
    let queue = reader.queue_name(&at.key("queueName"), name);
    let storage = reader.storage(at, binding.connection.as_deref())?;
    let endpoint = reader.service(&storage, Service::Queue)?;
    Some((Arc::new(endpoint), queue?))
}

impl Reader<'_> {
    /// Where claim checks are asked for, there must be a place for them. Where they are not, a
    /// connection to queues alone will do: an event that needs one says so when it comes, and waits.
    fn claims(
        &mut self,
        at: &Place,
        storage: &NamedStorage,
        raw: Option<raw::ClaimCheck>,
    ) -> Option<Option<Claims>> {
        let endpoint = match raw {
            Some(_) => Some(self.service(storage, Service::Blob)?),
            None => storage.connection.service(Service::Blob).ok(),
        };
        let container = raw.and_then(|raw::ClaimCheck { container }| container);
        let written = container.as_deref().unwrap_or(DEFAULT_CLAIMS);
        let at = at.key("claim_check").key("container");
        let container = self.container_name(&at, written)?;
        Some(endpoint.map(|endpoint| Claims {
            endpoint: Arc::new(endpoint),
            container,
        }))
    }

    fn posting(
        &mut self,
        at: &Place,
        ttl: Option<&str>,
        visible_after: Option<&str>,
    ) -> Option<Posting> {
        let life = match ttl {
            None => Some(TimeToLive::Forever),
            Some(written) => self.time_to_live(&at.key("ttl"), written),
        };
        let at = at.key("visible_after");
        let delay = match visible_after {
            None => Duration::ZERO,
            Some(written) => self.whole_seconds(
                &at,
                written,
                LONGEST_DELAY,
                "a message is hidden for 7d at most",
            )?,
        };
        let time_to_live = life?;
        let lives = match time_to_live {
            TimeToLive::Seconds(seconds) => Duration::from_secs(seconds.into()),
            TimeToLive::Forever => Duration::MAX,
        };
        if delay >= lives {
            let lives = human::show_duration(lives);
            let problem = format!("nobody would ever see a message, which lives for {lives}");
            self.faults.add(&at, problem, "make it shorter than ttl");
            return None;
        }
        Some(Posting {
            time_to_live: Some(time_to_live),
            visible_after: delay,
        })
    }

    fn time_to_live(&mut self, at: &Place, written: &str) -> Option<TimeToLive> {
        if self.text(at, written)?.trim() == "never" {
            return Some(TimeToLive::Forever);
        }
        let hint = "write never for a message that stays until it is taken";
        let life = self.whole_seconds(at, written, LONGEST_LIFE, hint)?;
        if life.is_zero() {
            self.faults.add(at, "is zero", "write 1s or more, or never");
            return None;
        }
        u32::try_from(life.as_secs()).ok().map(TimeToLive::Seconds)
    }

    /// The service counts in them.
    fn whole_seconds(
        &mut self,
        at: &Place,
        written: &str,
        longest: Duration,
        too_long: &str,
    ) -> Option<Duration> {
        let (problem, hint) = match human::duration(&self.text(at, written)?) {
            Ok(duration) if duration.subsec_nanos() > 0 => (
                "is not a number of whole seconds",
                "write it like 30s or 2m",
            ),
            Ok(duration) if duration <= longest => return Some(duration),
            Ok(_) => ("is too long", too_long),
            Err(_) => ("is not a duration", human::DURATION_FORMS),
        };
        self.faults.add(at, format!("{problem}: {written}"), hint);
        None
    }
}
