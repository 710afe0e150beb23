//! What only PostgreSQL is asked to keep: its values, its names, its plans, its rights.

#[path = "postgres/changes.rs"]
mod changes;
#[path = "postgres/check.rs"]
mod check;
#[path = "postgres/late.rs"]
mod late;
#[path = "postgres/plans.rs"]
mod plans;
#[path = "postgres/property.rs"]
mod property;
#[path = "postgres/values.rs"]
mod values;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use dbtick::config::{Connection, Rows, SourceConfig};
use dbtick::model::page::PageWriter;
use dbtick::model::position::{Position, Scalar};
use serde_json::Value;
use sqlx::postgres::PgConnection;

use crate::fixture::{
    Engine, Fixture, MANY_BYTES, Writer, column, failure, find, open, postgres_connection, read,
};
use crate::numbers;

impl Fixture {
    /// A table `t` with an `id`, one more column, and rows of these literals in this order.
    async fn one_column(&mut self, sql_type: &str, literals: &[&str]) {
        let rows: Vec<_> = (1..)
            .zip(literals)
            .map(|(id, literal)| format!("INSERT INTO t VALUES ({id}, {literal});"))
            .collect();
        self.run(&format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v {sql_type}); {}",
            rows.concat()
        ))
        .await;
    }

    fn in_schema(&self, schema: &str, table: &str, cursor: &[&str], key: &[&str]) -> SourceConfig {
        let mut config = self.table(table, cursor, key);
        config.rows = Rows::Table {
            schema: Some(schema.to_owned()),
            table: table.to_owned(),
        };
        config
    }

    /// As a role that may do no more than it was granted.
    fn as_role(&self, role: &str, mut config: SourceConfig) -> SourceConfig {
        let Connection::Postgres(server) = &config.connection else {
            unreachable!("a fixture of PostgreSQL");
        };
        config.connection = postgres_connection(server.port, &server.database, role, "none");
        config
    }

    fn postgres(&mut self) -> &mut PgConnection {
        match &mut self.writer {
            Writer::Postgres(writer) => writer,
            _ => unreachable!("a fixture of PostgreSQL"),
        }
    }
}

#[tokio::test]
async fn names_are_found_exactly_along_the_search_path() {
    let engine = Engine::postgres().await;
    let mut fixture = engine
        .fixture(
            "CREATE SCHEMA \"Sales\"; CREATE SCHEMA other;
             CREATE TABLE \"Sales\".\"Orders\" (\"Id\" int PRIMARY KEY); INSERT INTO \"Sales\".\"Orders\" VALUES (1);
             CREATE TABLE other.orders (id int PRIMARY KEY); INSERT INTO other.orders VALUES (2);
             CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders VALUES (3);",
        )
        .await;
    let sales = fixture.in_schema("Sales", "Orders", &["Id"], &["Id"]);
    assert_eq!(column(&sales, 1, "Id").await, numbers(1..=1));
    let other = fixture.in_schema("other", "orders", &["id"], &["id"]);
    assert_eq!(column(&other, 1, "id").await, numbers(2..=2));
    let plain = fixture.table("orders", &["id"], &["id"]);
    assert_eq!(column(&plain, 1, "id").await, numbers(3..=3));
    fixture
        .run("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = other, public', current_database()); END $$")
        .await;
    assert_eq!(column(&plain, 1, "id").await, numbers(2..=2));
    for (schema, table, expect) in [
        (
            None,
            "Orders",
            "table \"Orders\" does not exist in the database; did you mean \"orders\"?",
        ),
        (
            Some("Sales"),
            "orders",
            "table \"orders\" does not exist in schema \"Sales\"; did you mean \"Orders\"?",
        ),
        (Some("sales"), "Orders", "there is no table at all"),
    ] {
        let mut config = fixture.table(table, &["id"], &["id"]);
        config.rows = Rows::Table {
            schema: schema.map(str::to_owned),
            table: table.to_owned(),
        };
        let found = failure(&config).await;
        assert!(found.contains(expect), "{found}");
    }
}

