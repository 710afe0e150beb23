use proptest::prelude::*;

use super::*;

const DAY: i64 = 24 * 60 * MINUTE;

fn entry(version: u64, second: i64) -> HistoryEntry {
    HistoryEntry {
        version,
        at: chrono::DateTime::from_timestamp(1_775_000_000 + second, 0).unwrap(),
        cursor: None,
        batch_id: None,
        rows: 1,
        total_rows: version,
        schema: None,
        source: String::new(),
        by: None,
        undo: false,
        transaction: None,
        behind: Default::default(),
    }
}

/// Commits at these seconds, thinned after each as the document is.
fn committed(seconds: impl IntoIterator<Item = i64>) -> Vec<HistoryEntry> {
    let mut entries = Vec::new();
    for (version, second) in (1..).zip(seconds) {
        entries.push(entry(version, second));
        thin(&mut entries);
    }
    entries
}

/// How many entries are at most this old.
fn younger(entries: &[HistoryEntry], age: i64) -> usize {
    let newest = entries.last().unwrap().at;
    let young = |entry: &&HistoryEntry| (newest - entry.at).num_seconds() <= age;
    entries.iter().filter(young).count()
}

#[test]
fn a_busy_poller_reaches_back_from_seconds_to_weeks() {
    let hourly = (0..60 * 24).map(|n| n * 60 * MINUTE);
    let busy = (0..DAY / 15).map(|n| 60 * DAY + n * 15);
    let entries = committed(hourly.chain(busy));
    assert!(entries.len() <= MOST_KEPT);
    assert!(younger(&entries, 60) >= 4, "dense at the end");
    assert!(younger(&entries, 5 * MINUTE) >= 6);
    assert!(younger(&entries, 5 * 60 * MINUTE) >= 9);
    assert!(younger(&entries, 7 * DAY) >= 14);
    let reach = entries.last().unwrap().at - entries[0].at;
    assert!((21..=28).contains(&reach.num_days()), "{reach}");
}

#[test]
fn a_long_drain_does_not_push_the_past_out() {
    let before = (0..30).map(|day| day * DAY);
    let drain = (0..5_000).map(|n| 30 * DAY + n / 100);
    let entries = committed(before.chain(drain));
    assert!(younger(&entries, DAY) < entries.len() - 8);
}

#[test]
fn what_a_change_by_hand_replaced_outlives_a_thousand_commits() {
    let mut entries = committed([0, 1, 2, 3]);
    entries.last_mut().unwrap().undo = true;
    for version in 5..1005 {
        entries.push(entry(version, 3 + i64::try_from(version).unwrap() / 50));
        thin(&mut entries);
    }
    assert!(entries.iter().any(|entry| entry.version == 4));
}

proptest! {
    #[test]
    fn thinning_is_bounded_and_keeps_the_newest_whatever_the_clock_does(
        steps in proptest::collection::vec((-2 * DAY..9 * DAY, any::<bool>()), 1..100),
    ) {
        let mut second = 0;
        let mut entries: Vec<HistoryEntry> = Vec::new();
        for (version, (step, undo)) in (1..).zip(steps) {
            second += step / 50;
            entries.push(HistoryEntry { undo, ..entry(version, second) });
            thin(&mut entries);
            prop_assert!(entries.len() <= MOST_KEPT);
            let newest: Vec<u64> = entries.iter().rev().take(4).map(|e| e.version).collect();
            let expected: Vec<u64> = (1..=version).rev().take(4).collect();
            prop_assert_eq!(newest, expected);
            prop_assert!(entries.is_sorted_by(|a, b| a.version < b.version));
        }
    }

    /// Nothing is lost by thinning early: while time goes forward, thinning at every commit keeps
    /// what thinning all of them at the end would.
    #[test]
    fn thinning_step_by_step_keeps_what_thinning_at_once_keeps(
        steps in proptest::collection::vec(0..DAY, 1..100),
    ) {
        let mut seconds = Vec::new();
        let mut second = 0;
        for step in steps {
            second += step / 7;
            seconds.push(second);
        }
        let mut at_once: Vec<_> = (1..).zip(&seconds).map(|(v, s)| entry(v, *s)).collect();
        thin(&mut at_once);
        let mut step_by_step = committed(seconds);
        prop_assert_eq!(&step_by_step, &at_once);
        thin(&mut step_by_step);
        prop_assert_eq!(step_by_step, at_once);
    }
}
