//! What lies beside a state document: segments of the ledger, and rows in quarantine.

use dbtick::model::envelope::Fence;
use dbtick::model::lease::FencingToken;
use dbtick::model::ledger::{Mark, Segment};
use dbtick::model::quarantine::Case;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Any bytes, under a name that fits them: what the name would have caught is caught behind it.
pub(crate) fn ledger(input: &[u8]) {
    assert!(Segment::decode("0000000001-00", input).is_err());
    let hash: String = Sha256::digest(input)[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let Ok(segment) = Segment::decode(&format!("0000000001-{hash}"), input) else {
        return;
    };
    for marks in segment.sinks.values() {
        for mark in [Mark::Taken, Mark::Quarantined] {
            let numbers: Vec<_> = marks.all(mark).collect();
            assert!(numbers.iter().all(|at| *at < segment.ids.len()));
        }
        assert_eq!(marks.of(segment.ids.len()), None);
    }
    let (name, bytes) = segment.encode(1);
    assert_eq!(Segment::decode(&name, &bytes).unwrap(), segment);
    if let Some(at) = bytes
        .len()
        .checked_sub(1 + usize::from(hash.as_bytes()[0]) % bytes.len())
    {
        let mut flipped = bytes;
        flipped[at] ^= 1;
        assert!(Segment::decode(&name, &flipped).is_err());
    }
}

/// Any bytes are refused, or can be shown and sent again with the same content.
pub(crate) fn quarantine(input: &[u8]) {
    let Ok(case) = Case::from_bytes(input) else {
        return;
    };
    let again = Case::from_bytes(&case.to_bytes()).expect("what is written is read");
    assert_eq!(again.to_bytes(), case.to_bytes());
    assert_eq!(again.event().get(), case.event().get());
    // An event of ours is JSON that every reader takes; what somebody else has put there is kept as it is.
    if serde_json::from_str::<Value>(case.event().get()).is_err() {
        return;
    }
    for whole in [true, false] {
        let _: Value = serde_json::from_slice(&case.notice(whole)).expect("a notice is JSON");
    }
    if !case.key().is_empty() {
        let _: Value = serde_json::from_str(&case.key()).expect("a key is JSON");
    }
    if let Ok(place) = case.position() {
        assert_eq!(again.position().unwrap(), place);
    }
    for salt in [None, Some(7)] {
        let fence = Fence {
            token: FencingToken::default(),
            sequence: 1,
            shard: None,
        };
        let Some(batch) = case.batch(fence, salt) else {
            continue;
        };
        assert_eq!(batch.len(), 1);
        let id = batch.event_ids[0];
        assert_eq!(salt.is_none(), Some(id) == case.id());
        let event = batch.events_json().next().expect("it has one event");
        let event: Value = serde_json::from_slice(event).expect("an event is JSON");
        assert_eq!(event["id"], id.to_string());
    }
}
