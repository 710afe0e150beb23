//! Grades, clocks and servers.

use std::time::Duration;

use chrono::{NaiveDateTime, TimeDelta};
use dbtick::config::{FutureRows, LateMode, StampedBy};
use dbtick::model::late::{Bound, Continuity, Protected};
use dbtick::model::position::{Moment, MomentKind, Scalar};
use dbtick::source::{Finding, Grade};

use super::*;
use crate::support::mariadb::MariaDb;
use crate::support::server::End;

const TABLE: &str = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT, v INT NOT NULL DEFAULT 0,
        d DATE NOT NULL DEFAULT '2026-01-01', local DATETIME(3) NOT NULL DEFAULT '2026-01-01',
        at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
        stamped TIMESTAMP(6) NOT NULL DEFAULT '2026-01-01', half TIMESTAMP(6) NOT NULL DEFAULT '2026-01-01');
    CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW SET NEW.stamped = NOW(6);
    CREATE TRIGGER b BEFORE UPDATE ON t FOR EACH ROW BEGIN SET NEW.`stamped` = CURRENT_TIMESTAMP(6); END;
    INSERT INTO t (n) VALUES (1)";

async fn judged(config: &SourceConfig) -> (Protected, Finding) {
    let found = open(config).describe().await.unwrap();
    let mut findings = found.findings.into_iter();
    let finding = findings.find(|finding| finding.subject == "late commits");
    (found.protection.unwrap().grade, finding.unwrap())
}

#[tokio::test]
async fn the_grade_depends_on_who_stamps() {
    let engine = super::locks::watched().await;
    let fixture = engine.fixture(TABLE).await;
    let bounded = Protected::Bounded(Duration::from_secs(5));
    for (cursor, by, grade, text) in [
        (
            "id",
            None,
            bounded,
            "BOUNDED(5s): writers may give a row an id of their own",
        ),
        (
            "at",
            None,
            bounded,
            "BOUNDED(5s): writers may override the default",
        ),
        (
            "n",
            None,
            bounded,
            "BOUNDED(5s): nothing in the schema says",
        ),
        (
            "half",
            None,
            bounded,
            "BOUNDED(5s): nothing in the schema says",
        ),
        ("stamped", None, Protected::Proven, "PROVEN: "),
        (
            "at",
            Some(StampedBy::Database),
            Protected::Proven,
            "PROVEN: ",
        ),
        (
            "stamped",
            Some(StampedBy::Application),
            bounded,
            "BOUNDED(5s): writers give",
        ),
    ] {
        let mut config = fixture.table("t", &[cursor], &["id"]);
        config.late.stamped_by = by;
        let (found, finding) = judged(&config).await;
        assert_eq!(found, grade, "{cursor} {by:?}");
        let expected = if grade == bounded {
            Grade::Warn
        } else {
            Grade::Pass
        };
        assert_eq!(finding.grade, expected, "{cursor} {by:?}");
        assert!(finding.text.starts_with(text), "{}", finding.text);
    }
    for by in [StampedBy::Transaction, StampedBy::TransactionId] {
        let mut config = fixture.table("t", &["id"], &["id"]);
        config.late.stamped_by = Some(by);
        let error = open(&config).look(&nobody()).await.unwrap_err();
        assert!(error.to_string().contains("PostgreSQL"), "{error}");
    }
}

#[tokio::test]
async fn without_evidence_only_a_window_or_a_word_of_the_owner_goes() {
    let server = MariaDb::with()
        .setting("innodb-lock-wait-timeout", "20")
        .start()
        .await;
    let engine = Engine::MariaDb(server);
    let mut fixture = engine
        .fixture("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MyISAM; CREATE TABLE u (id INT PRIMARY KEY)")
        .await;
    let minute = Duration::from_secs(60);
    for (mode, grade, finding, looks) in [
        (LateMode::Auto, Protected::Unsafe, Grade::Fail, false),
        (LateMode::Off, Protected::Unsafe, Grade::Warn, true),
        (
            LateMode::Window(minute),
            Protected::Bounded(minute),
            Grade::Warn,
            true,
        ),
        (
            LateMode::Settle(minute),
            Protected::Bounded(minute),
            Grade::Warn,
            true,
        ),
    ] {
        let mut config = fixture.table("t", &["id"], &["id"]);
        config.late.mode = mode;
        let (found, said) = judged(&config).await;
        assert_eq!(
            (found, said.grade),
            (grade, finding),
            "{mode:?}: {}",
            said.text
        );
        match open(&config).look(&nobody()).await {
            Ok(sight) => {
                assert!(
                    looks && sight.epoch.is_some() && sight.now.is_some(),
                    "{mode:?}"
                );
                let is_bound = sight.bound != Bound::default() && sight.window == Some(minute);
                assert_eq!(is_bound, mode != LateMode::Off, "{mode:?}");
            }
            Err(error) => {
                assert!(!looks, "{mode:?}: {error}");
                assert!(error.to_string().contains("MyISAM"), "{error}");
            }
        }
    }
    let config = fixture.table("u", &["id"], &["id"]);
    let (found, said) = judged(&config).await;
    assert_eq!(found, Protected::Bounded(Duration::from_secs(30)));
    assert!(said.text.contains("performance_schema=ON"), "{}", said.text);
    // The server may be a replica, and its reader may not ask.
    let database: String = sqlx::query_scalar("SELECT DATABASE()")
        .fetch_one(fixture.mysql())
        .await
        .unwrap();
    fixture
        .run(&format!(
            "CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'pw'; GRANT SELECT ON {database}.* TO reader@'127.0.0.1'; SET GLOBAL read_only = 1"
        ))
        .await;
    let Engine::MariaDb(server) = &engine else {
        unreachable!()
    };
    let mut reader = config.clone();
    reader.connection = mysql_connection(server.port, &database, "reader", "pw");
    let (found, said) = judged(&reader).await;
    assert_eq!((found, said.grade), (Protected::Unsafe, Grade::Fail));
    assert!(said.text.contains("replica"), "{}", said.text);
    let (found, _) = judged(&config).await;
    assert_eq!(
        found,
        Protected::Bounded(Duration::from_secs(30)),
        "who may ask knows better"
    );
}

