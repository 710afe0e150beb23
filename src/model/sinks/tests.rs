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

#[test]
fn one_sink_more_or_less_is_noticed_too() {
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    let known: Sinks = [("hook".to_owned(), SinkState::default())].into();
    let added = compare(&known, &names(&["hook", "queue"])).unwrap_err();
    assert_eq!((added.added, added.removed), (names(&["queue"]), vec![]));
    let removed = compare(&known, &[]).unwrap_err();
    assert_eq!((removed.added, removed.removed), (vec![], names(&["hook"])));
}

#[test]
fn a_new_sink_is_behind_where_it_is_told_so_and_one_that_is_known_stays() {
    let names = ["hook".to_owned(), "queue".to_owned()];
    let known = || -> Sinks {
        let state = SinkState {
            rows: 7,
            ..SinkState::default()
        };
        [
            ("hook".to_owned(), state.clone()),
            ("old".to_owned(), state),
        ]
        .into()
    };
    for behind in [None, Some(lag(Some(3)))] {
        let mut sinks = known();
        register(&mut sinks, &names, behind.as_ref());
        assert_eq!(sinks.keys().cloned().collect::<Vec<_>>(), names);
        assert_eq!((sinks["hook"].rows, sinks["hook"].lag.clone()), (7, None));
        assert_eq!(sinks["queue"].lag, behind);
    }
}

fn with_lag(lag: Option<Lag>) -> SinkState {
    SinkState {
        lag,
        ..SinkState::default()
    }
}

#[test]
fn who_is_behind_is_told_with_its_place() {
    let sinks: Sinks = [
        ("at the beginning".to_owned(), with_lag(Some(lag(None)))),
        ("behind".to_owned(), with_lag(Some(lag(Some(3))))),
        ("level".to_owned(), with_lag(None)),
    ]
    .into();
    let expected = [
        ("at the beginning".to_owned(), None),
        ("behind".to_owned(), Some(place(3))),
    ];
    assert_eq!(behind(&sinks), expected.into());
}

#[test]
fn who_was_behind_at_a_place_is_behind_there_again() {
    for (is, then, expected) in [
        (None, Some(3), Some(Some(3))),
        (Some(Some(2)), Some(3), Some(Some(2))),
        (Some(Some(3)), Some(3), Some(Some(3))),
        (Some(Some(4)), Some(3), Some(Some(3))),
        (Some(Some(4)), None, Some(None)),
    ] {
        let mut sinks: Sinks = [("audit".to_owned(), with_lag(is.map(lag)))].into();
        let then = [
            ("audit".to_owned(), then.map(place)),
            ("gone".to_owned(), None),
        ]
        .into();
        again_behind(&mut sinks, &then, at(60));
        let lag = sinks["audit"].lag.clone();
        let standing = lag.as_ref().map(|lag| lag.position.clone());
        assert_eq!(
            standing,
            expected.map(|value: Option<i128>| value.map(place))
        );
        // One that is there already has its own past.
        let moved = is.map(|value| value.map(place)) != standing;
        assert_eq!(lag.unwrap().since, if moved { at(60) } else { at(0) });
        assert_eq!(sinks.len(), 1);
    }
}

#[test]
fn of_two_at_one_place_the_one_that_is_there_stays() {
    let older = Lag::new(Some(place(3)), BTreeMap::new(), at(-60));
    let mut sinks: Sinks = [("audit".to_owned(), with_lag(Some(lag(Some(3)))))].into();
    keep_behind(
        &mut sinks,
        &[("audit".to_owned(), with_lag(Some(older)))].into(),
    );
    assert_eq!(sinks["audit"].lag, Some(lag(Some(3))));
}

#[test]
fn a_batch_that_was_too_large_is_halved_for_a_day() {
    let limit = SizeLimit::below(1001, at(0));
    assert_eq!((limit.bytes, limit.until), (500, at(86_400)));
    let state = SinkState {
        limit: Some(limit),
        ..SinkState::default()
    };
    assert_eq!(state.largest(at(0)), Some(500));
    assert_eq!(state.largest(at(86_399)), Some(500));
    assert_eq!(state.largest(at(86_400)), None);
    assert_eq!(SinkState::default().largest(at(0)), None);
}

#[test]
fn rows_that_come_again_are_known_by_the_first_of_them() {
    let ids: Vec<_> = (1..=5).map(id).collect();
    assert_eq!(Again::of(&ids, |_| false), None);
    let again = Again::of(&ids, |at| at == 1 || at == 3).unwrap();
    assert_eq!((again.first.clone(), again.rows), (id(2).to_string(), 2));
    let state = SinkState {
        again: Some(again),
        ..SinkState::default()
    };
    assert_eq!(state.sent_before(&ids), [false, true, true, false, false]);
    assert_eq!(state.sent_before(&ids[2..]), [false, false, false]);
    assert_eq!(SinkState::default().sent_before(&ids[..2]), [false, false]);
}

