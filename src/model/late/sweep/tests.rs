use std::time::Duration;

use chrono::DateTime;
use proptest::prelude::*;

use super::*;
use crate::clock::Timestamp;
use crate::model::late::{Bound, Highest};
use crate::model::position::Scalar;

fn at(second: i64) -> Timestamp {
    DateTime::from_timestamp(1_775_000_000 + second, 0).unwrap()
}

fn place(number: i64) -> Position {
    let scalar = || vec![Scalar::Integer(number.into())];
    Position::new(scalar(), scalar())
}

fn places(numbers: impl IntoIterator<Item = i64>) -> Vec<Position> {
    numbers.into_iter().map(place).collect()
}

fn names(names: &[&str]) -> BTreeSet<Witness> {
    names.iter().map(|name| Witness::new(*name)).collect()
}

fn fence(up_to: i64, witnesses: &[&str]) -> Fence {
    Fence {
        up_to: place(up_to),
        witnesses: names(witnesses),
        until: None,
        since: at(0),
    }
}

/// Everything below `next` was drawn before the sample, and these are at work.
fn sight(next: i64, writers: &[&str]) -> Sight {
    Sight {
        now: Some(at(100)),
        bound: Bound {
            highest: Highest::Any,
            below: Some(vec![Scalar::Integer(next.into())]),
        },
        writers: names(writers),
        ..Sight::default()
    }
}

fn sweep(low: i64, fences: &[Fence], sight: Sight, ordering: Ordering) -> Sweep {
    Sweep::begin(Some(&place(low)), fences, [], sight, ordering)
}

fn visible(low: i64, fences: &[Fence], sight: Sight) -> Sweep {
    sweep(low, fences, sight, Ordering::Visible)
}

/// Known up to a place, with rows in flight.
fn survey(in_flight: &[i64], up_to: Option<i64>) -> Survey {
    Survey {
        made: true,
        in_flight: places(in_flight.iter().copied()),
        up_to: up_to.map(place),
    }
}

fn pass(sweep: &mut Sweep, numbers: impl IntoIterator<Item = i64>, end: bool, survey: Survey) {
    let seen = sweep.see(&places(numbers), end, survey);
    sweep.pass(&seen);
}

fn low(sweep: &Sweep) -> Option<Position> {
    sweep.known().low
}

#[test]
fn a_sweep_begins_behind_the_last_fence_all_of_whose_witnesses_live() {
    let lives = sight(50, &["a", "b"]);
    let with_window = Fence {
        until: Some(at(200)),
        ..fence(9, &["a"])
    };
    for (fences, start) in [
        (vec![], 5),
        (vec![fence(7, &["a"])], 7),
        (vec![fence(7, &["a"]), fence(8, &["a", "b"])], 8),
        (vec![fence(7, &["a"]), fence(8, &["a", "gone"])], 7),
        (vec![fence(7, &["a"]), with_window], 7),
        // At the checkpoint it says nothing.
        (vec![fence(5, &["a"])], 5),
        (vec![fence(3, &["a"])], 5),
    ] {
        let begun = visible(5, &fences, lives.clone());
        assert_eq!(begun.start(), Some(&place(start)), "{fences:?}");
        let in_order = sweep(5, &fences, lives.clone(), Ordering::Cursor);
        assert_eq!(in_order.start(), Some(&place(5)), "in order of the cursor");
    }
    assert_eq!(visible(5, &[], lives.clone()).sight().now, lives.now);
}

/// Who may commit below the place at which a sweep begins is a witness of what it learns.
#[test]
fn what_is_learned_behind_a_standing_fence_has_its_witnesses() {
    let mut both = visible(5, &[fence(7, &["a"])], sight(50, &["a"]));
    pass(&mut both, 8..=9, true, Survey::default());
    let known = both.known();
    assert_eq!(known.low, Some(place(5)));
    assert_eq!(known.fences.last().unwrap().witnesses, names(&["a"]));
    assert_eq!(known.fences.last().unwrap().up_to, place(9));
}

