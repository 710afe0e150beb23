use chrono::DateTime;

use super::*;

fn at(second: i64) -> Timestamp {
    DateTime::from_timestamp(1_775_000_000 + second, 0).unwrap()
}

fn epoch(started: i64, transaction: u64, now: i64) -> Epoch {
    Epoch {
        timeline: Some("00000001".to_owned()),
        started: Some(at(started)),
        started_within: 0,
        transaction: Some(transaction),
        written_down: None,
        now: at(now),
    }
}

#[test]
fn what_became_of_a_server_is_told_from_its_own_words() {
    let was = epoch(-100, 50, 0);
    let other_timeline = Epoch {
        timeline: Some("00000002".to_owned()),
        ..epoch(-100, 60, 5)
    };
    let told_in_seconds = Epoch {
        started_within: 3,
        ..epoch(-98, 60, 5)
    };
    let silent = Epoch {
        timeline: None,
        started: None,
        transaction: None,
        ..epoch(0, 0, 5)
    };
    for (is, expected) in [
        (epoch(-100, 50, 0), Continuity::Same),
        (epoch(-100, 60, 5), Continuity::Same),
        (silent, Continuity::Same),
        (told_in_seconds, Continuity::Same),
        (epoch(2, 60, 5), Continuity::Restarted),
        (other_timeline, Continuity::TookOver),
        (epoch(2, 49, 5), Continuity::Restored { transaction: 49 }),
        (epoch(-100, 60, -1), Continuity::Same),
        (epoch(-100, 60, -2), Continuity::ClockBack),
    ] {
        assert_eq!(is.continues(&was), expected, "{is:?}");
    }
}

fn entry(version: u64, second: i64) -> HistoryEntry {
    HistoryEntry {
        version,
        at: at(second),
        cursor: None,
        batch_id: None,
        rows: 0,
        total_rows: 0,
        schema: None,
        source: String::new(),
        by: None,
        undo: false,
        transaction: Some(version * 10),
        behind: Default::default(),
    }
}

#[test]
fn a_checkpoint_goes_back_to_what_was_surely_kept() {
    let history: Vec<_> = [(1, -500), (2, -300), (3, -50), (4, -5)]
        .into_iter()
        .map(|(version, second)| entry(version, second))
        .collect();
    let was = epoch(-1000, 45, 0);
    let minute = Duration::from_secs(60);
    for (is, expected) in [
        (epoch(-1000, 45, 1), Rewind::Nowhere),
        // It stopped long after the last commit, or right after it.
        (epoch(30, 46, 31), Rewind::Nowhere),
        (epoch(1, 46, 2), Rewind::To { version: 3 }),
        (epoch(-600, 46, 2), Rewind::To { version: 1 }),
        (epoch(-1000, 35, 2), Rewind::To { version: 3 }),
        (epoch(-1000, 9, 2), Rewind::Unknown),
        (epoch(-1000, 46, -100), Rewind::To { version: 2 }),
        (epoch(-1000, 46, -45), Rewind::To { version: 2 }),
        (
            Epoch {
                timeline: Some("00000002".to_owned()),
                ..epoch(-1000, 46, 2)
            },
            Rewind::To { version: 2 },
        ),
    ] {
        let continuity = is.continues(&was);
        let target = rewind_target(&history, &was, &is, &continuity, minute);
        assert_eq!(target, expected, "{is:?} {continuity:?}");
    }
    let restarted = epoch(1, 46, 2);
    let nothing = rewind_target(&[], &was, &restarted, &restarted.continues(&was), minute);
    assert_eq!(nothing, Rewind::Nowhere);
}

/// How far it had come when it stopped is what it wrote down then, on the same line alone.
#[test]
fn transactions_since_a_restart_do_not_make_up_for_those_that_are_lost() {
    let was = epoch(-100, 50, 0);
    let written = |timeline: Option<&str>, started: i64, number: u64| Epoch {
        timeline: timeline.map(str::to_owned),
        written_down: Some(number),
        ..epoch(started, 60, 5)
    };
    let line = was.timeline.clone();
    let line = line.as_deref();
    assert!(line.is_some());
    for (is, expected) in [
        (
            written(line, 2, 49),
            Continuity::Restored { transaction: 49 },
        ),
        (written(line, 2, 50), Continuity::Restarted),
        // It has not been stopped: what it wrote down once is old.
        (written(line, -100, 49), Continuity::Same),
        // A replica writes down later.
        (written(Some("00000009"), 2, 49), Continuity::TookOver),
    ] {
        assert_eq!(is.continues(&was), expected, "{is:?}");
    }
    // Where no line is told, none is known to be the same.
    let silent = Epoch {
        timeline: None,
        ..was.clone()
    };
    assert_eq!(
        written(None, 2, 49).continues(&silent),
        Continuity::Restarted
    );
}

#[test]
fn where_all_that_is_kept_is_younger_it_is_told_from_where_the_poller_came() {
    let first = |by: Option<&str>, batch: Option<&str>, rows: u64| HistoryEntry {
        by: by.map(str::to_owned),
        batch_id: batch.map(str::to_owned),
        rows,
        total_rows: 5,
        ..entry(7, -2)
    };
    let was = epoch(-1000, 75, 0);
    let minute = Duration::from_secs(60);
    let restarted = epoch(1, 76, 2);
    let to_the_first = Rewind::To { version: 7 };
    for (first, expected) in [
        (first(None, Some("batch"), 5), Rewind::Beginning),
        (first(None, Some("batch"), 3), to_the_first),
        (first(None, None, 5), to_the_first),
        (first(Some("reset"), Some("batch"), 5), to_the_first),
    ] {
        let history = [first];
        let continuity = restarted.continues(&was);
        let target = rewind_target(&history, &was, &restarted, &continuity, minute);
        assert_eq!(target, expected, "{history:?}");
    }
}

/// A restored copy may be of any age; a server that crashed lost only its last moments.
#[test]
fn a_crash_that_took_numbers_with_it_is_no_restored_copy() {
    let was = epoch(-1000, 75, 0);
    let minute = Duration::from_secs(60);
    for (started, first_at, expected) in [
        // Started again, and all that is kept is of the moments before.
        (1, -2, Rewind::To { version: 7 }),
        // Kept since long before: a copy without it is an old one.
        (1, -500, Rewind::Unknown),
        (1, -9, Rewind::Unknown),
        // The same start: nothing has crashed.
        (-1000, -2, Rewind::Unknown),
    ] {
        let is = epoch(started, 20, 2);
        let continuity = is.continues(&was);
        assert_eq!(continuity, Continuity::Restored { transaction: 20 });
        let history = [entry(7, first_at)];
        let target = rewind_target(&history, &was, &is, &continuity, minute);
        assert_eq!(target, expected, "{started} {first_at}");
    }
}

/// Who writes down its server's word into two documents at once has one that is later.
#[test]
fn of_two_words_of_a_server_the_later_one_is_told() {
    let base = || epoch(-100, 50, 0);
    let line = |timeline: &str, is: Epoch| Epoch {
        timeline: Some(timeline.to_owned()),
        ..is
    };
    for later in [
        epoch(-100, 51, 0),
        epoch(-100, 51, -5),
        epoch(-100, 50, 1),
        epoch(-50, 40, 0),
        line("00000002", epoch(-200, 40, -9)),
    ] {
        assert!(later.is_after(&base()), "{later:?}");
        assert!(!base().is_after(&later), "{later:?}");
    }
    assert!(!base().is_after(&base()));
}
