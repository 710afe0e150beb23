//! One function.json, and the names that all of them share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::Value;

use super::bindings::{Bindings, Host};
use super::fan_out::Half;
use super::{Function, FunctionPollers, fan_out, read_json, retry, status};
use crate::config::fault::{Faults, Place};
use crate::config::parse::{self, Reader};
use crate::config::relay::{Candidate, Relays};
use crate::config::repeated::OnceOnly;
use crate::config::{Fault, MessageQueue, PollTrigger, Settings, raw, schema, shape};
use crate::schedule::Schedule;

const DEFAULT_PARALLEL: u32 = 4;

/// A function before its pollers' names are compared with those of the others.
pub(super) struct Loaded {
    pub(super) name: String,
    file: PathBuf,
    /// What it is to become once all functions are known.
    pub(super) fans_out: Option<Half>,
    /// Also those of broken pollers: a mended one must not surprise a good one.
    names: Vec<(String, Place)>,
    function: Function,
}

/// The directories under `root` that hold a function.json.
pub(super) fn directories(root: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.path().join("function.json").is_file() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    Ok(names)
}

/// A function.json that was read, and not yet parsed.
pub(super) struct Written {
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) faults: Faults,
    /// `None` without a fault: none of ours.
    pub(super) raw: Option<raw::FunctionFile>,
    /// Whether it has a `relay` block, however broken.
    pub(super) is_relay: bool,
    /// The same for `status`.
    pub(super) is_status: bool,
    /// The same for `fan_out`.
    pub(super) is_fan_out: bool,
}

pub(super) fn read(root: &Path, name: String) -> Written {
    let file = Path::new(&name).join("function.json");
    let mut faults = Faults::of(&file);
    let document = read_document(root, &file, &mut faults);
    let has = |key: &str| {
        let document = document.as_ref();
        document.is_some_and(|(_, document)| document.get(key).is_some())
    };
    let (is_relay, is_status, is_fan_out) = (has("relay"), has("status"), has("fan_out"));
    let raw = document.and_then(|(text, document)| shaped(&text, document, &mut faults));
    Written {
        name,
        file,
        faults,
        raw,
        is_relay,
        is_status,
        is_fan_out,
    }
}

/// `host_retry`: the policy of host.json.
pub(super) fn load(
    root: &Path,
    written: Written,
    host: &Host<'_>,
    host_retry: Option<&Value>,
    relays: &Relays,
) -> Loaded {
    let status = written.is_status.then(|| status::parse(&written, host));
    let fan_out = written
        .is_fan_out
        .then(|| fan_out::parse(&written, host.settings));
    let Written {
        name,
        file,
        mut faults,
        raw,
        is_relay: _,
        is_status: _,
        is_fan_out: _,
    } = written;
    let mut names = Vec::new();
    let mut fans_out = None;
    let function = match relays.get(&name) {
        _ if let Some(status) = status => match status {
            Ok(status) => Function::Status(status),
            Err(found) => Function::Faulty([faults.into_vec(), found].concat()),
        },
        _ if let Some(fan_out) = fan_out => match fan_out {
            Ok(half) => {
                fans_out = Some(half);
                Function::NotAPoller
            }
            Err(found) => Function::Faulty([faults.into_vec(), found].concat()),
        },
        Some(Candidate::Relay(relay)) => Function::Relay(relay.clone()),
        Some(Candidate::Faulty(found)) => {
            Function::Faulty([faults.into_vec(), found.clone()].concat())
        }
        Some(Candidate::NotARelay) | None => {
            let pollers = raw.and_then(|raw| {
                let mut reader = Reader {
                    settings: host.settings,
                    root,
                    relays,
                    faults: &mut faults,
                };
                parse_function(&mut reader, &name, raw, host_retry, &mut names)
            });
            match pollers {
                _ if !faults.is_empty() => Function::Faulty(faults.into_vec()),
                Some(pollers) => Function::Pollers(pollers),
                None => Function::NotAPoller,
            }
        }
    };
    Loaded {
        name,
        file,
        fans_out,
        names,
        function,
    }
}

