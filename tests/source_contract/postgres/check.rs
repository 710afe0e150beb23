//! What `dbtick check` is told.

use dbtick::config::SourceConfig;
use dbtick::model::position::CursorKind;
use dbtick::source::Grade;

use crate::fixture::{Engine, Fixture, open};

/// The first finding on a subject that has the grade.
async fn expect(config: &SourceConfig, grade: Grade, subject: &str, part: &str) {
    let description = open(config).describe().await.unwrap();
    let found = description.findings.iter().any(|finding| {
        (finding.grade, finding.subject) == (grade, subject) && finding.text.contains(part)
    });
    assert!(
        found,
        "{grade:?} {subject} {part}: {:#?}",
        description.findings
    );
}

async fn fixture(engine: &Engine, schema: &str) -> Fixture {
    engine
        .fixture(&format!("DROP TABLE IF EXISTS t CASCADE; {schema}"))
        .await
}

#[tokio::test]
async fn the_index_that_serves_a_page_is_named_or_the_one_that_would() {
    let engine = Engine::postgres().await;
    for rows in [0, 3, 20_000] {
        let schema = format!(
            "CREATE TABLE t (id int PRIMARY KEY, at timestamptz NOT NULL, d text NOT NULL);
             INSERT INTO t SELECT i, now() - i * interval '1 s', i FROM generate_series(1, {rows}) i; ANALYZE t"
        );
        let mut fixture = fixture(&engine, &schema).await;
        let config = fixture.table("t", &["at"], &["id"]);
        let remedy = r#"CREATE INDEX CONCURRENTLY "t_at_id" ON "public"."t" ("at", "id")"#;
        expect(&config, Grade::Warn, "index", remedy).await;
        fixture.run("CREATE INDEX only_at ON t (at)").await;
        expect(&config, Grade::Warn, "index", remedy).await;
        fixture.run(remedy).await;
        expect(&config, Grade::Pass, "index", "\"t_at_id\"").await;
        let query = fixture.query("SELECT * FROM t", &["at"], &["id"]);
        expect(&query, Grade::Pass, "index", "\"t_at_id\"").await;
        let text = fixture.table("t", &["d"], &["d"]);
        let remedy = r#"CREATE INDEX CONCURRENTLY "t_d" ON "public"."t" ("d" COLLATE "C")"#;
        expect(&text, Grade::Warn, "index", remedy).await;
        fixture.run(remedy).await;
        expect(&text, Grade::Pass, "index", "\"t_d\"").await;
    }
}

#[tokio::test]
async fn what_is_known_about_a_source_is_graded() {
    let engine = Engine::postgres().await;
    let mut fixture = fixture(
        &engine,
        "CREATE ROLE reader LOGIN; CREATE ROLE clerk LOGIN; CREATE ROLE maker LOGIN CREATEDB CREATEROLE;
         CREATE TABLE t (id int PRIMARY KEY, at timestamptz NOT NULL, local timestamp, day date NOT NULL, created_at timestamptz NOT NULL, s text UNIQUE, n int NOT NULL);
         CREATE UNIQUE INDEX ON t (n) WHERE n > 0; CREATE UNIQUE INDEX ON t (abs(n));
         GRANT SELECT ON t TO reader, clerk, maker; GRANT INSERT, DELETE ON t TO clerk; CREATE TABLE u (id int); GRANT UPDATE ON u TO clerk;
         CREATE VIEW v AS SELECT id, random() AS r FROM t;",
    )
    .await;
    let table = |cursor: &str, key: &str| fixture.table("t", &[cursor], &[key]);
    for (config, grade, subject, part) in [
        (table("at", "id"), Grade::Pass, "server", "PostgreSQL "),
        (table("at", "id"), Grade::Pass, "key", "no two rows"),
        (table("at", "id"), Grade::Pass, "nulls", "never NULL"),
        (
            table("at", "id"),
            Grade::Pass,
            "cursor",
            "\"at\" is timestamp with time zone",
        ),
        (
            table("at", "id"),
            Grade::Warn,
            "late commits",
            "BOUNDED(5s): nothing in the schema says who stamps \"at\"",
        ),
        (
            table("local", "id"),
            Grade::Warn,
            "time zone",
            "no time zone",
        ),
        (
            table("local", "id"),
            Grade::Warn,
            "nulls",
            "\"local\" can be NULL",
        ),
        (
            table("created_at", "id"),
            Grade::Warn,
            "updates",
            "sounds like",
        ),
        (
            table("s", "id"),
            Grade::Warn,
            "late rows",
            "'10' comes before '9'",
        ),
        (
            table("at", "s"),
            Grade::Warn,
            "key",
            "nothing in the schema",
        ),
        (
            table("at", "n"),
            Grade::Warn,
            "key",
            "nothing in the schema",
        ),
        (table("at", "id"), Grade::Warn, "rights", "superuser"),
        (
            fixture.as_role("reader", table("at", "id")),
            Grade::Pass,
            "rights",
            "may not write",
        ),
        (
            fixture.as_role("reader", table("at", "id")),
            Grade::Pass,
            "server",
            ", system ",
        ),
        (
            fixture.as_role("clerk", table("at", "id")),
            Grade::Warn,
            "rights",
            "REVOKE INSERT, DELETE",
        ),
        (
            fixture.as_role("clerk", fixture.query("SELECT id FROM t", &["id"], &["id"])),
            Grade::Warn,
            "rights",
            "may write to t and 1 others: REVOKE INSERT",
        ),
        (
            fixture.as_role("clerk", fixture.table("v", &["id"], &["id"])),
            Grade::Warn,
            "rights",
            "may write to t and 1 others: REVOKE INSERT",
        ),
        (
            fixture.as_role(
                "reader",
                fixture.query("SELECT id FROM t", &["id"], &["id"]),
            ),
            Grade::Pass,
            "rights",
            "may not write",
        ),
        (
            fixture.as_role("maker", table("at", "id")),
            Grade::Warn,
            "rights",
            "the user has CREATEROLE, CREATEDB",
        ),
        (
            fixture.table("v", &["id"], &["id"]),
            Grade::Warn,
            "query",
            "random",
        ),
        (
            fixture.query("SELECT * FROM t LIMIT 5", &["id"], &["id"]),
            Grade::Warn,
            "query",
            "LIMIT",
        ),
        (
            fixture.query("SELECT id FROM t UNION SELECT n FROM t", &["id"], &["id"]),
            Grade::Warn,
            "query",
            "UNION",
        ),
    ] {
        expect(&config, grade, subject, part).await;
    }
    let kind =
        |config: SourceConfig| async move { open(&config).describe().await.unwrap().cursor_kind };
    assert_eq!(kind(table("at", "id")).await, CursorKind::Timestamp);
    assert_eq!(kind(table("day", "id")).await, CursorKind::LocalTimestamp);
    assert_eq!(kind(table("n", "id")).await, CursorKind::Integer);
    fixture.run("ALTER TABLE t ENABLE ROW LEVEL SECURITY").await;
    let config = fixture.table("t", &["at"], &["id"]);
    expect(&config, Grade::Warn, "rights", "row level security").await;
}
