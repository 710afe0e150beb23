//! The body of an invocation, `{"Data":{…},"Metadata":{…}}`, byte for byte as the host writes it:
//! compact, PascalCase, members in the host's order, strings in `Metadata` encoded twice.

use chrono::{DateTime, Utc};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::app::Function;

/// What the trigger tells the function.
#[derive(Debug, Clone)]
pub(super) struct TriggerData {
    /// `Data.<binding>`.
    pub(super) data: Box<RawValue>,
    /// `Metadata` beside `sys`.
    pub(super) metadata: Members,
}

impl TriggerData {
    pub(super) fn new(data: &Members) -> TriggerData {
        let data = to_raw_value(data).unwrap_or_else(|_| RawValue::NULL.to_owned());
        TriggerData {
            data,
            metadata: Members::default(),
        }
    }
}

/// What differs between the attempts of one invocation.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    pub(super) now: DateTime<Utc>,
    pub(super) guid: String,
    pub(super) retry: Option<RetryContext<'a>>,
}

/// `Metadata.RetryContext`.
#[derive(Debug)]
pub(super) struct RetryContext<'a> {
    pub(super) count: u32,
    pub(super) max: i32,
    pub(super) error: Option<&'a str>,
}

/// JSON members in a given order.
#[derive(Debug, Clone, Default)]
pub(super) struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    pub(super) fn push(&mut self, name: impl Into<String>, value: &impl Serialize) {
        let value = to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        self.0.push((name.into(), value));
    }

    pub(super) fn with(mut self, name: impl Into<String>, value: &impl Serialize) -> Members {
        self.push(name, value);
        self
    }

    /// A text of `Metadata`: JSON inside a JSON string.
    pub(super) fn push_text(&mut self, name: impl Into<String>, text: &str) {
        self.push(name, &serde_json::Value::from(text).to_string());
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The bytes to post.
pub(super) fn body(function: &Function, trigger: &TriggerData, attempt: &Attempt<'_>) -> String {
    let sys = Members::default()
        .with("MethodName", &function.name)
        .with("UtcNow", &format!("{}Z", dotnet_time(attempt.now)))
        .with("RandGuid", &attempt.guid);
    let mut metadata = trigger.metadata.clone().with("sys", &sys);
    if let Some(retry) = &attempt.retry {
        metadata.push("RetryContext", &retry.members());
    }
    let body = Members::default()
        .with(
            "Data",
            &Members::default().with(&function.binding, &trigger.data),
        )
        .with("Metadata", &metadata);
    to_raw_value(&body)
        .map(|raw| raw.get().to_owned())
        .unwrap_or_default()
}

impl RetryContext<'_> {
    fn members(&self) -> Members {
        let exception = self.error.map(|message| {
            Members::default()
                .with("ClassName", &"System.Exception")
                .with("Message", &message)
        });
        Members::default()
            .with("RetryCount", &self.count)
            .with("MaxRetryCount", &self.max)
            .with("Exception", &exception)
            .with("Instance", &())
            .with("State", &Members::default())
    }
}

/// Json.NET's form: a fraction of up to seven digits, without trailing zeros, and no zone.
pub(super) fn dotnet_time(time: DateTime<Utc>) -> String {
    let ticks = time.timestamp_subsec_nanos() / 100;
    let fraction = format!(".{ticks:07}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{}{fraction}", time.format("%Y-%m-%dT%H:%M:%S"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_drop_trailing_zeros() {
        for (time, expected) in [
            ("2026-11-16T10:20:00Z", "2026-11-16T10:20:00"),
            (
                "2026-11-16T10:20:00.0123456Z",
                "2026-11-16T10:20:00.0123456",
            ),
            ("2026-11-16T10:20:00.5Z", "2026-11-16T10:20:00.5"),
        ] {
            assert_eq!(dotnet_time(time.parse().unwrap()), expected);
        }
    }
}
