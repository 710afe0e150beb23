//! The custom handler: what the Functions host talks to.
//!
//! It binds loopback only, opens its port when it is able to serve, never exits with 0 (the host
//! would not start it again), and does not crash on bad configuration (the host gives up after the
//! third crash): it stays up, and every invocation says what is wrong.

mod invocation;
mod poll;
mod serve;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use tokio_util::task::TaskTracker;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;
use tower_http::trace::TraceLayer;

use crate::config::{App, Fault, Function};
use crate::stop::Stop;
use crate::tick::Poller;
use crate::wiring::Parts;

pub use serve::{ServeError, serve};

/// A timer invocation is a few hundred bytes.
const BODY_LIMIT: usize = 1024 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const CONCURRENT_INVOCATIONS: usize = 512;

/// The app as the handler runs it.
#[derive(Debug)]
pub struct Handler {
    functions: BTreeMap<String, Role>,
    /// Of the app as a whole: they explain why a function is not here.
    faults: Vec<Fault>,
    function_timeout: Option<Duration>,
    off_in_slot: Option<String>,
    parts: Parts,
    stop: Stop,
    /// The invocations that a stop waits for.
    running: TaskTracker,
}

/// What an invocation of a function comes to.
#[derive(Debug)]
enum Role {
    Poll {
        pollers: Vec<Poller>,
        parallel: usize,
    },
    Faulty(Vec<Fault>),
    NotAPoller,
}

impl Handler {
    #[must_use]
    pub fn new(app: &App, parts: Parts, stop: Stop) -> Self {
        let functions = app.functions.iter().map(|(name, function)| {
            let role = match function {
                Function::Faulty(faults) => Role::Faulty(faults.clone()),
                Function::NotAPoller => Role::NotAPoller,
                Function::Pollers(function) => {
                    let pollers = function.pollers.iter().map(|p| parts.poller(app, p));
                    match pollers.collect::<Result<Vec<_>, _>>() {
                        Ok(pollers) => Role::Poll {
                            pollers,
                            parallel: function.parallel,
                        },
                        Err(error) => Role::Faulty(vec![Fault {
                            file: format!("{name}/function.json").into(),
                            path: "poller.name".to_owned(),
                            problem: error.to_string(),
                            hint: "rename the poller, or set DBTICK_APP".to_owned(),
                        }]),
                    }
                }
            };
            (name.clone(), role)
        });
        Self {
            functions: functions.collect(),
            faults: app.own_faults().to_vec(),
            function_timeout: app.function_timeout,
            off_in_slot: app.off_in_slot().map(str::to_owned),
            parts,
            stop,
            running: TaskTracker::new(),
        }
    }
}

/// The route table.
pub fn router(handler: Arc<Handler>) -> Router {
    Router::new()
        .route("/", get(poll::ready))
        .route("/{function}", post(poll::invoke))
        .method_not_allowed_fallback(poll::wrong_method)
        .fallback(poll::no_such_route)
        .with_state(handler)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(RequestBodyTimeoutLayer::new(BODY_TIMEOUT))
        .layer(GlobalConcurrencyLimitLayer::new(CONCURRENT_INVOCATIONS))
        .layer(CatchPanicLayer::custom(poll::panicked))
        // A failed invocation has been told already, on one line; this layer would add another.
        .layer(TraceLayer::new_for_http().on_failure(()))
}
