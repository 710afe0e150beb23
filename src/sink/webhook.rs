//! A batch as one HTTP POST. A 2xx answer acknowledges it, but for the events that it names as
//! failed; everything else does not.
//!
//! Redirects are never followed: the address comes from configuration alone. An attempt that timed
//! out is not repeated inside the tick, because the receiver may be working on it: the rows are
//! read again by the next tick. Errors never quote the answer's body, which may echo row data.

mod answer;
mod body;
mod client;
mod status;

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue,
    RETRY_AFTER,
};
use reqwest::{Client, RequestBuilder, Response, StatusCode};

use super::{DeliveryFailure, FailureKind, Sink, Verdict, retry_after, signature};
use crate::azure::Azure;
use crate::azure::identity::{Credential, IdentityError};
use crate::clock::{Clock, Timestamp};
use crate::config::secret::Secret;
use crate::config::{Authorization, WebhookConfig};
use crate::model::envelope::Batch;

use answer::{Answer, NotUnderstood};
use client::RefusedAddress;
pub use client::{ClientError, client};

const TRACEPARENT: &str = "traceparent";
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// A receiver that asks for more patience than this gets it across ticks, not inside one.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct WebhookSink {
    name: String,
    config: WebhookConfig,
    client: Result<Client, ClientError>,
    authorize: Authorize,
    clock: Arc<dyn Clock>,
}

/// How to say who we are.
#[derive(Debug)]
enum Authorize {
    Not,
    With(HeaderValue),
    /// With a token for this scope.
    As(Credential, String),
}

impl WebhookSink {
    #[must_use]
    pub fn new(
        name: &str,
        config: &WebhookConfig,
        client: Client,
        azure: &Azure,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let authorize = match &config.authorization {
            None => Authorize::Not,
            Some(Authorization::Bearer(value)) => Authorize::With(value.clone()),
            Some(Authorization::Entra { identity, scope }) => {
                Authorize::As(azure.credential(identity), scope.clone())
            }
        };
        Self {
            name: name.to_owned(),
            config: config.clone(),
            client: client::of(config, client),
            authorize,
            clock,
        }
    }

    async fn attempt(&self, batch: &Batch, body: &Bytes) -> Attempt {
        let request = match self.request(batch.id.as_str(), body).await {
            Ok(request) => request,
            Err(attempt) => return attempt,
        };
        let mut request = request.header(CONTENT_TYPE, self.config.envelope.content_type());
        if self.config.gzip {
            request = request.header(CONTENT_ENCODING, "gzip");
        }
        if let Some(trace) = &batch.trace {
            request = request.header(TRACEPARENT, trace.as_ref());
        }
        match request.body(body.clone()).send().await {
            Ok(response) => self.judge(response, batch).await,
            Err(error) => self.judge_error(&error),
        }
    }

    /// A notice that is no batch: any 2xx takes it. One attempt.
    pub async fn post(&self, id: &str, notice: Bytes) -> Result<(), DeliveryFailure> {
        let failed = |attempt| match attempt {
            Attempt::Ended(Verdict::Failed(failure)) | Attempt::TryAgain(failure) => failure,
            Attempt::Ended(_) => unreachable!("nothing was sent that could be taken"),
        };
        let request = self.request(id, &notice).await.map_err(failed)?;
        let request = request.header(CONTENT_TYPE, "application/json");
        let sent = request.body(notice).send().await;
        let response = sent.map_err(|error| failed(self.judge_error(&error)))?;
        let status = response.status();
        match status.is_success() {
            true => Ok(()),
            false => {
                let reason = format!("{} answered {status}", self.config.url);
                Err(DeliveryFailure::new(status::kind(status), reason))
            }
        }
    }

    /// To the address, signed and with all that says who we are; without its body.
    async fn request(&self, id: &str, body: &Bytes) -> Result<RequestBuilder, Attempt> {
        let config = &self.config;
        let client = self.client.as_ref().map_err(|error| {
            let reason = format!("nothing was sent to {}: {error}", config.url);
            give_up(FailureKind::Refused, reason)
        })?;
        let mut request = client
            .post(config.url.expose().clone())
            .timeout(config.timeout)
            .header(ACCEPT_ENCODING, "identity")
            .header("idempotency-key", id)
            .header("webhook-id", id)
            .headers(config.headers.clone());
        if let Some(value) = self.authorization().await? {
            request = request.header(AUTHORIZATION, value);
        }
        let now = self.clock.now();
        if let Some(signature) = signature::sign(&config.signing, id, now, body) {
            request = request
                .header("webhook-timestamp", signature.timestamp)
                .header("webhook-signature", signature.value);
        }
        Ok(request)
    }

    /// The header, or how the attempt ends without one.
    async fn authorization(&self) -> Result<Option<HeaderValue>, Attempt> {
        let (credential, scope) = match &self.authorize {
            Authorize::Not => return Ok(None),
            Authorize::With(value) => return Ok(Some(value.clone())),
            Authorize::As(credential, scope) => (credential, scope),
        };
        let token = credential.token(scope).await;
        let token = token.map_err(|error| self.judge_identity(&error))?;
        let header = Secret::new(token.expose()).bearer();
        header.map(Some).ok_or_else(|| {
            let url = &self.config.url;
            let reason = format!("nothing was sent to {url}: the token is not one word");
            give_up(FailureKind::Refused, reason)
        })
    }

    fn judge_identity(&self, error: &IdentityError) -> Attempt {
        let reason = format!("nothing was sent to {}: {error}", self.config.url);
        if error.is_passing() {
            Attempt::TryAgain(DeliveryFailure::new(FailureKind::Passing, reason))
        } else {
            give_up(FailureKind::Refused, reason)
        }
    }

