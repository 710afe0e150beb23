//! The receivers of samples/, with real deliveries of the handler, some of them repeated on purpose.

#![allow(clippy::unwrap_used)] // the lint exempts test functions, not what they call

mod support;

#[path = "samples/copies.rs"]
mod copies;
#[path = "samples/front.rs"]
mod front;
#[path = "samples/sample.rs"]
mod sample;

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use dbtick::azure::Azure;
use dbtick::azure::connection::{Service, StorageConnection};
use dbtick::azure::queue::Queue;
use dbtick::clock::{Clock, SystemClock};
use dbtick::config::Settings;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use front::{Front, Then, client};
use sample::Sample;
use support::azurite::Azurite;
use support::command::run;
use support::within;
use support::world::World;

const SECRET: &str = "whsec_c2FtcGxlcyBhcmUgc2lnbmVkIHdpdGggdGhpcyBrZXk=";
/// Between two ticks while the lease of a dead process runs out.
const TICKS: Duration = Duration::from_millis(200);

async fn world(front: &Front) -> World {
    let world = World::with_orders(json!({
        "batch": { "max_rows": 2 },
        "lease": { "ttl": "3s", "heartbeat": "1s", "margin": "500ms" },
        "deliver": [{ "webhook": { "url": "%FRONT%", "secret": "%SECRET%", "attempts": 1 } }]
    }));
    let world = world.await.setting("FRONT", &front.url());
    world.setting("SECRET", SECRET).rows(5).await
}

/// The effect of a delivery stands; its answer is lost, once as a 500 and once with the process that
/// waits for it. So the rows come again.
async fn every_effect_happens_once(sample: Sample) {
    let front = Front::before(sample.address()).await;
    let world = world(&front).await;
    let copies = &sample.copies;

    front.then(&[Then::Fail, Then::Pass, Then::Keep]);
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 500);
    assert_eq!(
        copies.changes().await.len(),
        2,
        "taken, and not acknowledged"
    );
    let cut_off = handler.try_tick("Orders");
    let killed = async {
        front.passed(3).await;
        handler.signal(Signal::SIGKILL);
    };
    let (cut_off, ()) = futures_util::future::join(cut_off, killed).await;
    assert!(cut_off.is_none(), "the process died");

    let handler = world.serve().await;
    within("all rows are taken", async {
        while copies.changes().await.len() < 5 || front.is_open() {
            handler.tick("Orders").await;
            tokio::time::sleep(TICKS).await;
        }
    })
    .await;
    let sent = front.events();
    assert!(
        sent.len() >= 5 + 4,
        "two batches of two came twice: {sent:?}"
    );
    assert!(front.statuses().contains(&200));
    let once: Vec<_> = (1..=5).map(|id| (id, 1)).collect();
    assert_eq!(copies.changes().await, once);

    let mut writer = world.writer().await;
    writer
        .sql("UPDATE orders SET seq = 6, note = 'changed' WHERE id = 3")
        .await;
    handler.tick("Orders").await;
    assert_eq!(copies.changes().await[2], (3, 2), "a new version is new");
    assert_eq!(copies.note(3).await, "changed");
}

/// One row that is never right: the others of its batch are taken, and it is set aside with the reason.
async fn a_wrong_event_is_named_and_the_others_are_taken(sample: Sample) {
    let front = Front::before(sample.address()).await;
    let world = world(&front).await;
    let mut writer = world.writer().await;
    writer
        .sql("ALTER TABLE orders ADD COLUMN status TEXT")
        .await;
    writer
        .sql("UPDATE orders SET status = 'impossible' WHERE id = 2")
        .await;
    let handler = world.serve().await;
    handler.tick("Orders").await;
    handler.tick("Orders").await;
    let taken: Vec<_> = [1, 3, 4, 5].map(|id| (id, 1)).into();
    assert_eq!(
        sample.copies.changes().await,
        taken,
        "{}",
        handler.everything_said()
    );
    let listed = run(&world, &["quarantine", "list", "orders"]);
    assert!(
        listed.stdout.contains("no order has this status"),
        "{listed:?}"
    );
}

