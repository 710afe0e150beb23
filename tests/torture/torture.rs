//! The crash test on real parts: two handler processes, real databases, Azurite, receivers that sync what they
//! take, and between them a proxy that does harm; kills, zombies and database crashes; and in the end every row that
//! was committed is looked for, and every version of every state document.
//!
//! Shared by `examples/torture.rs`, the command, and `tests/torture.rs`, a short run of it. What can go wrong is in
//! `faults`; what must hold is in `reconcile` and `documents`.

// The command and the test use their own parts of this.
#![allow(dead_code)]

pub(crate) mod bugs;
pub(crate) mod database;
pub(crate) mod documents;
pub(crate) mod faults;
pub(crate) mod log;
pub(crate) mod outage;
#[allow(unreachable_pub)]
#[path = "../../src/planted/names.rs"]
pub(crate) mod planted;
pub(crate) mod processes;
pub(crate) mod programs;
pub(crate) mod proxy;
pub(crate) mod receiver;
pub(crate) mod reconcile;
pub(crate) mod report;
#[path = "../support/mod.rs"]
pub(crate) mod support;
pub(crate) mod tables;
pub(crate) mod ticks;
pub(crate) mod writers;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use dbtick::store::{BlobStore, ObjectStore};
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use database::Database;
use documents::Documents;
use faults::{End, Life, Plan};
use log::Log;
use planted::Bug;
use processes::{Programs, Slot};
use proxy::Proxy;
use receiver::Receiver;
use reconcile::Accounts;
use report::Report;
use support::azurite::{self, ACCOUNT, Azurite};
use support::dice::Dice;
use tables::{HOOKS, Poller, STATE, Source, Table};
use writers::{Known, WRITERS, Writer};

/// In state paths.
const APP: &str = "torture";
/// Nothing happens any more, and rows are missing: they will not come. Longer than a lease and a window.
const STANDSTILL: Duration = Duration::from_secs(15);
/// For everything to arrive, once nobody does any harm, as long as something happens.
const PATIENCE: Duration = Duration::from_secs(600);
/// Rows that show who is to blame for those that are refused; of one table.
const MOST_GOOD_ROWS: u32 = 60;
/// In which nothing may come again.
const AFTERWARDS: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) kills: usize,
    pub(crate) seed: u64,
    pub(crate) sources: Vec<Source>,
    pub(crate) bug: Option<Bug>,
    pub(crate) programs: Programs,
    /// For logs; it must be there.
    pub(crate) directory: PathBuf,
}

/// How often what has happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    /// `kill -9`, at any moment.
    pub(crate) random: usize,
    pub(crate) at_points: BTreeMap<&'static str, usize>,
    /// It did not come to its point in time, and was killed.
    pub(crate) unreached: usize,
    pub(crate) zombies: usize,
    pub(crate) outages: BTreeMap<&'static str, usize>,
    pub(crate) ticks: usize,
    pub(crate) good_ticks: usize,
    pub(crate) failed_ticks: usize,
    pub(crate) unanswered_ticks: usize,
}

impl Counts {
    pub(crate) fn at_named_points(&self) -> usize {
        self.at_points.values().sum()
    }

    pub(crate) fn kills(&self) -> usize {
        self.random + self.unreached + self.at_named_points()
    }
}

/// How far a run is, for whoever watches.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    pub(crate) phase: &'static str,
    pub(crate) counts: Counts,
    pub(crate) written: usize,
    pub(crate) received: u64,
}

pub(crate) struct World {
    options: Options,
    directory: PathBuf,
    environment: BTreeMap<String, String>,
    tables: Vec<Arc<Table>>,
    pollers: Vec<Arc<Poller>>,
    databases: Vec<Arc<Database>>,
    log: Arc<Log>,
    receiver: Arc<Receiver>,
    documents: Arc<Documents>,
    proxies: [Arc<Proxy>; 2],
    objects: BlobStore,
    plan: Mutex<Plan>,
    counts: Mutex<Counts>,
    killed: watch::Sender<usize>,
    healed: AtomicBool,
    started: Instant,
    diary: Mutex<File>,
    /// Ends with the world.
    _azurite: Azurite,
}

