//! A Functions app as it lies on disk: its pollers, its name, its time budget.
//!
//! Loading never fails as a whole. A broken function keeps its faults and hides no good one.

mod bindings;
mod fan_out;
mod function;
mod identity;
mod in_flight;
mod relay;
mod retry;
mod status;
mod timeout;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::fault::{Fault, Faults, Place};
use super::{FanOutFunction, PollTrigger, Poller, RelayFunction, Settings, StatusFunction};
use crate::schedule::Schedule;
use identity::Identity;
pub use retry::HostRetry;

/// Everything there is to know before the first tick.
#[derive(Debug)]
pub struct App {
    /// `{app}` in state paths; lower-case letters, digits, `-` and `_`.
    pub name: String,
    /// Canonical, if it exists.
    pub root: PathBuf,
    /// `None`: the host lets a function run for ever.
    pub function_timeout: Option<Duration>,
    /// What the batches of all ticks at work may weigh together, in bytes.
    pub in_flight: u64,
    /// By the name of their directory.
    pub functions: BTreeMap<String, Function>,
    /// Whether the host has bindings besides timers and HTTP: by an extension bundle, or compiled in.
    pub has_extensions: bool,
    identity: Identity,
    /// Of host.json and of the app root.
    faults: Vec<Fault>,
}

/// What a directory with a function.json turned out to be.
#[derive(Debug)]
pub enum Function {
    Pollers(FunctionPollers),
    FanOut(FanOutFunction),
    Relay(RelayFunction),
    Status(StatusFunction),
    /// Meant to be one of these, and wrong.
    Faulty(Vec<Fault>),
    NotAPoller,
}

/// What a function ticks.
#[derive(Debug)]
pub struct FunctionPollers {
    pub name: String,
    /// At least one.
    pub pollers: Vec<Poller>,
    /// How many of them tick at the same time.
    pub parallel: usize,
    pub trigger: PollTrigger,
    /// When it ticks, as far as that can be read here.
    pub schedule: Option<Schedule>,
    /// How the host repeats a failed tick by a policy of its own.
    pub retry: Option<HostRetry>,
}

impl App {
    /// Reads host.json and every `<directory>/function.json` under `root`.
    #[must_use]
    pub fn load(root: &Path, settings: &Settings) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let mut faults = Faults::of(Path::new("host.json"));
        let host = read_host(&root, &mut faults);
        let function_timeout = timeout::function_timeout(&host, settings, &mut faults);
        let in_flight = in_flight::in_flight(settings, &mut faults);
        let retry = host.get("retry");
        let loaded: Vec<_> = match function::directories(&root) {
            Ok(names) => {
                let written: Vec<_> = names
                    .into_iter()
                    .map(|name| function::read(&root, name))
                    .collect();
                let host = bindings::Host {
                    json: &host,
                    settings,
                };
                let relays = relay::all(&written, &host);
                written
                    .into_iter()
                    .map(|written| function::load(&root, written, &host, retry, &relays))
                    .collect()
            }
            Err(error) => {
                let problem = format!("the app root cannot be read: {error}");
                faults.add(
                    &Place::root(),
                    problem,
                    "check the path and its permissions",
                );
                Vec::new()
            }
        };
        let identity = Identity::of(&root, settings);
        let halves = fan_out::halves(&loaded);
        let mut functions = function::settle_names(loaded);
        fan_out::connect(&mut functions, halves);
        Self {
            name: identity.app.clone(),
            has_extensions: host.get("extensionBundle").is_some()
                || root.join("bin/extensions.json").is_file(),
            root,
            function_timeout,
            in_flight,
            functions,
            identity,
            faults: faults.into_vec(),
        }
    }

    /// By its exact name, as the host calls it.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    /// The pollers of every good function.
    pub fn pollers(&self) -> impl Iterator<Item = &Poller> {
        self.functions.values().flat_map(|function| match function {
            Function::Pollers(function) => function.pollers.as_slice(),
            Function::FanOut(_)
            | Function::Relay(_)
            | Function::Status(_)
            | Function::Faulty(_)
            | Function::NotAPoller => &[],
        })
    }

    /// What is wrong with the app as a whole: host.json, or a root that cannot be read.
    #[must_use]
    pub fn own_faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Everything that is wrong anywhere in the app.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        let functions = self.functions.values().flat_map(|function| match function {
            Function::Faulty(faults) => faults.as_slice(),
            Function::Pollers(_)
            | Function::FanOut(_)
            | Function::Relay(_)
            | Function::Status(_)
            | Function::NotAPoller => &[],
        });
        self.faults.iter().chain(functions)
    }

    /// The name of the deployment slot in which pollers must not run.
    #[must_use]
    pub fn off_in_slot(&self) -> Option<&str> {
        self.identity.off_in_slot.as_deref()
    }

    /// `{site}/{instance}/{worker id}`: who holds a lease, but for the nonce of the claim.
    #[must_use]
    pub fn owner_prefix(&self) -> String {
        self.identity.owner_prefix()
    }
}

/// Containers elsewhere have a `CONTAINER_NAME` too; on Azure the site's name stands beside it.
pub(super) fn on_azure(settings: &Settings) -> bool {
    settings.filled("WEBSITE_INSTANCE_ID").is_some()
        || (settings.filled("WEBSITE_SITE_NAME").is_some()
            && identity::instance(settings).is_some())
}

/// host.json, or an empty object: without the file every default of the host holds.
fn read_host(root: &Path, faults: &mut Faults) -> Value {
    match std::fs::read_to_string(root.join("host.json")) {
        Ok(text) => read_json(&text, faults).unwrap_or_default(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Value::Null,
        Err(error) => {
            let problem = format!("cannot be read: {error}");
            faults.add(&Place::root(), problem, "check its permissions");
            Value::Null
        }
    }
}

/// Editors on Windows put a byte order mark first; the host reads over it, and so do we.
fn read_json<T: DeserializeOwned>(text: &str, faults: &mut Faults) -> Option<T> {
    match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
        Ok(value) => Some(value),
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let text = error.to_string();
            let reason = text.split(" at line ").next().unwrap_or("malformed");
            let problem = format!("is not sound JSON, at line {line} column {column}: {reason}");
            faults.add(&Place::root(), problem, "mend the file at that place");
            None
        }
    }
}
