use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use proptest::prelude::*;

use super::*;
use crate::model::position::Scalar;

fn at(second: i64) -> Timestamp {
    DateTime::from_timestamp(1_775_000_000 + second, 0).unwrap()
}

fn place(number: i64) -> Position {
    let scalar = || vec![Scalar::Integer(number.into())];
    Position::new(scalar(), scalar())
}

fn fence(up_to: i64, witnesses: &[&str], until: Option<i64>) -> Fence {
    Fence {
        up_to: place(up_to),
        witnesses: witnesses.iter().map(|name| Witness::new(*name)).collect(),
        until: until.map(at),
        since: at(up_to),
    }
}

#[test]
fn a_row_in_flight_is_found_again_by_its_name() {
    let texts = ["", "a b", "\"", "ü\n", "t:x"];
    for text in texts {
        let position = Position::new(
            vec![Scalar::Text(text.to_owned()), Scalar::Integer(-1)],
            vec![Scalar::Bytes(vec![0, 255])],
        );
        assert_eq!(Witness::row(&position).as_row(), Some(position));
    }
    assert_eq!(Witness::new("3/17").as_row(), None);
    assert_eq!(Witness::new("row x").as_row(), None);
}

#[test]
fn a_fence_that_says_nothing_more_is_not_kept() {
    let kept = worth_keeping(
        vec![
            fence(3, &["a"], None),
            fence(5, &["a"], None),
            fence(5, &["a", "b"], None),
            fence(6, &["a"], Some(9)),
            fence(7, &["a", "b"], None),
            fence(8, &[], None),
        ],
        Some(&place(4)),
    );
    // It has been known for as long as the one that it took the place of.
    let last = Fence {
        since: at(5),
        ..fence(7, &["a", "b"], None)
    };
    let expected = [fence(5, &["a"], None), fence(6, &["a"], Some(9)), last];
    assert_eq!(kept, expected);
}

#[test]
fn of_many_fences_the_first_the_last_and_those_between_are_kept() {
    let many: Vec<_> = (1..=50).map(|n| fence(n, &[], Some(n + 100))).collect();
    let kept = worth_keeping(many.clone(), None);
    assert_eq!(kept.len(), MOST_FENCES);
    assert_eq!(kept.first(), many.first());
    assert_eq!(kept.last(), many.last());
    let gaps = kept
        .windows(2)
        .map(|two| (two[1].since - two[0].since).num_seconds());
    assert!(gaps.max() < Some(20), "{kept:?}");
}

#[test]
fn who_has_gone_is_left_out_and_who_may_be_in_disguise_takes_the_place() {
    let sight = |writers: &[&str], disguised: &[&str]| Sight {
        now: Some(at(10)),
        writers: writers
            .iter()
            .chain(disguised)
            .map(|name| Witness::new(*name))
            .collect(),
        disguised: disguised.iter().map(|name| Witness::new(*name)).collect(),
        ..Sight::default()
    };
    let names =
        |fence: &Fence| -> Vec<_> { fence.witnesses.iter().map(ToString::to_string).collect() };
    let both = fence(1, &["a", "b"], None);
    assert_eq!(
        names(&both.at(&sight(&["a", "b", "c"], &["prepared 5"]))),
        ["a", "b"]
    );
    assert_eq!(names(&both.at(&sight(&["a"], &[]))), ["a"]);
    assert_eq!(
        names(&both.at(&sight(&["a"], &["prepared 5"]))),
        ["a", "prepared 5"]
    );
    // What was prepared has ended, and becomes nothing else.
    let prepared = fence(1, &["prepared 5"], None);
    assert!(prepared.at(&sight(&["c"], &["prepared 6"])).is_clear());
    assert!(both.at(&sight(&["c"], &[])).is_clear());
    for (until, clear) in [(9, true), (10, true), (11, false)] {
        assert_eq!(
            fence(1, &[], Some(until)).at(&sight(&[], &[])).is_clear(),
            clear
        );
    }
}

#[test]
fn a_bound_covers_what_was_drawn_before_the_sample() {
    let below = |scalars: Vec<Scalar>| Bound {
        highest: Highest::Any,
        below: Some(scalars),
    };
    let visible = |last: Option<i64>| Bound {
        highest: Highest::Visible(last.map(place)),
        below: None,
    };
    let five = || vec![Scalar::Integer(5)];
    for (bound, number, delivered, expected) in [
        (Bound::default(), 9, None, true),
        (below(five()), 4, None, true),
        (below(five()), 5, None, false),
        (below(vec![Scalar::Text("5".into())]), 4, None, false),
        (below(vec![]), 4, None, false),
        (visible(Some(4)), 4, None, true),
        (visible(Some(4)), 5, None, false),
        (visible(None), 1, None, false),
        // Its row is gone, but it was there.
        (visible(None), 5, Some(6), true),
        (visible(Some(4)), 7, Some(6), false),
    ] {
        let delivered = delivered.map(place);
        let covers = bound.covers(&place(number), delivered.as_ref());
        assert_eq!(covers, expected, "{bound:?} {number}");
    }
}

