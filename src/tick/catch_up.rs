//! A sink that failed while the others went on gets what it has missed, by reading it again (E3). It has
//! a position of its own in the document, which never goes beyond the checkpoint: below that, all rows
//! are visible. What was delivered above the checkpoint comes last, all at once; then it is one of the
//! others again.
//!
//! This comes after what is new, and for a short while only: who is behind must not hold up the rest.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::clean_up::clean_up;
use super::deliver::{Settled, settle};
use super::drain::{all_but, first_of_its_place};
use super::hand_over::{Dispatch, hand_over, witnesses_wanted};
use super::keeper::Lease;
use super::ledger::{Recording, record};
use super::memory::Memory;
use super::reading::{read_page, refuse_another_order, refuse_another_server};
use super::report::{Outcome, TickError};
use super::{Call, Poller, Progress};
use crate::model::envelope::Batch;
use crate::model::page::{EventId, Page};
use crate::model::position::Position;
use crate::model::sinks::{Lag, News, SinkNews};
use crate::model::state::{CursorMark, StateDocument};
use crate::model::transitions::CatchUp;
use crate::sink::{DeliveryFailure, FailureKind, Outlet};
use crate::source::{ReadPage, Types};

/// No new batch is begun after this.
const LONGEST: Duration = Duration::from_secs(10);

/// Whether a sink is behind that may be asked now.
pub(super) fn is_due(poller: &Poller, document: &StateDocument) -> bool {
    due(poller, document).next().is_some()
}

/// Whether the commit policy cannot be met without those that are behind: the configuration has
/// changed meanwhile.
pub(super) fn comes_first(poller: &Poller, document: &StateDocument) -> bool {
    let votes = poller.sinks.iter().map(|outlet| {
        let behind = document.sink(outlet.sink.name()).lag.is_some();
        (outlet.required, !behind)
    });
    document.is_anybody_behind() && !poller.commit.is_met(votes)
}

/// How a tick ends that has done nothing else.
pub(super) fn outcome(poller: &Poller, document: &StateDocument) -> Result<Outcome, TickError> {
    if !comes_first(poller, document) {
        return Ok(Outcome::CaughtUp);
    }
    let behind = document.sinks.iter().find(|(_, sink)| sink.lag.is_some());
    let (sink, failure) = match behind {
        Some((name, sink)) => (name.clone(), sink.failure.clone()),
        None => return Ok(Outcome::CaughtUp),
    };
    let said = failure
        .as_ref()
        .map_or("it has not come to the end yet", |failure| &failure.error);
    Err(TickError::Delivery {
        poller: poller.name.clone(),
        sink,
        attempts: failure.as_ref().map_or(1, |failure| failure.attempts),
        paused: false,
        failure: DeliveryFailure::new(
            FailureKind::Passing,
            format!("it is behind, and the others must wait for it by now: {said}"),
        ),
    })
}

/// One after the other. What goes wrong is in the document and in the log; it does not fail the tick.
pub(super) async fn all(
    poller: &Poller,
    call: &Call,
    lease: &Lease,
    mut document: StateDocument,
    progress: &mut Progress,
) -> StateDocument {
    let sinks: Vec<&Outlet> = due(poller, &document).collect();
    for outlet in sinks {
        let mut chase = Chase {
            poller,
            call,
            lease,
            outlet,
            document,
            until: poller.clock.monotonic() + LONGEST,
            progress,
        };
        if let Err(error) = chase.run().await {
            let sink = outlet.sink.name();
            tracing::warn!(poller = %poller.name, sink, "catching up has failed: {}", error.story());
        }
        document = chase.document;
    }
    document
}

fn due<'a>(poller: &'a Poller, document: &StateDocument) -> impl Iterator<Item = &'a Outlet> {
    let now = poller.clock.now();
    poller.sinks.iter().filter(move |outlet| {
        let state = document.sink(outlet.sink.name());
        state.lag.is_some() && state.catches_up_from().is_none_or(|from| from <= now)
    })
}

struct Chase<'a> {
    poller: &'a Poller,
    call: &'a Call,
    lease: &'a Lease,
    outlet: &'a Outlet,
    document: StateDocument,
    until: Instant,
    progress: &'a mut Progress,
}

/// What has come beside a page.
struct Joined {
    /// Up to there everything is in the page, or was skipped.
    last: Position,
    /// Those that were skipped.
    had: Vec<Position>,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    On,
    NoFurther,
}

