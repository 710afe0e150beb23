//! The host's wire types. What it sends is read leniently: its own documentation and its code
//! disagree about values, and a tick needs none of them.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::model::plain::is_obeyed;
use crate::model::trace::TraceParent;
use crate::telemetry::{self, Cause};

const INVOCATION_ID: &str = "x-azure-functions-invocationid";
const TRACEPARENT: &str = "traceparent";

/// What a tick uses of an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invocation {
    pub(super) id: String,
    pub(super) past_due: bool,
    /// How often the host has repeated it by a retry policy of its own (D10).
    pub(super) host_retry: u32,
    /// .NET sends it when the host itself is traced.
    pub(super) trace: Option<TraceParent>,
}

#[derive(Debug, thiserror::Error)]
#[error("the body is not an invocation of the Functions host: {0}")]
pub(super) struct NotAnInvocation(#[from] serde_json::Error);

/// Answers the host understands: always JSON, always an object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Answer {
    outputs: Map<String, Value>,
    logs: Vec<String>,
    return_value: Option<Value>,
    #[serde(skip)]
    status: StatusCode,
}

impl Invocation {
    pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Result<Self, NotAnInvocation> {
        let mut envelope: Map<String, Value> = serde_json::from_slice(body)?;
        let data: Map<String, Value> = match envelope.remove("Data") {
            Some(data) => serde_json::from_value(data)?,
            None => Map::new(),
        };
        Ok(Self {
            id: invocation_id(headers),
            past_due: data.values().any(is_past_due),
            host_retry: envelope.get("Metadata").and_then(host_retry).unwrap_or(0),
            trace: trace(headers),
        })
    }

    pub(super) fn cause(&self) -> Cause<'_> {
        Cause {
            invocation_id: &self.id,
            past_due: self.past_due,
            host_retry: self.host_retry,
            trace_id: self.trace.map(TraceParent::trace_id),
        }
    }
}

/// For the log, whatever the body holds.
pub(super) fn invocation_id(headers: &HeaderMap) -> String {
    let id = headers
        .get(INVOCATION_ID)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("unknown");
    id.chars().filter(|c| !is_obeyed(*c)).take(64).collect()
}

fn is_past_due(timer: &Value) -> bool {
    member(timer, "IsPastDue") == Some(Value::Bool(true))
}

fn host_retry(metadata: &Value) -> Option<u32> {
    let count = member(&member(metadata, "RetryContext")?, "RetryCount")?;
    u32::try_from(count.as_u64()?).ok()
}

fn member(object: &Value, name: &str) -> Option<Value> {
    unquoted(object).get(name).map(unquoted)
}

/// Values arrive as JSON, or as JSON inside a string.
pub(super) fn unquoted(value: &Value) -> Value {
    match value {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        other => other.clone(),
    }
}

/// Two of them are none: nobody knows which one is right.
fn trace(headers: &HeaderMap) -> Option<TraceParent> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let trace = TraceParent::parse(values.next()?.to_str().ok()?);
    trace.filter(|_| values.next().is_none())
}

impl Answer {
    pub(super) fn ok(logs: Vec<String>) -> Self {
        Self::with(StatusCode::OK, logs)
    }

    /// The host discards this body; it is for people with curl. The story is in the log already.
    pub(super) fn failed(status: StatusCode, logs: Vec<String>) -> Self {
        Self::with(status, logs)
    }

    /// The host is told that all is done, whatever came of it.
    pub(super) fn even_if_failed(self) -> Self {
        Self {
            status: StatusCode::OK,
            ..self
        }
    }

    /// Said in the log, too.
    pub(super) fn refused(
        function: &str,
        headers: &HeaderMap,
        status: StatusCode,
        problem: &str,
    ) -> Self {
        let problems = vec![format!("{function}: {problem}")];
        telemetry::refused(function, &invocation_id(headers), &problems);
        Self::failed(status, problems)
    }

    /// `binding`: in which the request should have been.
    pub(super) fn without_request(function: &str, headers: &HeaderMap, binding: &str) -> Self {
        let problem = format!(
            "the body is not an invocation of the Functions host with an HTTP request in {binding}"
        );
        Self::refused(function, headers, StatusCode::BAD_REQUEST, &problem)
    }

