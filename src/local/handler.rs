//! The life of the handler process: start, readiness, exit codes, restarts, end.
//!
//! One supervisor task owns the child; everybody else sees its [`HandlerState`] and sends it
//! [`Command`]s. The child never outlives the supervisor: it is killed on every way out, and
//! `kill_on_drop` covers a runtime that is torn down. There is no back-off between restarts, as in
//! the real host.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Child;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::app::Environment;
use super::client;
use super::command::HandlerCommand;
use super::event::{HostEvent, LogLevel, LogSource, Reporter, StopReason};
use super::guid;
use crate::clock::Clock;

mod budget;
mod console;

use budget::ErrorBudget;
use console::Console;

const POLL: Duration = Duration::from_millis(25);
const INTENTIONAL_RESTART: i32 = 200;

/// What invocations need to know of the handler.
#[derive(Debug, Clone)]
pub(super) enum HandlerState {
    /// No process, or one that has not answered yet.
    Starting,
    /// It answers.
    Ready { pid: u32, client: reqwest::Client },
    /// It exited with 0 and is not restarted: calls are refused by the network, as in the host.
    Gone { client: reqwest::Client },
    /// The supervisor has ended.
    Stopped,
}

/// What the supervisor is told.
#[derive(Debug)]
pub(super) enum Command {
    /// SIGKILL now; answered when the process is gone.
    /// Nothing happens when that process is gone already.
    Kill {
        pid: Option<u32>,
        counted: bool,
        done: oneshot::Sender<()>,
    },
}

/// How to start a handler.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) command: HandlerCommand,
    pub(super) environment: Environment,
    pub(super) port: u16,
    pub(super) initialization_timeout: Duration,
    pub(super) restart_budget: u32,
}

/// The owner of the child.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) launch: Launch,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reporter: Arc<Reporter>,
    pub(super) state: watch::Sender<HandlerState>,
    pub(super) pid: watch::Sender<Option<u32>>,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) stop: CancellationToken,
}

enum End {
    Stopped,
    Clean,
    Restart,
    Error(String),
}

enum Cause {
    Exited(std::io::Result<ExitStatus>),
    NeverReady,
    Killed {
        counted: bool,
        done: oneshot::Sender<()>,
    },
    Stop,
}

impl Supervisor {
    /// Runs handlers one after the other until told to stop or the budget is spent.
    pub(super) async fn run(mut self) -> StopReason {
        let mut budget = ErrorBudget::new(self.launch.restart_budget);
        let reason = loop {
            match self.one_life().await {
                End::Stopped => break StopReason::Requested,
                End::Clean => break self.stay_gone().await,
                End::Restart => {}
                End::Error(message) => {
                    if budget.is_spent_by_error_at(self.clock.monotonic()) {
                        break StopReason::TooManyErrors(message);
                    }
                    self.reporter.log(LogSource::Host, LogLevel::Error, message);
                    // An executable that cannot start must not keep the runtime busy.
                    tokio::time::sleep(POLL).await;
                }
            }
        };
        self.state.send_replace(HandlerState::Stopped);
        reason
    }

    async fn one_life(&mut self) -> End {
        self.state.send_replace(HandlerState::Starting);
        if self.stop.is_cancelled() {
            return End::Stopped;
        }
        let (mut child, client) = match self.spawn() {
            Ok(started) => started,
            Err(message) => return End::Error(message),
        };
        let pid = child.id().unwrap_or_default();
        self.pid.send_replace(Some(pid));
        self.reporter.report(HostEvent::HandlerStarted {
            pid,
            port: self.launch.port,
        });
        let console = Console::attach(&mut child, &self.reporter);
        let cause = self.until_the_end(&mut child, pid, &client).await;
        let status = match &cause {
            Cause::Exited(Ok(status)) => Some(*status),
            _ => kill(&mut child).await,
        };
        self.pid.send_replace(None);
        let last_errors = console.finish().await;
        let message = last_errors.join("\n");
        let end = match cause {
            Cause::Stop => End::Stopped,
            Cause::NeverReady => End::Error(format!(
                "the handler did not open port {} within {:?}. {message}",
                self.launch.port, self.launch.initialization_timeout
            )),
            Cause::Killed { counted: false, .. } => End::Restart,
            Cause::Killed { .. } | Cause::Exited(_) => ended(status, &message),
        };
        match &end {
            End::Clean => self.state.send_replace(HandlerState::Gone { client }),
            _ => self.state.send_replace(HandlerState::Starting),
        };
        self.reporter.report(HostEvent::HandlerExited {
            pid,
            code: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
            counted: matches!(end, End::Error(_)),
            last_errors,
        });
        if let Cause::Killed { done, .. } = cause {
            acknowledge(done);
        }
        end
    }

