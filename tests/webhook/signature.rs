//! Signatures, judged by the libraries that receivers use (S4).

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use dbtick::config::secret::SigningKey;
use serde_json::Value;

use crate::support::verify::{self, Receiver};
use crate::{PATIENT, RawReceiver, Seen, WebhookConfig, batch, deliver, open, status, webhook};

/// "canary" four and five times.
const NEW: &str = "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5";
const OLD: &str = "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5";
const OTHER: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

async fn requests(secrets: &[&str], answers: &[&str]) -> Vec<Seen> {
    requests_of(secrets, answers, false).await
}

async fn requests_of(secrets: &[&str], answers: &[&str], gzip: bool) -> Vec<Seen> {
    let script = answers.iter().map(|line| status(line)).collect();
    let receiver = RawReceiver::playing(script).await;
    let keys = secrets.iter().map(|text| SigningKey::parse(text).unwrap());
    let sink = open(WebhookConfig {
        timeout: PATIENT,
        signing: keys.collect(),
        gzip,
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

/// Standard input: the headers on a line, then the body. A signature whose base64 has other spare bits is the
/// same signature.
const FLIP: &str = r#"
import base64, json, os, sys
sys.path.insert(0, sys.argv[1])
from verify import verify

headers, body = json.loads(sys.stdin.buffer.readline()), sys.stdin.buffer.read()

def taken(headers, body):
    try:
        verify(os.environ["WEBHOOK_SECRET"], headers, body)
        return True
    except Exception:
        return False

def flips(data):
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)

def meant(signature):
    try:
        version, value = signature.split(",", 1)
        return version, base64.b64decode(value)
    except Exception:
        return None

assert taken(headers, body)
tried, wrong = 0, []
for flipped in flips(body):
    tried += 1
    if taken(headers, flipped):
        wrong.append(repr(flipped))
for name in ["webhook-id", "webhook-timestamp", "webhook-signature"]:
    for flipped in flips(headers[name].encode()):
        value = flipped.decode("latin-1")
        if name == "webhook-signature" and meant(value) == meant(headers[name]):
            continue
        tried += 1
        if taken({**headers, name: value}, body):
            wrong.append(name + ": " + repr(value))
print(json.dumps({"tried": tried, "wrong": wrong}))
"#;

/// S4: of the body, plain and compressed, and of every header that is signed or signs.
#[tokio::test]
async fn every_flipped_bit_is_rejected_by_the_library_of_the_receiver() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/verify");
    for gzip in [false, true] {
        let seen = requests_of(&[NEW], &["200 OK"], gzip).await;
        let input = [
            seen[0].headers().to_string().as_bytes(),
            b"\n",
            &seen[0].body,
        ]
        .concat();
        let mut flip = Command::new(verify::python());
        flip.args(["-B", "-c", FLIP])
            .arg(&docs)
            .env("WEBHOOK_SECRET", NEW);
        let output = verify::run(&mut flip, &input);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["wrong"], Value::Array(vec![]), "gzip {gzip}");
        let tried = found["tried"].as_u64().unwrap();
        assert!(tried as usize > seen[0].body.len() * 8, "{tried}");
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