impl Chase<'_> {
    async fn run(&mut self) -> Result<(), TickError> {
        while let Some(lag) = self.document.sink(self.name()).lag {
            if self.is_out_of_time() {
                return Ok(());
            }
            let after = lag.position.as_ref().map(|mark| &mark.position);
            if after >= self.document.position() {
                return self.come_level(&lag).await;
            }
            if self.next_page(&lag).await? == Goes::NoFurther {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Rows below the checkpoint.
    async fn next_page(&mut self, lag: &Lag) -> Result<Goes, TickError> {
        let after = lag.position.as_ref().map(|mark| &mark.position);
        let low = self.document.checkpoint.cursor.clone();
        let (mut page, types, end) = self.read(after).await?;
        let low_place = low.as_ref().map(|mark| &mark.position);
        let cut = page.cut(|place| Some(place) <= low_place);
        let reached = end || !cut.is_empty();
        let mut last = page.reached().cloned();
        let had = page.events().iter();
        let had = had.filter(|event| lag.delivered.contains_key(&event.id));
        let mut had: Vec<Position> = had.map(|event| event.position.clone()).collect();
        let mut page = page.without(|id| lag.delivered.contains_key(id));
        if let (false, Some(place)) = (reached, last.clone()) {
            let skip = |id: &EventId| lag.delivered.contains_key(id);
            let ends = (place, low_place);
            let joined = self.join_witnesses(&mut page, &types, ends, skip).await?;
            last = Some(joined.last);
            had.extend(joined.had);
        }
        let to = match reached {
            true => low,
            false => last.map(|last| CursorMark::new(last, &self.poller.key_columns)),
        };
        if page.is_empty() {
            let nothing = Recording::of(self.poller);
            self.write(to, BTreeMap::new(), false, News::default(), nothing)
                .await?;
            return Ok(Goes::On);
        }
        let settled = self.send(&page, &types).await;
        let first = first_pending(&settled, &page);
        let to = match first {
            None => to,
            Some(at) => first_of_its_place(&page, at).checked_sub(1).map(|before| {
                let place = page.events()[before].position.clone();
                CursorMark::new(place, &self.poller.key_columns)
            }),
        };
        let news = self.told(Some(settled.news.clone()));
        let mut recording = Recording::of(self.poller);
        recording.add(self.name(), &page, &settled.handed);
        let has = taken(&settled, &page);
        self.write(to, has, false, news, recording).await?;
        let mut clean = all_but(&page, &settled.stay());
        clean.extend(had);
        self.clean_up(clean).await;
        Ok(match first {
            None => Goes::On,
            Some(_) => Goes::NoFurther,
        })
    }

    /// What was delivered above the checkpoint. A row may still be committed among them, so the sink
    /// does not go there step by step: either it has all of them, or they come again. So it gets as
    /// much time as there is.
    async fn come_level(&mut self, lag: &Lag) -> Result<(), TickError> {
        let low = self.document.position().cloned();
        let memory = Memory::load(self.poller, &self.document, low.as_ref()).await?;
        let inline = self.document.delivered.values();
        let spilled = self.document.late.spilled.iter().map(|segment| &segment.to);
        let top = inline.chain(spilled).max().cloned();
        let mut has: BTreeMap<EventId, Position> = lag.delivered.clone();
        let mut after = low;
        // Written with the rows that it is about: nothing of it counts before that.
        let mut learned: Option<SinkNews> = None;
        let mut recording = Recording::of(self.poller);
        // Rows leave an outbox when it is written down that the sink has them, not before.
        let mut clean = Vec::new();
        while after < top {
            if self.call.budget.is_spent(self.poller.clock.monotonic()) {
                let news = self.told(learned);
                self.write(None, has, false, news, recording).await?;
                self.clean_up(clean).await;
                return Ok(());
            }
            let (mut page, types, end) = self.read(after.as_ref()).await?;
            let cut = page.cut(|place| Some(place) <= top.as_ref());
            let last = page.reached().cloned();
            let skip = |id: &EventId| !memory.has(id) || has.contains_key(id);
            let mut page = page.without(skip);
            let more = last.clone().filter(|_| !end && cut.is_empty());
            if let Some(place) = more {
                let ends = (place, top.as_ref());
                self.join_witnesses(&mut page, &types, ends, skip).await?;
            }
            if !page.is_empty() {
                let settled = self.send(&page, &types).await;
                has.extend(taken(&settled, &page));
                recording.add(self.name(), &page, &settled.handed);
                clean.extend(all_but(&page, &settled.stay()));
                let before = learned.unwrap_or_default();
                learned = Some(SinkNews {
                    rows: before.rows + settled.news.rows,
                    set_aside: before.set_aside + settled.news.set_aside,
                    resent: before.resent + settled.news.resent,
                    limit: settled.news.limit.or(before.limit),
                    ..settled.news.clone()
                });
                if first_pending(&settled, &page).is_some() {
                    let news = self.told(learned);
                    self.write(None, has, false, news, recording).await?;
                    self.clean_up(clean).await;
                    return Ok(());
                }
            }
            match last {
                Some(last) if !end && cut.is_empty() => after = Some(last),
                _ => break,
            }
        }
        let all_is_well = Some(learned.unwrap_or_default());
        let news = self.told(all_is_well);
        self.write(None, BTreeMap::new(), true, news, recording)
            .await?;
        self.clean_up(clean).await;
        let sink = self.name();
        tracing::info!(poller = %self.poller.name, sink, "it has caught up");
        Ok(())
    }

    /// More rows for a page that could not show whose fault it is: all others that were read with it may be another
    /// shard's, or too large.
    async fn join_witnesses(
        &self,
        page: &mut Page,
        types: &Types,
        (last, up_to): (Position, Option<&Position>),
        skip: impl Fn(&EventId) -> bool,
    ) -> Result<Joined, TickError> {
        let failure = self.document.sink(self.name()).failure;
        let mut joined = Joined {
            last,
            had: Vec::new(),
        };
        loop {
            let wanted = witnesses_wanted(self.poller, failure.iter(), page);
            if wanted == 0 || self.is_out_of_time() {
                return Ok(joined);
            }
            let (mut read, others, end) = self.read(Some(&joined.last)).await?;
            let is_last = end || !read.cut(|place| Some(place) <= up_to).is_empty();
            let reached = read.reached().filter(|_| others == *types);
            let Some(reached) = reached.cloned() else {
                return Ok(joined);
            };
            let had = read.events().iter().filter(|event| skip(&event.id));
            let had: Vec<Position> = had.map(|event| event.position.clone()).collect();
            let witnesses = read.without(&skip).beginning(wanted);
            joined.last = match witnesses.last_position() {
                Some(last) if witnesses.len() >= wanted => last.clone(),
                _ => reached,
            };
            let passed = had.into_iter().filter(|place| *place <= joined.last);
            joined.had.extend(passed);
            page.join(witnesses);
            if is_last {
                return Ok(joined);
            }
        }
    }

    async fn read(&self, after: Option<&Position>) -> Result<(Page, Types, bool), TickError> {
        let ReadPage {
            page,
            end,
            types,
            schema,
            server,
            ..
        } = read_page(self.poller, after, &self.call.budget).await?;
        refuse_another_server(self.poller, &self.document, server.as_deref())?;
        refuse_another_order(self.poller, &self.document, &schema)?;
        Ok((page, types, end))
    }

    async fn send(&self, page: &Page, types: &Types) -> Settled {
        let dispatch = Dispatch::of(self.poller, self.call, self.lease, &self.document);
        let state = self.document.sink(self.name());
        let ids = page.events().iter().map(|event| event.id).collect();
        let before = state
            .failure
            .as_ref()
            .filter(|failure| failure.concerns(&ids));
        let batch = Batch::assemble(
            &self.poller.events_as,
            types,
            page,
            dispatch.fences.next(),
            before.map_or(0, |failure| failure.attempts) + 1,
            self.call.trace.clone(),
        );
        let sink = self.outlet.sink.as_ref();
        let sent_before = state.sent_before(&batch.event_ids);
        let handed = hand_over(dispatch, sink, &state, &batch, sent_before).await;
        settle(
            dispatch,
            self.name(),
            &self.document,
            (&batch, page),
            handed,
        )
        .await
    }

    fn told(&self, news: Option<SinkNews>) -> News {
        let news = news.map(|news| (self.name().to_owned(), news));
        News {
            sinks: news.into_iter().collect(),
            gone: None,
        }
    }

    async fn write(
        &mut self,
        to: Option<CursorMark>,
        delivered: BTreeMap<EventId, Position>,
        arrived: bool,
        news: News,
        recording: Recording,
    ) -> Result<(), TickError> {
        let ledger = record(self.poller, &self.document, None, recording, self.progress).await?;
        let step = CatchUp {
            sink: self.name().to_owned(),
            to,
            delivered,
            arrived,
            news,
            ledger,
            ttl: self.poller.lease.ttl,
        };
        let before = self.document.sink(self.name()).lag;
        self.document = self.lease.catch_up(step).await;
        self.progress.caught_up |= self.document.sink(self.name()).lag != before;
        Ok(())
    }

    /// An outbox waits for the slowest.
    async fn clean_up(&mut self, clean: Vec<Position>) {
        let name = self.name();
        let others = self.document.sinks.iter();
        let mut others = others.filter(|(other, sink)| *other != name && sink.lag.is_some());
        if others.next().is_none() && self.poller.source.cleans_up() {
            let left = clean_up(self.poller, clean, &self.call.budget).await;
            self.progress.tally.left_behind += left;
        }
    }

    fn is_out_of_time(&self) -> bool {
        let now = self.poller.clock.monotonic();
        now >= self.until || self.call.budget.is_spent(now)
    }

    fn name(&self) -> &str {
        self.outlet.sink.name()
    }
}

fn first_pending(settled: &Settled, page: &Page) -> Option<usize> {
    (0..page.len()).find(|at| settled.handed.is_pending(*at))
}

fn taken(settled: &Settled, page: &Page) -> BTreeMap<EventId, Position> {
    let events = page.events().iter().enumerate();
    events
        .filter(|(at, _)| !settled.handed.is_pending(*at))
        .map(|(_, event)| (event.id, event.position.clone()))
        .collect()
}
