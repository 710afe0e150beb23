//! Reading behind the checkpoint: one look at the writers, then page after page, leaving out what was
//! delivered before (B5). What may follow from it is decided in `model::late`.

mod server;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use super::Poller;
use super::budget::Budget;
use super::foreign::Foreign;
use super::hand_over::witnesses_wanted;
use super::keeper::Standing;
use super::memory::Memory;
use super::reading::{look, read_portion, refuse_another_order, refuse_another_server};
use super::report::TickError;
use crate::model::late::{Seen, Sight, Survey, Sweep};
use crate::model::page::Page;
use crate::model::position::Position;
use crate::model::schema::Schema;
use crate::model::state::StateDocument;
use crate::source::{ReadPage, SourceError, Types};
use crate::telemetry::spans;
use server::{Server, go_back, what_became_of_the_server};

/// Pages that are read on top of one that was delivered for the most part.
const MOST_MORE: u32 = 8;

/// Rows to deliver next.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) page: Page,
    /// What was read up to and with this page, to be passed once it is delivered.
    pub(super) seen: Vec<Seen>,
    pub(super) types: Types,
    pub(super) schema: Arc<Schema>,
    pub(super) server: Option<Arc<str>>,
    pub(super) held: Held,
    /// Reading it.
    pub(super) took: Duration,
    /// A row that has failed, and one that shows whose fault it is.
    with_witness: bool,
}

/// Rows that are visible and stay where they are for now.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// Ahead of the database's clock or sequence; counted on one page.
    pub(super) future: u64,
    /// For transactions that could still come before them.
    pub(super) waiting: u64,
}

/// How much is read at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portion {
    pub(super) max_rows: usize,
    pub(super) max_bytes: usize,
}

impl Portion {
    pub(super) fn batch_of(poller: &Poller) -> Self {
        Self {
            max_rows: poller.batch.max_rows.get(),
            max_bytes: poller.batch.max_bytes.get(),
        }
    }
}

impl Unsent {
    /// As batches, each to be passed after the one before it.
    pub(super) fn in_batches(mut self, sweep: &Sweep, largest: Portion) -> VecDeque<Self> {
        let mut batches = VecDeque::new();
        if self.with_witness {
            batches.push_back(self);
            return batches;
        }
        let page = std::mem::take(&mut self.page);
        let pages = page.into_batches(largest.max_rows, largest.max_bytes);
        let mut pages = pages.into_iter().peekable();
        loop {
            let page = pages.next().unwrap_or_default();
            if pages.peek().is_none() {
                batches.push_back(Self { page, ..self });
                return batches;
            }
            let seen = self.pass_up_to(sweep, &page);
            batches.push_back(Self {
                page,
                seen,
                types: Arc::clone(&self.types),
                schema: Arc::clone(&self.schema),
                server: self.server.clone(),
                held: self.held,
                took: std::mem::take(&mut self.took),
                with_witness: false,
            });
        }
    }

    /// What is passed with the first rows of what was seen.
    fn pass_up_to(&mut self, sweep: &Sweep, first: &Page) -> Vec<Seen> {
        let Some(last) = first.last_position() else {
            return Vec::new();
        };
        let whole = self.seen.iter();
        let whole = whole.take_while(|seen| seen.last.as_ref().is_none_or(|it| it <= last));
        let whole = whole.count();
        let mut passed: Vec<Seen> = self.seen.drain(..whole).collect();
        if let Some(parted) = self.seen.first() {
            let places = first.events().iter().map(|event| &event.position);
            let places: Vec<_> = places
                .filter(|place| Some(*place) >= parted.first.as_ref())
                .collect();
            if !places.is_empty() {
                passed.push(sweep.see_part(parted, &places));
            }
        }
        passed
    }
}

#[derive(Debug)]
pub(super) enum Next {
    Rows(Box<Unsent>),
    /// Nothing is left that was not delivered; these pages were passed on the way.
    End {
        seen: Vec<Seen>,
        held: Held,
        foreign: Foreign,
    },
}

impl Next {
    pub(super) fn held(&self) -> Held {
        match self {
            Self::Rows(unsent) => unsent.held,
            Self::End { held, .. } => *held,
        }
    }
}

/// A sweep from the checkpoint of `standing`, which may have to go back first.
pub(super) async fn begin(
    poller: &Poller,
    mut standing: Standing,
    budget: &Budget,
    rewound: &mut Option<String>,
) -> Result<(Standing, Sweep), TickError> {
    let sight = look(poller, &standing.document.late.witnesses(), budget).await?;
    match what_became_of_the_server(poller, &standing.document, &sight)? {
        Server::Stands => {}
        Server::ForgetFences => standing.document.late.fences.clear(),
        Server::GoBack { version, why } => {
            standing = go_back(poller, version, &why, &sight).await?;
            *rewound = Some(why);
        }
    }
    let sweep = sweep(poller, &standing.document, sight);
    Ok((standing, sweep))
}

