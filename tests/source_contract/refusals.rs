//! What every source refuses, and what a person is told.

use dbtick::config::{Rows, SourceConfig};
use dbtick::model::position::{Position, Scalar};

use crate::fixture::{Engine, Fixture, failure, find, open};

const SCHEMA: &str =
    "CREATE TABLE canary (id INTEGER PRIMARY KEY, updated_at VARCHAR(30) NOT NULL, r INT);
    INSERT INTO canary VALUES (1, '2026-01-01', 1)";

async fn check(fixture: &mut Fixture, change: impl FnOnce(&mut SourceConfig), expect: &str) {
    let mut config = fixture.table("canary", &["updated_at"], &["id"]);
    change(&mut config);
    let found = failure(&config).await;
    assert!(found.contains(expect), "{found}");
    let at = Position::new(
        vec![Scalar::Text("2026-01-01".into())],
        vec![Scalar::Integer(1)],
    );
    let found = find(open(&config).as_ref(), &at).await.unwrap_err();
    assert!(found.to_string().contains(expect), "{found}");
    assert_eq!(fixture.count("canary").await, 1);
}

fn table(name: &str) -> Rows {
    Rows::Table {
        schema: None,
        table: name.to_owned(),
    }
}

fn query(text: &str) -> Rows {
    Rows::Query(text.to_owned())
}

pub(crate) async fn names_that_do_not_exist_are_named_exactly(engine: &Engine) {
    let fixture = &mut engine.fixture(SCHEMA).await;
    check(
        fixture,
        |config| config.rows = table("canry"),
        "table \"canry\" does not exist in the database; did you mean \"canary\"?",
    )
    .await;
    check(
        fixture,
        |config| config.cursor = vec!["updated_att".into()],
        "column \"updated_att\" does not exist in the source; did you mean \"updated_at\"?",
    )
    .await;
    check(
        fixture,
        |config| config.key = vec!["zz".into()],
        "there is \"id\", \"updated_at\", \"r\"",
    )
    .await;
    for hostile in [
        "x\"; DROP TABLE canary; --",
        "x`; DROP TABLE canary; --",
        "canary; DELETE FROM canary",
        "1 OR 1=1",
        "",
        "'",
    ] {
        let expect = format!("\"{hostile}\" does not exist");
        check(fixture, |config| config.rows = table(hostile), &expect).await;
        check(
            fixture,
            |config| config.columns = Some(vec![hostile.into()]),
            &expect,
        )
        .await;
    }
}

pub(crate) async fn a_write_in_a_query_or_filter_fails(engine: &Engine) {
    let fixture = &mut engine.fixture(SCHEMA).await;
    check(
        fixture,
        |config| config.rows = query("SELECT * FROM canary; DELETE FROM canary"),
        "source.query has more than one statement",
    )
    .await;
    check(
        fixture,
        |config| config.rows = query("DELETE FROM canary RETURNING *"),
        "query failed",
    )
    .await;
    check(
        fixture,
        |config| config.filter = Some("1); DELETE FROM canary; --".into()),
        "source.filter has",
    )
    .await;
}

pub(crate) async fn a_changed_schema_is_verified_again(engine: &Engine) {
    let mut fixture = engine.fixture(SCHEMA).await;
    let source = open(&fixture.table("canary", &["updated_at"], &["id"]));
    crate::fixture::read_all(source.as_ref(), 10, 1000).await;
    fixture
        .run("ALTER TABLE canary RENAME COLUMN updated_at TO changed")
        .await;
    let error = source.last(None).await.unwrap_err().to_string();
    assert!(error.contains("\"updated_at\" does not exist"), "{error}");
}