    async fn judge(&self, response: Response, batch: &Batch) -> Attempt {
        let status = response.status();
        let not_before = self.not_before(response.headers());
        let answer = read_to_limit(response).await;
        if status.is_success() {
            return match answer {
                Ok(answer) => self.judge_answer(status, &answer, batch),
                // The status alone is not an answer: it was cut off.
                Err(error) => self.judge_error(&error),
            };
        }
        let failure = DeliveryFailure {
            reason: format!(
                "{} answered {status}{}",
                self.config.url,
                status::hint(status)
            ),
            kind: status::kind(status),
            not_before: not_before.filter(|_| status::passes_with_time(status)),
        };
        if status::may_pass_soon(status) {
            Attempt::TryAgain(failure)
        } else {
            Attempt::Ended(Verdict::Failed(failure))
        }
    }

    fn not_before(&self, headers: &HeaderMap) -> Option<Timestamp> {
        let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
        retry_after::parse(value, self.clock.now())
    }

    fn judge_answer(&self, status: StatusCode, answer: &Answer, batch: &Batch) -> Attempt {
        let why = match answer::read(answer, &batch.event_ids) {
            Ok(none) if none.is_empty() => return Attempt::Ended(Verdict::Acknowledged),
            Ok(unaccepted) => return Attempt::Ended(Verdict::Partly(unaccepted)),
            Err(why) => why,
        };
        let reason = format!("{} answered {status}, but {why}", self.config.url);
        let kind = match why {
            // Half a batch has half an answer; one event has nothing left to be halved.
            NotUnderstood::TooLong if batch.len() > 1 => FailureKind::TooLarge,
            // The receiver's program must be mended. No row is to blame.
            _ => FailureKind::Refused,
        };
        give_up(kind, reason)
    }

    fn judge_error(&self, error: &reqwest::Error) -> Attempt {
        let url = &self.config.url;
        if let Some(refused) = find::<RefusedAddress>(error) {
            let reason = format!("{url} is not connected to: {refused}");
            give_up(FailureKind::Refused, reason)
        } else if let Some(rustls::Error::InvalidCertificate(_)) = find(error) {
            // It does not pass by itself, as others that keep a connection from being made do.
            let reason = format!("{url} is not trusted: {}", root_cause(error));
            give_up(FailureKind::Refused, reason)
        } else if error.is_connect() {
            let reason = format!("{url} cannot be reached: {}", root_cause(error));
            Attempt::TryAgain(DeliveryFailure::new(FailureKind::Passing, reason))
        } else if error.is_timeout() {
            let limit = self.config.timeout;
            let reason = format!("{url} did not answer within {limit:?}");
            give_up(FailureKind::Passing, reason)
        } else {
            let cause = root_cause(error);
            let reason = format!("the exchange with {url} was cut off: {cause}");
            give_up(FailureKind::Passing, reason)
        }
    }

    /// Doubles, with up to half of it taken off at random, so that instances do not march in step;
    /// longer where the receiver asks for it.
    fn pause(&self, attempt: u32, not_before: Option<Timestamp>) -> Duration {
        let full = FIRST_PAUSE.saturating_mul(1 << attempt.min(10));
        let jitter = u32::try_from(self.clock.random() % 500).unwrap_or(0);
        let pause = full.min(LONGEST_PAUSE) * (1000 - jitter) / 1000;
        let asked = not_before.map(|then| then - self.clock.now());
        let asked = asked.and_then(|wait| wait.to_std().ok());
        pause.max(asked.unwrap_or_default())
    }
}

enum Attempt {
    Ended(Verdict),
    TryAgain(DeliveryFailure),
}

fn give_up(kind: FailureKind, reason: String) -> Attempt {
    Attempt::Ended(Verdict::Failed(DeliveryFailure::new(kind, reason)))
}

#[async_trait]
impl Sink for WebhookSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, batch: &Batch) -> Verdict {
        let body = body::of(batch, &self.config).await;
        for attempt in 1.. {
            let failure = match self.attempt(batch, &body).await {
                Attempt::Ended(verdict) => return verdict,
                Attempt::TryAgain(failure) => failure,
            };
            let pause = self.pause(attempt - 1, failure.not_before);
            if attempt >= self.config.attempts || pause > LONGEST_PAUSE {
                return Verdict::Failed(failure);
            }
            tokio::time::sleep(pause).await;
        }
        unreachable!("the loop ends by returning")
    }
}

/// To the end, so that the connection can be used again; an answer past the limit costs its own.
async fn read_to_limit(mut response: Response) -> Result<Answer, reqwest::Error> {
    let encoding = response.headers().get(CONTENT_ENCODING);
    let mut answer = Answer {
        is_encoded: encoding.is_some_and(|name| !name.as_bytes().eq_ignore_ascii_case(b"identity")),
        ..Answer::default()
    };
    while let Some(chunk) = response.chunk().await? {
        let room = answer::LIMIT - answer.bytes.len();
        answer
            .bytes
            .extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            answer.is_cut = true;
            break;
        }
    }
    Ok(answer)
}

/// The innermost cause; outer ones repeat the URL, which may carry a token.
fn root_cause(error: &reqwest::Error) -> String {
    causes(error)
        .last()
        .map_or_else(String::new, ToString::to_string)
}

/// A cause of this type, wherever it is in the chain.
fn find<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(Some(error as &(dyn Error + 'static)), |&cause| {
        // An I/O error does not show what it wraps as its source.
        match cause.downcast_ref().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => cause.source(),
        }
    })
}