/// `watch` is called several times a second.
pub(crate) async fn run(options: Options, watch: impl Fn(&Progress) + Send + 'static) -> Report {
    let mut dice = Dice::seeded(options.seed);
    let world = set_up(options, &mut dice).await;
    let watching = watched(Arc::clone(&world), watch);
    let chaos_began = SystemClock.monotonic();
    let (mut slots, ticking, stop_ticking) = begin(&world, &mut dice);
    let (writers, writing) = write(&world, &mut dice);
    let restarts = tokio::spawn(outages(Arc::clone(&world)));
    let [first, second] = &mut slots;
    tokio::join!(first.suffer(&world), second.suffer(&world));
    restarts.await.unwrap();
    let chaos = SystemClock.monotonic() - chaos_began;
    world.heal();
    writing.store(false, Ordering::Relaxed);
    let stop_living = Arc::new(AtomicBool::new(false));
    let rest = async {
        writers.join_all().await;
        let unrest = quiesce(&world, &mut dice).await;
        stop_living.store(true, Ordering::Relaxed);
        stop_ticking.store(true, Ordering::Relaxed);
        unrest
    };
    let ((), (), unrest) = tokio::join!(
        first.live(&world, &stop_living),
        second.live(&world, &stop_living),
        rest
    );
    ticking.join_all().await;
    watching.abort();
    let accounts = Accounts::gather(&world, unrest).await;
    for database in &world.databases {
        let name = format!("{}.log", database.source.name());
        fs::write(world.directory.join(name), database.log().await).unwrap();
    }
    Report::of(&world, &accounts, chaos)
}

async fn set_up(options: Options, dice: &mut Dice) -> Arc<World> {
    let directory = options.directory.clone();
    let started = SystemClock.monotonic();
    let tables = options
        .sources
        .iter()
        .flat_map(|source| tables::of(*source));
    let tables: Vec<Arc<Table>> = tables.map(Arc::new).collect();
    let databases = options.sources.iter().map(async |source| {
        let database = Database::start(*source).await;
        for table in tables.iter().filter(|table| table.source == *source) {
            database.create(table).await.unwrap();
        }
        Arc::new(database)
    });
    let databases = join_all(databases).await;
    let azurite = Azurite::blob();
    let pollers = tables::pollers(&tables);
    let documents = Documents::new(&directory, &pollers, started);
    let receiver = Receiver::start(&directory, &pollers, started).await;
    let store = Proxy::start(azurite.port(), dice.another(), Some(documents.clone())).await;
    let hooks = Proxy::start(receiver.port, dice.another(), None).await;
    let app = directory.join("app");
    for poller in &pollers {
        let function = app.join(&poller.name);
        fs::create_dir_all(&function).unwrap();
        fs::write(
            function.join("function.json"),
            poller.function().to_string(),
        )
        .unwrap();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::copy(root.join("host.json"), app.join("host.json")).unwrap();
    let state = azurite::connection_string(&format!("http://127.0.0.1:{}/{ACCOUNT}", store.port));
    let mut environment: BTreeMap<String, String> = [
        ("PATH", "/usr/bin:/bin".to_owned()),
        ("FUNCTIONS_APP_ROOT_PATH", app.display().to_string()),
        ("DBTICK_APP", APP.to_owned()),
        (
            "AzureFunctionsJobHost__functionTimeout",
            "00:00:20".to_owned(),
        ),
        (STATE, state),
        (HOOKS, format!("http://127.0.0.1:{}", hooks.port)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for (name, value) in databases.iter().flat_map(|database| database.connections()) {
        environment.insert(name.to_owned(), value);
    }
    Arc::new(World {
        plan: Mutex::new(Plan::drawn(dice, options.kills, databases.len())),
        diary: Mutex::new(File::create(directory.join("faults.log")).unwrap()),
        objects: azurite.store("torture"),
        log: Arc::new(Log::new(&directory)),
        options,
        directory,
        environment,
        tables,
        pollers,
        databases,
        receiver,
        documents,
        proxies: [store, hooks],
        counts: Mutex::default(),
        killed: watch::Sender::default(),
        healed: AtomicBool::new(false),
        started,
        _azurite: azurite,
    })
}

fn begin(world: &Arc<World>, dice: &mut Dice) -> ([Slot; 2], JoinSet<()>, Arc<AtomicBool>) {
    let slots = [Slot::new(0), Slot::new(1)];
    let ports = [slots[0].port, slots[1].port];
    let ended = Arc::new(AtomicBool::new(false));
    let mut ticking = JoinSet::new();
    for poller in world.pollers.iter().cloned() {
        let (world, ended) = (Arc::clone(world), Arc::clone(&ended));
        ticking.spawn(ticks::keep_ticking(
            world,
            poller,
            ports,
            dice.another(),
            ended,
        ));
    }
    (slots, ticking, ended)
}

fn write(world: &Arc<World>, dice: &mut Dice) -> (JoinSet<()>, Arc<AtomicBool>) {
    let writing = Arc::new(AtomicBool::new(true));
    let mut writers = JoinSet::new();
    for table in &world.tables {
        let known = Known::default();
        for number in 0..WRITERS {
            let writer = world.writer(number, table, &known, dice.another());
            writers.spawn(writer.write(Arc::clone(&writing)));
        }
    }
    (writers, writing)
}

/// Databases fall when so many processes have been killed.
async fn outages(world: Arc<World>) {
    let mut killed = world.killed.subscribe();
    loop {
        let Some((after, which, outage)) = world.plan.lock().unwrap().outages.pop_front() else {
            return;
        };
        killed.wait_for(|killed| *killed >= after).await.unwrap();
        let database = &world.databases[which];
        let name = database.source.name();
        world.note(&format!("{name} suffers: {outage:?}"));
        database.suffer(outage).await;
        world.note(&format!("{name} is up again"));
        world.count(|counts| *counts.outages.entry(name).or_default() += 1);
    }
}

/// Nobody does any harm: all that was committed must come, and what never can must be set aside. `None`: so it
/// was.
async fn quiesce(world: &Arc<World>, dice: &mut Dice) -> Option<String> {
    let began = SystemClock.monotonic();
    let mut helpers: BTreeMap<&str, (Writer, u32)> = BTreeMap::new();
    for table in &world.tables {
        let helper = world.writer(WRITERS, table, &Known::default(), dice.another());
        helpers.insert(table.name, (helper, MOST_GOOD_ROWS));
    }
    let mut known = reconcile::Known::default();
    loop {
        sleep(Duration::from_millis(300)).await;
        let now = SystemClock.monotonic();
        known.look(world).await;
        let mut waits = world.proxies.iter().any(|proxy| proxy.held_back() > 0);
        let mut missing = Vec::new();
        for poller in &world.pollers {
            let newest = world.documents.newest(&poller.name);
            let standing = newest.map(|newest| newest.standing).unwrap_or_default();
            waits |= standing
                .not_before
                .is_some_and(|until| until > SystemClock.now());
            let awaited = known.awaited(world, poller);
            let is_refused = awaited.iter().any(|row| row.poison);
            if let Some((helper, left @ 1..)) = helpers.get_mut(poller.table.name)
                && is_refused
            {
                *left -= 1;
                helper.one_good_row().await;
            }
            missing.extend(awaited.into_iter().map(|row| row.what));
            if !standing.is_at_rest() {
                missing.push(format!("{} is not at rest: {standing:?}", poller.name));
            }
        }
        if missing.is_empty() && !waits {
            break;
        }
        let (_, received) = world.receiver.events();
        let moved = received.max(world.documents.last_change()).unwrap_or(began);
        let stands_still = !waits && now - moved > STANDSTILL && now - began > STANDSTILL;
        if stands_still || now - began > PATIENCE {
            missing.truncate(5);
            return Some(format!("it does not come to rest: {missing:#?}"));
        }
    }
    let (before, _) = world.receiver.events();
    sleep(AFTERWARDS).await;
    let (after, _) = world.receiver.events();
    (after > before).then(|| format!("{} events came again in a calm world", after - before))
}

fn watched(
    world: Arc<World>,
    watch: impl Fn(&Progress) + Send + 'static,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            watch(&world.progress());
            sleep(Duration::from_millis(200)).await;
        }
    })
}

