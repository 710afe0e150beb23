//! A receiver that misbehaves on a schedule, among a few rows that it never takes.

use std::collections::{BTreeMap, BTreeSet};

use dbtick::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::moods::{Badness, Moody, Trouble};
use crate::support::DEADLINE;
use crate::support::azurite::Azurite;
use crate::support::command::{good, run};
use crate::support::dice::Dice;
use crate::support::handler::HandlerProcess;
use crate::support::postgres::Postgres;
use crate::support::world::World;
use crate::{filled, hasty, quarantined, until_quiet};

/// New ones with each trouble.
const WRITTEN: i64 = 18;
const ROWS: i64 = WRITTEN * Trouble::ALL.len() as i64;
const SEEDS: usize = 4;

fn patient(changes: Value) -> Value {
    let mut poller = hasty(json!({
        "batch": { "max_rows": 12 },
        "lease": { "ttl": "5s", "heartbeat": "1s", "margin": "2s" }
    }));
    crate::support::world::merge(&mut poller, changes);
    poller
}

/// Four bad rows, of every kind.
fn bad_rows(dice: &mut Dice) -> BTreeMap<i64, Badness> {
    let mut bad = BTreeMap::new();
    for badness in Badness::ALL {
        let row = loop {
            let row = 1 + i64::try_from(dice.below(ROWS.unsigned_abs())).unwrap();
            if !bad.contains_key(&row) {
                break row;
            }
        };
        bad.insert(row, badness);
    }
    bad
}

/// Every trouble once, in an order of chance, each of them met by new rows. It comes in bursts and is
/// followed by a good tick, so that no event fails so often that the sink is left alone.
async fn live_through(
    world: &World,
    handler: &HandlerProcess,
    moody: &Moody,
    dice: &mut Dice,
    mut write: impl AsyncFnMut(),
) {
    let started = SystemClock.monotonic();
    let mut to_come = Trouble::ALL.to_vec();
    while !to_come.is_empty() {
        let at = usize::try_from(dice.below(to_come.len() as u64)).unwrap();
        let trouble = to_come.swap_remove(at);
        println!("{trouble:?}");
        write().await;
        moody.is_in_trouble(trouble, 1 + dice.below(4));
        // Whoever has to wait is not asked yet.
        while !moody.has_been_in_trouble() {
            tick(world, handler).await;
            let waited = SystemClock.monotonic() - started;
            assert!(
                waited < DEADLINE * 2,
                "{trouble:?}: {}",
                handler.everything_said()
            );
        }
        moody.is_well();
        tick(world, handler).await;
    }
    until_quiet(handler).await;
}

async fn tick(world: &World, handler: &HandlerProcess) {
    let answer = handler.tick("Orders").await;
    if answer.logs().contains("dbtick resume orders") {
        good(&run(world, &["resume", "orders"]));
    }
}

/// The promise.
fn check(world: &World, moody: &Moody, rows: &BTreeMap<i64, Value>, bad: &BTreeMap<i64, Badness>) {
    let taken = moody.taken();
    let aside = quarantined(world);
    let expected: BTreeSet<_> = bad.keys().collect();
    assert_eq!(aside.keys().collect::<BTreeSet<_>>(), expected, "{bad:?}");
    for (row, data) in rows {
        let events = match aside.get(row) {
            Some(event) => {
                assert!(!taken.contains_key(row), "bad row {row} was taken");
                vec![event.clone()]
            }
            None => taken
                .get(row)
                .unwrap_or_else(|| panic!("row {row} is in neither"))
                .clone(),
        };
        for event in &events {
            assert_eq!(event["data"], *data);
            assert_eq!(event["id"], events[0]["id"], "row {row} has two ids");
        }
    }
    assert_eq!(
        taken.len() + aside.len(),
        rows.len(),
        "rows that nobody wrote"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_receiver_does_good_rows_arrive_and_bad_ones_are_in_quarantine() {
    let mut dice = Dice::thrown();
    for _ in 0..SEEDS {
        let bad = bad_rows(&mut dice);
        println!("{bad:?}");
        let world = World::with_orders(patient(json!({}))).await;
        let moody = Moody::take_over(&world.receiver, dice.another(), bad.clone());
        moody.takes_at_most(9);
        let handler = world.serve().await;
        let mut rows = BTreeMap::new();
        let write = async || rows = filled(&world, WRITTEN).await;
        live_through(&world, &handler, &moody, &mut dice, write).await;
        check(&world, &moody, &rows, &bad);
        assert_eq!(world.state("orders").committed(), ROWS);
        let document = world.state("orders").document();
        assert_eq!(document.counters.quarantined, 4);
        assert_eq!(document.failures().count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_holds_from_postgresql_with_state_in_a_blob() {
    let postgres = Postgres::start().await;
    postgres
        .sql(
            "CREATE TABLE orders (id int PRIMARY KEY, seq int NOT NULL UNIQUE, note text);
             CREATE INDEX ON orders (seq, id)",
        )
        .await;
    let row = |id| {
        (
            id,
            json!({ "id": id, "seq": id, "note": format!("order {id}") }),
        )
    };
    let rows: BTreeMap<i64, Value> = (1..=ROWS).map(row).collect();
    let azurite = Azurite::blob();
    let mut dice = Dice::thrown();
    let bad = bad_rows(&mut dice);
    println!("{bad:?}");
    let world = World::with_orders(patient(json!({
        "source": { "table": "public.orders" },
        "state": { "kind": "blob", "connection": "STORAGE" }
    })))
    .await
    .setting("ORDERS_DB", &postgres.url())
    .setting("STORAGE", &azurite.connection_string());
    let moody = Moody::take_over(&world.receiver, dice.another(), bad.clone());
    let handler = world.serve().await;
    let mut written = 0;
    let write = async || {
        let first = written + 1;
        written += WRITTEN;
        postgres
            .sql(&format!(
                "INSERT INTO orders SELECT i, i, 'order ' || i FROM generate_series({first}, {written}) i"
            ))
            .await;
    };
    live_through(&world, &handler, &moody, &mut dice, write).await;
    check(&world, &moody, &rows, &bad);
    let history = run(&world, &["history", "orders"]);
    assert!(
        good(&history).contains(&format!("{ROWS} ({ROWS})")),
        "{history:?}"
    );
}
