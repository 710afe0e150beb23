//! What somebody meant who wrote a key that does not exist.

use serde_json::{Map, Value};

use crate::config::fault::{Faults, Place};

/// Where the design goes and this version does not: (object, key).
const NOT_YET: [(&str, &str); 7] = [
    ("poller", "envelope"),
    ("poller", "history"),
    ("deliver", "envelope"),
    ("webhook", "format"),
    ("state", "history"),
    ("lease", "missed"),
    ("lease", "missed_heartbeats"),
];

pub(super) fn unknown_key(
    key: &str,
    known: &Map<String, Value>,
    object: &Place,
    faults: &mut Faults,
) {
    let at = object.key(key);
    let owner = match object.owner() {
        "pollers" => "poller",
        owner => owner,
    };
    if NOT_YET.contains(&(owner, key)) {
        return faults.add(&at, "is not available in this version", "remove the key");
    }
    let hint = match nearest(key, known.keys()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => {
            let all: Vec<&str> = known.keys().map(String::as_str).collect();
            format!("the keys here are: {}", all.join(", "))
        }
    };
    faults.add(&at, "is not a known key", hint);
}

/// The name that looks most like `key`, if one looks like it at all.
fn nearest<'a>(key: &str, names: impl IntoIterator<Item = &'a String>) -> Option<&'a str> {
    const ALIKE: f64 = 0.8;
    let plain = key.to_lowercase().replace('-', "_");
    names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&plain, name), name))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, name)| name.as_str())
}
