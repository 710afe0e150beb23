//! The body of a tick that has found something to do: deliver → commit, until nothing is left.
//!
//! While a batch is on its way, the next rows are read and what was delivered before is committed, by
//! one write after the other, each for all that has come since. Where anything is out of the ordinary,
//! nothing newer goes out before it is written down.

mod committing;
mod flight;
mod stopping;
mod supply;
mod uncommitted;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep_until};

use super::birth::leave_birth_marker;
use super::deliver::{Delivered, conclude};
use super::keeper::{Keeper, Lease};
use super::memory::{self, Memory};
use super::report::{Behind, Outcome, TickError};
use super::settling::{Again, look_again, proven};
use super::sweeping::Unsent;
use super::{Call, Poller, Progress, catch_up};
use crate::model::late::Sweep;
use crate::model::ledger::LedgerMode;
use crate::model::state::{StateDocument, Status};
use crate::model::transitions::Then;
use flight::{Flight, Landing};
use stopping::{Blocked, stop_at};
use supply::{End, Supply};
use uncommitted::{Told, Uncommitted};

pub(super) use stopping::{all_but, first_of_its_place};

/// At the least, between two looks at the writers in one tick.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// For each row that another look makes the tick read once more.
const READ_AGAIN: Duration = Duration::from_micros(20);
/// Batches that were delivered and are not committed. So many come again after a crash, and those that
/// were on their way.
pub const MOST_UNCOMMITTED: usize = 16;
/// Between the beginnings of two commits, unless much waits for one: a store that answers at once would
/// otherwise be asked without a pause, which is paid for, and on one machine takes the time of others.
const COMMIT_PACE: Duration = Duration::from_millis(20);

/// What a tick has found to do.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) looked: Instant,
    pub(super) sweep: Sweep,
    pub(super) memory: Memory,
    pub(super) unsent: Unsent,
}

/// Delivers and commits batch after batch.
pub(super) async fn drain(
    poller: &Poller,
    keeper: Box<Keeper<'_>>,
    work: Work,
    call: &Call,
    progress: &mut Progress,
) -> Result<Outcome, TickError> {
    let mut document = keeper.document().clone();
    let mut marker_writes = 0;
    let mut writes = 0;
    let body = async |lease: Lease| {
        if document.is_newborn() {
            let marked = leave_birth_marker(poller, &mut marker_writes).await;
            or_release(&lease, marked).await?;
        }
        memory::remove_retired(poller, &mut document.late).await;
        let mut pipeline = Pipeline::new(poller, call, &lease, document, work);
        pipeline.run(progress).await
    };
    let result = keeper.hold(&mut writes, body).await;
    progress.tally.writes += writes + marker_writes;
    result?
}

/// Where everything is between the source and the checkpoint.
struct Pipeline<'a> {
    poller: &'a Poller,
    call: &'a Call,
    lease: &'a Lease,
    /// As it was last written.
    document: Arc<StateDocument>,
    looked: Instant,
    sweep: Sweep,
    supply: Supply<'a>,
    flight: Flight<'a>,
    uncommitted: Uncommitted,
    committing: Option<(BoxFuture<'a, StateDocument>, Told)>,
    /// Not before, unless much waits for it.
    next_commit: Instant,
    /// Since the last look: what was found goes out first.
    has_launched: bool,
    /// No more can be remembered.
    is_full: bool,
}

/// Why nothing is launched. It is acted upon once nothing is on its way.
#[derive(Debug, PartialEq, Eq)]
enum Holds {
    /// For what is next to be known, or for room.
    Waiting,
    /// What was delivered is committed first.
    Commit,
    /// Another look at the writers may prove more.
    Look,
    Over(Outcome),
}

enum Happened {
    Landed(Box<Landing>),
    Committed(Box<StateDocument>),
    Read,
    /// A commit may begin.
    Paced,
}

