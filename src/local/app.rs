//! A Functions app directory as the host sees it: host.json, one function.json per folder,
//! local.settings.json, and the app settings that override them.
//!
//! Everything is parsed here and once; what leaves this module cannot be wrong. All faults are
//! collected, so one run shows them all.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::retry::RetryPolicy;
use crate::schedule::Schedule;

mod fault;
mod function_json;
mod host_json;
mod json_file;
mod local_settings;
mod route;

use crate::config::{Fault, Settings};
pub use fault::AppError;
pub use route::Route;

/// The environment of a process: what the host reads settings from, and what its child inherits.
pub type Environment = BTreeMap<String, String>;

/// A Functions app, read and checked.
#[derive(Clone)]
pub struct AppDirectory {
    /// The app root, absolute.
    pub root: PathBuf,
    /// The environment given, plus `Values` of local.settings.json where it had no such name.
    pub environment: Environment,
    /// `customHandler.description`.
    pub handler: HandlerDescription,
    /// `functionTimeout`; `None` is unlimited.
    pub function_timeout: Option<Duration>,
    /// How long the handler may take to open its port.
    pub initialization_timeout: Duration,
    /// `extensions.http.routePrefix`, without slashes.
    pub route_prefix: String,
    /// `extensions.queues.messageEncoding`, which is base64 unless it is `none`.
    pub queue_messages_in_base64: bool,
    /// `extensions.queues`, about triggers.
    pub queues: QueueOptions,
    /// `Host.LocalHttpPort`.
    pub local_http_port: Option<u16>,
    /// In the order of their names.
    pub functions: Vec<Function>,
}

/// `customHandler.description`, before paths are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerDescription {
    /// `defaultExecutablePath`.
    pub executable: String,
    /// `defaultWorkerPath`, a first argument that may be a file of the app.
    pub worker_path: Option<String>,
    /// `workerDirectory`, where relative paths are looked for.
    pub worker_directory: Option<String>,
    /// `workingDirectory`.
    pub working_directory: Option<String>,
    /// `arguments`.
    pub arguments: Vec<String>,
    /// `workerArguments`.
    pub worker_arguments: Vec<String>,
}

/// One function of the app.
#[derive(Debug, Clone)]
pub struct Function {
    /// The directory's name, and the path that the host posts to.
    pub name: String,
    /// The trigger binding's name: the key in `Data`.
    pub binding: String,
    /// What fires it.
    pub trigger: Trigger,
    /// Its output bindings.
    pub outputs: Vec<OutputBinding>,
    /// Its `retry` policy.
    pub retry: Option<RetryPolicy>,
    /// Whether an app setting disables it.
    pub disabled: bool,
}

/// What fires a function.
#[derive(Debug, Clone)]
pub enum Trigger {
    /// `timerTrigger`.
    Timer(TimerTrigger),
    /// `httpTrigger`.
    Http(HttpTrigger),
    /// `queueTrigger`.
    Queue(QueueOutput),
    /// A trigger or an input that the local host lacks; it says which.
    NotRunHere(String),
}

/// `timerTrigger`.
#[derive(Debug, Clone)]
pub struct TimerTrigger {
    /// When it fires.
    pub schedule: Schedule,
    /// Whether it also fires when the host starts.
    pub run_on_startup: bool,
    /// Whether the host keeps its status; never for schedules below a minute.
    pub use_monitor: bool,
}

/// `httpTrigger`.
#[derive(Debug, Clone)]
pub struct HttpTrigger {
    /// Below the route prefix.
    pub route: Route,
    /// Upper case; empty means every method.
    pub methods: Vec<String>,
    /// Who may call it.
    pub auth_level: AuthLevel,
}

/// `authLevel` of an HTTP trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthLevel {
    /// Everybody.
    Anonymous,
    /// Whoever holds the key.
    Function,
    /// Whoever holds the key: the local host has only one.
    Admin,
}

/// An output binding: where a handler's `Outputs.<name>` goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputBinding {
    /// `$return` takes `ReturnValue`.
    pub name: String,
    /// Its `type`, as written.
    pub kind: String,
    /// Where its messages go, if it is a queue.
    pub queue: Option<QueueOutput>,
}

/// `queue` as an output, or `queueTrigger`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOutput {
    /// `queueName`, resolved and lower-cased.
    pub queue: String,
    /// `connection`: the name of the storage account's app settings.
    pub connection: String,
}

/// How messages are taken from queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueOptions {
    /// `batchSize`: how many are asked for at once.
    pub batch_size: u16,
    /// `newBatchThreshold`: more are asked for when no more than so many are being worked on.
    pub new_batch_threshold: u16,
    /// `maxDequeueCount`: after so many failures a message goes to the poison queue.
    pub max_dequeue_count: u16,
    /// `visibilityTimeout`: how long a message whose function failed is hidden.
    pub visibility_timeout: Duration,
}

/// Without the environment: its values may be secrets.
impl fmt::Debug for AppDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppDirectory")
            .field("root", &self.root)
            .field("functions", &self.functions)
            .finish_non_exhaustive()
    }
}

impl OutputBinding {
    /// Whether it answers an HTTP caller.
    pub fn is_http(&self) -> bool {
        self.kind.eq_ignore_ascii_case("http")
    }
}

/// `Values` of local.settings.json alone; none when there is no such file.
pub fn local_values(root: &Path) -> Result<Environment, AppError> {
    let mut faults = Vec::new();
    let local = local_settings::read(root, &mut faults);
    match faults.is_empty() {
        true => Ok(local.values),
        false => Err(AppError { faults }),
    }
}

impl AppDirectory {
    /// Reads the app under `root` with the settings in `environment`.
    pub fn read(root: &Path, environment: Environment) -> Result<AppDirectory, AppError> {
        let mut faults = Vec::new();
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let local = local_settings::read(&root, &mut faults);
        let mut merged = local.values;
        merged.extend(environment);
        let settings = Settings::from_iter(&merged);
        let host = host_json::read(&root, &settings, &mut faults);
        let functions = function_json::read_all(&root, &settings, &mut faults);
        if let Some(host) = &host {
            host.refuse_forwarding(&root, &functions, &mut faults);
        }
        match host {
            Some(host) if faults.is_empty() => Ok(AppDirectory {
                root,
                environment: merged,
                handler: host.handler,
                function_timeout: host.function_timeout,
                initialization_timeout: host.initialization_timeout,
                route_prefix: host.route_prefix,
                queue_messages_in_base64: host.queue_messages_in_base64,
                queues: host.queues,
                local_http_port: local.http_port,
                functions,
            }),
            _ => Err(AppError { faults }),
        }
    }

    /// The function of that name; the host compares names without case.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions
            .iter()
            .find(|function| function.name.eq_ignore_ascii_case(name))
    }
}
