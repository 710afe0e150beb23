//! Rollback, reset and clone of a healthy poller.

use std::process::Command;

use serde_json::json;

use super::support::handler::BINARY;
use super::support::receiver::Answer;
use super::support::world::World;
use super::{deliveries, drain, drained, good, json, paste, refused, run, said};

#[tokio::test]
async fn the_history_shows_each_kept_checkpoint_and_its_schema() {
    let (world, _handler) = drained(8).await;
    let shown = run(&world, &["history", "orders"]);
    let lines: Vec<_> = good(&shown).lines().collect();
    assert!(lines[0].contains("version") && lines[0].contains("checkpoint"));
    assert!(
        lines[3].contains("8 (8)") && lines[3].contains("now"),
        "{lines:?}"
    );
    let shown = json(&run(&world, &["history", "orders", "--json"]));
    assert_eq!(shown["version"], 3);
    let history = shown["history"].as_array().unwrap();
    assert_eq!(history.len(), 3);
    assert_eq!(history[1]["checkpoint"], "6 (6)");
    assert_eq!(
        (&history[1]["rows"], &history[1]["total_rows"]),
        (&json!(3), &json!(6))
    );
    assert!(history[1]["schema"].as_str().unwrap().len() == 16);

    let schema = run(&world, &["history", "orders", "--schema", "2"]);
    assert_eq!(
        good(&schema),
        "id INTEGER (key)\nseq INTEGER (cursor)\nnote TEXT\n"
    );
    refused(
        &run(&world, &["history", "orders", "--schema", "99"]),
        1,
        &["version 99 is not kept; kept are 1, 2, 3"],
    );
}

#[tokio::test]
async fn a_rollback_brings_rows_again_and_its_undo_can_be_pasted() {
    let (world, handler) = drained(8).await;
    let rollback = [
        "rollback",
        "orders",
        "--to",
        "1",
        "--yes",
        "--reason",
        "a bug's replay",
    ];
    let moved = run(&world, &rollback);
    let text = good(&moved).to_owned();
    assert!(text.contains("from  8 (8), version 3"), "{text}");
    assert!(text.contains("to    3 (3), as of version 1"), "{text}");
    assert!(text.contains("rows  5 rows come again"), "{text}");
    let document = world.state("orders").document();
    assert_eq!(world.state("orders").committed(), 3);
    let audit = &document.audit[0];
    assert!(
        audit.who.starts_with("ada@") && audit.why == "a bug's replay",
        "{audit:?}"
    );

    let undo = text
        .lines()
        .find_map(|line| line.strip_prefix("undo: "))
        .unwrap();
    good(&paste(&world, undo));
    assert_eq!(world.state("orders").committed(), 8);
    drain(&handler).await;
    assert_eq!(
        deliveries(&world),
        [1; 8],
        "undone before a tick: nothing came again"
    );

    good(&run(&world, &rollback));
    drain(&handler).await;
    assert_eq!(deliveries(&world), [1, 1, 1, 2, 2, 2, 2, 2]);
    assert_eq!(world.state("orders").committed(), 8);
}

#[tokio::test]
async fn an_undo_works_after_many_commits_and_from_elsewhere() {
    let (world, handler) = drained(8).await;
    let app = world.app().display().to_string();
    let mut command = Command::new(BINARY);
    command.args([
        "reset",
        "orders",
        "--to",
        "beginning",
        "--yes",
        "--app",
        &app,
    ]);
    let moved = said(&world, command, "");
    let undo = good(&moved)
        .lines()
        .find_map(|line| line.strip_prefix("undo: "));
    let undo = undo.unwrap().to_owned();
    assert!(undo.contains(&app), "{undo}");
    world.writer().await.insert(60).await;
    drain(&handler).await;
    let undone = paste(&world, &format!("cd / && {undo}"));
    assert!(good(&undone).contains("60 rows come again"), "{undone:?}");
    assert_eq!(world.state("orders").committed(), 8);
}