impl<'a> Pipeline<'a> {
    fn new(
        poller: &'a Poller,
        call: &'a Call,
        lease: &'a Lease,
        document: StateDocument,
        work: Work,
    ) -> Self {
        let Work {
            looked,
            sweep,
            memory,
            unsent,
        } = work;
        Self {
            poller,
            call,
            lease,
            document: Arc::new(document),
            looked,
            supply: Supply::of(poller, &call.budget, &sweep, memory, unsent),
            sweep,
            flight: Flight::new(poller, call, lease),
            uncommitted: Uncommitted::default(),
            committing: None,
            next_commit: poller.clock.monotonic(),
            has_launched: false,
            is_full: false,
        }
    }

    async fn run(&mut self, progress: &mut Progress) -> Result<Outcome, TickError> {
        loop {
            let holds = self.launch();
            if self.is_worth_a_commit(&holds) && self.is_time_to_commit() {
                self.begin_commit(self.renew(), progress).await?;
                // There may be room now.
                continue;
            }
            match holds {
                Holds::Commit if self.flight.is_empty() => {
                    self.commit(self.renew(), progress).await?;
                }
                Holds::Look if self.flight.is_empty() => {
                    self.commit(self.renew(), progress).await?;
                    if let Some(outcome) = self.look(progress).await? {
                        return Ok(outcome);
                    }
                }
                Holds::Over(outcome) if self.flight.is_empty() => {
                    return self.finish(outcome, progress).await;
                }
                _ => match self.next(&holds).await {
                    Happened::Landed(landing) => self.land(*landing, progress).await?,
                    Happened::Committed(document) => self.committed(*document, progress).await,
                    Happened::Read | Happened::Paced => {}
                },
            }
        }
    }

    /// Launches what may go out now.
    fn launch(&mut self) -> Holds {
        loop {
            // Beside a live poller nothing is read before it is its turn: rows may change.
            if self.poller.beside.is_none() || self.flight.is_empty() {
                self.supply.ask(&self.document);
            }
            let Some(next) = self.supply.front() else {
                return match self.supply.is_over() {
                    true => Holds::Over(self.drained()),
                    false => Holds::Waiting,
                };
            };
            if self.has_launched
                && let Some(holds) = self.holds(next)
            {
                return holds;
            }
            let most = match self.is_calm() {
                true => self.poller.batch.max_inflight.get(),
                false => 1,
            };
            let has_room = self.unproven() < MOST_UNCOMMITTED;
            if !has_room || !self.flight.has_room_for(next, most) {
                return Holds::Waiting;
            }
            let Some(unsent) = self.supply.take() else {
                return Holds::Waiting;
            };
            self.flight.launch(&self.document, unsent, most);
            self.has_launched = true;
        }
    }

    /// Batches that were delivered and would come again after a crash, as far as is known.
    fn unproven(&self) -> usize {
        let written = self.committing.as_ref().map_or(0, |(_, told)| told.batches);
        self.uncommitted.batches() + usize::try_from(written).unwrap_or(usize::MAX)
    }

    /// Nothing is left, as far as anybody has looked.
    fn drained(&self) -> Outcome {
        let (budget, now) = (&self.call.budget, self.poller.clock.monotonic());
        let foreign = self.supply.passed_at_the_end();
        foreign.outcome(Outcome::Drained, budget, now)
    }

    /// What keeps the next batch back, other than those before it.
    fn holds(&self, next: &Unsent) -> Option<Holds> {
        let now = self.poller.clock.monotonic();
        let unsettled = !self.uncommitted.is_empty() || self.committing.is_some();
        if self.document.status != Status::Active {
            Some(Holds::Over(Outcome::Paused))
        } else if self.call.budget.is_spent(now) {
            Some(Holds::Over(Outcome::BudgetSpent))
        } else if self.call.budget.is_others_turn(now) {
            Some(Holds::Over(Outcome::Yielded))
        } else if self.is_full {
            Some(Holds::Over(Outcome::Full))
        } else if self.uncommitted.comes_first || unsettled && !self.is_calm() {
            Some(Holds::Commit)
        } else {
            self.is_worth_a_look(next, now).then_some(Holds::Look)
        }
    }

