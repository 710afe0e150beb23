//! One row again, by its position: it is found while it is what it was, and only then.

use dbtick::config::{Deletes, NullPolicy, Tombstones};
use dbtick::model::page::EventId;
use dbtick::model::position::{Position, Scalar};
use dbtick::source::Source;

use crate::fixture::{Engine, MANY_BYTES, find, found_again, open, read};

async fn ids(source: &dyn Source, at: &Position) -> Vec<EventId> {
    let found = find(source, at).await.unwrap();
    assert!(found.end);
    let events = found.page.events().iter();
    events.map(|event| event.id).collect()
}

/// The position and the id of the first row there is.
async fn first(source: &dyn Source) -> (Position, EventId) {
    let page = read(source, None, 1, MANY_BYTES).await.unwrap();
    let event = &page.page.events()[0];
    (event.position.clone(), event.id)
}

fn place(cursor: i128, key: i128) -> Position {
    Position::new(vec![Scalar::Integer(cursor)], vec![Scalar::Integer(key)])
}

pub(crate) async fn every_row_is_found_where_it_was_read(engine: &Engine) {
    let text = engine.collated_text();
    let fixture = engine
        .fixture(&format!(
            "CREATE TABLE t (at TIMESTAMP(6) NOT NULL, big BIGINT NOT NULL, k {text} NOT NULL, n INT NOT NULL, PRIMARY KEY (n));
             INSERT INTO t VALUES ('2026-01-01 00:00:00', -9223372036854775808, '', 1),
               ('2026-01-01 00:00:00', 9007199254740993, 'a', 2), ('2026-01-01 00:00:00', 9007199254740993, 'A', 3),
               ('2026-01-01 00:00:00.000001', 9007199254740993, 'a ', 4), ('2026-01-01 00:00:00.000001', 9007199254740992, '''\"%_', 5),
               ('2026-01-01 00:00:00.999999', 9223372036854775807, 'é😀', 6), ('2037-01-01 00:00:00', 0, '?', 7);"
        ))
        .await;
    for (cursor, key) in [
        (&["at"] as &[&str], &["k", "n"] as &[&str]),
        (&["big"], &["n"]),
        (&["big", "at"], &["k"]),
        (&["k"], &["n"]),
        (&["n"], &["k"]),
        (&["at", "n"], &["n"]),
    ] {
        let source = open(&fixture.table("t", cursor, key));
        let mut after = None;
        for _ in 0..7 {
            let page = read(source.as_ref(), after.as_ref(), 1, MANY_BYTES)
                .await
                .unwrap();
            assert_eq!(page.page.len(), 1, "{cursor:?} {key:?}");
            found_again(source.as_ref(), &page).await;
            after = page.page.last_position().cloned();
        }
    }
}

pub(crate) async fn a_row_that_has_changed_is_not_found_as_it_was(engine: &Engine) {
    let mut fixture = engine
        .fixture(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, c INTEGER NOT NULL, d VARCHAR(9));
             CREATE INDEX i ON t (c); INSERT INTO t VALUES (1, 10, 'a'), (2, 10, 'b'), (3, 11, 'c');",
        )
        .await;
    let source = open(&fixture.table("t", &["c"], &["id"]));
    let (place, id) = first(source.as_ref()).await;
    assert_eq!(ids(source.as_ref(), &place).await, [id]);

    fixture.run("UPDATE t SET d = 'other' WHERE id = 1").await;
    let other = ids(source.as_ref(), &place).await;
    assert!(other.len() == 1 && other != [id], "{other:?}");
    fixture.run("UPDATE t SET d = NULL WHERE id = 1").await;
    let null = ids(source.as_ref(), &place).await;
    assert!(null.len() == 1 && null != [id] && null != other, "{null:?}");
    fixture.run("UPDATE t SET d = 'a' WHERE id = 1").await;
    assert_eq!(ids(source.as_ref(), &place).await, [id]);

    fixture.run("UPDATE t SET c = 12 WHERE id = 1").await;
    assert_eq!(ids(source.as_ref(), &place).await, []);
    fixture.run("UPDATE t SET c = 10 WHERE id = 1").await;
    assert_eq!(ids(source.as_ref(), &place).await, [id]);
    fixture.run("DELETE FROM t WHERE id = 1").await;
    assert_eq!(ids(source.as_ref(), &place).await, []);
    fixture.run("DELETE FROM t").await;
    assert_eq!(ids(source.as_ref(), &place).await, []);
}

pub(crate) async fn a_tombstone_is_found_at_its_own_position(engine: &Engine) {
    let mut fixture = engine
        .fixture(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, c INTEGER NOT NULL, x VARCHAR(9));
             CREATE TABLE gone (row_id INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (at, row_id));
             INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b');",
        )
        .await;
    let mut config = fixture.table("t", &["c"], &["id"]);
    config.deletes = Deletes::Tombstones(Tombstones {
        schema: None,
        table: "gone".into(),
        cursor: vec!["at".into()],
        key: vec!["row_id".into()],
    });
    let source = open(&config);
    let (written, row) = first(source.as_ref()).await;
    assert_eq!(ids(source.as_ref(), &written).await, [row]);

    // Deleted at the moment at which it was written: both are at one place, the row first.
    fixture.run("INSERT INTO gone VALUES (1, 10)").await;
    let both = ids(source.as_ref(), &written).await;
    assert!(both.len() == 2 && both[0] == row, "{both:?}");
    fixture.run("DELETE FROM t WHERE id = 1").await;
    assert_eq!(ids(source.as_ref(), &written).await, both[1..]);

    // Deleted later: there is nothing any more where the row was.
    fixture.run("UPDATE gone SET at = 30").await;
    assert_eq!(ids(source.as_ref(), &written).await, []);
    let found = ids(source.as_ref(), &place(30, 1)).await;
    assert!(found.len() == 1 && found != both[1..], "{found:?}");
}

pub(crate) async fn what_is_soft_deleted_or_left_out_is_found_so(engine: &Engine) {
    let mut fixture = engine
        .fixture(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, c INTEGER, gone INTEGER NOT NULL);
             INSERT INTO t VALUES (1, 10, 0), (2, NULL, 0);",
        )
        .await;
    let mut soft = fixture.table("t", &["c"], &["id"]);
    soft.deletes = Deletes::Soft("gone".into());
    soft.nulls = NullPolicy::Ignore;
    let mut filtered = soft.clone();
    filtered.filter = Some("gone = 0 OR gone = 2 -- not gone".into());
    let query = "SELECT id, c, gone + 0 AS gone FROM t WHERE gone = 0 OR gone = 2";
    let mut query = fixture.query(query, &["c"], &["id"]);
    query.nulls = NullPolicy::Ignore;
    let sources = [&soft, &filtered, &query].map(open);
    let mut before = Vec::new();
    for source in &sources {
        let (place, id) = first(source.as_ref()).await;
        assert_eq!(ids(source.as_ref(), &place).await, [id]);
        before.push((place, id));
    }
    fixture.run("UPDATE t SET gone = 1 WHERE id = 1").await;
    for (at, (source, (place, id))) in sources.iter().zip(&before).enumerate() {
        let found = ids(source.as_ref(), place).await;
        match at {
            0 => assert!(found.len() == 1 && found != [*id], "{found:?}"),
            _ => assert_eq!(found, [], "source {at}"),
        }
    }
    fixture.run("UPDATE t SET gone = 0 WHERE id = 1").await;
    for (source, (place, id)) in sources.iter().zip(&before) {
        assert_eq!(ids(source.as_ref(), place).await, [*id]);
    }
}

pub(crate) async fn a_position_of_two_rows_or_of_another_source_is_an_error(engine: &Engine) {
    let mut fixture = engine
        .fixture(
            "CREATE TABLE t (c INT NOT NULL, k INT NOT NULL, n INT); INSERT INTO t VALUES (1,1,1),(2,1,2),(2,1,3)",
        )
        .await;
    let source = open(&fixture.table("t", &["c"], &["k"]));
    let longer = Position::new([1, 1].map(Scalar::Integer).to_vec(), vec![]);
    for (at, expect) in [
        (place(2, 1), "more than one row is at 2 (1)"),
        (longer.clone(), "other columns or types now"),
        (longer, "give the event up"),
    ] {
        let error = find(source.as_ref(), &at).await.unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
    fixture.run("DROP TABLE t").await;
    let error = find(source.as_ref(), &place(1, 1)).await.unwrap_err();
    assert!(error.to_string().contains("\"t\""), "{error}");
}
