//! What is asked about rows without reading them agrees with what reading gives.

use dbtick::config::{Deletes, NullPolicy, SourceConfig, Tombstones};
use dbtick::model::page::{EventId, Op, PageWriter};
use dbtick::model::position::Position;
use dbtick::source::{Located, Source};

use crate::fixture::{Engine, MANY_BYTES, open, read};

/// Every event there is, in order.
async fn events(source: &dyn Source) -> Vec<(Position, Op, EventId)> {
    let page = read(source, None, 10_000, MANY_BYTES).await.unwrap();
    assert!(page.end);
    let events = page.page.events().iter();
    events
        .map(|event| (event.position.clone(), event.op, event.id))
        .collect()
}

/// Between every two places, with every limit.
async fn counts_agree(config: &SourceConfig, expected: usize) {
    let source = open(config);
    let all = events(source.as_ref()).await;
    assert_eq!(all.len(), expected);
    let places: Vec<_> = all.iter().map(|(place, ..)| place).collect();
    let ends: Vec<_> = std::iter::once(None)
        .chain(places.iter().copied().map(Some))
        .collect();
    for &after in &ends {
        let behind = places.iter().filter(|place| Some(**place) > after);
        for &up_to in &ends {
            let inside = behind.clone().filter(|p| up_to.is_none_or(|to| **p <= to));
            let inside = inside.count() as u64;
            for most in [0, 1, inside, 1000] {
                let counted = source.count(after, up_to, most).await.unwrap();
                assert_eq!(counted, inside.min(most), "{after:?} {up_to:?} {most}");
            }
        }
        let behind: Vec<_> = behind.copied().collect();
        for rows in 1..=behind.len() + 2 {
            let ahead = source.ahead(after, rows as u64).await.unwrap();
            let expected = behind.get(rows - 1).copied();
            assert_eq!(ahead.as_ref(), expected, "{rows} behind {after:?}");
        }
    }
}

