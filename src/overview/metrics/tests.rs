use super::*;
use crate::overview::health::{Health, Phase};
use crate::overview::view::{
    BehindView, CheckpointView, CountersView, FailureView, LagBasis, LagView, LateView, LeaseView,
    QuarantineView, SinkView, SourceView, TroubleView,
};

fn at(second: i64) -> Timestamp {
    chrono::DateTime::from_timestamp(1_700_000_000 + second, 0).unwrap()
}

/// Everything that can be said is said; what must not be is in it too.
fn poller(name: &str) -> PollerView {
    PollerView {
        poller: name.to_owned(),
        function: "Orders".to_owned(),
        health: Health::Stuck,
        phase: Phase::Failing,
        headline: "SECRET headline".to_owned(),
        findings: Vec::new(),
        source: SourceView {
            connection: "postgres://SECRET".to_owned(),
            rows: "orders".to_owned(),
            cursor: vec!["updated_at".to_owned()],
            key: vec!["id".to_owned()],
            fingerprint: "sha256:SECRET".to_owned(),
        },
        checkpoint: Some(CheckpointView {
            place: Some("SECRET".to_owned()),
            version: Some(3),
            updated_at: Some(at(-90)),
            batch_id: Some("SECRET".to_owned()),
            bytes: 900,
            schema: None,
        }),
        lag: Some(LagView {
            rows: 7,
            exact: true,
            seconds: 12,
            basis: LagBasis::Cursor,
        }),
        lease: Some(LeaseView {
            owner: "SECRET".to_owned(),
            token: 4,
            acquired_at: at(-60),
            heartbeat_at: at(-50),
            expires_at: at(-26),
            age_s: 50,
            expired: true,
        }),
        trouble: Some(TroubleView {
            outcome: "source_failed".to_owned(),
            error: "SECRET".to_owned(),
            since: at(-80),
            last_at: at(-10),
        }),
        late: Some(LateView {
            grade: None,
            reason: None,
            remembered: 5,
            witnesses: 1,
            oldest_witness: Some("SECRET".to_owned()),
            oldest_witness_since: Some(at(-33)),
            oldest_witness_is: Some("SECRET".to_owned()),
        }),
        sinks: vec![SinkView {
            name: "hook".to_owned(),
            required: true,
            rows: 41,
            failure: Some(FailureView {
                event_id: "SECRET".to_owned(),
                attempts: 6,
                rejections: 2,
                first_at: at(-70),
                last_at: at(-1),
                not_before: None,
                error: "SECRET".to_owned(),
            }),
            behind: Some(BehindView {
                since: at(-20),
                place: Some("SECRET".to_owned()),
            }),
        }],
        quarantine: Some(QuarantineView {
            rows: 2,
            oldest: Some(at(-3600)),
            unreadable: 0,
        }),
        interval_s: Some(15),
        last_success: Some(at(-90)),
        counters: CountersView {
            batches: 10,
            rows: u64::MAX,
            failed_ticks: 3,
            quarantined: 2,
            bytes: 5000,
            resent: 8,
            failed_commits: 1,
            read: TimingView {
                count: 10,
                us: 1_500_000,
            },
            deliver: TimingView { count: 10, us: 250 },
            commit: TimingView { count: 20, us: 0 },
        },
        pulse: Vec::new(),
        reviews: Vec::new(),
    }
}

fn app(pollers: Vec<PollerView>) -> AppView {
    AppView {
        app: "shop".to_owned(),
        at: at(0),
        health: Health::Stuck,
        pollers,
        faults: vec!["SECRET".to_owned()],
    }
}