/// Two pollers with one name would share one state document: every one of them is refused.
pub(super) fn settle_names(loaded: Vec<Loaded>) -> BTreeMap<String, Function> {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, at, file) in loaded
        .iter()
        .flat_map(|l| l.names.iter().map(|(name, at)| (name, at, &l.file)))
    {
        let owner = format!("{} {at}", file.display());
        owners.entry(name.clone()).or_default().push(owner);
    }
    loaded
        .into_iter()
        .map(|loaded| {
            let clashes = clashes(&loaded, &owners);
            let function = match loaded.function {
                function if clashes.is_empty() => function,
                Function::Faulty(faults) => Function::Faulty([faults, clashes].concat()),
                Function::Pollers(_)
                | Function::FanOut(_)
                | Function::Relay(_)
                | Function::Status(_)
                | Function::NotAPoller => Function::Faulty(clashes),
            };
            (loaded.name, function)
        })
        .collect()
}

fn clashes(loaded: &Loaded, owners: &BTreeMap<String, Vec<String>>) -> Vec<Fault> {
    let mut faults = Faults::of(&loaded.file);
    for (name, at) in &loaded.names {
        let own = format!("{} {at}", loaded.file.display());
        let others: Vec<&str> = owners
            .get(name)
            .into_iter()
            .flatten()
            .filter(|owner| **owner != own)
            .map(String::as_str)
            .collect();
        if !others.is_empty() {
            let problem = format!("another poller of the app has the same name: {name}");
            let hint = format!("give each its own name; see {}", others.join(", "));
            faults.add(&at.key("name"), problem, hint);
        }
    }
    faults.into_vec()
}

fn read_document(root: &Path, file: &Path, faults: &mut Faults) -> Option<(String, Value)> {
    let text = match fs::read_to_string(root.join(file)) {
        Ok(text) => text,
        Err(error) => {
            let problem = format!("cannot be read: {error}");
            faults.add(&Place::root(), problem, "it must be readable, and UTF-8");
            return None;
        }
    };
    let document = read_json(&text, faults)?;
    Some((text, document))
}

/// `None` without a fault: none of ours.
fn shaped(text: &str, document: Value, faults: &mut Faults) -> Option<raw::FunctionFile> {
    let is_poller = document.get("poller").is_some() || document.get("pollers").is_some();
    suspect_keys(&document, is_poller, faults);
    let others = ["relay", "status", "fan_out"];
    if !is_poller && others.iter().all(|key| document.get(key).is_none()) {
        return None;
    }
    read_json::<OnceOnly>(text, faults);
    shape::check(&document, &schema(), faults);
    match serde_json::from_value(document) {
        // With faults too: unknown keys must not hide what is wrong with the values of known ones.
        Ok(raw) => Some(raw),
        Err(_) if !faults.is_empty() => None,
        Err(error) => {
            let hint = "this is a difference between dbtick and its own schema: please report it";
            faults.add(&Place::root(), format!("is refused: {error}"), hint);
            None
        }
    }
}

/// The host tolerates any key beside its own, so a misspelt one would be ignored in silence.
fn suspect_keys(document: &Value, is_poller: bool, faults: &mut Faults) {
    let ours: &[&str] = if is_poller {
        &[
            "poller", "pollers", "parallel", "relay", "status", "fan_out",
        ]
    } else {
        &["poller", "pollers", "relay", "status", "fan_out"]
    };
    for key in document
        .as_object()
        .into_iter()
        .flat_map(|object| object.keys())
    {
        // The host's own word, and two letters away from relay.
        if ours.contains(&key.as_str()) || key == "retry" {
            continue;
        }
        let near = |name: &&&str| strsim::damerau_levenshtein(&key.to_lowercase(), name) <= 2;
        if let Some(meant) = ours.iter().find(near) {
            let hint = format!("did you mean {meant}?");
            faults.add(&Place::root().key(key), "is not a known key", hint);
        }
    }
}

