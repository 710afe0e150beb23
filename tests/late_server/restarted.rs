//! A server stops, or one of its sessions crashes: it may have lost its last commits, and the names of
//! its transactions begin anew.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

use dbtick::tick::report::Outcome;

use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::server::End;
use crate::support::within;
use crate::world::{Session, World, make_table, mariadb, mariadb_with, postgres, trusting};

async fn restart(server: &mut Postgres, how: End) {
    server.stop(how).await;
    server.start_again().await;
}

#[tokio::test]
async fn after_a_restart_the_last_seconds_before_it_are_read_again() {
    for how in [End::Clean, End::Crash] {
        let mut server = postgres().await;
        let world = World::of_postgres(&server);
        let mut session = Session::of_postgres(&server).await;
        world.clock.set_ahead(-60);
        session.insert("old").await;
        world.settle().await;
        world.clock.set_ahead(0);
        session.insert("young").await;
        world.settle().await;
        assert_eq!(world.sink.ids(), [1, 2]);
        drop(session);
        restart(&mut server, how).await;

        let report = world.tick().await;
        let why = report.rewound.unwrap();
        assert_eq!(why, "the database was restarted", "{how:?}");
        assert_eq!(world.sink.ids(), [1, 2, 2], "{how:?}");
        let audit = world.document().await.audit;
        assert_eq!((audit.len(), audit[0].who.as_str()), (1, "dbtick"));
        assert_eq!(world.settle().await.rewound, None, "said once");
        Session::of_postgres(&server).await.insert("new").await;
        world.settle().await;
        let rows = Session::of_postgres(&server).await.rows().await;
        world.sink.has_all(&rows);
        assert_eq!(world.sink.rows().len(), 4);
    }
}

#[tokio::test]
async fn a_restart_long_after_the_last_commit_changes_nothing() {
    for how in [End::Clean, End::Crash] {
        let mut server = postgres().await;
        let world = World::of_postgres(&server);
        world.clock.set_ahead(-60);
        Session::of_postgres(&server).await.insert("old").await;
        world.settle().await;
        world.clock.set_ahead(0);
        restart(&mut server, how).await;
        let (before, writes) = (world.body().await, world.store.writes());

        for _ in 0..3 {
            let report = world.tick().await;
            assert_eq!(report.rewound, None);
            assert_eq!(report.result.unwrap(), Outcome::Idle);
        }
        assert_eq!(world.body().await, before);
        assert_eq!(world.store.writes(), writes);
        Session::of_postgres(&server).await.insert("new").await;
        world.settle().await;
        let rows = Session::of_postgres(&server).await.rows().await;
        world.sink.has_each_once(&rows);
    }
}

#[tokio::test]
async fn a_restart_ends_those_who_are_waited_for() {
    for (how, ahead) in [(End::Clean, -60), (End::Crash, -60), (End::Crash, 0)] {
        let mut server = postgres().await;
        let world = World::of_postgres(&server);
        world.clock.set_ahead(ahead);
        let mut session = Session::of_postgres(&server).await;
        session.insert("first").await;
        world.settle().await;
        let mut idle = Session::of_postgres(&server).await;
        idle.begin("never").await;
        session.insert("second").await;
        session.insert("third").await;
        let report = world.settle().await;
        assert_eq!(report.late.witnesses, 1);
        assert_eq!(world.sink.ids(), [1, 3, 4]);
        assert_eq!(world.checkpoint().await, 1);
        drop((session, idle));
        world.clock.set_ahead(0);
        restart(&mut server, how).await;

        let report = world.settle().await;
        assert_eq!(report.late.witnesses, 0);
        world.is_at_rest(4).await;
        let mut session = Session::of_postgres(&server).await;
        // Transactions of the new life have the names of those of the old one.
        idle = Session::of_postgres(&server).await;
        idle.begin("late").await;
        session.insert("fourth").await;
        world.settle().await;
        idle.run("COMMIT").await;
        world.settle().await;
        world.sink.has_all(&session.rows().await);
    }
}

/// The server acknowledges before it writes down, and crashes before it does.
async fn forgetful_postgres() -> Postgres {
    let options = trusting()
        .setting("synchronous_commit", "off")
        .setting("wal_writer_delay", "10s");
    let server = options.start().await;
    make_table(&server).await;
    server.sql("CHECKPOINT").await;
    server
}

/// Their numbers are given out again, as if an older copy had been restored.
#[tokio::test]
async fn a_crash_that_takes_transactions_with_it_does_not_stop_a_young_poller() {
    let mut server = forgetful_postgres().await;
    let world = World::of_postgres(&server);
    let mut session = Session::of_postgres(&server).await;
    session.insert("lost").await;
    world.settle().await;
    drop(session);
    restart(&mut server, End::Crash).await;

    world.settle().await;
    let mut session = Session::of_postgres(&server).await;
    session.insert("new").await;
    world.settle().await;
    world.sink.has_all(&session.rows().await);
}

/// Commits that were acknowledged and not yet written down.
#[tokio::test]
async fn rows_in_place_of_those_that_a_crash_took_from_a_young_poller_are_delivered() {
    let mut server = forgetful_postgres().await;
    let world = World::of_postgres(&server);
    let mut session = Session::of_postgres(&server).await;
    session.insert("lost").await;
    world.settle().await;
    assert_eq!(world.sink.rows(), [(1, "lost".to_owned())]);
    drop(session);
    restart(&mut server, End::Crash).await;

    let mut session = Session::of_postgres(&server).await;
    assert!(session.rows().await.is_empty(), "the crash took the row");
    session.insert("new").await;
    world.settle().await;
    world.sink.has_all(&session.rows().await);
}

