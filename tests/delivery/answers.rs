//! Answers that change what comes next: 410, 413, and what the host repeats.

use serde_json::json;

use crate::moods::{Badness, Moody};
use crate::support::command::{good, run};
use crate::support::dice::Dice;
use crate::support::receiver::Answer;
use crate::support::world::World;
use crate::{filled, hasty, quarantined, until_quiet};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_gone_is_left_alone_until_resume() {
    let world = World::with_orders(hasty(json!({}))).await.rows(5).await;
    world
        .receiver
        .answer(|_, _| Answer::Say(410, None, String::new()));
    let handler = world.serve().await;
    let gone = handler.tick("Orders").await;
    assert_eq!(gone.status, 500);
    for words in ["410 Gone", "is paused", "`dbtick resume orders`"] {
        assert!(gone.logs().contains(words), "{words}: {gone:?}");
    }
    world.receiver.answer(|_, _| Answer::Ok);
    let paused = handler.tick("Orders").await;
    assert!(paused.logs().contains("paused"), "{paused:?}");
    assert_eq!((paused.status, world.receiver.count()), (200, 1));
    let check = run(&world, &["check"]);
    let why = "answered 410 Gone; the receiver says that it is gone for good";
    for words in [why, "by dbtick: "] {
        assert!(check.stdout.contains(words), "{check:?}");
    }
    assert!(good(&run(&world, &["resume", "orders"])).contains("410 Gone"));
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.receiver.acknowledged_rows().len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_receiver_takes_at_once_is_remembered_over_a_restart() {
    let world = World::with_orders(hasty(json!({ "batch": { "max_rows": 32 } }))).await;
    world
        .receiver
        .answer(|_, delivery| match delivery.events().len() {
            6.. => Answer::Say(413, None, String::new()),
            _ => Answer::Ok,
        });
    filled(&world, 32).await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    drop(handler);
    let before = world.receiver.count();
    assert!(before > 7, "it was halved: {before}");
    filled(&world, 32).await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let deliveries = world.receiver.deliveries();
    let sizes: Vec<usize> = deliveries[before..]
        .iter()
        .map(|it| it.events().len())
        .collect();
    assert!(sizes.iter().all(|rows| *rows <= 5), "{sizes:?}");
    assert_eq!(world.receiver.acknowledged_rows().len(), 64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_host_repeats_by_itself_convicts_no_row() {
    let world = World::with_orders(hasty(json!({}))).await;
    filled(&world, 4).await;
    let bad = [(2, Badness::Rejected)].into();
    let moody = Moody::take_over(&world.receiver, Dice::thrown(), bad);
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 500);
    for count in 1..=4 {
        let again = handler.retry("Orders", count).await;
        assert!(again.logs().contains("attempt 1"), "{again:?}");
    }
    assert_eq!((moody.taken().len(), quarantined(&world).len()), (0, 0));
    until_quiet(&handler).await;
    assert_eq!(quarantined(&world).into_keys().collect::<Vec<_>>(), [2]);
    assert_eq!(moody.taken().into_keys().collect::<Vec<_>>(), [1, 3, 4]);
}
