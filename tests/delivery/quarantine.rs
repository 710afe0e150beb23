//! `dbtick quarantine`, from the command line: list, show, redrive, discard (D8, F3).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::support::azurite::Azurite;
use crate::support::command::{Said, good, json as parsed, paste, refused, run};
use crate::support::handler::HandlerProcess;
use crate::support::receiver::{Answer, Delivery};
use crate::support::world::World;
use crate::{filled, hasty, quarantined, until_quiet};

const ROWS: i64 = 6;

/// Rows that are not taken; all that come, and in which order, is written down by the receiver.
fn refuse(world: &World, rows: &[i64]) {
    let bad: Arc<BTreeSet<i64>> = Arc::new(rows.iter().copied().collect());
    world.receiver.answer(move |_, delivery: &Delivery| {
        let failed: Vec<Value> = delivery
            .events()
            .into_iter()
            .filter(|(row, _)| bad.contains(row))
            .map(|(row, id)| json!({ "id": id, "reason": format!("no customer in row {row}"), "retry": false }))
            .collect();
        match failed.is_empty() {
            true => Answer::Ok,
            false => Answer::Say(200, None, json!({ "failed": failed }).to_string()),
        }
    });
}

/// A poller that has set these rows aside, and delivered the others.
async fn with_aside(world: World, rows: &[i64]) -> (World, HandlerProcess) {
    filled(&world, ROWS).await;
    refuse(&world, rows);
    let handler = world.serve().await;
    until_quiet(&handler).await;
    let aside: Vec<i64> = quarantined(&world).into_keys().collect();
    assert_eq!(aside, rows);
    (world, handler)
}

async fn world_with_aside(rows: &[i64]) -> (World, HandlerProcess) {
    with_aside(World::with_orders(hasty(json!({}))).await, rows).await
}

fn quarantine(world: &World, arguments: &[&str]) -> Said {
    let mut all = vec!["quarantine", arguments[0], "orders"];
    all.extend(&arguments[1..]);
    run(world, &all)
}

fn id_of(world: &World, row: i64) -> String {
    let list = parsed(&quarantine(world, &["list", "--json"]));
    let rows = list["rows"].as_array().unwrap();
    let found = rows.iter().find(|it| it["key"]["id"] == row).unwrap();
    found["event_id"].as_str().unwrap().to_owned()
}

fn is_empty(world: &World) -> bool {
    quarantined(world).is_empty()
}

/// The events that arrived last.
fn last_delivery(world: &World) -> Value {
    world.receiver.deliveries().last().unwrap().body["events"].clone()
}

