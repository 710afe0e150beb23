//! What a backfill delivers, and what it says about it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::support::command::{beside, good, json as parsed, refused, run, run_beside};
use crate::support::receiver::{Answer, Delivery};
use crate::support::world::World;
use crate::{backfill, drained, report};

/// Which rows came behind the first `before` deliveries.
fn came(world: &World, before: usize) -> Vec<i64> {
    let deliveries = world.receiver.deliveries();
    let events = deliveries[before..].iter().flat_map(Delivery::events);
    let mut rows: Vec<i64> = events.map(|(row, _)| row).collect();
    rows.sort_unstable();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_brings_the_same_events_and_leaves_the_live_poller_alone() {
    let (world, _handler) = drained(95, json!({})).await;
    let live = world.state("orders").read().unwrap();
    let before = world.receiver.count();
    let said = backfill(&world, &["--ranges", "3"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(report(&said), (95, 95, 0, 0));
    let object = parsed(&said);
    assert_eq!(object["status"], "complete");
    assert_eq!(object["ranges"], 3);

    let rows = world.receiver.acknowledged_rows();
    assert_eq!(rows.len(), 95);
    for (row, ids) in &rows {
        assert_eq!(ids.len(), 2, "row {row} came once by each");
        assert_eq!(ids[0], ids[1], "and is the same event");
    }
    let token = live.document.lease.token.get();
    for delivery in &world.receiver.deliveries()[before..] {
        assert_eq!(delivery.body["poller"], "orders");
        assert_eq!(delivery.token(), token, "the live poller goes on above it");
    }
    let after = world.state("orders").read().unwrap();
    assert_eq!(live.tag, after.tag, "nobody has written its document");

    let again = backfill(&world, &[]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(came(&world, before).len(), 95, "it was complete before");
    let listed = run(&world, &["backfill", "orders", "--list"]);
    assert!(
        good(&listed).contains("beginning-to-checkpoint: complete; 95 rows"),
        "{listed:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ends_are_inclusive_and_never_beyond_the_checkpoint() {
    let (world, handler) = drained(30, json!({})).await;
    let before = world.receiver.count();
    let said = backfill(&world, &["--from", "7", "--to", "21"]);
    assert_eq!(report(&said), (15, 15, 0, 0));
    assert_eq!(came(&world, before), (7..=21).collect::<Vec<_>>());

    world.writer().await.insert(5).await;
    let before = world.receiver.count();
    let said = backfill(&world, &["--to", "33"]);
    refused(
        &said,
        2,
        &["beyond the checkpoint of orders, which is at 30 (30)"],
    );
    let said = backfill(&world, &["--from", "28"]);
    assert_eq!(report(&said), (3, 3, 0, 0), "up to the checkpoint");
    assert_eq!(came(&world, before), [28, 29, 30]);
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.state("orders").committed(), 35);

    let said = backfill(&world, &["--from", "90"]);
    refused(&said, 1, &["there is no row"]);
    let said = backfill(&world, &["--from", "soon"]);
    refused(&said, 2, &["--from"]);
    let said = run(&world, &["backfill", "orders", "--from", "1"]);
    refused(&said, 2, &["--yes", "nothing was changed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poller_without_a_checkpoint_has_nothing_to_fill_in() {
    let world = World::with_orders(crate::changes(json!({})))
        .await
        .rows(3)
        .await;
    refused(&backfill(&world, &[]), 1, &["has no state yet"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_or_came_late_behind_it_is_missed_and_sent_before_it_is_complete() {
    let (world, _handler) = drained(40, json!({})).await;
    let before = world.receiver.count();
    // Row 3 is overwritten in place, and a row commits late, after their batch was read.
    let database = world.path("orders.db");
    world.receiver.answer(move |_, delivery| {
        if delivery.events().iter().any(|(row, _)| *row == 3) {
            let changed = std::process::Command::new("python3")
                .arg("-c")
                .arg(
                    "import sqlite3, sys\n\
                     c = sqlite3.connect(sys.argv[1], timeout=20)\n\
                     c.execute('UPDATE orders SET note = ? WHERE id = 3', ('corrected',))\n\
                     c.execute('INSERT OR IGNORE INTO orders VALUES (999, 0, ?)', ('late',))\n\
                     c.commit()",
                )
                .arg(&database)
                .status()
                .unwrap();
            assert!(changed.success());
        }
        Answer::Ok
    });
    let said = backfill(&world, &["--ranges", "2", "--batch-rows", "10"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(report(&said), (41, 41, 0, 0));
    assert_eq!(parsed(&said)["report"]["rounds"], 2);
    let deliveries = world.receiver.deliveries();
    let events = deliveries[before..]
        .iter()
        .flat_map(|delivery| delivery.body["events"].as_array().unwrap());
    let threes: Vec<&Value> = events.filter(|event| event["key"]["id"] == 3).collect();
    assert_eq!(threes.len(), 2);
    assert_eq!(threes[1]["data"]["note"], "corrected", "its last version");
    let all = came(&world, before);
    assert_eq!(all.iter().filter(|row| **row == 999).count(), 1);
    assert_eq!(all.len(), 42, "only what was missing came twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_not_taken_goes_to_the_quarantine_of_the_poller() {
    let (world, _handler) = drained(30, json!({})).await;
    world.receiver.answer(|_, delivery| {
        let failed: Vec<Value> = delivery
            .events()
            .into_iter()
            .filter(|(row, _)| *row == 12)
            .map(|(_, id)| json!({ "id": id, "reason": "no customer", "retry": false }))
            .collect();
        match failed.is_empty() {
            true => Answer::Ok,
            false => Answer::Say(200, None, json!({ "failed": failed }).to_string()),
        }
    });
    let said = backfill(&world, &["--ranges", "2"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(report(&said), (30, 29, 1, 0));
    let listed = parsed(&run(&world, &["quarantine", "list", "orders", "--json"]));
    assert_eq!(listed["rows"].as_array().unwrap().len(), 1);
    assert_eq!(listed["rows"][0]["key"]["id"], 12);
    world.receiver.answer(|_, _| Answer::Ok);
    let sent = run(
        &world,
        &["quarantine", "redrive", "orders", "--all", "--yes"],
    );
    assert!(good(&sent).contains("1 delivered"), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_down_ends_it_after_a_while_and_it_goes_on_later() {
    let (world, _handler) = drained(40, json!({})).await;
    let before = world.receiver.count();
    let down = |_: usize, _: &Delivery| Answer::Say(503, None, String::new());
    world.receiver.answer(down);
    let said = backfill(&world, &["--give-up-after", "2s"]);
    refused(
        &said,
        1,
        &["no progress for 2 s", "the same command goes on"],
    );
    assert_eq!(parsed(&said)["ok"], false);
    world.receiver.answer(|_, _| Answer::Ok);
    let said = backfill(&world, &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(report(&said), (40, 40, 0, 0));
    let rows: BTreeSet<i64> = came(&world, before).into_iter().collect();
    assert_eq!(rows, (1..=40).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_kept_over_all_ranges() {
    let (world, _handler) = drained(120, json!({})).await;
    let began = SystemClock.monotonic();
    let said = backfill(&world, &["--rate", "60", "--ranges", "3"]);
    assert_eq!(report(&said), (120, 120, 0, 0));
    let took = SystemClock.monotonic() - began;
    // The first batch of each range goes out at once.
    assert!(took >= Duration::from_millis(900), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_backfill_is_over_and_one_of_another_source_does_not_go_on() {
    let (world, _handler) = drained(20, json!({})).await;
    let down = |_: usize, _: &Delivery| Answer::Say(503, None, String::new());
    world.receiver.answer(down);
    let fast = ["--give-up-after", "1s", "--name", "spring"];
    assert_eq!(backfill(&world, &fast).code, Some(1));
    let said = backfill(&world, &["--name", "spring", "--to", "5"]);
    refused(&said, 2, &["there is a backfill spring", "another --name"]);
    let abandon = |how: &str| {
        let reason = ["--reason", "not needed"];
        let arguments = ["backfill", "orders", "--name", "spring", "--abandon", how];
        run(&world, &[&arguments[..], &reason].concat())
    };
    let said = abandon("--dry-run");
    assert!(good(&said).contains("nothing was changed"), "{said:?}");
    let said = abandon("--yes");
    assert!(good(&said).contains("spring: abandoned"), "{said:?}");
    let plan = world.state_texts().concat();
    assert!(
        plan.contains("\"why\": \"not needed\""),
        "who gave it up, and why"
    );
    let said = abandon("--yes");
    assert!(good(&said).contains("it had ended before"), "{said:?}");
    let said = backfill(&world, &fast);
    refused(&said, 1, &["was abandoned"]);
    let said = backfill(&world, &["--name", "../x"]);
    refused(&said, 2, &["--name"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_given_up_while_it_runs_stops_and_is_never_called_complete() {
    let (world, _handler) = drained(200, json!({})).await;
    let before = world.receiver.count();
    world.receiver.answer(|_, _| Answer::WhenOpened);
    let arguments = [
        "backfill",
        "orders",
        "--name",
        "spring",
        "--ranges",
        "1",
        "--batch-rows",
        "10",
        "--yes",
    ];
    let running = beside(&world, &arguments).spawn().unwrap();
    world.receiver.arrived(before + 1).await;
    let abandon = [
        "backfill",
        "orders",
        "--name",
        "spring",
        "--abandon",
        "--yes",
    ];
    assert_eq!(run_beside(&world, &abandon).await.code, Some(0));
    world.receiver.open_gate();
    let ended = running.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("given up by somebody"), "{said}");
    let list = run_beside(&world, &["backfill", "orders", "--list"]).await;
    assert!(list.stdout.contains("spring: abandoned"), "{list:?}");
}

/// A receiver that keeps the greatest pair must not take what a later process sends for something older.
#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_from_one_process_to_the_next() {
    let (world, _handler) = drained(40, json!({})).await;
    let fences = |from: usize| -> Vec<(u64, u64)> {
        let sent = world.receiver.deliveries();
        let pair = |sent: &Delivery| {
            let sequence = sent.body["fence"]["sequence"].as_u64().unwrap();
            (sent.token(), sequence)
        };
        sent[from..].iter().map(pair).collect()
    };
    let mut greatest = fences(0).into_iter().max().unwrap();
    for name in ["one", "two"] {
        let before = world.receiver.count();
        let said = backfill(
            &world,
            &["--name", name, "--ranges", "1", "--batch-rows", "10"],
        );
        assert_eq!(report(&said), (40, 40, 0, 0));
        for fence in fences(before) {
            assert!(fence > greatest, "{fence:?} after {greatest:?}");
            greatest = fence;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_command_after_the_checkpoint_has_moved_is_not_taken_for_done() {
    let (world, handler) = drained(20, json!({})).await;
    assert_eq!(report(&backfill(&world, &[])), (20, 20, 0, 0));
    let again = backfill(&world, &[]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stdout.contains("\"changed\":false"), "{again:?}");
    world.writer().await.insert(5).await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    refused(&backfill(&world, &[]), 1, &["complete before", "--name"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_with_the_same_backfill_share_it() {
    let (world, _handler) = drained(400, json!({})).await;
    let before = world.receiver.count();
    let arguments = ["--ranges", "4", "--batch-rows", "10"];
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| backfill(&world, &arguments));
        (backfill(&world, &arguments), other.join().unwrap())
    });
    for said in [one, other] {
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(report(&said), (400, 400, 0, 0));
    }
    let came: BTreeSet<i64> = came(&world, before).into_iter().collect();
    assert_eq!(came, (1..=400).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_compares_fences_takes_the_backfill_and_never_refuses_the_live_poller() {
    let (world, handler) = drained(200, json!({})).await;
    let greatest = Mutex::new((0, 0));
    let refusals = Arc::new(Mutex::new(Vec::new()));
    let refused = Arc::clone(&refusals);
    world.receiver.answer(move |_, delivery| {
        let sequence = delivery.body["fence"]["sequence"].as_u64().unwrap();
        let pair = (delivery.token(), sequence);
        let mut greatest = greatest.lock().unwrap();
        if pair < *greatest {
            refused.lock().unwrap().push(pair);
            return Answer::Say(409, None, String::new());
        }
        *greatest = pair;
        Answer::Ok
    });
    let before = world.receiver.count();
    let arguments = [
        "--ranges",
        "1",
        "--batch-rows",
        "5",
        "--rate",
        "100",
        "--to",
        "200",
    ];
    let said = std::thread::scope(|scope| {
        let backfill = scope.spawn(|| backfill(&world, &arguments));
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| {
            runtime.block_on(async {
                while !backfill.is_finished() {
                    world.writer().await.insert(1).await;
                    assert_eq!(handler.tick("Orders").await.status, 200);
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
            });
        });
        backfill.join().unwrap()
    });
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(report(&said), (200, 200, 0, 0));
    // Who lost a race was the backfill, and has sent its rows again.
    let of_backfill = |(_, sequence): &(u64, u64)| *sequence >= 1 << 32;
    assert!(refusals.lock().unwrap().iter().all(of_backfill));
    let came: BTreeSet<i64> = came(&world, before).into_iter().collect();
    assert!((1..=200).all(|row| came.contains(&row)));
}
