//! Headers that somebody adds.

use std::collections::BTreeMap;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::Reader;
use crate::config::fault::Place;
use crate::config::secret::Secret;

/// What we say ourselves, and what belongs to the connection and not to the request.
const OURS: [&str; 17] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "traceparent",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What else the webhook says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings {
    /// Something else says who we are.
    pub(super) authorized: bool,
    /// What is sent can be read on the way.
    pub(super) readable: bool,
}

impl Reader<'_> {
    pub(super) fn headers(
        &mut self,
        at: &Place,
        raw: BTreeMap<String, String>,
        around: Surroundings,
    ) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        let mut complete = true;
        for (name, written) in raw {
            let at = at.key(&name);
            let name = match judge(&name, around, &headers) {
                Ok(name) => Some(name),
                Err((problem, hint)) => {
                    self.faults.add(&at, problem, hint);
                    None
                }
            };
            match (name, self.header_value(&at, &written)) {
                (Some(name), Some(value)) => {
                    headers.insert(name, value);
                }
                _ => complete = false,
            }
        }
        complete.then_some(headers)
    }

    fn header_value(&mut self, at: &Place, written: &str) -> Option<HeaderValue> {
        let value = Secret::new(self.text(at, written)?).header();
        if value.is_none() {
            self.faults.add(
                at,
                "has a value that no header can have",
                "it must be one line, without control characters",
            );
        }
        value
    }
}

fn judge(
    name: &str,
    around: Surroundings,
    others: &HeaderMap,
) -> Result<HeaderName, (&'static str, &'static str)> {
    let name = HeaderName::try_from(name)
        .map_err(|_| ("is not the name of a header", "use letters, digits and -"))?;
    if OURS.contains(&name.as_str()) || name.as_str().starts_with("webhook-") {
        return Err((
            "is a header that dbtick or the connection sets",
            "remove it",
        ));
    }
    if name == AUTHORIZATION && around.authorized {
        return Err((
            "stands beside bearer, entra or a user in the url",
            "keep one of them",
        ));
    }
    if name == AUTHORIZATION && around.readable {
        return Err((
            "would travel readable: the url is plain http to another machine",
            "use https",
        ));
    }
    if others.contains_key(&name) {
        return Err((
            "is there twice: names of headers ignore case",
            "remove one of them",
        ));
    }
    Ok(name)
}
