//! An HTTP request as a function sees it: `Data.req`, and its copy in `Metadata`.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, header};
use data_encoding::BASE64;
use serde_json::{Value, json};

use super::{Admitted, Call, text};
use crate::local::envelope::{Members, TriggerData};

/// What the handler is told about a call.
pub(super) fn trigger_data(call: &Call) -> TriggerData {
    let headers = headers(&call.headers);
    let body = call
        .body
        .as_ref()
        .map(|body| body_text(&call.headers, body));
    let mut data = Members::default()
        .with("Url", &call.url)
        .with("Method", &call.method)
        .with("Query", &call.query)
        .with("Headers", &headers)
        .with("Params", &call.parameters)
        .with("Identities", &json!([identity(call.admitted)]));
    if let Some(body) = &body {
        data.push("Body", body);
    }
    TriggerData {
        metadata: metadata(call, &headers, body.as_deref()),
        ..TriggerData::new(&data)
    }
}

/// A manual run of an HTTP function: a bare POST.
pub(in crate::local) fn empty(url: String) -> TriggerData {
    trigger_data(&Call {
        method: "POST".to_owned(),
        url,
        query: BTreeMap::new(),
        headers: HeaderMap::new(),
        parameters: BTreeMap::new(),
        body: None,
        admitted: Admitted::Anonymous,
    })
}

fn metadata(call: &Call, headers: &BTreeMap<String, Vec<String>>, body: Option<&str>) -> Members {
    let mut metadata = Members::default();
    let joined: BTreeMap<&String, String> = headers
        .iter()
        .map(|(name, values)| (name, values.join(",")))
        .collect();
    metadata.push("Query", &call.query);
    metadata.push("Headers", &joined);
    for (name, value) in call.query.iter().chain(&call.parameters) {
        if !metadata.has(name) && !ends_with_trigger(name) {
            metadata.push_text(name, value);
        }
    }
    let Some(Value::Object(members)) = body.and_then(|body| serde_json::from_str(body).ok()) else {
        return metadata;
    };
    for (name, value) in members {
        if metadata.has(&name) || ends_with_trigger(&name) {
            continue;
        }
        match value {
            Value::Array(_) | Value::Null => {}
            Value::Object(_) => metadata.push(name, &value),
            Value::String(text) => metadata.push_text(name, &text),
            other => metadata.push_text(name, &other.to_string()),
        }
    }
    metadata
}

/// The host drops such names from `Metadata`.
fn ends_with_trigger(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with("trigger")
}

fn headers(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        named
            .entry(title_case(name.as_str()))
            .or_default()
            .push(value);
    }
    named
}

fn title_case(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let mut chars = word.chars();
        chars
            .next()
            .map(|first| first.to_ascii_uppercase())
            .into_iter()
            .chain(chars)
            .collect::<String>()
    });
    words.collect::<Vec<_>>().join("-")
}

fn body_text(headers: &HeaderMap, body: &[u8]) -> String {
    let media = text(headers, header::CONTENT_TYPE)
        .unwrap_or_default()
        .to_ascii_lowercase();
    if media.starts_with("application/octet-stream") || media.starts_with("multipart/") {
        return BASE64.encode(body);
    }
    String::from_utf8_lossy(body).into_owned()
}

fn identity(admitted: Admitted) -> Value {
    let claims = match admitted {
        Admitted::Anonymous => json!([]),
        Admitted::MasterKey => claims("Admin", "master"),
        Admitted::FunctionKey => claims("Function", "default"),
    };
    let is_known = admitted != Admitted::Anonymous;
    json!({
        "AuthenticationType": is_known.then_some("WebJobsAuthLevel"), "IsAuthenticated": is_known,
        "Actor": null, "BootstrapContext": null,
        "Claims": claims, "Label": null, "Name": null,
        "NameClaimType": "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name",
        "RoleClaimType": "http://schemas.microsoft.com/ws/2008/06/identity/claims/role",
    })
}

fn claims(level: &str, key: &str) -> Value {
    let claim = |kind: &str, value: &str| {
        let kind = format!("http://schemas.microsoft.com/2017/07/functions/claims/{kind}");
        json!({ "Type": kind, "Value": value })
    };
    json!([claim("authlevel", level), claim("keyid", key)])
}
