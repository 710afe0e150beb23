//! What all parts of a simulated world share: the seed, time, the truth about rows and deliveries,
//! and the invariants that look on.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering as Memory};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use dbtick::backfill::Plan as Filled;
use dbtick::clock::{Clock, SystemClock, Timestamp};
use dbtick::model::ledger::LedgerMode;
use dbtick::model::shard::Shard;
use dbtick::model::state::{StateDocument, Status};
use dbtick::store::StoreKey;
use tokio::time::{Instant, sleep};

use super::faults::{Bug, Delivery, Effect, MOST_LATE, Mode, Odds, Read, Write};
use super::invariants::{Accepted, End, Invariants, Planned, Span, Violation};
use super::keys::{self, Part};
use super::layout::Layout;
use super::manners::Manners;
use super::receivers::{Event, Receivers};
use super::rng::Rng;
use super::store::Documents;
use super::table::{Place, Table};
use super::trace::Trace;
use super::{Plan, Run};

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) layout: Layout,
    pub(crate) parts: Vec<Part>,
    odds: Odds,
    /// Of these odds, what happens to single requests.
    effects: Vec<(u64, Effect)>,
    rng: Mutex<Rng>,
    started: Instant,
    healed: AtomicBool,
    /// Until then, counted from the start.
    host_off: Mutex<Duration>,
    in_flight: AtomicUsize,
    writes: AtomicU64,
    /// Who sends rows again has nothing left to do.
    filled: AtomicBool,
    /// Ticks that have found no document, and when there was one more or less of them.
    unborn: Mutex<(i64, Duration)>,
    trace: Mutex<Trace>,
    table: Mutex<Table>,
    receivers: Mutex<Receivers>,
    documents: Mutex<Documents>,
    invariants: Mutex<Invariants>,
}

/// The runtime is paused, so this is virtual time; the wall clock of `SystemClock` is never asked.
fn virtual_now() -> Instant {
    SystemClock.monotonic()
}

