//! What a body looks like: compressed, and in other envelopes.

use std::io::Read;
use std::process::Command;

use dbtick::config::secret::SigningKey;
use dbtick::model::envelope::Envelope;
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::support::verify::{Receiver, python, run};
use crate::{PATIENT, RawReceiver, Seen, WebhookConfig, batch, deliver, open, status, webhook};

const KEY: &str = "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5";

async fn requests(change: impl FnOnce(&mut WebhookConfig), answers: &[&str]) -> Vec<Seen> {
    let script = answers.iter().map(|line| status(line)).collect();
    let receiver = RawReceiver::playing(script).await;
    let mut config = webhook(receiver.port);
    config.timeout = PATIENT;
    change(&mut config);
    deliver(&open(config)).await;
    receiver.seen.lock().unwrap().drain(..).collect()
}

#[tokio::test]
async fn a_compressed_body_is_the_body_and_its_bytes_are_what_is_signed() {
    let compressed = |config: &mut WebhookConfig| {
        config.gzip = true;
        config.signing = vec![SigningKey::parse(KEY).unwrap()];
    };
    let seen = requests(compressed, &["503 Busy", "200 OK"]).await;
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].body, seen[1].body);
    for request in &seen {
        assert_eq!(request.header("content-encoding"), Some("gzip"));
        assert_eq!(request.header("content-type"), Some("application/json"));
        let length = request.body.len().to_string();
        assert_eq!(request.header("content-length"), Some(length.as_str()));
        let mut plain = Vec::new();
        GzDecoder::new(&*request.body)
            .read_to_end(&mut plain)
            .unwrap();
        assert_eq!(plain, batch().body);
    }
    let mut flipped = seen[0].body.clone();
    // The time in its header, which no reader looks at.
    flipped[4] ^= 1;
    let headers = seen[0].headers();
    for receiver in Receiver::ALL {
        let verified = receiver.verify(KEY, &headers, &seen[0].body);
        let verified = verified.unwrap_or_else(|said| panic!("{receiver:?}: {said}"));
        assert_eq!(verified["batch_id"], batch().id.as_str());
        let refused = receiver.verify(KEY, &headers, &flipped);
        assert!(refused.unwrap_err().contains("no signature matches"));
    }
}

/// Reads a batch as the HTTP binding says, event by event: the SDK knows no batches.
const CLOUDEVENTS: &str = r#"
import json, sys
from cloudevents.core.bindings.http import HTTPMessage, from_structured_event
from cloudevents.v1.http import from_json
for event in json.load(sys.stdin):
    text = json.dumps(event)
    headers = {"content-type": "application/cloudevents+json"}
    read = from_structured_event(HTTPMessage(headers, text.encode()))
    assert from_json(text)["id"] == read.get_id()
    print(json.dumps([read.get_id(), read.get_type(), read.get_source(), read.get_subject(),
                      read.get_extension("batchid"), read.get_extension("fencetoken"), read.get_data()]))
"#;

#[tokio::test]
async fn the_sdk_of_cloudevents_reads_what_is_sent() {
    let cloudevents = |config: &mut WebhookConfig| config.envelope = Envelope::CloudEvents;
    let seen = requests(cloudevents, &["200 OK"]).await;
    let kind = seen[0].header("content-type");
    assert_eq!(kind, Some("application/cloudevents-batch+json"));
    let output = run(
        Command::new(python()).args(["-c", CLOUDEVENTS]),
        &seen[0].body,
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let sent = batch();
    let native: Value = serde_json::from_slice(&sent.body).unwrap();
    let read = String::from_utf8(output.stdout).unwrap();
    assert_eq!(read.lines().count(), 2);
    for (line, event) in read.lines().zip(native["events"].as_array().unwrap()) {
        let line: Value = serde_json::from_str(line).unwrap();
        let expected = serde_json::json!([
            event["id"],
            "dbtick.row.upsert",
            "/dbtick/orders",
            event["key"].to_string(),
            sent.id.as_str(),
            "1",
            event
        ]);
        assert_eq!(line, expected);
    }
}

#[tokio::test]
async fn every_envelope_can_be_signed_and_compressed() {
    for envelope in [Envelope::Native, Envelope::CloudEvents, Envelope::Debezium] {
        let change = |config: &mut WebhookConfig| {
            config.envelope = envelope;
            config.gzip = true;
            config.signing = vec![SigningKey::parse(KEY).unwrap()];
        };
        let seen = requests(change, &["200 OK"]).await;
        assert_eq!(
            seen[0].header("content-type"),
            Some(envelope.content_type())
        );
        let verified = Receiver::Node.verify(KEY, &seen[0].headers(), &seen[0].body);
        let expected: Value = serde_json::from_slice(batch().body_in(envelope)).unwrap();
        assert_eq!(verified, Ok(expected));
    }
}