#[test]
fn a_clear_sight_proves_what_is_within_its_bound_and_was_passed() {
    let mut clear = visible(5, &[], sight(9, &[]));
    assert_eq!(low(&clear), Some(place(5)));
    pass(&mut clear, 6..=7, false, Survey::default());
    assert_eq!(low(&clear), Some(place(7)));
    pass(&mut clear, 8..=11, true, Survey::default());
    assert_eq!(low(&clear), Some(place(8)), "9 was drawn after the sample");
}

#[test]
fn a_page_without_rows_changes_nothing_but_the_end() {
    let mut ended = visible(5, &[fence(8, &["gone"])], sight(5, &[]));
    pass(&mut ended, 6..=7, false, Survey::default());
    assert_eq!(low(&ended), Some(place(7)), "as far as was passed");
    pass(&mut ended, [], true, Survey::default());
    assert_eq!(
        low(&ended),
        Some(place(8)),
        "nothing is behind the last row"
    );
    pass(&mut ended, [], false, Survey::default());
    assert_eq!(low(&ended), Some(place(8)), "which it stays");
}

/// A row that was delivered and is gone still marks its place, inside of what was passed.
#[test]
fn places_of_rows_that_have_gone_stand_for_them() {
    let begin = || {
        let delivered = places([8, 6]);
        let sight = sight(9, &[]);
        Sweep::begin(Some(&place(5)), &[], delivered, sight, Ordering::Visible)
    };
    let mut to_the_end = begin();
    pass(&mut to_the_end, [], true, Survey::default());
    assert_eq!(low(&to_the_end), Some(place(8)));
    let mut to_seven = begin();
    pass(&mut to_seven, [7], false, Survey::default());
    assert_eq!(low(&to_seven), Some(place(7)));
    let mut before = begin();
    pass(&mut before, [], false, Survey::default());
    assert_eq!(low(&before), Some(place(5)));
    // Beyond the bound its place proves nothing.
    let beyond = Sweep::begin(
        Some(&place(5)),
        &[],
        places([8]),
        sight(7, &[]),
        Ordering::Visible,
    );
    let mut beyond = beyond;
    pass(&mut beyond, [6], true, Survey::default());
    assert_eq!(low(&beyond), Some(place(6)));
    // Behind the place at which this sweep began, another one has passed it.
    let delivered = places([6]);
    let fences = [fence(7, &["a"])];
    let sight = sight(9, &["a"]);
    let mut standing = Sweep::begin(
        Some(&place(5)),
        &fences,
        delivered,
        sight,
        Ordering::Visible,
    );
    pass(&mut standing, [], true, Survey::default());
    assert_eq!(standing.known().fences, fences);
}

/// Its survey begins behind them, and a window that is over says nothing of who has shown since.
#[test]
fn a_sweep_that_begins_behind_rows_in_flight_proves_nothing_without_them() {
    let hidden = Fence {
        until: Some(at(50)),
        ..fence(12, &[])
    };
    let fences = [fence(7, &["row 6"]), hidden];
    let mut behind = visible(5, &fences, sight(50, &["row 6"]));
    assert_eq!(behind.start(), Some(&place(7)));
    pass(&mut behind, [9], false, survey(&[], None));
    assert_eq!(low(&behind), Some(place(5)));
    pass(&mut behind, [13], true, survey(&[], None));
    assert_eq!(low(&behind), Some(place(5)));
    // Once it has gone, all is read from the checkpoint on.
    let mut gone = visible(5, &fences, sight(50, &[]));
    assert_eq!(gone.start(), Some(&place(5)));
    pass(&mut gone, [6, 9, 13], true, survey(&[], None));
    assert_eq!(low(&gone), Some(place(13)));
}