impl World {
    pub(crate) fn new(seed: u64, plan: Plan) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mut apart = Rng(seed.wrapping_mul(0x9e6d_62d0_6f6a_9a9b));
        let layout = Layout::drawn(&mut rng, &mut apart, plan);
        let manners: Vec<_> = (0..layout.sinks)
            .map(|sink| Manners::drawn(&mut rng, plan, layout, sink))
            .collect();
        let odds = match plan.mode {
            Mode::Chaos => Odds::drawn(&mut rng).without(plan.size.left_out),
            Mode::Calm => Odds {
                tick_doubled: 200,
                tick_gap: 50,
                ..Odds::default()
            },
        };
        let world = Self {
            plan,
            layout,
            parts: keys::parts(layout.shards),
            odds,
            effects: odds.effects(),
            rng: Mutex::new(rng),
            started: virtual_now(),
            healed: AtomicBool::new(false),
            host_off: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            writes: AtomicU64::new(0),
            filled: AtomicBool::new(false),
            unborn: Mutex::default(),
            trace: Mutex::new(Trace::new(plan.trace)),
            table: Mutex::default(),
            receivers: Mutex::new(Receivers::new(layout, plan.bug, manners)),
            documents: Mutex::default(),
            invariants: Mutex::default(),
        };
        world.note(format_args!("seed {seed}: {layout:?} {odds:?}"));
        for (name, receiver) in world.receivers().all() {
            world.note(format_args!("{name}: {:?}", receiver.manners));
        }
        world
    }

    pub(crate) fn instances(&self) -> u64 {
        self.layout.instances
    }

    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.plan.bug == Some(bug)
    }

    // ---- chance

    pub(crate) fn draw(&self, bound: u64) -> u64 {
        self.rng.lock().unwrap().below(bound)
    }

    pub(crate) fn draw_time(&self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_micros()).unwrap();
        Duration::from_micros(1 + self.draw(most))
    }

    /// Never, once the world has healed.
    pub(crate) fn fault(&self, odds: impl FnOnce(&Odds) -> u64) -> bool {
        let odds = odds(&self.odds);
        odds > 0 && !self.healed.load(Memory::Relaxed) && self.draw(1000) < odds
    }

    /// The first effect that is drawn.
    fn fate<T>(&self, wanted: impl Fn(Effect) -> Option<T>) -> Option<T> {
        let of_this_kind = self.effects.iter();
        let mut of_this_kind =
            of_this_kind.filter_map(|(odds, effect)| Some((*odds, wanted(*effect)?)));
        let drawn = of_this_kind.find(|(odds, _)| self.fault(|_| *odds));
        drawn.map(|(_, fate)| fate)
    }

    pub(crate) fn fate_of_a_write(&self) -> Write {
        let fate = self.fate(|effect| match effect {
            Effect::Write(write) => Some(write),
            _ => None,
        });
        fate.unwrap_or(Write::FINE)
    }

    pub(crate) fn fate_of_a_delivery(&self) -> Delivery {
        let manners = self.layout.has_manners;
        let fate = self.fate(|effect| match effect {
            Effect::Deliver(fate) => Some(fate).filter(|fate| manners || !fate.is_a_manner()),
            _ => None,
        });
        fate.unwrap_or(Delivery::FINE)
    }

    pub(crate) fn fate_of_a_read(&self) -> Option<Read> {
        self.fate(|effect| match effect {
            Effect::Read(fate) => Some(fate),
            _ => None,
        })
    }

    // ---- time

    pub(crate) fn elapsed(&self) -> Duration {
        virtual_now() - self.started
    }

    /// The true time, which only the store may know.
    pub(crate) fn now(&self) -> Timestamp {
        DateTime::from_timestamp(1_775_000_000, 0).unwrap()
            + TimeDelta::from_std(self.elapsed()).unwrap()
    }

    /// One way over a network.
    pub(crate) async fn travel(&self) {
        let most = if self.fault(|odds| odds.slow_request) {
            Duration::from_secs(3)
        } else {
            Duration::from_millis(20)
        };
        sleep(self.draw_time(most)).await;
    }

    /// As long as everything goes wrong. Short worlds are cheap, and most of what goes wrong does so in
    /// a few ticks; a planted bug gets the time to show.
    pub(crate) fn time_of_chaos(&self) -> Duration {
        let drawn = match self.draw(4) {
            0 | 1 if self.plan.bug.is_none() => 6 + self.draw(14),
            2 if self.plan.bug.is_none() => 20 + self.draw(20),
            _ => 30 + self.draw(60),
        };
        Duration::from_secs(self.plan.size.seconds.unwrap_or(drawn))
    }

    pub(crate) fn turn_the_host_off(&self, time: Duration) {
        self.note(format_args!("the host is off for {time:?}"));
        *self.host_off.lock().unwrap() = self.elapsed() + time;
    }

    pub(crate) async fn until_the_host_is_on(&self) {
        let until = *self.host_off.lock().unwrap();
        sleep(until.saturating_sub(self.elapsed())).await;
    }

    /// While the host is off, others do less too: so much would happen meanwhile.
    pub(crate) fn rests(&self) -> bool {
        let off = *self.host_off.lock().unwrap() > self.elapsed();
        off && self.draw(40) > 0
    }

    /// So many more ticks have found no document.
    pub(crate) fn unborn_ticks(&self, more: i64) {
        let mut unborn = self.unborn.lock().unwrap();
        *unborn = (unborn.0 + more, self.elapsed());
    }

    /// Nobody is about to write a first document, or has one on its way.
    pub(crate) fn no_document_may_be_born(&self) -> bool {
        let (ticks, since) = *self.unborn.lock().unwrap();
        ticks == 0 && self.elapsed() > since + MOST_LATE + Duration::from_secs(10)
    }

    /// Whether one more transaction may write.
    pub(crate) fn may_write(&self) -> bool {
        let before = self.writes.fetch_add(1, Memory::Relaxed);
        self.plan.size.writes.is_none_or(|most| before < most)
    }

    /// Goes on when the process that sent it is dead, as a network does.
    pub(crate) fn send(self: &Arc<Self>, packet: impl Future<Output = ()> + Send + 'static) {
        self.in_flight.fetch_add(1, Memory::Relaxed);
        let world = self.clone();
        tokio::spawn(async move {
            packet.await;
            world.in_flight.fetch_sub(1, Memory::Relaxed);
        });
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Memory::Relaxed)
    }

    pub(crate) fn heal(&self) {
        self.healed.store(true, Memory::Relaxed);
        let versions = self.table().versions();
        self.receivers().heal(versions);
    }

    // ---- truth

    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap()
    }

    pub(crate) fn receivers(&self) -> MutexGuard<'_, Receivers> {
        self.receivers.lock().unwrap()
    }

    pub(crate) fn documents(&self) -> MutexGuard<'_, Documents> {
        self.documents.lock().unwrap()
    }

    /// The documents of the poller.
    pub(crate) fn states(&self) -> Vec<Option<Arc<StateDocument>>> {
        let documents = self.documents();
        let states = self.parts.iter().map(|part| documents.state(&part.key));
        states.collect()
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.states().iter().all(Option::is_some)
    }

    pub(crate) fn checkpoints(&self) -> Vec<Option<Place>> {
        let place = |state: Option<Arc<StateDocument>>| state.and_then(|it| Place::of(&it));
        self.states().into_iter().map(place).collect()
    }

    /// What a process believes of the shard that it has.
    pub(crate) fn believed(&self, shard: Shard) -> Shard {
        let mut all = Shard::all(shard.count(), shard.by());
        match self.has(Bug::ShardsOverlap) {
            true => all.next().unwrap(),
            false => shard,
        }
    }

    /// Everything visible is committed, and everybody has it.
    pub(crate) fn is_drained(&self) -> bool {
        let states = self.states();
        let waits = |it: &StateDocument| it.is_anybody_behind() || it.status == Status::Paused;
        let behind = states.iter().flatten().any(|it| waits(it));
        let table = self.table();
        let mut ends = self.parts.iter().zip(self.checkpoints());
        !behind && ends.all(|(part, at)| at >= table.last_of(part.shard))
    }

    pub(crate) fn note_that_it_is_filled(&self) {
        self.filled.store(true, Memory::Relaxed);
    }

    /// The backfill is complete, or given up.
    pub(crate) fn is_filled(&self) -> bool {
        self.layout.filling.is_none() || self.filled.load(Memory::Relaxed)
    }

    /// Nothing is there that could be sent again, and nothing will be.
    pub(crate) fn is_over(&self) -> bool {
        self.healed.load(Memory::Relaxed) && self.is_drained()
    }

    /// How long the documents say that sinks are left alone.
    pub(crate) fn longest_wait(&self) -> Duration {
        let states = self.states();
        let documents = self.documents();
        let states = states.iter().flatten().map(AsRef::as_ref);
        let all = states.chain(documents.ranges());
        let waits = all.flat_map(|it| it.sinks.values());
        let until = waits.filter_map(|sink| match sink.lag {
            Some(_) => sink.catches_up_from(),
            None => sink.not_before(),
        });
        let wait = until.max().map(|until| until - self.now());
        wait.and_then(|wait| wait.to_std().ok()).unwrap_or_default()
    }

    /// Whether a receiver has rows before it that it never takes and that are not aside.
    pub(crate) fn bad_rows_wait(&self) -> bool {
        let (table, receivers) = (self.table(), self.receivers());
        receivers.all().any(|(_, receiver)| {
            table.rows().any(|(place, version)| {
                let bad = receiver.manners.bad.contains_key(&version);
                bad && !receiver.is_aside((place.key, version))
            })
        })
    }

    pub(crate) fn somebody_leaves(&self) -> bool {
        let receivers = self.receivers();
        let mut all = receivers.all();
        all.any(|(_, receiver)| receiver.manners.leaves())
    }

    // ---- judgement

    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        self.trace.lock().unwrap().note(self.elapsed(), what);
    }

    pub(crate) fn invariants(&self) -> MutexGuard<'_, Invariants> {
        self.invariants.lock().unwrap()
    }

    pub(crate) fn violated(&self, name: &'static str, what: String) {
        self.note(format_args!("VIOLATED {name}: {what}"));
        self.invariants().violated(name, what);
    }

    pub(crate) fn judge(&self, verdict: Result<(), Violation>) {
        if let Err(Violation { name, what }) = verdict {
            self.violated(name, what);
        }
    }

    /// The one linearization point: a write of a state document was accepted.
    pub(crate) fn check_write(
        &self,
        key: &StoreKey,
        before: Option<&StateDocument>,
        written: Option<Timestamp>,
        after: &StateDocument,
    ) {
        let segment = after.ledger.as_ref().map(|ledger| {
            let body = self.documents().segment(key, &ledger.head);
            (ledger.head.clone(), body)
        });
        let span = keys::range(key).and_then(|number| {
            let plan = self.documents().plan()?;
            Some(Span::from(&plan.ranges[number - 1]))
        });
        let verdict = self.invariants().check_write(
            key,
            &Accepted {
                before,
                written,
                after,
                now: self.now(),
                store_tells_time: self.layout.store_tells_time
                    && !self.has(Bug::LeaseExpiryIgnored),
                marked: self.documents().is_marked(key),
                span,
                shard: keys::shard(&keys::name(key)),
                has_gaps: span.is_some() && self.ranges_have_gaps(),
                ledger: match span {
                    Some(_) => LedgerMode::Full,
                    None => self.layout.ledger,
                },
                segment,
                layout: self.layout,
                table: &self.table(),
                receivers: &self.receivers(),
            },
        );
        self.judge(verdict);
    }

    fn ranges_have_gaps(&self) -> bool {
        let drawn = self.layout.filling.is_some_and(|it| it.has_gaps);
        drawn || self.has(Bug::ReconciledBlindly)
    }

    pub(crate) fn check_plan(&self, before: Option<&Filled>, after: &Filled) {
        let mut invariants = self.invariants();
        let furthest = invariants.furthest();
        let verdict = invariants.check_plan(&Planned {
            before,
            after,
            furthest,
            table: &self.table(),
            receivers: &self.receivers(),
        });
        drop(invariants);
        self.judge(verdict);
    }

    /// H3, of a batch of a backfill. A row before its beginning may come as a witness: the receiver had it.
    pub(crate) fn check_what_is_sent_again(&self, events: &[Event]) {
        let plan = self.documents().plan();
        let spans = plan.iter().flat_map(|plan| &plan.ranges).map(Span::from);
        let up_to = spans.map(|span| span.up_to).max();
        for event in events.iter().filter(|it| Some(it.place) > up_to) {
            let what = format!("row {} is sent, beyond the end {up_to:?}", event.place);
            self.violated("H3", what);
        }
    }

    pub(crate) fn check_the_end(&self) {
        let documents: Vec<_> = self.states().into_iter().flatten().collect();
        let end = End {
            documents: &documents,
            mode: self.plan.mode,
            layout: self.layout,
            breaks_at_random: self.layout.has_manners && self.odds.sink_breaks > 0,
            table: &self.table(),
            receivers: &self.receivers(),
        };
        let verdict = self.invariants().check_end(&end);
        self.judge(verdict);
    }

    pub(crate) fn finish(&self) -> Run {
        let mut invariants = self.invariants();
        let mut summary = invariants.summary;
        summary.orders = invariants.orders();
        summary.in_shards = u64::from(self.parts.len() > 1);
        summary.duplicates = self.receivers().duplicates();
        summary.rows = self.table().len() as u64;
        let receivers = self.receivers();
        let aside = receivers.all().map(|(_, it)| it.aside().count() as u64);
        summary.quarantined = aside.sum();
        Run {
            violation: invariants.take_violation(),
            summary,
            trace_hash: self.trace.lock().unwrap().hash(),
        }
    }
}
