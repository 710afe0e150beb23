//! What is asked, and by whom, whichever way the host hands it over.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::Query;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::config::StatusFunction;
use crate::model::plain::is_obeyed;

/// No form of another site can send it, and its scripts need our leave to.
const ACTION: &str = "x-dbtick-action";
/// Set by the platform where it signs people in; by anybody where it does not.
const PRINCIPAL: &str = "x-ms-client-principal-name";
/// The claim with the *name* of the key that a request was let in with.
const KEY_NAME: &str = "http://schemas.microsoft.com/2017/07/functions/claims/keyid";
const LONGEST_NAME: usize = 128;

#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) method: String,
    /// The parts below the route of the function.
    pub(super) path: Vec<String>,
    pub(super) query: BTreeMap<String, String>,
    /// Whether the body says that it is JSON.
    pub(super) is_json: bool,
    /// Whether the header of an action is there.
    pub(super) is_meant: bool,
    pub(super) body: Bytes,
    /// For the audit trail: `http:` and what the host tells; never a key.
    pub(super) caller: String,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "Data", borrow)]
    data: BTreeMap<String, &'a RawValue>,
}

/// An HTTP request as the host tells it; header values are arrays.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Told {
    url: String,
    method: String,
    #[serde(default)]
    query: BTreeMap<String, String>,
    #[serde(default)]
    headers: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    identities: Vec<Value>,
    body: Option<String>,
}

impl Ask {
    /// From an invocation; `None`: there is no request in it.
    pub(super) fn wrapped(function: &StatusFunction, body: &[u8]) -> Option<Self> {
        let envelope: Envelope<'_> = serde_json::from_slice(body).ok()?;
        let told: Told = serde_json::from_str(envelope.data.get(&function.request)?.get()).ok()?;
        let url = Url::parse(&told.url).ok()?;
        let headers = told.headers.iter().filter_map(|(name, values)| {
            let name = HeaderName::try_from(name).ok()?;
            Some((name, HeaderValue::try_from(values.first()?).ok()?))
        });
        let headers: HeaderMap = headers.collect();
        Some(Self {
            method: told.method.to_ascii_uppercase(),
            path: below(&function.path, url.path())?,
            query: told.query,
            body: Bytes::from(told.body.unwrap_or_default()),
            caller: caller(function, &headers, &told.identities),
            ..Self::of(&headers)
        })
    }

    /// As it came to the host; `None`: it is for somebody else.
    pub(super) fn forwarded(function: &StatusFunction, parts: &Parts, body: Bytes) -> Option<Self> {
        let query = Query::try_from_uri(&parts.uri);
        Some(Self {
            method: parts.method.as_str().to_ascii_uppercase(),
            path: below(&function.path, parts.uri.path())?,
            query: query.map(|Query(query)| query).unwrap_or_default(),
            body,
            caller: caller(function, &parts.headers, &[]),
            ..Self::of(&parts.headers)
        })
    }

    fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let media = text(header::CONTENT_TYPE.as_str()).unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim();
        Self {
            method: String::new(),
            path: Vec::new(),
            query: BTreeMap::new(),
            is_json: media.eq_ignore_ascii_case("application/json"),
            is_meant: text(ACTION) == Some("1"),
            body: Bytes::new(),
            caller: String::new(),
        }
    }
}

/// The parts of a path below that of a function. Names of pollers and ids need no escapes.
pub(super) fn below(function: &str, path: &str) -> Option<Vec<String>> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    for expected in function.split('/') {
        if !parts.next()?.eq_ignore_ascii_case(expected) {
            return None;
        }
    }
    Some(parts.map(str::to_owned).collect())
}

fn caller(function: &StatusFunction, headers: &HeaderMap, identities: &[Value]) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let person = || {
        let header = headers.get(PRINCIPAL).and_then(|name| name.to_str().ok());
        let signed_in = identities
            .iter()
            .filter(|one| one["IsAuthenticated"] == true);
        let names = signed_in.filter_map(|one| text(&one["Name"]));
        header.map(str::to_owned).into_iter().chain(names).next()
    };
    let person = function.signs_in.then(person).flatten();
    let claims = identities.iter().filter_map(|one| one["Claims"].as_array());
    let key = claims
        .flatten()
        .find(|claim| claim["Type"] == KEY_NAME)
        .and_then(|claim| text(&claim["Value"]));
    let name = match (person, key) {
        (Some(person), Some(key)) => format!("{person} (key {key})"),
        (Some(person), None) => person,
        (None, Some(key)) => format!("key {key}"),
        (None, None) => "unknown".to_owned(),
    };
    let name = name.chars().map(|c| if is_obeyed(c) { ' ' } else { c });
    format!("http:{}", name.take(LONGEST_NAME).collect::<String>())
}
