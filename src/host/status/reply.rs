//! What goes back: always with the headers that keep it out of caches, frames and other sites.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::answers::Refusal;

const JSON: &str = "application/json; charset=utf-8";
const NOTHING_RUNS: &str = "default-src 'none'; frame-ancestors 'none'";
const PAGE: &str = include_str!("../page.html");

/// The page's own script and style, by what they are; and requests to where it came from.
static PAGE_POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash_of("script"),
        hash_of("style"),
    )
});

#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    content_type: &'static str,
    policy: &'static str,
    /// Which methods there are, where another one was used.
    allow: Option<&'static str>,
    body: String,
}

impl Reply {
    pub(super) fn json(answer: &impl Serialize) -> Self {
        Self::json_with(StatusCode::OK, answer)
    }

    pub(super) fn json_with(status: StatusCode, answer: &impl Serialize) -> Self {
        let body = serde_json::to_string(answer).expect("an answer of plain data is representable");
        Self::with(status, JSON, body)
    }

    pub(super) fn text(content_type: &'static str, body: String) -> Self {
        Self::with(StatusCode::OK, content_type, body)
    }

    /// `actions`: whether it offers any.
    pub(super) fn page(actions: bool) -> Self {
        let body = match actions {
            true => PAGE.to_owned(),
            false => PAGE.replacen("data-actions=\"true\"", "data-actions=\"false\"", 1),
        };
        Self {
            policy: &PAGE_POLICY,
            ..Self::text("text/html; charset=utf-8", body)
        }
    }

    pub(super) fn refused(
        status: StatusCode,
        error: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let (error, hint) = (error.into(), hint.into());
        Self::json_with(status, &Refusal { error, hint })
    }

    fn with(status: StatusCode, content_type: &'static str, body: String) -> Self {
        Self {
            status,
            content_type,
            policy: NOTHING_RUNS,
            allow: None,
            body,
        }
    }

    fn headers(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        let always = [
            ("content-type", self.content_type),
            ("content-security-policy", self.policy),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            // The key of the function may be in the address.
            ("referrer-policy", "no-referrer"),
        ];
        let allow = self.allow.map(|methods| ("allow", methods));
        always.into_iter().chain(allow)
    }

    /// As the value of the `http` output.
    pub(super) fn into_output(self) -> Value {
        let headers: Map<String, Value> = self
            .headers()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        json!({ "statusCode": self.status.as_u16(), "headers": headers, "body": self.body })
    }
}

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let headers = self.headers();
        let mut response = self.body.into_response();
        *response.status_mut() = self.status;
        for (name, value) in headers {
            let name = HeaderName::from_static(name);
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

pub(super) fn wrong_method(method: &str, methods: &'static str) -> Reply {
    let error = format!("this address does not answer {method}");
    let hint = format!("it answers {methods}");
    Reply {
        allow: Some(methods),
        ..Reply::refused(StatusCode::METHOD_NOT_ALLOWED, error, hint)
    }
}

pub(super) fn nothing_here(path: &str) -> Reply {
    let error = format!("there is nothing at {path}");
    let hint = "openapi.json lists the addresses that there are";
    Reply::refused(StatusCode::NOT_FOUND, error, hint)
}

pub(super) fn too_slow() -> Reply {
    let error =
        "looking at the pollers takes too long: a state store or a database does not answer";
    let hint = "look at the log of the ticks, and at the storage account and the databases";
    Reply::refused(StatusCode::SERVICE_UNAVAILABLE, error, hint)
}

pub(super) fn too_many() -> Reply {
    let error = "too many requests to the status are being worked on";
    let hint =
        "try again in a moment; if it stays so, look at the storage account and the databases";
    Reply::refused(StatusCode::SERVICE_UNAVAILABLE, error, hint)
}

pub(super) fn too_large() -> Reply {
    let hint = "send { \"reason\": \"…\" } and little more";
    Reply::refused(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large", hint)
}

fn hash_of(element: &str) -> String {
    let inside = PAGE
        .split_once(&format!("<{element}>"))
        .and_then(|(_, rest)| rest.split_once(&format!("</{element}>")))
        .map_or("", |(inside, _)| inside);
    format!("sha256-{}", BASE64.encode(&Sha256::digest(inside)))
}
