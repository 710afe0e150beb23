//! What is seen of rows that commit late, where one writes at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use dbtick::clock::{Clock as _, SystemClock};
use dbtick::config::{LateMode, SourceConfig, StampedBy};
use dbtick::model::late::{Bound, Highest, Ordering, Protected, Sight, Survey, Sweep};
use dbtick::model::position::{Position, Scalar};
use dbtick::source::{Grade, Source};

use crate::fixture::{Engine, Fixture, MANY_BYTES, open, read};

const TIMES: &str = "CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, c TEXT NOT NULL);
    CREATE INDEX i ON t (c, id);";

async fn look(source: &dyn Source) -> Sight {
    source.look(&BTreeSet::new()).await.unwrap()
}

fn below(values: &[&str]) -> Bound {
    let text = |value: &&str| Scalar::Text((*value).to_owned());
    Bound {
        highest: Highest::Any,
        below: Some(values.iter().map(text).collect()),
    }
}

/// Where the checkpoint may stand after one sweep.
async fn settled(source: &dyn Source, low: Option<&Position>) -> Option<Position> {
    let sight = look(source).await;
    let mut sweep = Sweep::begin(low, &[], [], sight, Ordering::Visible);
    let page = read(source, low, 100, MANY_BYTES).await.unwrap();
    let places = page.page.events().iter().map(|event| &event.position);
    let seen = sweep.see(places, page.end, Survey::default());
    sweep.pass(&seen);
    sweep.known().low
}

fn stamped(mut config: SourceConfig) -> SourceConfig {
    config.late.stamped_by = Some(StampedBy::Database);
    config
}

#[tokio::test]
async fn the_newest_tick_stays_open_until_a_later_one_is_visible() {
    let mut fixture = Engine::Sqlite.fixture(TIMES).await;
    let source = open(&stamped(fixture.table("t", &["c"], &["id"])));
    assert_eq!(look(source.as_ref()).await.bound, below(&[]));
    fixture
        .run("INSERT INTO t VALUES ('b','10:00:01'),('m','10:00:02')")
        .await;
    assert_eq!(look(source.as_ref()).await.bound, below(&["10:00:02"]));
    let low = settled(source.as_ref(), None).await;
    assert_eq!(low.as_ref().unwrap().to_string(), "10:00:01 (b)");
    // From a transaction that began in that second.
    fixture.run("INSERT INTO t VALUES ('a','10:00:02')").await;
    let low = settled(source.as_ref(), low.as_ref()).await;
    assert_eq!(low.as_ref().unwrap().to_string(), "10:00:01 (b)");
    fixture.run("INSERT INTO t VALUES ('c','10:00:03')").await;
    let low = settled(source.as_ref(), low.as_ref()).await;
    assert_eq!(low.unwrap().to_string(), "10:00:02 (m)");
}

#[tokio::test]
async fn rows_that_are_gone_have_closed_their_ticks_all_the_same() {
    let mut fixture = Engine::Sqlite.fixture(TIMES).await;
    let source = open(&stamped(fixture.table("t", &["c"], &["id"])));
    assert_eq!(look(source.as_ref()).await.bound, below(&[]));
    fixture.run("INSERT INTO t VALUES ('m','10:00:02')").await;
    read(source.as_ref(), None, 10, MANY_BYTES).await.unwrap();
    fixture.run("DELETE FROM t").await;
    assert_eq!(look(source.as_ref()).await.bound, below(&["10:00:02"]));
    fixture.run("INSERT INTO t VALUES ('a','10:00:01')").await;
    assert_eq!(look(source.as_ref()).await.bound, below(&["10:00:02"]));
}

#[tokio::test]
async fn a_cursor_that_is_unique_has_no_ties() {
    for (schema, cursor, unique) in [
        (
            "CREATE TABLE t (id INTEGER PRIMARY KEY, c)",
            vec!["id"],
            true,
        ),
        ("CREATE TABLE t (id INT, c TEXT UNIQUE)", vec!["c"], true),
        (
            "CREATE TABLE t (id INT, c TEXT); CREATE UNIQUE INDEX u ON t (c, id)",
            vec!["c", "id"],
            true,
        ),
        (
            "CREATE TABLE t (id INT, c TEXT); CREATE UNIQUE INDEX u ON t (c, id)",
            vec!["c"],
            false,
        ),
        (
            "CREATE TABLE t (id INT, c TEXT); CREATE UNIQUE INDEX u ON t (c) WHERE id > 3",
            vec!["c"],
            false,
        ),
        (
            "CREATE TABLE u (id INTEGER PRIMARY KEY); CREATE VIEW t AS SELECT id FROM u",
            vec!["id"],
            false,
        ),
    ] {
        let fixture = Engine::Sqlite.fixture(schema).await;
        let source = open(&fixture.table("t", &cursor, &["id"]));
        let bound = look(source.as_ref()).await.bound;
        assert_eq!(bound == Bound::default(), unique, "{schema}");
    }
}

#[tokio::test]
async fn the_clock_is_that_of_the_database_and_the_window_that_of_the_plan() {
    let fixture = Engine::Sqlite.fixture(TIMES).await;
    let mut config = fixture.table("t", &["c"], &["id"]);
    let seconds = Duration::from_secs;
    for (mode, window) in [
        (LateMode::Auto, Some(seconds(5))),
        (LateMode::Window(seconds(9)), Some(seconds(9))),
        (LateMode::Settle(seconds(7)), Some(seconds(7))),
        (LateMode::Off, None),
    ] {
        config.late.mode = mode;
        let sight = look(open(&config).as_ref()).await;
        let age = SystemClock.now() - sight.now.unwrap();
        assert!(age.num_seconds().abs() < 10, "{age}");
        assert_eq!(sight.window, window, "{mode:?}");
        let covers_all = sight.bound == Bound::default();
        assert_eq!(covers_all, mode == LateMode::Off, "{mode:?}");
        assert_eq!((sight.epoch, sight.ceiling), (None, None));
    }
}