#[test]
fn a_row_in_flight_holds_the_checkpoint_before_it() {
    let mut held = visible(5, &[], sight(50, &[]));
    pass(&mut held, [6, 7, 9], false, survey(&[8], None));
    let known = held.known();
    assert_eq!(known.low, Some(place(7)));
    let [beyond] = known.fences.as_slice() else {
        panic!("{known:?}");
    };
    assert_eq!(beyond.up_to, place(9));
    assert_eq!(beyond.witnesses, [Witness::row(&place(8))].into());
    // The first one counts, also when a later page has none or others.
    pass(&mut held, [10, 12], false, survey(&[11], None));
    pass(&mut held, [13], true, survey(&[], None));
    let known = held.known();
    assert_eq!(known.low, Some(place(7)));
    let rows = [Witness::row(&place(8)), Witness::row(&place(11))];
    assert_eq!(known.fences.last().unwrap().witnesses, rows.into());
    // In front of the first place of a page, it is behind the one before.
    let mut first = visible(5, &[], sight(50, &[]));
    pass(&mut first, [6], false, survey(&[], None));
    pass(&mut first, [8], true, survey(&[7], None));
    assert_eq!(low(&first), Some(place(6)));
    let mut all = visible(5, &[], sight(50, &[]));
    pass(&mut all, [8], true, survey(&[6], None));
    assert_eq!(low(&all), Some(place(5)));
    // At the very place of a row it may be that row's next version.
    let mut same = visible(5, &[], sight(50, &[]));
    pass(&mut same, [6, 7], true, survey(&[7], None));
    assert_eq!(low(&same), Some(place(6)));
}

#[test]
fn what_was_proven_before_a_row_in_flight_stays_proven() {
    let mut ahead = visible(5, &[], sight(50, &[]));
    for (page, proven) in [(6, 6), (7, 7), (10, 7), (11, 7)] {
        // Seen from the first page on, and far behind it.
        pass(&mut ahead, [page], page == 11, survey(&[9], None));
        assert_eq!(low(&ahead), Some(place(proven)), "after {page}");
    }
}

#[test]
fn a_survey_that_ends_early_proves_nothing_behind_its_end() {
    let mut early = visible(5, &[], sight(50, &[]));
    pass(&mut early, [6, 7, 8], true, survey(&[], Some(7)));
    assert_eq!(low(&early), Some(place(7)));
    assert_eq!(early.known().fences, []);
    let mut at_once = visible(5, &[], sight(50, &[]));
    pass(&mut at_once, [6, 7], true, survey(&[], Some(5)));
    assert_eq!(low(&at_once), Some(place(5)));
    // The first end counts.
    let mut later = visible(5, &[], sight(50, &[]));
    pass(&mut later, [6, 7], false, survey(&[], Some(6)));
    pass(&mut later, [8, 9], true, survey(&[], Some(8)));
    assert_eq!(low(&later), Some(place(6)));
    let mut whole = visible(5, &[], sight(50, &[]));
    pass(&mut whole, [6, 7], false, survey(&[], None));
    pass(&mut whole, [8, 9], true, survey(&[], Some(8)));
    assert_eq!(low(&whole), Some(place(8)));
    // Rows in flight and an early end: whichever comes first.
    let mut both = visible(5, &[], sight(50, &[]));
    pass(&mut both, [6, 7, 8, 9], true, survey(&[8], Some(8)));
    let known = both.known();
    assert_eq!(known.low, Some(place(7)));
    assert_eq!(known.fences.last().unwrap().up_to, place(8));
}

/// A part of a page has its survey, and not its end.
#[test]
fn the_beginning_of_a_page_does_not_show_that_nothing_is_behind_it() {
    let fences = [fence(9, &["gone"])];
    let mut part = visible(5, &fences, sight(5, &[]));
    let page = part.see(&places([6, 7]), true, survey(&[8], None));
    assert!(page.end);
    assert_eq!(page.survey, survey(&[8], None));
    assert_eq!(
        (page.first.clone(), page.last.clone()),
        (Some(place(6)), Some(place(7)))
    );
    let again = part.see_again(&page, &places([6]));
    assert!(!again.end);
    assert_eq!(again.survey, page.survey);
    part.pass(&again);
    assert_eq!(low(&part), Some(place(6)));
}

