//! What is seen of rows that commit late.

#[path = "late/judged.rs"]
mod judged;
#[path = "late/locks.rs"]
mod locks;

use std::collections::BTreeSet;

use dbtick::config::{Deletes, SourceConfig, Tombstones};
use dbtick::model::late::{Highest, Sight, Witness};
use dbtick::model::position::Position;
use dbtick::source::{ReadPage, Source};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor};

use crate::fixture::{Engine, Fixture, MANY_BYTES, mysql_connection, open, read};

async fn look(source: &dyn Source, known: &BTreeSet<Witness>) -> Sight {
    source.look(known).await.unwrap()
}

fn nobody() -> BTreeSet<Witness> {
    BTreeSet::new()
}

/// A second client of the fixture's database.
async fn client(engine: &Engine, fixture: &mut Fixture) -> MySqlConnection {
    let database: String = sqlx::query_scalar("SELECT DATABASE()")
        .fetch_one(fixture.mysql())
        .await
        .unwrap();
    let Engine::MariaDb(server) = engine else {
        unreachable!("these are tests of MariaDB")
    };
    server.connect(&database).await
}

async fn run(client: &mut MySqlConnection, sql: &str) {
    client.execute(AssertSqlSafe(sql.to_owned())).await.unwrap();
}

/// Like a tick does it: each page after a look.
async fn sweep(source: &dyn Source, after: Option<&Position>, rows: usize) -> ReadPage {
    look(source, &nobody()).await;
    read(source, after, rows, MANY_BYTES).await.unwrap()
}

fn shown<'a>(places: impl IntoIterator<Item = &'a Position>) -> Vec<String> {
    places.into_iter().map(ToString::to_string).collect()
}

fn in_flight(page: &ReadPage) -> Vec<String> {
    shown(&page.survey.in_flight)
}

fn delivered(page: &ReadPage) -> Vec<String> {
    shown(page.page.events().iter().map(|event| &event.position))
}

fn witnesses(page: &ReadPage) -> BTreeSet<Witness> {
    page.survey.in_flight.iter().map(Witness::row).collect()
}

const ROWS: &str = "CREATE TABLE t (id INT PRIMARY KEY, c INT NOT NULL, k VARCHAR(9) COLLATE utf8mb4_general_ci NOT NULL, shown INT NOT NULL DEFAULT 1, INDEX (c, id));
    CREATE TABLE gone (id INT NOT NULL, c INT NOT NULL, PRIMARY KEY (c, id));
    CREATE VIEW v AS SELECT * FROM t;
    INSERT INTO t (id, c, k) VALUES (1, 10, '1'), (2, 20, '2'), (3, 30, '3');";

/// By a table, a view, a query, a filter, a key that no index has in our order, and beside tombstones.
fn forms(fixture: &Fixture) -> Vec<(&'static str, SourceConfig)> {
    let mut filtered = fixture.table("t", &["c"], &["id"]);
    filtered.filter = Some("shown = 1".into());
    let mut buried = fixture.table("t", &["c"], &["id"]);
    buried.deletes = Deletes::Tombstones(Tombstones {
        schema: None,
        table: "gone".into(),
        cursor: vec!["c".into()],
        key: vec!["id".into()],
    });
    vec![
        ("table", fixture.table("t", &["c"], &["id"])),
        ("view", fixture.table("v", &["c"], &["id"])),
        ("query", fixture.query("SELECT * FROM t", &["c"], &["id"])),
        ("filter", filtered),
        ("text", fixture.table("t", &["c"], &["k"])),
        ("tombstones", buried),
    ]
}

#[tokio::test]
async fn uncommitted_rows_are_in_flight_until_their_transaction_ends() {
    let engine = super::engine().await;
    for end in ["COMMIT", "ROLLBACK"] {
        let mut fixture = engine.fixture(ROWS).await;
        let mut other = client(&engine, &mut fixture).await;
        for (form, config) in forms(&fixture) {
            let source = open(&config);
            let source = source.as_ref();
            assert!(
                in_flight(&sweep(source, None, 10).await).is_empty(),
                "{form}"
            );
            // A row that is new, and one whose cursor moves.
            let write = "START TRANSACTION; INSERT INTO t (id, c, k) VALUES (4, 25, '4'); UPDATE t SET c = 28 WHERE id = 1";
            run(&mut other, write).await;
            for _ in 0..2 {
                let page = sweep(source, None, 10).await;
                assert_eq!(in_flight(&page), ["25 (4)", "28 (1)"], "{form}");
                assert_eq!(page.survey.up_to, None, "{form}");
                assert_eq!(delivered(&page), ["10 (1)", "20 (2)", "30 (3)"], "{form}");
            }
            let page = sweep(source, None, 2).await;
            assert!(
                in_flight(&page).is_empty(),
                "{form}: they are behind the page"
            );
            let next = page.page.last_position();
            let page = sweep(source, next, 1).await;
            assert_eq!(in_flight(&page), ["25 (4)", "28 (1)"], "{form}");

            let known = witnesses(&page);
            assert_eq!(look(source, &known).await.rows_in_flight, known, "{form}");
            run(&mut other, end).await;
            assert!(
                look(source, &known).await.rows_in_flight.is_empty(),
                "{form}"
            );
            let page = sweep(source, None, 10).await;
            assert!(in_flight(&page).is_empty(), "{form} {end}");
            assert_eq!(page.page.len(), if end == "COMMIT" { 4 } else { 3 });
            run(
                &mut other,
                "DELETE FROM t WHERE id = 4; UPDATE t SET c = 10 WHERE id = 1",
            )
            .await;
        }
    }
}