/// The whole road, on any store.
async fn a_row_goes_to_quarantine_and_back(world: World) {
    let (world, handler) = with_aside(world, &[2]).await;
    let id = id_of(&world, 2);
    let list = quarantine(&world, &["list"]);
    for words in [
        &id,
        r#"{"id":2}"#,
        "webhook",
        "no customer in row 2",
        "1 row",
    ] {
        assert!(good(&list).contains(words), "{words}: {list:?}");
    }
    let event = &quarantined(&world)[&2];
    assert_eq!(
        event["data"],
        json!({ "id": 2, "seq": 2, "note": "order 2" })
    );
    let first = &world.receiver.deliveries()[0].body["events"][1];
    assert_eq!(event, first, "what was sent is what is kept");
    let shown = quarantine(&world, &["show", &id[..6]]);
    let shown = good(&shown);
    assert!(shown.contains("no customer in row 2"), "{shown}");
    let event = shown.lines().find(|line| line.starts_with('{')).unwrap();
    let sent = &world.receiver.deliveries()[0].text;
    assert!(sent.contains(event), "byte for byte: {event} in {sent}");
    let redrive = shown
        .lines()
        .find_map(|line| line.strip_prefix("send it again: "))
        .unwrap_or_else(|| panic!("{shown}"))
        .to_owned();

    let before = world.receiver.count();
    refused(&paste(&world, &redrive), 2, &["say --yes to do it"]);
    let dry = quarantine(&world, &["redrive", &id, "--dry-run"]);
    assert!(
        good(&dry).contains("dry run: nothing was changed"),
        "{dry:?}"
    );
    assert_eq!(world.receiver.count(), before, "nothing was sent");

    let history = || good(&run(&world, &["history", "orders", "--json"])).to_owned();
    let checkpoints = |history: &str| {
        let history: Value = serde_json::from_str(history).unwrap();
        let kept = history["history"].as_array().unwrap().clone();
        assert!(!kept.is_empty());
        kept
    };
    let before = checkpoints(&history());
    let again = paste(&world, &format!("{redrive} --yes"));
    refused(&again, 1, &["1 row stays in quarantine"]);
    assert!(again.stdout.contains("no customer in row 2"), "{again:?}");
    assert!(!is_empty(&world));

    refuse(&world, &[]);
    let sent = paste(&world, &format!("{redrive} --yes --reason 'customer made'"));
    assert!(good(&sent).contains("1 delivered"), "{sent:?}");
    assert_eq!(
        last_delivery(&world)[0],
        *first,
        "the same event, with the same id"
    );
    assert!(is_empty(&world));
    let none = quarantine(&world, &["list"]);
    assert_eq!(good(&none), "orders has no row in quarantine\n");
    let after = history();
    assert_eq!(checkpoints(&after), before, "the checkpoint is not touched");
    for words in ["redrive", &id, "customer made", "ada@"] {
        assert!(after.contains(words), "{words}: {after}");
    }
    until_quiet(&handler).await;
    assert_eq!(
        last_delivery(&world)[0],
        *first,
        "and it does not come again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_goes_to_quarantine_and_back_in_files() {
    a_row_goes_to_quarantine_and_back(World::with_orders(hasty(json!({}))).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_goes_to_quarantine_and_back_in_a_table() {
    let state = json!({ "kind": "sql", "connection": "STATE_DB" });
    let world = World::with_orders(hasty(json!({ "state": state }))).await;
    let database = format!("sqlite:{}", world.path("state.db").display());
    a_row_goes_to_quarantine_and_back(world.setting("STATE_DB", &database)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_goes_to_quarantine_and_back_in_blobs() {
    let azurite = Azurite::blob();
    let world = World::with_orders(hasty(json!({
        "state": { "kind": "blob", "connection": "STORAGE" },
        "lease": { "ttl": "5s", "heartbeat": "1s", "margin": "2s" }
    })))
    .await
    .setting("STORAGE", &azurite.connection_string());
    a_row_goes_to_quarantine_and_back(world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_has_changed_is_not_sent_in_its_old_version_unless_told() {
    let (world, handler) = world_with_aside(&[2, 5]).await;
    let (old, gone) = (id_of(&world, 2), id_of(&world, 5));
    refuse(&world, &[]);
    let mut writer = world.writer().await;
    writer
        .sql("UPDATE orders SET note = 'mended', seq = 100 WHERE id = 2")
        .await;
    writer.sql("DELETE FROM orders WHERE id = 5").await;
    until_quiet(&handler).await;
    assert_eq!(last_delivery(&world)[0]["data"]["note"], "mended");
    let before = world.receiver.count();

    let said = quarantine(&world, &["redrive", "--all", "--yes", "--json"]);
    good(&said);
    let said = parsed(&said);
    assert_eq!(
        [&said["ok"], &said["superseded"], &said["delivered"]],
        [&json!(true), &json!(2), &json!(0)]
    );
    assert_eq!(world.receiver.count(), before, "neither was sent");
    let list = quarantine(&world, &["list"]);
    assert_eq!(good(&list).matches("superseded").count(), 2, "{list:?}");
    assert!(good(&quarantine(&world, &["show", &old])).contains("--as-is"));

    let said = quarantine(&world, &["redrive", &old, "--as-is", "--yes"]);
    assert!(good(&said).contains("1 delivered"), "{said:?}");
    let sent = last_delivery(&world);
    assert_eq!(
        (&sent[0]["id"], &sent[0]["data"]["note"]),
        (&json!(old), &json!("order 2"))
    );

    let said = quarantine(&world, &["redrive", &gone, "--as-is", "--new-ids", "--yes"]);
    assert!(good(&said).contains("1 delivered"), "{said:?}");
    let sent = last_delivery(&world);
    assert_eq!(sent[0]["key"], json!({ "id": 5 }));
    assert_ne!(sent[0]["id"], json!(gone), "a receiver cannot know it");
    assert!(is_empty(&world));
    let nothing: Vec<String> = world
        .state_texts()
        .into_iter()
        .filter(|text| text == "{}")
        .collect();
    assert!(nothing.is_empty(), "no marker is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_discarded_is_gone_and_who_did_it_is_known() {
    let (world, handler) = world_with_aside(&[2, 5]).await;
    let (two, five) = (id_of(&world, 2), id_of(&world, 5));
    refused(
        &quarantine(&world, &["discard", &two]),
        2,
        &["say --yes to do it"],
    );
    let dry = quarantine(&world, &["discard", "--all", "--dry-run", "--json"]);
    good(&dry);
    assert_eq!(parsed(&dry)["done"], false);
    assert_eq!(quarantined(&world).len(), 2);

    let said = quarantine(
        &world,
        &["discard", &two, "--yes", "--reason", "a test order"],
    );
    assert!(good(&said).contains("no undo"), "{said:?}");
    assert!(good(&said).contains("1 row discarded"), "{said:?}");
    assert_eq!(quarantined(&world).into_keys().collect::<Vec<_>>(), [5]);
    let history = run(&world, &["history", "orders"]);
    for words in ["discard", &two, "a test order", "ada@"] {
        assert!(good(&history).contains(words), "{words}: {history:?}");
    }
    let said = quarantine(&world, &["discard", &five, "--yes", "--json"]);
    good(&said);
    assert_eq!(parsed(&said)["discarded"], 1);
    assert!(is_empty(&world));
    refuse(&world, &[]);
    until_quiet(&handler).await;
    assert_eq!(world.receiver.deliveries().len(), 1, "nothing comes again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_begins_those_of_several_events_touches_none_of_them() {
    // Of seventeen ids, two begin with the same digit.
    let most = json!({ "poison": { "most": 20 } });
    let world = World::with_orders(hasty(most)).await;
    filled(&world, 20).await;
    refuse(&world, &(1..=17).collect::<Vec<_>>());
    let handler = world.serve().await;
    until_quiet(&handler).await;
    let ids: Vec<String> = (1..=17).map(|row| id_of(&world, row)).collect();
    let first = |id: &&String| ids.iter().filter(|other| other[..1] == id[..1]).count() > 1;
    let shared = &ids.iter().find(first).unwrap()[..1];
    for (verb, yes) in [
        ("show", None),
        ("redrive", Some("--yes")),
        ("discard", Some("--yes")),
    ] {
        let arguments: Vec<&str> = [Some(verb), Some(shared), yes]
            .into_iter()
            .flatten()
            .collect();
        let words = ["begins the ids of several events", "write more of it"];
        refused(&quarantine(&world, &arguments), 1, &words);
    }
    assert_eq!(quarantined(&world).len(), 17);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_sent_again_says_why_and_the_way_out() {
    let world = World::with_orders(hasty(json!({}))).await;
    let none = quarantine(&world, &["list"]);
    assert_eq!(good(&none), "orders has no row in quarantine\n");
    for verb in ["redrive", "discard"] {
        let said = quarantine(&world, &[verb, "--all", "--yes"]);
        refused(&said, 1, &["orders has no row in quarantine"]);
        refused(
            &quarantine(&world, &[verb, "--yes"]),
            2,
            &["--all", "EVENT"],
        );
    }
    let (world, handler) = with_aside(world, &[2, 5]).await;
    let id = id_of(&world, 2);
    for verb in ["show", "redrive", "discard"] {
        let yes: &[&str] = if verb == "show" { &[] } else { &["--yes"] };
        let unknown = [&[verb, "zz"], yes].concat();
        let words = ["begins with \"zz\"", "dbtick quarantine list orders"];
        refused(&quarantine(&world, &unknown), 1, &words);
        let nothing = [&[verb, ""], yes].concat();
        refused(&quarantine(&world, &nothing), 1, &["quarantine list"]);
    }
    // One JSON object, whatever happens.
    let failed = quarantine(&world, &["redrive", &id, "--yes", "--json"]);
    refused(&failed, 1, &["1 row stays in quarantine"]);
    let failed = parsed(&failed);
    assert_eq!(
        (&failed["ok"], &failed["failed"]),
        (&json!(false), &json!(1))
    );
    assert_eq!(failed["rows"][0]["reason"], "no customer in row 2");

    good(&run(&world, &["pause", "orders"]));
    let paused = quarantine(&world, &["redrive", &id, "--yes"]);
    refused(&paused, 1, &["paused", "dbtick resume orders"]);
    good(&run(&world, &["resume", "orders"]));

    world.receiver.answer(|_, _| Answer::WhenOpened);
    filled(&world, 1).await;
    let before = world.receiver.count();
    let (answer, ()) = tokio::join!(handler.tick("Orders"), async {
        world.receiver.arrived(before + 1).await;
        let held = quarantine(&world, &["redrive", &id, "--yes"]);
        let owner = format!("worker-{}", handler.port);
        refused(&held, 1, &[&owner, "at work on this poller", "try again"]);
        world.receiver.open_gate();
    });
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(quarantined(&world).len(), 2);
}
