//! A session that has written a row and says nothing more, while thousands of rows are committed behind
//! it: it stops neither the delivery, nor does what is remembered grow in the document.

use crate::world::{MOST_BYTES, Session, World, mariadb, postgres};

/// How such a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Commit,
    RollBack,
}

impl Ends {
    fn sql(self) -> &'static str {
        match self {
            Self::Commit => "COMMIT",
            Self::RollBack => "ROLLBACK",
        }
    }
}

/// Rows of 1 to `rounds` × `rows` transactions, a tick after each round, while `idle` is open.
async fn work(world: &World, session: &mut Session, rounds: usize, rows: usize) {
    for _ in 0..rounds {
        session.insert_many(rows).await;
        let report = world.tick().await;
        assert_eq!(report.tally.rows, rows as u64);
        assert!(report.late.witnesses >= 1, "{:?}", report.late);
        assert!(report.late.oldest_witness_s.is_some(), "{:?}", report.late);
        let document = world.document().await;
        assert!(document.delivered.len() <= 512);
        assert_eq!(
            document.late.spilled.is_empty(),
            world.spilled().await.is_empty()
        );
        let size = document.to_bytes().len().max(world.store.largest());
        assert!(size < MOST_BYTES, "a document of {size} bytes");
    }
}

/// `idle` is waited for by nobody but the poller; all rows behind it are delivered when it ends.
async fn ends(world: &World, mut idle: Session, session: &mut Session, ends: Ends) {
    let delivered = world.sink.rows().len();
    let came = usize::from(ends == Ends::Commit);
    idle.run(ends.sql()).await;
    world.settle().await;
    assert_eq!(world.sink.rows().len(), delivered + came, "{ends:?}");
    world.sink.has_each_once(&session.rows().await);
}

/// No objects are left once there is something to do again.
async fn is_cleaned_up(world: &World, session: &mut Session) {
    session.insert("after").await;
    world.settle().await;
    assert_eq!(world.spilled().await, []);
    let rows = session.rows().await;
    world.sink.has_each_once(&rows);
    let (last, _) = rows.last().unwrap();
    world.is_at_rest(*last).await;
}

async fn one_idle_session(
    world: World,
    mut idle: Session,
    mut session: Session,
    (rounds, rows): (usize, usize),
    how: Ends,
) {
    session.insert_many(3).await;
    world.settle().await;
    let first = world.checkpoint().await;
    idle.begin("idle").await;
    work(&world, &mut session, rounds, rows).await;
    assert!(world.checkpoint().await <= first + 1);
    assert!(!world.document().await.late.spilled.is_empty());
    let delivered = world.sink.rows().len();
    let read = world.source.rows_read();
    assert!(
        read < 2 * delivered,
        "{read} rows read, {delivered} delivered"
    );

    ends(&world, idle, &mut session, how).await;
    let read = world.source.rows_read();
    assert!(
        read < 3 * delivered,
        "{read} rows read, {delivered} delivered"
    );
    let (last, _) = session.rows().await.pop_last().unwrap();
    world.is_at_rest(last).await;
    is_cleaned_up(&world, &mut session).await;
}

#[tokio::test]
async fn thirty_thousand_rows_pass_an_idle_transaction_once_each() {
    let server = postgres().await;
    let idle = Session::of_postgres(&server).await;
    let session = Session::of_postgres(&server).await;
    let world = World::of_postgres(&server);
    one_idle_session(world, idle, session, (30, 1000), Ends::Commit).await;
}

#[tokio::test]
async fn rows_pass_an_idle_transaction_that_is_rolled_back_once_each() {
    let server = postgres().await;
    let idle = Session::of_postgres(&server).await;
    let session = Session::of_postgres(&server).await;
    let world = World::of_postgres(&server);
    one_idle_session(world, idle, session, (4, 500), Ends::RollBack).await;
}

#[tokio::test]
async fn rows_pass_an_uncommitted_row_of_mariadb_once_each() {
    for how in [Ends::Commit, Ends::RollBack] {
        let server = mariadb().await;
        let idle = Session::of_mariadb(&server).await;
        let session = Session::of_mariadb(&server).await;
        let world = World::of_mariadb(&server);
        one_idle_session(world, idle, session, (5, 400), how).await;
    }
}

/// The fence of the first stands until it ends; that of the second is further on.
async fn two_idle_sessions(
    world: World,
    (mut one, mut other): (Session, Session),
    mut session: Session,
    how: Ends,
) {
    session.insert_many(3).await;
    world.settle().await;
    one.begin("one").await;
    work(&world, &mut session, 2, 300).await;
    other.begin("other").await;
    let between = world.sink.ids().into_iter().max().unwrap();
    work(&world, &mut session, 2, 300).await;

    ends(&world, one, &mut session, how).await;
    // Who is left is waited for, where it stands.
    assert_eq!(world.checkpoint().await, between);
    work(&world, &mut session, 2, 300).await;
    ends(&world, other, &mut session, how).await;
    is_cleaned_up(&world, &mut session).await;
}

#[tokio::test]
async fn a_second_idle_transaction_that_ends_later_is_waited_for_too() {
    for how in [Ends::Commit, Ends::RollBack] {
        let server = postgres().await;
        let idle = (
            Session::of_postgres(&server).await,
            Session::of_postgres(&server).await,
        );
        let session = Session::of_postgres(&server).await;
        two_idle_sessions(World::of_postgres(&server), idle, session, how).await;
    }
}

#[tokio::test]
async fn a_second_uncommitted_row_of_mariadb_that_stays_longer_is_waited_for_too() {
    for how in [Ends::Commit, Ends::RollBack] {
        let server = mariadb().await;
        let idle = (
            Session::of_mariadb(&server).await,
            Session::of_mariadb(&server).await,
        );
        let session = Session::of_mariadb(&server).await;
        two_idle_sessions(World::of_mariadb(&server), idle, session, how).await;
    }
}

/// Every one of their rows is a witness: at first many in one fence, then in many, then more than one
/// may have.
#[tokio::test]
async fn rows_pass_bulk_loads_of_mariadb_once_each() {
    let server = mariadb().await;
    let world = World::of_mariadb(&server);
    let mut session = Session::of_mariadb(&server).await;
    let mut loads = Vec::new();
    for rows in [900, 10, 10, 10, 10, 10, 10, 10, 10, 3000] {
        let mut load = Session::of_mariadb(&server).await;
        load.run("BEGIN").await;
        load.insert_many(rows).await;
        loads.push(load);
        for _ in 0..2 {
            session.insert_many(100).await;
            let report = world.tick().await;
            assert_eq!(report.tally.rows, 100);
        }
    }
    for mut load in loads {
        load.run("COMMIT").await;
        world.settle().await;
    }
    let size = world.store.largest();
    assert!(size < MOST_BYTES, "a document of {size} bytes");
    is_cleaned_up(&world, &mut session).await;
}
