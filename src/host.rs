//! The custom handler: what the Functions host talks to.
//!
//! It binds loopback only, opens its port when it is able to serve, never exits with 0 (the host
//! would not start it again), and does not crash on bad configuration (the host gives up after the
//! third crash): it stays up, and every invocation says what is wrong.

mod fan_out;
mod invocation;
mod poll;
mod relay;
mod serve;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::map_request_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio_util::task::TaskTracker;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;
use tower_http::trace::TraceLayer;

use crate::config::{App, Fault, Function, PollTrigger, RelayFunction};
use crate::sink::relay::wire::LARGEST_BODY;
use crate::stop::Stop;
use crate::store::key::KeyError;
use crate::tick::Poller;
use crate::tick::line::Line;
use crate::wiring::Parts;
use fan_out::{FanOut, Taken};
use status::{Desk, Status};

pub use serve::{ServeError, serve};
pub use status::openapi;

/// A timer invocation is a few hundred bytes.
const BODY_LIMIT: usize = 1024 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// More than an app has timers, so that nobody waits before the line of ticks.
const CONCURRENT_INVOCATIONS: usize = 4096;
/// However small their batches are: each has connections of its own to its receiver and its store.
const MOST_TICKS: u64 = 512;
/// The host's own limit for what is posted to it, twice: a body is text inside of text here.
const RELAY_BODY_LIMIT: usize = 2 * LARGEST_BODY;
/// A tick waits for its relay, so relays do not stand in the line of ticks. Each may hold a whole
/// batch in memory, several times over.
const CONCURRENT_RELAYS: usize = 32;
/// More than there are seats, so that who finds none is told so and does not hang; each may hold a body.
const CONCURRENT_LOOKS: usize = 64;

/// The app as the handler runs it.
#[derive(Debug)]
pub struct Handler {
    functions: BTreeMap<String, Role>,
    /// Of the app as a whole: they explain why a function is not here.
    faults: Vec<Fault>,
    function_timeout: Option<Duration>,
    /// In KiB of what is in flight.
    line: Line,
    least_weight: u32,
    /// Under whose name its state is.
    app: String,
    off_in_slot: Option<String>,
    parts: Parts,
    stop: Stop,
    /// The invocations that a stop waits for.
    running: TaskTracker,
    /// Messages that came to this process.
    taken: Taken,
}

/// What an invocation of a function comes to.
#[derive(Debug)]
enum Role {
    Poll {
        pollers: Vec<Poller>,
        parallel: usize,
        /// The binding that brings a message which names one of them; `None`: all tick.
        message: Option<String>,
    },
    FanOut(FanOut),
    Relay(RelayFunction),
    Status(Status),
    Faulty(Vec<Fault>),
    NotAPoller,
}

impl Handler {
    #[must_use]
    pub fn new(app: &App, parts: Parts, stop: Stop) -> Self {
        let desk = Desk::new(app, &parts).map(Arc::new);
        let misnamed = |name: &str, error: &KeyError| {
            Role::Faulty(vec![Fault {
                file: format!("{name}/function.json").into(),
                path: "poller.name".to_owned(),
                problem: error.to_string(),
                hint: "rename the poller, or set DBTICK_APP".to_owned(),
            }])
        };
        let functions = app.functions.iter().map(|(name, function)| {
            let role = match function {
                Function::Faulty(faults) => Role::Faulty(faults.clone()),
                Function::NotAPoller => Role::NotAPoller,
                Function::Relay(relay) => Role::Relay(relay.clone()),
                Function::FanOut(function) => Role::FanOut(FanOut::new(app, function, &parts)),
                Function::Status(function) => match &desk {
                    Ok(desk) => Role::Status(Status {
                        function: function.clone(),
                        desk: Arc::clone(desk),
                    }),
                    Err(error) => misnamed(name, error),
                },
                Function::Pollers(function) => {
                    let pollers = function.pollers.iter().map(|p| parts.poller(app, p));
                    match pollers.collect::<Result<Vec<_>, _>>() {
                        Ok(pollers) => Role::Poll {
                            pollers,
                            parallel: function.parallel,
                            message: match &function.trigger {
                                PollTrigger::Timer => None,
                                PollTrigger::Queue { binding, .. } => Some(binding.clone()),
                            },
                        },
                        Err(error) => misnamed(name, &error),
                    }
                }
            };
            (name.clone(), role)
        });
        Self {
            functions: functions.collect(),
            faults: app.own_faults().to_vec(),
            function_timeout: app.function_timeout,
            line: Line::of(kib(app.in_flight)),
            least_weight: kib(app.in_flight / MOST_TICKS),
            app: app.name.clone(),
            off_in_slot: app.off_in_slot().map(str::to_owned),
            parts,
            stop,
            running: TaskTracker::new(),
            taken: Taken::default(),
        }
    }

