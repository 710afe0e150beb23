use super::*;
use crate::model::shard::ShardBy;
use Part::{Failed, Missing};

fn shards(count: u16) -> Layout {
    match count {
        1 => Layout::Whole,
        count => Layout::Shards {
            count,
            by: ShardBy::Key,
        },
    }
}

fn orders(ids: &str) -> Orders {
    ids.split_whitespace().map(str::to_owned).collect()
}

fn lives(ids: &str) -> Part {
    Part::Lives(orders(ids))
}

/// By the last of these orders, which are numbers and grow.
fn retired(into: u16, ids: &str) -> Part {
    let order = ids.split_whitespace().next_back().unwrap().to_owned();
    let second = order.parse().unwrap();
    Part::Retired {
        into: shards(into).to_string(),
        order,
        at: chrono::DateTime::from_timestamp(second, 0).unwrap(),
        orders: orders(ids),
    }
}

fn chosen<const N: usize>(is: u16, layouts: [(u16, Vec<Part>); N]) -> Choice {
    let layouts = layouts.map(|(count, parts)| (shards(count), parts));
    choose(shards(is), &layouts.into())
}

fn part(was: u16) -> Choice {
    let was = shards(was);
    Choice::Part { was }
}

fn finish(was: u16, order: &str, begun: bool) -> Choice {
    let (was, order) = (shards(was), order.to_owned());
    Choice::Finish { was, order, begun }
}

#[test]
fn what_goes_on_is_parted_and_what_is_done_is_left_alone() {
    let two = || vec![lives(""), lives("")];
    assert_eq!(chosen(2, [(2, two())]), Choice::Nothing);
    assert_eq!(chosen(4, [(2, two())]), part(2));
    assert_eq!(chosen(1, [(2, vec![lives(""), Missing])]), part(2));
    let once = vec![retired(4, "1"), retired(4, "1")];
    let four = || vec![lives("1"), lives("1"), lives("1"), lives("1")];
    assert_eq!(chosen(4, [(2, once.clone()), (4, four())]), Choice::Nothing);
    // And back, over those that were left behind.
    assert_eq!(chosen(2, [(2, once), (4, four())]), part(4));
}

#[test]
fn one_that_was_cut_off_is_finished_wherever_that_was() {
    let half = vec![retired(2, "7"), lives("")];
    assert_eq!(chosen(2, [(4, half)]), part(4));
    let all = || vec![retired(2, "7"), retired(2, "7")];
    assert_eq!(chosen(2, [(3, all())]), finish(3, "7", false));
    let one = vec![lives("7"), Missing];
    assert_eq!(chosen(2, [(3, all()), (2, one)]), finish(3, "7", true));
    // Those that had never begun are shut out last.
    let some = vec![retired(2, "7"), Missing];
    assert_eq!(chosen(2, [(3, some)]), finish(3, "7", false));
    let both = vec![lives("7"), lives("7")];
    assert_eq!(chosen(2, [(3, all()), (2, both)]), Choice::Nothing);
}

#[test]
fn one_that_was_cut_off_before_anything_began_is_taken_back() {
    let half = vec![retired(4, "7"), lives("")];
    assert_eq!(chosen(2, [(2, half)]), Choice::TakeBack);
    let both = || vec![retired(4, "7"), retired(4, "7")];
    assert_eq!(chosen(2, [(2, both())]), Choice::TakeBack);
    // Not the four that were left for these two long ago.
    let stale = || vec![retired(2, "3"), retired(2, "3")];
    assert_eq!(chosen(2, [(2, both()), (4, stale())]), Choice::TakeBack);
    let then = vec![retired(4, "3 7"), retired(4, "3 7")];
    assert_eq!(chosen(2, [(2, then), (4, stale())]), Choice::TakeBack);
    let again = chosen(4, [(2, both()), (4, stale())]);
    assert_eq!(again, finish(2, "7", false));
}

#[test]
fn one_of_which_some_have_begun_is_finished_before_the_next() {
    let unfinished = || Choice::Unfinished { into: shards(4) };
    let two = || vec![retired(4, "7"), retired(4, "7")];
    let four = || vec![lives("7"), Missing, retired(2, "3"), Missing];
    assert_eq!(chosen(2, [(2, two()), (4, four())]), unfinished());
    assert_eq!(chosen(3, [(2, two()), (4, four())]), unfinished());
    let again = chosen(4, [(2, two()), (4, four())]);
    assert_eq!(again, finish(2, "7", true));
}

#[test]
fn what_is_marked_failed_by_hand_does_not_count() {
    let many = |live, begun| Choice::Many { live, begun };
    let two = || vec![lives(""), lives("")];
    let one = |part| vec![part, Missing, Missing, Missing];
    assert_eq!(
        chosen(4, [(2, two()), (4, one(lives("9")))]),
        many(vec![shards(2)], 1)
    );
    assert_eq!(chosen(4, [(2, two()), (4, one(Failed))]), part(2));
    let three = || vec![lives(""), lives(""), lives("")];
    assert_eq!(
        chosen(4, [(2, two()), (3, three())]),
        many(vec![shards(2), shards(3)], 0)
    );
    let three = vec![Failed, Failed, Failed];
    assert_eq!(chosen(4, [(2, two()), (3, three)]), part(2));
    // Begun by hand while one was cut off, then.
    let gone = || vec![retired(4, "7"), retired(4, "7")];
    assert_eq!(
        chosen(4, [(2, gone()), (4, one(lives("9")))]),
        many(vec![shards(2)], 1)
    );
    let failed = chosen(4, [(2, gone()), (4, one(Failed))]);
    assert_eq!(failed, finish(2, "7", false));
    // Which is refused, with a reason.
    assert_eq!(chosen(4, [(2, vec![Failed, Failed])]), part(2));
}

#[test]
fn what_was_left_for_shards_that_are_gone_is_no_place_to_begin() {
    let left = vec![retired(3, "7"), retired(3, "7")];
    assert_eq!(chosen(4, [(2, left)]), Choice::LeftBehind);
    assert_eq!(chosen(4, []), Choice::Nothing);
}
