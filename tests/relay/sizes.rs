//! The sink alone: rows and batches that are too large for what is behind a relay, and traces.

use std::sync::Arc;
use std::time::Duration;

use dbtick::clock::SystemClock;
use dbtick::config::{RelayConfig, RelayFunction};
use dbtick::model::envelope::{Batch, Fence};
use dbtick::model::lease::FencingToken;
use dbtick::model::page::{Op, PageWriter};
use dbtick::model::position::{Position, Scalar};
use dbtick::sink::webhook::client;
use dbtick::sink::{FailureKind, RelaySink, Sink, Stance, Verdict};
use reqwest::header::HeaderValue;
use serde_json::json;

use crate::support::receiver::{Answer, Receiver};

/// One row for each length of its note.
fn batch(notes: &[usize]) -> Batch {
    let mut writer = PageWriter::new("orders", 100, usize::MAX);
    for (id, length) in (1_i64..).zip(notes) {
        let at = || vec![Scalar::Integer(id.into())];
        writer.push(
            Op::Upsert,
            Position::new(at(), at()),
            |out| out.extend_from_slice(id.to_string().as_bytes()),
            |out| out.extend_from_slice(format!("{{\"id\":{id}}}").as_bytes()),
            |out| {
                out.extend_from_slice(
                    json!({ "note": "x".repeat(*length) })
                        .to_string()
                        .as_bytes(),
                )
            },
        );
    }
    let fence = Fence {
        token: FencingToken::default(),
        sequence: 1,
        shard: None,
    };
    Batch::assemble("orders", &[], &writer.finish(), fence, 1, None)
}

fn sink(receiver: &Receiver, largest_message: Option<usize>) -> RelaySink {
    let config = RelayConfig {
        function: RelayFunction {
            name: "carry".to_owned(),
            path: "api/carry".to_owned(),
            request: "req".to_owned(),
            response: "res".to_owned(),
            output: "messages".to_owned(),
            kind: "queue".to_owned(),
            largest_message,
        },
        app: Some(
            format!("http://127.0.0.1:{}/", receiver.port)
                .parse()
                .unwrap(),
        ),
        key: HeaderValue::from_static("key"),
        key_name: "%RELAY_KEY%".to_owned(),
        timeout: Duration::from_secs(20),
    };
    RelaySink::new("relay", &config, client().unwrap(), Arc::new(SystemClock))
}

async fn acknowledging() -> Receiver {
    let receiver = Receiver::start().await;
    receiver.answer(|_, delivery| {
        let token = delivery.headers["x-dbtick-relay-token"].to_str().unwrap();
        let count = delivery.body["messages"].as_array().unwrap().len();
        Answer::Say(
            200,
            None,
            json!({ "token": token, "count": count }).to_string(),
        )
    });
    receiver
}

#[tokio::test]
async fn a_row_that_no_message_can_hold_is_named_and_the_others_go() {
    let receiver = acknowledging().await;
    let sink = sink(&receiver, Some(1000));
    let batch = batch(&[10, 2000, 10]);
    let Verdict::Partly(unaccepted) = sink.deliver(&batch).await else {
        panic!("two of three fit");
    };
    let [large] = unaccepted.as_slice() else {
        panic!("{unaccepted:?}");
    };
    assert_eq!(
        (large.id, large.stance),
        (batch.event_ids[1], Stance::Never)
    );
    assert!(large.reason.contains("1000 at most"), "{}", large.reason);
    let [delivery] = receiver.deliveries().try_into().unwrap();
    assert_eq!(delivery.body["messages"].as_array().unwrap().len(), 2);

    let Verdict::Partly(unaccepted) = sink.deliver(&super::sizes::batch(&[2000])).await else {
        panic!("it does not fit");
    };
    assert_eq!(unaccepted.len(), 1);
    assert_eq!(receiver.count(), 1, "nothing is left to send");
}

#[tokio::test]
async fn a_message_of_exactly_the_largest_size_goes() {
    let receiver = acknowledging().await;
    let batch = batch(&[100]);
    let size = batch.message(0).len();
    assert_eq!(
        sink(&receiver, Some(size)).deliver(&batch).await,
        Verdict::Acknowledged
    );
    let verdict = sink(&receiver, Some(size - 1)).deliver(&batch).await;
    assert!(matches!(verdict, Verdict::Partly(_)), "{verdict:?}");
}

#[tokio::test]
async fn a_trace_goes_with_the_batch() {
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let receiver = acknowledging().await;
    let sink = sink(&receiver, None);
    let mut batch = batch(&[10]);
    assert_eq!(sink.deliver(&batch).await, Verdict::Acknowledged);
    batch.trace = Some(TRACE.into());
    assert_eq!(sink.deliver(&batch).await, Verdict::Acknowledged);
    let traces = receiver.deliveries();
    let traces = traces
        .iter()
        .map(|one| one.headers.get("traceparent").cloned());
    let expected = [None, Some(HeaderValue::from_static(TRACE))];
    assert_eq!(traces.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_batch_that_the_host_would_not_take_is_not_sent() {
    let receiver = acknowledging().await;
    let batch = batch(&[60 << 20, 60 << 20]);
    let Verdict::Failed(failure) = sink(&receiver, None).deliver(&batch).await else {
        panic!("it is larger than 100 MiB");
    };
    assert_eq!(failure.kind, FailureKind::TooLarge);
    assert!(failure.reason.contains("batch.max_bytes"), "{failure}");
    assert_eq!(receiver.count(), 0);
}
