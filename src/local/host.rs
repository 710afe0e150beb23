//! The host itself: it puts the parts together, and takes them down in the real host's order.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::app::{AppDirectory, Environment, Trigger};
use super::command::{ExecutableNotFound, HandlerCommand};
use super::event::{Events, HostEvent, LogLevel, LogSource, Reporter, StopReason};
use super::handler::{HandlerState, Launch, Supervisor};
use super::http::{self, Front};
use super::invocation::{InvocationFailure, InvocationResult, Invoker};
use super::output::{OutputFault, Outputs};
use super::{guid, queue, timer};
use crate::clock::{Clock, SystemClock};

const DEFAULT_HTTP_PORT: u16 = 7071;
const DEFAULT_RESTART_BUDGET: u32 = 3;
const STOP_GRACE: Duration = Duration::from_secs(10);

/// What a caller may set; the defaults are the real host's.
#[derive(Clone)]
pub struct HostOptions {
    /// Stands in place of the executable that host.json names.
    pub executable: Option<PathBuf>,
    /// Added to the child's environment only; settings are read from the app's.
    pub extra_env: Environment,
    /// The error that makes the host give up; `None` is the real host's third.
    pub restart_budget: Option<u32>,
    /// Whether timers fire, and messages are taken from queues.
    pub timers: bool,
    /// The local port, 0 for a free one; `None` is `Host.LocalHttpPort`, else 7071.
    pub http_port: Option<u16>,
    /// The key of functions with `authLevel` function or admin; `None` makes one up.
    pub http_key: Option<String>,
    /// Keys that functions have besides, by their names.
    pub function_keys: BTreeMap<String, String>,
    /// Writes of output bindings that fail.
    pub output_faults: Vec<OutputFault>,
    /// Post without a length, as in Azure; Core Tools sends one.
    pub chunked: bool,
    /// Stands in place of `functionTimeout`.
    pub function_timeout: Option<Duration>,
    /// Where timers keep their status between runs of the host; without it none is past due.
    pub status_directory: Option<PathBuf>,
    /// Time and entropy.
    pub clock: Arc<dyn Clock>,
}

/// Without the key and the environment, which may hold secrets.
impl fmt::Debug for HostOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostOptions")
            .field("executable", &self.executable)
            .field("restart_budget", &self.restart_budget)
            .field("http_port", &self.http_port)
            .finish_non_exhaustive()
    }
}

impl Default for HostOptions {
    fn default() -> Self {
        HostOptions {
            executable: None,
            extra_env: Environment::new(),
            restart_budget: None,
            timers: true,
            http_port: None,
            http_key: None,
            function_keys: BTreeMap::new(),
            output_faults: Vec::new(),
            chunked: true,
            function_timeout: None,
            status_directory: None,
            clock: Arc::new(SystemClock),
        }
    }
}

/// Why the host did not start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No such executable.
    #[error(transparent)]
    Executable(#[from] ExecutableNotFound),
    /// The local port is taken.
    #[error(
        "port {port} cannot be opened; stop what uses it, or choose another (0 takes a free one)"
    )]
    Port {
        /// The port.
        port: u16,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// The handler will not become ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// It exited with 0, and the host does not restart it.
    #[error("the handler exited with code 0 and is not restarted")]
    Gone,
    /// The host has stopped.
    #[error("the host has stopped")]
    Stopped,
}

/// A running host. Dropping it kills the handler.
pub struct LocalHost {
    invoker: Arc<Invoker>,
    http_port: u16,
    http_key: Arc<str>,
    pid: watch::Receiver<Option<u32>>,
    stopped: watch::Receiver<Option<StopReason>>,
    stop_handler: CancellationToken,
    keeper: Option<JoinHandle<()>>,
}

impl fmt::Debug for LocalHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalHost")
            .field("http_port", &self.http_port)
            .finish_non_exhaustive()
    }
}

