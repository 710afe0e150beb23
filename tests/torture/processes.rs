//! Two handlers, each of which lives, dies and is started again, as the plan has it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::World;
use super::faults::{Aim, End, Life, MOST_AIMING, MOST_WAITING_FOR_A_POINT};
use super::planted::{BUG, Bug, CRASH_AT};
use super::receiver::Arrival;
use super::support::handler::free_port;

/// For a zombie to do what it had in mind, before its end.
const AWAKE: Duration = Duration::from_millis(400);

/// The programs that are run.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// As it is shipped.
    pub(crate) dbtick: PathBuf,
    /// The same with crash points and bugs.
    pub(crate) planted: PathBuf,
}

/// One of the two places for a process.
pub(crate) struct Slot {
    pub(crate) port: u16,
    number: usize,
    started: usize,
}

struct Process {
    child: Child,
    pid: Pid,
    worker: String,
}

impl Slot {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            port: free_port(),
            number,
            started: 0,
        }
    }

    /// Process after process, until the plan has no more.
    pub(crate) async fn suffer(&mut self, world: &Arc<World>) {
        while let Some(life) = world.next_life() {
            let mut process = self.start(world, Some(&life));
            if let Some(asleep) = life.asleep {
                process.sleep(world, asleep).await;
            }
            process.end(world, &life).await;
        }
    }

    /// Nobody does it any harm.
    pub(crate) async fn live(&mut self, world: &Arc<World>, ended: &AtomicBool) {
        let mut process = self.start(world, None);
        while !ended.load(Ordering::Relaxed) {
            if let Ok(Some(status)) = process.child.try_wait() {
                world.note(&format!("{} ended by itself: {status}", process.worker));
                process = self.start(world, None);
            }
            sleep(Duration::from_millis(50)).await;
        }
        process.child.kill().await.ok();
    }

    fn start(&mut self, world: &World, life: Option<&Life>) -> Process {
        self.started += 1;
        let worker = format!("worker-{}-{}", self.number, self.started);
        let point = life.and_then(|life| match &life.end {
            End::At { point, nth } => Some(format!("{point}:{nth}")),
            End::Killed(_) => None,
        });
        let mut planted: BTreeMap<&str, &str> = BTreeMap::new();
        if let Some(point) = &point {
            planted.insert(CRASH_AT, point);
        }
        if let Some(bug) = world.options.bug {
            planted.insert(BUG, Bug::name(bug));
        }
        let program = match planted.is_empty() {
            true => &world.options.programs.dbtick,
            false => &world.options.programs.planted,
        };
        let log = self.log(world);
        let child = Command::new(program)
            .arg("serve")
            .env_clear()
            .envs(&world.environment)
            .envs(planted)
            .env("FUNCTIONS_CUSTOMHANDLER_PORT", self.port.to_string())
            .env("FUNCTIONS_CUSTOMHANDLER_WORKER_ID", &worker)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
        world.note(&format!("{worker} starts: {life:?}"));
        Process { child, pid, worker }
    }

    fn log(&self, world: &World) -> File {
        let path = world.directory.join(format!("handler-{}.log", self.number));
        let mut options = OpenOptions::new();
        options.create(true).append(true).open(path).unwrap()
    }
}

impl Process {
    /// Past its lease.
    async fn sleep(&mut self, world: &World, asleep: Duration) {
        self.until(world, &Aim::Holding(Duration::from_millis(5)))
            .await;
        if kill(self.pid, Signal::SIGSTOP).is_err() {
            return;
        }
        world.note(&format!("{} is stopped for {asleep:?}", self.worker));
        sleep(asleep).await;
        kill(self.pid, Signal::SIGCONT).ok();
        world.note(&format!("{} is woken", self.worker));
        world.count(|counts| counts.zombies += 1);
        sleep(AWAKE).await;
    }

    async fn end(&mut self, world: &World, life: &Life) {
        let by_itself = match &life.end {
            End::Killed(aim) => {
                self.until(world, aim).await;
                false
            }
            End::At { .. } => timeout(MOST_WAITING_FOR_A_POINT, self.child.wait())
                .await
                .is_ok(),
        };
        self.child.kill().await.ok();
        let (worker, end) = (&self.worker, &life.end);
        world.note(&format!(
            "{worker} is dead: {end:?}, by itself: {by_itself}"
        ));
        world.killed(end, by_itself);
    }

    /// The moment, or soon enough.
    async fn until(&mut self, world: &World, aim: &Aim) {
        let after = match aim {
            Aim::Whenever(after) => after,
            Aim::Holding(after) => {
                timeout(MOST_AIMING, self.holds(world)).await.ok();
                after
            }
            Aim::Delivering(after) => {
                timeout(MOST_AIMING, self.delivers(world)).await.ok();
                after
            }
        };
        sleep(*after).await;
    }

    async fn holds(&self, world: &World) {
        let mut changed = world.documents.changed.subscribe();
        while !world.documents.is_held_by(&self.worker) {
            changed.changed().await.unwrap();
        }
    }

    async fn delivers(&self, world: &World) {
        let mut arrivals = world.receiver.arrivals.subscribe();
        loop {
            arrivals.changed().await.unwrap();
            let Arrival { poller, token } = arrivals.borrow_and_update().clone();
            if world.documents.is_token_of(&poller, token, &self.worker) {
                return;
            }
        }
    }
}
