//! What is refused, and what a person is told.

use dbtick::config::{Connection, SourceConfig};
use dbtick::source::open;

use crate::fixture::{Fixture, failure};

const SCHEMA: &str =
    "CREATE TABLE canary (id INTEGER PRIMARY KEY, updated_at TEXT NOT NULL, r REAL);
    INSERT INTO canary VALUES (1, '2026-01-01', 1.5)";

async fn check(change: impl FnOnce(&mut SourceConfig), expect: &str) {
    let mut fixture = Fixture::sqlite(SCHEMA).await;
    let mut config = fixture.table("canary", &["updated_at"], &["id"]);
    change(&mut config);
    let found = failure(&config).await;
    assert!(found.contains(expect), "{found}");
    assert_eq!(fixture.count("canary").await, 1);
}

fn table(name: &str) -> dbtick::config::Rows {
    dbtick::config::Rows::Table {
        schema: None,
        table: name.to_owned(),
    }
}

fn query(text: &str) -> dbtick::config::Rows {
    dbtick::config::Rows::Query(text.to_owned())
}

#[tokio::test]
async fn names_that_do_not_exist_are_named_exactly() {
    check(
        |config| config.rows = table("canry"),
        "table \"canry\" does not exist in the database; did you mean \"canary\"?",
    )
    .await;
    check(
        |config| config.cursor = vec!["Updated_At".into()],
        "column \"Updated_At\" does not exist in the source; did you mean \"updated_at\"?",
    )
    .await;
    check(
        |config| config.key = vec!["zz".into()],
        "there is \"id\", \"updated_at\", \"r\"",
    )
    .await;
    for hostile in [
        "x\"; DROP TABLE canary; --",
        "canary; DELETE FROM canary",
        "1 OR 1=1",
        "",
        "'",
    ] {
        let expect = format!("\"{hostile}\" does not exist");
        check(|config| config.rows = table(hostile), &expect).await;
        check(
            |config| config.columns = Some(vec![hostile.into()]),
            &expect,
        )
        .await;
    }
}

#[tokio::test]
async fn a_write_in_a_query_or_filter_fails() {
    check(
        |config| config.rows = query("SELECT * FROM canary; DELETE FROM canary"),
        "source.query has more than one statement",
    )
    .await;
    check(
        |config| config.rows = query("DELETE FROM canary RETURNING *"),
        "query failed",
    )
    .await;
    check(
        |config| config.filter = Some("1); DELETE FROM canary; --".into()),
        "source.filter has",
    )
    .await;
}

#[tokio::test]
async fn values_without_an_exact_place_in_the_order_stop_the_read() {
    check(
        |config| config.cursor = vec!["r".into()],
        "column \"r\" holds 1.5 in the row with key {\"id\":1}",
    )
    .await;
}

#[tokio::test]
async fn a_missing_file_and_a_file_of_another_kind_are_told_apart() {
    let other = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        other.path(),
        "not a database, but long enough to be looked at".repeat(40),
    )
    .unwrap();
    let file = other.path().to_owned();
    check(
        |config| config.connection = Connection::Sqlite { file },
        "the file in app setting ORDERS_DB is not an SQLite database",
    )
    .await;
    let file = other.path().join("missing");
    check(
        |config| config.connection = Connection::Sqlite { file },
        "the database file in app setting ORDERS_DB cannot be opened",
    )
    .await;
}

#[tokio::test]
async fn a_locked_database_is_unreachable_for_now() {
    let mut fixture = Fixture::sqlite(SCHEMA).await;
    fixture.run("BEGIN EXCLUSIVE").await;
    let found = failure(&fixture.table("canary", &["id"], &["id"])).await;
    assert_eq!(
        found,
        "database unreachable: ORDERS_DB is locked by a writer"
    );
}

#[tokio::test]
async fn a_changed_schema_is_verified_again() {
    let mut fixture = Fixture::sqlite(SCHEMA).await;
    let source = open(&fixture.table("canary", &["updated_at"], &["id"]));
    crate::fixture::read_all(source.as_ref(), 10, 1000).await;
    fixture
        .run("ALTER TABLE canary RENAME COLUMN updated_at TO changed")
        .await;
    let error = source.last(None).await.unwrap_err().to_string();
    assert!(error.contains("\"updated_at\" does not exist"), "{error}");
}
