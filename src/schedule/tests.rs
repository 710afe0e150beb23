use super::*;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn check(schedule: &str, after: &str, expected: &str) {
    let next = Schedule::parse(schedule).unwrap().next_after(at(after));
    assert_eq!(next, at(expected), "{schedule} after {after}");
}

#[test]
fn the_next_time_follows_ncrontab() {
    // 2026-11-16 is a Monday.
    for (schedule, after, expected) in [
        (
            "*/15 * * * * *",
            "2026-11-16T10:00:00Z",
            "2026-11-16T10:00:15Z",
        ),
        (
            "*/15 * * * * *",
            "2026-11-16T10:00:14.999Z",
            "2026-11-16T10:00:15Z",
        ),
        (
            "*/15 * * * * *",
            "2026-11-16T10:00:15.004Z",
            "2026-11-16T10:00:30Z",
        ),
        (
            "0 */5 * * * *",
            "2026-11-16T10:01:00Z",
            "2026-11-16T10:05:00Z",
        ),
        (
            "*/5 * * * *",
            "2026-11-16T10:01:00Z",
            "2026-11-16T10:05:00Z",
        ),
        (
            "0 5/20 * * * *",
            "2026-11-16T10:26:00Z",
            "2026-11-16T10:45:00Z",
        ),
        (
            "0 10-0/5 * * * *",
            "2026-11-16T10:05:00Z",
            "2026-11-16T10:10:00Z",
        ),
        (
            "0 */0 * * * *",
            "2026-11-16T10:05:00Z",
            "2026-11-16T10:06:00Z",
        ),
        (
            "0 0 9 * * Mon",
            "2026-11-16T10:00:00Z",
            "2026-11-23T09:00:00Z",
        ),
        (
            "0 0 9 * * 0",
            "2026-11-16T10:00:00Z",
            "2026-11-22T09:00:00Z",
        ),
        (
            "0 0 9 * * FRI-MON",
            "2026-11-20T10:00:00Z",
            "2026-11-23T09:00:00Z",
        ),
        (
            "0 0 0 1 Jan *",
            "2026-11-16T10:00:00Z",
            "2027-01-01T00:00:00Z",
        ),
        (
            "0 0 0 1 febru *",
            "2026-11-16T10:00:00Z",
            "2027-02-01T00:00:00Z",
        ),
        (
            "0 0 0 29 2 *",
            "2026-11-16T10:00:00Z",
            "2028-02-29T00:00:00Z",
        ),
        (
            "0 0 0 1,15 * *",
            "2026-11-16T10:00:00Z",
            "2026-12-01T00:00:00Z",
        ),
        (
            "00:00:30",
            "2026-11-16T10:00:00.5Z",
            "2026-11-16T10:00:30.5Z",
        ),
        ("1.00:00:00", "2026-11-16T10:00:00Z", "2026-11-17T10:00:00Z"),
    ] {
        check(schedule, after, expected);
    }
}

#[test]
fn day_of_month_and_day_of_week_must_both_match() {
    check(
        "0 0 0 13 * Fri",
        "2026-11-16T00:00:00Z",
        "2027-08-13T00:00:00Z",
    );
}

#[test]
fn what_ncrontab_lacks_is_refused() {
    for schedule in [
        "0 0 0 L * *",
        "0 0 0 15W * *",
        "0 0 0 * * 5#2",
        "0 0 0 ? * *",
        "0 0 0 * * +1",
        "0 0 0 * * 7",
        "@daily",
        "60 * * * * *",
        "* * 24 * * *",
        "0 0 0 0 * *",
        "0 0 0 * 13 *",
        "0 0 0 * Foo *",
        "0 0 Mon * * *",
        "1, * * * * *",
        "*/x * * * * *",
        "* * * *",
        "* * * * * * *",
        "5",
        "24:00:00",
        "",
    ] {
        assert!(Schedule::parse(schedule).is_err(), "{schedule}");
    }
}

#[test]
fn a_schedule_that_never_fires_is_refused() {
    for schedule in ["0 0 0 30 2 *", "00:00:00"] {
        let refused = Schedule::parse(schedule).unwrap_err();
        assert_eq!(refused, InvalidSchedule::Never(schedule.to_owned()));
    }
}

#[test]
fn the_fault_names_the_field() {
    let refused = Schedule::parse("0 0 25 * * *").unwrap_err().to_string();
    assert_eq!(
        refused,
        "'25' is not a valid hour in the schedule '0 0 25 * * *': 25 is outside 0-23"
    );
}

#[test]
fn only_schedules_that_can_fire_twice_in_a_minute_are_sub_minute() {
    for (schedule, expected) in [
        ("*/30 * * * * *", true),
        ("0,30 0 9 * * *", true),
        ("0 * * * * *", false),
        ("0 */5 * * * *", false),
        ("00:00:59", true),
        ("00:01:00", false),
    ] {
        let parsed = Schedule::parse(schedule).unwrap();
        assert_eq!(
            parsed.is_sub_minute(at("2026-11-16T10:00:00Z")),
            expected,
            "{schedule}"
        );
    }
}

#[test]
fn croner_alone_would_read_these_differently() {
    let parser = CronParser::builder().seconds(Seconds::Required).build();
    for (schedule, croner_accepts) in [
        ("0 0 0 * * 7", true),
        ("0 0 0 L * *", true),
        ("0 0 0 15W * *", true),
        ("0 0 0 * * 5#2", true),
        ("0 0 0 ? * *", true),
        ("@daily", true),
        ("0 0 0 * * +1", true),
        ("0 0 9 * * FRI-MON", false),
        ("0 5/15 * * * *", false),
        ("0 */0 * * * *", false),
        ("0 0 0 1 January *", false),
        ("0 0 0 * * Tuesd", false),
    ] {
        assert_eq!(parser.parse(schedule).is_ok(), croner_accepts, "{schedule}");
        assert_eq!(
            Schedule::parse(schedule).is_ok(),
            !croner_accepts,
            "{schedule}"
        );
    }
    let either = parser.parse("0 0 0 13 * Fri").unwrap();
    let next = either.find_next_occurrence(&at("2026-11-16T00:00:00Z"), false);
    assert_eq!(next.unwrap(), at("2026-11-20T00:00:00Z"));
}

/// Whenever it is asked: not the gap that happens to come next.
#[test]
fn the_longest_time_between_two_firings_counts() {
    const HOUR: u64 = 3600;
    for (schedule, seconds) in [
        ("*/15 * * * * *", 15),
        ("0 0 * * * *", HOUR),
        ("0 0 9,17 * * *", 16 * HOUR),
        ("0 0 9-17 * * 1-5", 64 * HOUR),
        ("0 0 0 1 * *", 31 * 24 * HOUR),
        ("00:00:30", 30),
    ] {
        let schedule = Schedule::parse(schedule).unwrap();
        for now in [
            "2026-11-16T08:00:00Z",
            "2026-11-20T16:30:00Z",
            "2027-01-31T23:00:00Z",
        ] {
            let longest = schedule.longest_interval(at(now));
            assert_eq!(
                longest,
                Some(Duration::from_secs(seconds)),
                "{schedule:?} at {now}"
            );
        }
    }
}
