//! The functions that show pollers to people.
//!
//! Whoever may call one sees keys of rows, and can stop pollers and discard rows: it is not for
//! everybody, even where it only shows (S9).

use super::bindings::{Bindings, Host, Placed, below, is_function_name};
use super::function::Written;
use crate::config::fault::{Faults, Place};
use crate::config::{Fault, StatusFunction, raw};

const EXAMPLE: &str =
    "write one plain part or several and then all that follows, such as dbtick/{*path}";

pub(super) fn parse(written: &Written, host: &Host<'_>) -> Result<StatusFunction, Vec<Fault>> {
    let mut faults = Faults::of(&written.file);
    let raw = written.raw.as_ref();
    let parsed = raw.and_then(|raw| read(&written.name, raw, host, &mut faults));
    match parsed {
        Some(status) if faults.is_empty() && written.faults.is_empty() => Ok(status),
        _ => Err(faults.into_vec()),
    }
}

fn read(
    name: &str,
    raw: &raw::FunctionFile,
    host: &Host<'_>,
    faults: &mut Faults,
) -> Option<StatusFunction> {
    let root = Place::root();
    for (key, is_there) in [
        ("poller", raw.poller.is_some()),
        ("pollers", raw.pollers.is_some()),
        ("relay", raw.relay.is_some()),
    ] {
        if is_there {
            let hint = "give the status function a directory of its own";
            faults.add(&root.key(key), "stands beside status", hint);
            return None;
        }
    }
    if !is_function_name(name) {
        let problem = format!("is not the name of a function: {name}");
        let hint =
            "name the directory by a letter, then letters, digits, _ or -, at most 128, not host";
        faults.add(&root, problem, hint);
    }
    if raw.retry.is_some() {
        let problem = "would have the host do again what a person asked for once";
        faults.add(&root.key("retry"), problem, "remove it");
    }
    let actions = raw.status.as_ref()?.actions.unwrap_or(true);
    let bindings = Bindings::of(&raw.bindings);
    for placed in bindings.outputs().filter(|placed| !placed.is("http")) {
        let hint = "remove it: a status function only answers";
        faults.add(&placed.at, "is an output that nothing is written to", hint);
    }
    let response = bindings.response(faults);
    let Some(trigger) = bindings.all.iter().find(|placed| placed.is("httpTrigger")) else {
        faults.add(
            &bindings.at,
            "has no httpTrigger, and a status function is asked over HTTP",
            "add { \"type\": \"httpTrigger\", \"direction\": \"in\", \"name\": \"req\", \
             \"authLevel\": \"function\", \"methods\": [\"get\", \"post\"], \
             \"route\": \"dbtick/{*path}\" }",
        );
        return None;
    };
    check_methods(trigger, actions, faults);
    check_level(trigger, faults);
    let route = route(trigger, faults);
    Some(StatusFunction {
        name: name.to_owned(),
        path: below(&host.route_prefix(), &route?),
        request: trigger.named(faults)?,
        response: response?.named(faults)?,
        actions,
        signs_in: host.settings.is_on("WEBSITE_AUTH_ENABLED"),
    })
}

fn check_methods(trigger: &Placed<'_>, actions: bool, faults: &mut Faults) {
    let Some(methods) = &trigger.binding.methods else {
        return;
    };
    let needed: &[&str] = if actions { &["get", "post"] } else { &["get"] };
    for method in needed {
        if !methods
            .iter()
            .any(|known| known.eq_ignore_ascii_case(method))
        {
            let at = trigger.at.key("methods");
            let hint = match actions {
                true => "write [\"get\", \"post\"]; or \"actions\": false in status, and [\"get\"]",
                false => "write [\"get\"]",
            };
            faults.add(&at, format!("does not hold {method}"), hint);
        }
    }
}

/// Keys and places of rows are on every page, and an error may quote more.
fn check_level(trigger: &Placed<'_>, faults: &mut Faults) {
    let at = trigger.at.key("authLevel");
    let level = trigger.binding.auth_level.as_deref().unwrap_or("function");
    match level.to_ascii_lowercase().as_str() {
        "function" | "admin" => {}
        "anonymous" => faults.add(
            &at,
            "lets everybody who knows the address see keys of rows and errors, and act where it may",
            "write function, and give whoever may look a key of it",
        ),
        _ => {
            let problem = format!("is not a level: {level}");
            faults.add(&at, problem, "write function");
        }
    }
}

/// The plain part. The catch-all is what makes everything below it ours.
fn route(trigger: &Placed<'_>, faults: &mut Faults) -> Option<String> {
    let at = trigger.at.key("route");
    let Some(route) = trigger.binding.route.as_deref() else {
        faults.add(&at, "is missing, and pages lie below it", EXAMPLE);
        return None;
    };
    let segment = |text: &str| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        !text.is_empty() && !matches!(text, "." | "..") && text.bytes().all(legal)
    };
    let plain = route
        .trim_matches('/')
        .strip_suffix('}')
        .and_then(|route| route.rsplit_once("/{*"))
        .filter(|(plain, name)| {
            let named = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            !name.is_empty() && named && plain.split('/').all(segment)
        });
    let Some((plain, _)) = plain else {
        faults.add(&at, format!("is not such a route: {route}"), EXAMPLE);
        return None;
    };
    Some(plain.to_owned())
}
