//! What `dbtick check` is told.

use dbtick::config::SourceConfig;
use dbtick::model::position::CursorKind;
use dbtick::source::{Description, Grade};

use crate::fixture::{Engine, mysql_connection, open};
use crate::support::mariadb::MariaDb;

async fn describe(config: &SourceConfig) -> Description {
    open(config).describe().await.unwrap()
}

fn texts(description: &Description, subject: &str, grade: Grade) -> Vec<String> {
    let findings = description.findings.iter();
    findings
        .filter(|finding| finding.subject == subject && finding.grade == grade)
        .map(|finding| finding.text.clone())
        .collect()
}

#[track_caller]
fn assert_finding(description: &Description, subject: &str, grade: Grade, text: &str) {
    let found = texts(description, subject, grade);
    assert!(
        found.iter().any(|found| found.contains(text)),
        "{subject} {text}: {description:#?}"
    );
}

#[tokio::test]
async fn a_table_is_judged_by_its_schema_and_its_rights() {
    let engine = super::engine().await;
    let mut fixture = engine
        .fixture(
            "CREATE TABLE t (id INT PRIMARY KEY, created_at DATETIME NULL, ts TIMESTAMP(6) NOT NULL, n VARCHAR(9) COLLATE utf8mb4_general_ci, INDEX (n), UNIQUE (n(3)));
             INSERT INTO t VALUES (1, '2026-01-01', '2026-01-01', 'x')",
        )
        .await;
    let found = describe(&fixture.table("t", &["created_at"], &["id"])).await;
    assert!(found.server.starts_with("MariaDB 10."), "{}", found.server);
    assert_eq!(found.columns[1], ("created_at".into(), "datetime".into()));
    assert_eq!(found.cursor_kind, CursorKind::LocalTimestamp);
    assert_finding(&found, "server", Grade::Pass, "MariaDB");
    assert_finding(&found, "nulls", Grade::Warn, "\"created_at\" can be NULL");
    assert_finding(&found, "key", Grade::Pass, "");
    assert_finding(
        &found,
        "time zone",
        Grade::Warn,
        "datetime has no time zone",
    );
    assert_finding(&found, "late commits", Grade::Warn, "BOUNDED(1m): ");
    assert_finding(&found, "updates", Grade::Warn, "time of creation");
    assert_finding(&found, "rights", Grade::Warn, "ALL PRIVILEGES ON *.*");
    let index = texts(&found, "index", Grade::Warn).remove(0);
    let remedy = index.split_once("table: ").unwrap().1;
    assert!(
        remedy.starts_with("CREATE INDEX `t_created_at_id` ON"),
        "{remedy}"
    );
    fixture.run(remedy).await;
    let found = describe(&fixture.table("t", &["created_at"], &["id"])).await;
    assert_finding(
        &found,
        "index",
        Grade::Pass,
        "range of the index \"t_created_at_id\"",
    );

    let found = describe(&fixture.table("t", &["ts"], &["n"])).await;
    assert_eq!(found.cursor_kind, CursorKind::Timestamp);
    assert!(texts(&found, "time zone", Grade::Warn).is_empty());
    assert_finding(&found, "key", Grade::Warn, "nothing in the schema");
    assert_finding(&found, "index", Grade::Warn, "CREATE INDEX `t_ts` ON");

    let found = describe(&fixture.table("t", &["n"], &["id"])).await;
    assert_eq!(found.cursor_kind, CursorKind::Text);
    assert_finding(&found, "index", Grade::Warn, "COLLATE utf8mb4_nopad_bin");
    assert_finding(&found, "late rows", Grade::Warn, "'10' comes before '9'");
}

#[tokio::test]
async fn engines_replicas_queries_and_readers_are_told_apart() {
    let server = MariaDb::start().await;
    server
        .sql(
            "CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MyISAM; CREATE VIEW v AS SELECT * FROM t;
             CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO u SELECT seq FROM seq_1_to_1000; ANALYZE TABLE u;
             CREATE VIEW w AS SELECT id, id + 0 AS n FROM u;
             CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'pw';
             GRANT SELECT, SHOW VIEW ON main.* TO reader@'127.0.0.1';
             CREATE ROLE writer; GRANT INSERT ON main.t TO writer; CREATE USER clerk@'127.0.0.1' IDENTIFIED BY 'pw';
             GRANT SELECT ON main.* TO clerk@'127.0.0.1'; GRANT writer TO clerk@'127.0.0.1';
             SET DEFAULT ROLE writer FOR clerk@'127.0.0.1'; SET GLOBAL read_only = 1",
        )
        .await;
    let port = server.port;
    let engine = Engine::MariaDb(server);
    let fixture = engine.fixture("SELECT 1").await;
    let reader = |mut config: SourceConfig| {
        config.connection = mysql_connection(port, "main", "reader", "pw");
        config
    };
    // By its role.
    let mut clerk = fixture.table("t", &["id"], &["id"]);
    clerk.connection = mysql_connection(port, "main", "clerk", "pw");
    let found = describe(&clerk).await;
    assert_finding(&found, "rights", Grade::Warn, "INSERT ON main.t");
    let found = describe(&reader(fixture.table("t", &["id"], &["id"]))).await;
    assert_finding(&found, "engine", Grade::Warn, "MyISAM");
    assert_finding(&found, "rights", Grade::Pass, "nothing else");
    assert_finding(&found, "replica", Grade::Warn, "read-only");
    assert_finding(&found, "index", Grade::Pass, "PRIMARY");
    assert_eq!(found.cursor_kind, CursorKind::Integer);
    for (query, word) in [
        ("SELECT id FROM t ORDER BY id LIMIT 2", "LIMIT"),
        ("SELECT id FROM t UNION ALL SELECT id FROM t", "UNION"),
    ] {
        let found = describe(&reader(fixture.query(query, &["id"], &["id"]))).await;
        assert_finding(&found, "query", Grade::Warn, word);
    }
    let found = describe(&reader(fixture.query("SELECT id FROM u", &["id"], &["id"]))).await;
    assert!(texts(&found, "query", Grade::Warn).is_empty());
    assert_finding(&found, "index", Grade::Pass, "PRIMARY");
    let found = describe(&reader(fixture.table("w", &["id"], &["id"]))).await;
    assert_finding(&found, "index", Grade::Pass, "PRIMARY");
    let found = describe(&reader(fixture.table("w", &["n"], &["id"]))).await;
    assert_finding(&found, "index", Grade::Warn, "tables behind it");
}