    /// By the names of the function's bindings.
    pub(super) fn with_outputs(
        mut self,
        outputs: impl IntoIterator<Item = (String, Value)>,
    ) -> Self {
        self.outputs = outputs.into_iter().collect();
        self
    }

    fn with(status: StatusCode, logs: Vec<String>) -> Self {
        Self {
            outputs: Map::new(),
            logs,
            return_value: None,
            status,
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).expect("an answer of strings is representable");
        (
            self.status,
            [(header::CONTENT_TYPE, "application/json")],
            body,
        )
            .into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_the_host_sends_is_understood() {
        let timer = r#"{"Schedule":{"AdjustForDST":true},"ScheduleStatus":null,"IsPastDue":true}"#;
        let quoted = Value::from(timer).to_string();
        for (body, past_due) in [
            ("{}".to_owned(), false),
            (r#"{"Data":{},"Metadata":{}}"#.to_owned(), false),
            (format!(r#"{{"Data":{{"tick":{timer}}}}}"#), true),
            (
                format!(r#"{{"Data":{{"tick":{quoted}}},"Metadata":{{"sys":1}}}}"#),
                true,
            ),
            (r#"{"Data":{"tick":"5"}}"#.to_owned(), false),
        ] {
            let invocation = Invocation::read(&HeaderMap::new(), body.as_bytes()).unwrap();
            assert_eq!(invocation.past_due, past_due, "{body}");
        }
        for body in ["", "null", "[]", "{", r#"{"Data":5}"#] {
            assert!(
                Invocation::read(&HeaderMap::new(), body.as_bytes()).is_err(),
                "{body}"
            );
        }
    }

    #[test]
    fn a_retry_of_the_host_is_noticed_in_any_form() {
        let context = r#"{"RetryCount":2,"MaxRetryCount":3,"Exception":null,"State":{}}"#;
        let quoted = Value::from(context).to_string();
        for (metadata, expected) in [
            ("{}", 0),
            ("null", 0),
            ("5", 0),
            (r#"{"RetryContext":null}"#, 0),
            (r#"{"RetryContext":{}}"#, 0),
            (r#"{"RetryContext":{"RetryCount":0}}"#, 0),
            (r#"{"RetryContext":{"RetryCount":-1}}"#, 0),
            (r#"{"RetryContext":{"RetryCount":"many"}}"#, 0),
            (r#"{"RetryContext":{"RetryCount":99999999999}}"#, 0),
            (r#"{"RetryContext":{"RetryCount":"7"}}"#, 7),
            (&format!(r#"{{"sys":{{}},"RetryContext":{context}}}"#), 2),
            (&format!(r#"{{"RetryContext":{quoted}}}"#), 2),
        ] {
            let body = format!(r#"{{"Data":{{}},"Metadata":{metadata}}}"#);
            let invocation = Invocation::read(&HeaderMap::new(), body.as_bytes()).unwrap();
            assert_eq!(invocation.host_retry, expected, "{body}");
        }
        let without = Invocation::read(&HeaderMap::new(), b"{}").unwrap();
        assert_eq!(without.host_retry, 0);
    }

    #[test]
    fn a_trace_is_taken_from_the_one_header_that_is_right() {
        let one = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let other = "00-0af7651916cd43dd8448eb211c80319d-b7ad6b7169203331-01";
        for (values, expected) in [
            (&[][..], None),
            (&[one], Some(one)),
            (&["nonsense"], None),
            (&[one, other], None),
            (&["nonsense", one], None),
        ] {
            let name = header::HeaderName::from_static(TRACEPARENT);
            let headers: HeaderMap = values
                .iter()
                .map(|value| (name.clone(), value.parse().unwrap()))
                .collect();
            let invocation = Invocation::read(&headers, b"{}").unwrap();
            let trace = invocation.trace.map(|trace| trace.to_string());
            assert_eq!(trace.as_deref(), expected, "{values:?}");
        }
    }

    #[test]
    fn an_answer_is_what_the_host_parses() {
        let answer = Answer::ok(vec!["done".to_owned()]);
        let body = serde_json::to_string(&answer).unwrap();
        assert_eq!(body, r#"{"Outputs":{},"Logs":["done"],"ReturnValue":null}"#);
    }
}
