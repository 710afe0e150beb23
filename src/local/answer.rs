//! What a handler's HTTP answer means, by the host's rules. Pure.

use serde_json::{Map, Value};

use super::app::OutputBinding;
use super::invocation::InvocationFailure;
use super::output;

/// A valid answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// `Outputs`, with the members of an object in `ReturnValue` that no binding takes.
    pub outputs: Map<String, Value>,
    /// `Logs`.
    pub logs: Vec<String>,
    /// `ReturnValue`.
    pub return_value: Value,
}

impl Reply {
    /// The value for a declared output, `null` when there is none.
    pub fn output(&self, binding: &OutputBinding) -> &Value {
        if binding.name == "$return" {
            return &self.return_value;
        }
        self.outputs.get(&binding.name).unwrap_or(&Value::Null)
    }
}

/// `None` is the answer that the host never completes: the invocation hangs until its time-out.
pub(super) fn read(
    status: u16,
    content_type: Option<&str>,
    body: &[u8],
    outputs: &[OutputBinding],
) -> Result<Option<Reply>, InvocationFailure> {
    if !(200..300).contains(&status) {
        return Err(InvocationFailure::Status(status));
    }
    if body.trim_ascii().is_empty() {
        return Ok(None);
    }
    if !is_json(content_type) {
        let sent = content_type.unwrap_or("none");
        return Err(invalid(format!(
            "the content type is {sent}, not application/json"
        )));
    }
    let reply = match serde_json::from_slice(body) {
        Ok(Value::Null) => return Ok(None),
        Ok(Value::Object(members)) => reply(members, outputs)?,
        Ok(_) => return Err(invalid("the body is not an object")),
        Err(error) => return Err(invalid(format!("the body is not JSON ({error})"))),
    };
    check_outputs(&reply, outputs)?;
    Ok(Some(reply))
}

fn is_json(content_type: Option<&str>) -> bool {
    let media = content_type
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim();
    media.eq_ignore_ascii_case("application/json") || media.eq_ignore_ascii_case("text/json")
}

fn invalid(why: impl Into<String>) -> InvocationFailure {
    InvocationFailure::InvalidResponse(why.into())
}

fn reply(
    members: Map<String, Value>,
    outputs: &[OutputBinding],
) -> Result<Reply, InvocationFailure> {
    let mut reply = Reply::default();
    for (name, value) in members {
        match (name.to_ascii_lowercase().as_str(), value) {
            ("outputs", Value::Null) | ("logs", Value::Null) => {}
            ("outputs", Value::Object(members)) => reply.outputs = members,
            ("outputs", _) => return Err(invalid("Outputs is not an object")),
            ("logs", Value::Array(lines)) => {
                reply.logs = lines.into_iter().map(log_line).collect::<Result<_, _>>()?;
            }
            ("logs", _) => return Err(invalid("Logs is not an array")),
            ("returnvalue", value) => reply.return_value = value,
            _ => {}
        }
    }
    if let Value::Object(members) = &reply.return_value
        && !outputs.iter().any(|binding| binding.name == "$return")
    {
        reply.outputs.extend(members.clone());
    }
    Ok(reply)
}

fn log_line(value: Value) -> Result<String, InvocationFailure> {
    match value {
        Value::String(line) => Ok(line),
        Value::Array(_) | Value::Object(_) => {
            Err(invalid("Logs holds a value that is not a string"))
        }
        other => Ok(other.to_string()),
    }
}

/// Only HTTP and queue outputs are written; any other value fails the invocation and is never dropped.
fn check_outputs(reply: &Reply, outputs: &[OutputBinding]) -> Result<(), InvocationFailure> {
    for binding in outputs {
        let value = reply.output(binding);
        let nothing = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if binding.is_http() {
            if !value.is_null() && !value.is_object() {
                return Err(invalid(format!(
                    "the output '{}' is not an object",
                    binding.name
                )));
            }
        } else if binding.queue.is_some() {
            output::texts(binding, value)?;
        } else if !nothing {
            return Err(InvocationFailure::OutputNotWritten {
                binding: binding.name.clone(),
                kind: binding.kind.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::app::QueueOutput;
    use super::*;

    const JSON: Option<&str> = Some("application/json; charset=utf-8");

    fn check(status: u16, content_type: Option<&str>, body: &str, expected: &str) {
        let queue = QueueOutput {
            queue: "orders".to_owned(),
            connection: "STORAGE".to_owned(),
        };
        let outputs = [
            ("res", "http", None),
            ("items", "blob", None),
            ("messages", "queue", Some(queue)),
        ]
        .map(|(name, kind, queue)| OutputBinding {
            name: name.to_owned(),
            kind: kind.to_owned(),
            queue,
        });
        let got = match read(status, content_type, body.as_bytes(), &outputs) {
            Ok(Some(_)) => "success".to_owned(),
            Ok(None) => "hangs".to_owned(),
            Err(failure) => failure.to_string(),
        };
        assert!(
            got.contains(expected),
            "{status} {content_type:?} {body}: {got}"
        );
    }

    #[test]
    fn an_answer_means_what_it_means_to_the_host() {
        check(200, JSON, "{}", "success");
        check(
            202,
            Some("text/json"),
            r#"{"outputs":null,"LOGS":["a"],"more":1}"#,
            "success",
        );
        check(200, JSON, "", "hangs");
        check(200, None, "", "hangs");
        check(200, JSON, " null ", "hangs");
        check(200, None, "{}", "content type is none");
        check(200, Some("text/plain"), "{}", "content type is text/plain");
        check(200, JSON, "{", "not JSON");
        check(200, JSON, "[]", "not an object");
        check(200, JSON, r#"{"Outputs":[]}"#, "Outputs is not an object");
        check(200, JSON, r#"{"Logs":"a"}"#, "Logs is not an array");
        check(500, JSON, "{}", "status 500");
        check(304, JSON, "{}", "status 304");
        check(
            200,
            JSON,
            r#"{"Outputs":{"res":"text"}}"#,
            "'res' is not an object",
        );
        check(
            200,
            JSON,
            r#"{"Outputs":{"unknown":1,"RES":"text"}}"#,
            "success",
        );
        check(200, JSON, r#"{"Outputs":{"items":[]}}"#, "success");
        check(200, JSON, r#"{"Outputs":{"messages":["{}"]}}"#, "success");
    }

    #[test]
    fn a_value_for_a_binding_that_is_not_written_fails_the_invocation() {
        check(200, JSON, r#"{"Outputs":{"items":["a"]}}"#, "'items'");
        check(
            200,
            JSON,
            r#"{"ReturnValue":{"items":"a"}}"#,
            "does not write",
        );
        check(
            200,
            JSON,
            r#"{"Outputs":{"messages":"{}"}}"#,
            "array of texts",
        );
    }
}
