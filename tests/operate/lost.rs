//! State that is gone, torn, foreign or edited: refused, never overwritten, and the way out works.

use std::fs;

use serde_json::json;

use super::support::world::World;
use super::{deliveries, drain, drained, good, json, refused, run};

#[tokio::test]
async fn a_saved_document_brings_a_lost_poller_back() {
    let (world, handler) = drained(4).await;
    let saved = world.path("saved.json").display().to_string();
    good(&run(&world, &["state", "export", "orders", &saved]));
    let again = run(&world, &["state", "export", "orders", &saved]);
    refused(&again, 1, &["exists already"]);
    world.writer().await.insert(2).await;
    drain(&handler).await;
    fs::remove_file(&world.state("orders").path).unwrap();
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 500);
    let story = handler
        .stderr
        .line(&["dbtick state import orders FILE"])
        .await;
    assert!(
        story.contains("dbtick reset orders --to beginning"),
        "{story}"
    );
    for command in [
        &["history", "orders"][..],
        &["rollback", "orders", "--to", "1", "--yes"],
    ] {
        refused(&run(&world, command), 1, &["document is gone"]);
    }
    let import = ["state", "import", "orders", &saved, "--yes"];
    let restored = run(&world, &import);
    assert!(
        good(&restored).contains("2 rows to deliver from there on"),
        "{restored:?}"
    );
    drain(&handler).await;
    assert_eq!(deliveries(&world), [1, 1, 1, 1, 2, 2]);
    assert!(world.state("orders").document().history.len() >= 3);
}

#[tokio::test]
async fn an_import_over_a_good_document_can_be_undone() {
    let (world, handler) = drained(4).await;
    let saved = world.path("saved.json").display().to_string();
    good(&run(&world, &["state", "export", "orders", &saved]));
    world.writer().await.insert(2).await;
    drain(&handler).await;
    let token = world.state("orders").document().lease.token;
    let restored = run(&world, &["state", "import", "orders", &saved, "--yes"]);
    let text = good(&restored);
    assert!(text.contains("2 rows come again"), "{text}");
    assert!(world.state("orders").document().lease.token > token);
    assert_eq!(world.state("orders").committed(), 4);
    let undo = text
        .lines()
        .find_map(|line| line.strip_prefix("undo: "))
        .unwrap();
    good(&super::paste(&world, undo));
    assert_eq!(world.state("orders").committed(), 6);
    // The same file as the place of a reset.
    good(&run(
        &world,
        &["reset", "orders", "--to-file", &saved, "--yes"],
    ));
    assert_eq!(world.state("orders").committed(), 4);
}

#[tokio::test]
async fn a_lost_document_begins_again_by_reset() {
    let (world, handler) = drained(4).await;
    fs::remove_file(&world.state("orders").path).unwrap();
    let to = [
        "reset",
        "orders",
        "--to-cursor",
        "2",
        "--to-key",
        "id=2",
        "--yes",
    ];
    let begun = run(&world, &to);
    assert!(good(&begun).contains("the document is gone"), "{begun:?}");
    assert!(
        !begun.stdout.contains("undo:"),
        "there is nothing to go back to"
    );
    drain(&handler).await;
    assert_eq!(deliveries(&world), [1, 1, 2, 2]);
}