impl World {
    fn writer(&self, number: u64, table: &Arc<Table>, known: &Known, dice: Dice) -> Writer {
        Writer::new(number, table, self.database(table), &self.log, known, dice)
    }

    fn database(&self, table: &Table) -> &Arc<Database> {
        let is_its = |database: &&Arc<Database>| database.source == table.source;
        self.databases.iter().find(is_its).unwrap()
    }

    fn progress(&self) -> Progress {
        Progress {
            phase: if self.is_healed() { "healing" } else { "chaos" },
            counts: self.counts.lock().unwrap().clone(),
            written: self.log.len(),
            received: self.receiver.events().0,
        }
    }

    fn objects(&self) -> &dyn ObjectStore {
        &self.objects
    }

    fn next_life(&self) -> Option<Life> {
        self.plan.lock().unwrap().lives.pop_front()
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock().unwrap());
    }

    fn killed(&self, end: &End, by_itself: bool) {
        self.count(|counts| match end {
            End::At { point, .. } if by_itself => *counts.at_points.entry(point).or_default() += 1,
            End::At { .. } => counts.unreached += 1,
            End::Killed(_) => counts.random += 1,
        });
        self.killed.send_modify(|killed| *killed += 1);
    }

    fn heal(&self) {
        self.note("nobody does any harm from now on");
        self.healed.store(true, Ordering::Relaxed);
        self.proxies.iter().for_each(|proxy| proxy.heal());
    }

    fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    /// What was done, and when.
    fn note(&self, what: &str) {
        let at = (SystemClock.monotonic() - self.started).as_secs_f64();
        writeln!(self.diary.lock().unwrap(), "{at:10.3} {what}").unwrap();
    }
}
