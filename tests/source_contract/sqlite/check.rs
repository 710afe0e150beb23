//! What `dbtick check` is told.

use dbtick::model::position::CursorKind;
use dbtick::source::{Description, Grade};

use crate::fixture::{Engine, open};

async fn describe(schema: &str, cursor: &str, key: &str) -> Description {
    let fixture = Engine::Sqlite.fixture(schema).await;
    let source = open(&fixture.table("t", &[cursor], &[key]));
    source.describe().await.unwrap()
}

fn grade(description: &Description, subject: &str) -> Option<(Grade, String)> {
    let found = description
        .findings
        .iter()
        .find(|finding| finding.subject == subject)?;
    Some((found.grade, found.text.clone()))
}

#[tokio::test]
async fn a_missing_index_is_named_with_the_statement_that_makes_it() {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, c TEXT); INSERT INTO t VALUES (1, '2026-01-01 10:00:00')";
    let found = describe(schema, "c", "id").await;
    assert!(found.server.starts_with("SQLite 3."));
    assert_eq!(
        found.columns,
        [("id".into(), "INTEGER".into()), ("c".into(), "TEXT".into())]
    );
    assert_eq!(found.cursor_kind, CursorKind::LocalTimestamp);
    let (index, text) = grade(&found, "index").unwrap();
    assert_eq!(index, Grade::Warn);
    let remedy = r#"CREATE INDEX "main"."t_c" ON "t" ("c" COLLATE BINARY)"#;
    assert!(text.ends_with(remedy), "{text}");
    let served = describe(&format!("{schema}; {remedy}"), "c", "id").await;
    assert_eq!(grade(&served, "index").unwrap().0, Grade::Pass);
    assert_eq!(grade(&served, "nulls").unwrap().0, Grade::Warn);
    assert_eq!(grade(&served, "time zone").unwrap().0, Grade::Warn);
    assert_eq!(grade(&served, "late commits").unwrap().0, Grade::Warn);
}

#[tokio::test]
async fn an_autoincrement_key_as_cursor_is_without_fault() {
    let found = describe(
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT)",
        "id",
        "id",
    )
    .await;
    assert!(
        found
            .findings
            .iter()
            .all(|finding| finding.grade == Grade::Pass),
        "{found:?}"
    );
    assert_eq!(found.cursor_kind, CursorKind::Integer);
}

#[tokio::test]
async fn ids_that_are_given_again_and_keys_that_are_not_unique_are_warned_about() {
    let found = describe("CREATE TABLE t (id INTEGER PRIMARY KEY)", "id", "id").await;
    assert_eq!(grade(&found, "late rows").unwrap().0, Grade::Warn);
    let found = describe("CREATE TABLE t (c INT NOT NULL, k INT NOT NULL)", "c", "k").await;
    assert_eq!(grade(&found, "key").unwrap().0, Grade::Warn);
}

#[tokio::test]
async fn cursors_of_text_and_queries_that_cut_off_rows_are_warned_about() {
    let schema =
        "CREATE TABLE t (id INTEGER PRIMARY KEY, c TEXT NOT NULL); INSERT INTO t VALUES (1, '8')";
    let (late, text) = grade(&describe(schema, "c", "id").await, "late rows").unwrap();
    assert_eq!(late, Grade::Warn);
    assert!(text.contains("'10' comes before '9'"), "{text}");

    let fixture = Engine::Sqlite
        .fixture("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        .await;
    for (query, expected) in [
        ("SELECT id FROM t", None),
        ("SELECT id FROM t ORDER BY id LIMIT 2", Some("LIMIT")),
        ("SELECT id FROM t UNION ALL SELECT id FROM t", Some("UNION")),
    ] {
        let source = open(&fixture.query(query, &["id"], &["id"]));
        let found = grade(&source.describe().await.unwrap(), "query");
        match expected {
            None => assert_eq!(found, None, "{query}"),
            Some(word) => assert!(
                found.is_some_and(|(_, text)| text.contains(word)),
                "{query}"
            ),
        }
    }
}
