//! Rows to send: what is ready, and what is read meanwhile.
//!
//! Much may be read by one question and sent as several batches, as long as they go out quickly: rows
//! that wait for a slow receiver are read when it is their turn.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::model::late::{Seen, Sweep};
use crate::model::position::Position;
use crate::model::state::StateDocument;
use crate::tick::Poller;
use crate::tick::budget::Budget;
use crate::tick::foreign::Foreign;
use crate::tick::memory::Memory;
use crate::tick::report::TickError;
use crate::tick::sweeping::{Held, Next, Portion, Unsent, read_behind};

/// At the most by one question, unless a batch is larger.
const READ_ROWS: usize = 1000;
const READ_BYTES: usize = 1 << 20;
/// What was read by one question should have gone out by then.
const SOON: Duration = Duration::from_millis(200);

pub(super) struct Supply<'a> {
    poller: &'a Poller,
    budget: &'a Budget,
    /// As it began: what is read does not depend on what was passed.
    sweep: Arc<Sweep>,
    memory: Arc<Memory>,
    ready: VecDeque<Unsent>,
    ahead: Ahead<'a>,
    appetite: Appetite,
}

/// What is behind the rows that are ready.
enum Ahead<'a> {
    Unasked(Position),
    Asked(BoxFuture<'a, Result<Next, TickError>>),
    Rows(Box<Unsent>),
    End(End),
}

/// Nothing is left.
#[derive(Debug, Default)]
pub(super) struct End {
    /// Pages that were passed on the way.
    pub(super) seen: Vec<Seen>,
    pub(super) held: Held,
    pub(super) foreign: Foreign,
    /// It is not known whether anything is left.
    pub(super) error: Option<TickError>,
}

impl<'a> Supply<'a> {
    pub(super) fn of(
        poller: &'a Poller,
        budget: &'a Budget,
        sweep: &Sweep,
        memory: Memory,
        first: Unsent,
    ) -> Self {
        let mut supply = Self {
            poller,
            budget,
            sweep: Arc::new(sweep.clone()),
            memory: Arc::new(memory),
            ready: VecDeque::new(),
            ahead: Ahead::Rows(Box::new(first)),
            appetite: Appetite::of(poller),
        };
        supply.stock_up();
        supply
    }

    /// The rows that go out next, if they are known.
    pub(super) fn front(&self) -> Option<&Unsent> {
        self.ready.front()
    }

    pub(super) fn take(&mut self) -> Option<Unsent> {
        let taken = self.ready.pop_front();
        self.stock_up();
        taken
    }

    pub(super) fn is_over(&self) -> bool {
        self.ready.is_empty() && matches!(self.ahead, Ahead::End(_))
    }

    pub(super) fn passed_at_the_end(&self) -> Foreign {
        match &self.ahead {
            Ahead::End(end) => end.foreign,
            _ => Foreign::default(),
        }
    }

    /// What the end was like; where there is none yet, which rows stay where they are.
    pub(super) fn end(&mut self) -> End {
        if let Some(front) = self.front() {
            let held = front.held;
            return End {
                held,
                ..End::default()
            };
        }
        match &mut self.ahead {
            Ahead::End(end) => std::mem::take(end),
            _ => End::default(),
        }
    }

    pub(super) fn is_asking(&self) -> bool {
        matches!(self.ahead, Ahead::Asked(_))
    }

    /// Asks for more once half of what was ready has gone.
    pub(super) fn ask(&mut self, document: &Arc<StateDocument>) {
        let Ahead::Unasked(after) = &self.ahead else {
            return;
        };
        if self.ready.len() * 2 > self.appetite.batches.saturating_sub(1) {
            return;
        }
        let (poller, budget) = (self.poller, self.budget);
        let (sweep, memory) = (Arc::clone(&self.sweep), Arc::clone(&self.memory));
        let (document, after) = (Arc::clone(document), after.clone());
        let portion = self.appetite.portion(poller);
        self.ahead = Ahead::Asked(Box::pin(async move {
            let after = Some(&after);
            read_behind(poller, &document, &sweep, &memory, after, portion, budget).await
        }));
    }

    /// Waits for what was asked for.
    pub(super) async fn answer(&mut self) {
        let Ahead::Asked(question) = &mut self.ahead else {
            return;
        };
        self.ahead = match question.await {
            Ok(Next::Rows(unsent)) => Ahead::Rows(unsent),
            Ok(Next::End {
                seen,
                held,
                foreign,
            }) => Ahead::End(End {
                seen,
                held,
                foreign,
                error: None,
            }),
            Err(error) => Ahead::End(End {
                error: Some(error),
                ..End::default()
            }),
        };
        self.stock_up();
    }

    fn stock_up(&mut self) {
        if !self.ready.is_empty() || !matches!(self.ahead, Ahead::Rows(_)) {
            return;
        }
        let ended = Ahead::End(End::default());
        let Ahead::Rows(unsent) = std::mem::replace(&mut self.ahead, ended) else {
            return;
        };
        let last = unsent.seen.last().filter(|seen| !seen.end);
        self.ahead = match last.and_then(|seen| seen.last.clone()) {
            Some(last) => Ahead::Unasked(last),
            None => Ahead::End(End {
                held: unsent.held,
                ..End::default()
            }),
        };
        self.appetite.comes(self.poller.clock.monotonic());
        self.ready = unsent.in_batches(&self.sweep, Portion::batch_of(self.poller));
    }
}

/// How many batches are read by one question.
struct Appetite {
    batches: usize,
    most: usize,
    /// When the rows that are ready came.
    came: Option<Instant>,
}

impl Appetite {
    fn of(poller: &Poller) -> Self {
        // Beside a live poller rows may change while others are sent.
        let most = match poller.beside {
            None => READ_ROWS / poller.batch.max_rows,
            Some(_) => 1,
        };
        Self {
            batches: 1,
            most: most.max(1),
            came: None,
        }
    }

    /// More rows come, because those before have gone.
    fn comes(&mut self, now: Instant) {
        let quickly = self.came.map(|came| now - came <= SOON);
        self.batches = match quickly {
            None => self.batches,
            Some(true) => self.most.min(self.batches * 2),
            Some(false) => (self.batches / 2).max(1),
        };
        self.came = Some(now);
    }

    fn portion(&self, poller: &Poller) -> Portion {
        let batch = Portion::batch_of(poller);
        match self.batches {
            1 => batch,
            several => Portion {
                max_rows: batch.max_rows * several,
                max_bytes: (batch.max_bytes * several)
                    .min(READ_BYTES)
                    .max(batch.max_bytes),
            },
        }
    }
}
