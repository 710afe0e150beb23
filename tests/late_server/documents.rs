//! What becomes of the document and the objects beside it by other hands.

use std::io;
use std::sync::{Arc, Mutex};

use dbtick::store::ObjectStore;
use tracing::subscriber::DefaultGuard;

use crate::support::postgres::Postgres;
use crate::world::{Session, World, postgres, without};

/// Two thousand rows are delivered behind a transaction that is still open.
async fn in_the_middle() -> (Postgres, World, Session, Session) {
    let server = postgres().await;
    let world = World::of_postgres(&server);
    let mut session = Session::of_postgres(&server).await;
    let mut idle = Session::of_postgres(&server).await;
    session.insert("first").await;
    world.settle().await;
    idle.begin("idle").await;
    for rows in [700, 700, 700, 200] {
        session.insert_many(rows).await;
        world.tick().await;
    }
    let document = world.document().await;
    assert_eq!(world.checkpoint().await, 1);
    assert!(!document.late.fences.is_empty());
    assert!(!document.late.spilled.is_empty());
    assert!(!document.delivered.is_empty());
    (server, world, idle, session)
}

/// What is logged on this thread from here on.
fn logged() -> (DefaultGuard, Arc<Mutex<Vec<u8>>>) {
    #[derive(Clone)]
    struct Into(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Into {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let log = Arc::new(Mutex::new(Vec::new()));
    let into = Into(Arc::clone(&log));
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || into.clone())
        .finish();
    (tracing::subscriber::set_default(subscriber), log)
}

#[tokio::test]
async fn an_object_that_somebody_has_deleted_costs_duplicates_and_no_row() {
    let (_server, world, mut idle, mut session) = in_the_middle().await;
    let segment = world.document().await.late.spilled[0].clone();
    let names = world.spilled().await;
    let object = names
        .iter()
        .find(|key| key.as_str().ends_with(&segment.name));
    world.objects.remove(object.unwrap()).await.unwrap();
    let (guard, log) = logged();
    idle.run("COMMIT").await;
    world.settle().await;
    drop(guard);
    world.sink.has_all(&session.rows().await);
    assert_eq!(world.sink.duplicates() as u64, segment.ids);
    let log = String::from_utf8(log.lock().unwrap().clone()).unwrap();
    let line = log.lines().find(|line| line.contains(&segment.name));
    let line = line.unwrap_or_else(|| panic!("not logged: {log}"));
    assert!(line.contains("WARN"), "{line}");
    let told = format!("{} rows may be delivered again", segment.ids);
    assert!(line.contains(&told), "{line}");
    session.insert("last").await;
    world.settle().await;
    let (last, _) = session.rows().await.pop_last().unwrap();
    world.is_at_rest(last).await;
}

#[tokio::test]
async fn a_document_from_before_late_commits_were_known_goes_on() {
    let server = postgres().await;
    let world = World::of_postgres(&server);
    let mut session = Session::of_postgres(&server).await;
    session.insert_many(5).await;
    world.settle().await;
    world.put(without(&world.body().await, &["late"])).await;
    assert_eq!(world.document().await.late.epoch, None);

    assert_eq!(world.settle().await.rewound, None);
    let mut idle = Session::of_postgres(&server).await;
    idle.begin("idle").await;
    session.insert_many(5).await;
    world.settle().await;
    let document = world.document().await;
    assert!(document.late.epoch.is_some());
    assert!(!document.late.fences.is_empty());
    idle.run("COMMIT").await;
    world.settle().await;
    world.sink.has_each_once(&session.rows().await);
    world.is_at_rest(11).await;
}

/// What it knows of is the checkpoint, below which everything was delivered.
#[tokio::test]
async fn a_reader_that_knows_nothing_of_late_commits_loses_nothing() {
    let (_server, world, mut idle, mut session) = in_the_middle().await;
    let before = world.sink.rows().len();
    let plain = without(&world.body().await, &["late", "delivered"]);
    let plain = world.fork(plain).await;
    plain.tick().await;
    session.insert_many(10).await;
    plain.settle().await;
    idle.run("COMMIT").await;
    session.insert("last").await;
    plain.settle().await;
    let mut rows = session.rows().await;
    assert!(
        rows.remove(&(1, "first".to_owned())),
        "below the checkpoint"
    );
    plain.sink.has_each_once(&rows);
    assert!(plain.sink.rows().len() > before - 1);
    let (last, _) = rows.last().unwrap();
    plain.is_at_rest(*last).await;
}
