//! Why a row did not arrive: what is said of rows in each of the places where they can be.

use serde_json::{Value, json};

use super::support::receiver::Answer;
use super::support::world::{ROW_CANARY, World};
use super::{drain, drained, good, json, refused, run};

/// Verdict and evidence; nothing may change by asking.
#[track_caller]
fn traced(world: &World, key: &[&str]) -> (String, String, Value) {
    let before = world.state_texts();
    let said = run(world, &[&["trace", "orders"], key, &["--json"]].concat());
    good(&said);
    assert_eq!(world.state_texts(), before);
    assert!(!said.stdout.contains(ROW_CANARY), "{said:?}");
    let trail = json(&said);
    let text = |name: &str| trail["conclusion"][name].as_str().unwrap().to_owned();
    (text("verdict"), text("evidence"), trail)
}

#[track_caller]
fn check(world: &World, key: &str, verdict: &str, evidence: &str) -> Value {
    let (is, rests_on, trail) = traced(world, &[key]);
    assert_eq!((&*is, &*rests_on), (verdict, evidence), "{trail:#}");
    trail
}

#[tokio::test]
async fn a_row_is_followed_from_the_table_to_its_delivery() {
    let world = World::with_orders(json!({ "source": { "filter": "note <> 'no'" } }))
        .await
        .rows(2)
        .await;
    check(&world, "1", "pending", "inferred");
    let handler = world.serve().await;
    drain(&handler).await;
    let sent = check(&world, "1", "delivered", "inferred");
    let id = sent["rows"][0]["id"].as_str().unwrap();
    assert_eq!(world.receiver.acknowledged_rows()[&1], [id]);
    let text = good(&run(&world, &["trace", "orders", "1"])).to_owned();
    for words in [
        "orders, key 1\n  1. observed  the row is there now, at 1 (1), as event ",
        "observed  the filter lets it pass",
        "recorded  the checkpoint 2 (2) is past it",
        "recorded  no version of it is in quarantine",
        "so (inferred): it lies below the checkpoint",
        "without a new cursor value looks the same",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    check(&world, "9", "absent", "observed");
    let mut writer = world.writer().await;
    writer.insert(1).await;
    check(&world, "3", "pending", "inferred");
    writer
        .sql("UPDATE orders SET note = 'no' WHERE id = 3")
        .await;
    check(&world, "3", "filtered", "observed");
    writer
        .sql("UPDATE orders SET note = 'x' WHERE id = 3")
        .await;
    good(&run(&world, &["pause", "orders", "--reason", "moving"]));
    let trail = check(&world, "3", "halted", "recorded");
    assert!(
        trail["conclusion"]["text"]
            .as_str()
            .unwrap()
            .contains("moving"),
        "{trail}"
    );
    good(&run(&world, &["resume", "orders"]));
    let reset = [
        "reset",
        "orders",
        "--to-cursor",
        "3",
        "--to-key",
        "id=3",
        "--yes",
    ];
    good(&run(&world, &reset));
    let passed_over = check(&world, "3", "delivered", "inferred");
    let text = passed_over["conclusion"]["text"].as_str().unwrap();
    assert!(
        text.contains("passed over by hand (reset, at 2 (2) → at 3 (3)"),
        "{text}"
    );
}

#[tokio::test]
async fn a_row_at_which_a_receiver_fails_is_told_from_those_behind_it() {
    let world = World::with_orders(json!({ "batch": { "max_rows": 1 } }))
        .await
        .rows(2)
        .await;
    world
        .receiver
        .answer(|_, _| Answer::Say(500, None, "out of ink".to_owned()));
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 500);
    let trail = check(&world, "1", "failing", "recorded");
    let said = trail["statements"].to_string();
    assert!(said.contains("webhook fails at this very event"), "{said}");
    check(&world, "2", "blocked", "inferred");
}

