//! Pause and resume, by a person and by dbtick itself.

use std::fs;

use dbtick::clock::{Clock as _, SystemClock};
use dbtick::model::state::Status;
use dbtick::model::transitions::{Action, Applied, Operator, Order, apply};
use dbtick::tick::MOST_UNCOMMITTED;
use serde_json::json;

use super::support::handler::HandlerProcess;
use super::support::receiver::Answer;
use super::support::world::World;
use super::{deliveries, drain, drained, good, json, paste, refused, run};

/// What a tick says while it is paused.
async fn paused(handler: &HandlerProcess) {
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.logs().contains("paused"), "{answer:?}");
}

/// Something else than the command gives an order.
fn order(world: &World, who: &str, why: &str, order: Order) {
    let state = world.state("orders");
    let by = Operator {
        who: who.to_owned(),
        why: why.to_owned(),
        id: "an-order".to_owned(),
    };
    let found = state.read().unwrap();
    let action = Action::Operate { by, order };
    let Applied::Changed(next) = apply(&found.document, &action, SystemClock.now()).unwrap() else {
        panic!("{action:?} changes nothing");
    };
    let file = [found.tag.as_bytes(), b"\n", &next.to_bytes()].concat();
    fs::write(&state.path, file).unwrap();
}

#[tokio::test]
async fn a_paused_poller_delivers_nothing_until_its_undo_is_pasted() {
    let (world, handler) = drained(4).await;
    let said = run(&world, &["pause", "orders", "--reason", "moving\nthe hook"]);
    let text = good(&said).to_owned();
    assert!(text.contains("from  active at 4 (4), version 2"), "{text}");
    assert!(text.contains("done: orders is paused"), "{text}");
    let document = world.state("orders").document();
    assert_eq!(document.status, Status::Paused);
    let entry = document.audit.last().unwrap();
    assert!(entry.who.starts_with("ada@"), "{entry:?}");
    assert_eq!((&*entry.what, &*entry.why), ("pause", "moving the hook"));

    world.writer().await.insert(2).await;
    paused(&handler).await;
    assert_eq!(deliveries(&world), [1; 4]);
    let check = run(&world, &["check"]);
    let line = good(&check)
        .lines()
        .find(|line| line.starts_with("WARN  orders  status: paused since "));
    let line = line.unwrap_or_else(|| panic!("{}", check.stdout));
    for words in ["by ada@", ": moving the hook;", "`dbtick resume orders`"] {
        assert!(line.contains(words), "{line}");
    }

    let undo = text.lines().find_map(|line| line.strip_prefix("undo: "));
    assert_eq!(undo, Some("dbtick resume orders"));
    let resumed = paste(&world, undo.unwrap());
    let resumed = good(&resumed);
    let why = resumed.lines().nth(1).unwrap();
    assert!(why.starts_with("  from  paused since "), "{resumed}");
    assert!(why.ends_with(": moving the hook"), "{resumed}");
    assert!(resumed.contains("rows  2 rows to deliver"), "{resumed}");
    assert!(resumed.contains("undo: dbtick pause orders"), "{resumed}");
    drain(&handler).await;
    assert_eq!(deliveries(&world), [1; 6]);
    assert!(!good(&run(&world, &["check"])).contains("status:"));
    let trail = run(&world, &["history", "orders"]);
    for words in ["pause (moving the hook)", "resume (no reason given)"] {
        assert!(good(&trail).contains(words), "{trail:?}");
    }
}

#[tokio::test]
async fn a_pause_or_resume_that_is_repeated_or_only_tried_changes_nothing() {
    let (world, _handler) = drained(4).await;
    let tag = || world.state("orders").read().unwrap().tag;
    let changes_nothing = |arguments: &[&str], words: &str| {
        let before = tag();
        let said = run(&world, arguments);
        assert!(good(&said).contains(words), "{said:?}");
        assert_eq!(tag(), before, "{arguments:?}");
        said
    };
    let dry = "dry run: nothing was changed";
    changes_nothing(&["pause", "orders", "--dry-run"], dry);
    let nothing = "there was nothing to change: orders is not paused";
    let said = changes_nothing(&["resume", "orders"], nothing);
    assert!(!said.stdout.contains("undo:"), "{said:?}");

    let paused = json(&run(&world, &["pause", "orders", "--json"]));
    let undo = json!("dbtick resume orders");
    assert_eq!(
        [&paused["done"], &paused["changed"], &paused["undo"]],
        [&json!(true), &json!(true), &undo]
    );
    let nothing = "there was nothing to change: orders is paused since ";
    changes_nothing(&["pause", "orders", "--reason", "again"], nothing);
    changes_nothing(&["resume", "orders", "--dry-run"], dry);
    let again = changes_nothing(&["pause", "orders", "--json"], "\"ok\":true");
    let again = json(&again);
    assert_eq!(
        (&again["changed"], &again["undo"]),
        (&json!(false), &json!(null))
    );
    let dry = json(&run(&world, &["resume", "orders", "--dry-run", "--json"]));
    assert_eq!(
        (&dry["what"], &dry["done"]),
        (&json!("resume"), &json!(false))
    );
    assert_eq!(world.state("orders").document().audit.len(), 1);
}