#[test]
fn in_order_of_the_cursor_a_row_goes_out_when_nobody_can_come_before_it() {
    let window = Sight {
        window: Some(Duration::from_secs(5)),
        ..sight(9, &[])
    };
    for (what, fences, sight, last) in [
        ("a clear sight, to its bound", vec![], sight(9, &[]), 8),
        ("a writer", vec![], sight(9, &["a"]), 5),
        ("a window", vec![], window, 5),
        (
            "a fence that is clear",
            vec![fence(7, &["gone"])],
            sight(9, &["a"]),
            7,
        ),
        (
            "one that is not",
            vec![fence(7, &["a"])],
            sight(9, &["a"]),
            5,
        ),
        (
            "either of two",
            vec![fence(6, &["gone"]), fence(8, &["a"])],
            sight(9, &["a"]),
            6,
        ),
    ] {
        let in_order = sweep(5, &fences, sight, Ordering::Cursor);
        let admitted = |number: i64| in_order.admits(&place(number), &Survey::default());
        for number in 6..12 {
            assert_eq!(admitted(number), number <= last, "{what}: {number}");
        }
    }
    // Rows in flight and an early end hold it, too.
    let in_order = sweep(5, &[], sight(50, &[]), Ordering::Cursor);
    let admitted = |survey: &Survey| -> Vec<i64> {
        let admitted = (6..12).filter(|number| in_order.admits(&place(*number), survey));
        admitted.collect()
    };
    assert_eq!(admitted(&survey(&[8], None)), [6, 7]);
    assert_eq!(admitted(&survey(&[], Some(8))), [6, 7, 8]);
    assert_eq!(admitted(&survey(&[8], Some(6))), [6]);
    let visible = visible(5, &[], sight(9, &["a"]));
    assert!(visible.admits(&place(11), &survey(&[8], Some(6))));
}

#[test]
fn in_order_of_the_cursor_all_that_was_passed_is_done() {
    let fences = [
        fence(6, &["a"]),
        fence(7, &["a"]),
        fence(8, &["gone"]),
        fence(9, &["a"]),
    ];
    let mut calm = sweep(5, &fences, sight(50, &["a"]), Ordering::Cursor);
    assert_eq!(low(&calm), Some(place(5)));
    pass(&mut calm, 6..=7, false, Survey::default());
    let known = calm.known();
    assert_eq!(known.low, Some(place(7)));
    assert_eq!(known.fences, [fence(9, &["a"])]);
    let mut disturbed = sweep(5, &fences, sight(50, &["a"]), Ordering::Cursor);
    pass(&mut disturbed, 6..=7, false, survey(&[8], None));
    let kept = [fence(8, &[]), fence(9, &["a"])];
    assert_eq!(disturbed.known().fences, kept, "for the rows behind it");
}

#[test]
fn a_sweep_whose_bound_is_behind_it_may_be_begun_anew() {
    let past = |sweep: &Sweep| {
        let next = sweep.see(&places([20]), false, Survey::default());
        let within = sweep.see(&places([8]), false, Survey::default());
        assert!(!sweep.is_exhausted(&within));
        (
            sweep.is_exhausted(&next),
            sweep.is_helpless(&next),
            sweep.is_helpless(&within),
        )
    };
    let mut moved = visible(5, &[], sight(10, &[]));
    assert_eq!(
        past(&moved),
        (false, true, false),
        "it has proven nothing yet"
    );
    pass(&mut moved, 6..=7, false, Survey::default());
    assert_eq!(past(&moved), (true, true, false));
    let nothing = moved.see(&[], true, Survey::default());
    assert!(!moved.is_exhausted(&nothing) && !moved.is_helpless(&nothing));
    // Somebody stands in the way: a new sight would say the same.
    let mut writer = visible(5, &[fence(6, &["gone"])], sight(10, &["a"]));
    pass(&mut writer, 6..=7, false, Survey::default());
    assert_eq!(low(&writer), Some(place(6)));
    assert_eq!(past(&writer), (false, true, true));
    let mut in_flight = visible(5, &[], sight(10, &[]));
    pass(&mut in_flight, 6..=7, false, survey(&[7], None));
    assert_eq!(low(&in_flight), Some(place(6)));
    assert_eq!(past(&in_flight), (false, true, false));
    // Somebody may come below the place at which it began, who is a row.
    let row = Witness::row(&place(6));
    let standing = Fence {
        witnesses: [row.clone()].into(),
        ..fence(6, &[])
    };
    let hidden = Sight {
        rows_in_flight: [row].into(),
        ..sight(10, &[])
    };
    let mut standing = visible(5, &[standing], hidden);
    pass(&mut standing, [7], false, Survey::default());
    assert_eq!(past(&standing), (false, true, true));
}

