//! The number of shards changes, and no row is lost.

use std::fs;

use serde_json::{Value, json};

use super::support::command::{good, refused, run};
use super::support::receiver::{Answer, Receiver};
use super::support::world::{World, merge, poller};
use super::{all_rows, shard_of};

/// As somebody who edits function.json; the next handler reads it.
pub(super) fn deploy(world: &World, shards: Value) {
    let mut changes = json!({ "source": { "start": "now" }, "batch": { "max_rows": 5 } });
    if !shards.is_null() {
        merge(&mut changes, json!({ "shards": shards }));
    }
    let document = json!({
        "poller": poller(changes),
        "bindings": [{
            "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "0 0 0 1 1 *"
        }]
    });
    fs::create_dir_all(world.app().join("Orders")).unwrap();
    let file = world.app().join("Orders/function.json");
    fs::write(file, document.to_string()).unwrap();
}

#[tokio::test]
async fn a_changed_count_refuses_to_tick_until_the_order_is_given_and_loses_nothing() {
    let world = World::new().await;
    let mut rows = 0;
    let steps = [
        json!(null),
        json!(3),
        json!(2),
        json!(4),
        json!(3),
        json!(null),
    ];
    for (step, shards) in steps.into_iter().enumerate() {
        deploy(&world, shards.clone());
        let handler = world.serve().await;
        if step > 0 {
            // Rows that nobody may pass over while it is being parted.
            world.writer().await.insert(10).await;
            rows += 10;
            let before = world.receiver.count();
            assert_eq!(handler.tick("Orders").await.status, 500);
            handler.stdout.line(&["dbtick reshard orders"]).await;
            let preview = run(&world, &["reshard", "orders", "--dry-run"]);
            assert!(good(&preview).contains("nothing is lost"), "{preview:?}");
            let mut words = good(&preview).split_whitespace();
            let counted = words.by_ref().skip_while(|word| *word != "rows").nth(1);
            let counted: i64 = counted.unwrap().parse().unwrap();
            assert!(counted >= 10, "those of all shards: {preview:?}");
            refused(&run(&world, &["reshard", "orders"]), 2, &["--yes"]);
            let wrong = run(&world, &["reshard", "orders", "--to", "77", "--yes"]);
            refused(&wrong, 2, &["not 77"]);
            assert_eq!(handler.tick("Orders").await.status, 500);
            assert_eq!(world.receiver.count(), before, "nothing was sent");
            let done = run(&world, &["reshard", "orders", "--yes", "--reason", "more"]);
            assert!(good(&done).contains("undo: put "), "{done:?}");
            let again = run(&world, &["reshard", "orders", "--yes"]);
            assert!(good(&again).contains("nothing to change"), "{again:?}");
        }
        assert_eq!(handler.tick("Orders").await.status, 200);
        world.writer().await.insert(20).await;
        rows += 20;
        assert_eq!(handler.tick("Orders").await.status, 200);
        all_rows(&world, rows);
        let name = match &shards {
            Value::Null => "orders".to_owned(),
            count => format!("orders.0of{count}"),
        };
        assert!(world.state(&name).checkpoint().is_some());
    }
    let status = run(&world, &["status"]);
    assert!(!good(&status).contains("0of"), "{status:?}");
    let trail = world.state("orders.1of3").document().audit;
    let said: Vec<_> = trail.iter().map(|entry| &*entry.what).collect();
    assert!(said[0].starts_with("reshard, begins at"), "{said:?}");
    assert_eq!(said[1], "mark failed: resharded into 2 shards by key");
}

#[tokio::test]
async fn new_shards_begin_where_the_last_of_the_old_ones_stood() {
    let world = World::new().await;
    deploy(&world, json!(2));
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    world.writer().await.insert(40).await;
    // Of one shard nothing is taken.
    let stuck = shard_of(1, 2);
    world.receiver.answer(move |_, delivery| {
        match delivery.body["fence"]["shard"] == stuck.to_string().as_str() {
            true => Answer::Say(503, None, String::new()),
            false => Answer::Ok,
        }
    });
    assert_eq!(handler.tick("Orders").await.status, 500);
    let other = format!("orders.{}of2", 1 - stuck.index());
    let ahead = world.state(&other).document();
    assert!(world.state(&other).committed() > 30);
    deploy(&world, json!(null));
    good(&run(&world, &["reshard", "orders", "--yes"]));
    assert_eq!(
        world.state("orders").committed(),
        0,
        "where the last one stood"
    );
    let token = world.state("orders").document().lease.token;
    assert!(
        token > ahead.lease.token,
        "no fence is less than one before"
    );
    world.receiver.answer(|_, _| Answer::Ok);
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let times = all_rows(&world, 40);
    let twice = |row: &i64| shard_of(*row, 2) != stuck;
    assert!(
        times
            .iter()
            .all(|(row, n)| *n == if twice(row) { 2 } else { 1 })
    );
    let ids = world.receiver.acknowledged_rows();
    assert!(ids.values().all(|ids| ids.iter().all(|id| *id == ids[0])));
}

