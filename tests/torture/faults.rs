//! What can go wrong, and how often.
//!
//! A fault of a process is an [`End`], or something in a [`Life`] before it; one of a database is an
//! [`Outage`]; one of an exchange is a [`Harm`]. Each has its odds here; what it does is one arm in `processes.rs`,
//! `database.rs` or `proxy.rs`, which do not compile without it.
//! The plan follows from the seed. When each fault strikes does not: processes, servers and disks are real.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::planted::POINTS;
use super::support::dice::Dice;

/// So many kills are random for each that is at a named point.
const KILLS_PER_POINT: usize = 10;
const KILLS_PER_ZOMBIE: usize = 15;
const KILLS_PER_OUTAGE: usize = 20;
/// Both processes are left alone for a while, so often: a poller that is always interrupted meets no rows that commit
/// late, and no rival.
const KILLS_PER_LULL: usize = 25;
const LULL_MS: Range<u64> = 4_000..7_000;
/// Longer than ttl and margin: somebody else has taken the lease by then.
const ASLEEP_MS: Range<u64> = 7_500..9_500;
/// Who waits for a moment that does not come is killed anyway.
pub(crate) const MOST_AIMING: Duration = Duration::from_millis(1_500);
/// A point may be rare: a lease that is renewed needs a slow receiver first.
pub(crate) const MOST_WAITING_FOR_A_POINT: Duration = Duration::from_secs(8);

/// What becomes of one process.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    /// Stopped for so long while it holds a lease, and then woken: a zombie.
    pub(crate) asleep: Option<Duration>,
    pub(crate) end: End,
}

#[derive(Debug, Clone)]
pub(crate) enum End {
    /// `kill -9`.
    Killed(Aim),
    /// It kills itself, the n-th time that it comes to this point.
    At { point: &'static str, nth: u64 },
}

/// When.
#[derive(Debug, Clone)]
pub(crate) enum Aim {
    /// So long after its start.
    Whenever(Duration),
    /// So long after it has taken a lease.
    Holding(Duration),
    /// So long after a batch of it has come to the receiver.
    Delivering(Duration),
}

/// What happens to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outage {
    /// It is stopped properly, and started again.
    Clean,
    /// As if the power had failed: PostgreSQL by an immediate stop, MariaDB by `kill -9`.
    Crash,
    /// `kill -9` of one session: PostgreSQL restarts all others; MariaDB has threads, and crashes.
    Session,
}

/// What happens to one exchange with the store or a receiver.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Harm {
    /// The request never arrives, and the connection is reset.
    CutBefore,
    /// The request is carried out, and its answer is lost with the connection.
    CutAfter,
    /// Half of the answer comes.
    Truncated,
    AnswerDelayed(Duration),
    /// It is carried out later, whether or not anybody still waits: perhaps after a takeover.
    RequestDelayed(Duration),
    /// The answer comes one byte at a time.
    Dribbled,
    /// 503, from a server that has not even looked at it.
    Busy,
    /// Nothing comes through for so long, in neither direction, for nobody.
    BlackHole(Duration),
}

impl Harm {
    /// In per mille of all exchanges.
    pub(crate) fn drawn(dice: &mut Dice) -> Option<Self> {
        let mut thrown = dice.below(1000);
        let mut is = |odds: u64| {
            let hit = thrown < odds;
            thrown = thrown.wrapping_sub(odds);
            hit
        };
        Some(if is(6) {
            Self::CutBefore
        } else if is(8) {
            Self::CutAfter
        } else if is(4) {
            Self::Truncated
        } else if is(15) {
            Self::AnswerDelayed(between(dice, 20..900))
        } else if is(5) {
            Self::RequestDelayed(between(dice, 200..8_000))
        } else if is(10) {
            Self::Dribbled
        } else if is(5) {
            Self::Busy
        } else if is(1) {
            Self::BlackHole(between(dice, 500..2_500))
        } else {
            return None;
        })
    }
}

/// All that was decided before the run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) lives: VecDeque<Life>,
    /// After so many kills, to which of the databases.
    pub(crate) outages: VecDeque<(usize, usize, Outage)>,
}

impl Plan {
    pub(crate) fn drawn(dice: &mut Dice, kills: usize, databases: usize) -> Self {
        let mut points = Points::default();
        let mut lives = VecDeque::new();
        let mut outages = Vec::new();
        for number in 1..=kills {
            let end = match number {
                // A poller is born once.
                1 | 2 => points.birth(dice),
                _ if number % KILLS_PER_POINT == 0 => points.next(dice),
                _ if [3, 4].contains(&(number % KILLS_PER_LULL)) => {
                    End::Killed(Aim::Whenever(between(dice, LULL_MS)))
                }
                _ => End::Killed(aim(dice)),
            };
            let is_zombie = number % KILLS_PER_ZOMBIE == KILLS_PER_ZOMBIE / 2;
            let asleep = is_zombie.then(|| between(dice, ASLEEP_MS));
            // Only after a restart has a poller a reason to go back.
            let goes_back = matches!(end, End::At { point, .. } if point.starts_with("rewind"));
            if goes_back || number % KILLS_PER_OUTAGE == KILLS_PER_OUTAGE / 2 {
                let outage = match dice.below(4) {
                    0 => Outage::Clean,
                    1 => Outage::Session,
                    _ => Outage::Crash,
                };
                outages.push((number - 1, outages.len() % databases, outage));
            }
            lives.push_back(Life { asleep, end });
        }
        Self {
            lives,
            outages: outages.into(),
        }
    }
}

fn aim(dice: &mut Dice) -> Aim {
    match dice.below(10) {
        0..4 => Aim::Whenever(between(dice, 50..2_500)),
        4..7 => Aim::Holding(between(dice, 0..400)),
        _ => Aim::Delivering(between(dice, 0..150)),
    }
}

/// Each of them in turn, in an order of their own each time.
#[derive(Debug, Default)]
struct Points(Vec<&'static str>);

impl Points {
    fn birth(&mut self, dice: &mut Dice) -> End {
        let births: Vec<_> = POINTS.iter().filter(|point| is_birth(point)).collect();
        End::At {
            point: births[dice.below(births.len() as u64) as usize],
            nth: 1,
        }
    }

    fn next(&mut self, dice: &mut Dice) -> End {
        let Self(left) = self;
        if left.is_empty() {
            left.extend(POINTS.iter().filter(|point| !is_birth(point)));
            for at in (1..left.len()).rev() {
                left.swap(at, dice.below(at as u64 + 1) as usize);
            }
        }
        let point = left.pop().unwrap();
        let step = point.split('.').next().unwrap();
        let is_frequent = ["load", "look", "read", "claim", "deliver", "commit"].contains(&step);
        let nth = if is_frequent { 1 + dice.below(5) } else { 1 };
        End::At { point, nth }
    }
}

fn is_birth(point: &str) -> bool {
    point.starts_with("birth")
}

pub(crate) fn between(dice: &mut Dice, milliseconds: Range<u64>) -> Duration {
    let Range { start, end } = milliseconds;
    Duration::from_millis(start + dice.below(end - start))
}
