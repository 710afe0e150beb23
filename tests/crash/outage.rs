//! A receiver that is down for a while.

use serde_json::json;

use crate::support::handler::free_port;
use crate::support::receiver::{Answer, Receiver};
use crate::support::world::World;

#[tokio::test]
async fn rows_wait_for_a_receiver_that_is_down_and_then_all_arrive() {
    let port = free_port();
    let hook = json!({ "webhook": { "url": "%HOOK%", "attempts": 1 } });
    let world = World::with_orders(json!({ "deliver": [hook], "batch": { "max_rows": 4 } }))
        .await
        .rows(10)
        .await
        .setting("HOOK", &format!("http://127.0.0.1:{port}/"));
    let handler = world.serve().await;
    for attempt in 1..=3 {
        let answer = handler.tick("Orders").await;
        assert_eq!(answer.status, 500);
        assert!(answer.logs().contains("refused"), "{answer:?}");
        let document = world.state("orders").document();
        assert_eq!(document.position(), None, "the checkpoint stays");
        assert_eq!(document.lease.held, None, "the lease is free");
        assert_eq!(
            document.failures().next().unwrap().1.attempts,
            attempt,
            "counted across ticks"
        );
    }
    let receiver = Receiver::start_on(port).await;
    receiver.answer(|index, _| match index {
        0 => Answer::Say(503, None, String::new()),
        2 => Answer::Say(429, None, String::new()),
        _ => Answer::Ok,
    });
    for (status, committed) in [(500, 0), (500, 4), (200, 10)] {
        assert_eq!(handler.tick("Orders").await.status, status);
        assert_eq!(world.state("orders").committed(), committed);
    }
    let rows = receiver.acknowledged_rows();
    assert_eq!(rows.len(), 10);
    assert!(rows.values().all(|events| events.len() == 1), "{rows:?}");
    assert_eq!(receiver.deliveries()[0].body["attempt"], 4);
}
