//! The receiver of the webhook: it keeps a record of every event, and can be told to take a batch
//! and not answer, which is the worst moment for the sender to die.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::post;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::ledger::SharedLedger;

/// What a receiver may take to work on a batch; it also makes batches of one tick distinguishable.
const WORK: Duration = Duration::from_millis(40);

#[derive(Debug)]
pub(super) struct Receiver {
    url: String,
    pub(super) arrivals: mpsc::UnboundedReceiver<Arrival>,
    pub(super) trap: Trap,
}

/// A batch that came.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    pub(super) batch: String,
    pub(super) token: u64,
    pub(super) sequence: u64,
    pub(super) rows: usize,
    pub(super) first: i64,
    pub(super) last: i64,
    /// Events that came before.
    pub(super) repeated: usize,
    /// The receiver will not answer.
    pub(super) held: bool,
}

/// Set once, it holds the next full batch: a full one is read again as it was, with the same id.
#[derive(Debug, Clone, Default)]
pub(super) struct Trap(Arc<Mutex<Option<oneshot::Sender<Held>>>>);

/// A batch in the trap. When this is dropped, the batch is refused: a sender that still lives sends
/// it again, and nothing counts as delivered.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) arrival: Arrival,
    _refuse: oneshot::Sender<()>,
}

#[derive(Debug, Clone)]
struct Desk {
    ledger: SharedLedger,
    arrivals: mpsc::UnboundedSender<Arrival>,
    trap: Trap,
    full: usize,
}

#[derive(Debug, Deserialize)]
struct Posted {
    batch_id: String,
    fence: Fence,
    events: Vec<Event>,
}

#[derive(Debug, Deserialize)]
struct Fence {
    token: u64,
    sequence: u64,
}

#[derive(Debug, Deserialize)]
struct Event {
    id: String,
    key: Key,
}

#[derive(Debug, Deserialize)]
struct Key {
    id: i64,
}

impl Receiver {
    /// `full` is the number of rows in a full batch.
    pub(super) async fn start(ledger: SharedLedger, full: usize) -> Result<Self, String> {
        let cannot = |error| format!("the demo cannot open a port for its receiver: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let (sender, arrivals) = mpsc::unbounded_channel();
        let trap = Trap::default();
        let router = Router::new()
            .route("/orders", post(receive))
            .layer(DefaultBodyLimit::disable())
            .with_state(Desk {
                ledger,
                arrivals: sender,
                trap: trap.clone(),
                full,
            });
        tokio::spawn(axum::serve(listener, router).into_future());
        Ok(Self {
            url: format!("http://{address}/orders"),
            arrivals,
            trap,
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Trap {
    /// Resolves with the batch that is held.
    pub(super) fn set(&self) -> oneshot::Receiver<Held> {
        let (sender, held) = oneshot::channel();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        held
    }

    /// A trap whose setter has gone holds nothing.
    fn take(&self) -> Option<oneshot::Sender<Held>> {
        let set = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        set.filter(|setter| !setter.is_closed())
    }
}

async fn receive(State(desk): State<Desk>, Json(posted): Json<Posted>) -> StatusCode {
    let Posted {
        batch_id,
        fence: Fence { token, sequence },
        events,
    } = posted;
    let keys: Vec<i64> = events.iter().map(|event| event.key.id).collect();
    let ids = events.into_iter().map(|event| event.id).collect();
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
        return StatusCode::BAD_REQUEST;
    };
    let repeated = (desk.ledger).change(|ledger| ledger.arrive(&batch_id, token, ids));
    let caught = if keys.len() == desk.full {
        desk.trap.take()
    } else {
        None
    };
    let arrival = Arrival {
        batch: batch_id,
        token,
        sequence,
        rows: keys.len(),
        first: *first,
        last: *last,
        repeated,
        held: caught.is_some(),
    };
    // The demo may be over already; the batch is answered all the same.
    drop(desk.arrivals.send(arrival.clone()));
    if let Some(caught) = caught {
        let (refuse, refused) = oneshot::channel();
        drop(caught.send(Held {
            arrival,
            _refuse: refuse,
        }));
        // Nothing is ever sent: it ends when the other side is dropped.
        refused.await.unwrap_or_default();
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    tokio::time::sleep(WORK).await;
    desk.ledger.change(|ledger| ledger.deliver(&keys));
    StatusCode::OK
}
