//! Signatures, judged by the libraries that receivers use (S4).

use std::collections::BTreeSet;

use dbtick::config::secret::SigningKey;
use serde_json::Value;

use crate::support::verify::Receiver;
use crate::{PATIENT, RawReceiver, Seen, WebhookConfig, batch, deliver, open, status, webhook};

/// "canary" four and five times.
const NEW: &str = "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5";
const OLD: &str = "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5";
const OTHER: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

async fn requests(secrets: &[&str], answers: &[&str]) -> Vec<Seen> {
    let script = answers.iter().map(|line| status(line)).collect();
    let receiver = RawReceiver::playing(script).await;
    let keys = secrets.iter().map(|text| SigningKey::parse(text).unwrap());
    let sink = open(WebhookConfig {
        timeout: PATIENT,
        signing: keys.collect(),
        ..webhook(receiver.port)
    });
    deliver(&sink).await;
    receiver.seen.lock().unwrap().drain(..).collect()
}

#[tokio::test]
async fn the_libraries_of_receivers_verify_what_is_sent_with_either_key() {
    for secrets in [&[NEW][..], &[NEW, OLD]] {
        let seen = requests(secrets, &["200 OK"]).await;
        let sent = batch();
        for receiver in Receiver::ALL {
            for secret in secrets {
                let verified = receiver.verify(secret, &seen[0].headers(), &seen[0].body);
                let verified = verified.unwrap_or_else(|said| panic!("{receiver:?}: {said}"));
                assert_eq!(verified["batch_id"], sent.id.as_str());
                assert_eq!(verified["events"].as_array().unwrap().len(), 2);
            }
            let refused = receiver.verify(OTHER, &seen[0].headers(), &seen[0].body);
            assert!(refused.unwrap_err().contains("No matching signature"));
        }
    }
}

#[tokio::test]
async fn whatever_is_changed_on_the_way_is_rejected() {
    let seen = requests(&[NEW], &["200 OK"]).await;
    let Seen { body, .. } = &seen[0];
    let mut flipped = body.clone();
    let at = flipped.iter().position(|byte| *byte == b'1').unwrap();
    flipped[at] ^= 1;
    let mut cases = vec![(seen[0].headers(), flipped), (seen[0].headers(), vec![])];
    for (name, value) in [
        ("webhook-id", "batch_other".to_owned()),
        ("webhook-timestamp", {
            let timestamp: i64 = seen[0]
                .header("webhook-timestamp")
                .unwrap()
                .parse()
                .unwrap();
            (timestamp - 1).to_string()
        }),
        ("webhook-signature", "v1,AAAA".to_owned()),
    ] {
        let mut headers = seen[0].headers();
        headers[name] = Value::from(value);
        cases.push((headers, body.clone()));
    }
    for receiver in Receiver::ALL {
        for (headers, body) in &cases {
            let refused = receiver.verify(NEW, headers, body);
            assert!(refused.is_err(), "{receiver:?} {headers}");
        }
    }
}

#[tokio::test]
async fn every_attempt_has_the_same_id_and_a_time_and_signature_of_its_own() {
    let busy = "503 Busy";
    let seen = requests(&[NEW, OLD], &[busy, busy, "200 OK"]).await;
    assert_eq!(seen.len(), 3);
    let times: BTreeSet<_> = seen.iter().map(|s| s.header("webhook-timestamp")).collect();
    assert_eq!(times.len(), 3, "{times:?}");
    for request in &seen {
        assert_eq!(request.header("webhook-id"), seen[0].header("webhook-id"));
        let signatures = request.header("webhook-signature").unwrap();
        let values: Vec<&str> = signatures.split(' ').collect();
        assert!(matches!(values[..], [new, old] if new != old), "{values:?}");
        assert!(values.iter().all(|value| value.starts_with("v1,")));
        let verified = Receiver::Python.verify(OLD, &request.headers(), &request.body);
        assert!(verified.is_ok(), "{verified:?}");
    }
}

#[tokio::test]
async fn without_a_key_nothing_is_signed() {
    let seen = requests(&[], &["200 OK"]).await;
    for name in ["webhook-timestamp", "webhook-signature"] {
        assert_eq!(seen[0].header(name), None);
    }
    assert_eq!(seen[0].header("webhook-id"), Some(batch().id.as_str()));
}