    /// Nobody has failed or is behind, and nothing is to be done before or after a commit: then a batch
    /// that goes out before the one ahead of it is committed can cost nothing but a duplicate.
    fn is_calm(&self) -> bool {
        let Poller {
            source,
            ledger,
            beside,
            ..
        } = self.poller;
        let mut sinks = self.document.sinks.values();
        let well =
            sinks.all(|sink| sink.failure.is_none() && sink.lag.is_none() && sink.again.is_none());
        well && *ledger == LedgerMode::Off && !source.cleans_up() && beside.is_none()
    }

    /// Whether another look at the writers may prove what this sweep cannot, about the rows that come
    /// next. A tick that goes on delivering looks again in any case after a while: the more is
    /// remembered, the longer, because that is read once more.
    fn is_worth_a_look(&self, next: &Unsent, now: Instant) -> bool {
        let next = &next.seen[0];
        let remembered = memory::remembered(&self.document);
        let patience = LOOK_AGAIN + READ_AGAIN * u32::try_from(remembered).unwrap_or(u32::MAX);
        let waited = now - self.looked >= patience;
        let exhausted = match self.flight.is_empty() {
            true => self.sweep.is_exhausted(next),
            false => self.sweep.may_be_exhausted(next),
        };
        waited && self.sweep.is_helpless(next) || exhausted
    }

    /// The last commit of a tick also gives the lease back, so that one is kept for the end.
    fn is_worth_a_commit(&self, holds: &Holds) -> bool {
        let next_waits = *holds == Holds::Waiting && self.supply.front().is_some();
        let more_comes = !self.flight.is_empty() || next_waits;
        self.committing.is_none() && !self.uncommitted.is_empty() && more_comes
    }

    fn is_time_to_commit(&self) -> bool {
        let much = self.uncommitted.batches() >= MOST_UNCOMMITTED / 2;
        much || self.poller.clock.monotonic() >= self.next_commit
    }