#[tokio::test]
async fn partitions_inheritance_and_views_are_read_like_tables() {
    let engine = Engine::postgres().await;
    let fixture = engine
        .fixture(
            "CREATE TABLE part (id int, at timestamptz NOT NULL, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);
             CREATE TABLE part_a PARTITION OF part FOR VALUES FROM (MINVALUE) TO ('2026-01-01');
             CREATE TABLE part_b PARTITION OF part FOR VALUES FROM ('2026-01-01') TO (MAXVALUE);
             INSERT INTO part SELECT i, '2025-12-31 23:59:00Z'::timestamptz + i * interval '1 s' FROM generate_series(1, 100) i;
             CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child () INHERITS (parent);
             INSERT INTO parent VALUES (1), (3); INSERT INTO child VALUES (2);
             CREATE MATERIALIZED VIEW mat AS SELECT * FROM parent;
             CREATE VIEW v AS SELECT at, id, id::text || '!' AS said FROM part WHERE id <= 50;",
        )
        .await;
    let part = fixture.table("part", &["at"], &["id"]);
    assert_eq!(column(&part, 7, "id").await, numbers(1..=100));
    for table in ["parent", "mat"] {
        let config = fixture.table(table, &["id"], &["id"]);
        assert_eq!(column(&config, 1, "id").await, numbers(1..=3), "{table}");
    }
    let view = fixture.table("v", &["at"], &["id"]);
    assert_eq!(column(&view, 20, "id").await, numbers(1..=50));
}