fn parse_function(
    reader: &mut Reader<'_>,
    function: &str,
    raw: raw::FunctionFile,
    host_retry: Option<&Value>,
    names: &mut Vec<(String, Place)>,
) -> Option<FunctionPollers> {
    let raw::FunctionFile {
        bindings,
        retry: own_retry,
        poller,
        pollers,
        parallel,
        fan_out: _,
        relay: _,
        status: _,
    } = raw;
    let root = Place::root();
    let trigger = trigger(reader, &bindings);
    check_outputs(&bindings, reader.faults);
    let schedule = schedule(&bindings, reader.settings);
    let is_sharded = poller
        .as_ref()
        .is_some_and(|poller| poller.shards.is_some());
    if parallel.is_some() && pollers.is_none() && !is_sharded {
        let hint = "remove it, or write pollers or shards";
        let problem = "means nothing without pollers or shards";
        reader.faults.add(&root.key("parallel"), problem, hint);
    }
    let blocks: Vec<(Place, String, raw::Poller)> = match (poller, pollers) {
        (Some(_), Some(_)) => {
            let hint = "keep one of the two";
            reader
                .faults
                .add(&root.key("pollers"), "stands beside poller", hint);
            return None;
        }
        (Some(poller), None) => vec![(root.key("poller"), function.to_owned(), poller)],
        (None, pollers) => pollers
            .unwrap_or_default()
            .into_iter()
            .enumerate()
            .map(|(index, poller)| {
                let at = root.key("pollers").index(index);
                (at, format!("{function}-{index}"), poller)
            })
            .collect(),
    };
    let pollers: Vec<_> = blocks
        .into_iter()
        .map(|(at, fallback, mut block)| {
            let name = reader.name(&at, block.name.as_deref(), &fallback);
            names.extend(name.clone().map(|name| (name, at.clone())));
            let shards = block.shards.take();
            let whole = parse::poller(reader, &at, block, name)?;
            parse::shards(reader, &at, shards, whole)
        })
        .collect();
    let pollers: Option<Vec<Vec<_>>> = pollers.into_iter().collect();
    Some(FunctionPollers {
        name: function.to_owned(),
        pollers: pollers?.concat(),
        parallel: parallel.unwrap_or(DEFAULT_PARALLEL) as usize,
        trigger: trigger?,
        schedule,
        retry: retry::effective(own_retry.as_ref(), host_retry),
    })
}

/// The host says what is wrong with it; here it only tells how often ticks come.
pub(super) fn schedule(bindings: &[raw::Binding], settings: &Settings) -> Option<Schedule> {
    let text = bindings
        .iter()
        .find(|binding| binding.kind.eq_ignore_ascii_case("timerTrigger"))
        .and_then(|timer| timer.schedule.as_deref())?;
    Schedule::parse(&settings.resolve(text).ok()?).ok()
}

/// By a message, where there is a queueTrigger; else there must be a timer.
fn trigger(reader: &mut Reader<'_>, bindings: &[raw::Binding]) -> Option<PollTrigger> {
    let all = Bindings::of(bindings);
    let Some(placed) = all.all.iter().find(|placed| placed.is("queueTrigger")) else {
        check_timer(bindings, reader.faults);
        return Some(PollTrigger::Timer);
    };
    let (endpoint, queue) = parse::queue_trigger(reader, &placed.at, placed.binding)?;
    Some(PollTrigger::Queue {
        binding: placed.named(reader.faults)?,
        queue: MessageQueue { endpoint, queue },
    })
}

pub(super) fn check_timer(bindings: &[raw::Binding], faults: &mut Faults) {
    let at = Place::root().key("bindings");
    if !bindings
        .iter()
        .any(|binding| binding.kind.eq_ignore_ascii_case("timerTrigger"))
    {
        faults.add(
            &at,
            "has no timerTrigger, and a poller runs on a timer",
            "add { \"type\": \"timerTrigger\", \"direction\": \"in\", \"name\": \"tick\", \
             \"schedule\": \"*/15 * * * * *\" }",
        );
    }
}

pub(super) fn check_outputs(bindings: &[raw::Binding], faults: &mut Faults) {
    let at = Place::root().key("bindings");
    for (index, binding) in bindings.iter().enumerate() {
        let direction = binding.direction.as_deref().unwrap_or("in");
        if !direction.eq_ignore_ascii_case("in") {
            faults.add(
                &at.index(index),
                "is an output, which the host writes after our answer without telling us whether \
                 it worked, so a batch could be lost",
                "deliver to a webhook, or through a relay: an HTTP function of this app that carries the \
                 binding (docs/relay.md)",
            );
        }
    }
}
