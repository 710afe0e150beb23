//! Many writers, short and long transactions, and the production tick beside them: no row is lost, and
//! none comes twice (B5).
//!
//! Each table is polled twice at the same time, as dbtick does it and as a plain keyset does
//! (`late_commits: "off"`), so that both meet the very same commits. The plain one has to lose rows,
//! or the writers prove nothing; and it is what latencies are compared with.
//!
//! `DBTICK_STRESS_SECONDS=60 cargo nextest run --test late_stress --success-output final` writes for
//! longer and shows the numbers; `DBTICK_STRESS_WRITERS` is how many write to each table (4 unless
//! set), of which some dozens remember more than a document holds; with `DBTICK_STRESS_IN_ORDER=1`
//! rows come in the order of their cursors. `DBTICK_SEED` makes the writers
//! choose the same again, though never at the same moments.
//!
//! Sleeps in here are load: between two ticks, and inside and between transactions. What has to be
//! known is read from what the tasks return.

#![allow(clippy::unwrap_used)]

#[path = "late_stress/ledger.rs"]
mod ledger;
#[path = "late_stress/mariadb.rs"]
mod mariadb;
#[path = "late_stress/polling.rs"]
mod polling;
#[path = "late_stress/postgres.rs"]
mod postgres;
#[path = "late_stress/session.rs"]
mod session;
#[path = "late_stress/shape.rs"]
mod shape;
mod support;
#[path = "late_stress/writer.rs"]
mod writer;

use std::sync::Arc;
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use dbtick::config::LateMode;
use dbtick::model::late::Ordering;
use tokio::sync::watch;
use tokio::task::JoinSet;

use ledger::{Verdict, median, show};
use polling::{PERIOD, Polled, Polling};
use session::Server;
use shape::Shape;
use support::dice::Dice;
use writer::{Table, Writer};

/// For each table; two cores are not busy with them.
const WRITERS: u64 = 4;
const SECONDS: u64 = 10;
/// The median may be half as large again as the plain keyset's, and this much more.
const SLACK: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_on_postgres_lose_no_row_and_none_comes_twice() {
    stress(Server::postgres().await, postgres::shapes()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_on_mariadb_lose_no_row_and_none_comes_twice() {
    stress(Server::mariadb().await, mariadb::shapes()).await;
}

async fn stress(server: Server, shapes: Vec<Shape>) {
    let server = Arc::new(server);
    let mut dice = Dice::thrown();
    let (end_of_writing, written) = watch::channel(false);
    let (mut pollers, mut writers, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    for mut shape in shapes {
        if is_in_order() {
            shape.late.ordering = Ordering::Cursor;
        }
        server.create(&shape).await;
        for late in [shape.late.clone(), shape.unprotected()] {
            pollers.push(Polling::new(&server, &shape, late).await);
        }
        let table = Arc::new(Table::new(shape));
        for number in 0..by_hand("DBTICK_STRESS_WRITERS", WRITERS) {
            let dice = dice.another();
            writers.push(Writer::new(number, &table, &server, dice).await);
        }
        tables.push(table);
    }
    let writing = Duration::from_secs(by_hand("DBTICK_STRESS_SECONDS", SECONDS));
    let until = SystemClock.monotonic() + writing;
    let pollers = pollers.into_iter();
    let pollers: JoinSet<_> = pollers.map(|one| one.run(written.clone())).collect();
    let writers: JoinSet<_> = writers.into_iter().map(|one| one.write(until)).collect();
    writers.join_all().await;
    end_of_writing.send(true).unwrap();
    let pollers = pollers.join_all().await;
    let mut verdicts = Vec::new();
    for table in &tables {
        let rows = server.rows(&table.shape).await;
        let of_table = |polled: &&Polled| polled.shape == table.shape.name;
        for polled in pollers.iter().filter(of_table) {
            verdicts.push(Verdict::of(table, &rows, polled));
        }
    }
    println!("{}", show(&verdicts));
    judge(&verdicts, &pollers);
}

fn judge(verdicts: &[Verdict], pollers: &[Polled]) {
    for verdict in verdicts {
        let Verdict { name, .. } = verdict;
        assert_eq!(verdict.invented, 0, "{name}: nobody has committed them");
        assert_eq!(verdict.duplicates, 0, "{name}: they came twice");
        if verdict.mode != LateMode::Off {
            assert!(verdict.lost.is_empty(), "{name}: {:#?}", verdict.lost);
        }
    }
    for polled in pollers {
        let is_settled = polled.mode == LateMode::Off || polled.is_settled();
        assert!(is_settled, "{polled:#?}");
    }
    let (plain, protected): (Vec<_>, Vec<_>) = verdicts
        .iter()
        .partition(|verdict| verdict.mode == LateMode::Off);
    let lost: usize = plain.iter().map(|verdict| verdict.lost.len()).sum();
    assert!(lost > 0, "these writers are harmless");
    compare(median(&plain), median(&protected));
}

/// By the plain keyset it is also told whether the machine has time for all of this.
fn compare(plain: Duration, protected: Duration) {
    println!("p50 of all: {protected:?}, plain keyset {plain:?}");
    if plain > PERIOD || is_in_order() {
        println!("which is not compared");
        return;
    }
    assert!(
        protected <= plain.mul_f64(1.5) + SLACK,
        "{protected:?}, where the plain keyset takes {plain:?}"
    );
}

/// Rows then wait for those that could come before them.
fn is_in_order() -> bool {
    by_hand("DBTICK_STRESS_IN_ORDER", 0) > 0
}

#[allow(clippy::disallowed_methods)] // For longer and larger runs by hand.
fn by_hand(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |given| given.parse().unwrap())
}
