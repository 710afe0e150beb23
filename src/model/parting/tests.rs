use super::*;
use crate::model::history::HistoryEntry;
use crate::model::position::Scalar;
use crate::model::sinks::{Lag, SinkState};

fn at(second: i64) -> Timestamp {
    chrono::DateTime::from_timestamp(1_775_000_000 + second, 0).unwrap()
}

fn mark(place: i128) -> CursorMark {
    let scalar = || vec![Scalar::Integer(place)];
    CursorMark::new(Position::new(scalar(), scalar()), &["id".to_owned()])
}

/// Of a server that was started then.
fn epoch(started: i64, now: i64) -> Epoch {
    Epoch {
        timeline: None,
        started: Some(at(started)),
        started_within: 0,
        transaction: Some(now.unsigned_abs()),
        written_down: None,
        now: at(now),
    }
}

/// One that was at these places at these times, and has seen the server then the last time.
fn document(name: &str, places: &[(i128, i64)], seen: Option<Epoch>) -> StateDocument {
    let mut document = StateDocument::first(name, "sha256:0", None);
    let entry = |(version, (place, second)): (u64, &(i128, i64))| HistoryEntry {
        version,
        at: at(*second),
        cursor: Some(mark(*place)),
        batch_id: Some("b".to_owned()),
        rows: 1,
        total_rows: version,
        schema: None,
        source: "0".to_owned(),
        by: None,
        undo: false,
        transaction: Some(second.unsigned_abs()),
        behind: Default::default(),
    };
    document.history = (1..).zip(places).map(entry).collect();
    document.checkpoint.cursor = places.last().map(|(place, _)| mark(*place));
    document.checkpoint.updated_at = places.last().map(|(_, second)| at(*second));
    document.late.epoch = seen;
    document
}

fn beginning(documents: &[StateDocument]) -> Beginning {
    Beginning::of(documents, Duration::from_secs(5)).unwrap()
}

#[test]
fn it_is_where_the_last_stood_or_the_last_of_their_receivers() {
    let mut ahead = document("a", &[(10, 1), (20, 2)], None);
    let behind = document("b", &[(12, 3)], None);
    assert_eq!(
        beginning(&[ahead.clone(), behind.clone()]).at,
        Some(mark(12))
    );
    let lag = Lag::new(Some(mark(7)), Default::default(), at(1));
    let sink = SinkState {
        lag: Some(lag),
        ..SinkState::default()
    };
    ahead.sinks.insert("hook".to_owned(), sink);
    assert_eq!(beginning(&[ahead, behind.clone()]).at, Some(mark(7)));
    let newborn = StateDocument::first("c", "sha256:0", None);
    assert_eq!(beginning(&[behind, newborn]).at, None);
}

#[test]
fn when_all_had_passed_it_is_known() {
    let one = document("a", &[(10, 1), (20, 2), (30, 9)], None);
    let other = document("b", &[(5, 3), (15, 4)], None);
    let begun = beginning(&[one, other.clone()]);
    assert_eq!((begun.since, begun.transaction), (Some(at(4)), Some(4)));
    // What was there before it was moved back says nothing.
    let moved = document("a", &[(40, 1), (10, 6), (30, 9)], None);
    assert_eq!(beginning(&[moved, other]).since, Some(at(9)));
}

#[test]
fn a_restart_that_one_of_them_has_not_met_yet_takes_it_back_first() {
    let idle = document(
        "idle",
        &[(10, 100), (20, 1000), (30, 1995)],
        Some(epoch(0, 1995)),
    );
    let busy = document("busy", &[(40, 2100)], Some(epoch(2000, 2100)));
    let begun = beginning(&[idle.clone(), busy.clone()]);
    // The last seconds before the server went may be lost.
    assert_eq!(begun.at, Some(mark(20)));
    assert_eq!(begun.epoch, Some(epoch(2000, 2100)));
    assert_eq!(beginning(&[busy, idle]).at, Some(mark(20)));
}

#[test]
fn documents_of_two_servers_or_of_two_orders_are_not_one_poller() {
    let mut one = document("a", &[(1, 1)], None);
    let mut other = document("b", &[(1, 1)], None);
    one.server = Some("x".into());
    assert!(Beginning::of(&[one.clone(), other.clone()], Duration::ZERO).is_ok());
    other.server = Some("y".into());
    let disagree = Beginning::of(&[one, other], Duration::ZERO).unwrap_err();
    assert_eq!(disagree.to_string(), "b has read another server than a");
}