proptest! {
    /// Whatever happens, a sweep that sees a writer all along never lets the checkpoint pass what was
    /// not passed, and never further than its bound.
    #[test]
    fn a_sweep_never_proves_more_than_its_bound_or_than_it_has_read(
        low in 0_i64..5,
        next in 1_i64..12,
        pages in prop::collection::vec(1_usize..4, 1..5),
        writers in prop::collection::btree_set("[a-c]", 0..3),
        fences in prop::collection::vec((0_i64..12, prop::collection::btree_set("[a-c]", 1..3)), 0..4),
    ) {
        let sight = Sight {
            now: Some(at(0) + TimeDelta::seconds(1)),
            bound: Bound {
                highest: Highest::Any,
                below: Some(vec![Scalar::Integer(next.into())]),
            },
            writers: writers.iter().map(Witness::new).collect(),
            ..Sight::default()
        };
        let fences: Vec<_> = fences
            .iter()
            .map(|(up_to, names)| {
                let names: Vec<_> = names.iter().map(String::as_str).collect();
                fence(*up_to, &names, None)
            })
            .collect();
        let mut sweep = Sweep::begin(Some(&place(low)), &fences, [], sight, Ordering::Visible);
        let begun = sweep.start().cloned();
        prop_assert!(begun >= Some(place(low)));
        let mut last = begun.clone();
        for rows in pages {
            let from = match last.as_ref().and_then(|place| place.cursor().first()) {
                Some(Scalar::Integer(number)) => i64::try_from(*number).unwrap(),
                _ => 0,
            };
            let places: Vec<_> = (1..=rows).map(|n| place(from + n as i64)).collect();
            let seen = sweep.see(&places, false, Survey::default());
            sweep.pass(&seen);
            last = places.last().cloned();
            let known = sweep.known();
            let moved = known.low != Some(place(low));
            if moved {
                prop_assert!(known.low <= last, "{known:?}");
                let cleared = fences.iter().any(|fence| {
                    fence.witnesses.iter().all(|w| !writers.contains(w.as_str()))
                        && Some(&fence.up_to) >= known.low.as_ref()
                });
                prop_assert!(cleared || writers.is_empty() && known.low < Some(place(next)));
            }
            for fence in &known.fences {
                prop_assert!(!fence.is_clear() && Some(&fence.up_to) > known.low.as_ref());
            }
        }
    }
}

#[test]
fn a_window_begins_with_the_sample() {
    let sight = |now: Option<i64>, window: Option<u64>| Sight {
        now: now.map(at),
        window: window.map(Duration::from_secs),
        ..Sight::default()
    };
    for (now, window, until) in [
        (Some(10), Some(5), Some(at(15))),
        (Some(10), None, None),
        (None, Some(5), None),
        (Some(10), Some(u64::MAX), Some(Timestamp::MAX_UTC)),
    ] {
        assert_eq!(sight(now, window).until(), until, "{now:?} {window:?}");
    }
    assert_eq!(sight(Some(10), None).since(), at(10));
}

#[test]
fn the_future_begins_at_the_ceiling() {
    let sight = |ceiling: Option<Scalar>| Sight {
        ceiling,
        ..Sight::default()
    };
    let five = sight(Some(Scalar::Integer(5)));
    assert!(!five.is_future(&place(4)));
    assert!(five.is_future(&place(5)) && five.is_future(&place(6)));
    assert!(!sight(None).is_future(&place(6)));
    // Another type is in no order with it.
    assert!(!sight(Some(Scalar::Text(String::new()))).is_future(&place(6)));
    assert!(
        !sight(Some(Scalar::Integer(5)))
            .is_future(&Position::new(vec![Scalar::Text("9".to_owned())], vec![]))
    );
}

fn spilled(name: &str, to: i64) -> Segment {
    Segment {
        name: name.to_owned(),
        ids: 1,
        from: place(to - 1),
        to: place(to),
    }
}

