//! What the local host reports while it runs.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::broadcast;

use super::invocation::InvocationResult;

const KEPT: usize = 4096;

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum HostEvent {
    /// A handler process was started.
    HandlerStarted {
        /// Its process id.
        pid: u32,
        /// The port that it is to open.
        port: u16,
    },
    /// The handler answered the readiness probe.
    HandlerReady {
        /// Its process id.
        pid: u32,
    },
    /// A handler process ended.
    HandlerExited {
        /// Its process id.
        pid: u32,
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// Whether the restart budget counts it.
        counted: bool,
        /// At most three last lines of its stderr.
        last_errors: Vec<String>,
    },
    /// An invocation was accepted.
    InvocationStarted {
        /// The function's name.
        function: String,
        /// The invocation id.
        id: String,
    },
    /// An invocation ended, after its retries.
    InvocationEnded {
        /// The function's name.
        function: String,
        /// The invocation id.
        id: String,
        /// How it ended.
        result: InvocationResult,
        /// From acceptance to end.
        duration: Duration,
    },
    /// A line of log.
    Log {
        /// Who wrote it.
        source: LogSource,
        /// How bad it is.
        level: LogLevel,
        /// The line.
        line: String,
    },
    /// The host stops.
    ShuttingDown {
        /// Why.
        reason: StopReason,
    },
    /// The listener was too slow, and this many events are gone.
    Missed(u64),
}

/// Who wrote a line of log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogSource {
    /// The handler's stdout.
    Stdout,
    /// The handler's stderr.
    Stderr,
    /// `Logs` of the answer to this invocation id.
    Invocation(String),
    /// The local host.
    Host,
}

/// The host's log levels that occur here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Information.
    Information,
    /// Warning.
    Warning,
    /// Error.
    Error,
}

/// Why the host stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// Somebody called `shutdown`, or dropped the host.
    #[error("the host was asked to stop")]
    Requested,
    /// The restart budget is spent.
    #[error(
        "Exceeded http worker restart retry count. Shutting down Functions Host. Last error: {0}"
    )]
    TooManyErrors(String),
    /// An invocation waited four initialization time-outs for a handler.
    #[error("the handler did not become ready; shutting down Functions Host")]
    NeverReady,
}

/// A listener to the events of one host.
#[derive(Debug)]
pub struct Events(broadcast::Receiver<HostEvent>);

impl Events {
    /// The next event; `None` when the host is gone.
    pub async fn next(&mut self) -> Option<HostEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(HostEvent::Missed(count)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// Where events are reported.
#[derive(Debug)]
pub(super) struct Reporter {
    sender: broadcast::Sender<HostEvent>,
    first: Mutex<Option<Events>>,
}

impl Reporter {
    pub(super) fn new() -> Reporter {
        let (sender, receiver) = broadcast::channel(KEPT);
        Reporter {
            sender,
            first: Mutex::new(Some(Events(receiver))),
        }
    }

    /// The first listener hears everything from the start.
    pub(super) fn listen(&self) -> Events {
        let first = self.first.lock().ok().and_then(|mut first| first.take());
        first.unwrap_or_else(|| Events(self.sender.subscribe()))
    }

    /// Nobody listening is no fault.
    pub(super) fn report(&self, event: HostEvent) {
        drop(self.sender.send(event));
    }

    pub(super) fn log(&self, source: LogSource, level: LogLevel, line: impl Into<String>) {
        self.report(HostEvent::Log {
            source,
            level,
            line: line.into(),
        });
    }
}