#[test]
fn a_sink_that_is_behind_is_left_alone_from_the_first_failure_on() {
    let pending = [id(1)].into();
    let failed = |attempts: u32, not_before: Option<i64>| {
        let failure = Failure::after(None, attempt(&pending), at(0));
        SinkState {
            failure: Some(Failure {
                attempts,
                not_before: not_before.map(at),
                ..failure
            }),
            ..SinkState::default()
        }
    };
    for (attempts, asked, from) in [
        (1, None, 2),
        (2, None, 4),
        (8, None, 256),
        (9, None, 300),
        (u32::MAX, None, 300),
        (1, Some(60), 60),
        (8, Some(60), 256),
    ] {
        let state = failed(attempts, asked);
        assert_eq!(
            state.catches_up_from(),
            Some(at(from)),
            "{attempts} {asked:?}"
        );
        assert_eq!(state.not_before(), asked.map(at));
    }
    assert_eq!(SinkState::default().catches_up_from(), None);
    assert_eq!(SinkState::default().not_before(), None);
}

#[test]
fn what_is_remembered_of_a_sink_that_is_behind_stays_small() {
    let delivered = |count: u32| {
        (0..count)
            .map(|n| (id(n), place(n.into()).position))
            .collect()
    };
    let mut behind = lag(None);
    behind.remember(&delivered(1024));
    assert_eq!(behind.delivered.len(), 1024);
    behind.remember(&delivered(1024));
    assert_eq!(behind.delivered.len(), 1024);
    behind.remember(&[(id(5000), place(1).position)].into());
    assert_eq!(behind.delivered.len(), 0, "the rest comes again");
}

#[test]
fn a_tick_that_the_host_repeats_counts_again_after_a_minute() {
    let pending = [id(1)].into();
    for (second, attempts) in [(59, 1), (60, 2), (61, 2)] {
        let before = Failure::after(None, attempt(&pending), at(0));
        let repeated = Attempt {
            repeated: true,
            ..attempt(&pending)
        };
        let after = Failure::after(Some(&before), repeated, at(second));
        assert_eq!(after.attempts, attempts, "{second}");
    }
}

#[test]
fn rows_that_a_receiver_names_are_counted_one_by_one_up_to_a_hundred() {
    let pending: BTreeSet<_> = (0..300).map(id).collect();
    let naming = |from: u32, to: u32| Attempt {
        named: (from..to).map(id).collect(),
        ..attempt(&pending)
    };
    let once = Failure::after(None, naming(0, 99), at(0));
    assert_eq!(
        (once.times_named(&id(3)), once.times_named(&id(99))),
        (1, 0)
    );
    let twice = Failure::after(Some(&once), naming(3, 102), at(0));
    assert_eq!(twice.times_named(&id(3)), 2);
    assert_eq!(twice.times_named(&id(2)), 1);
    assert_eq!(twice.times_named(&id(99)), 1, "the hundredth");
    assert_eq!(twice.times_named(&id(100)), 0, "no more than a hundred");
    assert_eq!(twice.named.len(), 100);
    // Those that are known are counted although there is no room.
    let thrice = Failure::after(Some(&twice), naming(3, 4), at(0));
    assert_eq!(thrice.times_named(&id(3)), 3);
}

#[test]
fn news_are_quiet_where_everybody_took_everything_and_then_they_add_up() {
    let of = |news: SinkNews| News {
        sinks: [("hook".to_owned(), news)].into(),
        gone: None,
    };
    let counted = |rows, resent| SinkNews {
        rows,
        resent,
        ..SinkNews::default()
    };
    let mut sum = News::default();
    assert!(sum.is_quiet());
    for (rows, resent) in [(3, 1), (4, 2)] {
        assert!(of(counted(rows, resent)).is_quiet());
        sum.add_quiet(&of(counted(rows, resent)));
    }
    assert_eq!(sum, of(counted(7, 3)));
    let failure = Failure::after(None, attempt(&[id(1)].into()), at(0));
    for loud in [
        SinkNews {
            failure: Some(failure),
            ..counted(3, 0)
        },
        SinkNews {
            falls_behind: Some(lag(None)),
            ..counted(3, 0)
        },
        SinkNews {
            set_aside: 1,
            ..counted(3, 0)
        },
    ] {
        assert!(!of(loud.clone()).is_quiet(), "{loud:?}");
    }
    let gone = News {
        gone: Some("hook".to_owned()),
        ..of(counted(3, 0))
    };
    assert!(!gone.is_quiet());
}
