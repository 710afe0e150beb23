//! Deletions, outboxes and given starts (B6), on every database.

use dbtick::config::{CleanUp, CleanUpHow, Deletes, Outbox, Tombstones};
use dbtick::model::position::Scalar;
use serde_json::{Value, json};

use crate::fixture::{Engine, MANY_BYTES, found_again, open, read};

/// `(op, key, data)` of every row, page by page.
async fn events(config: &dbtick::config::SourceConfig, rows: usize) -> Vec<Value> {
    let source = open(config);
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let read = read(source.as_ref(), after.as_ref(), rows, MANY_BYTES)
            .await
            .unwrap();
        found_again(source.as_ref(), &read).await;
        for event in read.page.events() {
            let json: Value = serde_json::from_slice(read.page.json(event)).unwrap();
            all.push(json!([json["op"], json["key"]["id"], json["data"]]));
        }
        after = read.page.last_position().cloned();
        if read.end {
            return all;
        }
    }
}

pub(crate) async fn a_soft_deleted_row_comes_as_a_delete(engine: &Engine) {
    let fixture = engine
        .fixture(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, gone INTEGER, gone_at VARCHAR(30));
             INSERT INTO t VALUES (1, 0, NULL), (2, 1, NULL), (3, NULL, '2026-01-01');",
        )
        .await;
    for (column, deleted) in [("gone", 2), ("gone_at", 3)] {
        let mut config = fixture.table("t", &["id"], &["id"]);
        config.columns = Some(vec!["id".into()]);
        config.deletes = Deletes::Soft(column.into());
        let op = |id| if id == deleted { "delete" } else { "upsert" };
        let expected: Vec<_> = (1..=3)
            .map(|id| json!([op(id), id, { "id": id }]))
            .collect();
        assert_eq!(events(&config, 2).await, expected, "{column}");
    }
}

/// A deletion beside a row is no excuse for a key that does not tell rows apart.
pub(crate) async fn soft_deleted_rows_that_share_a_position_stop_the_read(engine: &Engine) {
    let fixture = engine
        .fixture(
            "CREATE TABLE t (k INTEGER NOT NULL, c INTEGER NOT NULL, gone INTEGER NOT NULL);
             INSERT INTO t VALUES (1, 1, 0), (2, 7, 0), (2, 7, 1), (2, 7, 0), (3, 9, 0);",
        )
        .await;
    let mut config = fixture.table("t", &["c"], &["k"]);
    config.deletes = Deletes::Soft("gone".into());
    let error = read(open(&config).as_ref(), None, 2, MANY_BYTES)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("more than one row is at 7 (2)"), "{error}");
}

/// Row 2 was written and deleted at one moment: neither event may be parted from the other.
pub(crate) async fn tombstones_are_merged_in_order_and_none_is_lost_at_a_page_edge(
    engine: &Engine,
) {
    let mut fixture = engine
        .fixture(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, c INTEGER NOT NULL, x VARCHAR(9));
             CREATE TABLE gone (row_id INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (at, row_id));
             INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (4, 20, 'd'), (5, 50, 'e');
             INSERT INTO gone VALUES (3, 5), (2, 20), (6, 30), (7, 60);",
        )
        .await;
    let mut config = fixture.table("t", &["c"], &["id"]);
    config.columns = Some(vec!["x".into()]);
    config.deletes = Deletes::Tombstones(Tombstones {
        schema: None,
        table: "gone".into(),
        cursor: vec!["at".into()],
        key: vec!["row_id".into()],
    });
    let expected = vec![
        json!(["delete", 3, null]),
        json!(["upsert", 1, { "x": "a" }]),
        json!(["upsert", 2, { "x": "b" }]),
        json!(["delete", 2, null]),
        json!(["upsert", 4, { "x": "d" }]),
        json!(["delete", 6, null]),
        json!(["upsert", 5, { "x": "e" }]),
        json!(["delete", 7, null]),
    ];
    for rows in 1..=9 {
        assert_eq!(events(&config, rows).await, expected, "pages of {rows}");
    }
    let running = open(&config);
    read(running.as_ref(), None, 9, MANY_BYTES).await.unwrap();
    fixture
        .run("DROP TABLE gone; CREATE TABLE gone (row_id VARCHAR(9) NOT NULL, at INTEGER NOT NULL)")
        .await;
    for source in [running, open(&config)] {
        let error = read(source.as_ref(), None, 9, MANY_BYTES)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("\"row_id\" of the tombstones is"), "{error}");
    }
}

