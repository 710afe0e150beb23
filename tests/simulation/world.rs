//! What all parts of a simulated world share: the seed, time, the truth about rows and deliveries,
//! and the invariants that look on.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Memory};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use dbtick::clock::{Clock, SystemClock, Timestamp};
use dbtick::model::late::Ordering;
use dbtick::model::state::StateDocument;
use tokio::time::{Instant, sleep};

use super::faults::{Bug, Mode, Odds};
use super::invariants::{Invariants, Violation};
use super::sink::Receivers;
use super::store::Documents;
use super::table::{Lateness, Place, Table};
use super::trace::Trace;
use super::{Plan, Run};

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) layout: Layout,
    odds: Odds,
    rng: Mutex<Rng>,
    started: Instant,
    healed: AtomicBool,
    in_flight: AtomicUsize,
    trace: Mutex<Trace>,
    table: Mutex<Table>,
    receivers: Mutex<Receivers>,
    documents: Mutex<Documents>,
    invariants: Mutex<Invariants>,
}

/// How this seed's world is built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    instances: u64,
    pub(crate) sinks: usize,
    pub(crate) max_rows: usize,
    pub(crate) store_tells_time: bool,
    /// Receivers reject an attempt that is older than one they have seen.
    pub(crate) receivers_check_fence: bool,
    pub(crate) lateness: Lateness,
    pub(crate) ordering: Ordering,
}

impl Layout {
    /// Rows come out in the order of the cursor (A4).
    pub(crate) fn is_in_order(self) -> bool {
        self.lateness == Lateness::InOrder || self.ordering == Ordering::Cursor
    }
}

/// splitmix64
#[derive(Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The runtime is paused, so this is virtual time; the wall clock of `SystemClock` is never asked.
fn virtual_now() -> Instant {
    SystemClock.monotonic()
}

impl World {
    pub(crate) fn new(seed: u64, plan: Plan) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let layout = Layout {
            instances: 2 + rng.below(2),
            sinks: match plan.bug {
                Some(Bug::SecondSinkForgotten) => 2,
                _ => 1 + usize::from(rng.below(4) == 0),
            },
            max_rows: usize::try_from(1 + rng.below(5)).unwrap(),
            store_tells_time: rng.below(2) == 0 || plan.bug == Some(Bug::LeaseExpiryIgnored),
            receivers_check_fence: rng.below(2) == 0,
            lateness: match (plan.bug, rng.below(5)) {
                (Some(Bug::EvidenceBeforeBound | Bug::PreparedForgotten), _) => Lateness::Writers,
                (Some(Bug::RowsInFlightIgnored), _) => Lateness::Rows,
                (Some(Bug::WindowTooShort), _) => Lateness::Window,
                (Some(Bug::LateCommits), 0 | 1) => Lateness::Window,
                (Some(Bug::LateCommits), _) => Lateness::Writers,
                (Some(_), _) | (_, 0 | 1) => Lateness::InOrder,
                (_, 2) => Lateness::Writers,
                (_, 3) => Lateness::Rows,
                _ => Lateness::Window,
            },
            ordering: match rng.below(4) {
                0 => Ordering::Cursor,
                _ => Ordering::Visible,
            },
        };
        let odds = match plan.mode {
            Mode::Chaos => Odds::drawn(&mut rng),
            Mode::Calm => Odds {
                tick_doubled: 200,
                tick_gap: 50,
                ..Odds::default()
            },
        };
        let world = Self {
            plan,
            layout,
            odds,
            rng: Mutex::new(rng),
            started: virtual_now(),
            healed: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            trace: Mutex::new(Trace::new(plan.trace)),
            table: Mutex::default(),
            receivers: Mutex::new(Receivers::new(layout)),
            documents: Mutex::default(),
            invariants: Mutex::default(),
        };
        world.note(format_args!("seed {seed}: {layout:?} {odds:?}"));
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

    pub(crate) fn checkpoint(&self) -> Option<Place> {
        let documents = self.documents();
        documents.state().and_then(|document| Place::of(&document))
    }

    /// Everything visible is committed.
    pub(crate) fn is_drained(&self) -> bool {
        self.checkpoint() >= self.table().last()
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

    /// The one linearization point: a write of the state document was accepted.
    pub(crate) fn check_write(&self, before: Option<&StateDocument>, after: &StateDocument) {
        let verdict =
            self.invariants()
                .check_write(before, after, &self.table(), &self.receivers());
        self.judge(verdict);
    }

    pub(crate) fn check_the_end(&self) {
        let document = self.documents().state();
        let verdict = self.invariants().check_end(
            document.as_deref(),
            self.plan.mode,
            self.layout,
            &self.table(),
            &self.receivers(),
        );
        self.judge(verdict);
    }

    pub(crate) fn finish(&self) -> Run {
        let mut invariants = self.invariants();
        let mut summary = invariants.summary;
        summary.duplicates = self.receivers().duplicates();
        summary.rows = self.table().len() as u64;
        Run {
            violation: invariants.take_violation(),
            summary,
            trace_hash: self.trace.lock().unwrap().hash(),
        }
    }
}
