//! Looking at what comes next, and one tick by hand.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::support::handler::Lines;
use super::support::receiver::Answer;
use super::support::within;
use super::support::world::{ROW_CANARY, World};
use super::{beside, deliveries, drain, drained, good, json, refused, run, run_beside};

/// Nothing on disk has changed by this.
#[track_caller]
fn only_looks(world: &World, arguments: &[&str]) -> String {
    let before = world.state_texts();
    let said = run(world, arguments);
    assert_eq!(world.state_texts(), before, "{arguments:?}");
    good(&said).to_owned()
}

#[tokio::test]
async fn peek_shows_the_rows_that_the_next_tick_delivers_and_touches_nothing() {
    let (world, handler) = drained(4).await;
    assert_eq!(
        only_looks(&world, &["peek", "orders"]),
        "orders: nothing new\n"
    );
    world.writer().await.insert(5).await;
    let text = only_looks(&world, &["peek", "orders", "--rows", "4"]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert!(
        lines[1].contains("5 (5)") && lines[1].contains("{\"id\":5}"),
        "{text}"
    );
    let end = "orders: a tick would deliver 4 rows next, in batches of up to 3; there are more behind them";
    assert_eq!(lines[5], end);
    assert!(!text.contains(ROW_CANARY), "{text}");
    let shown: Value =
        serde_json::from_str(&only_looks(&world, &["peek", "orders", "--json"])).unwrap();
    assert_eq!(
        (shown["rows"].as_array().unwrap().len(), &shown["more"]),
        (5, &json!(false))
    );
    assert!(shown["rows"][0].get("data").is_none(), "{shown}");
    let with_data = only_looks(&world, &["peek", "orders", "--data"]);
    assert!(with_data.contains(ROW_CANARY), "{with_data}");
    assert_eq!(deliveries(&world), [1; 4]);

    drain(&handler).await;
    let sent = world.receiver.acknowledged_rows();
    for row in shown["rows"].as_array().unwrap() {
        let key = row["key"]["id"].as_i64().unwrap();
        assert_eq!(sent[&key], [row["id"].as_str().unwrap()], "{row}");
        assert_eq!(
            (&row["op"], &row["cursor"]),
            (&json!("upsert"), &json!(key))
        );
    }
}

#[tokio::test]
async fn peek_says_why_there_is_nothing() {
    let world = World::with_orders(json!({ "source": { "start": "now" } }))
        .await
        .rows(2)
        .await;
    let text = only_looks(&world, &["peek", "orders"]);
    assert!(text.contains("not delivered (start: now)"), "{text}");
    let handler = world.serve().await;
    drain(&handler).await;
    world.writer().await.insert(1).await;
    good(&run(&world, &["pause", "orders"]));
    assert_eq!(only_looks(&world, &["peek", "orders"]), "orders: paused\n");
    let paused = json(&run(&world, &["peek", "orders", "--json"]));
    assert_eq!(
        (&paused["ok"], &paused["nothing"]),
        (&json!(true), &json!("paused"))
    );
    let dry = only_looks(&world, &["tick", "orders", "--dry-run"]);
    assert_eq!(
        dry,
        "tick orders\n  rows  paused\n  to    webhook\ndry run: nothing was sent or changed\n"
    );
    good(&run(&world, &["resume", "orders"]));
    let other = json!({ "source": { "start": "now", "filter": "id > 0" } });
    let world = world.poller("Orders", other);
    for command in ["peek", "tick"] {
        refused(
            &run(&world, &[command, "orders"]),
            1,
            &["the source has changed", "dbtick adopt orders"],
        );
    }
    let shown = json(&run(&world, &["tick", "orders", "--json"]));
    assert_eq!(
        (&shown["ok"], &shown["outcome"]),
        (&json!(false), &json!("fingerprint_changed"))
    );
    refused(
        &run(&world, &["peek", "orders", "--rows", "0"]),
        2,
        &["1..=1000"],
    );
    refused(&run(&world, &["peek", "oders"]), 1, &["there is no poller"]);
}

#[tokio::test]
async fn a_tick_by_hand_delivers_and_commits_like_one_of_the_timer() {
    let world = World::with_orders(json!({ "batch": { "max_rows": 3 } }))
        .await
        .rows(7)
        .await;
    let dry = only_looks(&world, &["tick", "orders", "--dry-run"]);
    assert!(
        dry.contains("rows  a first batch of 3, from 1 (1) to 3 (3); further batches follow"),
        "{dry}"
    );
    let dry = json(&run(&world, &["tick", "orders", "--dry-run", "--json"]));
    assert_eq!(
        (&dry["done"], &dry["rows"], &dry["last"]),
        (&json!(false), &json!(3), &json!("3 (3)"))
    );
    assert_eq!(dry["sinks"][0]["name"], "webhook");

    let said = run_beside(&world, &["tick", "orders"]).await;
    assert_eq!(
        good(&said),
        "orders: drained; 7 rows in 3 batches committed up to 7 (7)\n"
    );
    assert_eq!(
        (world.state("orders").committed(), deliveries(&world)),
        (7, vec![1; 7])
    );
    assert_eq!(world.state("orders").document().lease.held, None);

    world.writer().await.insert(1).await;
    let line = json(&run_beside(&world, &["tick", "orders", "--json"]).await);
    for (field, expected) in [
        ("ok", json!(true)),
        ("outcome", json!("drained")),
        ("rows", json!(1)),
        ("checkpoint", json!("8 (8)")),
    ] {
        assert_eq!(line[field], expected, "{line}");
    }
    world
        .receiver
        .answer(|_, _| Answer::Say(503, None, String::new()));
    world.writer().await.insert(1).await;
    let failed = run_beside(&world, &["tick", "orders"]).await;
    refused(
        &failed,
        1,
        &["orders: delivery to webhook failed (attempt 1)", "503"],
    );
    assert_eq!(world.state("orders").committed(), 8);
    let dry = good(&run(&world, &["tick", "orders", "--dry-run"])).to_owned();
    assert!(dry.contains("to    webhook, failed 1 time(s): "), "{dry}");
}

#[tokio::test]
async fn an_interrupted_tick_finishes_its_batch_and_gives_the_lease_back() {
    let world = World::with_orders(json!({ "batch": { "max_rows": 3 } }))
        .await
        .rows(7)
        .await;
    world.receiver.answer(|_, _| Answer::WhenOpened);
    let mut child = beside(&world, &["tick", "orders"]).spawn().unwrap();
    let errors = Lines::of(child.stderr.take().unwrap());
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    world.receiver.arrived(1).await;
    kill(pid, Signal::SIGINT).unwrap();
    errors.line(&["finishing the batch in flight"]).await;
    world.receiver.open_gate();
    let output = within("the tick ends", child.wait_with_output())
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("3 rows in 1 batches committed up to 3 (3)"),
        "{said}"
    );
    assert_eq!(world.state("orders").document().lease.held, None);
    assert_eq!(world.state("orders").committed(), 3);
}

#[tokio::test]
async fn a_tick_that_is_interrupted_twice_is_left_in_the_middle_and_says_so() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    world.receiver.answer(|_, _| Answer::Never);
    let mut child = beside(&world, &["tick", "orders"]).spawn().unwrap();
    let errors = Lines::of(child.stderr.take().unwrap());
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    world.receiver.arrived(1).await;
    kill(pid, Signal::SIGINT).unwrap();
    errors.line(&["interrupt again to leave it"]).await;
    kill(pid, Signal::SIGINT).unwrap();
    let status = within("the tick ends", child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(1));
    errors
        .line(&["left in the middle", "dbtick unlock orders"])
        .await;
    assert_eq!(world.state("orders").committed(), 0);
}
