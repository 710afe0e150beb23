//! B7 and B8 end to end: a source that is not what it was.

use serde_json::json;

use super::{deliveries, drain, drained, good, refused, run};

#[tokio::test]
async fn a_changed_source_is_told_by_what_changed_and_adopted() {
    let (world, handler) = drained(4).await;
    drop(handler);
    let world = world.poller(
        "Orders",
        json!({ "batch": { "max_rows": 3 }, "source": { "filter": "note <> 'gone'" } }),
    );
    world.writer().await.insert(2).await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 500);
    let story = handler.stderr.line(&["the source has changed"]).await;
    for words in [
        "filter was not set, is \\\"note <> 'gone'\\\"",
        "dbtick adopt orders",
        "dbtick reset orders --to beginning",
        "dbtick clone orders --as NAME",
    ] {
        let plain = words.replace("\\\"", "\"");
        assert!(
            story.contains(words) || story.contains(&plain),
            "{words}: {story}"
        );
    }
    let adopted = run(&world, &["adopt", "orders", "--yes"]);
    let text = good(&adopted);
    assert!(
        text.contains("filter was not set, is \"note <> 'gone'\""),
        "{text}"
    );
    assert!(text.contains("2 rows to deliver"), "{text}");
    let undo = "undo: put the old source back into function.json, then dbtick adopt orders --yes";
    assert!(text.contains(undo), "{text}");
    drain(&handler).await;
    assert_eq!(deliveries(&world), [1; 6]);
    let nothing = run(&world, &["adopt", "orders", "--yes"]);
    assert!(
        good(&nothing).contains("there was nothing to change"),
        "{nothing:?}"
    );

    // How it is laid out is no change.
    let world = world.poller(
        "Orders",
        json!({ "batch": { "max_rows": 3 }, "source": { "filter": "  note\n  <> 'gone'" } }),
    );
    let handler = world.serve().await;
    drain(&handler).await;
}

#[tokio::test]
async fn another_key_cannot_be_adopted_but_reset() {
    let (world, handler) = drained(4).await;
    drop(handler);
    let world = world.poller("Orders", json!({ "source": { "key": ["note", "id"] } }));
    let said = run(&world, &["adopt", "orders", "--yes"]);
    refused(&said, 1, &["order of seq; id", "order of seq; note, id"]);
    let said = run(&world, &["rollback", "orders", "--to", "1", "--yes"]);
    refused(&said, 1, &["another source"]);
    let moved = run(&world, &["reset", "orders", "--to", "beginning", "--yes"]);
    assert!(
        good(&moved).contains("key was \"id\", is \"note, id\""),
        "{moved:?}"
    );
    let undo =
        "undo: put the old source back into function.json, then dbtick rollback orders --to 2";
    assert!(moved.stdout.contains(undo), "{moved:?}");
    let handler = world.serve().await;
    drain(&handler).await;
    assert_eq!(deliveries(&world), [2; 4]);
}

#[tokio::test]
async fn a_new_column_is_announced_once_and_kept_with_its_versions() {
    let (world, handler) = drained(4).await;
    world
        .writer()
        .await
        .sql("ALTER TABLE orders ADD COLUMN amount DECIMAL(10,2)")
        .await;
    world.writer().await.insert(7).await;
    drain(&handler).await;
    let line = handler.stdout.line(&["dbtick.schema"]).await;
    assert!(
        line.contains("column amount DECIMAL(10,2) is new"),
        "{line}"
    );
    world.writer().await.insert(1).await;
    drain(&handler).await;
    let said = handler.stdout.all();
    let announced = said.iter().filter(|line| line.contains("dbtick.schema"));
    assert_eq!(announced.count(), 1);
    let before = run(&world, &["history", "orders", "--schema", "1"]);
    assert!(!good(&before).contains("amount"), "{before:?}");
    let latest = world
        .state("orders")
        .document()
        .version()
        .unwrap()
        .to_string();
    let now = run(&world, &["history", "orders", "--schema", &latest]);
    assert!(good(&now).contains("amount DECIMAL(10,2)"), "{now:?}");
}

#[tokio::test]
async fn a_retyped_key_stops_the_poller_until_it_is_adopted() {
    let (world, handler) = drained(4).await;
    let mut writer = world.writer().await;
    for statement in [
        "ALTER TABLE orders RENAME TO old",
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, seq INTEGER NOT NULL, note TEXT)",
        "INSERT INTO orders SELECT * FROM old",
        "DROP TABLE old",
        "CREATE UNIQUE INDEX orders_seq ON orders (seq, id)",
        "CREATE UNIQUE INDEX orders_once ON orders (seq)",
        "INSERT INTO orders VALUES (5, 5, 'x')",
    ] {
        writer.sql(statement).await;
    }
    assert_eq!(handler.tick("Orders").await.status, 500);
    let story = handler
        .stderr
        .line(&["column id INTEGER (key) is now BIGINT"])
        .await;
    assert!(story.contains("dbtick adopt orders"), "{story}");
    handler
        .stdout
        .line(&["\"outcome\":\"schema_changed\""])
        .await;
    assert_eq!(deliveries(&world), [1; 4]);
    let adopted = run(&world, &["adopt", "orders", "--yes"]);
    assert!(
        good(&adopted).contains("column id INTEGER (key) is now BIGINT"),
        "{adopted:?}"
    );
    drain(&handler).await;
    assert_eq!(world.state("orders").committed(), 5);
}