#[test]
fn what_is_said_about_places_below_the_checkpoint_goes_with_it() {
    let epoch = Epoch {
        timeline: None,
        started: Some(at(0)),
        started_within: 0,
        transaction: Some(1),
        written_down: None,
        now: at(2),
    };
    let late = || Late {
        fences: [4, 5, 6].map(|up_to| fence(up_to, &["a"], None)).into(),
        epoch: Some(epoch.clone()),
        spilled: vec![spilled("four", 4), spilled("five", 5), spilled("six", 6)],
        retired: vec!["older".to_owned()],
    };
    let mut passed = late();
    passed.pass(&place(5));
    assert_eq!(passed.fences, [fence(6, &["a"], None)]);
    assert_eq!(passed.spilled, [spilled("six", 6)]);
    assert_eq!(passed.retired, ["older", "four", "five"]);
    assert_eq!(passed.epoch, Some(epoch.clone()));
    let mut anew = late();
    anew.begin_again();
    assert_eq!((anew.fences.len(), anew.spilled.len()), (0, 0));
    assert_eq!(anew.epoch, None);
    assert_eq!(anew.retired, ["older", "four", "five", "six"]);
}

#[test]
fn everybody_who_is_waited_for_is_asked_about() {
    let late = Late {
        fences: vec![fence(1, &["a", "b"], None), fence(2, &["b", "c"], None)],
        ..Late::default()
    };
    let names = ["a", "b", "c"].map(Witness::new);
    assert_eq!(late.witnesses(), names.into());
    assert_eq!(Witness::new("a").as_str(), "a");
}

#[test]
fn a_grade_says_how_long_it_holds() {
    for (grade, name, shown) in [
        (Protected::Proven, "PROVEN", "PROVEN"),
        (
            Protected::Bounded(Duration::from_secs(5)),
            "BOUNDED",
            "BOUNDED(5s)",
        ),
        (Protected::Unsafe, "UNSAFE", "UNSAFE"),
    ] {
        assert_eq!((grade.name(), grade.to_string().as_str()), (name, shown));
    }
}

#[test]
fn fences_with_too_many_witnesses_are_thinned_to_two() {
    let crowd = |up_to: i64, from: usize, count: usize| {
        let names: Vec<_> = (from..from + count).map(|n| format!("w{n:05}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        fence(up_to, &names, None)
    };
    // At the limit, together and alone.
    let fit = vec![crowd(1, 0, 400), crowd(2, 400, 300), crowd(3, 700, 300)];
    assert_eq!(worth_keeping(fit.clone(), None), fit);
    let one = vec![crowd(1, 0, MOST_WITNESSES)];
    assert_eq!(worth_keeping(one.clone(), None), one);
    assert_eq!(
        worth_keeping(vec![crowd(1, 0, MOST_WITNESSES + 1)], None),
        []
    );
    // One more, and the middle goes; two may be as many as they like.
    let three = vec![crowd(1, 0, 401), crowd(2, 401, 300), crowd(3, 701, 300)];
    let kept = worth_keeping(three.clone(), None);
    assert_eq!(kept, [three[0].clone(), three[2].clone()]);
    let two = vec![crowd(1, 0, 900), crowd(2, 900, 900)];
    assert_eq!(worth_keeping(two.clone(), None), two);
    let eight: Vec<_> = (1..=8).map(|n| fence(n, &[], Some(n + 100))).collect();
    assert_eq!(worth_keeping(eight.clone(), None), eight);
}

#[test]
fn the_fence_that_goes_is_the_one_with_the_closest_neighbours() {
    // By place: since when each is known.
    let mut nine: Vec<_> = (1..=9).map(|n| fence(n, &[], Some(n + 100))).collect();
    for (fence, second) in nine
        .iter_mut()
        .zip([0, 100, 200, 300, 310, 320, 500, 600, 700])
    {
        fence.since = at(second);
    }
    let mut expected = nine.clone();
    expected.remove(4);
    assert_eq!(worth_keeping(nine, None), expected);
}

/// Which of the two is the closer one does not count: what is left has the smaller hole.
#[test]
fn a_fence_that_is_close_to_one_neighbour_alone_stays() {
    let mut nine: Vec<_> = (1..=9).map(|n| fence(n, &[], Some(n + 100))).collect();
    let known_since = [0, 1, 50, 53, 60, 110, 160, 210, 260];
    for (fence, second) in nine.iter_mut().zip(known_since) {
        fence.since = at(second);
    }
    let kept = worth_keeping(nine, None);
    let kept: Vec<_> = kept.iter().map(|fence| fence.since).collect();
    assert_eq!(kept, [0, 1, 50, 60, 110, 160, 210, 260].map(at));
}
