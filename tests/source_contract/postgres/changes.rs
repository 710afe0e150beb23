//! What happens to a source while the world around it changes.

use std::time::Duration;

use dbtick::config::NullPolicy;
use dbtick::model::page::PageWriter;
use dbtick::source::SourceError;
use serde_json::Value;

use crate::fixture::{Engine, MANY_BYTES, open, read, read_all};
use crate::support::server::End;

const SCHEMA: &str = "CREATE TABLE t (id int PRIMARY KEY, c int NOT NULL, d text);
    INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')";

#[tokio::test]
async fn a_change_of_the_schema_between_two_pages_is_noticed() {
    let engine = Engine::postgres().await;
    for (change, expect) in [
        (
            "ALTER TABLE t ADD e int DEFAULT 7",
            Ok(r#"{"c":2,"d":"b","e":7,"id":2}"#),
        ),
        ("ALTER TABLE t DROP d", Ok(r#"{"c":2,"id":2}"#)),
        (
            "ALTER TABLE t RENAME d TO e",
            Ok(r#"{"c":2,"e":"b","id":2}"#),
        ),
        (
            "ALTER TABLE t ALTER d TYPE varchar(9)[] USING ARRAY[d]",
            Ok(r#"{"c":2,"d":["b"],"id":2}"#),
        ),
        (
            "ALTER TABLE t ALTER c TYPE bigint",
            Ok(r#"{"c":"2","d":"b","id":2}"#),
        ),
        (
            "ALTER TABLE t ALTER c TYPE text",
            Err("the checkpoint has integer 1 for column \"c\""),
        ),
        ("ALTER TABLE t DROP c", Err("column \"c\" does not exist")),
        (
            "ALTER TABLE t RENAME c TO cc",
            Err("column \"c\" does not exist"),
        ),
        (
            "ALTER TABLE t ALTER c DROP NOT NULL; INSERT INTO t VALUES (4, NULL, '')",
            Err("1 row(s) have a NULL c"),
        ),
        ("DROP TABLE t", Err("table \"t\" does not exist")),
        (
            "DROP TABLE t; CREATE TABLE t (c int NOT NULL, id int PRIMARY KEY); INSERT INTO t VALUES (2, 2)",
            Ok(r#"{"c":2,"id":2}"#),
        ),
    ] {
        for query in [false, true] {
            let mut fixture = engine.fixture(SCHEMA).await;
            let mut config = fixture.table("t", &["c"], &["id"]);
            if query {
                config = fixture.query("SELECT * FROM t", &["c"], &["id"]);
                config.nulls = NullPolicy::Fail;
            }
            let source = open(&config);
            let first = read(source.as_ref(), None, 1, MANY_BYTES).await.unwrap();
            fixture.run(change).await;
            let next = read(source.as_ref(), first.page.last_position(), 1, MANY_BYTES).await;
            match (next, expect) {
                (Ok(next), Ok(data)) => {
                    let [event] = next.page.events() else {
                        panic!("{change}: {} rows", next.page.len());
                    };
                    let json: Value = serde_json::from_slice(next.page.json(event)).unwrap();
                    assert_eq!(json["data"].to_string(), data, "{change}");
                }
                (Err(error), Err(part)) => {
                    let error = error.to_string();
                    let gone = query && part.contains("table");
                    assert!(gone || error.contains(part), "{change}: {error}");
                }
                (Ok(next), Err(_)) => panic!("{change}: {} rows", next.page.len()),
                (Err(error), Ok(_)) => panic!("{change}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_restarts_in_the_middle_loses_nothing() {
    let mut engine = Engine::postgres().await;
    let fixture = engine.fixture(SCHEMA).await;
    let source = open(&fixture.table("t", &["c"], &["id"]));
    let first = read(source.as_ref(), None, 1, MANY_BYTES).await.unwrap();
    let after = first.page.last_position();
    let Engine::Postgres(server) = &mut engine else {
        unreachable!()
    };
    for end in [End::Clean, End::Crash] {
        server.stop(end).await;
        let error = read(source.as_ref(), after, 1, MANY_BYTES)
            .await
            .unwrap_err();
        assert!(matches!(error, SourceError::Unreachable { .. }), "{error}");
        server.start_again().await;
        let next = read(source.as_ref(), after, 1, MANY_BYTES).await.unwrap();
        assert_eq!(next.page.last_position().unwrap().to_string(), "2 (2)");
    }
}

#[tokio::test]
async fn a_session_that_is_ended_by_the_server_is_replaced() {
    let engine = Engine::postgres().await;
    let mut fixture = engine.fixture(SCHEMA).await;
    let source = open(&fixture.table("t", &["c"], &["id"]));
    read(source.as_ref(), None, 1, MANY_BYTES).await.unwrap();
    fixture
        .run("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'dbtick'")
        .await;
    assert_eq!(read_all(source.as_ref(), 1, MANY_BYTES).await.len(), 3);
}

#[tokio::test]
async fn a_read_that_is_dropped_or_cut_short_does_not_disturb_the_next() {
    let engine = Engine::postgres().await;
    let fixture = engine
        .fixture("CREATE TABLE t (id int PRIMARY KEY, d text); INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 3000) i")
        .await;
    let source = open(&fixture.table("t", &["id"], &["id"]));
    for micros in [0, 100, 300, 1000, 3000, 10_000, 30_000] {
        let writer = PageWriter::new("p", 3000, MANY_BYTES);
        let reading = source.read(None, writer, Duration::from_secs(60));
        drop(tokio::time::timeout(Duration::from_micros(micros), reading).await);
        // Closes long before its last row.
        let short = read(source.as_ref(), None, 3000, 5000).await.unwrap();
        assert!(!short.end && short.page.len() < 10);
        let next = read(source.as_ref(), short.page.last_position(), 2, MANY_BYTES)
            .await
            .unwrap();
        assert_eq!(next.page.len(), 2);
    }
    assert_eq!(read_all(source.as_ref(), 700, MANY_BYTES).await.len(), 3000);
}

#[tokio::test]
async fn a_statement_that_takes_too_long_says_which_index_it_wants() {
    let engine = Engine::postgres().await;
    let mut fixture = engine.fixture(SCHEMA).await;
    let mut config = fixture.table("t", &["c"], &["id"]);
    config.filter = Some("pg_sleep(60) IS NOT NULL".into());
    let reading = tokio::spawn(async move { crate::fixture::failure(&config).await });
    // The server ends it in the same way as its own time limit does.
    let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
        WHERE application_name = 'dbtick' AND wait_event = 'PgSleep'";
    let mut cancelled = 0_i64;
    while cancelled == 0 {
        cancelled = sqlx::query_scalar(cancel)
            .fetch_one(fixture.postgres())
            .await
            .unwrap();
    }
    let found = reading.await.unwrap();
    let index = r#"CREATE INDEX CONCURRENTLY "t_c_id" ON "public"."t" ("c", "id")"#;
    assert!(found.contains("statement_timeout"), "{found}");
    assert!(found.contains(index), "{found}");
}

#[tokio::test]
async fn a_server_says_who_it_is() {
    let mut identities = Vec::new();
    for _ in 0..2 {
        let engine = Engine::postgres().await;
        let fixture = engine.fixture(SCHEMA).await;
        let source = open(&fixture.table("t", &["c"], &["id"]));
        for _ in 0..2 {
            let page = read(source.as_ref(), None, 1, MANY_BYTES).await.unwrap();
            identities.push(page.server.expect("a plain role may know"));
        }
    }
    assert_eq!(identities[0], identities[1]);
    assert!(identities[0].starts_with("system "), "{identities:?}");
}
