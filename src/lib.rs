//! **Any SQL table becomes an Azure Functions trigger, and no row is lost.**
//!
//! dbtick is the custom handler of an Azure Functions app. The host fires a timer and posts the
//! invocation; dbtick runs one *tick* for each poller of that function: it loads the state document,
//! looks for rows behind the checkpoint, takes the lease, delivers each batch, and only then commits
//! the checkpoint by compare-and-swap on the same document.
//!
//! It is not a native database trigger. It is a pseudo trigger on timers: delivery is at least once,
//! and receivers must be idempotent.
//!
//! Modules in reading order, each depending only on those below it:
//!
//! - [`cli`]: argv → command → exit code
//! - [`local`]: a local Functions host, behind `dev`, `demo` and the tests
//! - [`host`]: the custom handler
//! - [`overview`]: what is known about every poller, for people and machines
//! - [`wiring`]: from configuration to pollers that run
//! - [`backfill`]: rows below the checkpoint once more, beside the live poller
//! - [`tick`]: the story of one tick
//! - [`source`], [`sink`], [`store`]: where rows come from, where they go, where state is kept
//! - [`database`]: connections to servers
//! - [`schedule`]: when a timer fires
//! - [`config`], [`azure`]: what a poller is told to do, and the accounts and identities that it names
//! - [`model`]: positions, events, the state document and its legal transitions, pure
//! - `planted`: crash points and bugs for the crash test; in no build that is shipped
//! - [`clock`], [`stop`], [`telemetry`]: time and entropy, the wish to stop, what is said meanwhile

pub mod azure;
pub mod backfill;
pub mod cli;
pub mod clock;
pub mod config;
pub mod database;
pub mod host;
pub mod local;
pub mod model;
pub mod overview;
#[cfg(feature = "planted")]
pub mod planted;
pub mod schedule;
pub mod sink;
pub mod source;
pub mod stop;
pub mod store;
pub mod telemetry;
pub mod tick;
pub mod wiring;