fn hours(hours: i64) -> TimeDelta {
    TimeDelta::hours(hours)
}

#[tokio::test]
async fn a_moment_is_over_when_its_tick_and_the_window_are() {
    let engine = super::super::engine().await;
    let mut fixture = engine.fixture(TABLE).await;
    let at = |kind, at: NaiveDateTime| Scalar::Moment(Moment::at(kind, at));
    let (window, ahead) = (TimeDelta::seconds(60), TimeDelta::seconds(60));
    let day = hours(24 + 14);
    for (cursor, zone, server, kind, tick, west, east) in [
        (
            "at",
            None,
            "+05:00",
            MomentKind::Instant,
            TimeDelta::seconds(1),
            0,
            0,
        ),
        (
            "stamped",
            None,
            "+00:00",
            MomentKind::Instant,
            TimeDelta::microseconds(1),
            0,
            0,
        ),
        (
            "local",
            Some("+02:00"),
            "-05:00",
            MomentKind::Local,
            TimeDelta::milliseconds(1),
            2,
            2,
        ),
        (
            "local",
            Some("SYSTEM"),
            "-05:00",
            MomentKind::Local,
            TimeDelta::milliseconds(1),
            0,
            0,
        ),
        (
            "local",
            None,
            "-05:00",
            MomentKind::Local,
            TimeDelta::milliseconds(1),
            -5,
            0,
        ),
        (
            "local",
            None,
            "+05:00",
            MomentKind::Local,
            TimeDelta::milliseconds(1),
            0,
            5,
        ),
        ("d", None, "+00:00", MomentKind::Date, day, 0, 0),
    ] {
        fixture
            .run(&format!("SET GLOBAL time_zone = '{server}'"))
            .await;
        let mut config = fixture.table("t", &[cursor], &["id"]);
        config.late.time_zone = zone.map(str::to_owned);
        let sight = look(open(&config).as_ref(), &nobody()).await;
        let now = sight.now.unwrap().naive_utc();
        let below = at(kind, now + hours(west) - window - tick);
        assert_eq!(
            sight.bound.below,
            Some(vec![below]),
            "{cursor} {zone:?} {server}"
        );
        let ceiling = at(kind, now + hours(east) + ahead + tick);
        assert_eq!(sight.ceiling, Some(ceiling), "{cursor} {zone:?} {server}");
        assert_eq!(sight.window, None);
        let visible = matches!(sight.bound.highest, Highest::Visible(Some(_)));
        assert_eq!(visible, kind != MomentKind::Instant, "{cursor}");
        config.late.future = FutureRows::Deliver;
        assert_eq!(look(open(&config).as_ref(), &nobody()).await.ceiling, None);
    }
    let mut config = fixture.table("t", &["local"], &["id"]);
    config.late.time_zone = Some("Europe/Nowhere".to_owned());
    let error = open(&config).look(&nobody()).await.unwrap_err().to_string();
    assert!(
        error.contains("source.time_zone Europe/Nowhere") && error.contains("+02:00"),
        "{error}"
    );
}

#[tokio::test]
async fn a_restart_is_another_epoch() {
    let mut engine = super::super::engine().await;
    let fixture = engine.fixture(TABLE).await;
    let source = open(&fixture.table("t", &["id"], &["id"]));
    let epoch = async || look(source.as_ref(), &nobody()).await.epoch.unwrap();
    let Engine::MariaDb(server) = &mut engine else {
        unreachable!()
    };
    let first = epoch().await;
    // Longer than what start times are told to.
    server.sql("DO SLEEP(5)").await;
    let second = epoch().await;
    assert_eq!(second.continues(&first), Continuity::Same);
    server.stop(End::Clean).await;
    server.start_again().await;
    let third = epoch().await;
    assert_eq!(third.continues(&second), Continuity::Restarted);
}
