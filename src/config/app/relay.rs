//! The functions that carry an output binding for pollers.
//!
//! Everything that would make the host not find such a function, not write what it is given, or
//! change it on the way, is a fault here: a poller only sees answers.

use super::bindings::{Bindings, Host, Placed, below, is_function_name};
use super::function::Written;
use crate::azure::queue::LARGEST_MESSAGE;
use crate::config::fault::{Faults, Place};
use crate::config::relay::{Candidate, Relays};
use crate::config::{RelayFunction, raw};

/// Base64 takes a quarter of what is stored.
const LARGEST_IN_BASE64: usize = LARGEST_MESSAGE / 4 * 3;

/// What each function of the app is to a poller that names it.
pub(super) fn all(written: &[Written], host: &Host<'_>) -> Relays {
    let candidates = written.iter().map(|written| {
        let candidate = match written.is_relay {
            true => candidate(written, host),
            false => Candidate::NotARelay,
        };
        (written.name.clone(), candidate)
    });
    candidates.collect()
}

fn candidate(written: &Written, host: &Host<'_>) -> Candidate {
    let mut faults = Faults::of(&written.file);
    let raw = written.raw.as_ref();
    let relay = raw.and_then(|raw| parse(&written.name, raw, host, &mut faults));
    match relay {
        Some(relay) if faults.is_empty() && written.faults.is_empty() => Candidate::Relay(relay),
        _ => Candidate::Faulty(faults.into_vec()),
    }
}

fn parse(
    name: &str,
    raw: &raw::FunctionFile,
    host: &Host<'_>,
    faults: &mut Faults,
) -> Option<RelayFunction> {
    let root = Place::root();
    if raw.poller.is_some() || raw.pollers.is_some() {
        let problem = "stands beside a poller, which runs on a timer";
        faults.add(
            &root.key("relay"),
            problem,
            "give the relay a directory of its own",
        );
        return None;
    }
    if !is_function_name(name) {
        let problem = format!("is not the name of a function: {name}");
        let hint =
            "name the directory by a letter, then letters, digits, _ or -, at most 128, not host";
        faults.add(&root, problem, hint);
    }
    if raw.retry.is_some() {
        let problem =
            "would write messages again that were written, for a poller that tries again anyway";
        faults.add(&root.key("retry"), problem, "remove it");
    }
    let bindings = Bindings::of(&raw.bindings);
    let trigger = bindings.trigger(faults);
    let response = bindings.response(faults);
    let wanted = raw.relay.as_ref().and_then(|relay| relay.output.as_deref());
    let output = bindings.output(wanted, faults);
    let (request, route) = trigger.and_then(|trigger| {
        let route = trigger.route(name, faults);
        Some((trigger.named(faults)?, route?))
    })?;
    let (response, output) = (response?, output?);
    output.check_data_type(faults);
    let kind = output.binding.kind.clone();
    Some(RelayFunction {
        name: name.to_owned(),
        path: below(&host.route_prefix(), &route),
        request,
        response: response.named(faults)?,
        output: output.named(faults)?,
        largest_message: kind
            .eq_ignore_ascii_case("queue")
            .then(|| host.largest_message()),
        kind,
    })
}

impl<'a> Bindings<'a> {
    fn trigger(&self, faults: &mut Faults) -> Option<&Placed<'a>> {
        let trigger = self.all.iter().find(|placed| placed.is("httpTrigger"));
        let Some(trigger) = trigger else {
            faults.add(
                &self.at,
                "has no httpTrigger, and a relay is posted to",
                "add { \"type\": \"httpTrigger\", \"direction\": \"in\", \"name\": \"req\", \
                 \"authLevel\": \"function\", \"methods\": [\"post\"] }",
            );
            return None;
        };
        let methods = trigger.binding.methods.as_ref();
        if methods.is_some_and(|all| !all.iter().any(|method| method.eq_ignore_ascii_case("post")))
        {
            let at = trigger.at.key("methods");
            faults.add(&at, "does not hold post", "write [\"post\"]");
        }
        let problem = match trigger.binding.auth_level.as_deref() {
            None => return Some(trigger),
            Some(level) if level.eq_ignore_ascii_case("function") => return Some(trigger),
            Some(level) if level.eq_ignore_ascii_case("anonymous") => {
                "lets everybody write messages who knows the address".to_owned()
            }
            Some(level) if level.eq_ignore_ascii_case("admin") => {
                "wants the master key of the app, which opens more than a relay".to_owned()
            }
            Some(level) => format!("is not a level: {level}"),
        };
        faults.add(&trigger.at.key("authLevel"), problem, "write function");
        Some(trigger)
    }

    fn output(&self, wanted: Option<&str>, faults: &mut Faults) -> Option<&Placed<'a>> {
        let others: Vec<_> = self.outputs().filter(|placed| !placed.is("http")).collect();
        let names: Vec<_> = others.iter().filter_map(|placed| placed.name()).collect();
        let at = Place::root().key("relay").key("output");
        match (others.as_slice(), wanted) {
            ([], _) => {
                faults.add(
                    &self.at,
                    "has no output besides the answer, so that messages would go nowhere",
                    "add the binding that they go to, such as { \"type\": \"queue\", \"direction\": \
                     \"out\", \"name\": \"messages\", \"queueName\": \"orders\", \"connection\": \
                     \"AzureWebJobsStorage\" }",
                );
                None
            }
            ([only], None) => Some(*only),
            (_, None) => {
                let hint = format!("write one of: {}", names.join(", "));
                faults.add(&at, "is missing, and there are several outputs", hint);
                None
            }
            (_, Some(wanted)) => {
                let found = others.iter().find(|placed| placed.name() == Some(wanted));
                if found.is_none() {
                    let hint = format!("write one of: {}", names.join(", "));
                    faults.add(
                        &at,
                        format!("is not an output of the function: {wanted}"),
                        hint,
                    );
                }
                found.copied()
            }
        }
    }
}

impl Placed<'_> {
    /// The name of the function unless told.
    fn route(&self, function: &str, faults: &mut Faults) -> Option<String> {
        let route = self.binding.route.as_deref().unwrap_or(function);
        let segment = |text: &str| {
            !text.is_empty()
                && !matches!(text, "." | "..")
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))
        };
        let route = route.trim_matches('/');
        if route.split('/').all(segment) {
            return Some(route.to_owned());
        }
        let problem = format!("is not a plain route: {route}");
        let hint = "a relay has no parameters: use letters, digits, -, _, . and /";
        faults.add(&self.at.key("route"), problem, hint);
        None
    }

    fn check_data_type(&self, faults: &mut Faults) {
        let kind = self.binding.data_type.as_deref();
        if kind.is_some_and(|kind| kind.eq_ignore_ascii_case("binary")) {
            let problem = "would have the host take text for bytes";
            let at = self.at.key("dataType");
            faults.add(&at, problem, "remove it: messages are text");
        }
    }
}

impl Host<'_> {
    fn largest_message(&self) -> usize {
        let encoding = self.text("/extensions/queues/messageEncoding");
        match encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("none")) {
            true => LARGEST_MESSAGE,
            false => LARGEST_IN_BASE64,
        }
    }
}
