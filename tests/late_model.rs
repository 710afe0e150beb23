//! Every interleaving of a few transactions with the ticks of a poller: the decisions are those of
//! `model::late`, the rest is a world of a few integers. A row that is passed over, or delivered twice
//! without a crash, is found; so is each rule of the algorithm that is broken on purpose.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use chrono::DateTime;
use dbtick::clock::Timestamp;
use dbtick::model::late::{Bound, Fence, Highest, Ordering, Seen, Sight, Survey, Sweep, Witness};
use dbtick::model::position::{Position, Scalar};

/// (cursor, key)
type Place = (i64, i64);

/// What a transaction does, one step at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    /// Draws the next cursor and writes this key.
    Write(i64),
    /// It is seen to hold its rows; before, nothing shows.
    Show,
    Prepare,
    Commit,
    Abort,
}

/// What the database shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    /// Transactions; numbers are given out by a sequence that can be read.
    Sequence,
    /// Transactions; the last visible row is the bound.
    Writers,
    /// Uncommitted rows, once they show.
    Rows,
}

/// A rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    EvidenceBeforeBound,
    DataBeforeEvidence,
    /// Who has gone in the middle of a sweep counts as gone for it.
    ClearInTheMiddle,
    /// A prepared transaction is taken for one that has gone.
    PreparedHasGone,
    /// The window is not waited for.
    NoWindow,
    SurveyAfterData,
}

