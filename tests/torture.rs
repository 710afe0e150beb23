//! A short run of the crash test on real parts (`examples/torture.rs` is the long one), and bugs that it must find.

#![allow(clippy::unwrap_used)]

#[path = "torture/torture.rs"]
mod torture;

use torture::planted::Bug;
use torture::report::Report;
use torture::tables::Source;
use torture::{Options, bugs, programs, run};

const KILLS: usize = 25;
/// Enough for the bugs that are looked for here.
const KILLS_FOR_A_BUG: usize = 6;

async fn torment(sources: &[Source], kills: usize, seed: u64, bug: Option<Bug>) -> Report {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        kills,
        seed,
        sources: sources.to_vec(),
        bug,
        programs: programs::build().unwrap(),
        directory: directory.path().to_owned(),
    };
    let report = run(options, |_| {}).await;
    if bug.is_none() && !report.violations.is_empty() {
        // Whoever looks into it needs the logs.
        drop(directory.keep());
    }
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_real_processes_lose_no_row_of_real_databases() {
    let sources = [Source::Postgres, Source::MariaDb];
    let report = torment(&sources, KILLS, 1, None).await;
    println!("{}{}", report.table(), report.beside());
    assert!(report.violations.is_empty(), "{}", report.complaints());
    // Otherwise it is about a world in which nothing happens.
    let counts = &report.counts;
    assert_eq!(counts.kills(), KILLS);
    assert!(counts.at_named_points() >= 2, "{counts:?}");
    assert!(
        counts.zombies > 0 && !counts.outages.is_empty(),
        "{counts:?}"
    );
    for (source, account) in &report.sources {
        let seen = [
            account.rows,
            account.takeovers,
            account.duplicates,
            account.quarantined,
        ];
        assert!(seen.iter().all(|seen| *seen > 0), "{source}: {account:?}");
    }
}

/// All of them are looked for by `cargo run --release --example torture -- --bugs`.
#[tokio::test(flavor = "multi_thread")]
async fn bugs_that_are_planted_in_the_binary_are_found() {
    for bug in [Bug::FailureCountedAsDone, Bug::IdsPerProcess] {
        let report = torment(&[Source::Postgres], KILLS_FOR_A_BUG, 1, Some(bug)).await;
        let found = bugs::found(bug, &report);
        let found =
            found.unwrap_or_else(|| panic!("{bug:?} was not found: {}", report.complaints()));
        println!(
            "{bug:?}: {:?} in {}: {}",
            found.promise, found.poller, found.what
        );
    }
}