/// A sweep by a new look, from where the document stands, for who only shows what is there.
pub(super) async fn begin_to_show(
    poller: &Poller,
    document: &StateDocument,
    budget: &Budget,
) -> Result<Sweep, TickError> {
    let sight = look(poller, &document.late.witnesses(), budget).await?;
    Ok(sweep(poller, document, sight))
}

/// A sweep by a new look in the middle of a tick, from where the document stands.
pub(super) async fn begin_again(
    poller: &Poller,
    document: &StateDocument,
    budget: &Budget,
) -> Result<Sweep, TickError> {
    let sight = look(poller, &document.late.witnesses(), budget).await?;
    match what_became_of_the_server(poller, document, &sight)? {
        Server::Stands => Ok(sweep(poller, document, sight)),
        // What was delivered may have gone with it. The next tick begins with that question, as long as
        // the document names the server of before.
        Server::ForgetFences | Server::GoBack { .. } => Err(SourceError::Unreachable {
            context:
                "the database was restarted or replaced in the middle of this tick; the next one \
                      looks at what that means"
                    .to_owned(),
            cause: None,
        }
        .into()),
    }
}

fn sweep(poller: &Poller, document: &StateDocument, sight: Sight) -> Sweep {
    let inline = document.delivered.values().cloned();
    let spilled = document
        .late
        .spilled
        .iter()
        .map(|segment| segment.to.clone());
    Sweep::begin(
        document.position(),
        &document.late.fences,
        inline.chain(spilled),
        sight,
        poller.ordering,
    )
}

/// The rows behind `unsent`, without a query when it reached the end.
pub(super) async fn read_after(
    poller: &Poller,
    document: &StateDocument,
    sweep: &Sweep,
    memory: &Memory,
    unsent: &Unsent,
    portion: Portion,
    budget: &Budget,
) -> Result<Next, TickError> {
    let last = unsent.seen.last();
    match last
        .filter(|seen| !seen.end)
        .and_then(|seen| seen.last.as_ref())
    {
        Some(after) => {
            let after = Some(after);
            read_behind(poller, document, sweep, memory, after, portion, budget).await
        }
        None => Ok(Next::End {
            seen: Vec::new(),
            held: unsent.held,
            foreign: Foreign::default(),
        }),
    }
}

/// The first batch of a sweep.
pub(super) async fn read_first(
    poller: &Poller,
    document: &StateDocument,
    sweep: &Sweep,
    memory: &Memory,
    budget: &Budget,
) -> Result<Next, TickError> {
    let (start, portion) = (sweep.start(), Portion::batch_of(poller));
    read_behind(poller, document, sweep, memory, start, portion, budget).await
}

/// The next rows that were not delivered already.
pub(super) async fn read_behind(
    poller: &Poller,
    document: &StateDocument,
    sweep: &Sweep,
    memory: &Memory,
    after: Option<&Position>,
    portion: Portion,
    budget: &Budget,
) -> Result<Next, TickError> {
    let began = poller.clock.monotonic();
    let span = spans::read();
    let reading = read_enough(poller, document, sweep, memory, after, portion, budget);
    let next = reading.instrument(span.clone()).await;
    let mut next = next.inspect_err(|error| {
        span.record("outcome", error.name());
    })?;
    if let Next::Rows(unsent) = &mut next {
        unsent.took = poller.clock.monotonic() - began;
        spans::found(&span, unsent.page.len());
    }
    span.record("outcome", "done");
    Ok(next)
}

