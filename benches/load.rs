//! Many pollers, a large table, a slow receiver, a burst: what a real handler process needs for them, and whether it
//! stays within its memory and its time.
//!
//! `cargo bench --bench load -- [--rows N] [--only NAME]`; see docs/load.md for what it said. Ends with exit code 1 if a
//! limit is passed or a row is not delivered.

#![allow(clippy::unwrap_used)] // a failed step is the end of a benchmark

#[path = "load/app.rs"]
mod app;
#[path = "load/process.rs"]
mod process;
#[path = "load/receiver.rs"]
mod receiver;
#[path = "load/report.rs"]
mod report;
#[path = "load/scenarios.rs"]
mod scenarios;
#[path = "../tests/support/mod.rs"]
mod support;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use report::Report;

/// Puts a handler process under load and measures it
#[derive(Debug, Parser)]
struct Arguments {
    /// Of the large table and of the burst
    #[arg(long, default_value_t = 1_000_000)]
    rows: usize,
    /// One scenario in place of all
    #[arg(long, value_enum)]
    only: Option<Scenario>,
    /// Cargo adds it
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// 1,000 pollers of one app, 100 of them due in each second
    Many,
    /// 150 pollers whose receivers are slow, and 100 others that are due beside them
    Crowd,
    /// One table, from its first row to its last
    Large,
    /// A receiver ten times slower than the source
    Slow,
    /// Very many rows in one transaction, all with the same time
    Burst,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { rows, only, .. } = Arguments::parse();
    let mut report = Report::default();
    println!("| scenario | measure | figure | limit |\n|---|---|---|---|");
    for scenario in Scenario::value_variants() {
        if only.is_some_and(|only| only != *scenario) {
            continue;
        }
        match scenario {
            Scenario::Many => scenarios::many(&mut report).await,
            Scenario::Crowd => scenarios::crowd(&mut report).await,
            Scenario::Large => scenarios::large(&mut report, rows).await,
            Scenario::Slow => scenarios::slow(&mut report).await,
            Scenario::Burst => scenarios::burst(&mut report, rows.min(1_000_000)).await,
        }
    }
    report.verdict()
}
