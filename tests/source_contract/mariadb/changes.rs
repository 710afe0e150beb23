//! Tables and servers that change between two reads, or during one.

use std::time::Duration;

use dbtick::model::page::PageWriter;
use dbtick::source::{SourceError, open};
use serde_json::{Value, json};

use crate::fixture::{Engine, MANY_BYTES, read, read_all};
use crate::support::mariadb::MariaDb;
use crate::support::server::End;

/// What happens between two reads, and what the second one says or sends.
#[tokio::test]
async fn an_altered_table_is_noticed_and_loses_no_row() {
    const REFUSED: &str = "which cannot hold it";
    let engine = super::engine().await;
    for (then, expected) in [
        (
            "ALTER TABLE t DROP COLUMN c",
            Err("column \"c\" does not exist"),
        ),
        ("DROP TABLE t", Err("table \"t\" does not exist")),
        ("ALTER TABLE t MODIFY c VARCHAR(30) NOT NULL", Err(REFUSED)),
        ("ALTER TABLE t MODIFY c DATE NOT NULL", Err(REFUSED)),
        ("ALTER TABLE t MODIFY c TIMESTAMP NOT NULL", Err(REFUSED)),
        (
            "ALTER TABLE t MODIFY c TIME NOT NULL",
            Err("has no exact place"),
        ),
        ("ALTER TABLE t MODIFY id VARCHAR(9) NOT NULL", Err(REFUSED)),
        (
            "ALTER TABLE t MODIFY id DECIMAL(9,2) NOT NULL",
            Ok(json!({"id": "2.00", "c": "2026-01-02T00:00:00", "d": 7})),
        ),
        (
            "ALTER TABLE t MODIFY id BIGINT NOT NULL",
            Ok(json!({"id": "2", "c": "2026-01-02T00:00:00", "d": 7})),
        ),
        (
            "ALTER TABLE t MODIFY c DATETIME(3) NOT NULL",
            Ok(json!({"id": 2, "c": "2026-01-02T00:00:00.000", "d": 7})),
        ),
        (
            "ALTER TABLE t MODIFY d VARCHAR(9)",
            Ok(json!({"id": 2, "c": "2026-01-02T00:00:00", "d": "7"})),
        ),
        (
            "ALTER TABLE t ADD e INT DEFAULT 5 FIRST",
            Ok(json!({"e": 5, "id": 2, "c": "2026-01-02T00:00:00", "d": 7})),
        ),
        (
            "ALTER TABLE t DROP COLUMN d",
            Ok(json!({"id": 2, "c": "2026-01-02T00:00:00"})),
        ),
    ] {
        for rows in ["table", "query"] {
            let mut fixture = engine
                .fixture(
                    "CREATE TABLE t (id INT PRIMARY KEY, c DATETIME NOT NULL, d INT);
                     INSERT INTO t VALUES (1, '2026-01-01', 7), (2, '2026-01-02', 7)",
                )
                .await;
            let config = match rows {
                "table" => fixture.table("t", &["c"], &["id"]),
                _ => fixture.query("SELECT * FROM t", &["c"], &["id"]),
            };
            let source = open(&config);
            let first = read(source.as_ref(), None, 1, MANY_BYTES).await.unwrap();
            fixture.run(then).await;
            let next = read(source.as_ref(), first.page.last_position(), 1, MANY_BYTES).await;
            match (&expected, next) {
                (Ok(data), Ok(next)) => {
                    let event = &next.page.events()[0];
                    let json: Value = serde_json::from_slice(next.page.json(event)).unwrap();
                    assert_eq!(json["data"], *data, "{then} ({rows})");
                }
                (Err(text), Err(error)) => {
                    let missing = rows == "query" && then.starts_with("DROP");
                    let text = if missing { "doesn't exist" } else { text };
                    assert!(error.to_string().contains(text), "{then} ({rows}): {error}");
                }
                (_, next) => panic!("{then} ({rows}): {next:?}"),
            }
        }
    }
}

