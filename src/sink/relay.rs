//! A batch for an output binding, through an HTTP function of the same app.
//!
//! The host writes the outputs of a function after our answer and before its own, so its answer to
//! the caller of an HTTP function says whether they were written. Only a 200 with the token of this
//! very attempt is that answer: anything else may come from somebody who has written nothing.
//!
//! Nothing is tried twice in here: the host may be writing, and a caller that has gone does not stop
//! it. The rows are read again by the next tick.

pub(crate) mod wire;

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};

use super::{DeliveryFailure, FailureKind, Sink, Stance, Unaccepted, Verdict, retry_after};
use crate::clock::Clock;
use crate::config::RelayConfig;
use crate::config::secret::same;
use crate::model::envelope::Batch;
use wire::Receipt;

/// A receipt is far smaller; so much is read of what somebody else says.
const ANSWER_LIMIT: usize = 64 * 1024;

#[derive(Debug)]
pub struct RelaySink {
    name: String,
    config: RelayConfig,
    client: Client,
    clock: Arc<dyn Clock>,
}

impl RelaySink {
    #[must_use]
    pub fn new(name: &str, config: &RelayConfig, client: Client, clock: Arc<dyn Clock>) -> Self {
        Self {
            name: name.to_owned(),
            config: config.clone(),
            client,
            clock,
        }
    }

    async fn post(&self, messages: &[Vec<u8>], trace: Option<&str>) -> Result<(), DeliveryFailure> {
        let url = self.url()?;
        let body = wire::body(messages);
        if body.len() > wire::LARGEST_BODY {
            let reason = format!(
                "{self} is not posted {} bytes, because the host takes 100 MiB at most; make \
                 batch.max_bytes or batch.max_rows smaller",
                body.len()
            );
            return Err(DeliveryFailure::new(FailureKind::TooLarge, reason));
        }
        let receipt = Receipt {
            token: format!("{:032x}", self.clock.random()),
            count: messages.len(),
        };
        // The body is in one piece, so that it has a Content-Length: without one the host drops it.
        let mut request = self
            .client
            .post(url)
            .timeout(self.config.timeout)
            .header(CONTENT_TYPE, "application/json")
            .header("x-functions-key", self.config.key.clone())
            .header(wire::TOKEN, &receipt.token);
        if let Some(trace) = trace {
            request = request.header("traceparent", trace);
        }
        match request.body(body).send().await {
            Ok(response) => self.judge(response, &receipt).await,
            Err(error) => Err(self.judge_error(&error)),
        }
    }

    fn url(&self) -> Result<Url, DeliveryFailure> {
        let Some(app) = &self.config.app else {
            let reason = format!(
                "nothing was sent to {self}: WEBSITE_HOSTNAME is not set. The Functions host sets it to the \
                 address of the app; run the app under `dbtick dev`, `func start` or on Azure"
            );
            return Err(DeliveryFailure::new(FailureKind::Refused, reason));
        };
        let mut url = app.clone();
        url.set_path(&self.config.function.path);
        Ok(url)
    }

    async fn judge(&self, response: Response, receipt: &Receipt) -> Result<(), DeliveryFailure> {
        let status = response.status();
        let not_before = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| retry_after::parse(value, self.clock.now()));
        if status.is_success() {
            // The status alone is not an answer: it may be cut off, or somebody else's.
            let body = read_to_limit(response).await;
            let body = body.map_err(|error| self.judge_error(&error))?;
            let given: Option<Receipt> = serde_json::from_slice(&body).ok();
            let is_ours =
                |given: Receipt| same(&given.token, &receipt.token) && given.count == receipt.count;
            if status == StatusCode::OK && given.is_some_and(is_ours) {
                return Ok(());
            }
            let reason = format!(
                "{self} answered {status} without the receipt for this batch: something else answered in \
                 its place; look for a proxy, an authentication or another function at that address"
            );
            return Err(DeliveryFailure::new(FailureKind::Refused, reason));
        }
        Err(DeliveryFailure {
            reason: format!("{self} answered {status}{}", self.hint(status)),
            kind: kind(status),
            not_before,
        })
    }

    fn hint(&self, status: StatusCode) -> String {
        let key = &self.config.key_name;
        let name = &self.config.function.name;
        match status.as_u16() {
            401 | 403 => format!("; check that {key} is a key of the function {name}"),
            404 => "; is the function deployed and enabled, and its route what function.json and \
                    host.json say?"
                .to_owned(),
            400 => "; does another version of dbtick answer there?".to_owned(),
            413 => "; make batch.max_bytes or batch.max_rows smaller".to_owned(),
            500 => format!(
                "; its output binding {} was not written, or not wholly: the log of {name} says why",
                self.config.function.output
            ),
            300..=399 => "; redirects are not followed".to_owned(),
            _ => String::new(),
        }
    }

    fn judge_error(&self, error: &reqwest::Error) -> DeliveryFailure {
        let reason = if error.is_connect() {
            format!("{self} cannot be reached: {}", root_cause(error))
        } else if error.is_timeout() {
            let limit = self.config.timeout;
            format!("{self} did not answer within {limit:?}; it may have been written")
        } else {
            let cause = root_cause(error);
            format!("the exchange with {self} was cut off: {cause}; it may have been written")
        };
        DeliveryFailure::new(FailureKind::Passing, reason)
    }

    /// The messages that the binding can take, and the events whose message it never can.
    fn sorted(&self, batch: &Batch) -> (Vec<Vec<u8>>, Vec<Unaccepted>) {
        let most = self.config.function.largest_message.unwrap_or(usize::MAX);
        let mut messages = Vec::with_capacity(batch.len());
        let mut too_large = Vec::new();
        for (index, id) in batch.event_ids.iter().enumerate() {
            let message = batch.message(index);
            if message.len() <= most {
                messages.push(message);
                continue;
            }
            too_large.push(Unaccepted {
                id: *id,
                reason: format!(
                    "its message has {} bytes, and a message of the output {} has {most} at most",
                    message.len(),
                    self.config.function.output
                ),
                stance: Stance::Never,
            });
        }
        (messages, too_large)
    }
}

/// As errors name it: nothing of the address is secret.
impl std::fmt::Display for RelaySink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the relay {}", self.config.function.name)
    }
}

#[async_trait]
impl Sink for RelaySink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, batch: &Batch) -> Verdict {
        let (messages, too_large) = self.sorted(batch);
        if !messages.is_empty()
            && let Err(failure) = self.post(&messages, batch.trace.as_deref()).await
        {
            return Verdict::Failed(failure);
        }
        match too_large.is_empty() {
            true => Verdict::Acknowledged,
            false => Verdict::Partly(too_large),
        }
    }
}

fn kind(status: StatusCode) -> FailureKind {
    match status.as_u16() {
        // From the front end, where the host is not up yet, or no longer.
        408 | 429 | 502..=504 => FailureKind::Passing,
        500.. => FailureKind::Broken,
        413 => FailureKind::TooLarge,
        _ => FailureKind::Refused,
    }
}

async fn read_to_limit(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > ANSWER_LIMIT {
            break;
        }
    }
    Ok(body)
}

/// The innermost cause; outer ones repeat the URL.
fn root_cause(error: &reqwest::Error) -> String {
    let first = error as &(dyn Error + 'static);
    let causes = std::iter::successors(Some(first), |&cause| cause.source());
    causes.last().map_or_else(String::new, ToString::to_string)
}