    async fn next(&mut self, holds: &Holds) -> Happened {
        let paced = self.is_worth_a_commit(holds);
        let next_commit = self.next_commit;
        let Self {
            flight,
            supply,
            committing,
            ..
        } = self;
        let written = async {
            match committing {
                Some((written, _)) => written.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            document = written => Happened::Committed(Box::new(document)),
            Some(landing) = flight.land() => Happened::Landed(Box::new(landing)),
            () = supply.answer(), if supply.is_asking() => Happened::Read,
            () = sleep_until(next_commit), if paced => Happened::Paced,
        }
    }

    /// The answers to a batch are there. `Err`: the tick ends here.
    async fn land(&mut self, landing: Landing, progress: &mut Progress) -> Result<(), TickError> {
        let (poller, document) = (self.poller, Arc::clone(&self.document));
        let Landing { unsent, batch, .. } = &landing;
        let ended = conclude(poller, &document, &unsent.page, batch, &landing.answered);
        let quiet = matches!(&ended, Ok(delivered) if delivered.is_quiet()) && self.is_calm();
        let quiet = quiet && is_known(&document, unsent);
        let ended = if quiet && !self.uncommitted.comes_first {
            ended
        } else {
            // It is judged by the document that it goes into.
            self.commit(self.renew(), progress).await?;
            let document = &self.document;
            conclude(poller, document, &unsent.page, batch, &landing.answered)
        };
        let delivered = match ended {
            Ok(delivered) => delivered,
            Err(part) => return Err(self.stop(landing, *part, progress).await),
        };
        let unsent = landing.unsent;
        unsent.seen.iter().for_each(|seen| self.sweep.pass(seen));
        self.uncommitted.comes_first = !quiet;
        self.uncommitted
            .add(poller, &self.document, unsent, delivered);
        Ok(())
    }

    /// What is on its way behind it may come to something.
    async fn stop(
        &mut self,
        landing: Landing,
        part: Delivered,
        progress: &mut Progress,
    ) -> TickError {
        let mut beyond = Vec::new();
        while let Some(Landing {
            unsent,
            batch,
            answered,
        }) = self.flight.land().await
        {
            let ended = conclude(self.poller, &self.document, &unsent.page, &batch, &answered);
            // What is not taken as a whole, by everybody, comes again.
            if let Ok(delivered) = ended
                && delivered.is_quiet()
                && let Some(receipt) = delivered.receipt
            {
                beyond.push((receipt, unsent.page.into_events()));
            }
        }
        let blocked = Blocked {
            landing,
            part,
            beyond,
        };
        let sweep = self.sweep.clone();
        let (poller, call, lease) = (self.poller, self.call, self.lease);
        stop_at(
            poller,
            call,
            &self.document,
            lease,
            sweep,
            blocked,
            progress,
        )
        .await
    }

    /// `Some`: there is nothing else to do.
    async fn look(&mut self, progress: &mut Progress) -> Result<Option<Outcome>, TickError> {
        if self.document.status != Status::Active {
            // Said by the commit just now.
            return Ok(None);
        }
        let again = look_again(self.poller, &self.document, &self.call.budget).await;
        match self.or_give_up(again).await? {
            Again::Work(work) => {
                let Work {
                    looked,
                    sweep,
                    memory,
                    unsent,
                } = *work;
                let budget = &self.call.budget;
                self.looked = looked;
                self.supply = Supply::of(self.poller, budget, &sweep, memory, unsent);
                self.sweep = sweep;
                self.has_launched = false;
                Ok(None)
            }
            Again::Nothing {
                sweep,
                held,
                foreign,
            } => {
                let (to, known) = proven(self.poller, &self.document, &sweep);
                let document = self.lease.settle(to, known).await;
                progress.stands(&document, &sweep);
                progress.late.held(held);
                let now = self.poller.clock.monotonic();
                let budget = &self.call.budget;
                Ok(Some(foreign.outcome(Outcome::Drained, budget, now)))
            }
        }
    }

    /// The last commit, which gives the lease back unless somebody is behind.
    async fn finish(
        &mut self,
        outcome: Outcome,
        progress: &mut Progress,
    ) -> Result<Outcome, TickError> {
        self.await_commit(progress).await;
        let End {
            seen, held, error, ..
        } = self.supply.end();
        seen.iter().for_each(|seen| self.sweep.pass(seen));
        let also_behind = catch_up::is_due(self.poller, &self.document);
        let then = match also_behind {
            true => self.renew(),
            false => Then::Release,
        };
        let gives_back = !also_behind && !self.uncommitted.is_empty();
        self.commit(then, progress).await?;
        if let Some(error) = error {
            if !gives_back {
                self.lease.release().await;
            }
            return Err(error);
        }
        progress.late.held(held);
        if also_behind {
            let (poller, call, lease) = (self.poller, self.call, self.lease);
            let document = StateDocument::clone(&self.document);
            let document = catch_up::all(poller, call, lease, document, progress).await;
            progress.behind = Behind::all(&document);
        }
        if !gives_back {
            self.lease.release().await;
        }
        Ok(outcome)
    }

    fn renew(&self) -> Then {
        Then::Renew {
            ttl: self.poller.lease.ttl,
        }
    }

    /// Whoever ends a tick by an error waits for no answers, and gives the lease back.
    async fn or_give_up<T>(&mut self, result: Result<T, TickError>) -> Result<T, TickError> {
        if result.is_err() {
            self.flight.abandon();
        }
        or_release(self.lease, result).await
    }
}

/// Its columns are those of the document, or the first.
fn is_known(document: &StateDocument, unsent: &Unsent) -> bool {
    let known = document.schema.as_ref();
    known.is_none_or(|known| known.hash() == unsent.schema.hash())
}

/// Whoever ends a tick by an error gives the lease back first.
async fn or_release<T>(lease: &Lease, result: Result<T, TickError>) -> Result<T, TickError> {
    if result.is_err() {
        lease.release().await;
    }
    result
}
