//! HTTP-triggered functions on the local port.
//!
//! Stricter than Core Tools: keys are checked. A chunked request loses its body, as in the host.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;

use super::app::{AuthLevel, Function, HttpTrigger, Trigger};
use super::invocation::Invoker;
use crate::config::secret::same;

mod request;
mod response;

pub(super) use request::empty;

const LARGEST_BODY: usize = 100 * 1024 * 1024;

/// What the server needs.
#[derive(Clone)]
pub(super) struct Front {
    pub(super) invoker: Arc<Invoker>,
    pub(super) key: Arc<str>,
    /// By the name of the function.
    pub(super) function_keys: Arc<BTreeMap<String, String>>,
    /// The address that callers use, for requests without a Host header.
    pub(super) authority: Arc<str>,
}

/// A request, taken apart.
#[derive(Debug)]
struct Call {
    method: String,
    url: String,
    query: BTreeMap<String, String>,
    headers: HeaderMap,
    parameters: BTreeMap<String, String>,
    body: Option<bytes::Bytes>,
    admitted: Admitted,
}

/// By which key, which functions are told the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admitted {
    Anonymous,
    MasterKey,
    FunctionKey,
}

/// One fallback serves every path: the routes are the app's, not ours.
pub(super) fn router(front: Front) -> Router {
    Router::new().fallback(serve).with_state(front)
}

async fn serve(State(front): State<Front>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let Some((function, trigger, parameters)) = front.route(&path, request.method().as_str())
    else {
        return status(StatusCode::NOT_FOUND);
    };
    let query = query(&request);
    let (name, level) = (&function.name, trigger.auth_level);
    let Some(admitted) = front.admits(name, level, request.headers(), &query) else {
        return status(StatusCode::UNAUTHORIZED);
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LARGEST_BODY).await else {
        return status(StatusCode::PAYLOAD_TOO_LARGE);
    };
    let host = text(&parts.headers, header::HOST).unwrap_or(&front.authority);
    let length = text(&parts.headers, header::CONTENT_LENGTH).and_then(|text| text.parse().ok());
    let call = Call {
        method: parts.method.to_string(),
        url: format!("http://{host}{}", parts.uri),
        query,
        parameters,
        body: (length.unwrap_or(0_u64) > 0).then_some(body),
        headers: parts.headers,
        admitted,
    };
    let result = front
        .invoker
        .invoke(function, request::trigger_data(&call))
        .await;
    match result.outcome {
        Err(_) => status(StatusCode::INTERNAL_SERVER_ERROR),
        Ok(reply) => match function.outputs.iter().find(|binding| binding.is_http()) {
            None => status(StatusCode::NO_CONTENT),
            Some(binding) => response::from_output(reply.output(binding))
                .unwrap_or_else(|| status(StatusCode::INTERNAL_SERVER_ERROR)),
        },
    }
}

impl Front {
    /// A disabled function and a wrong method are not found, as in the host.
    fn route(
        &self,
        path: &str,
        method: &str,
    ) -> Option<(&Function, &HttpTrigger, BTreeMap<String, String>)> {
        let prefix = &self.invoker.app.route_prefix;
        let mut segments: Vec<String> = path
            .split('/')
            .filter(|s| !s.is_empty())
            .map(decode)
            .collect();
        for part in prefix.split('/').filter(|part| !part.is_empty()) {
            if segments.is_empty() || !segments.remove(0).eq_ignore_ascii_case(part) {
                return None;
            }
        }
        let candidates = self
            .invoker
            .app
            .functions
            .iter()
            .filter(|function| !function.disabled);
        candidates
            .filter_map(|function| {
                let Trigger::Http(trigger) = &function.trigger else {
                    return None;
                };
                let allowed = trigger.methods.is_empty()
                    || trigger.methods.iter().any(|known| known == method);
                let parameters = trigger.route.matches(&segments)?;
                allowed.then_some((function, trigger, parameters))
            })
            .min_by_key(|(_, trigger, _)| trigger.route.precedence())
    }

    fn admits(
        &self,
        function: &str,
        level: AuthLevel,
        headers: &HeaderMap,
        query: &BTreeMap<String, String>,
    ) -> Option<Admitted> {
        let given = headers
            .get("x-functions-key")
            .and_then(|value| value.to_str().ok())
            .or_else(|| query.get("code").map(String::as_str));
        let own = self.function_keys.get(function);
        let is = |key: &str| given.is_some_and(|given| same(given, key));
        match level {
            AuthLevel::Anonymous => Some(Admitted::Anonymous),
            _ if is(&self.key) => Some(Admitted::MasterKey),
            AuthLevel::Function if own.is_some_and(|own| is(own)) => Some(Admitted::FunctionKey),
            AuthLevel::Function | AuthLevel::Admin => None,
        }
    }
}

fn status(code: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Repeated names are joined with commas, as .NET prints them.
fn query(request: &Request) -> BTreeMap<String, String> {
    let mut query: BTreeMap<String, String> = BTreeMap::new();
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    for (name, value) in pairs.map(|Query(pairs)| pairs).unwrap_or_default() {
        query
            .entry(name)
            .and_modify(|known| {
                known.push(',');
                known.push_str(&value);
            })
            .or_insert(value);
    }
    query
}

fn decode(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = (first == b'%').then(|| tail.get(..2)).flatten();
        let value = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(value.unwrap_or(first));
        rest = if value.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
