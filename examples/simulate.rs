//! Looks for a seed that breaks a promise, or replays one with a trace.
//!
//! ```sh
//! cargo run --release --example simulate -- --seeds 100000 --start 0
//! cargo run --release --example simulate -- --seed 4711
//! cargo run --release --example simulate -- --bug IfMatchIgnored --seeds 1000
//! ```

#![allow(clippy::unwrap_used)]

#[path = "../tests/simulation/sim.rs"]
mod sim;

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Parser;
use dbtick::clock::{Clock, SystemClock};

use sim::faults::{Bug, Mode};
use sim::trace::TraceMode;
use sim::{Plan, run};

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
    /// Print one number for all that happened: equal for equal seeds.
    #[arg(long)]
    hash: bool,
    /// No faults: a calm world must not have duplicates.
    #[arg(long)]
    calm: bool,
    /// Name every seed that breaks a promise, not only the first.
    #[arg(long)]
    all: bool,
    /// Plant a bug, by name.
    #[arg(long, value_parser = bug)]
    bug: Option<Bug>,
}

fn bug(name: &str) -> Result<Bug, String> {
    let named = |bug: &Bug| format!("{bug:?}").eq_ignore_ascii_case(name);
    let found = Bug::ALL.into_iter().find(named);
    found.ok_or_else(|| format!("one of {:?}", Bug::ALL))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let plan = Plan {
        mode: if arguments.calm {
            Mode::Calm
        } else {
            Mode::Chaos
        },
        bug: arguments.bug,
        trace: match arguments.seed {
            Some(_) => TraceMode::Printed,
            None if arguments.hash => TraceMode::Hashed,
            None => TraceMode::Off,
        },
    };
    let seeds = match arguments.seed {
        Some(seed) => seed..seed + 1,
        None => arguments.start..arguments.start + arguments.seeds,
    };
    let started = SystemClock.monotonic();
    let mut found = BTreeMap::<&str, (u64, u64, String)>::new();
    let mut hash = 0_u64;
    let (mut tried, mut ticks, mut commits, mut overran, mut duplicates) = (0, 0, 0, 0, 0);
    for seed in seeds {
        let run = run(seed, plan);
        tried += 1;
        hash = hash.rotate_left(1) ^ run.trace_hash;
        ticks += run.summary.ticks;
        commits += run.summary.commits;
        overran += run.summary.overran;
        duplicates += run.summary.duplicates;
        if let Some(violation) = run.violation {
            if arguments.all {
                println!("seed {seed}: {}: {}", violation.name, violation.what);
            }
            let entry = found.entry(violation.name);
            entry.or_insert((seed, 0, violation.what)).1 += 1;
        }
    }
    let seconds = (SystemClock.monotonic() - started).as_secs_f64();
    let rate = f64::from(u32::try_from(tried).unwrap_or(u32::MAX)) / seconds;
    println!("{tried} seeds in {seconds:.1} s, {rate:.0} a second");
    println!("{ticks} ticks ({overran} overran), {commits} commits, {duplicates} duplicates");
    if arguments.hash {
        println!("trace {hash:016x}");
    }
    for (name, (seed, times, what)) in &found {
        println!("{name}: {times} seeds, the first is {seed}: {what}");
    }
    ExitCode::from(u8::from(!found.is_empty()))
}
