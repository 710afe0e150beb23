use chrono::DateTime;

use super::*;
use crate::model::position::Scalar;

fn at(seconds: i64) -> Timestamp {
    DateTime::from_timestamp(1_775_000_000 + seconds, 0).unwrap()
}

fn id(n: u32) -> EventId {
    EventId::parse(&format!("{n:032x}")).unwrap()
}

fn place(value: i128) -> CursorMark {
    let scalar = || vec![Scalar::Integer(value)];
    CursorMark::new(Position::new(scalar(), scalar()), &["id".to_owned()])
}

fn lag(value: Option<i128>) -> Lag {
    Lag::new(value.map(place), BTreeMap::new(), at(0))
}

fn attempt(pending: &BTreeSet<EventId>) -> Attempt<'_> {
    Attempt {
        event_id: *pending.first().unwrap(),
        pending,
        error: "500".to_owned(),
        rejected: false,
        not_before: None,
        named: Vec::new(),
        searched: false,
        repeated: false,
    }
}

#[test]
fn attempts_are_counted_on_one_event_however_the_batch_is_cut() {
    let first = Failure::after(None, attempt(&[id(5), id(6)].into()), at(0));
    assert_eq!(
        (first.attempts, first.event_id.clone()),
        (1, id(5).to_string())
    );
    // An earlier row has come: it is still about the same event.
    let second = Failure::after(Some(&first), attempt(&[id(2), id(5)].into()), at(9));
    assert_eq!(
        (second.attempts, second.event_id.clone()),
        (2, id(5).to_string())
    );
    assert_eq!((second.first_at, second.last_at), (at(0), at(9)));
    // That event was taken: what stands in the way now has failed once.
    let other = Failure::after(Some(&second), attempt(&[id(2)].into()), at(20));
    assert_eq!(
        (other.attempts, other.event_id.clone()),
        (1, id(2).to_string())
    );
}

#[test]
fn only_answers_count_as_rejections_and_a_repeated_tick_counts_as_none() {
    let pending = [id(1)].into();
    let mut failure = None;
    for (rejected, repeated, expected) in [
        (false, false, (1, 0)),
        (true, false, (2, 1)),
        (true, true, (2, 1)),
        (true, false, (3, 2)),
    ] {
        let attempt = Attempt {
            rejected,
            repeated,
            ..attempt(&pending)
        };
        let next = Failure::after(failure.as_ref(), attempt, at(0));
        assert_eq!((next.attempts, next.rejections), expected);
        failure = Some(next);
    }
}

#[test]
fn a_wait_is_the_receivers_or_ours_whichever_is_longer() {
    let pending = [id(1)].into();
    let asked = |not_before| Attempt {
        not_before,
        ..attempt(&pending)
    };
    let mut failure = Failure::after(None, asked(Some(at(60))), at(0));
    assert_eq!(failure.not_before, Some(at(60)));
    for expected in [None, None, None, None, Some(2), Some(4), Some(8)] {
        failure = Failure::after(Some(&failure), asked(None), at(0));
        assert_eq!(failure.not_before, expected.map(at));
    }
    for _ in 0..100 {
        failure = Failure::after(Some(&failure), asked(None), at(0));
    }
    assert_eq!(
        failure.not_before,
        Some(at(300)),
        "and never longer than five minutes"
    );
    let longer = Failure::after(Some(&failure), asked(Some(at(900))), at(0));
    assert_eq!(longer.not_before, Some(at(900)));
}

#[test]
fn rows_that_were_set_aside_count_among_the_last_thousand() {
    let mut sinks = Sinks::new();
    let mut aside = |rows, set_aside| {
        let news = SinkNews {
            rows,
            set_aside,
            ..SinkNews::default()
        };
        let news = News {
            sinks: [("hook".to_owned(), news)].into(),
            gone: None,
        };
        note(&mut sinks, &news);
        sinks["hook"].clone()
    };
    assert_eq!(aside(100, 7).room_aside(10, 0), 3);
    assert_eq!(aside(800, 2).room_aside(10, 0), 1);
    assert_eq!(aside(199, 0).room_aside(10, 0), 1);
    assert_eq!(
        aside(0, 0).room_aside(10, 1),
        8,
        "with the batch that is on its way"
    );
    assert_eq!(aside(1, 0).room_aside(10, 0), 8);
    assert_eq!(aside(2000, 0).set_aside, [0; 0], "what is old is forgotten");
}

#[test]
fn a_sink_that_is_behind_the_new_place_too_goes_on_from_its_own() {
    for (is, moved_to, expected) in [
        (Some(3), Some(5), true),
        (Some(5), Some(5), false),
        (Some(7), Some(5), false),
        (None, Some(5), true),
        (None, None, false),
    ] {
        let mut sinks = Sinks::new();
        let state = SinkState {
            lag: Some(lag(is)),
            ..SinkState::default()
        };
        sinks.insert("audit".to_owned(), state);
        let place = moved_to.map(|value| place(value).position);
        begin_at(&mut sinks, place.as_ref());
        assert_eq!(
            sinks["audit"].lag.is_some(),
            expected,
            "{is:?} {moved_to:?}"
        );
    }
}

#[test]
fn who_is_behind_in_either_of_two_documents_is_behind() {
    let with = |value: Option<i128>| -> Sinks {
        let state = SinkState {
            lag: value.map(|value| lag(Some(value))),
            ..SinkState::default()
        };
        [("audit".to_owned(), state)].into()
    };
    for (imported, before, expected) in [
        (None, Some(3), Some(3)),
        (Some(2), Some(3), Some(2)),
        (Some(4), Some(3), Some(3)),
        (None, None, None),
    ] {
        let mut sinks = with(imported);
        keep_behind(&mut sinks, &with(before));
        assert_eq!(sinks["audit"].lag, expected.map(|value| lag(Some(value))));
    }
}

#[test]
fn added_renamed_and_removed_sinks_are_noticed_and_an_old_document_knows_none() {
    let known: Sinks = [("hook".to_owned(), SinkState::default())].into();
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    assert_eq!(compare(&known, &names(&["hook"])), Ok(()));
    assert_eq!(compare(&Sinks::new(), &names(&["any", "other"])), Ok(()));
    let differ = compare(&known, &names(&["queue"])).unwrap_err();
    assert_eq!(
        (differ.added, differ.removed),
        (names(&["queue"]), names(&["hook"]))
    );
}