#[tokio::test]
async fn the_syntax_of_postgres_is_taken_in_queries_and_filters() {
    let engine = Engine::postgres().await;
    let fixture = engine
        .fixture(
            "CREATE TABLE t (id int PRIMARY KEY, j jsonb, s text);
             INSERT INTO t VALUES (1, '{\"a\":1}', E'it\\'s'), (2, '{\"b\":1}', 'x;)')",
        )
        .await;
    for (filter, expected) in [
        (r"s = E'it\'s' -- first", [1]),
        ("s = $q$x;)$q$", [2]),
        ("j ? 'a'", [1]),
        ("j @> '{\"b\":1}'::jsonb /* outer /* inner */ ; */", [2]),
        ("(ARRAY[1,2])[2] = id", [2]),
    ] {
        let mut config = fixture.table("t", &["id"], &["id"]);
        config.filter = Some(filter.to_owned());
        assert_eq!(
            column(&config, 1, "id").await,
            expected.map(Value::from),
            "{filter}"
        );
    }
    let joined = fixture.query(
        "WITH big AS MATERIALIZED (SELECT id, s::varchar FROM t WHERE id > $$0$$::int)
         SELECT big.id, count(*) OVER () AS n FROM big JOIN t USING (id); -- done",
        &["id"],
        &["id"],
    );
    assert_eq!(column(&joined, 1, "n").await, ["2", "2"].map(Value::from));
    let twice = fixture.query("SELECT a.id, b.id FROM t a, t b", &["id"], &["id"]);
    let found = failure(&twice).await;
    assert!(found.contains("two columns named \"id\""), "{found}");
}

#[tokio::test]
async fn a_function_that_writes_is_refused() {
    let engine = Engine::postgres().await;
    let mut fixture = engine
        .fixture(
            "CREATE TABLE canary (id int PRIMARY KEY); INSERT INTO canary VALUES (1);
             CREATE FUNCTION eat() RETURNS bool LANGUAGE sql AS 'DELETE FROM canary; SELECT true';
             CREATE SEQUENCE s",
        )
        .await;
    let mut filtered = fixture.table("canary", &["id"], &["id"]);
    filtered.filter = Some("eat()".into());
    let configs = [
        filtered,
        fixture.query("SELECT id, eat() FROM canary", &["id"], &["id"]),
        fixture.query("SELECT nextval('s') AS id", &["id"], &["id"]),
    ];
    let at = Position::new(vec![Scalar::Integer(1)], vec![Scalar::Integer(1)]);
    for config in configs {
        let found = failure(&config).await;
        assert!(found.contains("only ever read"), "{found}");
        let found = find(open(&config).as_ref(), &at).await.unwrap_err();
        assert!(found.to_string().contains("only ever read"), "{found}");
    }
    let hidden = "WITH w AS (DELETE FROM canary RETURNING id) SELECT id FROM w";
    let found = failure(&fixture.query(hidden, &["id"], &["id"])).await;
    assert!(found.contains("query failed"), "{found}");
    assert_eq!(fixture.count("canary").await, 1);
}

/// S12: by a superuser, who may do everything else. (Functions of the server that act outside of any
/// transaction, such as those for large objects before version 16, are named by `check`; see SECURITY.md.)
#[tokio::test]
async fn nothing_that_a_query_or_filter_can_say_writes() {
    let engine = Engine::postgres().await;
    let mut fixture = engine
        .fixture(
            "CREATE TABLE canary (id int PRIMARY KEY); INSERT INTO canary VALUES (1);
             CREATE FUNCTION eat() RETURNS bool LANGUAGE sql AS 'DELETE FROM canary; SELECT true';
             CREATE SEQUENCE s",
        )
        .await;
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let file = directory.path().join("written");
    let file_name = file.display();
    for query in [
        "SELECT id FROM canary; DELETE FROM canary".to_owned(),
        "DELETE FROM canary RETURNING id".to_owned(),
        "INSERT INTO canary VALUES (2) RETURNING id".to_owned(),
        "SELECT id INTO made FROM canary".to_owned(),
        "CREATE TABLE made AS SELECT id FROM canary".to_owned(),
        "SELECT id FROM canary FOR UPDATE".to_owned(),
        "TRUNCATE canary".to_owned(),
        "DO $$ BEGIN DELETE FROM canary; END $$".to_owned(),
        "EXPLAIN ANALYZE DELETE FROM canary".to_owned(),
        "COPY canary TO PROGRAM 'cat >/dev/null'".to_owned(),
        format!("COPY canary TO '{file_name}'"),
        format!("COPY (SELECT id FROM canary) TO PROGRAM 'touch {file_name}'"),
        "SELECT setval('s', 99) AS id".to_owned(),
        "SELECT nextval('s') AS id".to_owned(),
        "SELECT 1 AS id WHERE query_to_xml('DELETE FROM canary', true, true, '') IS NULL"
            .to_owned(),
        "SELECT id FROM canary) AS q; DELETE FROM canary; SELECT * FROM (SELECT id FROM canary"
            .to_owned(),
        "SELECT id FROM canary -- $1\n) AS q; DELETE FROM canary --".to_owned(),
        "SELECT id FROM canary WHERE E'\\'); DELETE FROM canary; --' = ''".to_owned(),
    ] {
        let config = fixture.query(&query, &["id"], &["id"]);
        let found = read(open(&config).as_ref(), None, 10, MANY_BYTES).await;
        // The last one is what it looks like: a query with a strange text in it.
        assert!(found.is_err() || query.contains("= ''"), "{query}");
    }
    for filter in [
        "id = 1; DELETE FROM canary",
        "true) AND eat() AND (true",
        "eat()",
        "EXISTS (DELETE FROM canary RETURNING id)",
        "id = (SELECT nextval('s'))",
        "set_config('transaction_read_only', 'off', false) = 'off' AND eat()",
    ] {
        let mut config = fixture.table("canary", &["id"], &["id"]);
        config.filter = Some(filter.to_owned());
        let found = read(open(&config).as_ref(), None, 10, MANY_BYTES).await;
        assert!(found.is_err(), "{filter}");
    }
    // What it does to its session ends with the read.
    let patient = "SELECT id, CASE current_setting('default_transaction_read_only') \
         WHEN 'on' THEN set_config('default_transaction_read_only', 'off', false) ELSE eat()::text END AS x FROM canary";
    let source = open(&fixture.query(patient, &["id"], &["id"]));
    for _ in 0..3 {
        let page = read(source.as_ref(), None, 10, MANY_BYTES).await.unwrap();
        assert_eq!(page.page.len(), 1);
    }
    assert_eq!(fixture.count("canary").await, 1);
    assert_eq!(fixture.count("s WHERE is_called").await, 0, "the sequence");
    assert_eq!(fixture.count("pg_class WHERE relname = 'made'").await, 0);
    assert!(!file.exists());
}

#[tokio::test]
async fn a_missing_right_is_named_with_the_grant() {
    let engine = Engine::postgres().await;
    let mut fixture = engine
        .fixture("CREATE ROLE reader LOGIN; CREATE TABLE t (id int PRIMARY KEY, d text)")
        .await;
    let config = fixture.as_role("reader", fixture.table("t", &["id"], &["id"]));
    let found = failure(&config).await;
    assert!(found.contains("permission denied for table t"), "{found}");
    assert!(
        found.contains("GRANT SELECT ON \"public\".\"t\" TO <user>"),
        "{found}"
    );
    fixture.run("GRANT SELECT ON t TO reader").await;
    assert!(
        read(open(&config).as_ref(), None, 1, MANY_BYTES)
            .await
            .is_ok()
    );
}

/// Its default order is that of bytes: an index needs no collation to be ours.
#[tokio::test]
async fn a_database_in_sql_ascii_holds_any_bytes() {
    let engine = Engine::postgres().await;
    let mut fixture = engine.fixture("CREATE TABLE canary (id int)").await;
    fixture
        .run("CREATE DATABASE raw ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
        .await;
    let Engine::Postgres(server) = &engine else {
        unreachable!("a fixture of PostgreSQL");
    };
    server
        .sql_in(
            "raw",
            "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE INDEX i ON t (v, id);
             INSERT INTO t VALUES (1, E'\\xff'), (2, 'é');",
        )
        .await;
    let mut config = fixture.table("t", &["id"], &["id"]);
    config.connection = postgres_connection(server.port, "raw", "postgres", "none");
    assert_eq!(
        column(&config, 1, "v").await,
        [serde_json::json!({"base64": "/w=="}), Value::from("é")]
    );
    config.cursor = vec!["v".into()];
    let description = open(&config).describe().await.unwrap();
    let index = description.findings.iter().find(|f| f.subject == "index");
    // The last row in order has no position, and check says so.
    assert!(index.is_none(), "{index:?}");
    let found = failure(&config).await;
    assert!(found.contains("no exact place in the order"), "{found}");
    server.sql_in("raw", "DELETE FROM t WHERE id = 1").await;
    let description = open(&config).describe().await.unwrap();
    let index = description.findings.iter().find(|f| f.subject == "index");
    assert!(
        index.unwrap().text.contains("range of the index \"i\""),
        "{index:?}"
    );
}

/// A5. Each row takes the server a while, and fills its buffer, so that they come one by one.
#[tokio::test]
async fn a_page_that_fills_slowly_is_closed_after_its_wait_and_loses_no_row() {
    const ROWS: i64 = 12;
    let engine = Engine::postgres().await;
    let mut fixture = engine
        .fixture(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, note text);
             INSERT INTO t SELECT i, repeat('n', 20000) FROM generate_series(1, {ROWS}) i"
        ))
        .await;
    // Nothing is sorted, which would wait for the last row.
    fixture
        .run(
            "DO $$ BEGIN
                 EXECUTE format('ALTER DATABASE %I SET enable_sort = off', current_database());
                 EXECUTE format('ALTER DATABASE %I SET enable_seqscan = off', current_database());
             END $$",
        )
        .await;
    let mut config = fixture.table("t", &["id"], &["id"]);
    config.filter = Some("pg_sleep(0.2)::text = ''".to_owned());
    let source = open(&config);
    let wait = Duration::from_millis(700);
    let writer = PageWriter::new("p", 100, MANY_BYTES);
    let first = source.read(None, writer, wait).await.unwrap();
    let count = i64::try_from(first.page.len()).unwrap();
    assert!((1..ROWS).contains(&count), "{count} rows in {wait:?}");
    assert!(!first.end, "more rows are behind it");
    let last = first.page.last_position();
    let rest = read(source.as_ref(), last, 100, MANY_BYTES).await.unwrap();
    let ids = [&first, &rest].map(|read| {
        read.page
            .events()
            .iter()
            .map(|event| event.position.key()[0].clone())
    });
    let expected = (1..=ROWS).map(|id| Scalar::Integer(id.into()));
    assert!(ids.into_iter().flatten().eq(expected));
}
