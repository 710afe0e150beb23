//! Who receives the rows.

use std::collections::BTreeSet;

use super::{Reader, queue, relay, webhook};
use crate::config::fault::Place;
use crate::config::{SinkConfig, Target, raw};

pub(super) fn sinks(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: Vec<raw::Sink>,
) -> Option<Vec<SinkConfig>> {
    let several = raw.len() > 1;
    let mut names = BTreeSet::new();
    let sinks: Vec<Option<SinkConfig>> = raw
        .into_iter()
        .enumerate()
        .map(|(index, raw)| {
            let raw::Sink {
                name,
                required,
                webhook,
                queue,
                relay,
            } = raw;
            let at = at.index(index);
            let kinds = Kinds {
                webhook,
                queue,
                relay,
            };
            let (kind, to) = target(reader, &at, kinds)?;
            let fallback = match several {
                true => format!("{kind}-{index}"),
                false => kind.to_owned(),
            };
            let name = reader.name(&at, name.as_deref(), &fallback);
            let fresh = name.as_ref().is_none_or(|name| names.insert(name.clone()));
            if !fresh {
                let problem = "another receiver of this poller has the same name";
                let hint = "give each its own name";
                reader.faults.add(&at.key("name"), problem, hint);
            }
            Some(SinkConfig {
                name: name.filter(|_| fresh)?,
                required: required.unwrap_or(true),
                to: to?,
            })
        })
        .collect();
    sinks.into_iter().collect()
}

/// What may stand in a receiver; one of them must.
struct Kinds {
    webhook: Option<raw::Webhook>,
    queue: Option<raw::Queue>,
    relay: Option<raw::Relay>,
}

/// What kind of receiver it is, and the receiver where nothing is wrong with it.
fn target(
    reader: &mut Reader<'_>,
    at: &Place,
    kinds: Kinds,
) -> Option<(&'static str, Option<Target>)> {
    let Kinds {
        webhook,
        queue,
        relay,
    } = kinds;
    let written = [
        ("webhook", webhook.is_some()),
        ("queue", queue.is_some()),
        ("relay", relay.is_some()),
    ];
    let mut written = written.iter().filter(|(_, written)| *written);
    let first = written.next().map(|(kind, _)| *kind);
    if let (Some(first), Some((second, _))) = (first, written.next()) {
        let problem = format!("stands beside {first}, and a receiver is one of them");
        let hint = "make each a receiver of its own in deliver";
        reader.faults.add(&at.key(second), problem, hint);
        return None;
    }
    if let Some(raw) = webhook {
        let webhook = webhook::webhook(reader, &at.key("webhook"), raw);
        return Some(("webhook", webhook.map(Box::new).map(Target::Webhook)));
    }
    if let Some(raw) = queue {
        let queue = queue::queue(reader, &at.key("queue"), raw);
        return Some(("queue", queue.map(Target::Queue)));
    }
    if let Some(raw) = relay {
        let relay = relay::relay(reader, &at.key("relay"), raw);
        return Some(("relay", relay.map(Box::new).map(Target::Relay)));
    }
    let hint = "say where rows go, such as \"webhook\": { \"url\": \"%ORDERS_HOOK%\" } or \
                \"queue\": { \"queue\": \"order-events\" }";
    reader.faults.add(at, "names no receiver", hint);
    None
}