#[test]
fn in_order_of_the_cursor_who_stands_in_the_way_is_written_down_once() {
    let awaited = |fences: &[Fence], sight: Sight, ordering, last: i64| {
        let sweep = sweep(5, fences, sight, ordering);
        sweep
            .awaited(&place(last))
            .map(|fence| (fence.up_to, fence.witnesses))
    };
    let cursor = Ordering::Cursor;
    let writer = || sight(9, &["a"]);
    let expected = Some((place(8), names(&["a"])));
    assert_eq!(awaited(&[], writer(), cursor, 8), expected);
    assert_eq!(
        awaited(&[fence(6, &["gone"])], writer(), cursor, 8),
        expected
    );
    assert_eq!(
        awaited(&[fence(6, &["a"])], writer(), cursor, 8),
        None,
        "it is waited for"
    );
    assert_eq!(awaited(&[], writer(), Ordering::Visible, 8), None);
    assert_eq!(awaited(&[], sight(9, &[]), cursor, 8), None, "nobody is");
    assert_eq!(
        awaited(&[], writer(), cursor, 5),
        None,
        "not above the checkpoint"
    );
    assert_eq!(awaited(&[], writer(), cursor, 4), None);
    assert_eq!(
        awaited(&[], writer(), cursor, 9),
        None,
        "not within the bound"
    );
}

/// A document of another writer has its place as text.
#[test]
fn a_place_without_types_takes_those_of_the_rows() {
    let text = |number: i64| {
        let scalar = || vec![Scalar::Text(number.to_string())];
        Position::new(scalar(), scalar())
    };
    let big = 1_i64 << 60;
    let mut sweep = Sweep::begin(
        Some(&text(big)),
        &[],
        [],
        sight(big + 2, &["a"]),
        Ordering::Visible,
    );
    pass(&mut sweep, [big + 1], true, Survey::default());
    assert_eq!(low(&sweep), Some(place(big)));
}

/// Rows on a page, rows in flight, and where the survey and the bound end: all among a few places.
fn pages() -> impl Strategy<Value = (Vec<i64>, Survey, i64)> {
    let numbers = |count| proptest::collection::btree_set(6_i64..20, count);
    let up_to = proptest::option::of(5_i64..20);
    (numbers(1..9), numbers(0..4), up_to, 5_i64..21).prop_map(|(rows, in_flight, up_to, bound)| {
        let in_flight: Vec<_> = in_flight.difference(&rows).copied().collect();
        (rows.into_iter().collect(), survey(&in_flight, up_to), bound)
    })
}