async fn what_is_not_signed_has_no_effect(sample: Sample) {
    let batch = json!({ "poller": "orders", "batch_id": "batch_1", "events": [
        { "id": "1", "op": "upsert", "key": { "id": 1 }, "data": { "id": 1 } }
    ] });
    let forged = client()
        .post(sample.address())
        .header("webhook-id", "batch_1")
        .header("webhook-timestamp", SystemClock.now().timestamp())
        .header("webhook-signature", "v1,bm90IHNpZ25lZA==")
        .body(batch.to_string());
    let plain = client().post(sample.address()).body(batch.to_string());
    for request in [forged, plain] {
        assert_eq!(request.send().await.unwrap().status(), 401);
    }
    assert_eq!(sample.copies.changes().await, []);
}

/// The queue gives a message again whenever its receiver did not delete it in time.
async fn a_message_that_comes_twice_has_one_effect(sample: Sample) {
    let azurite = Azurite::queue();
    let world = World::with_orders(
        json!({ "deliver": [{ "queue": { "queue": "order-events", "connection": "STORAGE" } }] }),
    );
    let world = world
        .await
        .setting("STORAGE", &azurite.queue_connection_string());
    let world = world.rows(3).await;
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    let messages = messages(&azurite).await;
    assert_eq!(messages.len(), 3);
    let client = client();
    for message in messages.iter().chain(&messages) {
        let given = client
            .post(sample.queue())
            .body(message.clone())
            .send()
            .await;
        assert_eq!(given.unwrap().status(), 200);
    }
    let once: Vec<_> = (1..=3).map(|id| (id, 1)).collect();
    assert_eq!(sample.copies.changes().await, once);

    // One that is not understood fails, so that the host gives it again and sets it aside at last.
    let mut claim: Value = serde_json::from_slice(&messages[0]).unwrap();
    claim["claim_check"] = json!({ "container": "db-claims", "blob": "large.json" });
    let given = client
        .post(sample.queue())
        .body(claim.to_string())
        .send()
        .await;
    assert_eq!(given.unwrap().status(), 500);
}

/// As the trigger hands them over.
async fn messages(azurite: &Azurite) -> Vec<Vec<u8>> {
    let settings = Settings::from_iter([("STORAGE", azurite.queue_connection_string())]);
    let connection = StorageConnection::resolve(&settings, "STORAGE").unwrap();
    let endpoint = Arc::new(connection.service(Service::Queue).unwrap());
    let azure = Azure::new(Arc::new(SystemClock)).unwrap();
    let queue = Queue::new(&azure, endpoint, "order-events", Arc::new(SystemClock));
    let received = queue.receive(Duration::from_secs(30)).await.unwrap();
    let texts = received.iter().map(|message| message.text.as_bytes());
    texts.map(|text| BASE64.decode(text).unwrap()).collect()
}

macro_rules! promises {
    ($($promise:ident { $($test:ident => $sample:ident,)* })*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                $promise(Sample::$sample().await).await;
            }
        )*)*
    };
}

promises! {
    every_effect_happens_once {
        the_plain_receiver_takes_every_event_once => plain,
        the_python_function_takes_every_event_once => python,
        the_node_function_takes_every_event_once => node,
    }
    a_wrong_event_is_named_and_the_others_are_taken {
        the_plain_receiver_names_a_wrong_event => plain,
        the_node_function_names_a_wrong_event => node,
    }
    what_is_not_signed_has_no_effect {
        the_plain_receiver_refuses_what_is_not_signed => plain,
        the_python_function_refuses_what_is_not_signed => python,
        the_node_function_refuses_what_is_not_signed => node,
    }
    a_message_that_comes_twice_has_one_effect {
        the_python_function_takes_every_message_once => python,
        the_node_function_takes_every_message_once => node,
    }
}
