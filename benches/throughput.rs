//! How fast dbtick is, beside the Python peer and beside what the machine can do: same table, same store, same
//! receiver, in one run.
//!
//! `benches/run` installs and builds what this needs, and starts it; see benches/README.md.

#![allow(clippy::unwrap_used)] // a failed step is the end of a benchmark

#[path = "throughput/growth.rs"]
mod growth;
#[path = "throughput/handler.rs"]
mod handler;
#[path = "throughput/limits.rs"]
mod limits;
#[path = "throughput/parts.rs"]
mod parts;
#[path = "throughput/peer.rs"]
mod peer;
#[path = "throughput/process.rs"]
mod process;
#[path = "throughput/queue.rs"]
mod queue;
#[path = "throughput/receiver.rs"]
mod receiver;
#[path = "throughput/report.rs"]
mod report;
#[path = "throughput/results.rs"]
mod results;
#[path = "throughput/small.rs"]
mod small;
#[path = "../tests/support/mod.rs"]
mod support;
#[path = "throughput/table.rs"]
mod table;

use std::path::PathBuf;

use clap::Parser;
use dbtick::clock::{Clock, SystemClock};

use parts::{Case, Cost, Database, Parts, SMALL, TABLE, TINY};
use results::Results;

/// Measures dbtick, the Python peer and the limits of the machine side by side
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
pub(crate) struct Arguments {
    /// The program that is measured
    #[arg(long, value_name = "PATH", default_value = "target/release/dbtick")]
    dbtick: PathBuf,
    /// In the table
    #[arg(long, default_value_t = 200_000)]
    rows: usize,
    /// How often everything is run, in turns
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Leave the Python peer out: there is nothing to compare with then
    #[arg(long)]
    without_peer: bool,
    /// Only PostgreSQL to a webhook, and the limits: for who is working on the code
    #[arg(long)]
    quick: bool,
    /// Also how cost grows from 10,000 to 10,000,000 rows: ten minutes more, and 20 GB on disk
    #[arg(long)]
    full: bool,
    /// The most rows of --full
    #[arg(long, default_value_t = 10_000_000)]
    most_rows: usize,
    /// Write what is printed into this file too
    #[arg(long, value_name = "PATH")]
    write: Option<PathBuf>,
    /// Cargo adds it.
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    assert!(
        arguments.dbtick.exists(),
        "{}: not there; benches/run builds it",
        arguments.dbtick.display()
    );
    let started = SystemClock.monotonic();
    let since = || {
        format!(
            "{:5.1} s",
            (SystemClock.monotonic() - started).as_secs_f64()
        )
    };
    let mut results = Results::begin();
    eprintln!("{}  servers, tables", since());
    let parts = Parts::start(arguments.dbtick.clone(), arguments.rows).await;
    results.know(&parts).await;
    for round in 1..=arguments.rounds {
        eprintln!("{}  round {round} of {}", since(), arguments.rounds);
        compared(&parts, &arguments, &mut results).await;
        if !arguments.quick {
            others(&parts, &mut results).await;
        }
    }
    eprintln!("{}  starts, idle ticks", since());
    let peers = if arguments.without_peer { 0 } else { 5 };
    results.starts = small::starts(&parts, 20, peers).await;
    results.ticks = Some(small::ticks(&parts, 100).await);
    if !arguments.without_peer {
        results.peer_ticks = Some(small::peer_ticks(&parts, 5).await);
    }
    if arguments.full {
        eprintln!("{}  growth", since());
        results.growth = growth::measure(&parts, arguments.most_rows).await;
    }
    results.took = SystemClock.monotonic() - started;
    let text = results.text();
    println!("{text}");
    if let Some(path) = &arguments.write {
        std::fs::write(path, text).unwrap();
    }
}

/// In turns, so that the other work of the machine meets all alike.
async fn compared(parts: &Parts, arguments: &Arguments, results: &mut Results) {
    let case = parts.case();
    let small_batches = Case {
        batch: 100,
        ..case.clone()
    };
    results.dbtick_1000.push(parts.dbtick(&case).await);
    results.copy.push(Cost::of(
        parts.rows,
        limits::copy(&parts.postgres, TABLE, parts.rows).await,
    ));
    results.dbtick_100.push(parts.dbtick(&small_batches).await);
    for (batch, posts) in [(1000, &mut results.post_1000), (100, &mut results.post_100)] {
        let bodies = limits::bodies(parts, batch).await;
        posts.push(Cost::of(parts.rows, limits::post(&parts.receiver, &bodies)));
        parts.receiver.take().check(parts.rows);
    }
    if !arguments.without_peer {
        let cost = tokio::task::block_in_place(|| parts.peer(TABLE, parts.rows, 1000));
        results.peer_1000.push(cost);
        let (table, rows) = SMALL;
        let cost = tokio::task::block_in_place(|| parts.peer(table, rows, 100));
        results.peer_100.push(cost);
    }
}

async fn others(parts: &Parts, results: &mut Results) {
    let case = parts.case();
    let in_flight = |batch: usize| Case {
        in_flight: 4,
        batch,
        ..case.clone()
    };
    let from = |database: Database| Case {
        database,
        ..case.clone()
    };
    let queue = |per: &'static str, (table, rows): (&'static str, usize)| Case {
        queue: Some(per),
        table,
        rows,
        ..case.clone()
    };
    for (what, case) in [
        ("batch 1000, max_inflight 4", in_flight(1000)),
        ("batch 100, max_inflight 4", in_flight(100)),
        ("MariaDB, batch 1000", from(Database::MariaDb)),
        ("SQLite, batch 1000", from(Database::Sqlite)),
        ("queue, packed", queue("packed", SMALL)),
        ("queue, message per event", queue("event", TINY)),
    ] {
        results.other(what, parts.dbtick(&case).await);
    }
}