pub(crate) async fn an_outbox_delivers_its_payload_as_it_is(engine: &Engine) {
    let fixture = engine
        .fixture(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, topic VARCHAR(9), payload VARCHAR(99));
             INSERT INTO t VALUES (1, 'a', 'one \"message\"'), (2, 'b', NULL);",
        )
        .await;
    let mut config = fixture.table("t", &["id"], &["id"]);
    config.outbox = Some(Outbox {
        payload: "payload".into(),
        clean_up: None,
    });
    let expected = vec![
        json!(["upsert", 1, "one \"message\""]),
        json!(["upsert", 2, null]),
    ];
    assert_eq!(events(&config, 1).await, expected);
}

pub(crate) async fn a_given_start_is_the_first_row_with_that_cursor(engine: &Engine) {
    let fixture = engine
        .fixture(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, c INTEGER NOT NULL);
             INSERT INTO t VALUES (1, 10), (2, 20), (3, 20), (4, 30);",
        )
        .await;
    let source = open(&fixture.table("t", &["c"], &["id"]));
    for (from, first) in [(5, Some(1)), (20, Some(2)), (21, Some(4)), (31, None)] {
        let below = Scalar::Integer(from);
        let start = source.last(Some(&below)).await.unwrap();
        let read = read(source.as_ref(), start.as_ref(), 1, MANY_BYTES)
            .await
            .unwrap();
        let id = read
            .page
            .last_position()
            .map(|position| position.key()[0].clone());
        assert_eq!(id, first.map(Scalar::Integer), "from {from}");
    }
}

/// Three rows are delivered; one of them is written again before the clean-up, which must not touch
/// what has not been delivered.
pub(crate) async fn an_outbox_is_cleaned_up_to_what_was_delivered_and_no_further(engine: &Engine) {
    for how in [CleanUpHow::Delete, CleanUpHow::Mark("sent".into())] {
        let mut fixture = engine
            .fixture(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, c INTEGER NOT NULL, payload VARCHAR(9), sent TIMESTAMP NULL);
                 INSERT INTO t (id, c, payload) VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, 'd');",
            )
            .await;
        let mut config = fixture.table("t", &["c"], &["id"]);
        config.outbox = Some(Outbox {
            payload: "payload".into(),
            clean_up: Some(CleanUp {
                connection_name: "WRITER".into(),
                connection: config.connection.clone(),
                how: how.clone(),
            }),
        });
        let source = open(&config);
        assert!(source.cleans_up());
        let page = read(source.as_ref(), None, 3, MANY_BYTES).await.unwrap();
        let delivered: Vec<_> = page
            .page
            .events()
            .iter()
            .map(|event| event.position.clone())
            .collect();
        fixture.run("UPDATE t SET c = 5 WHERE id = 2").await;
        for _ in 0..2 {
            source.clean_up(&delivered).await.unwrap();
        }
        let left = match how {
            CleanUpHow::Delete => "t",
            CleanUpHow::Mark(_) => "t WHERE sent IS NULL",
        };
        assert_eq!(fixture.count(left).await, 2, "{how:?}");
        let again = read(source.as_ref(), delivered.last(), 9, MANY_BYTES)
            .await
            .unwrap();
        assert_eq!(again.page.events().len(), 2, "{how:?}");
    }
}
