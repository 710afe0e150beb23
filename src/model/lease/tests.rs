//! Leases under clocks that are wrong and clocks that jump.

use chrono::DateTime;

use super::*;

const TTL: i64 = 24;
const MARGIN: i64 = 5;

fn at(seconds: i64) -> Timestamp {
    DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
}

/// A lease that was written at store time 0 by a holder whose clock is off by `skew`.
fn held(skew: i64) -> Held {
    Held {
        owner_id: "a".to_owned(),
        acquired_at: at(skew - 60),
        heartbeat_at: at(skew),
        expires_at: at(skew + TTL),
    }
}

/// What a contender sees whose clock is off by `skew`, when the store says `now`.
fn evidence(now: i64, skew: i64) -> AgeEvidence {
    AgeEvidence {
        local_now: at(now + skew),
        store: Some(StoreClock {
            now: at(now),
            last_write: at(0),
        }),
        margin: Duration::from_secs(MARGIN.unsigned_abs()),
    }
}

#[test]
fn wrong_clocks_neither_hasten_nor_delay_a_takeover_by_the_stores_time() {
    let wrong = [-600, -61, -1, 0, 1, 61, 600];
    for holder in wrong {
        for contender in wrong {
            for now in 0..TTL + MARGIN {
                assert!(
                    !held(holder).may_be_taken(evidence(now, contender)),
                    "taken {now} s after the last sign of life; clocks {holder} and {contender}"
                );
            }
            for now in [TTL + MARGIN, TTL + MARGIN + 1, 3600] {
                assert!(
                    held(holder).may_be_taken(evidence(now, contender)),
                    "not taken after {now} s; clocks {holder} and {contender}"
                );
            }
        }
    }
}

#[test]
fn a_clock_that_jumps_between_two_looks_changes_nothing() {
    let lease = held(0);
    for jumps in [[0, 600, -600], [600, 0, 600], [-600, 600, 0]] {
        let looks = [(5, false), (TTL + MARGIN - 1, false), (TTL + MARGIN, true)];
        for ((now, taken), jump) in looks.into_iter().zip(jumps) {
            assert_eq!(
                lease.may_be_taken(evidence(now, jump)),
                taken,
                "{now} {jump}"
            );
        }
    }
}

/// The headers are whole seconds: the write may look up to a second older than it is.
#[test]
fn whole_seconds_take_less_than_the_smallest_margin() {
    for (written_ms, now_ms) in [(0, 25_999), (999, 26_998), (500, 26_400)] {
        let evidence = AgeEvidence {
            margin: Duration::from_secs(2),
            store: Some(StoreClock {
                now: at(now_ms / 1000),
                last_write: at(written_ms / 1000),
            }),
            local_now: at(0),
        };
        let true_age_ms = now_ms - written_ms;
        if held(0).may_be_taken(evidence) {
            assert!(true_age_ms > TTL * 1000, "taken after {true_age_ms} ms");
        }
    }
}

#[test]
fn without_a_store_that_tells_the_time_the_local_clock_decides() {
    let evidence = |now: i64| AgeEvidence {
        store: None,
        ..evidence(now, 0)
    };
    assert!(!held(0).may_be_taken(evidence(TTL + MARGIN - 1)));
    assert!(held(0).may_be_taken(evidence(TTL + MARGIN)));
}

#[test]
fn a_skew_is_what_neither_latency_nor_whole_seconds_explain() {
    let clock = StoreClock {
        now: at(100),
        last_write: at(0),
    };
    for (asked, answered, expected) in [
        (100, 100, 0),
        (101, 101, 0),
        (90, 130, 0),
        (106, 106, 5),
        (106, 400, 5),
        (700, 701, 599),
        (80, 95, -5),
        (-501, -500, -600),
    ] {
        let skew = clock.skew_of(at(asked), at(answered));
        assert_eq!(skew.num_seconds(), expected, "{asked} {answered}");
    }
}

#[test]
fn a_time_at_the_end_of_the_calendar_stays_there() {
    let endless = Held {
        expires_at: Timestamp::MAX_UTC,
        ..held(0)
    };
    let evidence = AgeEvidence {
        store: None,
        ..evidence(TTL + MARGIN, 0)
    };
    assert!(!endless.may_be_taken(evidence));
    assert_eq!(
        later(Timestamp::MAX_UTC, Duration::from_secs(1)),
        Timestamp::MAX_UTC
    );
}

#[test]
fn what_was_sent_before_a_token_has_one_less() {
    for (token, before) in [(0, 0), (1, 0), (7, 6)] {
        assert_eq!(FencingToken(token).before().get(), before);
    }
}

/// C2, C4: between the two lie the margins of both sides.
#[test]
fn a_holder_stops_two_margins_before_anybody_may_take_its_lease() {
    let (ttl, margin) = (Duration::from_secs(24), Duration::from_secs(5));
    let trusted = trusted_for(ttl, margin);
    assert_eq!(trusted, Duration::from_secs(19));
    let trusted = i64::try_from(trusted.as_secs()).unwrap();
    let first = (0..100).find(|now| held(0).may_be_taken(evidence(*now, 0)));
    assert_eq!(first, Some(trusted + 2 * MARGIN));
    // Where there is no room for a margin, nothing is trusted.
    assert_eq!(trusted_for(margin, ttl), Duration::ZERO);
}
