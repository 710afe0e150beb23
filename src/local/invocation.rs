//! One invocation: wait for the handler, post, read the answer, retry, time out.
//!
//! An invocation runs in a task of its own: a caller that goes away does not stop it, as in the
//! host. When `functionTimeout` expires and the call is still open two seconds later, the handler
//! process is killed, and every other call in it dies too.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::{self, Reply};
use super::app::{AppDirectory, Function};
use super::envelope::{self, Attempt, RetryContext, TriggerData};
use super::event::{HostEvent, LogLevel, LogSource, Reporter};
use super::guid;
use super::handler::{Command, HandlerState};
use super::output::Outputs;
use crate::clock::Clock;

/// The version that the local host claims to be.
pub const HOST_VERSION: &str = "4.1037.0.0";
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);

/// How an invocation ended.
#[derive(Debug, Clone)]
pub struct InvocationResult {
    /// The invocation id, the same for all attempts.
    pub id: String,
    /// One, plus the retries.
    pub attempts: u32,
    /// The last attempt's answer or failure.
    pub outcome: Result<Reply, InvocationFailure>,
}

impl InvocationResult {
    /// Whether the last attempt succeeded.
    pub fn succeeded(&self) -> bool {
        self.outcome.is_ok()
    }
}

/// Why an invocation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvocationFailure {
    /// No answer: refused, reset, or the handler died.
    #[error("the handler gave no answer: {0}")]
    NoAnswer(String),
    /// Not 2xx; the body is discarded.
    #[error("the handler answered with status {0}")]
    Status(u16),
    /// 2xx, but not what the protocol asks for.
    #[error("Invalid HttpResponseMessage: {0}")]
    InvalidResponse(String),
    /// A value for a binding that is not written here.
    #[error(
        "the handler returned a value for the output '{binding}' of type '{kind}', and the local host does not write this binding type yet; use Core Tools for it"
    )]
    OutputNotWritten {
        /// The binding's name.
        binding: String,
        /// Its type.
        kind: String,
    },
    /// A binding was not written, or not wholly.
    #[error("the output '{binding}' was not written: {why}")]
    OutputFailed {
        /// The binding's name.
        binding: String,
        /// The reason, without what was to be written.
        why: String,
    },
    /// `functionTimeout` expired.
    #[error("Timeout value of {0:?} was exceeded by the function")]
    TimedOut(Duration),
    /// No handler within four initialization time-outs.
    #[error("the handler did not become ready")]
    NeverReady,
    /// The host stops.
    #[error("the host is stopping")]
    HostStopping,
    /// There is no such function, or the local host cannot run it.
    #[error("{0}")]
    NotRun(String),
}

/// What every invocation needs.
#[derive(Debug)]
pub(super) struct Invoker {
    pub(super) app: AppDirectory,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reporter: Arc<Reporter>,
    pub(super) handler: watch::Receiver<HandlerState>,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) pid: watch::Receiver<Option<u32>>,
    pub(super) handler_port: u16,
    pub(super) chunked: bool,
    pub(super) outputs: Outputs,
    pub(super) status_directory: Option<std::path::PathBuf>,
    pub(super) function_timeout: Option<Duration>,
    /// Timers and retries end.
    pub(super) stopping: CancellationToken,
    /// Running invocations are given up.
    pub(super) abandon: CancellationToken,
    /// An invocation found no handler for too long.
    pub(super) never_ready: CancellationToken,
    pub(super) running: TaskTracker,
}

impl Invoker {
    /// Runs to the end even when the caller goes away.
    pub(super) async fn invoke(
        self: &Arc<Self>,
        function: &Function,
        data: TriggerData,
    ) -> InvocationResult {
        let id = guid::new(self.clock.random());
        let invoker = Arc::clone(self);
        let (function, task_id) = (function.clone(), id.clone());
        let task = self
            .running
            .spawn(async move { invoker.run(&function, data, task_id).await });
        task.await.unwrap_or_else(|error| InvocationResult {
            id,
            attempts: 1,
            outcome: Err(InvocationFailure::NotRun(error.to_string())),
        })
    }

    async fn run(&self, function: &Function, data: TriggerData, id: String) -> InvocationResult {
        let started = self.clock.monotonic();
        self.reporter.report(HostEvent::InvocationStarted {
            function: function.name.clone(),
            id: id.clone(),
        });
        let (attempts, outcome) = tokio::select! {
            ended = self.attempts(function, &data, &id) => ended,
            () = self.abandon.cancelled() => (1, Err(InvocationFailure::HostStopping)),
        };
        if let Err(failure) = &outcome {
            let line = format!("{} failed: {failure}", function.name);
            self.reporter
                .log(LogSource::Invocation(id.clone()), LogLevel::Error, line);
        }
        let result = InvocationResult {
            id: id.clone(),
            attempts,
            outcome,
        };
        self.reporter.report(HostEvent::InvocationEnded {
            function: function.name.clone(),
            id,
            result: result.clone(),
            duration: self.clock.monotonic() - started,
        });
        result
    }