    /// The places of one of its ticks in the line.
    fn weight_of(&self, poller: &Poller) -> u32 {
        let batch = &poller.batch;
        let bytes = batch
            .max_bytes
            .get()
            .saturating_mul(batch.max_inflight.get());
        kib(bytes.try_into().unwrap_or(u64::MAX)).max(self.least_weight)
    }
}

fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes / 1024).unwrap_or(u32::MAX)
}

/// The route table.
pub fn router(handler: Arc<Handler>) -> Router {
    let invocations = Router::new()
        .route("/{function}", post(poll::invoke))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(GlobalConcurrencyLimitLayer::new(CONCURRENT_INVOCATIONS))
        .layer(map_request_with_state(Arc::clone(&handler), poll::arrived));
    Router::new()
        .route("/", get(poll::ready))
        .merge(invocations)
        .merge(relays(&handler))
        .merge(statuses(&handler))
        .method_not_allowed_fallback(forwarded_or_wrong_method)
        .fallback(forwarded_or_nothing)
        .with_state(handler)
        .layer(RequestBodyTimeoutLayer::new(BODY_TIMEOUT))
        .layer(CatchPanicLayer::custom(poll::panicked))
        // Without the query of an address, in which a forwarded request may carry its key. A failed invocation has been told already, on one line; this layer would add another.
        .layer(
            TraceLayer::new_for_http()
                .make_span_with(|request: &Request| {
                    tracing::debug_span!("request", method = %request.method(), path = request.uri().path())
                })
                .on_failure(()),
        )
}

/// Their names are checked: none can be a pattern, or stand in the place of another route.
fn relays(handler: &Handler) -> Router<Arc<Handler>> {
    let relays = handler.functions.iter();
    let relays = relays.filter(|(_, role)| matches!(role, Role::Relay(_)));
    relays
        .fold(Router::new(), |router, (name, _)| {
            router.route(&format!("/{name}"), post(relay::invoke))
        })
        .layer(DefaultBodyLimit::max(RELAY_BODY_LIMIT))
        .layer(GlobalConcurrencyLimitLayer::new(CONCURRENT_RELAYS))
}

fn statuses(handler: &Handler) -> Router<Arc<Handler>> {
    let statuses = handler.functions.iter();
    let statuses = statuses.filter(|(_, role)| matches!(role, Role::Status(_)));
    statuses
        .fold(Router::new(), |router, (name, _)| {
            router.route(&format!("/{name}"), post(status::invoke))
        })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(GlobalConcurrencyLimitLayer::new(CONCURRENT_LOOKS))
}

/// A forwarded request has the address that its caller used, which is no route of ours.
async fn forwarded_or_nothing(State(handler): State<Arc<Handler>>, request: Request) -> Response {
    match status::forwarded(&handler, request).await {
        Ok(response) => response,
        Err(request) => poll::no_such_route(request.uri()).into_response(),
    }
}

/// It may be one part long, as the name of a function is.
async fn forwarded_or_wrong_method(
    State(handler): State<Arc<Handler>>,
    request: Request,
) -> Response {
    match status::forwarded(&handler, request).await {
        Ok(response) => response,
        Err(request) => poll::wrong_method(request.method(), request.uri()).into_response(),
    }
}