fn samples(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn every_figure_of_the_table_has_its_value_from_the_view() {
    let text = text(&app(vec![poller("orders")]));
    let expected = [
        "dbtick_faults 1",
        "dbtick_up{poller=\"orders\"} 1",
        "dbtick_health{poller=\"orders\"} 3",
        "dbtick_trouble{poller=\"orders\"} 1",
        "dbtick_lag_rows{poller=\"orders\"} 7",
        "dbtick_lag_seconds{poller=\"orders\"} 12",
        "dbtick_checkpoint_bytes{poller=\"orders\"} 900",
        "dbtick_checkpoint_age_seconds{poller=\"orders\"} 90",
        "dbtick_last_success_timestamp_seconds{poller=\"orders\"} 1699999910",
        "dbtick_interval_seconds{poller=\"orders\"} 15",
        "dbtick_batches_committed_total{poller=\"orders\"} 10",
        "dbtick_rows_committed_total{poller=\"orders\"} 18446744073709551615",
        "dbtick_bytes_committed_total{poller=\"orders\"} 5000",
        "dbtick_rows_resent_total{poller=\"orders\"} 8",
        "dbtick_failed_ticks_total{poller=\"orders\"} 3",
        "dbtick_commits_failed_total{poller=\"orders\"} 1",
        "dbtick_read_seconds_sum{poller=\"orders\"} 1.5",
        "dbtick_read_seconds_count{poller=\"orders\"} 10",
        "dbtick_deliver_seconds_sum{poller=\"orders\"} 0.00025",
        "dbtick_deliver_seconds_count{poller=\"orders\"} 10",
        "dbtick_commit_seconds_sum{poller=\"orders\"} 0",
        "dbtick_commit_seconds_count{poller=\"orders\"} 20",
        "dbtick_quarantined_total{poller=\"orders\"} 2",
        "dbtick_quarantine_rows{poller=\"orders\"} 2",
        "dbtick_quarantine_oldest_seconds{poller=\"orders\"} 3600",
        "dbtick_lease_held{poller=\"orders\"} 1",
        "dbtick_lease_age_seconds{poller=\"orders\"} 50",
        "dbtick_lease_expired{poller=\"orders\"} 1",
        "dbtick_remembered_rows{poller=\"orders\"} 5",
        "dbtick_transaction_wait_seconds{poller=\"orders\"} 33",
        "dbtick_sink_rows_total{poller=\"orders\",sink=\"hook\"} 41",
        "dbtick_sink_failing{poller=\"orders\",sink=\"hook\"} 1",
        "dbtick_sink_attempts{poller=\"orders\",sink=\"hook\"} 6",
        "dbtick_sink_behind{poller=\"orders\",sink=\"hook\"} 1",
        "dbtick_sink_behind_seconds{poller=\"orders\",sink=\"hook\"} 20",
    ];
    assert_eq!(samples(&text), expected);
    let mut names: Vec<String> = METRICS.iter().flat_map(Metric::samples).collect();
    let listed = expected.map(|line| line.split(['{', ' ']).next().unwrap().to_owned());
    assert_eq!(names, listed, "none of the table is missing here");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), expected.len());
}

#[test]
fn neither_errors_nor_owners_ids_or_places_become_labels() {
    let text = text(&app(vec![poller("orders")]));
    assert!(!text.contains("SECRET"), "{text}");
}

#[test]
fn a_poller_whose_state_cannot_be_read_has_no_figures_that_look_like_a_reset() {
    let unknown = PollerView {
        phase: Phase::Unknown,
        checkpoint: None,
        lag: None,
        lease: None,
        late: None,
        trouble: None,
        quarantine: None,
        last_success: None,
        interval_s: None,
        counters: CountersView::default(),
        ..poller("orders")
    };
    let text = text(&app(vec![unknown]));
    let expected = [
        "dbtick_faults 1",
        "dbtick_up{poller=\"orders\"} 0",
        "dbtick_health{poller=\"orders\"} 3",
    ];
    assert_eq!(samples(&text), expected);
}

#[test]
fn names_cannot_break_out_of_their_labels() {
    let name = "a\"b\\c\nd{} 5";
    let text = text(&app(vec![poller(name)]));
    let expected = "dbtick_up{poller=\"a\\\"b\\\\c\\nd{} 5\"} 1";
    assert!(samples(&text).contains(&expected), "{text}");
    let lines = text.lines();
    let mut names = lines.map(|line| {
        line.trim_start_matches("# HELP ")
            .trim_start_matches("# TYPE ")
    });
    assert!(names.all(|line| line.starts_with("dbtick_")), "{text}");
}

#[test]
fn clocks_that_disagree_make_no_ages_below_zero() {
    let future = PollerView {
        last_success: Some(at(60)),
        checkpoint: poller("orders")
            .checkpoint
            .map(|checkpoint| CheckpointView {
                updated_at: Some(at(60)),
                ..checkpoint
            }),
        ..poller("orders")
    };
    let text = text(&app(vec![future]));
    assert!(text.contains("dbtick_checkpoint_age_seconds{poller=\"orders\"} 0\n"));
}