#[tokio::test]
async fn without_a_terminal_and_without_yes_nothing_is_changed() {
    let (world, _handler) = drained(4).await;
    let before = world.state("orders").read().unwrap().tag;
    for arguments in [
        &["rollback", "orders", "--to", "1"][..],
        &["reset", "orders", "--to", "beginning"],
        &["clone", "orders", "--as", "copy"],
        &["adopt", "orders"],
    ] {
        refused(
            &run(&world, arguments),
            2,
            &["--yes", "--dry-run", "nothing was changed"],
        );
        let dry = run(&world, &[arguments, &["--dry-run"]].concat());
        assert!(
            good(&dry).contains("dry run: nothing was changed"),
            "{dry:?}"
        );
        let dry = json(&run(
            &world,
            &[arguments, &["--dry-run", "--json"]].concat(),
        ));
        assert_eq!((&dry["ok"], &dry["done"]), (&json!(true), &json!(false)));
    }
    assert_eq!(world.state("orders").read().unwrap().tag, before);
    assert!(!world.state("copy").path.exists());
}

#[tokio::test]
async fn the_name_typed_on_a_terminal_is_the_confirmation() {
    let (world, _handler) = drained(4).await;
    let on_a_terminal = |typed: &str| {
        let mut command = Command::new("/usr/bin/script");
        let line = format!("{BINARY} reset orders --to beginning");
        command.args(["-qec", &line, "/dev/null"]);
        said(&world, command, typed)
    };
    let wrong = on_a_terminal("yes\n");
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stdout.contains("type orders to go on"), "{wrong:?}");
    assert_eq!(world.state("orders").committed(), 4);
    let right = on_a_terminal("orders\n");
    assert_eq!(right.code, Some(0), "{right:?}");
    assert_eq!(world.state("orders").committed(), 0);
}

#[tokio::test]
async fn nothing_is_moved_while_a_tick_works() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    world.receiver.answer(|_, _| Answer::WhenOpened);
    let handler = world.serve().await;
    let meanwhile = async {
        world.receiver.arrived(1).await;
        for arguments in [
            &["reset", "orders", "--to", "beginning", "--yes"][..],
            &["reset", "orders", "--to", "beginning", "--yes", "--json"],
        ] {
            let held = run(&world, arguments);
            let owner = format!("worker-{}", handler.port);
            refused(&held, 1, &["the lease is held by", &owner, "wait"]);
        }
        world.receiver.open_gate();
    };
    let (answer, ()) = tokio::join!(handler.tick("Orders"), meanwhile);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(world.state("orders").committed(), 2);
    good(&run(
        &world,
        &["reset", "orders", "--to", "beginning", "--yes"],
    ));
    drain(&handler).await;
    assert_eq!(deliveries(&world), [2, 2]);
}

/// Resets from outside against ticks of two processes: whatever the order, every row comes.
#[tokio::test]
async fn orders_and_ticks_race_and_no_row_is_lost() {
    let (world, handler) = drained(9).await;
    let other = world.serve().await;
    for round in 0..5 {
        world.writer().await.insert(4).await;
        let resets = async {
            let said = run(&world, &["reset", "orders", "--to", "beginning", "--yes"]);
            let fine = said.code == Some(0) || said.stderr.contains("held by");
            assert!(fine, "round {round}: {said:?}");
        };
        let (a, b, ()) = tokio::join!(handler.tick("Orders"), other.tick("Orders"), resets);
        assert!(a.status == 200 && b.status == 200, "{a:?} {b:?}");
    }
    drain(&handler).await;
    assert_eq!(world.state("orders").committed(), 29);
    assert_eq!(deliveries(&world).len(), 29);
}

#[tokio::test]
async fn a_reset_to_a_cursor_and_key_goes_either_way() {
    let (world, handler) = drained(8).await;
    let to = |cursor: &str, key: &str| {
        let arguments = [
            "reset",
            "orders",
            "--to-cursor",
            cursor,
            "--to-key",
            key,
            "--yes",
            "--json",
        ];
        run(&world, &arguments)
    };
    let moved = json(&to("5", "id=5"));
    assert_eq!(moved["rows"]["kind"], "again");
    assert_eq!(
        (&moved["rows"]["count"], &moved["rows"]["exact"]),
        (&json!(3), &json!(true))
    );
    assert_eq!(moved["checkpoint"], "5 (5)");
    drain(&handler).await;
    assert_eq!(deliveries(&world), [1, 1, 1, 1, 1, 2, 2, 2]);

    world.writer().await.insert(2).await;
    let moved = json(&to("9", "id=9"));
    assert_eq!(
        moved["rows"]["text"],
        "1 row is passed over and never delivered"
    );
    drain(&handler).await;
    assert!(!world.receiver.acknowledged_rows().contains_key(&9));

    for (cursor, key, words) in [
        ("nine", "id=9", "expected an integer, found \"nine\""),
        ("9", "nr=9", "the key of this poller is written id=…"),
    ] {
        refused(&to(cursor, key), 2, &[words]);
    }
    for arguments in [
        &["reset", "orders"][..],
        &["reset", "orders", "--to", "end"],
        &["reset", "orders", "--to-cursor", "5"],
        &[
            "reset",
            "orders",
            "--to",
            "beginning",
            "--to-cursor",
            "5",
            "--to-key",
            "id=5",
        ],
        &[
            "reset",
            "orders",
            "--to-cursor",
            "5",
            "--to-cursor",
            "6",
            "--to-key",
            "id=5",
            "--yes",
        ],
        &["rollback", "orders"],
        &["clone", "orders"],
    ] {
        assert_eq!(run(&world, arguments).code, Some(2), "{arguments:?}");
    }
    refused(
        &run(&world, &["reset", "oders", "--to", "beginning"]),
        1,
        &["there is no poller \"oders\" in this app; there is orders"],
    );
}

