//! What is refused, and what a person is told.

use std::os::unix::fs::PermissionsExt;

use dbtick::config::SourceConfig;
use dbtick::source::SourceError;
use serde_json::json;

use crate::fixture::{Engine, Fixture, MANY_BYTES, column, failure, mysql_connection, open, read};
use crate::support::mariadb::{self, MariaDb};

const SCHEMA: &str = "CREATE TABLE canary (id INT PRIMARY KEY, f FLOAT, t TIME, e ENUM('b','a'), s SET('x'), j JSON, p POINT, long_text LONGTEXT);
    INSERT INTO canary VALUES (1, 0.1, '01:00:00', 'a', 'x', '{}', ST_GeomFromText('POINT(1 2)'), repeat('x', 1001))";

async fn told(fixture: &Fixture, change: impl FnOnce(&mut SourceConfig)) -> String {
    let mut config = fixture.table("canary", &["id"], &["id"]);
    change(&mut config);
    failure(&config).await
}

#[tokio::test]
async fn columns_without_an_exact_order_are_refused_with_a_remedy() {
    let engine = super::engine().await;
    let fixture = engine.fixture(SCHEMA).await;
    for (column, remedy) in [
        (
            "f",
            "\"f\" is float, which has no exact place in the order of a cursor or key; make it DOUBLE",
        ),
        ("t", "use a DATETIME or TIMESTAMP column"),
        ("e", "its order is that of its declaration"),
        ("s", "its order is that of its declaration"),
        ("j", "use a column with one value of it"),
        ("p", "use a column of another type"),
        ("long_text", "a cursor or key is made of numbers"),
    ] {
        for (cursor, key) in [(column, "id"), ("id", column)] {
            let found = told(&fixture, |config| {
                config.cursor = vec![cursor.into()];
                config.key = vec![key.into()];
            })
            .await;
            assert!(found.contains(remedy), "{column}: {found}");
        }
    }
}

#[tokio::test]
async fn queries_that_cannot_be_read_say_why() {
    let engine = super::engine().await;
    let mut fixture = engine.fixture(SCHEMA).await;
    for (query, expected) in [
        (
            "SELECT id, id FROM canary",
            "selects two columns of one name: Duplicate column name 'id'",
        ),
        ("SELECT id, nothing FROM canary", "Unknown column 'nothing'"),
        ("SELECT id FROM nothing", "nothing' doesn't exist"),
        ("SELEC id FROM canary", "syntax"),
        ("SELECT id FROM canary WHERE id = @x", "has a placeholder"),
        ("SELECT id FROM canary WHERE id = ?", "has a placeholder"),
        ("SELECT id FROM canary /*! WHERE 1 = 0 */", "comment"),
        (
            "SELECT id FROM canary) AS q, (DELETE FROM canary",
            "parenthesis",
        ),
        (
            "SELECT id FROM canary WHERE e = 'x\\'); DELETE FROM canary; -- '",
            "",
        ),
    ] {
        let config = fixture.query(query, &["id"], &["id"]);
        let read = read(open(&config).as_ref(), None, 10, MANY_BYTES).await;
        match read {
            Err(error) => assert!(error.to_string().contains(expected), "{query}: {error}"),
            Ok(page) => assert!(expected.is_empty() && page.page.len() <= 1, "{query}"),
        }
        assert_eq!(fixture.count("canary").await, 1, "{query}");
    }
}