/// Each way to spoil a document, and what is said of it.
#[tokio::test]
async fn a_spoiled_document_is_left_alone_until_it_is_given_up() {
    let (world, handler) = drained(4).await;
    let file = world.state("orders").path;
    let good_text = fs::read_to_string(&file).unwrap();
    let copied = run(&world, &["clone", "orders", "--as", "copy", "--yes"]);
    assert_eq!(copied.code, Some(0), "{copied:?}");
    let foreign = fs::read_to_string(&world.state("copy").path).unwrap();
    let mut kept = 0;
    for (spoiled, reason) in [
        (
            good_text[..good_text.len() / 2].to_owned(),
            "not complete JSON",
        ),
        (
            good_text.replace("\n  \"version\": 1", "\n  \"version\": 2"),
            "has version 2",
        ),
        (foreign, "belongs to poller \"copy\""),
        (
            good_text.replace("\"poller_name\": \"orders\"", "\"poller_name\": \"others\""),
            "changed by something other than dbtick",
        ),
        (
            good_text.replace("\"fencing_token\": ", "\"fencing_token\": 9"),
            "changed by something other than dbtick",
        ),
    ] {
        assert_ne!(spoiled, good_text, "{reason}");
        fs::write(&file, &spoiled).unwrap();
        assert_eq!(handler.tick("Orders").await.status, 500);
        let reset = ["reset", "orders", "--to", "beginning", "--yes"];
        for arguments in [&reset[..], &["history", "orders"]] {
            let said = run(&world, arguments);
            refused(&said, 1, &[reason, "--discard-corrupt"]);
        }
        let exported = run(&world, &["state", "export", "orders"]);
        assert_eq!(exported.code, Some(0), "{exported:?}");
        assert!(exported.stderr.contains(reason), "{exported:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), spoiled, "{reason}");

        let given_up = run(
            &world,
            &[&reset[..], &["--discard-corrupt", "--json"]].concat(),
        );
        let given_up = json(&given_up);
        let aside = given_up["refused_document"].as_str().unwrap();
        let aside = fs::read_to_string(world.path("state").join(aside)).unwrap();
        let (_, body) = aside.split_once('\n').unwrap();
        assert!(spoiled.ends_with(body), "its bytes are kept: {body}");
        kept += 1;
        drain(&handler).await;
        assert_eq!(deliveries(&world), vec![1 + kept; 4]);
    }
}

#[tokio::test]
async fn a_file_that_is_no_state_of_this_poller_is_not_taken() {
    let (world, _handler) = drained(2).await;
    let write = |name: &str, text: &str| {
        let path = world.path(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let text = good(&run(&world, &["state", "export", "orders"])).to_owned();
    let files = [
        (write("cut", &text[..50]), "not complete JSON"),
        (
            write("edited", &text.replace("\"rows\": 2", "\"rows\": 3")),
            "check field",
        ),
        (world.path("none").display().to_string(), "No such file"),
    ];
    for (file, reason) in files {
        for arguments in [
            &["state", "import", "orders", &file, "--yes"][..],
            &["reset", "orders", "--to-file", &file, "--yes"],
        ] {
            refused(&run(&world, arguments), 1, &[reason, &file]);
        }
    }
    // A copy out of the state directory, and a plain document of version 1, are taken.
    let copy = world.state("orders").path.display().to_string();
    good(&run(&world, &["state", "import", "orders", &copy, "--yes"]));
    let plain = json!({
        "version": 1, "poller_name": "orders", "source_fingerprint": "sha256:of-somebody-else",
        "checkpoint": {
            "cursor": { "kind": "integer+pk", "value": 1, "tiebreaker": { "id": 1 } },
            "last_successful_batch_id": null, "updated_at": null, "metadata": {}
        }
    });
    let plain = write("plain", &plain.to_string());
    let taken = run(&world, &["state", "import", "orders", &plain, "--yes"]);
    assert!(
        good(&taken).contains("made for another source"),
        "{taken:?}"
    );
    let other = run(&world, &["reset", "orders", "--to-file", &plain, "--yes"]);
    refused(&other, 1, &["another source", "--to-cursor"]);
    good(&run(&world, &["adopt", "orders", "--yes"]));
    assert_eq!(world.state("orders").committed(), 1);
}

#[tokio::test]
async fn a_poller_that_has_not_run_has_nothing_to_show_and_can_be_given_a_start() {
    let world = World::with_orders(json!({})).await.rows(4).await;
    for arguments in [
        &["history", "orders"][..],
        &["rollback", "orders", "--to", "1", "--yes"],
        &["adopt", "orders", "--yes"],
        &["clone", "orders", "--as", "copy", "--yes"],
        &["state", "export", "orders"],
    ] {
        refused(&run(&world, arguments), 1, &["it has not run yet"]);
    }
    let to = [
        "reset",
        "orders",
        "--to-cursor",
        "3",
        "--to-key",
        "id=3",
        "--yes",
    ];
    good(&run(&world, &to));
    let handler = world.serve().await;
    drain(&handler).await;
    let rows: Vec<i64> = world.receiver.acknowledged_rows().into_keys().collect();
    assert_eq!(rows, [4]);
}