#[tokio::test]
async fn a_preview_does_not_count_for_ever() {
    let (world, _handler) = drained(2).await;
    world
        .writer()
        .await
        .sql(
            "WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i + 1 FROM n WHERE i < 102000)
             INSERT INTO orders SELECT i, i, 'x' FROM n",
        )
        .await;
    let world = world.poller("Orders", json!({ "batch": { "max_rows": 10000 } }));
    let jump = [
        "reset",
        "orders",
        "--to-cursor",
        "200000",
        "--to-key",
        "id=1",
        "--dry-run",
    ];
    let shown = run(&world, &jump);
    let text = good(&shown);
    assert!(text.contains("rows  more than 100,000 rows"), "{text}");
}

#[tokio::test]
async fn a_clone_goes_on_from_the_checkpoint_under_its_own_name() {
    let (world, handler) = drained(4).await;
    let world = world.poller("Copy", json!({}));
    let cloned = json(&run(
        &world,
        &["clone", "orders", "--as", "copy", "--yes", "--json"],
    ));
    assert_eq!(
        (&cloned["done"], &cloned["checkpoint"]),
        (&json!(true), &json!("4 (4)"))
    );
    world.writer().await.insert(1).await;
    let second = world.serve().await;
    drain(&handler).await;
    assert_eq!(second.tick("Copy").await.status, 200);
    let rows = world.receiver.acknowledged_rows();
    assert_eq!(
        rows[&4].len(),
        1,
        "what the original has delivered is not sent again"
    );
    assert_eq!(rows[&5].len(), 2);
    assert_ne!(rows[&5][0], rows[&5][1], "ids are made for the new name");
    assert_eq!(world.state("copy").committed(), 5);

    let again = run(&world, &["clone", "orders", "--as", "copy", "--yes"]);
    refused(&again, 1, &["copy has state already"]);
    let early = run(&world, &["clone", "orders", "--as", "later", "--yes"]);
    assert!(
        good(&early).contains("the app has no poller later yet"),
        "{early:?}"
    );
    assert_eq!(world.state("later").committed(), 5);
    let same = run(&world, &["clone", "orders", "--as", "Orders", "--yes"]);
    refused(&same, 2, &["another name"]);
}

#[tokio::test]
async fn a_poller_under_a_new_name_keeps_the_ids_of_its_events_if_told() {
    let (world, handler) = drained(4).await;
    let told = run(&world, &["clone", "orders", "--as", "other", "--dry-run"]);
    assert!(
        good(&told).contains("\"events_as\": \"orders\""),
        "{told:?}"
    );
    let world = world.poller("Heir", json!({ "events_as": "Orders" }));
    let cloned = run(&world, &["clone", "orders", "--as", "heir", "--yes"]);
    assert!(good(&cloned).contains("the same ids"), "{cloned:?}");
    world.writer().await.insert(1).await;
    drain(&handler).await;
    let second = world.serve().await;
    assert_eq!(second.tick("Heir").await.status, 200);
    let rows = world.receiver.acknowledged_rows();
    assert_eq!(rows[&5].len(), 2);
    assert_eq!(rows[&5][0], rows[&5][1], "one event, by whomever it comes");
    let batches = world.receiver.deliveries();
    assert!(batches.iter().all(|batch| batch.body["poller"] == "orders"));
    assert_eq!(world.state("heir").committed(), 5);
}