/// Where most of what is read was, more is read: rows
/// that come again and again would otherwise be alone in their batch, with nobody behind them.
async fn read_enough(
    poller: &Poller,
    document: &StateDocument,
    sweep: &Sweep,
    memory: &Memory,
    after: Option<&Position>,
    portion: Portion,
    budget: &Budget,
) -> Result<Next, TickError> {
    let Portion {
        max_rows,
        max_bytes,
    } = portion;
    let mut after = after.cloned();
    let mut passed = Vec::new();
    let mut found: Option<Unsent> = None;
    let mut more = MOST_MORE;
    let mut foreign = Foreign::default();
    let shard = poller.source.shard();
    let most_read = shard.map_or(usize::MAX, |shard| shard.most_read(max_rows));
    let wanted = |unsent: &Unsent| {
        let failures = document.failures().map(|(_, failure)| failure);
        witnesses_wanted(poller, failures, &unsent.page)
    };
    loop {
        let read = read_portion(poller, after.as_ref(), portion, budget).await;
        let ReadPage {
            mut page,
            end,
            types,
            schema,
            server,
            survey,
        } = match (read, found) {
            (Ok(read), None) => {
                found = None;
                read
            }
            (Ok(read), Some(unsent)) if read.schema.hash() == unsent.schema.hash() => {
                found = Some(unsent);
                read
            }
            // What there is goes out first.
            (_, Some(unsent)) => return Ok(Next::Rows(Box::new(unsent))),
            (Err(error), None) => return Err(error.into()),
        };
        refuse_another_server(poller, document, server.as_deref())?;
        refuse_another_order(poller, document, &schema)?;
        refuse_other_evidence(sweep, &survey)?;
        let held = hold_back(poller, document, sweep, &mut page, &survey, budget).await?;
        let seen = sweep.see(page.places(), end || held != Held::default(), survey);
        let (end, last, read) = (seen.end, seen.last.clone(), page.len());
        passed.push(seen);
        foreign.rows += page.foreign();
        // As many rows as may be were read, and most of them are of other shards.
        let is_sparse = read + page.foreign() >= most_read && read < max_rows / 2;
        let page = page.without(|id| memory.has(id));
        let is_thin = page.len() < read / 2 || is_sparse;
        let survey_of = passed.last().cloned();
        match &mut found {
            None if page.is_empty() => {}
            None => {
                found = Some(Unsent {
                    page,
                    seen: std::mem::take(&mut passed),
                    types,
                    schema,
                    server,
                    held,
                    took: Duration::ZERO,
                    with_witness: false,
                });
            }
            Some(unsent) => match unsent.page.append(page, max_rows, max_bytes) {
                Ok(()) => {
                    unsent.seen.append(&mut passed);
                    unsent.held = held;
                    more -= 1;
                }
                Err(other) if wanted(unsent) > 0 => {
                    // Rows beside it, to show whether the receiver takes any.
                    let witnesses = other.beginning(wanted(unsent));
                    if let (false, Some(seen)) = (witnesses.is_empty(), survey_of) {
                        let places = witnesses.events().iter().map(|event| &event.position);
                        unsent.seen.push(sweep.see_again(&seen, places));
                        unsent.page.join(witnesses);
                        unsent.with_witness = true;
                    }
                    return Ok(Next::Rows(Box::new(found.expect("it is there"))));
                }
                Err(_) => more = 0,
            },
        }
        let goes_on = last.filter(|_| !end);
        match (found, goes_on) {
            (Some(unsent), Some(last)) if more > 0 && (is_thin || wanted(&unsent) > 0) => {
                found = Some(unsent);
                after = Some(last);
            }
            (Some(unsent), _) => return Ok(Next::Rows(Box::new(unsent))),
            (None, Some(last)) => {
                let now = poller.clock.monotonic();
                if foreign.rows > 0 && (budget.is_spent(now) || budget.is_others_turn(now)) {
                    foreign.took_too_long = true;
                    return Ok(Next::End {
                        seen: passed,
                        held,
                        foreign,
                    });
                }
                found = None;
                after = Some(last);
            }
            (None, None) => {
                return Ok(Next::End {
                    seen: passed,
                    held,
                    foreign,
                });
            }
        }
    }
}

/// Rights may change between the look and a page. A page that nobody has surveyed would count as one
/// without rows in flight.
fn refuse_other_evidence(sweep: &Sweep, survey: &Survey) -> Result<(), SourceError> {
    if sweep.sight().surveys && !survey.made {
        return Err(SourceError::Unreachable {
            context:
                "what the database shows of transactions in flight has changed meanwhile; the \
                      next tick looks again"
                    .to_owned(),
            cause: None,
        });
    }
    Ok(())
}

/// Cuts a page before the first row that may not go out.
async fn hold_back(
    poller: &Poller,
    document: &StateDocument,
    sweep: &Sweep,
    page: &mut Page,
    survey: &Survey,
    budget: &Budget,
) -> Result<Held, TickError> {
    let newer = match page.reached() {
        // Drawn after the sweep began, perhaps: its future may be over. Also where another shard's row is.
        Some(last) if sweep.sight().is_future(last) => {
            Some(look(poller, &document.late.witnesses(), budget).await?)
        }
        _ => None,
    };
    let is_future = |place: &Position| {
        sweep.sight().is_future(place) && newer.as_ref().is_none_or(|newer| newer.is_future(place))
    };
    let cut = page.cut(|place| !is_future(place) && sweep.admits(place, survey));
    let future = cut.iter().filter(|place| is_future(place)).count();
    Ok(Held {
        future: future as u64,
        waiting: (cut.len() - future) as u64,
    })
}
