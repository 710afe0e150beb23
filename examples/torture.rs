//! The crash test on real parts, as one command: starts PostgreSQL, MariaDB, Azurite, receivers and two handler
//! processes, kills and harms them in every way that we know of, and then looks for every row that was committed.
//!
//! ```sh
//! cargo run --release --example torture -- --kills 1000
//! cargo run --release --example torture -- --bugs
//! ```

#![allow(clippy::unwrap_used)]

#[path = "../tests/torture/torture.rs"]
mod torture;

use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use dbtick::clock::{Clock, SystemClock};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use torture::bugs::found;
use torture::planted::Bug;
use torture::processes::Programs;
use torture::report::Report;
use torture::tables::Source;
use torture::{Options, Progress, programs, run, support};

/// Enough for each planted bug to show, with room.
const KILLS_FOR_A_BUG: usize = 40;

/// Kill and harm real processes, and look for every row that was committed
///
/// Exit code 0: nothing was lost, or, with --bug and --bugs, every bug was found. The plan of faults follows from the
/// seed; when each of them strikes does not, because processes, servers and disks are real: a seed shows the same
/// kinds of trouble again, not the same run.
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
struct Arguments {
    /// How many processes to kill
    #[arg(long, default_value_t = 200)]
    kills: usize,
    /// Of the plan of faults; drawn and shown unless given
    #[arg(long)]
    seed: Option<u64>,
    #[arg(long, value_enum, default_value = "both")]
    source: Sources,
    /// Plant a bug, by name, and expect that it is found
    #[arg(long, value_parser = bug)]
    bug: Option<Bug>,
    /// Plant each bug in turn
    #[arg(long, conflicts_with = "bug")]
    bugs: bool,
    /// One JSON object in place of the table
    #[arg(long)]
    json: bool,
    /// Keep the logs of a good run too
    #[arg(long)]
    keep: bool,
    /// In place of the dbtick that is built beside this program
    #[arg(long, value_name = "PATH", requires = "planted")]
    binary: Option<PathBuf>,
    /// In place of the one with crash points: `cargo build --features planted --example dbtick-planted`
    #[arg(long, value_name = "PATH", requires = "binary")]
    planted: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sources {
    Postgres,
    Mariadb,
    Both,
}

fn bug(name: &str) -> Result<Bug, String> {
    let names = Bug::ALL.map(Bug::name).join(", ");
    Bug::named(name).ok_or_else(|| format!("one of {names}"))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let programs = match (&arguments.binary, &arguments.planted) {
        (Some(dbtick), Some(planted)) => Programs {
            dbtick: dbtick.clone(),
            planted: planted.clone(),
        },
        _ => match programs::build() {
            Ok(programs) => programs,
            Err(error) => {
                eprintln!("the programs under test cannot be built: {error}");
                return ExitCode::FAILURE;
            }
        },
    };
    let seed = arguments
        .seed
        .unwrap_or_else(|| (SystemClock.random() >> 96) as u64);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let good = runtime.block_on(async {
        match (arguments.bugs, arguments.bug) {
            (true, _) => look_for(&arguments, &programs, seed, &Bug::ALL).await,
            (false, Some(bug)) => look_for(&arguments, &programs, seed, &[bug]).await,
            (false, None) => {
                let report = torment(&arguments, &programs, seed, None, arguments.kills).await;
                show(&report, arguments.json);
                report.violations.is_empty()
            }
        }
    });
    ExitCode::from(u8::from(!good))
}

async fn look_for(arguments: &Arguments, programs: &Programs, seed: u64, bugs: &[Bug]) -> bool {
    let kills = arguments.kills.min(KILLS_FOR_A_BUG);
    let mut all = Vec::new();
    for bug in bugs {
        let report = torment(arguments, programs, seed, Some(*bug), kills).await;
        let first = found(*bug, &report);
        if !arguments.json {
            let (kills, seconds) = (report.counts.kills(), report.chaos.as_secs_f64());
            match first {
                Some(first) => println!(
                    "{}: found in {kills} kills and {seconds:.0} s, by {}; {}: {}",
                    bug.name(),
                    report.broken(),
                    first.poller,
                    first.what
                ),
                None => println!(
                    "{}: NOT FOUND in {kills} kills and {seconds:.0} s; {}",
                    bug.name(),
                    report.broken()
                ),
            }
        }
        all.push(json!({ "bug": bug.name(), "found": first.is_some(), "run": report.json() }));
    }
    let good = all.iter().all(|one| one["found"] == json!(true));
    if arguments.json {
        println!("{}", json!({ "ok": good, "bugs": Value::from(all) }));
    }
    good
}

async fn torment(
    arguments: &Arguments,
    programs: &Programs,
    seed: u64,
    bug: Option<Bug>,
    kills: usize,
) -> Report {
    let directory = tempfile::Builder::new()
        .prefix("torture-")
        .tempdir_in(place())
        .unwrap();
    let options = Options {
        kills,
        seed,
        sources: match arguments.source {
            Sources::Postgres => vec![Source::Postgres],
            Sources::Mariadb => vec![Source::MariaDb],
            Sources::Both => vec![Source::Postgres, Source::MariaDb],
        },
        bug,
        programs: programs.clone(),
        directory: directory.path().to_owned(),
    };
    let bar = bar(kills, bug);
    let drawn = bar.clone();
    let report = run(options, move |progress| draw(&drawn, progress)).await;
    bar.finish_and_clear();
    let is_wanted = arguments.keep || (bug.is_none() && !report.violations.is_empty());
    if is_wanted {
        drop(directory.keep());
    }
    report
}

fn show(report: &Report, as_json: bool) {
    if as_json {
        println!("{}", report.json());
        return;
    }
    print!("{}{}", report.table(), report.beside());
    println!("seed {}", report.seed);
    eprint!("{}", report.complaints());
}

/// Where cargo builds, so that logs outlive a temporary directory.
fn place() -> PathBuf {
    let place = support::server::target().join("tmp");
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// Only people watch it.
fn bar(kills: usize, bug: Option<Bug>) -> ProgressBar {
    let target = match stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(kills as u64), target);
    let style = "{prefix}{bar:30} {pos}/{len} kills, {elapsed}, {eta} left: {msg}";
    bar.set_style(ProgressStyle::with_template(style).unwrap());
    if let Some(bug) = bug {
        bar.set_prefix(format!("{}: ", bug.name()));
    }
    bar
}

fn draw(bar: &ProgressBar, progress: &Progress) {
    let Progress {
        phase,
        counts,
        written,
        received,
    } = progress;
    bar.set_position(counts.kills() as u64);
    let outages: usize = counts.outages.values().sum();
    bar.set_message(format!(
        "{phase}, {written} rows written, {received} received, {} zombies, {outages} database restarts",
        counts.zombies
    ));
}
