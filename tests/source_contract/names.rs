//! Any string where a name is expected (S11).

use dbtick::config::{Deletes, Rows, SourceConfig, Tombstones};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::fixture::{Engine, MANY_BYTES, open, read};

const CASES: usize = 40;

/// Pieces of which attacks on quoting are made, and letters of all kinds between them.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\"".to_owned()),
        Just("`".to_owned()),
        Just("'".to_owned()),
        Just("[x]".to_owned()),
        Just("\"; DROP TABLE canary; --".to_owned()),
        Just("`; DROP TABLE canary; #".to_owned()),
        Just("' OR '1'='1".to_owned()),
        Just("/* */".to_owned()),
        Just("\\".to_owned()),
        Just("%s ? $1 :x @y".to_owned()),
        Just(".".to_owned()),
        Just("\u{0}".to_owned()),
        Just("\r\n".to_owned()),
        Just("\u{2019}\u{ff07}\u{ff02}".to_owned()),
        Just("canary".to_owned()),
        "[ -~]{0,6}",
        any::<char>().prop_map(String::from),
        Just("x".repeat(300)),
    ];
    prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

/// Where a name may stand.
type Put = fn(&mut SourceConfig, String);

const PLACES: [(&str, Put); 6] = [
    ("table", |config, name| {
        config.rows = Rows::Table {
            schema: None,
            table: name,
        };
    }),
    ("schema", |config, name| {
        config.rows = Rows::Table {
            schema: Some(name),
            table: "canary".into(),
        };
    }),
    ("cursor", |config, name| config.cursor = vec![name]),
    ("key", |config, name| config.key = vec![name]),
    ("columns", |config, name| config.columns = Some(vec![name])),
    ("tombstones", |config, name| {
        config.deletes = Deletes::Tombstones(Tombstones {
            schema: None,
            table: name,
            cursor: vec!["id".into()],
            key: vec!["id".into()],
        });
    }),
];

pub(crate) async fn any_name_is_refused_or_named_exactly(engine: &Engine) {
    let mut fixture = engine
        .fixture("CREATE TABLE canary (id INTEGER PRIMARY KEY); INSERT INTO canary VALUES (1)")
        .await;
    let mut runner = TestRunner::deterministic();
    let mut exact = 0;
    for (place, put) in PLACES {
        for _ in 0..CASES {
            let name = hostile().new_tree(&mut runner).unwrap().current();
            if name == "canary" {
                continue;
            }
            let mut config = fixture.table("canary", &["id"], &["id"]);
            put(&mut config, name.clone());
            let found = read(open(&config).as_ref(), None, 10, MANY_BYTES).await;
            let error = found.expect_err(&format!("{place} {name:?}")).to_string();
            let shown = match name.chars().any(char::is_control) {
                true => format!("{name:?}"),
                false => format!("\"{name}\""),
            };
            if error.contains("does not exist") {
                assert!(error.contains(&shown), "{place} {name:?}: {error}");
                exact += 1;
            }
        }
    }
    assert!(exact > PLACES.len() * CASES / 2, "{exact}");
    assert_eq!(fixture.count("canary").await, 1);
}
