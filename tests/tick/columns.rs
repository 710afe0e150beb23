//! B8: the columns that were seen are kept with the checkpoint, and what changes about them is told.

use dbtick::model::schema::Schema;
use dbtick::model::transitions::{Operator, Order};
use dbtick::tick::operate::Otherwise;
use dbtick::tick::report::{Outcome, TickError};

use super::world::{COLUMNS, World, done, failed, schema};

fn change_to(world: &World, columns: &[(&str, &str)]) {
    *world.source.schema.lock().unwrap() = Some(schema(columns));
}

fn recorded(world: &World) -> Option<String> {
    let document = world.document();
    document
        .schema
        .as_deref()
        .map(Schema::hash)
        .map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn the_schema_is_stored_with_each_commit_and_needs_no_write_of_its_own() {
    let world = World::with_rows(5);
    let report = world.tick().await;
    let commits = world.document().history.len() as u64;
    assert_eq!(commits + 2, report.tally.writes, "claim and marker");
    assert!(
        report.schema_changes.is_empty(),
        "the first one is no change"
    );
    assert_eq!(recorded(&world).as_deref(), Some(schema(COLUMNS).hash()));
    let document = world.document();
    assert_eq!(document.history.len(), 2);
    assert!(
        document
            .history
            .iter()
            .all(|entry| entry.schema == recorded(&world))
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_column_passes_and_is_announced_once() {
    let world = World::with_rows(2);
    world.tick().await;
    change_to(
        &world,
        &[("id", "integer"), ("seq", "integer"), ("note", "text")],
    );
    assert_eq!(done(world.tick().await), Outcome::Idle);

    world.insert(3..=8);
    let report = world.tick().await;
    let said: Vec<_> = report
        .schema_changes
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(said, ["column note text is new"]);
    assert!(report.sentence().contains("column note text is new"));
    assert_eq!(done(report), Outcome::Drained);

    world.insert([9]);
    assert!(world.tick().await.schema_changes.is_empty());
    assert_eq!(
        world.document().past_schemas.len(),
        1,
        "for the first version"
    );
}

#[tokio::test(start_paused = true)]
async fn a_column_that_orders_rows_and_changed_stops_the_poller() {
    for changed in [
        &[("id", "text"), ("seq", "integer")][..],
        &[("id", "integer"), ("seq", "timestamp")],
        &[("id", "integer")],
    ] {
        let world = World::with_rows(2);
        world.tick().await;
        world.insert([3]);
        let before = world.essence();
        change_to(&world, changed);
        for _ in 0..2 {
            let error = failed(world.tick().await);
            assert!(matches!(error, TickError::SchemaChanged { .. }), "{error}");
            assert_eq!(error.name(), "schema_changed");
            for words in ["dbtick adopt orders", "dbtick reset orders --to beginning"] {
                assert!(error.to_string().contains(words), "{error}");
            }
        }
        assert_eq!(world.essence(), before, "nothing else was written");
        assert_eq!(world.hook().rows(), [1, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_in_the_middle_of_a_drain_loses_no_batch() {
    let world = World::with_rows(4);
    world.tick().await;
    world.insert(5..=8);
    let poller = world.poller("app/one");
    change_to(&world, &[("id", "text"), ("seq", "integer")]);
    let budget = dbtick::tick::budget::Budget::starting(poller.clock.monotonic(), None);
    assert!(dbtick::tick::tick(&poller, budget).await.is_failure());
    change_to(&world, COLUMNS);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.hook().rows(), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[tokio::test(start_paused = true)]
async fn another_server_stops_the_poller_until_it_is_adopted() {
    let world = World::with_rows(2);
    let answer_as = |name: &str| *world.source.server.lock().unwrap() = Some(name.into());
    answer_as("system 1");
    world.tick().await;
    world.insert([3]);
    answer_as("system 2");
    let before = world.essence();
    for _ in 0..2 {
        let error = failed(world.tick().await);
        assert_eq!(error.name(), "other_server");
        for words in [
            "system 1",
            "system 2",
            "dbtick adopt orders",
            "dbtick reset orders",
        ] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
    assert_eq!(world.essence(), before, "nothing else was written");
    let poller = world.poller("app/one");
    let order = |evidence| Order::Adopt {
        sinks: vec!["hook".to_owned()],
        source: poller.identity(),
        schema: None,
        evidence,
    };
    let by = Operator {
        who: "ada".to_owned(),
        why: "moved".to_owned(),
        id: "1".to_owned(),
    };
    poller.operate(&by, Otherwise::Refuse, order).await.unwrap();
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.hook().rows(), [1, 2, 3]);
    assert_eq!(world.document().server.as_deref(), Some("system 2"));
}
