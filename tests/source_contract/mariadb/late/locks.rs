//! Writers that are seen by their metadata locks.

use std::time::Duration;

use dbtick::config::{SourceConfig, StampedBy};
use dbtick::model::late::Protected;
use sqlx::Connection as _;

use super::*;
use crate::support::mariadb::MariaDb;

pub(super) async fn watched() -> Engine {
    let server = MariaDb::with()
        .setting("performance-schema", "ON")
        .setting(
            "performance-schema-instrument",
            "wait/lock/metadata/sql/mdl=ON",
        )
        .setting(
            "performance-schema-consumer-events-statements-current",
            "ON",
        )
        .start();
    Engine::MariaDb(server.await)
}

const TABLE: &str = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1); CREATE TABLE u (id INT)";

async fn writers(source: &dyn Source) -> BTreeSet<Witness> {
    look(source, &nobody()).await.writers
}

/// Until somebody else is seen.
async fn joined(source: &dyn Source, others: &BTreeSet<Witness>) -> BTreeSet<Witness> {
    for _ in 0..200 {
        let now = writers(source).await;
        if now.len() > others.len() {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody joined {others:?}");
}

#[tokio::test]
async fn everybody_who_writes_or_waits_is_seen_to_the_end_of_the_transaction() {
    let engine = watched().await;
    let mut fixture = engine.fixture(TABLE).await;
    let source = open(&fixture.table("t", &["id"], &["id"]));
    let source = source.as_ref();
    assert!(writers(source).await.is_empty());
    let mut one = client(&engine, &mut fixture).await;
    run(&mut one, "START TRANSACTION; INSERT INTO u VALUES (1)").await;
    assert!(
        writers(source).await.is_empty(),
        "another table is written to"
    );
    run(&mut one, "INSERT INTO t (n) VALUES (2)").await;
    let first = writers(source).await;
    assert_eq!(first.len(), 1);

    // One that waits for a row.
    let mut two = client(&engine, &mut fixture).await;
    let waiting = tokio::spawn(async move {
        run(
            &mut two,
            "START TRANSACTION; UPDATE t SET n = 3 WHERE id = 2",
        )
        .await;
        two
    });
    let both = joined(source, &first).await;
    assert!(both.is_superset(&first) && both.len() == 2);
    run(&mut one, "COMMIT").await;
    let mut two = waiting.await.unwrap();
    let second = writers(source).await;
    assert_eq!(second, both.difference(&first).cloned().collect());
    run(&mut two, "ROLLBACK").await;
    assert!(writers(source).await.is_empty());

    // The same sessions again are other witnesses.
    run(&mut one, "START TRANSACTION; INSERT INTO t (n) VALUES (2)").await;
    let again = writers(source).await;
    assert!(
        again.len() == 1 && again.is_disjoint(&both),
        "{again:?} {both:?}"
    );
    run(&mut one, "COMMIT").await;

    // One that waits for the table, and then one that has it for itself.
    run(&mut two, "LOCK TABLES t READ").await;
    let waiting = tokio::spawn(async move {
        run(&mut one, "INSERT INTO t (n) VALUES (4)").await;
        one
    });
    assert_eq!(joined(source, &nobody()).await.len(), 1);
    run(&mut two, "UNLOCK TABLES").await;
    waiting.await.unwrap();
    assert!(writers(source).await.is_empty());
}

#[tokio::test]
async fn a_prepared_transaction_is_seen_after_its_session_has_gone() {
    let engine = watched().await;
    let mut fixture = engine.fixture(TABLE).await;
    let source = open(&fixture.table("t", &["id"], &["id"]));
    let mut one = client(&engine, &mut fixture).await;
    run(&mut one, "XA START 'x'; INSERT INTO t (n) VALUES (2)").await;
    let before = look(source.as_ref(), &nobody()).await;
    assert!(before.writers.len() == 1 && before.disguised.is_empty());
    run(&mut one, "XA END 'x'; XA PREPARE 'x'").await;
    one.close().await.unwrap();
    let prepared = look(source.as_ref(), &before.writers).await;
    assert_eq!(prepared.writers, prepared.disguised);
    assert_eq!(prepared.disguised.len(), 1);
    fixture.run("XA ROLLBACK 'x'").await;
    assert!(writers(source.as_ref()).await.is_empty());
}

/// A user who is granted these rights beside the table.
async fn granted(engine: &Engine, fixture: &mut Fixture, tables: &[&str]) -> SourceConfig {
    let database: String = sqlx::query_scalar("SELECT DATABASE()")
        .fetch_one(fixture.mysql())
        .await
        .unwrap();
    let user = format!("r{database}@'127.0.0.1'");
    let mut sql =
        format!("CREATE USER {user} IDENTIFIED BY 'pw'; GRANT SELECT ON {database}.* TO {user};");
    for table in tables {
        sql += &format!("GRANT SELECT ON performance_schema.{table} TO {user};");
    }
    fixture.run(&sql).await;
    let Engine::MariaDb(server) = engine else {
        unreachable!()
    };
    let mut config = fixture.table("t", &["id"], &["id"]);
    config.connection = mysql_connection(server.port, &database, &format!("r{database}"), "pw");
    config
}

const SEEN: [&str; 3] = ["metadata_locks", "setup_instruments", "setup_consumers"];

#[tokio::test]
async fn locks_need_three_grants_and_give_a_better_grade() {
    let engine = watched().await;
    let mut fixture = engine.fixture(TABLE).await;
    let mut config = granted(&engine, &mut fixture, &SEEN).await;
    let grade = async |config: &SourceConfig| {
        let found = open(config).describe().await.unwrap();
        let finding = found.findings.into_iter();
        let mut finding = finding.filter(|finding| finding.subject == "late commits");
        (
            found.protection.unwrap().grade,
            finding.next().unwrap().text,
        )
    };
    let (found, text) = grade(&config).await;
    assert_eq!(found, Protected::Bounded(Duration::from_secs(5)));
    assert!(
        text.starts_with("BOUNDED(5s): writers may give") && text.contains("source.stamped_by"),
        "{text}"
    );
    config.late.stamped_by = Some(StampedBy::Database);
    let (found, text) = grade(&config).await;
    assert_eq!(found, Protected::Proven);
    assert!(
        text.starts_with("PROVEN: the database gives a row its cursor"),
        "{text}"
    );
    assert_eq!(look(open(&config).as_ref(), &nobody()).await.window, None);

    let mut fixture = engine.fixture(TABLE).await;
    let config = granted(&engine, &mut fixture, &SEEN[1..]).await;
    let (found, text) = grade(&config).await;
    assert_eq!(found, Protected::Bounded(Duration::from_secs(60)));
    assert!(
        text.contains("GRANT SELECT ON performance_schema.metadata_locks"),
        "{text}"
    );
    fixture
        .run("UPDATE performance_schema.setup_consumers SET enabled = 'NO' WHERE name = 'events_statements_current'")
        .await;
    let (found, text) = grade(&fixture.table("t", &["id"], &["id"])).await;
    assert_eq!(found, Protected::Bounded(Duration::from_secs(60)));
    assert!(text.contains("events-statements-current=ON"), "{text}");
}

#[tokio::test]
async fn a_writer_is_not_taken_for_gone_because_nobody_can_look_any_more() {
    let engine = watched().await;
    let mut fixture = engine.fixture(TABLE).await;
    let config = granted(&engine, &mut fixture, &SEEN).await;
    let source = open(&config);
    let mut one = client(&engine, &mut fixture).await;
    run(&mut one, "START TRANSACTION; INSERT INTO t (n) VALUES (2)").await;
    let known = writers(source.as_ref()).await;
    assert_eq!(known.len(), 1);
    let user: String = sqlx::query_scalar("SELECT CONCAT('r', DATABASE(), '@''127.0.0.1''')")
        .fetch_one(fixture.mysql())
        .await
        .unwrap();
    fixture
        .run(&format!(
            "REVOKE SELECT ON performance_schema.metadata_locks FROM {user}"
        ))
        .await;
    // What is known of it is forgotten, which is safe; that it has gone would not be.
    assert_eq!(look(source.as_ref(), &known).await.unanswered, known);

    // Where only other things have been switched off, they can still be looked for.
    fixture
        .run(&format!(
            "GRANT SELECT ON performance_schema.metadata_locks TO {user};
             UPDATE performance_schema.setup_instruments SET enabled = 'NO' WHERE name = 'wait/lock/metadata/sql/mdl'"
        ))
        .await;
    assert_eq!(look(source.as_ref(), &known).await.unanswered, known);
}
