//! What a relay is posted and what it answers: one file for both of its ends.
//!
//! The host copies members of a JSON body that are not arrays into its metadata, so that all bulk is
//! in an array. Messages travel as objects and not as text inside of text: they are cut out of the
//! body as they are, so not a byte of theirs changes.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Fresh for each attempt; whoever answers with it has read the request.
pub(crate) const TOKEN: &str = "x-dbtick-relay-token";

/// The host takes no larger body.
pub(crate) const LARGEST_BODY: usize = 100 * 1024 * 1024;

/// What a relay says when it has handed messages to the host, and what reaches the poller when the
/// host has written them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) token: String,
    pub(crate) count: usize,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

/// Why something that was posted to a relay is not for it. Shows nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotForARelay {
    #[error("there is no body; a request without Content-Length arrives without one")]
    Empty,
    #[error("the body is not what a poller posts")]
    Foreign,
    #[error("the request has no token")]
    Tokenless,
}

pub(crate) fn body(messages: &[Vec<u8>]) -> Vec<u8> {
    const START: &[u8] = b"{\"messages\":[";
    let bytes: usize = messages.iter().map(|message| message.len() + 1).sum();
    let mut body = Vec::with_capacity(START.len() + bytes + 2);
    body.extend_from_slice(START);
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(message);
    }
    body.extend_from_slice(b"]}");
    body
}

/// Each a complete JSON object: the only text that the host hands on as it is.
pub(crate) fn messages(body: &str) -> Result<Vec<&str>, NotForARelay> {
    let body: Body<'_> = serde_json::from_str(body).map_err(|_| NotForARelay::Foreign)?;
    let messages: Vec<&str> = body.messages.into_iter().map(RawValue::get).collect();
    match messages.iter().all(|message| message.starts_with('{')) {
        true if !messages.is_empty() => Ok(messages),
        _ => Err(NotForARelay::Foreign),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_byte_for_byte() {
        let sent = [
            r#"{"event":{"data":{"n":1.10,"big":12345678901234567890.1,"t":"2026-01-02T03:04:05.120000+02:00"}}}"#,
            r#"{ "spaced" : [ 1 , 2 ] }"#,
            r#"{"text":"\u00e9 \"quoted\" \\ \n é 😀"}"#,
            "{}",
        ];
        let bytes: Vec<Vec<u8>> = sent.iter().map(|text| text.as_bytes().to_vec()).collect();
        let body = String::from_utf8(body(&bytes)).unwrap();
        assert_eq!(messages(&body), Ok(sent.to_vec()));
    }

    #[test]
    fn what_no_poller_posts_is_refused() {
        for body in [
            "",
            "null",
            "[]",
            "{}",
            r#"{"messages":[]}"#,
            r#"{"messages":{}}"#,
            r#"{"messages":["text"]}"#,
            r#"{"messages":[{},[]]}"#,
            r#"{"messages":[{}"#,
        ] {
            assert_eq!(messages(body), Err(NotForARelay::Foreign), "{body}");
        }
    }
}
