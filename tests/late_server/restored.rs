//! An older copy of a PostgreSQL data directory takes the place of the newer one: the same system
//! identifier, the same timeline, and transactions that had happened have not.

use dbtick::config::LateMode;
use dbtick::tick::report::TickError;

use crate::support::postgres::Postgres;
use crate::support::server::End;
use crate::world::{Session, World, postgres, without};

/// Rows 1 to 3 are in the copy; 4 to 6 were delivered after it was made, in two ticks.
async fn restored() -> (Postgres, World) {
    let mut server = postgres().await;
    let world = World::of_postgres(&server);
    // All is old when the server starts again, so that only the copy is a reason to go back.
    world.clock.set_ahead(-3600);
    let mut session = Session::of_postgres(&server).await;
    for _ in 1..=3 {
        session.insert("kept").await;
    }
    world.settle().await;
    drop(session);
    server.stop(End::Clean).await;
    server.keep_copy();
    server.start_again().await;
    let mut session = Session::of_postgres(&server).await;
    session.insert("lost").await;
    world.settle().await;
    session.insert("lost").await;
    session.insert("lost").await;
    world.settle().await;
    assert_eq!(world.sink.ids(), [1, 2, 3, 4, 5, 6]);
    drop(session);
    server.stop(End::Clean).await;
    server.put_copy_back();
    server.start_again().await;
    world.sink.forget();
    (server, world)
}

#[tokio::test]
async fn rows_that_get_the_numbers_of_lost_ones_after_a_restore_are_delivered() {
    let (server, world) = restored().await;
    let report = world.tick().await;
    let why = report.rewound.unwrap();
    assert!(why.contains("restored from an older copy"), "{why}");
    world.is_at_rest(3).await;
    let document = world.document().await;
    let audit = document.audit.last().unwrap();
    assert_eq!(audit.who, "dbtick");
    assert_eq!(audit.why, why);
    assert!(
        audit.what.starts_with("rewind to version"),
        "{}",
        audit.what
    );

    let mut session = Session::of_postgres(&server).await;
    for _ in 4..=6 {
        session.insert("new").await;
    }
    let report = world.settle().await;
    assert_eq!(report.rewound, None, "said once");
    let new = (4..=6).map(|id| (id, "new".to_owned()));
    assert_eq!(world.sink.rows(), new.collect::<Vec<_>>());
    world.is_at_rest(6).await;
}

/// The control: what the epoch is for.
#[tokio::test]
async fn a_poller_that_remembers_no_epoch_would_lose_rows_after_a_restore() {
    let (server, world) = restored().await;
    let forgetful = world.fork(without(&world.body().await, &["late"])).await;
    let mut session = Session::of_postgres(&server).await;
    for _ in 4..=6 {
        session.insert("new").await;
    }
    forgetful.settle().await;
    assert_eq!(forgetful.sink.ids(), [0_i64; 0]);
    assert_eq!(forgetful.checkpoint().await, 6);
}

#[tokio::test]
async fn a_restore_is_noticed_where_late_commits_are_not_looked_for() {
    let (server, world) = restored().await;
    let world = world.with_mode(LateMode::Off);
    let report = world.tick().await;
    assert!(report.rewound.is_some());
    Session::of_postgres(&server).await.insert("new").await;
    world.settle().await;
    assert_eq!(world.sink.rows(), [(4, "new".to_owned())]);
}

#[tokio::test]
async fn a_copy_that_is_older_than_every_kept_checkpoint_stops_the_poller() {
    let mut server = postgres().await;
    let world = World::of_postgres(&server);
    server.stop(End::Clean).await;
    server.keep_copy();
    server.start_again().await;
    let mut session = Session::of_postgres(&server).await;
    world.clock.set_ahead(-3600);
    session.insert("lost").await;
    world.settle().await;
    drop(session);
    server.stop(End::Clean).await;
    server.put_copy_back();
    server.start_again().await;
    world.sink.forget();
    let (before, writes) = (world.body().await, world.store.writes());

    let report = world.try_tick("app/one").await;
    assert!(matches!(report.result, Err(TickError::Restored { .. })));
    let sentence = report.sentence();
    for part in [
        "older than every kept checkpoint",
        "dbtick reset orders --to beginning",
    ] {
        assert!(sentence.contains(part), "{sentence}");
    }
    assert_eq!(world.sink.ids(), [0_i64; 0]);
    assert_eq!(world.body().await, before);
    assert_eq!(world.store.writes(), writes);
}
