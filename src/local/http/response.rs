//! The `http` output binding: what a handler's `res` becomes for the caller.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde_json::Value;

/// `None` when the value is no response; an absent `res` is 200 with `{}`.
pub(super) fn from_output(value: &Value) -> Option<Response> {
    let members = match value {
        Value::Null => return Response::builder().body(Body::from("{}")).ok(),
        Value::Object(members) => members,
        _ => return None,
    };
    let member = |name: &str| {
        members
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    };
    let status = match member("statusCode").or(member("status")) {
        None => StatusCode::OK,
        Some(value) => plain(value)
            .parse::<u16>()
            .ok()
            .and_then(|code| StatusCode::from_u16(code).ok())?,
    };
    let mut response = Response::builder().status(status);
    let headers = member("headers").and_then(Value::as_object);
    for (name, value) in headers.into_iter().flatten() {
        response = response.header(name, plain(value));
    }
    let typed = response
        .headers_ref()
        .is_some_and(|headers| headers.contains_key(header::CONTENT_TYPE));
    if !typed {
        response = response.header(header::CONTENT_TYPE, "text/plain; charset=utf-8");
    }
    response
        .body(Body::from(member("body").map(body).unwrap_or_default()))
        .ok()
}

fn body(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => {
            serde_json::to_string_pretty(value).unwrap_or_default()
        }
        other => plain(other),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