impl LocalHost {
    /// Starts the handler, the timers and the HTTP front; call it inside a tokio runtime.
    pub async fn start(app: AppDirectory, options: HostOptions) -> Result<LocalHost, HostError> {
        let clock = options.clock;
        let command = HandlerCommand::of(&app, options.executable)?;
        let port = options
            .http_port
            .or(app.local_http_port)
            .unwrap_or(DEFAULT_HTTP_PORT);
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(|source| HostError::Port { port, source })?;
        let http_port = listener.local_addr().map_or(port, |address| address.port());
        let handler_port =
            free_port(clock.as_ref()).map_err(|source| HostError::Port { port: 0, source })?;
        let authority: Arc<str> = format!("localhost:{http_port}").into();

        let reporter = Arc::new(Reporter::new());
        let (state_sender, state) = watch::channel(HandlerState::Starting);
        let (pid_sender, pid) = watch::channel(None);
        let (commands, command_queue) = mpsc::channel(16);
        let stop_handler = CancellationToken::new();
        let supervisor = Supervisor {
            launch: Launch {
                command,
                environment: child_environment(&app, &authority, options.extra_env),
                port: handler_port,
                initialization_timeout: app.initialization_timeout,
                restart_budget: options.restart_budget.unwrap_or(DEFAULT_RESTART_BUDGET),
            },
            clock: clock.clone(),
            reporter: reporter.clone(),
            state: state_sender,
            pid: pid_sender,
            commands: command_queue,
            stop: stop_handler.clone(),
        };
        let http_key = options
            .http_key
            .unwrap_or_else(|| guid::new(clock.random()))
            .into();
        let invoker = Arc::new(Invoker {
            function_timeout: options.function_timeout.or(app.function_timeout),
            outputs: Outputs::new(&app, options.output_faults, clock.clone()),
            app,
            clock,
            reporter,
            handler: state,
            commands,
            pid: pid.clone(),
            handler_port,
            chunked: options.chunked,
            status_directory: options.status_directory,
            stopping: CancellationToken::new(),
            abandon: CancellationToken::new(),
            never_ready: CancellationToken::new(),
            running: TaskTracker::new(),
        });
        let (stopped_sender, stopped) = watch::channel(None);
        let keeper = Keeper {
            invoker: invoker.clone(),
            supervisor: tokio::spawn(supervisor.run()),
            stop_handler: stop_handler.clone(),
            stopped: stopped_sender,
        };
        let front = Front {
            invoker: invoker.clone(),
            key: Arc::clone(&http_key),
            function_keys: Arc::new(options.function_keys),
            authority,
        };
        tokio::spawn(serve(listener, front));
        start_listeners(&invoker, options.timers);
        let keeper = Some(tokio::spawn(keeper.keep()));
        Ok(LocalHost {
            invoker,
            http_port,
            http_key,
            pid,
            stopped,
            stop_handler,
            keeper,
        })
    }

    /// One manual run, which may overlap a timer's own; it resolves when the invocation ends.
    pub async fn invoke(&self, function: &str) -> InvocationResult {
        let not_run = |why: String| InvocationResult {
            id: String::new(),
            attempts: 0,
            outcome: Err(InvocationFailure::NotRun(why)),
        };
        let Some(function) = self.invoker.app.function(function) else {
            return not_run(format!("there is no function '{function}'"));
        };
        let data = match &function.trigger {
            Trigger::Timer(timer) => timer::manual(timer),
            Trigger::Queue(_) => queue::manual(),
            Trigger::Http(_) => http::empty(format!("http://localhost:{}/", self.http_port)),
            Trigger::NotRunHere(why) => {
                return not_run(format!("'{}' is not run: {why}", function.name));
            }
        };
        self.invoker.invoke(function, data).await
    }

    /// SIGKILL, as a crash that counts; it resolves when the process is gone.
    pub async fn kill_handler(&self) {
        self.invoker.kill_handler(true).await;
    }

    /// The handler's process id, while there is one.
    pub fn handler_pid(&self) -> Option<u32> {
        *self.pid.borrow()
    }

    /// Resolves when the handler answers, with its process id.
    pub async fn wait_ready(&self) -> Result<u32, NotReady> {
        let mut state = self.invoker.handler.clone();
        let settled = state
            .wait_for(|state| !matches!(state, HandlerState::Starting))
            .await;
        match settled.as_deref() {
            Ok(HandlerState::Ready { pid, .. }) => Ok(*pid),
            Ok(HandlerState::Gone { .. }) => Err(NotReady::Gone),
            Ok(HandlerState::Starting | HandlerState::Stopped) | Err(_) => Err(NotReady::Stopped),
        }
    }

    /// The port of the HTTP functions.
    pub fn http_port(&self) -> u16 {
        self.http_port
    }

    /// The key that opens functions with `authLevel` function or admin.
    pub fn http_key(&self) -> &str {
        &self.http_key
    }

    /// What happens. The first listener hears everything since the start.
    pub fn events(&self) -> Events {
        self.invoker.reporter.listen()
    }

    /// Stops the timers, waits up to 10 s for running invocations, then kills the handler: the
    /// real host gives its handler no SIGTERM either.
    pub async fn shutdown(mut self) {
        let invoker = &self.invoker;
        invoker.reporter.report(HostEvent::ShuttingDown {
            reason: StopReason::Requested,
        });
        invoker.stopping.cancel();
        invoker.running.close();
        if tokio::time::timeout(STOP_GRACE, invoker.running.wait())
            .await
            .is_err()
        {
            let line = "invocations still ran after 10 s and are given up";
            invoker
                .reporter
                .log(LogSource::Host, LogLevel::Warning, line);
        }
        self.stop_handler.cancel();
        if let Some(keeper) = self.keeper.take() {
            // It only fails when the runtime is going down, and then the child goes with it.
            drop(keeper.await);
        }
    }