#[tokio::test]
async fn a_pause_takes_effect_after_the_batches_on_their_way() {
    let batch = json!({ "batch": { "max_rows": 3 } });
    let world = World::with_orders(batch).await.rows(300).await;
    world.receiver.answer(|_, _| Answer::WhenOpened);
    let handler = world.serve().await;
    let meanwhile = async {
        world.receiver.arrived(1).await;
        let said = run(&world, &["pause", "orders"]);
        let note = format!("worker-{} works on it now", handler.port);
        assert!(good(&said).contains(&note), "{said:?}");
        world.receiver.open_gate();
    };
    let (answer, ()) = tokio::join!(handler.tick("Orders"), meanwhile);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.logs().contains("paused"), "{answer:?}");
    let committed = world.state("orders").committed();
    assert_eq!(deliveries(&world), vec![1; committed as usize]);
    let uncommitted = 3 * (MOST_UNCOMMITTED as i64 + 1);
    assert!((3..=3 + uncommitted).contains(&committed), "{committed}");
    paused(&handler).await;
    good(&run(&world, &["resume", "orders"]));
    drain(&handler).await;
    assert_eq!(deliveries(&world), [1; 300]);
}

#[tokio::test]
async fn what_dbtick_has_paused_says_why_before_it_goes_on() {
    let (world, handler) = drained(4).await;
    order(&world, "dbtick", "webhook answered 410 Gone", Order::Pause);
    paused(&handler).await;
    let why = "by dbtick: webhook answered 410 Gone";
    assert!(good(&run(&world, &["check"])).contains(why));
    let said = run(&world, &["resume", "orders"]);
    let first = good(&said).lines().nth(1).unwrap();
    assert!(
        first.starts_with("  from  paused since ") && first.ends_with(why),
        "{said:?}"
    );
    drain(&handler).await;
}

#[tokio::test]
async fn what_cannot_be_paused_or_resumed_says_the_way_out() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    for verb in ["pause", "resume"] {
        let expect = format!("orders has not run yet, so there is nothing to {verb}");
        let said = run(&world, &[verb, "orders"]);
        refused(&said, 1, &[&expect, "disable its function"]);
        assert!(!world.state("orders").path.exists());
        let unknown = run(&world, &[verb, "oders"]);
        refused(&unknown, 1, &["there is no poller \"oders\" in this app"]);
    }
    let handler = world.serve().await;
    drain(&handler).await;
    let long = "x".repeat(501);
    let said = run(&world, &["pause", "orders", "--reason", &long]);
    refused(&said, 2, &["--reason is longer than 500 characters"]);

    order(&world, "ada@ship", "looks wrong", Order::Fail);
    for verb in ["pause", "resume"] {
        let words = [
            "marked failed since ",
            "by ada@ship: looks wrong",
            "dbtick reset orders",
        ];
        refused(&run(&world, &[verb, "orders"]), 1, &words);
        let json = json(&run(&world, &[verb, "orders", "--json"]));
        assert_eq!(json["ok"], false);
    }
    let check = run(&world, &["check"]);
    assert_eq!(check.code, Some(1), "{check:?}");
    let failed = "FAIL  orders  status: marked failed since ";
    assert!(check.stdout.contains(failed), "{check:?}");
    assert!(
        check.stdout.contains("by ada@ship: looks wrong"),
        "{check:?}"
    );
    good(&run(
        &world,
        &["reset", "orders", "--to", "beginning", "--yes"],
    ));

    fs::remove_file(&world.state("orders").path).unwrap();
    let gone = run(&world, &["pause", "orders"]);
    refused(
        &gone,
        1,
        &["document is gone", "dbtick state import orders FILE"],
    );
}