#[tokio::test]
async fn a_row_in_quarantine_is_found_there() {
    let changes = json!({ "poison": { "attempts": 1 } });
    let world = World::with_orders(changes).await.rows(9).await;
    world.receiver.answer(
        |_, delivery| match delivery.events().iter().any(|(id, _)| *id == 4) {
            true => Answer::Say(422, None, "no".to_owned()),
            false => Answer::Ok,
        },
    );
    let handler = world.serve().await;
    for _ in 0..9 {
        handler.tick("Orders").await;
    }
    assert_eq!(world.state("orders").committed(), 9);
    let trail = check(&world, "4", "quarantined", "recorded");
    assert!(
        trail["statements"]
            .to_string()
            .contains("because webhook did not take it"),
        "{trail}"
    );
    assert!(
        !trail.to_string().contains("is not in quarantine"),
        "{trail:#}"
    );
    // The database takes it for the same key, and so does the quarantine.
    let spelled = check(&world, "004", "quarantined", "recorded");
    assert_eq!(spelled["statements"], trail["statements"]);
    check(&world, "5", "delivered", "inferred");
    let mut writer = world.writer().await;
    writer.sql("DELETE FROM orders WHERE id = 4").await;
    for spelling in ["4", "004"] {
        check(&world, spelling, "quarantined", "recorded");
    }
}

/// One of them may be the row.
#[tokio::test]
async fn objects_in_quarantine_that_cannot_be_read_are_counted_where_nothing_is_found() {
    let (world, _handler) = drained(2).await;
    let quarantine = world.path("state/objects/quarantine/app/orders/webhook");
    std::fs::create_dir_all(&quarantine).unwrap();
    for name in ["one", "other"] {
        std::fs::write(quarantine.join(name), "{").unwrap();
    }
    let said = check(&world, "1", "delivered", "inferred").to_string();
    let words = "no version of it is among what can be read in quarantine; 2 objects cannot be";
    assert!(said.contains(words), "{said}");
    assert!(!said.contains("is not in quarantine"), "{said}");
}

#[tokio::test]
async fn a_changed_source_is_not_compared_with_the_old_checkpoint() {
    let (world, _handler) = drained(4).await;
    let world = world.poller("Orders", json!({ "source": { "cursor": "id" } }));
    let trail = check(&world, "2", "stopped", "observed");
    let said = trail["statements"].to_string();
    assert!(
        said.contains("a place in another source or order"),
        "{said}"
    );
}

#[tokio::test]
async fn a_row_without_a_cursor_or_with_a_composite_key_is_found() {
    let source = json!({ "table": "lines", "cursor": "at", "key": ["a", "b"], "nulls": "ignore" });
    let world = World::with_orders(json!({ "source": source })).await;
    let mut writer = world.writer().await;
    writer.sql("CREATE TABLE lines (a INTEGER NOT NULL, b TEXT NOT NULL, at INTEGER, PRIMARY KEY (a, b))").await;
    writer
        .sql("INSERT INTO lines VALUES (-1, 'x y', 5), (1, '1', NULL)")
        .await;
    let (verdict, _, trail) = traced(&world, &["-1", "x y"]);
    assert_eq!(verdict, "pending", "{trail:#}");
    let (verdict, _, trail) = traced(&world, &["1", "1"]);
    assert_eq!(verdict, "no_cursor", "{trail:#}");
    refused(
        &run(&world, &["trace", "orders", "1"]),
        1,
        &["the key has 2 column(s), \"a\", \"b\", and 1 value(s) were given"],
    );
}

#[tokio::test]
async fn what_cannot_be_traced_says_why() {
    let (world, _handler) = drained(2).await;
    refused(&run(&world, &["trace", "orders"]), 2, &["<KEY>"]);
    let words = [
        "\"x\" is no value of the key column \"id\"",
        "as events show it",
    ];
    refused(&run(&world, &["trace", "orders", "x"]), 1, &words);
    refused(
        &run(&world, &["trace", "oders", "1"]),
        1,
        &["there is no poller"],
    );
    std::fs::remove_file(&world.state("orders").path).unwrap();
    refused(
        &run(&world, &["trace", "orders", "1"]),
        1,
        &["document is gone"],
    );
}

/// With a ledger the same questions have better answers.
#[tokio::test]
async fn a_ledger_makes_it_recorded_and_finds_what_was_passed_over() {
    let world = World::with_orders(json!({ "ledger": "full" }))
        .await
        .rows(3)
        .await;
    let handler = world.serve().await;
    drain(&handler).await;
    let trail = check(&world, "2", "delivered", "recorded");
    assert_eq!(trail["conclusion"]["text"], "it was delivered to webhook");
    let mut writer = world.writer().await;
    // Without a new cursor value: no poller can see it (A7).
    writer
        .sql("UPDATE orders SET note = 'corrected' WHERE id = 2")
        .await;
    let trail = check(&world, "2", "missing", "recorded");
    let text = trail["conclusion"]["text"].as_str().unwrap();
    assert!(text.contains("without a new cursor value"), "{text}");
    assert!(text.contains("`dbtick backfill` brings it"), "{text}");
}