/// S12: by a user who may do everything else, and into tables without transactions too.
#[tokio::test]
async fn nothing_that_a_query_or_filter_can_say_writes() {
    let engine = super::engine().await;
    let mut fixture = engine
        .fixture(
            "CREATE TABLE canary (id INT PRIMARY KEY); INSERT INTO canary VALUES (1);
             CREATE TABLE old_canary (id INT PRIMARY KEY) ENGINE=MyISAM; INSERT INTO old_canary VALUES (1);
             CREATE TABLE aria_canary (id INT PRIMARY KEY) ENGINE=Aria; INSERT INTO aria_canary VALUES (1);
             CREATE SEQUENCE s;
             CREATE FUNCTION eat() RETURNS INT MODIFIES SQL DATA BEGIN DELETE FROM canary; RETURN 1; END;
             CREATE FUNCTION eat_old() RETURNS INT MODIFIES SQL DATA BEGIN DELETE FROM old_canary; RETURN 1; END;
             CREATE FUNCTION eat_aria() RETURNS INT MODIFIES SQL DATA BEGIN DELETE FROM aria_canary; RETURN 1; END;
             CREATE FUNCTION unlock_and_eat() RETURNS INT MODIFIES SQL DATA BEGIN
                 IF @@tx_read_only THEN SET SESSION tx_read_only = 0; ELSE DELETE FROM canary; END IF; RETURN 1; END",
        )
        .await;
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let file = directory.path().join("written");
    let file_name = file.display();
    for query in [
        "SELECT id FROM canary; DELETE FROM canary".to_owned(),
        "DELETE FROM canary RETURNING id".to_owned(),
        "INSERT INTO canary (id) VALUES (2) RETURNING id".to_owned(),
        "REPLACE INTO canary (id) VALUES (2) RETURNING id".to_owned(),
        format!("SELECT id INTO OUTFILE '{file_name}' FROM canary"),
        format!("SELECT id FROM canary INTO OUTFILE '{file_name}'"),
        format!("SELECT id FROM canary INTO DUMPFILE '{file_name}'"),
        "SELECT NEXTVAL(s) AS id".to_owned(),
        "SELECT SETVAL(s, 99) AS id".to_owned(),
        "SELECT id, eat() AS x FROM canary".to_owned(),
        "SELECT id, eat_old() AS x FROM canary".to_owned(),
        "SELECT id, eat_aria() AS x FROM canary".to_owned(),
        "CALL eat()".to_owned(),
        "SET SESSION TRANSACTION READ WRITE".to_owned(),
        "SELECT id FROM canary) AS q; DELETE FROM canary; SELECT * FROM (SELECT id FROM canary"
            .to_owned(),
        "SELECT id FROM canary /*!50000 ; DELETE FROM canary */".to_owned(),
        "SELECT id FROM canary /*M!100000 ; DELETE FROM canary */".to_owned(),
    ] {
        let config = fixture.query(&query, &["id"], &["id"]);
        let found = read(open(&config).as_ref(), None, 10, MANY_BYTES).await;
        assert!(found.is_err(), "{query}");
    }
    for filter in [
        "id = 1; DELETE FROM canary",
        "1) AND eat() AND (1",
        "eat()",
        "eat_old()",
        "eat_aria()",
    ] {
        let mut config = fixture.table("canary", &["id"], &["id"]);
        config.filter = Some(filter.to_owned());
        let found = read(open(&config).as_ref(), None, 10, MANY_BYTES).await;
        assert!(found.is_err(), "{filter}");
    }
    // What it does to its session, if it can at all, ends with the read.
    let source = open(&fixture.query(
        "SELECT id, unlock_and_eat() AS x FROM canary",
        &["id"],
        &["id"],
    ));
    for _ in 0..3 {
        drop(read(source.as_ref(), None, 10, MANY_BYTES).await);
    }
    // Whoever only reads keeps nobody from writing.
    let locks = open(&fixture.query("SELECT id FROM canary FOR UPDATE", &["id"], &["id"]));
    drop(read(locks.as_ref(), None, 10, MANY_BYTES).await);
    fixture
        .run("SET innodb_lock_wait_timeout = 1; UPDATE canary SET id = 1")
        .await;
    for canary in ["canary", "old_canary", "aria_canary"] {
        assert_eq!(fixture.count(canary).await, 1, "{canary}");
    }
    assert_eq!(
        fixture.count("s WHERE next_not_cached_value <> 1").await,
        0,
        "the sequence"
    );
    assert!(!file.exists());
}