    async fn attempts(
        &self,
        function: &Function,
        data: &TriggerData,
        id: &str,
    ) -> (u32, Result<Reply, InvocationFailure>) {
        let mut last_error: Option<String> = None;
        for attempt in 1.. {
            let retry = function.retry.map(|policy| RetryContext {
                count: attempt - 1,
                max: policy.max_retry_count,
                error: last_error.as_deref(),
            });
            let body = envelope::body(
                function,
                data,
                &Attempt {
                    now: self.clock.now(),
                    guid: guid::new(self.clock.random()),
                    retry,
                },
            );
            let outcome = self.attempt(function, body, id).await;
            let Err(failure) = &outcome else {
                return (attempt, outcome);
            };
            let pause = function
                .retry
                .and_then(|policy| policy.pause(attempt, self.clock.random()));
            let Some(pause) = pause else {
                return (attempt, outcome);
            };
            last_error = Some(failure.to_string());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stopping.cancelled() => return (attempt, outcome),
            }
        }
        (0, Err(InvocationFailure::HostStopping))
    }

    async fn attempt(
        &self,
        function: &Function,
        body: String,
        id: &str,
    ) -> Result<Reply, InvocationFailure> {
        let call = self.call(function, body, id);
        tokio::pin!(call);
        let Some(limit) = self.function_timeout else {
            return call.await;
        };
        if let Ok(outcome) = tokio::time::timeout(limit, &mut call).await {
            return outcome;
        }
        if tokio::time::timeout(TIMEOUT_GRACE, &mut call)
            .await
            .is_err()
        {
            self.kill_handler(false).await;
        }
        Err(InvocationFailure::TimedOut(limit))
    }

    async fn call(
        &self,
        function: &Function,
        body: String,
        id: &str,
    ) -> Result<Reply, InvocationFailure> {
        let client = self.handler_client().await?;
        let no_answer = |error: reqwest::Error| InvocationFailure::NoAnswer(with_causes(&error));
        let body = if self.chunked {
            reqwest::Body::wrap_stream(stream::iter([Ok::<_, std::io::Error>(body)]))
        } else {
            reqwest::Body::from(body)
        };
        let response = client
            .post(format!(
                "http://127.0.0.1:{}/{}",
                self.handler_port, function.name
            ))
            .header("X-Azure-Functions-HostVersion", HOST_VERSION)
            .header("X-Azure-Functions-InvocationId", id)
            .header("User-Agent", format!("Azure-Functions-Host/{HOST_VERSION}"))
            .header("Content-Type", "application/json; charset=utf-8")
            .body(body)
            .send()
            .await
            .map_err(no_answer)?;
        let status = response.status().as_u16();
        let content_type = response.headers().get("content-type").cloned();
        let content_type = content_type.as_ref().and_then(|value| value.to_str().ok());
        let bytes = response.bytes().await.map_err(no_answer)?;
        match answer::read(status, content_type, &bytes, &function.outputs)? {
            None => std::future::pending().await,
            Some(reply) => {
                for line in &reply.logs {
                    self.reporter.log(
                        LogSource::Invocation(id.to_owned()),
                        LogLevel::Information,
                        line,
                    );
                }
                self.outputs.write(function, &reply).await?;
                Ok(reply)
            }
        }
    }

    async fn handler_client(&self) -> Result<reqwest::Client, InvocationFailure> {
        let mut handler = self.handler.clone();
        let settled = handler.wait_for(|state| !matches!(state, HandlerState::Starting));
        let state = match tokio::time::timeout(4 * self.app.initialization_timeout, settled).await {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) => return Err(InvocationFailure::HostStopping),
            Err(_) => {
                self.never_ready.cancel();
                return Err(InvocationFailure::NeverReady);
            }
        };
        match state {
            HandlerState::Ready { client, .. } | HandlerState::Gone { client } => Ok(client),
            HandlerState::Starting | HandlerState::Stopped => Err(InvocationFailure::HostStopping),
        }
    }

    /// Returns when the process is gone.
    pub(super) async fn kill_handler(&self, counted: bool) {
        let (done, gone) = oneshot::channel();
        let pid = *self.pid.borrow();
        if self
            .commands
            .send(Command::Kill { pid, counted, done })
            .await
            .is_ok()
        {
            // A dropped answer means that the supervisor has ended, and its child with it.
            drop(gone.await);
        }
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