async fn judged(
    fixture: &Fixture,
    cursor: &str,
    by: Option<StampedBy>,
) -> (Protected, Grade, String) {
    let mut config = fixture.table("t", &[cursor], &["id"]);
    config.late.stamped_by = by;
    let found = open(&config).describe().await.unwrap();
    let grade = found.protection.unwrap().grade;
    let mut findings = found.findings.into_iter();
    let finding = findings.find(|finding| finding.subject == "late commits");
    let finding = finding.unwrap();
    (grade, finding.grade, finding.text)
}

#[tokio::test]
async fn the_grade_depends_on_who_stamps() {
    let fixture = Engine::Sqlite
        .fixture(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, plain TEXT, d TEXT DEFAULT CURRENT_TIMESTAMP, s TEXT);
             CREATE TRIGGER a AFTER INSERT ON t BEGIN UPDATE t SET s = datetime('now') WHERE id = NEW.id; END;
             CREATE TRIGGER b AFTER UPDATE ON t BEGIN UPDATE t SET s = datetime('now') WHERE id = NEW.id; END;",
        )
        .await;
    let bounded = Protected::Bounded(Duration::from_secs(5));
    for (cursor, by, grade, text) in [
        (
            "id",
            None,
            Protected::Proven,
            "PROVEN: the database gives a row its cursor",
        ),
        ("s", None, Protected::Proven, "PROVEN: "),
        (
            "d",
            None,
            bounded,
            "BOUNDED(5s): writers may override the default",
        ),
        (
            "plain",
            None,
            bounded,
            "BOUNDED(5s): nothing in the schema says",
        ),
        (
            "plain",
            Some(StampedBy::Database),
            Protected::Proven,
            "PROVEN: ",
        ),
        (
            "id",
            Some(StampedBy::Application),
            bounded,
            "BOUNDED(5s): writers give",
        ),
    ] {
        let (found, finding, said) = judged(&fixture, cursor, by).await;
        assert_eq!(found, grade, "{cursor} {by:?}");
        let expected = if grade == bounded {
            Grade::Warn
        } else {
            Grade::Pass
        };
        assert_eq!(finding, expected, "{cursor} {by:?}");
        assert!(said.starts_with(text), "{said}");
        assert_eq!(
            said.contains("source.stamped_by"),
            grade == bounded && by.is_none(),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_stamp_that_only_postgresql_gives_is_refused() {
    let fixture = Engine::Sqlite.fixture(TIMES).await;
    for by in [StampedBy::Transaction, StampedBy::TransactionId] {
        let mut config = fixture.table("t", &["c"], &["id"]);
        config.late.stamped_by = Some(by);
        let error = open(&config).look(&BTreeSet::new()).await.unwrap_err();
        assert!(error.to_string().contains("PostgreSQL"), "{error}");
    }
}

#[tokio::test]
async fn only_a_trigger_that_cannot_be_overridden_is_a_stamp() {
    const NOW: &str =
        "UPDATE t SET \"c\" = strftime('%Y-%m-%dT%H:%M:%fZ', 'now') WHERE id = NEW.id";
    for (insert, body, expect) in [
        ("AFTER INSERT ON T", NOW, true),
        ("AFTER INSERT ON t FOR EACH ROW", NOW, true),
        ("AFTER INSERT ON t WHEN NEW.c IS NULL", NOW, false),
        ("AFTER INSERT ON u", NOW, false),
        ("BEFORE INSERT ON t", NOW, false),
        ("AFTER UPDATE ON t", NOW, false),
        (
            "AFTER INSERT ON t",
            "UPDATE t SET c = CURRENT_TIMESTAMP WHERE rowid = NEW.rowid",
            true,
        ),
        (
            "AFTER INSERT ON t",
            "UPDATE t SET c = datetime('now', 'localtime') WHERE id = NEW.id",
            false,
        ),
        (
            "AFTER INSERT ON t",
            "UPDATE t SET c = strftime('%d.%m.%Y', 'now') WHERE id = NEW.id",
            false,
        ),
        (
            "AFTER INSERT ON t",
            "UPDATE t SET c = coalesce(NEW.c, datetime('now')) WHERE id = NEW.id",
            false,
        ),
        (
            "AFTER INSERT ON t",
            "UPDATE t SET c = ts WHERE id = NEW.id",
            false,
        ),
        (
            "AFTER INSERT ON t",
            "UPDATE t SET c = datetime('now') WHERE id = NEW.ts",
            false,
        ),
        (
            "AFTER INSERT ON t",
            "UPDATE t SET ts = datetime('now') WHERE id = NEW.id",
            false,
        ),
    ] {
        let schema = format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, c TEXT, ts TEXT); CREATE TABLE u (id INT);
             CREATE TRIGGER a {insert} BEGIN {body}; END;
             CREATE TRIGGER b AFTER UPDATE ON t BEGIN {NOW}; END;"
        );
        let fixture = Engine::Sqlite.fixture(&schema).await;
        let (grade, ..) = judged(&fixture, "c", None).await;
        assert_eq!(grade == Protected::Proven, expect, "{insert}: {body}");
    }
}