/// A session whose defaults are the worst, and quotes of every kind in the filter.
#[tokio::test]
async fn filters_mean_what_they_say_whatever_the_server_is_told() {
    let server = MariaDb::with()
        .setting(
            "sql-mode",
            "ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,NO_ZERO_DATE",
        )
        .start()
        .await;
    let engine = Engine::MariaDb(server);
    let mut fixture = engine
        .fixture(
            "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(30));
             INSERT INTO t VALUES (1, 'it''s'), (2, '# -- /* ;'), (3, '0')",
        )
        .await;
    fixture
        .run("SET sql_mode = ''; INSERT INTO t VALUES (4, 'a\\\\')")
        .await;
    for (filter, expected) in [
        ("s = 'it\\'s' # the first", vec![1]),
        ("s = \"# -- /* ;\" -- the second", vec![2]),
        ("`s` = 'a\\\\' /* ; */", vec![4]),
        ("id = 3 || s = 'x'", vec![3]),
        ("id - 1 --1 = 1", vec![1]),
    ] {
        let mut config = fixture.table("t", &["id"], &["id"]);
        config.filter = Some(filter.into());
        let expected: Vec<_> = expected.into_iter().map(|id| json!(id)).collect();
        assert_eq!(column(&config, 1, "id").await, expected, "{filter}");
    }
}

#[tokio::test]
async fn a_missing_right_is_named_with_its_grant() {
    let server = MariaDb::start().await;
    server
        .sql(
            "CREATE TABLE t (id INT PRIMARY KEY, secret INT); INSERT INTO t VALUES (1, 2);
             CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'pw'; CREATE DATABASE other;
             GRANT SELECT ON other.* TO reader@'127.0.0.1'",
        )
        .await;
    let port = server.port;
    let engine = Engine::MariaDb(server);
    let fixture = engine.fixture("SELECT 1").await;
    let mut config = fixture.table("t", &["id"], &["id"]);
    config.connection = mysql_connection(port, "other", "reader", "pw");
    config.rows = dbtick::config::Rows::Table {
        schema: Some("main".into()),
        table: "t".into(),
    };
    let found = failure(&config).await;
    assert!(found.contains("SELECT command denied"), "{found}");
    assert!(found.contains("GRANT SELECT ON"), "{found}");
    let Engine::MariaDb(server) = &engine else {
        unreachable!()
    };
    server
        .sql("GRANT SELECT (id) ON main.t TO reader@'127.0.0.1'")
        .await;
    assert_eq!(column(&config, 1, "id").await, [json!(1)]);
    // Neither user nor password is ever shown.
    config.connection = mysql_connection(port, "other", mariadb::USER, "wrong-canary-password");
    let error = read(open(&config).as_ref(), None, 1, MANY_BYTES)
        .await
        .unwrap_err();
    assert!(matches!(error, SourceError::Mismatch { .. }), "{error:?}");
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
}

#[tokio::test]
async fn names_of_tables_are_compared_as_the_server_does() {
    for (setting, found) in [("0", false), ("1", true)] {
        let server = MariaDb::with()
            .setting("lower-case-table-names", setting)
            .start()
            .await;
        let engine = Engine::MariaDb(server);
        let fixture = engine
            .fixture("CREATE TABLE Orders (id INT PRIMARY KEY); INSERT INTO Orders VALUES (1)")
            .await;
        let config = fixture.table("ORDERS", &["id"], &["id"]);
        let read = read(open(&config).as_ref(), None, 1, MANY_BYTES).await;
        match read {
            Ok(page) => assert!(found && page.page.len() == 1),
            Err(error) => assert!(
                !found && error.to_string().contains("did you mean \"Orders\"?"),
                "{error}"
            ),
        }
        let exact = fixture.table("Orders", &["id"], &["id"]);
        assert_eq!(column(&exact, 1, "id").await, [json!(1)]);
    }
}
