//! The host's wire types. What it sends is read leniently: its own documentation and its code
//! disagree about values, and a tick needs none of them.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};

const INVOCATION_ID: &str = "x-azure-functions-invocationid";

/// What a tick uses of an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invocation {
    pub(super) id: String,
    pub(super) past_due: bool,
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
        })
    }
}

/// For the log, whatever the body holds.
pub(super) fn invocation_id(headers: &HeaderMap) -> String {
    let id = headers
        .get(INVOCATION_ID)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("unknown");
    id.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// Values arrive as JSON, or as JSON inside a string.
fn is_past_due(value: &Value) -> bool {
    match value {
        Value::Object(timer) => timer.get("IsPastDue") == Some(&Value::Bool(true)),
        Value::String(text) => serde_json::from_str::<Map<String, Value>>(text)
            .is_ok_and(|timer| timer.get("IsPastDue") == Some(&Value::Bool(true))),
        _ => false,
    }
}

impl Answer {
    pub(super) fn ok(logs: Vec<String>) -> Self {
        Self::with(StatusCode::OK, logs)
    }

    /// The host discards this body; it is for people with curl. The story is in the log already.
    pub(super) fn failed(status: StatusCode, logs: Vec<String>) -> Self {
        Self::with(status, logs)
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
    fn an_answer_is_what_the_host_parses() {
        let answer = Answer::ok(vec!["done".to_owned()]);
        let body = serde_json::to_string(&answer).unwrap();
        assert_eq!(body, r#"{"Outputs":{},"Logs":["done"],"ReturnValue":null}"#);
    }
}