    async fn until_the_end(
        &mut self,
        child: &mut Child,
        pid: u32,
        client: &reqwest::Client,
    ) -> Cause {
        let ready = tokio::time::timeout(
            self.launch.initialization_timeout,
            answers(client.clone(), self.launch.port),
        );
        tokio::pin!(ready);
        let mut waiting = true;
        loop {
            tokio::select! {
                status = child.wait() => return Cause::Exited(status),
                () = self.stop.cancelled() => return Cause::Stop,
                command = self.commands.recv() => match command {
                    Some(Command::Kill { pid: Some(meant), counted, done }) if meant == pid => {
                        return Cause::Killed { counted, done };
                    }
                    Some(Command::Kill { done, .. }) => acknowledge(done),
                    None => return Cause::Stop,
                },
                outcome = &mut ready, if waiting => {
                    if outcome.is_err() {
                        return Cause::NeverReady;
                    }
                    waiting = false;
                    self.reporter.report(HostEvent::HandlerReady { pid });
                    self.state.send_replace(HandlerState::Ready { pid, client: client.clone() });
                }
            }
        }
    }

    async fn stay_gone(&mut self) -> StopReason {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return StopReason::Requested,
                command = self.commands.recv() => match command {
                    Some(Command::Kill { done, .. }) => acknowledge(done),
                    None => return StopReason::Requested,
                },
            }
        }
    }

    fn spawn(&self) -> Result<(Child, reqwest::Client), String> {
        let command = &self.launch.command;
        let port = self.launch.port.to_string();
        let worker = guid::new(self.clock.random());
        let child = tokio::process::Command::new(&command.executable)
            .args(&command.arguments)
            .current_dir(&command.directory)
            .env_clear()
            .envs(&self.launch.environment)
            .env("FUNCTIONS_CUSTOMHANDLER_PORT", &port)
            .env("FUNCTIONS_HTTPWORKER_PORT", &port)
            .env("FUNCTIONS_CUSTOMHANDLER_WORKER_ID", &worker)
            .env("FUNCTIONS_HTTPWORKER_ID", &worker)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                format!(
                    "{} cannot be started: {error}",
                    command.executable.display()
                )
            })?;
        let client = client::new().map_err(|error| format!("no HTTP client: {error}"))?;
        Ok((child, client))
    }
}

/// The caller may have gone meanwhile.
fn acknowledge(done: oneshot::Sender<()>) {
    done.send(()).unwrap_or_default();
}

async fn kill(child: &mut Child) -> Option<ExitStatus> {
    // An error means that it has exited already, which `wait` tells.
    drop(child.start_kill());
    child.wait().await.ok()
}

fn ended(status: Option<ExitStatus>, message: &str) -> End {
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(0), _)) => End::Clean,
        Some((Some(INTENTIONAL_RESTART), _)) => End::Restart,
        Some((Some(code), _)) => {
            End::Error(format!("the handler exited with code {code}. {message}"))
        }
        Some((_, Some(signal))) => {
            End::Error(format!("signal {signal} ended the handler. {message}"))
        }
        _ => End::Error(format!("the handler ended. {message}")),
    }
}

/// Any HTTP answer is ready, and so is any fault past connecting.
async fn answers(client: reqwest::Client, port: u16) {
    let url = format!("http://127.0.0.1:{port}/");
    loop {
        match client.get(&url).send().await {
            Err(error) if error.is_connect() => tokio::time::sleep(POLL).await,
            _ => return,
        }
    }
}