proptest! {
    /// Small batches of a large page prove what the page proves, and no part of it proves more.
    #[test]
    fn a_page_that_is_passed_in_parts_proves_what_the_whole_proves(
        (rows, survey, bound) in pages(),
        part in 1_usize..5,
        fences in proptest::collection::vec((6_i64..20, any::<bool>()), 0..3),
        delivered in proptest::collection::btree_set(6_i64..20, 0..4),
        writers in any::<bool>(),
        end in any::<bool>(),
    ) {
        let fences: Vec<_> = fences
            .into_iter()
            .map(|(up_to, gone)| fence(up_to, if gone { &["gone"] } else { &["a"] }))
            .collect();
        let sight = sight(bound, if writers { &["a"] } else { &[] });
        let delivered = places(delivered);
        let limited = survey.up_to.is_some();
        let begun = Sweep::begin(Some(&place(5)), &fences, delivered, sight, Ordering::Visible);
        // A page, and what is surveyed for it, is behind the place at which the sweep begins.
        let behind = |place: &Position| Some(place) > begun.start();
        let page: Vec<_> = places(rows).into_iter().filter(behind).collect();
        if page.is_empty() {
            return Ok(());
        }
        let survey = Survey {
            in_flight: survey.in_flight.into_iter().filter(behind).collect(),
            up_to: survey.up_to.max(begun.start().cloned().filter(|_| limited)),
            ..survey
        };
        let seen = begun.see(&page, end, survey);
        let mut whole = begun.clone();
        whole.pass(&seen);
        let whole = whole.known();
        let mut parts = begun;
        let mut passed = 0;
        while passed + part < page.len() {
            let some: Vec<_> = page[passed..passed + part].iter().collect();
            let one = parts.see_part(&seen, &some);
            prop_assert!(!one.end, "more comes behind it");
            parts.pass(&one);
            passed += part;
            prop_assert!(parts.known().low <= whole.low);
            prop_assert!(parts.known().low.as_ref() <= Some(&page[passed - 1]));
        }
        parts.pass(&seen);
        prop_assert_eq!(parts.known(), whole);
    }
}

/// Rows in flight behind a part do not hold up what is before them; those inside of it do.
#[test]
fn a_part_of_a_page_is_held_up_by_the_rows_in_flight_within_it_alone() {
    let begin = || visible(5, &[], sight(50, &[]));
    let page = places([6, 7, 9, 10]);
    let seen = begin().see(&page, true, survey(&[8], Some(9)));
    let mut parts = begin();
    let part = parts.see_part(&seen, &[&page[0], &page[1]]);
    assert_eq!((part.first, part.last), (Some(place(6)), Some(place(7))));
    let part = parts.see_part(&seen, &[&page[0], &page[1]]);
    parts.pass(&part);
    assert_eq!(low(&parts), Some(place(7)));
    let next = parts.see_part(&seen, &[&page[2]]);
    parts.pass(&next);
    assert_eq!(low(&parts), Some(place(7)), "8 may still come");
    let witnesses = |sweep: &Sweep| sweep.known().fences.last().unwrap().witnesses.clone();
    assert_eq!(witnesses(&parts), [Witness::row(&place(8))].into());
    parts.pass(&seen);
    let known = parts.known();
    assert_eq!(
        known.fences.last().unwrap().up_to,
        place(9),
        "as far as was surveyed"
    );
    assert_eq!(parts.see_part(&seen, &[]).last, None);
}

/// While batches are on their way, it is not known yet whether they will have moved the checkpoint.
#[test]
fn a_sweep_may_be_exhausted_when_the_next_rows_are_beyond_its_bound_and_nobody_is_in_the_way() {
    for (fences, writers, next, expected) in [
        (vec![], &[][..], 9, true),
        (vec![], &[], 8, false),
        (vec![], &["a"], 9, false),
        (vec![fence(7, &["a"])], &["a"], 9, false),
    ] {
        let sweep = visible(5, &fences, sight(9, writers));
        let seen = sweep.see(&places([next]), false, Survey::default());
        assert_eq!(sweep.may_be_exhausted(&seen), expected, "{fences:?} {next}");
        assert!(!sweep.is_exhausted(&seen), "nothing was passed yet");
    }
    let mut moved = visible(5, &[], sight(9, &[]));
    pass(&mut moved, 6..=8, false, Survey::default());
    let next = moved.see(&places([9]), false, Survey::default());
    assert!(moved.is_exhausted(&next));
}
