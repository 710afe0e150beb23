//! Looks for a seed that breaks a promise, or replays one with a trace.
//!
//! ```sh
//! cargo run --release --example simulate -- --seeds 1000000
//! cargo run --release --example simulate -- --seed 4711
//! cargo run --release --example simulate -- --bug IfMatchIgnored --seeds 1000
//! ```
//!
//! When a promise is broken, the world is made smaller as long as some seed still breaks it, and the
//! command that replays the smallest is printed.

#![allow(clippy::unwrap_used)]

#[path = "../tests/simulation/sim.rs"]
mod sim;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use clap::Parser;
use dbtick::clock::{Clock, SystemClock};
use indicatif::{ProgressBar, ProgressStyle};

use sim::faults::{Bug, Mode, Odds};
use sim::invariants::{Summary, Violation};
use sim::size::{Size, shrink};
use sim::trace::TraceMode;
use sim::{Plan, Run, run};

/// Seeds that a smaller world gets to break the same promise.
const TRIES: u64 = 40;

#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds to try.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    start: u64,
    /// Replay this one and print what happened.
    #[arg(long)]
    seed: Option<u64>,
    /// Threads; one for each core by default.
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Print one number for all that happened: equal for equal seeds.
    #[arg(long)]
    hash: bool,
    /// No faults: a calm world must not have duplicates.
    #[arg(long)]
    calm: bool,
    /// Name every seed that breaks a promise, and do not look for smaller worlds.
    #[arg(long)]
    all: bool,
    /// Plant a bug, by name.
    #[arg(long, value_parser = bug)]
    bug: Option<Bug>,
    /// Leave out these faults, by name.
    #[arg(long, value_delimiter = ',', value_name = "FAULTS")]
    without: Vec<String>,
    /// So many processes.
    #[arg(long)]
    instances: Option<u64>,
    /// So long until everything heals.
    #[arg(long)]
    seconds: Option<u64>,
    /// So many transactions that write.
    #[arg(long)]
    writes: Option<u64>,
}

fn bug(name: &str) -> Result<Bug, String> {
    let named = |bug: &Bug| format!("{bug:?}").eq_ignore_ascii_case(name);
    let found = Bug::ALL.into_iter().find(named);
    found.ok_or_else(|| format!("one of {:?}", Bug::ALL))
}

impl Arguments {
    fn plan(&self) -> Result<Plan, String> {
        let mut left_out = Size::AS_DRAWN.left_out;
        for name in &self.without {
            let with = left_out.with(name);
            left_out = with.ok_or_else(|| format!("{name}: not one of {:?}", Odds::NAMES))?;
        }
        Ok(Plan {
            mode: match self.calm {
                true => Mode::Calm,
                false => Mode::Chaos,
            },
            bug: self.bug,
            trace: match self.seed {
                Some(_) => TraceMode::Printed,
                None if self.hash => TraceMode::Hashed,
                None => TraceMode::Off,
            },
            size: Size {
                instances: self.instances,
                seconds: self.seconds,
                writes: self.writes,
                left_out,
            },
        })
    }
}

/// What all seeds led to.
#[derive(Default)]
struct Total {
    summary: Summary,
    hash: u64,
    /// How often each promise was broken, and by which seed first.
    broken: BTreeMap<&'static str, (u64, u64, Violation)>,
}

impl Total {
    fn add(&mut self, seed: u64, run: Run) {
        self.summary.add(&run.summary);
        self.hash ^= run
            .trace_hash
            .rotate_left(u32::try_from(seed % 64).unwrap());
        if let Some(violation) = run.violation {
            let entry = self.broken.entry(violation.name);
            let (times, first, what) = entry.or_insert((0, seed, violation.clone()));
            *times += 1;
            if seed < *first {
                (*first, *what) = (seed, violation);
            }
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let plan = match arguments.plan() {
        Ok(plan) => plan,
        Err(wrong) => {
            eprintln!("error: {wrong}");
            return ExitCode::from(2);
        }
    };
    let (start, seeds) = match arguments.seed {
        Some(seed) => (seed, 1),
        None => (arguments.start, arguments.seeds),
    };
    let started = SystemClock.monotonic();
    let total = run_all(start, seeds, plan, &arguments);
    let seconds = (SystemClock.monotonic() - started).as_secs_f64();
    let rate = f64::from(u32::try_from(seeds).unwrap_or(u32::MAX)) / seconds;
    println!("{seeds} seeds in {seconds:.1} s, {rate:.0} a second");
    println!("{}", total.summary);
    if arguments.hash {
        println!("trace {:016x}", total.hash);
    }
    for (name, (times, seed, violation)) in &total.broken {
        println!(
            "{name}: {times} seeds, the first is {seed}: {}",
            violation.what
        );
        if !arguments.all && arguments.seed.is_none() {
            let quiet = Plan {
                trace: TraceMode::Off,
                ..plan
            };
            let (small, seed) = shrink(quiet, *seed, name, TRIES);
            println!("  smallest: {}", command(small, seed));
        }
    }
    ExitCode::from(u8::from(!total.broken.is_empty()))
}

fn run_all(start: u64, seeds: u64, plan: Plan, arguments: &Arguments) -> Total {
    let bar = match arguments.seed {
        Some(_) => ProgressBar::hidden(),
        None => ProgressBar::new(seeds),
    };
    let style = "{bar:40} {human_pos}/{human_len} seeds, {per_sec}, {eta} to go";
    bar.set_style(ProgressStyle::with_template(style).unwrap());
    let (next, total) = (AtomicU64::new(0), Mutex::new(Total::default()));
    let jobs = arguments
        .jobs
        .or_else(|| thread::available_parallelism().ok());
    thread::scope(|scope| {
        for _ in 0..jobs.map_or(1, NonZeroUsize::get) {
            scope.spawn(|| {
                loop {
                    let seed = start + next.fetch_add(1, Ordering::Relaxed);
                    if seed >= start + seeds {
                        return;
                    }
                    let run = run(seed, plan);
                    if let (true, Some(violation)) = (arguments.all, &run.violation) {
                        // Also where nobody sees a bar.
                        bar.suspend(|| {
                            println!("seed {seed}: {}: {}", violation.name, violation.what);
                        });
                    }
                    total.lock().unwrap().add(seed, run);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    total.into_inner().unwrap()
}

/// That replays this run.
fn command(plan: Plan, seed: u64) -> String {
    let mut command = format!("cargo run --release --example simulate -- --seed {seed}");
    let Size {
        instances,
        seconds,
        writes,
        left_out,
    } = plan.size;
    let numbers = [
        ("instances", instances),
        ("seconds", seconds),
        ("writes", writes),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            command += &format!(" --{name} {value}");
        }
    }
    if plan.mode == Mode::Calm {
        command += " --calm";
    }
    if let Some(bug) = plan.bug {
        command += &format!(" --bug {bug:?}");
    }
    let left_out: Vec<_> = left_out.names().collect();
    if !left_out.is_empty() {
        command += &format!(" --without {}", left_out.join(","));
    }
    command
}
