//! What the next tick would find, without claiming, delivering or writing: for `dbtick check`,
//! `peek` and `tick --dry-run`.

use std::time::Duration;

use tokio::time::timeout;

use super::birth::{first_document, refuse_if_born};
use super::budget::Budget;
use super::keeper::Standing;
use super::memory::Memory;
use super::reading::{load_document, read_last};
use super::report::{ClockSkew, LateReport, TickError};
use super::sweeping::{Held, Next, Portion, begin_to_show, read_after, read_first};
use super::{Poller, catch_up, fingerprint_changed, layout, reason_to_stop, sinks_changed};
use crate::config::Start;
use crate::model::halt::Halt;
use crate::model::late::Sight;
use crate::model::lease::StoreClock;
use crate::model::page::Page;
use crate::model::position::Position;
use crate::model::sinks;
use crate::model::state::{CursorMark, StateDocument};

const LONGEST_LOOK: Duration = Duration::from_secs(30);

/// Where a poller stands.
#[derive(Debug)]
pub struct Whereabouts {
    pub sentence: String,
    /// Where somebody, or a receiver, has stopped it.
    pub halt: Option<Halt>,
    pub clock_skew: Option<ClockSkew>,
}

/// A document as it stands in the store.
#[derive(Debug)]
pub struct Stood {
    pub document: StateDocument,
    /// Where the store tells the time.
    pub clock: Option<StoreClock>,
    pub bytes: u64,
}

/// What the next tick would deliver.
#[derive(Debug)]
pub struct Forecast {
    /// Why there is nothing to deliver.
    pub nothing: Option<String>,
    /// Batch by batch, as far as was asked for.
    pub pages: Vec<Page>,
}

impl Poller {
    /// `None`: it has not run yet.
    pub async fn stands(&self) -> Result<Option<Stood>, TickError> {
        let Some(Standing {
            document, clock, ..
        }) = load_document(self).await?
        else {
            refuse_if_new(self).await?;
            return Ok(None);
        };
        Ok(Some(Stood {
            bytes: document.to_bytes().len() as u64,
            document,
            clock,
        }))
    }

    /// Why a tick would refuse a document that it can read, whatever the source holds.
    #[must_use]
    pub fn refuses(&self, document: &StateDocument) -> Option<TickError> {
        if document.source_fingerprint != self.fingerprint {
            return Some(fingerprint_changed(self, document));
        }
        let sinks = sinks::compare(&document.sinks, &self.sink_names());
        sinks.err().map(|differ| sinks_changed(self, differ))
    }

    pub async fn standing(&self) -> Result<Whereabouts, TickError> {
        let key = &self.state_key;
        let Some(Standing { document, skew, .. }) = load_document(self).await? else {
            refuse_if_new(self).await?;
            return Ok(Whereabouts {
                sentence: format!("{key} does not exist yet: the first tick creates it"),
                halt: None,
                clock_skew: None,
            });
        };
        let place = match document.position() {
            Some(position) => format!("{key}: checkpoint at {position}"),
            None if document.is_newborn() => format!("{key}: nothing committed yet"),
            None => format!("{key}: checkpoint at the beginning"),
        };
        let late = LateReport::of(&document, &Sight::default()).sentences();
        Ok(Whereabouts {
            sentence: std::iter::once(place)
                .chain(late)
                .collect::<Vec<_>>()
                .join("; "),
            halt: Halt::of(&document),
            clock_skew: ClockSkew::beyond(self.lease.margin, skew),
        })
    }

    /// Where the table ends, if a place is behind that (B9). Not told where it cannot be found out.
    pub async fn beyond_the_end(&self, place: Option<&Position>) -> Option<Position> {
        let last = timeout(LONGEST_LOOK, self.source.last(None))
            .await
            .ok()?
            .ok()??;
        let place = place?.typed_like(&last)?;
        (place > last).then_some(last)
    }

    /// What it would deliver, in a sentence; refused for every reason that would fail a tick.
    pub async fn next_rows(&self) -> Result<String, TickError> {
        let forecast = self.forecast(1).await?;
        Ok(forecast
            .nothing
            .unwrap_or_else(|| "there are rows to deliver".to_owned()))
    }

    /// The next rows that it would deliver, as many as `most` or a batch more; refused for every reason
    /// that would fail a tick.
    pub async fn forecast(&self, most: usize) -> Result<Forecast, TickError> {
        let budget = Budget::starting(self.clock.monotonic(), Some(LONGEST_LOOK));
        let document = match load_document(self).await? {
            Some(standing) => {
                if let Some(outcome) = reason_to_stop(self, &standing)? {
                    return Ok(Forecast::nothing(outcome.sentence()));
                }
                standing.document
            }
            None => {
                refuse_if_new(self).await?;
                let start = match &self.start {
                    Start::From(cursor) => read_last(self, Some(cursor), &budget).await?,
                    Start::Beginning | Start::Now => None,
                };
                let start = start.map(|position| CursorMark::new(position, &self.key_columns));
                first_document(self, start)
            }
        };
        if catch_up::comes_first(self, &document) {
            let text = "nothing new goes out before a receiver that is behind has caught up";
            return Ok(Forecast::nothing(text.to_owned()));
        }
        let sweep = begin_to_show(self, &document, &budget).await?;
        let memory = Memory::load(self, &document, sweep.start()).await?;
        let mut next = read_first(self, &document, &sweep, &memory, &budget).await?;
        let is_new = document.position().is_none() && document.is_newborn();
        if is_new && self.start == Start::Now && matches!(next, Next::Rows(_)) {
            let text = "rows that are there before the first tick are not delivered (start: now)";
            return Ok(Forecast::nothing(text.to_owned()));
        }
        let portion = Portion::batch_of(self);
        let mut pages: Vec<Page> = Vec::new();
        let held = loop {
            let rows: usize = pages.iter().map(Page::len).sum();
            match next {
                Next::Rows(unsent) if rows < most => {
                    next = read_after(self, &document, &sweep, &memory, &unsent, portion, &budget)
                        .await?;
                    pages.push(unsent.page);
                }
                other => break other.held(),
            }
        };
        let nothing = match pages.is_empty() {
            true => Some(self.why_nothing(&document, held).await),
            false => None,
        };
        Ok(Forecast { nothing, pages })
    }

    async fn why_nothing(&self, document: &StateDocument, held: Held) -> String {
        if held.future > 0 {
            return format!(
                "nothing to deliver now; {} rows are ahead of the database's clock or sequence and wait for it",
                held.future
            );
        }
        if held.waiting > 0 {
            return format!(
                "nothing to deliver now; {} rows or more wait for transactions that could come before them",
                held.waiting
            );
        }
        match self.beyond_the_end(document.position()).await {
            Some(last) => format!(
                "nothing new; the table ends at {last}, before the checkpoint: rows that come in between are not seen (right after a purge, wrong after a restored backup or a reset too far)"
            ),
            None => "nothing new".to_owned(),
        }
    }
}

/// For every reason for which a tick would not begin it.
async fn refuse_if_new(poller: &Poller) -> Result<(), TickError> {
    refuse_if_born(poller).await?;
    layout::refuse_another(poller).await
}

impl Forecast {
    fn nothing(why: String) -> Self {
        Self {
            nothing: Some(why),
            pages: Vec::new(),
        }
    }
}