const MANY: &str = "CREATE TABLE t (id INT PRIMARY KEY, d LONGTEXT);
    INSERT INTO t SELECT seq, repeat('x', 1000) FROM seq_1_to_3000";

#[tokio::test]
async fn a_server_that_restarts_during_a_drain_loses_nothing() {
    let mut engine = super::engine().await;
    // Otherwise a crash loses what was written in the last second, as the servers of tests may.
    let durable = format!("SET GLOBAL innodb_flush_log_at_trx_commit = 1; {MANY}");
    let fixture = engine.fixture(&durable).await;
    let source = open(&fixture.table("t", &["id"], &["id"]));
    let mut found = Vec::new();
    let mut after = None;
    for round in 0.. {
        if round % 3 == 1 {
            let how = if round == 1 { End::Crash } else { End::Clean };
            let Engine::MariaDb(server) = &mut engine else {
                unreachable!()
            };
            server.stop(how).await;
            let error = read(source.as_ref(), after.as_ref(), 700, MANY_BYTES)
                .await
                .unwrap_err();
            assert!(
                matches!(error, SourceError::Unreachable { .. }),
                "{error:?}"
            );
            assert!(!format!("{error:?}").contains(crate::support::mariadb::PASSWORD));
            let Engine::MariaDb(server) = &mut engine else {
                unreachable!()
            };
            server.start_again().await;
        }
        let page = read(source.as_ref(), after.as_ref(), 700, MANY_BYTES)
            .await
            .unwrap();
        found.extend(
            page.page
                .events()
                .iter()
                .map(|event| event.position.to_string()),
        );
        after = page.page.last_position().cloned();
        if page.end {
            break;
        }
    }
    let expected: Vec<_> = (1..=3000).map(|id| format!("{id} ({id})")).collect();
    assert!(found == expected, "{} rows", found.len());
}

/// Dropped at every point at which it can be, the next read is as if nothing had been.
#[tokio::test]
async fn a_read_that_is_dropped_in_the_middle_disturbs_no_other() {
    let engine = super::engine().await;
    let fixture = engine.fixture(MANY).await;
    let source = open(&fixture.table("t", &["id"], &["id"]));
    let whole = read_all(source.as_ref(), 3000, MANY_BYTES).await;
    assert_eq!(whole.len(), 3000);
    for polls in 1..40 {
        let writer = PageWriter::new("p", 3000, MANY_BYTES);
        let read = source.read(None, writer, Duration::from_secs(60));
        abandoned_after(polls, read).await;
    }
    // A page that closes early leaves rows behind in the connection.
    for _ in 0..3 {
        let first = read(source.as_ref(), None, 3000, 5000).await.unwrap();
        assert!(!first.end && first.page.len() < 10);
    }
    assert!(read_all(source.as_ref(), 3000, MANY_BYTES).await == whole);
}

async fn abandoned_after<F: Future>(polls: usize, future: F) {
    let mut future = std::pin::pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        left -= 1;
        let ready = future.as_mut().poll(context).is_ready();
        if ready || left == 0 {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

#[tokio::test]
async fn a_lock_or_a_slow_statement_is_tried_again_later() {
    let server = MariaDb::start().await;
    let engine = Engine::MariaDb(server);
    let mut fixture = engine
        .fixture("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        .await;
    let source = open(&fixture.table("t", &["id"], &["id"]));
    read(source.as_ref(), None, 1, MANY_BYTES).await.unwrap();
    fixture.run("LOCK TABLES t WRITE").await;
    let error = read(source.as_ref(), None, 1, MANY_BYTES)
        .await
        .unwrap_err();
    assert!(
        matches!(error, SourceError::Unreachable { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("locked"), "{error}");
    fixture.run("UNLOCK TABLES").await;
    read(source.as_ref(), None, 1, MANY_BYTES).await.unwrap();
}