/// The other sessions are ended and the memory of all begins anew; the server's start stays.
#[tokio::test]
async fn a_crash_of_one_session_is_noticed_as_a_restart() {
    let server = postgres().await;
    let world = World::of_postgres(&server);
    let mut session = Session::of_postgres(&server).await;
    world.clock.set_ahead(-60);
    session.insert("old").await;
    world.settle().await;
    world.clock.set_ahead(0);
    let mut idle = Session::of_postgres(&server).await;
    idle.begin("never").await;
    session.insert("young").await;
    world.settle().await;
    assert_eq!(world.sink.ids(), [1, 3]);
    let started = session.text("pg_postmaster_start_time()").await;
    let epoch = world.document().await.late.epoch.unwrap();

    let pid = session.text("pg_backend_pid()").await.parse().unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    drop((session, idle));
    let mut session = Session::Postgres(answering(&server, pid).await);
    assert_eq!(session.text("pg_postmaster_start_time()").await, started);

    let report = world.tick().await;
    assert_eq!(
        report.rewound.as_deref(),
        Some("the database was restarted")
    );
    world.settle().await;
    let now = world.document().await.late.epoch.unwrap();
    assert!(now.started.unwrap() > epoch.started.unwrap());
    world.is_at_rest(3).await;
    session.insert("new").await;
    world.settle().await;
    world.sink.has_all(&session.rows().await);
}

/// A connection after the session with this process has crashed.
async fn answering(server: &Postgres, crashed: i32) -> PgConnection {
    let url = server.url();
    within("a server that answers again", async {
        loop {
            if let Ok(mut connection) = PgConnection::connect(&url).await {
                let pids = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1";
                let left: Result<i64, _> = sqlx::query_scalar(pids)
                    .bind(crashed)
                    .fetch_one(&mut connection)
                    .await;
                if left.is_ok_and(|left| left == 0) {
                    return connection;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Uptime is told in seconds, and a difference of three of them may be nothing.
async fn has_run_for_a_while(session: &mut Session) {
    within("a server that has run for a while", async {
        let uptime = "SELECT variable_value FROM information_schema.global_status \
                      WHERE variable_name = 'uptime'";
        while session.text(uptime).await.parse::<u32>().unwrap() < 5 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_restart_of_mariadb_is_noticed_and_ends_those_who_are_waited_for() {
    let mut server = mariadb().await;
    let world = World::of_mariadb(&server);
    let mut session = Session::of_mariadb(&server).await;
    has_run_for_a_while(&mut session).await;
    world.clock.set_ahead(-60);
    session.insert("old").await;
    world.settle().await;
    world.clock.set_ahead(0);
    let mut idle = Session::of_mariadb(&server).await;
    idle.begin("never").await;
    session.insert("young").await;
    let report = world.settle().await;
    assert_eq!(report.late.witnesses, 1);
    assert_eq!(world.sink.ids(), [1, 3]);
    let epoch = world.document().await.late.epoch.unwrap();
    drop((session, idle));
    server.stop(End::Clean).await;
    server.start_again().await;

    let report = world.tick().await;
    assert_eq!(
        report.rewound.as_deref(),
        Some("the database was restarted")
    );
    let mut session = Session::of_mariadb(&server).await;
    session.insert("new").await;
    world.settle().await;
    let now = world.document().await.late.epoch.unwrap();
    assert!(now.started.unwrap() > epoch.started.unwrap());
    world.sink.has_all(&session.rows().await);
    world
        .is_at_rest(*world.sink.ids().iter().max().unwrap())
        .await;
}

/// Rows that were delivered above the checkpoint, and that the crash has taken with it.
#[tokio::test]
async fn what_was_delivered_before_a_crash_does_not_stand_for_rows_that_come_after_it() {
    let options = MariaDb::with().setting("innodb_flush_log_at_timeout", "2700");
    let mut server = mariadb_with(options).await;
    let world = World::of_mariadb(&server);
    let mut session = Session::of_mariadb(&server).await;
    has_run_for_a_while(&mut session).await;
    world.clock.set_ahead(-60);
    session.insert("old").await;
    world.settle().await;
    world.clock.set_ahead(0);
    session
        .run("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        .await;
    session.insert("kept").await;
    session
        .run("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        .await;
    let mut idle = Session::of_mariadb(&server).await;
    idle.begin("never").await;
    for _ in 4..=6 {
        session.insert("lost").await;
    }
    world.settle().await;
    assert_eq!(world.sink.ids(), [1, 2, 4, 5, 6]);
    assert_eq!(world.checkpoint().await, 2);
    drop((session, idle));
    server.stop(End::Crash).await;
    server.start_again().await;

    let mut session = Session::of_mariadb(&server).await;
    assert_eq!(session.rows().await.len(), 2, "the crash took the rest");
    world.settle().await;
    for _ in 3..=6 {
        session.insert("new").await;
        world.settle().await;
    }
    world.sink.has_all(&session.rows().await);
}
