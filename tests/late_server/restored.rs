//! An older copy of a PostgreSQL data directory takes the place of the newer one: the same system
//! identifier, the same timeline, and transactions that had happened have not.

use dbtick::config::LateMode;
use dbtick::tick::report::TickError;

use crate::support::postgres::Postgres;
use crate::support::server::End;
use crate::world::{Session, World, postgres, without};

/// Rows 1 to 3 are in the copy; three more were delivered after it was made, in two ticks.
struct Restored {
    server: Postgres,
    world: World,
    lost: Vec<i64>,
}

/// From a copy of the data of a server that was stopped, or that runs: a snapshot of its disk.
async fn restored(copied: End) -> Restored {
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
    server.stop(copied).await;
    server.keep_copy();
    server.start_again().await;
    let mut session = Session::of_postgres(&server).await;
    session.insert("lost").await;
    world.settle().await;
    session.insert("lost").await;
    session.insert("lost").await;
    world.settle().await;
    world.sink.has_each_once(&session.rows().await);
    drop(session);
    server.stop(End::Clean).await;
    server.put_copy_back();
    server.start_again().await;
    let lost = world.sink.ids().split_off(3);
    world.sink.forget();
    Restored {
        server,
        world,
        lost,
    }
}

impl Restored {
    /// Rows with the numbers of those that are lost.
    async fn insert(&self) -> Vec<(i64, String)> {
        let mut session = Session::of_postgres(&self.server).await;
        for _ in &self.lost {
            session.insert("new").await;
        }
        let new = self.lost.iter().map(|id| (*id, "new".to_owned()));
        let new: Vec<_> = new.collect();
        assert!(
            session
                .rows()
                .await
                .is_superset(&new.iter().cloned().collect())
        );
        new
    }
}

#[tokio::test]
async fn rows_that_get_the_numbers_of_lost_ones_after_a_restore_are_delivered() {
    let restored = restored(End::Clean).await;
    let world = &restored.world;
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

    let new = restored.insert().await;
    let report = world.settle().await;
    assert_eq!(report.rewound, None, "said once");
    assert_eq!(world.sink.rows(), new);
    world.is_at_rest(6).await;
}

/// By then as many transactions may have happened as had before, or more.
#[tokio::test]
async fn rows_that_are_written_before_the_first_tick_after_a_restore_are_delivered() {
    for (copied, more) in [(End::Clean, 0), (End::Clean, 20), (End::Crash, 20)] {
        let restored = restored(copied).await;
        let world = &restored.world;
        let mut session = Session::of_postgres(&restored.server).await;
        let new = restored.insert().await;
        session.insert_many(more).await;
        let report = world.tick().await;
        let why = report.rewound.unwrap();
        assert!(why.contains("restored from an older copy"), "{why}");
        world.settle().await;
        assert_eq!(world.sink.rows()[..new.len()], new, "{copied:?}");
        assert_eq!(world.sink.rows().len(), new.len() + more);
    }
}

/// Counters that are set back by hand look like the end of a crash, and are none.
#[tokio::test]
async fn counters_that_somebody_has_set_back_are_no_restore() {
    let server = postgres().await;
    let world = World::of_postgres(&server);
    world.clock.set_ahead(-3600);
    let mut session = Session::of_postgres(&server).await;
    session.insert_many(5).await;
    world.settle().await;
    session.run("SELECT pg_stat_reset_shared('bgwriter')").await;
    session.insert_many(5).await;
    assert_eq!(world.tick().await.rewound, None);
    world.sink.has_each_once(&session.rows().await);
}

/// The control: what the epoch is for.
#[tokio::test]
async fn a_poller_that_remembers_no_epoch_would_lose_rows_after_a_restore() {
    let restored = restored(End::Clean).await;
    let world = &restored.world;
    let forgetful = world.fork(without(&world.body().await, &["late"])).await;
    restored.insert().await;
    forgetful.settle().await;
    assert_eq!(forgetful.sink.ids(), [0_i64; 0]);
    assert_eq!(forgetful.checkpoint().await, 6);
}

#[tokio::test]
async fn a_restore_is_noticed_where_late_commits_are_not_looked_for() {
    let mut restored = restored(End::Clean).await;
    restored.world = restored.world.with_mode(LateMode::Off);
    let report = restored.world.tick().await;
    assert!(report.rewound.is_some());
    let new = restored.insert().await;
    restored.world.settle().await;
    assert_eq!(restored.world.sink.rows(), new);
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
    // Nothing but why it stops is written down.
    let essence = |body: &[u8]| {
        let mut body: serde_json::Value = serde_json::from_slice(body).unwrap();
        body["counters"]["failed_ticks"] = 0.into();
        for told in ["trouble", "check"] {
            body.as_object_mut().unwrap().remove(told);
        }
        body
    };
    assert_eq!(essence(&world.body().await), essence(&before));
    assert_eq!(world.store.writes(), writes + 1);
}