#[tokio::test]
async fn an_order_that_was_cut_off_is_given_again_and_nobody_ticks_in_between() {
    let world = World::new().await;
    deploy(&world, json!(null));
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    world.writer().await.insert(10).await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    deploy(&world, json!(2));
    good(&run(&world, &["reshard", "orders", "--yes"]));
    // As if it had died before the second one.
    for file in ["orders.1of2.json", "orders.1of2.born"] {
        fs::remove_file(world.path("state/state/app").join(file)).unwrap();
    }
    world.writer().await.insert(20).await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 500, "one of the two");
    good(&run(&world, &["reshard", "orders", "--yes"]));
    assert_eq!(handler.tick("Orders").await.status, 200);
    let times = all_rows(&world, 30);
    assert!(times.values().all(|times| *times <= 2), "{times:?}");
}

#[tokio::test]
async fn nothing_is_parted_while_a_lease_is_held_or_rows_are_in_quarantine() {
    let world = World::new().await;
    deploy(&world, json!(null));
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    world.writer().await.insert(3).await;
    world.receiver.answer(|_, _| Answer::WhenOpened);
    let tick = handler.tick("Orders");
    let meanwhile = async {
        world.receiver.arrived(1).await;
        deploy(&world, json!(2));
        let held = run(&world, &["reshard", "orders", "--yes"]);
        refused(&held, 1, &["the lease is held by"]);
        world.receiver.open_gate();
    };
    let (answer, ()) = tokio::join!(tick, meanwhile);
    assert_eq!(answer.status, 200);
    good(&run(&world, &["reshard", "orders", "--yes"]));

    // Back, with a row that nobody takes.
    deploy(&world, json!(2));
    world.receiver.answer(
        |_, delivery| match delivery.events().iter().any(|(row, _)| *row == 5) {
            true => Answer::Say(422, None, String::new()),
            false => Answer::Ok,
        },
    );
    world.writer().await.insert(20).await;
    let handler = world.serve().await;
    for _ in 0..8 {
        handler.tick("Orders").await;
    }
    let name = format!("orders.{}", shard_of(5, 2));
    let listed = run(&world, &["quarantine", "list", &name]);
    assert!(good(&listed).contains('5'), "{listed:?}");
    deploy(&world, json!(4));
    let refusal = run(&world, &["reshard", "orders", "--yes"]);
    refused(&refusal, 1, &["rows in quarantine"]);
}

#[tokio::test]
async fn a_checkpoint_of_one_part_is_not_adopted_for_another() {
    let world = World::new().await;
    deploy(&world, json!({ "count": 2, "column": "id" }));
    // A column that has only been renamed may be another one.
    let mut table = world.writer().await;
    table.sql("DELETE FROM orders").await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    deploy(&world, json!({ "count": 2, "column": "seq" }));
    let adopted = run(&world, &["adopt", "orders.0of2c", "--yes"]);
    refused(&adopted, 1, &["dbtick reshard"]);
}

#[tokio::test]
async fn a_receiver_that_is_behind_has_everything_after_a_reshard() {
    let world = World::new().await;
    let slow = Receiver::start().await;
    let world = world.setting("SLOW", &slow.url());
    let deploy = |shards: u16| {
        let poller = poller(json!({
            "shards": shards,
            "batch": { "max_rows": 5 },
            "commit": "required",
            "deliver": [
                { "webhook": { "url": "%HOOK%" }, "name": "fast", "required": true },
                { "webhook": { "url": "%SLOW%" }, "name": "slow", "required": false }
            ]
        }));
        let bindings = json!([{
            "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "0 0 0 1 1 *"
        }]);
        let document = json!({ "poller": poller, "bindings": bindings });
        fs::create_dir_all(world.app().join("Orders")).unwrap();
        let file = world.app().join("Orders/function.json");
        fs::write(file, document.to_string()).unwrap();
    };
    deploy(2);
    world.writer().await.insert(40).await;
    slow.answer(|_, _| Answer::Say(503, None, String::new()));
    let handler = world.serve().await;
    handler.tick("Orders").await;
    all_rows(&world, 40);
    let behind = world.state("orders.0of2").document();
    assert!(behind.sink("slow").lag.is_some());
    deploy(3);
    let without = fs::read_to_string(world.app().join("Orders/function.json")).unwrap();
    // A receiver that is taken out at the same time would be forgotten with what it lacks.
    let other = without.replace("\"slow\"", "\"other\"");
    fs::write(world.app().join("Orders/function.json"), other).unwrap();
    let refusal = run(&world, &["reshard", "orders", "--yes"]);
    refused(&refusal, 1, &["the receivers are not those"]);
    fs::write(world.app().join("Orders/function.json"), without).unwrap();
    good(&run(&world, &["reshard", "orders", "--yes"]));
    assert_eq!(world.state("orders.0of3").committed(), 0);
    slow.answer(|_, _| Answer::Ok);
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    let got = slow.acknowledged_rows();
    assert!((1..=40).all(|row| got.contains_key(&row)), "{got:?}");
}
