//! Short texts: schedules, names in a store, headers of traces.

use std::path::{Component, Path};

use chrono::{DateTime, TimeDelta};
use dbtick::model::trace::TraceParent;
use dbtick::schedule::Schedule;
use dbtick::store::StoreKey;

pub(crate) fn schedule(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let schedule = match Schedule::parse(text) {
        Ok(schedule) => schedule,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let start = DateTime::from_timestamp(1_775_000_000, 0).unwrap();
    let mut before = start;
    for _ in 0..4 {
        let next = schedule.next_after(before);
        assert!(next > before, "{text:?}: {next} after {before}");
        before = next;
        if next == DateTime::<chrono::Utc>::MAX_UTC {
            break;
        }
    }
    assert!(schedule.interval(start).is_some_and(|gap| !gap.is_zero()) || before >= start);
    schedule.is_sub_minute(start);
    if schedule.adjusts_for_dst() {
        // The calendar repeats itself after 400 years; what is found at all is found within them.
        let next = schedule.next_after(start);
        assert!(
            next - start < TimeDelta::days(400 * 366),
            "{text:?}: {next}"
        );
    }
}

/// Whatever is taken stays below the directory, and so does all that is derived from it.
pub(crate) fn store_key(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (app, poller) = text.split_once('\n').unwrap_or((&text, "orders"));
    let keys = [
        StoreKey::new(text.as_ref()),
        StoreKey::state(app, poller),
        StoreKey::birth_marker(app, poller),
        StoreKey::state(app, poller).and_then(|key| key.late_object(poller)),
    ];
    for key in keys {
        let key = match key {
            Ok(key) => key,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        for path in [
            key.as_str().to_owned(),
            key.ledger(),
            key.backfills(),
            key.quarantine(),
        ] {
            let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
            assert!(Path::new(&path).components().all(plain), "{path:?}");
            assert!(
                path.bytes()
                    .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
            );
        }
        assert_eq!(StoreKey::new(key.as_str()).unwrap(), key);
    }
}

pub(crate) fn trace_parent(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let Some(trace) = TraceParent::parse(text) else {
        return;
    };
    let shown = trace.to_string();
    assert_eq!(TraceParent::parse(&shown), Some(trace));
    let child = trace.child(7);
    assert_eq!(child.trace_id(), trace.trace_id());
    assert!(TraceParent::parse(&child.to_string()).is_some());
}
