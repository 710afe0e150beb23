//! What an error of the SDK means for a request, without what may be secret: addresses carry
//! signatures, and answers quote requests.

use std::error::Error;
use std::time::Duration;

use azure_core::error::ErrorKind;
use azure_core::http::headers::Headers;
use chrono::DateTime;

use super::identity::IdentityError;
use crate::clock::Timestamp;

type Cause = Box<dyn Error + Send + Sync>;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The service answered, and not with success.
    Answered(Answer),
    /// No connection, so nothing was sent.
    NeverSent(Cause),
    /// No token, so nothing was sent.
    NoToken(IdentityError),
    /// Sent, perhaps in part, and no answer was understood.
    Cut(Cause),
}

#[derive(Debug, thiserror::Error)]
#[error("the service answered {status} {code} (request {request_id})")]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The service's own word for it; empty where something else answered.
    pub(crate) code: String,
    pub(crate) request_id: String,
    pub(crate) retry_after: Option<Duration>,
    /// The service's clock.
    pub(crate) date: Option<Timestamp>,
}

impl From<azure_core::Error> for Failure {
    fn from(error: azure_core::Error) -> Self {
        let error = match error.into_downcast::<IdentityError>() {
            Ok(identity) => return Self::NoToken(identity),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::HttpResponse {
                status,
                error_code,
                raw_response,
            } => {
                let headers = raw_response.as_ref().map(|response| response.headers());
                Self::Answered(Answer {
                    status: u16::from(*status),
                    code: word(error_code.as_deref().unwrap_or_default()),
                    request_id: word(header(headers, "x-ms-request-id").unwrap_or("unknown")),
                    retry_after: retry_after(headers),
                    date: headers.and_then(date),
                })
            }
            ErrorKind::Connection => Self::NeverSent(cause(error)),
            _ => Self::Cut(cause(error)),
        }
    }
}

/// The clock of whoever answered.
pub(crate) fn date(headers: &Headers) -> Option<Timestamp> {
    http_date(header(Some(headers), "date")?)
}

pub(crate) fn http_date(text: &str) -> Option<Timestamp> {
    Some(DateTime::parse_from_rfc2822(text.trim()).ok()?.to_utc())
}

fn header<'a>(headers: Option<&'a Headers>, name: &'static str) -> Option<&'a str> {
    headers?.get_optional_str(&name.into())
}

/// Seconds; the services send no dates here.
fn retry_after(headers: Option<&Headers>) -> Option<Duration> {
    if let Some(ms) = header(headers, "x-ms-retry-after-ms") {
        return ms.trim().parse().ok().map(Duration::from_millis);
    }
    let seconds = header(headers, "retry-after")?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// A short word, or nothing: it comes from outside and goes into logs.
fn word(text: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.chars().filter(|c| legal(*c)).take(64).collect()
}

fn cause(error: azure_core::Error) -> Cause {
    match error.into_downcast::<reqwest::Error>() {
        Ok(error) => error.without_url().into(),
        Err(error) => error.kind().to_string().into(),
    }
}
