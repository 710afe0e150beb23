//! Who receives the rows.

use std::collections::BTreeSet;

use super::{Reader, relay, webhook};
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
                relay,
            } = raw;
            let at = at.index(index);
            let (kind, to) = target(reader, &at, webhook, relay)?;
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

/// What kind of receiver it is, and the receiver where nothing is wrong with it.
fn target(
    reader: &mut Reader<'_>,
    at: &Place,
    webhook: Option<raw::Webhook>,
    relay: Option<raw::Relay>,
) -> Option<(&'static str, Option<Target>)> {
    match (webhook, relay) {
        (Some(raw), None) => {
            let webhook = webhook::webhook(reader, &at.key("webhook"), raw);
            Some(("webhook", webhook.map(Target::Webhook)))
        }
        (None, Some(raw)) => {
            let relay = relay::relay(reader, &at.key("relay"), raw);
            Some(("relay", relay.map(Target::Relay)))
        }
        (Some(_), Some(_)) => {
            let hint = "keep one of the two: each receiver has its own place in deliver";
            reader
                .faults
                .add(&at.key("relay"), "stands beside webhook", hint);
            None
        }
        (None, None) => {
            let hint = "say where rows go, such as \"webhook\": { \"url\": \"%ORDERS_HOOK%\" }";
            reader.faults.add(&at.key("webhook"), "is missing", hint);
            None
        }
    }
}
