//! The local Functions host: runs an app directory without Core Tools, by the real host's protocol.
//!
//! It stands behind `dbtick dev` and `dbtick demo`, and is the host in tests. The reference is the
//! source of host 4.1037; **this host has not been compared with the real one by running both**.
//!
//! | where | real host | here |
//! |---|---|---|
//! | executable | from host.json only | looser: the caller may put another in its place |
//! | executable not found | three failed starts, then the host stops | stricter: `start` fails |
//! | faulty function.json | that function is left out | stricter: every fault is shown and nothing starts |
//! | comments in JSON files | accepted | stricter: refused |
//! | storage | `AzureWebJobsStorage` needed for timers | looser: none needed |
//! | time zone of timers | the machine's, or WEBSITE_TIME_ZONE | UTC, as Azure has it by default |
//! | timer status | kept in a blob, so a missed run is `IsPastDue` | kept in files if the caller names a directory, and only after the first run |
//! | timer singleton | one instance, by blob lease | none: one host is one instance |
//! | keys of HTTP functions | Core Tools ignores them | stricter: one local key is checked, or a key of the function's own |
//! | routes | constraints and defaults | stricter: plain, `{name}`, `{name?}`, `{*name}` |
//! | `enableForwardingHttpRequest`, `http.routes` | forwarded unchanged | stricter: refused |
//! | header names in `Data.req` | known ones canonical, others as sent | title case |
//! | queue outputs | texts are written as they are; objects, lone texts and dates decoded or written anew | written from an array of texts only; any other form fails the invocation |
//! | extension bundle | needed for the queue binding | looser: none needed |
//! | other output bindings | written | stricter: a value for one fails the invocation |
//! | queue triggers | looked at every minute at the most, messages renewed while they are worked on | every second at the most; hidden for ten minutes |
//! | other triggers and inputs | fired, read | not run, with a warning |
//! | retries of a manual run | a new invocation id each | the same id, as for timers |
//! | `RetryContext.Exception` | a .NET exception | its class and message |
//! | a call that ends in the 2 s after its time-out | the sheet says only: grace, then kill | the handler is not killed |
//! | readiness probe without an answer | unbounded | stricter: ends with `initializationTimeout` |
//! | changed files | the host restarts | not watched |
//! | a host that is SIGKILLed | the handler survives | the same: `prctl` would need unsafe code |
//!
//! What the parts are: [`app`] reads the directory, `handler` owns the child process, `invocation`
//! posts to it, `output` writes what it answers, `timer`, `queue` and `http` are the triggers, [`host`] puts
//! them together.

pub mod answer;
pub mod app;
mod client;
pub mod command;
mod envelope;
pub mod event;
mod guid;
mod handler;
pub mod host;
mod http;
pub mod invocation;
pub mod output;
mod queue;
pub mod retry;
mod timer;

pub use answer::Reply;
pub use app::{AppDirectory, AppError, Environment};
pub use event::{Events, HostEvent, LogLevel, LogSource, StopReason};
pub use host::{HostError, HostOptions, LocalHost, NotReady};
pub use invocation::{InvocationFailure, InvocationResult};
pub use output::OutputFault;
