//! A batch as one HTTP POST. A 2xx answer acknowledges it; everything else does not.
//!
//! Redirects are never followed: the address comes from configuration alone. An attempt that timed
//! out is not repeated inside the tick, because the receiver may be working on it: the rows are
//! read again by the next tick. Errors never quote the answer's body, which may echo row data.

mod body;
mod client;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};

use super::{DeliveryFailure, FailureKind, Sink, Verdict, retry_after, signature};
use crate::azure::Azure;
use crate::azure::identity::{Credential, IdentityError};
use crate::clock::Clock;
use crate::config::secret::Secret;
use crate::config::{Authorization, WebhookConfig};
use crate::model::envelope::Batch;

use client::RefusedAddress;
pub use client::{ClientError, client};

/// Answers are read to here, so that the connection can be used again; longer ones cost theirs.
const ANSWER_LIMIT: usize = 64 * 1024;
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
        let config = &self.config;
        let client = match &self.client {
            Ok(client) => client,
            Err(error) => {
                let reason = format!("nothing was sent to {}: {error}", config.url);
                return give_up(FailureKind::Refused, reason);
            }
        };
        let mut request = client
            .post(config.url.expose().clone())
            .timeout(config.timeout)
            .header(CONTENT_TYPE, config.envelope.content_type())
            .header("idempotency-key", batch.id.as_str())
            .header("webhook-id", batch.id.as_str())
            .headers(config.headers.clone());
        match self.authorization().await {
            Ok(Some(value)) => request = request.header(AUTHORIZATION, value),
            Ok(None) => {}
            Err(attempt) => return attempt,
        }
        let now = self.clock.now();
        if config.gzip {
            request = request.header(CONTENT_ENCODING, "gzip");
        }
        if let Some(signature) = signature::sign(&config.signing, batch.id.as_str(), now, body) {
            request = request
                .header("webhook-timestamp", signature.timestamp)
                .header("webhook-signature", signature.value);
        }
        match request.body(body.clone()).send().await {
            Ok(response) => self.judge(response).await,
            Err(error) => self.judge_error(&error),
        }
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

    async fn judge(&self, response: Response) -> Attempt {
        let status = response.status();
        let not_before = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| retry_after::parse(value, self.clock.now()));
        if let Err(error) = read_to_limit(response).await
            && status.is_success()
        {
            // The status alone is not an answer: it was cut off.
            return self.judge_error(&error);
        }
        if status.is_success() {
            return Attempt::Acknowledged;
        }
        let failure = DeliveryFailure {
            reason: format!("{} answered {status}{}", self.config.url, hint(status)),
            kind: kind(status),
            not_before,
        };
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            Attempt::TryAgain(failure)
        } else {
            Attempt::GiveUp(failure)
        }
    }

    fn judge_error(&self, error: &reqwest::Error) -> Attempt {
        let url = &self.config.url;
        if let Some(refused) = find::<RefusedAddress>(error) {
            let reason = format!("{url} is not connected to: {refused}");
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

    /// Doubles, with up to half of it taken off at random, so that instances do not march in step.
    fn pause(&self, attempt: u32) -> Duration {
        let full = FIRST_PAUSE.saturating_mul(1 << attempt.min(10));
        let jitter = u32::try_from(self.clock.random() % 500).unwrap_or(0);
        full.min(LONGEST_PAUSE) * (1000 - jitter) / 1000
    }
}

enum Attempt {
    Acknowledged,
    TryAgain(DeliveryFailure),
    GiveUp(DeliveryFailure),
}

fn give_up(kind: FailureKind, reason: String) -> Attempt {
    Attempt::GiveUp(DeliveryFailure::new(kind, reason))
}

fn kind(status: StatusCode) -> FailureKind {
    match status.as_u16() {
        408 | 429 | 503 => FailureKind::Passing,
        500.. => FailureKind::Broken,
        410 => FailureKind::Gone,
        413 => FailureKind::TooLarge,
        400 | 415 | 422 => FailureKind::Rejected,
        _ => FailureKind::Refused,
    }
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
                Attempt::Acknowledged => return Verdict::Acknowledged,
                Attempt::GiveUp(failure) => return Verdict::Failed(failure),
                Attempt::TryAgain(failure) => failure,
            };
            if attempt >= self.config.attempts || failure.not_before.is_some() {
                return Verdict::Failed(failure);
            }
            tokio::time::sleep(self.pause(attempt - 1)).await;
        }
        unreachable!("the loop ends by returning")
    }
}

async fn read_to_limit(mut response: Response) -> Result<(), reqwest::Error> {
    let mut read = 0;
    while let Some(chunk) = response.chunk().await? {
        read += chunk.len();
        if read > ANSWER_LIMIT {
            break;
        }
    }
    Ok(())
}

fn hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => "; redirects are not followed: configure the final address",
        401 | 403 => "; check the receiver's key or token",
        404 => "; check the webhook's path",
        413 => "; make batch.max_bytes or batch.max_rows smaller",
        _ => "",
    }
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
        cause.source()
    })
}