#[tokio::test]
async fn rows_that_a_filter_hides_are_not_waited_for() {
    let engine = super::engine().await;
    let mut fixture = engine.fixture(ROWS).await;
    let mut other = client(&engine, &mut fixture).await;
    run(
        &mut other,
        "START TRANSACTION; INSERT INTO t VALUES (4, 25, '4', 0), (5, 26, '5', 1)",
    )
    .await;
    let (_, config) = forms(&fixture).remove(3);
    let page = sweep(open(&config).as_ref(), None, 10).await;
    assert_eq!(in_flight(&page), ["26 (5)"]);
}

#[tokio::test]
async fn a_tombstone_in_flight_is_told_from_the_row_at_its_place() {
    let engine = super::engine().await;
    let mut fixture = engine.fixture(ROWS).await;
    let mut other = client(&engine, &mut fixture).await;
    let (_, config) = forms(&fixture).pop().unwrap();
    let source = open(&config);
    run(
        &mut other,
        "START TRANSACTION; DELETE FROM t WHERE id = 2; INSERT INTO gone VALUES (2, 20)",
    )
    .await;
    let page = sweep(source.as_ref(), None, 10).await;
    assert_eq!(in_flight(&page), ["20 (2)"]);
    assert_eq!(delivered(&page), ["10 (1)", "20 (2)", "30 (3)"]);
    let known = witnesses(&page);
    assert_eq!(look(source.as_ref(), &known).await.rows_in_flight, known);
    run(&mut other, "COMMIT").await;
    assert!(
        look(source.as_ref(), &known)
            .await
            .rows_in_flight
            .is_empty()
    );
    assert!(in_flight(&sweep(source.as_ref(), None, 10).await).is_empty());
}

#[tokio::test]
async fn a_survey_that_is_cut_says_how_far_it_came() {
    let engine = super::engine().await;
    let mut fixture = engine.fixture(ROWS).await;
    let mut other = client(&engine, &mut fixture).await;
    run(
        &mut other,
        "START TRANSACTION; INSERT INTO t (id, c, k) SELECT seq + 100, 15, seq + 100 FROM seq_1_to_3000",
    )
    .await;
    for (form, config) in forms(&fixture) {
        let source = open(&config);
        let page = sweep(source.as_ref(), None, 10).await;
        assert_eq!(delivered(&page), ["10 (1)", "20 (2)", "30 (3)"], "{form}");
        let found = page.survey.in_flight.len();
        assert!((1000..2000).contains(&found), "{form}: {found}");
        assert_eq!(
            page.survey.up_to.as_ref(),
            page.survey.in_flight.last(),
            "{form}"
        );
        // As far as the page itself goes, it was not cut.
        let page = sweep(source.as_ref(), None, 1).await;
        assert_eq!(delivered(&page), ["10 (1)"], "{form}");
        assert!(
            page.survey.up_to.is_none() && page.survey.in_flight.is_empty(),
            "{form}"
        );
    }
}

#[tokio::test]
async fn a_user_who_may_only_read_the_table_sees_rows_in_flight() {
    let engine = super::engine().await;
    let mut fixture = engine.fixture(ROWS).await;
    let database: String = sqlx::query_scalar("SELECT DATABASE()")
        .fetch_one(fixture.mysql())
        .await
        .unwrap();
    fixture
        .run(&format!(
            "CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'pw'; GRANT SELECT ON {database}.t TO reader@'127.0.0.1'"
        ))
        .await;
    let mut other = client(&engine, &mut fixture).await;
    run(
        &mut other,
        "START TRANSACTION; INSERT INTO t (id, c, k) VALUES (4, 25, '4')",
    )
    .await;
    let Engine::MariaDb(server) = &engine else {
        unreachable!()
    };
    let mut config = fixture.table("t", &["c"], &["id"]);
    config.connection = mysql_connection(server.port, &database, "reader", "pw");
    let source = open(&config);
    let sight = look(source.as_ref(), &nobody()).await;
    assert!(sight.writers.is_empty() && sight.epoch.unwrap().started.is_some());
    let Highest::Visible(Some(last)) = sight.bound.highest else {
        panic!("{:?}", sight.bound)
    };
    assert_eq!(last.to_string(), "30 (3)");
    let page = sweep(source.as_ref(), None, 10).await;
    assert_eq!(in_flight(&page), ["25 (4)"]);
}
