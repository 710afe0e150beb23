//! What a configuration changes at the service.

use std::time::Duration;

use chrono::TimeDelta;
use dbtick::azure::queue::TimeToLive;
use dbtick::clock::{Clock, SystemClock};
use dbtick::sink::{FailureKind, Verdict};

use crate::{Storage, batch, deliver, ids, row};

#[tokio::test]
async fn a_queue_that_is_missing_is_created_where_that_is_allowed() {
    let storage = Storage::queues();
    let batch = batch((1..=20).map(row));
    let verdict = deliver(&storage.sink(|config| config.create = false), &batch).await;
    let Verdict::Failed(failure) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(failure.kind, FailureKind::Refused);
    assert_eq!(
        failure.reason,
        "queue order-events of STORAGE: there is no such queue: create it, or let it be created by \
         \"create\": true"
    );
    let verdict = deliver(&storage.sink(|_| {}), &batch).await;
    assert_eq!(verdict, Verdict::Acknowledged);
    assert_eq!(ids(&storage.messages().await), (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_message_lives_for_as_long_as_it_is_told() {
    let storage = Storage::queues();
    let days = |days: i64| Some(TimeDelta::days(days));
    for (time_to_live, expected) in [
        (None, days(7)),
        (Some(TimeToLive::Seconds(3600)), Some(TimeDelta::hours(1))),
        (Some(TimeToLive::Seconds(30 * 24 * 60 * 60)), days(30)),
        (Some(TimeToLive::Forever), None),
    ] {
        let sink = storage.sink(|config| config.posting.time_to_live = time_to_live);
        deliver(&sink, &batch([row(1)])).await;
        let found = storage.queue().peek().await.unwrap();
        let lives = found[0].expires.unwrap() - SystemClock.now();
        match expected {
            Some(expected) => {
                let off = (lives - expected).abs();
                assert!(off < TimeDelta::minutes(5), "{time_to_live:?}: {lives}");
            }
            None => assert!(lives > TimeDelta::days(1_000_000), "{lives}"),
        }
        storage.messages().await;
    }
}

#[tokio::test]
async fn a_message_is_hidden_for_as_long_as_it_is_told() {
    let storage = Storage::queues();
    for (seconds, visible) in [(0, 1), (3600, 0)] {
        let hidden = Duration::from_secs(seconds);
        let sink = storage.sink(|config| config.posting.visible_after = hidden);
        let verdict = deliver(&sink, &batch([row(1)])).await;
        assert_eq!(verdict, Verdict::Acknowledged);
        assert_eq!(storage.messages().await.len(), visible, "{seconds}");
    }
}
