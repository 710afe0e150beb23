//! `dbtick reconcile`: what is in the source and was never delivered, and how well that is known (F6).

use serde_json::{Value, json};

use crate::support::command::{good, json as parsed, refused, run};
use crate::support::receiver::{Answer, Delivery};
use crate::support::world::World;
use crate::{backfill, drained};

fn reconcile(world: &World, arguments: &[&str]) -> Value {
    let said = run(
        world,
        &[&["reconcile", "orders", "--json"], arguments].concat(),
    );
    let object = parsed(&said);
    let missing = object["missing"].as_u64().unwrap_or(0);
    assert_eq!(said.code, Some(i32::from(missing > 0)), "{said:?}");
    object
}

fn full() -> Value {
    json!({ "ledger": "full" })
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_ledger_what_is_missing_is_named_and_sent() {
    let (world, handler) = drained(30, full()).await;
    let told = reconcile(&world, &[]);
    assert_eq!(told["verdict"], "exact");
    assert_eq!(
        (&told["total"], &told["delivered"]),
        (&json!(30), &json!(30))
    );

    let mut writer = world.writer().await;
    writer
        .sql("INSERT INTO orders VALUES (999, 0, 'late')")
        .await;
    writer
        .sql("UPDATE orders SET note = 'in place' WHERE id = 7")
        .await;
    let told = reconcile(&world, &[]);
    assert_eq!(told["missing"], 2);
    let rows = told["rows"].as_array().unwrap();
    let places: Vec<&str> = rows
        .iter()
        .map(|row| row["position"].as_str().unwrap())
        .collect();
    assert_eq!(places, ["0 (999)", "7 (7)"]);
    assert_eq!(rows[0]["receivers"], json!(["webhook"]));
    let part = reconcile(&world, &["--from", "1", "--to", "6"]);
    assert_eq!((&part["total"], &part["missing"]), (&json!(6), &json!(0)));
    let shown = run(&world, &["reconcile", "orders", "--show", "1"]);
    assert_eq!(shown.code, Some(1));
    assert!(shown.stdout.contains("0 (999)  for webhook"), "{shown:?}");
    assert!(shown.stdout.contains("and 1 more"), "{shown:?}");
    assert!(shown.stderr.contains("--redeliver"), "{shown:?}");

    let checkpoint = world.state("orders").committed();
    let unsure = run(&world, &["reconcile", "orders", "--redeliver"]);
    refused(&unsure, 2, &["--yes", "nothing was changed"]);
    let sent = run(&world, &["reconcile", "orders", "--redeliver", "--yes"]);
    assert!(good(&sent).contains("2 delivered"), "{sent:?}");
    let came = world.receiver.deliveries().last().unwrap().events();
    let ids: Vec<&Value> = rows.iter().map(|row| &row["event_id"]).collect();
    assert_eq!(ids, [&json!(came[0].1), &json!(came[1].1)]);
    assert_eq!(world.state("orders").committed(), checkpoint);
    let document = world.state("orders").document();
    assert!(document.audit.last().unwrap().what.contains("redeliver 2"));
    assert_eq!(reconcile(&world, &[])["missing"], 0, "it is written down");
    assert_eq!(handler.tick("Orders").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_takes_nothing_is_told_and_the_rows_stay_missing() {
    let (world, _handler) = drained(10, full()).await;
    world
        .writer()
        .await
        .sql("INSERT INTO orders VALUES (999, 0, 'late')")
        .await;
    world
        .receiver
        .answer(|_, _: &Delivery| Answer::Say(500, None, String::new()));
    let sent = run(&world, &["reconcile", "orders", "--redeliver", "--yes"]);
    refused(&sent, 1, &["1 not taken"]);
    world.receiver.answer(|_, _| Answer::Ok);
    assert_eq!(reconcile(&world, &[])["missing"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_older_than_the_ledger_is_undecided() {
    let (world, first) = drained(10, json!({})).await;
    drop(first);
    let world = world.poller("Orders", crate::changes(full()));
    world.writer().await.insert(5).await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let told = reconcile(&world, &[]);
    assert_eq!(told["verdict"], "exact");
    assert_eq!(
        (&told["total"], &told["delivered"], &told["undecided"]),
        (&json!(15), &json!(5), &json!(10))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_were_passed_over_are_missing_until_a_backfill_has_brought_them() {
    let (world, handler) = drained(10, full()).await;
    world.writer().await.insert(10).await;
    let jump = [
        "reset",
        "orders",
        "--to-cursor",
        "15",
        "--to-key",
        "id=15",
        "--yes",
    ];
    good(&run(&world, &jump));
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(reconcile(&world, &[])["missing"], 5);
    let said = backfill(&world, &["--from", "11", "--to", "15"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let told = reconcile(&world, &[]);
    assert_eq!(
        (&told["missing"], &told["delivered"]),
        (&json!(0), &json!(20))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_set_aside_is_not_missing() {
    let (world, handler) = drained(5, full()).await;
    world.receiver.answer(|_, delivery| {
        let failed: Vec<Value> = delivery
            .events()
            .into_iter()
            .filter(|(row, _)| *row == 7)
            .map(|(_, id)| json!({ "id": id, "reason": "no customer", "retry": false }))
            .collect();
        match failed.is_empty() {
            true => Answer::Ok,
            false => Answer::Say(200, None, json!({ "failed": failed }).to_string()),
        }
    });
    world.writer().await.insert(5).await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let told = reconcile(&world, &[]);
    assert_eq!(
        (&told["delivered"], &told["quarantined"], &told["missing"]),
        (&json!(9), &json!(1), &json!(0))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_ledger_rows_are_counted_and_no_more_is_said() {
    let (world, handler) = drained(25, json!({})).await;
    let told = reconcile(&world, &[]);
    assert_eq!(told["verdict"], "counted");
    assert_eq!(
        (&told["committed"], &told["in_source"]),
        (&json!(25), &json!(25))
    );
    let shown = run(&world, &["reconcile", "orders"]);
    assert!(good(&shown).contains("as many as there are"), "{shown:?}");

    let mut writer = world.writer().await;
    writer
        .sql("INSERT INTO orders VALUES (999, 0, 'late')")
        .await;
    let shown = run(&world, &["reconcile", "orders"]);
    assert!(good(&shown).contains("fewer than there are"), "{shown:?}");
    let sent = run(&world, &["reconcile", "orders", "--redeliver", "--yes"]);
    refused(&sent, 1, &["nothing was sent", "dbtick backfill"]);

    writer.sql("DELETE FROM orders WHERE id IN (3, 999)").await;
    let shown = run(&world, &["reconcile", "orders"]);
    assert!(good(&shown).contains("more than there are"), "{shown:?}");
    let part = reconcile(&world, &["--from", "5"]);
    assert_eq!(part["verdict"], "undecided");
    assert_eq!(handler.tick("Orders").await.status, 200);
}
