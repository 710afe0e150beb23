//! The way to an output binding: a sink that posts, and the function of the same app that it posts to.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderValue;

use super::Fault;

/// An HTTP function that hands what it is posted to an output binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayFunction {
    pub name: String,
    /// Below the address of the app: route prefix and route, without slashes around it.
    pub path: String,
    /// The names of its bindings: what comes in, what answers, and where messages go.
    pub request: String,
    pub response: String,
    pub output: String,
    /// The type of the output, as it is written: `queue`.
    pub kind: String,
    /// The most bytes that a message may have, where the binding is known to have a limit.
    pub largest_message: Option<usize>,
}

/// A relay as a poller uses it.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    pub function: RelayFunction,
    /// Where this app is, as the host says; `None` where no host has said so.
    pub app: Option<Url>,
    /// Marked as sensitive.
    pub key: HeaderValue,
    /// How the key is written, for whoever must mend it: `%NAME%`.
    pub key_name: String,
    /// From connect to the last byte of the answer.
    pub timeout: Duration,
}

/// What a function of the app is to a poller that names it as a relay.
#[derive(Debug)]
pub(super) enum Candidate {
    Relay(RelayFunction),
    Faulty(Vec<Fault>),
    NotARelay,
}

/// Every function of the app, by name.
pub(super) type Relays = BTreeMap<String, Candidate>;

impl RelayConfig {
    /// The front end of Azure ends every request after it.
    pub(super) const LONGEST_TIMEOUT: Duration = Duration::from_secs(230);
    pub(super) const TIMEOUT: Duration = Duration::from_secs(100);
}
