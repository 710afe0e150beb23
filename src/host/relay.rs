//! An invocation of a relay: what a poller posts goes to the function's output binding.
//!
//! The host writes the outputs after our answer, and answers the poller after that. Whoever holds a
//! key of the function can have messages written, and nothing else: nothing is read, run or looked
//! up for a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, Uri};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::invocation::{Answer, invocation_id};
use super::{Handler, Role};
use crate::config::RelayFunction;
use crate::sink::relay::wire::{self, NotForARelay, Receipt};
use crate::telemetry;

/// Ours are 32 characters; a longer one is not echoed.
const LONGEST_TOKEN: usize = 64;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "Data", borrow)]
    data: BTreeMap<String, &'a RawValue>,
}

/// An HTTP request as the host tells it; header values are arrays.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request {
    #[serde(default)]
    headers: BTreeMap<String, Vec<String>>,
    body: Option<String>,
}

pub(super) async fn invoke(
    State(handler): State<Arc<Handler>>,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let function = uri.path().trim_start_matches('/');
    let Some(Role::Relay(relay)) = handler.functions.get(function) else {
        unreachable!("only relays are routed here, and the role of a function does not change");
    };
    let body = match body {
        Ok(body) => body,
        Err(rejection) => {
            let problem = rejection.body_text();
            return Answer::refused(function, &headers, rejection.status(), &problem);
        }
    };
    let Some(request) = request(relay, &body) else {
        return Answer::without_request(function, &headers, &relay.request);
    };
    match relayed(relay, &request) {
        Ok(answer) => answer,
        Err(why) => {
            telemetry::refused(
                function,
                &invocation_id(&headers),
                &[format!("{function}: {why}")],
            );
            turned_away(relay, why)
        }
    }
}

fn request(relay: &RelayFunction, body: &[u8]) -> Option<Request> {
    let envelope: Envelope<'_> = serde_json::from_slice(body).ok()?;
    let request = envelope.data.get(&relay.request)?;
    serde_json::from_str(request.get()).ok()
}

/// An array of texts, each a JSON object: every other form the host would decode or write anew.
fn relayed(relay: &RelayFunction, request: &Request) -> Result<Answer, NotForARelay> {
    let token = token(request).ok_or(NotForARelay::Tokenless)?;
    let body = request.body.as_deref().ok_or(NotForARelay::Empty)?;
    let messages = wire::messages(body)?;
    let count = messages.len();
    let receipt = Receipt {
        token: token.to_owned(),
        count,
    };
    let outputs = [
        (relay.output.clone(), messages.into()),
        (
            relay.response.clone(),
            response(200, "application/json", json!(receipt).to_string()),
        ),
    ];
    let log = format!("{count} messages for the output {}", relay.output);
    Ok(Answer::ok(vec![log]).with_outputs(outputs))
}

/// For the caller, not for the host: the invocation is as good as any, and nothing is written.
fn turned_away(relay: &RelayFunction, why: NotForARelay) -> Answer {
    let response = response(400, "text/plain", format!("{why}\n"));
    Answer::ok(Vec::new()).with_outputs([(relay.response.clone(), response)])
}

fn response(status: u16, content_type: &str, body: String) -> Value {
    json!({ "statusCode": status, "headers": { "content-type": content_type }, "body": body })
}

fn token(request: &Request) -> Option<&str> {
    let (_, values) = request
        .headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(wire::TOKEN))?;
    let token = values.first()?;
    let sound = token.bytes().all(|byte| byte.is_ascii_hexdigit());
    (sound && (1..=LONGEST_TOKEN).contains(&token.len())).then_some(token)
}

#[cfg(test)]
mod tests;