#[derive(Debug, Clone)]
struct Setup {
    scripts: Vec<Vec<Vec<Step>>>,
    visible: Vec<Place>,
    evidence: Evidence,
    ordering: Ordering,
    page: usize,
    ticks: u8,
    crashes: u8,
    mutant: Mutant,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct World {
    time: i64,
    drawn: i64,
    visible: BTreeSet<Place>,
    /// Transaction → (which script, how far it is, what it has written, shows, prepared).
    open: BTreeMap<usize, Open>,
    /// Transactions that have not begun, or that have ended.
    begun: BTreeSet<usize>,
    delivered: BTreeMap<Place, u8>,
    crashed: bool,
    // The document.
    low: Option<Place>,
    remembered: BTreeSet<Place>,
    fences: Vec<KeptFence>,
    // The poller.
    phase: Phase,
    ticks: u8,
    crashes: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Open {
    script: usize,
    at: usize,
    places: Vec<Place>,
    shows: bool,
    prepared: bool,
    since: i64,
}

type KeptFence = (Place, BTreeSet<String>, Option<i64>, i64);

/// A tick, between two of its statements.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
enum Phase {
    #[default]
    Between,
    Looking(Half),
    /// The pages that were passed in this sweep, and the one that is read.
    Sweeping {
        sight: Eyes,
        passed: Vec<PageRead>,
        page: Option<PageRead>,
        surveyed: Option<Vec<Place>>,
        sent: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Half {
    Bound(Eyes),
    Evidence(Eyes),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Eyes {
    now: i64,
    bound: Option<i64>,
    last: Option<Place>,
    writers: BTreeSet<String>,
    disguised: BTreeSet<String>,
    rows: BTreeSet<Place>,
    /// Read too early, by a mutant.
    early: Option<PageRead>,
    /// The document as the sweep found it.
    low: Option<Place>,
    fences: Vec<KeptFence>,
    remembered: BTreeSet<Place>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PageRead {
    places: Vec<Place>,
    end: bool,
    in_flight: Vec<Place>,
}

/// A row may be hidden for so many steps of time.
const WINDOW: i64 = 2;

fn position(place: Place) -> Position {
    let scalar = |value: i64| vec![Scalar::Integer(value.into())];
    Position::new(scalar(place.0), scalar(place.1))
}

fn place(position: &Position) -> Place {
    let number = |scalars: &[Scalar]| match scalars {
        [Scalar::Integer(value)] => i64::try_from(*value).unwrap(),
        other => unreachable!("{other:?}"),
    };
    (number(position.cursor()), number(position.key()))
}

fn time(steps: i64) -> Timestamp {
    DateTime::from_timestamp(steps, 0).unwrap()
}

fn name(transaction: usize, open: &Open) -> String {
    match open.prepared {
        true => Witness::prepared(transaction).to_string(),
        false => format!("3/{transaction}"),
    }
}

impl World {
    fn of(setup: &Setup) -> Self {
        Self {
            drawn: setup.visible.iter().map(|place| place.0).max().unwrap_or(0),
            visible: setup.visible.iter().copied().collect(),
            ..Self::default()
        }
    }

    /// Everything that can happen next.
    fn successors(&self, setup: &Setup) -> Result<Vec<Self>, String> {
        let mut next = self.transactions(setup);
        next.extend(self.poller(setup)?);
        if setup.evidence == Evidence::Rows && self.time < 6 && self.may_pass_time() {
            let mut later = self.clone();
            later.time += 1;
            next.push(later);
        }
        Ok(next)
    }

    /// Whoever is hidden shows within the window.
    fn may_pass_time(&self) -> bool {
        self.open
            .values()
            .all(|open| open.shows || open.places.is_empty() || self.time + 1 - open.since < WINDOW)
    }

    fn transactions(&self, setup: &Setup) -> Vec<Self> {
        let mut next = Vec::new();
        for (number, scripts) in setup.scripts.iter().enumerate() {
            if !self.begun.contains(&number) {
                for script in 0..scripts.len() {
                    let mut world = self.clone();
                    world.begun.insert(number);
                    let open = Open {
                        script,
                        shows: setup.evidence != Evidence::Rows,
                        ..Open::default()
                    };
                    world.open.insert(number, open);
                    world.advance(setup, number);
                    next.push(world);
                }
            } else if self.open.contains_key(&number) {
                let mut world = self.clone();
                world.advance(setup, number);
                next.push(world);
            }
        }
        next
    }

    fn advance(&mut self, setup: &Setup, number: usize) {
        let open = self.open.get_mut(&number).unwrap();
        let step = setup.scripts[number][open.script][open.at];
        open.at += 1;
        match step {
            Step::Write(key) => {
                self.drawn += 1;
                open.since = self.time;
                open.places.push((self.drawn, key));
            }
            Step::Show => open.shows = true,
            Step::Prepare => open.prepared = true,
            Step::Commit => {
                let open = self.open.remove(&number).unwrap();
                for (cursor, key) in open.places {
                    self.visible.retain(|place| place.1 != key);
                    self.visible.insert((cursor, key));
                }
            }
            Step::Abort => {
                self.open.remove(&number);
            }
        }
    }

    fn poller(&self, setup: &Setup) -> Result<Vec<Self>, String> {
        let mut next = Vec::new();
        if self.phase != Phase::Between && self.crashes < setup.crashes {
            let mut crashed = self.clone();
            crashed.phase = Phase::Between;
            crashed.crashes += 1;
            crashed.crashed = true;
            next.push(crashed);
        }
        let mut world = self.clone();
        world.phase = match &self.phase {
            Phase::Between if self.ticks == setup.ticks => return Ok(next),
            Phase::Between => {
                world.ticks += 1;
                let mut eyes = Eyes::default();
                match setup.mutant {
                    Mutant::EvidenceBeforeBound => {
                        self.see_writers(setup, &mut eyes);
                        Phase::Looking(Half::Evidence(eyes))
                    }
                    Mutant::DataBeforeEvidence => {
                        self.see_bound(setup, &mut eyes);
                        eyes.early = Some(self.page(setup, self.low, Vec::new()));
                        Phase::Looking(Half::Bound(eyes))
                    }
                    _ => {
                        self.see_bound(setup, &mut eyes);
                        Phase::Looking(Half::Bound(eyes))
                    }
                }
            }
            Phase::Looking(half) => {
                let mut sight = match half.clone() {
                    Half::Bound(mut eyes) => {
                        self.see_writers(setup, &mut eyes);
                        eyes
                    }
                    Half::Evidence(mut eyes) => {
                        self.see_bound(setup, &mut eyes);
                        eyes
                    }
                };
                sight.low = self.low;
                sight.fences.clone_from(&self.fences);
                sight.remembered.clone_from(&self.remembered);
                Phase::Sweeping {
                    sight,
                    passed: Vec::new(),
                    page: None,
                    surveyed: None,
                    sent: false,
                }
            }
            Phase::Sweeping { .. } => return self.sweep(setup, next),
        };
        next.push(world);
        Ok(next)
    }

    fn sweep(&self, setup: &Setup, mut next: Vec<Self>) -> Result<Vec<Self>, String> {
        let Phase::Sweeping {
            sight,
            passed,
            page,
            surveyed,
            sent,
        } = &self.phase
        else {
            unreachable!("asked while sweeping");
        };
        let mut world = self.clone();
        match page {
            None if setup.evidence == Evidence::Rows && surveyed.is_none() => {
                if setup.mutant == Mutant::SurveyAfterData {
                    let read = self.page(setup, self.after(setup, sight, passed), Vec::new());
                    world.set(|page, _, _, _| *page = Some(read));
                    world.set(|_, surveyed, _, _| *surveyed = Some(Vec::new()));
                } else {
                    let seen = self.in_flight();
                    world.set(|_, surveyed, _, _| *surveyed = Some(seen));
                }
            }
            None => {
                let after = self.after(setup, sight, passed);
                let in_flight = surveyed.clone().unwrap_or_default();
                let read = match (&sight.early, passed.is_empty()) {
                    (Some(early), true) => early.clone(),
                    _ => self.page(setup, after, in_flight),
                };
                world.set(|page, _, _, _| *page = Some(read));
            }
            Some(read) if !sent => {
                let sweep = self.replay(setup, sight, passed);
                let survey = survey(&read.in_flight);
                for &place in &read.places {
                    let admitted = sweep.admits(&position(place), &survey);
                    if admitted && !self.remembered.contains(&place) {
                        let times = world.delivered.entry(place).or_default();
                        *times += 1;
                        if *times > 1 && !self.crashed {
                            return Err(format!("{place:?} is delivered twice"));
                        }
                    }
                }
                world.set(|_, _, sent, _| *sent = true);
            }
            Some(read) => {
                let mut sight = sight.clone();
                if setup.mutant == Mutant::ClearInTheMiddle {
                    self.see_writers(setup, &mut sight);
                }
                world.commit(setup, &sight, passed, read)?;
            }
        }
        next.push(world);
        Ok(next)
    }

    fn set(
        &mut self,
        change: impl FnOnce(
            &mut Option<PageRead>,
            &mut Option<Vec<Place>>,
            &mut bool,
            &mut Vec<PageRead>,
        ),
    ) {
        let Phase::Sweeping {
            page,
            surveyed,
            sent,
            passed,
            ..
        } = &mut self.phase
        else {
            unreachable!("asked while sweeping");
        };
        change(page, surveyed, sent, passed);
    }

    /// What was delivered is remembered, and the checkpoint moves: one write.
    fn commit(
        &mut self,
        setup: &Setup,
        sight: &Eyes,
        passed: &[PageRead],
        read: &PageRead,
    ) -> Result<(), String> {
        let mut sweep = self.replay(setup, sight, passed);
        let (seen, places) = shown(&sweep, read);
        sweep.pass(&seen);
        let known = sweep.known();
        let mut fences = known.fences;
        if setup.ordering == Ordering::Cursor
            && seen.end
            && let Some(last) = self
                .visible
                .last()
                .filter(|_| sight.last.is_some() || sight.bound.is_some())
        {
            let last = sight.last.unwrap_or(*last);
            fences.extend(sweep.awaited(&position(last)));
        }
        self.remembered.extend(places);
        self.low = known.low.as_ref().map(place);
        self.remembered.retain(|place| Some(*place) > self.low);
        self.fences = fences.iter().map(kept).collect();
        self.nothing_is_passed_over()?;
        if seen.end {
            self.phase = Phase::Between;
        } else {
            let read = read.clone();
            self.set(|page, surveyed, sent, passed| {
                passed.push(read);
                (*page, *surveyed, *sent) = (None, None, false);
            });
        }
        Ok(())
    }

    fn nothing_is_passed_over(&self) -> Result<(), String> {
        let lost = |place: &Place| Some(*place) <= self.low && !self.delivered.contains_key(place);
        if let Some(place) = self.visible.iter().find(|place| lost(place)) {
            return Err(format!("{place:?} is passed over"));
        }
        let on_the_way = self.open.values().flat_map(|open| &open.places);
        match on_the_way
            .into_iter()
            .find(|place| Some(**place) <= self.low)
        {
            Some(place) => Err(format!("{place:?} is passed over before it is visible")),
            None => Ok(()),
        }
    }

    fn see_bound(&self, setup: &Setup, eyes: &mut Eyes) {
        eyes.now = self.time;
        match setup.evidence {
            Evidence::Sequence => eyes.bound = Some(self.drawn + 1),
            Evidence::Writers | Evidence::Rows => eyes.last = self.visible.last().copied(),
        }
    }

    fn see_writers(&self, setup: &Setup, eyes: &mut Eyes) {
        let open = || self.open.iter().filter(|(_, open)| !open.places.is_empty());
        match setup.evidence {
            Evidence::Sequence | Evidence::Writers => {
                let seen = open().filter(|(_, open)| {
                    !(open.prepared && setup.mutant == Mutant::PreparedHasGone)
                });
                eyes.writers = seen.map(|(number, open)| name(*number, open)).collect();
                let prepared = open().filter(|(_, open)| open.prepared);
                let prepared = prepared.map(|(number, open)| name(*number, open));
                eyes.disguised = prepared
                    .filter(|_| setup.mutant != Mutant::PreparedHasGone)
                    .collect();
            }
            Evidence::Rows => eyes.rows = self.in_flight().into_iter().collect(),
        }
    }

    fn in_flight(&self) -> Vec<Place> {
        let showing = self.open.values().filter(|open| open.shows);
        let mut places: Vec<_> = showing.flat_map(|open| open.places.clone()).collect();
        places.sort_unstable();
        places
    }

    fn page(&self, setup: &Setup, after: Option<Place>, in_flight: Vec<Place>) -> PageRead {
        let mut behind = self.visible.iter().filter(|place| Some(**place) > after);
        let places: Vec<_> = behind.by_ref().take(setup.page).copied().collect();
        let end = behind.next().is_none();
        let last = places.last().copied();
        let within = |place: &Place| Some(*place) > after && (end || Some(*place) <= last);
        PageRead {
            in_flight: in_flight.into_iter().filter(within).collect(),
            places,
            end,
        }
    }

    fn after(&self, setup: &Setup, sight: &Eyes, passed: &[PageRead]) -> Option<Place> {
        let last = passed.iter().rev().find_map(|read| read.places.last());
        last.copied()
            .or_else(|| self.begin(setup, sight).start().map(place))
    }

    fn begin(&self, setup: &Setup, eyes: &Eyes) -> Sweep {
        let fences: Vec<_> = eyes.fences.iter().map(fence).collect();
        let window = setup.evidence == Evidence::Rows && setup.mutant != Mutant::NoWindow;
        let known: BTreeSet<_> = fences.iter().flat_map(|f| f.witnesses.clone()).collect();
        let rows = eyes
            .rows
            .iter()
            .map(|place| Witness::row(&position(*place)));
        let sight = Sight {
            now: Some(time(eyes.now)),
            bound: Bound {
                highest: match setup.evidence {
                    Evidence::Sequence => Highest::Any,
                    _ => Highest::Visible(eyes.last.map(position)),
                },
                below: eyes.bound.map(|bound| vec![Scalar::Integer(bound.into())]),
            },
            writers: eyes.writers.iter().map(Witness::new).collect(),
            disguised: eyes.disguised.iter().map(Witness::new).collect(),
            rows_in_flight: rows.filter(|row| known.contains(row)).collect(),
            window: window.then(|| Duration::from_secs(WINDOW.unsigned_abs())),
            ..Sight::default()
        };
        Sweep::begin(
            eyes.low.map(position).as_ref(),
            &fences,
            eyes.remembered.iter().copied().map(position),
            sight,
            setup.ordering,
        )
    }

    fn replay(&self, setup: &Setup, sight: &Eyes, passed: &[PageRead]) -> Sweep {
        let mut sweep = self.begin(setup, sight);
        for read in passed {
            let (seen, _) = shown(&sweep, read);
            sweep.pass(&seen);
        }
        sweep
    }

    /// All is quiet: a few more ticks deliver everything, and nothing twice.
    fn quiesce(&self, setup: &Setup) -> Result<(), String> {
        let mut world = self.clone();
        for _ in 0..6 {
            world.time += WINDOW + 1;
            world.ticks = 0;
            loop {
                let calm = Setup {
                    crashes: 0,
                    ticks: 1,
                    ..setup.clone()
                };
                match world.poller(&calm)?.pop() {
                    Some(next) => world = next,
                    None => break,
                }
            }
        }
        match world
            .visible
            .iter()
            .find(|place| !world.delivered.contains_key(place))
        {
            Some(place) => Err(format!("{place:?} is never delivered")),
            None if world.low < world.visible.last().copied() => {
                Err(format!("the checkpoint stays at {:?}", world.low))
            }
            None => Ok(()),
        }
    }
}

fn survey(in_flight: &[Place]) -> Survey {
    Survey {
        made: true,
        in_flight: in_flight.iter().copied().map(position).collect(),
        up_to: None,
    }
}

/// What a page shows, cut to what may go out.
fn shown(sweep: &Sweep, read: &PageRead) -> (Seen, Vec<Place>) {
    let survey = survey(&read.in_flight);
    let all = read.places.iter().copied();
    let admitted: Vec<_> = all
        .take_while(|place| sweep.admits(&position(*place), &survey))
        .collect();
    let end = read.end || admitted.len() < read.places.len();
    let positions: Vec<_> = admitted.iter().copied().map(position).collect();
    (sweep.see(&positions, end, survey), admitted)
}

fn kept(fence: &Fence) -> KeptFence {
    let witnesses = fence.witnesses.iter().map(ToString::to_string).collect();
    let until = fence.until.map(|until| until.timestamp());
    (
        place(&fence.up_to),
        witnesses,
        until,
        fence.since.timestamp(),
    )
}

fn fence((up_to, witnesses, until, since): &KeptFence) -> Fence {
    Fence {
        up_to: position(*up_to),
        witnesses: witnesses.iter().map(Witness::new).collect(),
        until: until.map(time),
        since: time(*since),
    }
}

/// Every reachable state, once.
fn explore(setup: &Setup) -> Result<usize, String> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut known = HashSet::new();
    let mut left = vec![World::of(setup)];
    while let Some(world) = left.pop() {
        let next = world.successors(setup)?;
        if world.phase == Phase::Between && world.open.is_empty() {
            world.quiesce(setup)?;
        }
        for world in next {
            // Two states in a few million that share 64 bits are less likely than a fault of the machine.
            if known.insert(hasher.hash_one(&world)) {
                left.push(world);
            }
        }
        assert!(known.len() < 6_000_000, "the world is not small");
    }
    Ok(known.len())
}

use Step::{Abort, Commit, Prepare, Show, Write};

/// Two short transactions, one of which may be prepared, and one that moves a row that was delivered.
fn writers(evidence: Evidence) -> Setup {
    Setup {
        scripts: vec![
            vec![vec![Write(10), Commit], vec![Write(10), Abort]],
            vec![
                vec![Write(20), Write(21), Commit],
                vec![Write(20), Prepare, Commit],
            ],
            vec![vec![Write(1), Commit]],
        ],
        visible: vec![(1, 1)],
        evidence,
        ordering: Ordering::Visible,
        page: 1,
        ticks: 2,
        crashes: 0,
        mutant: Mutant::None,
    }
}

fn rows() -> Setup {
    Setup {
        scripts: vec![
            vec![vec![Write(10), Show, Commit]],
            vec![vec![Write(20), Show, Abort], vec![Write(20), Show, Commit]],
        ],
        ..writers(Evidence::Rows)
    }
}

/// Two transactions that do one thing each.
fn few(mut setup: Setup) -> Setup {
    let first = setup.scripts[0][0].clone();
    let other = setup.scripts[1].pop().unwrap();
    setup.scripts = vec![vec![first], vec![other]];
    setup
}

#[track_caller]
fn holds(what: &str, setup: &Setup) {
    let states = explore(setup).unwrap_or_else(|broken| panic!("{broken}: {setup:?}"));
    println!("{what}: {states} states");
    assert!(states > 1000, "{states} states prove nothing");
}

#[test]
fn no_interleaving_with_a_sequence_loses_a_row() {
    holds("a sequence", &writers(Evidence::Sequence));
}

#[test]
fn no_interleaving_with_transactions_that_show_loses_a_row() {
    for page in [1, 2] {
        let setup = Setup {
            page,
            ..writers(Evidence::Writers)
        };
        holds(
            &format!("transactions that show, {page} rows a page"),
            &setup,
        );
    }
}

#[test]
fn no_interleaving_with_rows_that_hide_loses_a_row() {
    holds("rows that hide", &rows());
}

#[test]
fn no_interleaving_loses_a_row_when_rows_go_out_in_order() {
    for setup in [writers(Evidence::Sequence), rows()] {
        let setup = Setup {
            ordering: Ordering::Cursor,
            ..few(setup)
        };
        holds(&format!("in order, {:?}", setup.evidence), &setup);
    }
}

#[test]
fn a_crash_at_any_step_loses_no_row() {
    for setup in [writers(Evidence::Writers), rows()] {
        let setup = Setup {
            crashes: 1,
            ..few(setup)
        };
        holds(&format!("with a crash, {:?}", setup.evidence), &setup);
    }
}

#[test]
fn each_rule_that_is_broken_is_found() {
    for (mutant, setup) in [
        (Mutant::EvidenceBeforeBound, writers(Evidence::Sequence)),
        (Mutant::EvidenceBeforeBound, writers(Evidence::Writers)),
        (Mutant::DataBeforeEvidence, writers(Evidence::Sequence)),
        (Mutant::ClearInTheMiddle, writers(Evidence::Sequence)),
        (Mutant::PreparedHasGone, writers(Evidence::Sequence)),
        (Mutant::NoWindow, rows()),
        (Mutant::SurveyAfterData, rows()),
    ] {
        let setup = Setup {
            mutant,
            ticks: 3,
            ..setup
        };
        assert!(explore(&setup).is_err(), "{mutant:?} was not found");
    }
}