const SEVEN: &str = "INSERT INTO t VALUES ('2026-01-01 00:00:00', -9223372036854775808, '', 1),
       ('2026-01-01 00:00:00', 9007199254740993, 'a', 2), ('2026-01-01 00:00:00', 9007199254740993, 'A', 3),
       ('2026-01-01 00:00:00.000001', 9007199254740993, 'a ', 4), ('2026-01-01 00:00:00.000001', 9007199254740992, '''\"%_', 5),
       ('2026-01-01 00:00:00.999999', 9223372036854775807, 'é😀', 6), ('2037-01-01 00:00:00', 0, '?', 7);";

fn seven(text: &str) -> String {
    format!(
        "CREATE TABLE t (at TIMESTAMP(6) NOT NULL, big BIGINT NOT NULL, k {text} NOT NULL, n INT NOT NULL, PRIMARY KEY (n)); {SEVEN}"
    )
}

pub(crate) async fn events_between_two_places_are_counted_as_they_are_read(engine: &Engine) {
    let fixture = engine.fixture(&seven(engine.collated_text())).await;
    for (cursor, key) in [
        (&["at"] as &[&str], &["k", "n"] as &[&str]),
        (&["big"], &["n"]),
        (&["big", "at"], &["k"]),
        (&["k"], &["n"]),
        (&["n"], &["n"]),
        (&["at", "n"], &["n"]),
    ] {
        counts_agree(&fixture.table("t", cursor, key), 7).await;
    }
    let mut filtered = fixture.table("t", &["at"], &["k", "n"]);
    filtered.filter = Some("n < 3 OR n > 4 -- or".into());
    counts_agree(&filtered, 5).await;
    let query = "SELECT k, at, n FROM t WHERE n < 3 OR n > 4";
    counts_agree(&fixture.query(query, &["at"], &["k", "n"]), 5).await;
    let empty = fixture.query("SELECT n FROM t WHERE n < 0", &["n"], &["n"]);
    counts_agree(&empty, 0).await;
}

pub(crate) async fn ties_are_counted_and_cut_in_the_order_of_their_keys(engine: &Engine) {
    let fixture = crate::tied(engine).await;
    let source = open(&fixture.table("t", &["c"], &["id"]));
    let mut after = None;
    for end in [400, 800] {
        after = source.ahead(after.as_ref(), 400).await.unwrap();
        let place = after.as_ref().unwrap().to_string();
        assert_eq!(place, format!("2026-01-01 ({end})"));
    }
    let behind = async |most| source.count(after.as_ref(), None, most).await.unwrap();
    assert_eq!((behind(1000).await, behind(150).await), (200, 150));
    assert_eq!(source.ahead(after.as_ref(), 201).await.unwrap(), None);
    assert_eq!(source.count(None, after.as_ref(), 1000).await.unwrap(), 800);
}

/// Also where the policy says that a read fails of them: who counts or looks ahead reads nothing.
pub(crate) async fn rows_without_a_place_are_not_counted(engine: &Engine) {
    let mut fixture = engine
        .fixture(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, c INT, k VARCHAR(9)); CREATE INDEX i ON t (c);
             INSERT INTO t VALUES (1, 1, 'a'), (2, NULL, 'b'), (3, 2, 'c'), (4, NULL, 'd');",
        )
        .await;
    for key in [&["id"] as &[&str], &["k"]] {
        let mut config = fixture.table("t", &["c"], key);
        let failing = open(&config);
        assert_eq!(failing.count(None, None, 9).await.unwrap(), 2);
        let second = failing.ahead(None, 2).await.unwrap().unwrap();
        assert!(second.to_string().starts_with("2 ("), "{second}");
        assert_eq!(failing.ahead(None, 3).await.unwrap(), None);
        config.nulls = NullPolicy::Ignore;
        counts_agree(&config, 2).await;
    }
    fixture.run("DELETE FROM t WHERE c IS NOT NULL").await;
    let source = open(&fixture.table("t", &["c"], &["id"]));
    assert_eq!(source.count(None, None, 9).await.unwrap(), 0);
    assert_eq!(source.ahead(None, 1).await.unwrap(), None);
}

fn with_tombstones(mut config: SourceConfig) -> SourceConfig {
    config.deletes = Deletes::Tombstones(Tombstones {
        schema: None,
        table: "gone".into(),
        cursor: vec!["at".into()],
        key: vec!["row_id".into()],
    });
    config
}

/// Row 2 was written and deleted at one moment.
const WITH_TOMBSTONES: &str =
    "CREATE TABLE t (id INTEGER PRIMARY KEY, c INTEGER NOT NULL, x VARCHAR(9));
    CREATE TABLE gone (row_id INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (at, row_id));
    INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (4, 20, 'd'), (5, 50, 'e');
    INSERT INTO gone VALUES (3, 5), (2, 20), (6, 30), (7, 60);";

pub(crate) async fn tombstones_are_counted_with_the_rows(engine: &Engine) {
    let fixture = engine.fixture(WITH_TOMBSTONES).await;
    let mut config = with_tombstones(fixture.table("t", &["c"], &["id"]));
    counts_agree(&config, 8).await;
    config.filter = Some("id <> 4".into());
    counts_agree(&config, 7).await;
}

async fn locate(source: &dyn Source, key: &[&str]) -> Vec<Located> {
    let key: Vec<_> = key.iter().map(|&value| value.to_owned()).collect();
    let writer = PageWriter::new("p", 1, 1);
    source.locate(&key, writer).await.unwrap()
}

/// By what a position shows of it, to the id that a tick would give it.
pub(crate) async fn every_row_is_located_by_its_key_as_events_show_it(engine: &Engine) {
    let fixture = engine.fixture(&seven(engine.collated_text())).await;
    for (cursor, key) in [
        (&["at"] as &[&str], &["k", "n"] as &[&str]),
        (&["n"], &["big", "at", "k"]),
        (&["n"], &["k"]),
        (&["n"], &["n"]),
        (&["at", "n"], &["n"]),
    ] {
        let source = open(&fixture.table("t", cursor, key));
        let mut located = 0;
        for (position, op, id) in events(source.as_ref()).await {
            let shown: Vec<_> = position.key().iter().map(ToString::to_string).collect();
            let shown: Vec<_> = shown.iter().map(String::as_str).collect();
            let expected = Located {
                position: Some(position.clone()),
                op,
                passes_filter: true,
                id: Some(id),
            };
            assert_eq!(locate(source.as_ref(), &shown).await, [expected]);
            located += 1;
        }
        assert_eq!(located, 7);
    }
    let source = open(&fixture.table("t", &["n"], &["k"]));
    assert_eq!(locate(source.as_ref(), &["nobody"]).await, []);
    let shared = open(&fixture.table("t", &["n"], &["big"]));
    let found = locate(shared.as_ref(), &["9007199254740993"]).await;
    assert_eq!(found.len(), 3, "{found:?}");
}

pub(crate) async fn what_no_tick_would_read_is_located_and_says_so(engine: &Engine) {
    let fixture = engine
        .fixture(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, c INT, d INT);
             INSERT INTO t VALUES (1, 1, 1), (2, 2, 2), (3, NULL, 1), (4, 4, NULL);",
        )
        .await;
    let mut config = fixture.table("t", &["c"], &["id"]);
    config.nulls = NullPolicy::Ignore;
    let whole = open(&config);
    let ids: Vec<_> = events(whole.as_ref()).await;
    config.filter = Some("d = 1 OR d = 7 -- or".into());
    let filtered = open(&config);
    for (key, placed, passes, id) in [
        ("1", true, true, Some(ids[0].2)),
        ("2", true, false, Some(ids[1].2)),
        ("3", false, true, None),
        ("4", true, false, Some(ids[2].2)),
    ] {
        let found = locate(filtered.as_ref(), &[key]).await;
        let [found] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(found.position.is_some(), placed, "{key}");
        assert_eq!((found.passes_filter, found.id), (passes, id), "{key}");
    }
    let query = fixture.query("SELECT * FROM t WHERE d = 1", &["c"], &["id"]);
    let query = open(&query);
    assert_eq!(locate(query.as_ref(), &["2"]).await, []);
    assert_eq!(locate(query.as_ref(), &["3"]).await[0].position, None);
}

pub(crate) async fn a_key_has_its_row_its_tombstone_or_both(engine: &Engine) {
    let fixture = engine.fixture(WITH_TOMBSTONES).await;
    let mut config = with_tombstones(fixture.table("t", &["c"], &["id"]));
    config.filter = Some("id <> 5".into());
    let source = open(&config);
    let all = events(source.as_ref()).await;
    for (key, expected) in [
        ("1", vec![("10 (1)", Op::Upsert, true)]),
        (
            "2",
            vec![("20 (2)", Op::Upsert, true), ("20 (2)", Op::Delete, true)],
        ),
        ("3", vec![("5 (3)", Op::Delete, true)]),
        ("5", vec![("50 (5)", Op::Upsert, false)]),
        ("8", vec![]),
    ] {
        let located = locate(source.as_ref(), &[key]).await;
        let shown: Vec<_> = located
            .iter()
            .map(|it| {
                (
                    it.position.as_ref().unwrap().to_string(),
                    it.op,
                    it.passes_filter,
                )
            })
            .collect();
        let shown: Vec<_> = shown.iter().map(|(p, o, f)| (p.as_str(), *o, *f)).collect();
        assert_eq!(shown, expected, "{key}");
        for it in located.iter().filter(|it| it.passes_filter) {
            let sent = all.iter().filter(|(_, _, id)| Some(*id) == it.id);
            assert_eq!(sent.count(), 1, "{it:?}");
        }
    }
}

pub(crate) async fn a_key_that_cannot_be_is_refused_by_name(engine: &Engine) {
    let fixture = engine
        .fixture("CREATE TABLE t (id INTEGER PRIMARY KEY, k VARCHAR(9) NOT NULL); INSERT INTO t VALUES (1, 'a');")
        .await;
    let source = open(&fixture.table("t", &["id"], &["id"]));
    for (key, expect) in [
        (
            &["x"] as &[&str],
            "\"x\" is no value of the key column \"id\", which is int",
        ),
        (
            &[],
            "the key has 1 column(s), \"id\", and 0 value(s) were given",
        ),
        (&["1", "2"], "give one value for each, in this order"),
    ] {
        let key: Vec<_> = key.iter().map(|&value| value.to_owned()).collect();
        let writer = PageWriter::new("p", 1, 1);
        let error = source.locate(&key, writer).await.unwrap_err().to_string();
        assert!(
            error.to_lowercase().contains(&expect.to_lowercase()),
            "{error}"
        );
    }
}