    /// Resolves when the host has stopped by itself, with the reason.
    pub async fn wait(&self) -> StopReason {
        let mut stopped = self.stopped.clone();
        let reason = stopped.wait_for(Option::is_some).await;
        reason
            .ok()
            .and_then(|reason| reason.clone())
            .unwrap_or(StopReason::Requested)
    }
}

impl Drop for LocalHost {
    /// The signal is sent here too: the process may end before the supervisor runs again.
    fn drop(&mut self) {
        self.invoker.stopping.cancel();
        self.stop_handler.cancel();
        let pid = self.handler_pid().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.filter(|pid| *pid > 0) {
            // An error means that it is gone.
            kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap_or_default();
        }
    }
}

/// Waits for the supervisor's end, whatever causes it, and takes the rest down.
struct Keeper {
    invoker: Arc<Invoker>,
    supervisor: JoinHandle<StopReason>,
    stop_handler: CancellationToken,
    stopped: watch::Sender<Option<StopReason>>,
}

impl Keeper {
    async fn keep(mut self) {
        let reason = tokio::select! {
            reason = &mut self.supervisor => reason.unwrap_or(StopReason::Requested),
            () = self.invoker.never_ready.cancelled() => {
                self.stop_handler.cancel();
                drop((&mut self.supervisor).await);
                StopReason::NeverReady
            }
        };
        if reason != StopReason::Requested {
            let reporter = &self.invoker.reporter;
            reporter.log(LogSource::Host, LogLevel::Error, reason.to_string());
            reporter.report(HostEvent::ShuttingDown {
                reason: reason.clone(),
            });
        }
        self.invoker.stopping.cancel();
        self.invoker.abandon.cancel();
        self.invoker.running.close();
        self.invoker.running.wait().await;
        self.stopped.send_replace(Some(reason));
    }
}

async fn serve(listener: tokio::net::TcpListener, front: Front) {
    let closed = front.invoker.abandon.clone();
    let reporter = front.invoker.reporter.clone();
    let served =
        axum::serve(listener, http::router(front)).with_graceful_shutdown(closed.cancelled_owned());
    if let Err(error) = served.await {
        reporter.log(
            LogSource::Host,
            LogLevel::Error,
            format!("the HTTP front ended: {error}"),
        );
    }
}

fn start_listeners(invoker: &Arc<Invoker>, timers: bool) {
    let warn = |line: String| {
        invoker
            .reporter
            .log(LogSource::Host, LogLevel::Warning, line)
    };
    if invoker.app.environment.contains_key("WEBSITE_TIME_ZONE") {
        warn("WEBSITE_TIME_ZONE is set, but the local host's timers run in UTC".to_owned());
    }
    for function in &invoker.app.functions {
        match &function.trigger {
            _ if function.disabled => {
                let line = format!("function {} is disabled", function.name);
                invoker
                    .reporter
                    .log(LogSource::Host, LogLevel::Information, line);
            }
            Trigger::NotRunHere(why) => {
                warn(format!("function {} is not run: {why}", function.name))
            }
            Trigger::Timer(timer) if timers => {
                tokio::spawn(timer::listen(
                    invoker.clone(),
                    function.clone(),
                    timer.clone(),
                ));
            }
            Trigger::Queue(trigger) if timers => {
                tokio::spawn(queue::listen(
                    invoker.clone(),
                    function.clone(),
                    trigger.clone(),
                ));
            }
            Trigger::Timer(_) | Trigger::Queue(_) | Trigger::Http(_) => {}
        }
    }
}

fn child_environment(app: &AppDirectory, authority: &str, extra: Environment) -> Environment {
    let mut environment = app.environment.clone();
    environment.insert("WEBSITE_HOSTNAME".to_owned(), authority.to_owned());
    environment.insert(
        "FUNCTIONS_APP_ROOT_PATH".to_owned(),
        app.root.display().to_string(),
    );
    environment.extend(extra);
    environment
}

/// Below the system's ephemeral range when possible, so that no outgoing connection takes the port
/// while the handler restarts.
fn free_port(clock: &dyn Clock) -> std::io::Result<u16> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let candidates = (0..16).map(|_| 10_240 + (clock.random() % 22_000) as u16);
    for port in candidates {
        if bind(port).is_ok() {
            return Ok(port);
        }
    }
    Ok(bind(0)?.local_addr()?.port())
}
