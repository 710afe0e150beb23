//! Crash points and bugs for the crash test, around the four seams: the core knows nothing of them.
//!
//! Only with the cargo feature `planted`, and in a program of its own (`dbtick-planted`, an example): no build
//! that is shipped has this module, or reads the variables that it reads.

pub mod names;
mod sink;
mod source;
mod store;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::timeout;

use crate::clock::{Clock, SystemClock};
use crate::config::Settings;
use crate::sink::Outlet;
use crate::tick::Poller;
use names::{BUG, Bug, CRASH_AT, POINTS};

/// A request is on its way by then, and its answer is not.
const SENT: Duration = Duration::from_millis(2);

/// What is planted in this process.
#[derive(Debug)]
pub struct Plan {
    bug: Option<Bug>,
    crash: Option<Crash>,
    /// Of this process alone.
    nonce: u128,
}

#[derive(Debug)]
struct Crash {
    point: &'static str,
    /// How often it is still passed.
    left: AtomicU32,
}

impl Plan {
    /// From the environment; a name that nobody knows would test nothing.
    #[must_use]
    pub fn of_process() -> Arc<Self> {
        let settings = Settings::process();
        let bug = settings
            .filled(BUG)
            .map(|name| Bug::named(name).unwrap_or_else(|| panic!("{BUG}: no such bug: {name}")));
        let crash = settings.filled(CRASH_AT).map(|written| {
            Crash::parse(written).unwrap_or_else(|| panic!("{CRASH_AT}: no such point: {written}"))
        });
        let nonce = SystemClock.random();
        Arc::new(Self { bug, crash, nonce })
    }

    /// The same poller, with the plan between it and the world.
    #[must_use]
    pub fn around(self: &Arc<Self>, poller: Poller) -> Poller {
        let store = Arc::new(store::Planted::new(&poller, self));
        let events_as = match self.has(Bug::IdsPerProcess) {
            true => format!("{}-{:x}", poller.events_as, self.nonce),
            false => poller.events_as,
        };
        let outlet = |outlet: Outlet| Outlet {
            sink: Arc::new(sink::Planted {
                inner: outlet.sink,
                plan: Arc::clone(self),
            }),
            required: outlet.required,
        };
        Poller {
            events_as,
            source: Arc::new(source::Planted {
                inner: poller.source,
                plan: Arc::clone(self),
            }),
            sinks: poller.sinks.into_iter().map(outlet).collect(),
            store: Arc::clone(&store) as _,
            objects: store,
            ..poller
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// A step, with its three places to die.
    async fn step<T>(&self, name: &str, step: impl Future<Output = T>) -> T {
        self.pass(name, "before");
        if self.is_due(name, "during") {
            drop(timeout(SENT, step).await);
            die();
        }
        let done = step.await;
        self.pass(name, "after");
        done
    }

    fn pass(&self, step: &str, when: &str) {
        if self.is_due(step, when) {
            die();
        }
    }

    fn is_due(&self, step: &str, when: &str) -> bool {
        let is_here = |crash: &&Crash| crash.point.split_once('.') == Some((step, when));
        let here = self.crash.as_ref().filter(is_here);
        here.is_some_and(|crash| crash.left.fetch_sub(1, Ordering::Relaxed) == 1)
    }
}

impl Crash {
    fn parse(written: &str) -> Option<Self> {
        let (name, nth) = written.split_once(':').unwrap_or((written, "1"));
        let nth: u32 = nth.parse().ok()?;
        Some(Self {
            point: POINTS.iter().find(|point| **point == name)?,
            left: AtomicU32::new(nth.max(1)),
        })
    }
}

/// As `kill -9` does it: nothing is written, closed or said any more.
fn die() -> ! {
    kill(Pid::this(), Signal::SIGKILL).ok();
    loop {
        std::thread::park();
    }
}
