//! Six broken set-ups: in each, `dbtick status` and the page's own data, served by a process that
//! has not ticked, name the cause and the next step. And what is done about stuck work (F1 to F3).

use std::path::PathBuf;

use chrono::TimeDelta;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::support::command::{Said, run_beside};
use super::support::postgres::{self, Postgres};
use super::support::receiver::Answer;
use super::support::world::World;
use super::{TEMPLATE, get, with_aside, world};

/// What is expected of both: code, health, words of the cause, words of the next step.
struct Expected<'a> {
    code: &'a str,
    level: &'a str,
    says: &'a [&'a str],
    next: &'a str,
}

/// `dbtick status` says it, and a handler that has ticked nothing shows it.
async fn both_say(world: &World, expected: Expected<'_>) {
    let Expected {
        code,
        level,
        says,
        next,
    } = expected;
    let said = run_beside(world, &["status"]).await;
    let stuck = i32::from(level == "stuck");
    assert_eq!(said.code, Some(stuck), "{said:?}");
    for words in says.iter().chain([&next, &code, &level]) {
        assert!(
            said.stdout.contains(words),
            "no {words:?} in\n{}",
            said.stdout
        );
    }
    let detail = run_beside(world, &["status", "orders"]).await;
    assert!(detail.stdout.contains(next), "{detail:?}");
    let elsewhere = world.serve().await;
    let seen = get(&elsewhere, "checkpoints").await.json();
    assert_eq!(seen["health"], level, "{seen:#}");
    let poller = &seen["pollers"][0];
    let finding = &poller["findings"][0];
    assert_eq!(
        (&finding["code"], &finding["level"]),
        (&json!(code), &json!(level)),
        "{poller:#}"
    );
    for words in says {
        assert!(
            finding["says"].as_str().unwrap().contains(words),
            "{finding:#}"
        );
    }
    assert!(
        finding["next"].as_str().unwrap().contains(next),
        "{finding:#}"
    );
    assert_eq!(poller["headline"], finding["says"]);
    for said in [&seen.to_string(), &said.stdout, &detail.stdout] {
        assert!(
            !said.contains(postgres::PASSWORD) && !said.contains("canary"),
            "{said}"
        );
    }
}

fn hours(count: i64) -> TimeDelta {
    TimeDelta::hours(count)
}

/// An owner is killed at work, three hours ago; ticks should come every fifteen seconds.
async fn with_dead_owner() -> World {
    let world = world().await.rows(3).await;
    let file = world.app().join("Orders/function.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("0 0 0 1 1 *", "*/15 * * * * *")).unwrap();
    world.receiver.answer(|_, _| Answer::Never);
    let mut handler = world.serve().await;
    let tick = handler.try_tick("Orders");
    tokio::select! {
        _ = tick => panic!("a receiver that never answers"),
        () = world.receiver.arrived(1) => {}
    }
    handler.signal(Signal::SIGKILL);
    handler.ended().await;
    world.state("orders").rewrite(|document| {
        let held = document.lease.held.as_mut().expect("it died holding it");
        held.acquired_at -= hours(3);
        held.heartbeat_at -= hours(3);
        held.expires_at -= hours(3);
    });
    world.receiver.answer(|_, _| Answer::Ok);
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_lease_of_a_dead_owner_is_named() {
    let world = with_dead_owner().await;
    let expected = Expected {
        code: "lease_expired",
        level: "stuck",
        says: &["has not been heard of for 3 h", "died at work"],
        next: "the next tick takes the lease over",
    };
    both_say(&world, expected).await;
    // And so it does.
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let said = run_beside(&world, &["status"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.stdout.contains("everything visible is delivered"),
        "{said:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poison_batch_is_named_with_the_row() {
    let world = World::with_orders(json!({
        "deliver": [{ "webhook": { "url": "%HOOK%", "attempts": 1 } }],
        "poison": { "then": "block" },
    }));
    let world = world
        .await
        .file("status/function.json", TEMPLATE)
        .rows(3)
        .await;
    world
        .receiver
        .answer(|_, _| Answer::Say(422, None, String::new()));
    let handler = world.serve().await;
    for _ in 0..3 {
        assert_eq!(handler.tick("Orders").await.status, 500);
    }
    let failure = world.state("orders").document().sink("webhook").failure;
    let event = failure.expect("it is counted").event_id;
    let expected = Expected {
        code: "row_rejected",
        level: "stuck",
        says: &["webhook has refused 3 times", &event, "422"],
        next: "dbtick peek orders --data",
    };
    both_say(&world, expected).await;
}

/// A poller of PostgreSQL that has delivered two rows.
async fn with_postgres() -> (World, Postgres) {
    let postgres = Postgres::start().await;
    postgres
        .sql(
            "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text); \
             INSERT INTO orders (note) VALUES ('a'), ('b')",
        )
        .await;
    let world = World::with_orders(json!({
        "source": { "connection": "ORDERS_DB", "table": "orders", "cursor": "id", "key": "id", "stamped_by": "database" },
    }));
    let world = world.await.file("status/function.json", TEMPLATE);
    let world = world.setting("ORDERS_DB", &postgres.url());
    let ticked = world.serve().await.tick("Orders").await;
    assert_eq!(ticked.status, 200, "{}", ticked.logs());
    (world, postgres)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_named_by_the_setting_that_holds_it() {
    let (world, postgres) = with_postgres().await;
    let wrong = postgres.url().replace(postgres::PASSWORD, "canary-wrong");
    let world = world.setting("ORDERS_DB", &wrong);
    assert_eq!(world.serve().await.tick("Orders").await.status, 500);
    let expected = Expected {
        code: "source_failed",
        level: "stuck",
        says: &["ORDERS_DB", "password"],
        next: "ticks go on by themselves",
    };
    both_say(&world, expected).await;
    let document = world.state("orders").document();
    let trouble = document.trouble.expect("the tick has written it down");
    assert_eq!(trouble.outcome, "source_failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_fingerprint_is_named_with_what_has_changed() {
    let world = world().await.rows(3).await;
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    world
        .writer()
        .await
        .sql("CREATE TABLE orders_v2 AS SELECT * FROM orders")
        .await;
    let world = world.poller("Orders", json!({ "source": { "table": "orders_v2" } }));
    let expected = Expected {
        code: "fingerprint_changed",
        level: "stuck",
        says: &[
            "table was \"orders\", is \"orders_v2\"",
            "dbtick adopt orders",
        ],
        next: "the error names the commands",
    };
    both_say(&world, expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_idle_in_transaction_is_named_with_the_way_to_end_it() {
    let (world, postgres) = with_postgres().await;
    let mut idle = postgres.connect("postgres").await;
    let begin = "BEGIN; SET LOCAL application_name = 'nightly report'; INSERT INTO orders (note) VALUES ('late')";
    sqlx::Executor::execute(&mut idle, sqlx::AssertSqlSafe(begin))
        .await
        .unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut idle)
        .await
        .unwrap();
    postgres
        .sql("INSERT INTO orders (note) VALUES ('soon')")
        .await;
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    world.state("orders").rewrite(|document| {
        assert!(!document.late.fences.is_empty(), "somebody is waited for");
        document
            .late
            .fences
            .iter_mut()
            .for_each(|fence| fence.since -= hours(1));
    });
    let terminate = format!("pg_terminate_backend({pid})");
    let expected = Expected {
        code: "transaction_open",
        level: "attention",
        says: &["open for 60 min", "idle in transaction", "nightly report"],
        next: &terminate,
    };
    both_say(&world, expected).await;
}

/// Where quarantined rows lie.
fn cases(world: &World) -> Vec<PathBuf> {
    fn walk(directory: PathBuf, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(path, found),
                false => found.push(path),
            }
        }
    }
    let mut found = Vec::new();
    walk(world.path("state"), &mut found);
    found.retain(|path| path.to_string_lossy().contains("quarantine/"));
    assert!(!found.is_empty(), "something is set aside");
    found
}

/// As if they had been there for so long.
fn age_cases(world: &World, age: TimeDelta) {
    for path in cases(world) {
        let mut case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let at: chrono::DateTime<chrono::Utc> =
            serde_json::from_value(case["quarantined_at"].clone()).unwrap();
        case["quarantined_at"] = json!(at - age);
        std::fs::write(&path, case.to_string()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quarantine_that_was_left_for_a_day_is_named_with_its_age() {
    let (world, _handler) = with_aside().await;
    age_cases(&world, hours(26));
    let expected = Expected {
        code: "quarantine",
        level: "attention",
        says: &["1 row was set aside and not delivered, for 26 h already"],
        next: "dbtick quarantine list orders",
    };
    both_say(&world, expected).await;
}

fn object(said: &Said) -> Value {
    serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"))
}

async fn orphans(world: &World, more: &[&str]) -> Vec<(String, String, bool)> {
    let arguments = [&["orphans", "--json"], more].concat();
    let said = run_beside(world, &arguments).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let found = object(&said)["orphans"].clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let found = found.as_array().unwrap().iter();
    found
        .map(|one| {
            (
                text(&one["poller"]),
                text(&one["kind"]),
                one["review"].is_object(),
            )
        })
        .collect()
}

fn one(kind: &str, reviewed: bool) -> Vec<(String, String, bool)> {
    vec![("orders".to_owned(), kind.to_owned(), reviewed)]
}

async fn resolve(world: &World, strategy: &str, more: &[&str]) -> Said {
    let arguments = [
        "resolve",
        "orders",
        "--strategy",
        strategy,
        "--yes",
        "--json",
        "--reason",
        "three in the morning",
    ];
    run_beside(world, &[&arguments[..], more].concat()).await
}

/// F1, F2, F3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_nobody_took_is_an_orphan_after_the_grace_period_and_is_freed_once() {
    let world = with_dead_owner().await;
    assert_eq!(orphans(&world, &["--grace", "4h"]).await, []);
    assert_eq!(orphans(&world, &[]).await, one("lease", false));
    let token = world.state("orders").document().lease.token;
    for changed in [true, false] {
        let said = resolve(&world, "resume", &[]).await;
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(object(&said)["changed"], changed, "{said:?}");
    }
    let document = world.state("orders").document();
    assert_eq!(document.lease.held, None);
    assert!(
        document.lease.token > token,
        "who only seemed dead can commit nothing"
    );
    let entry = document.audit.last().unwrap();
    assert!(
        entry.what.contains("the lease of") && entry.why == "three in the morning",
        "{entry:?}"
    );
    assert_eq!(document.audit.len(), 1, "once");
    assert_eq!(orphans(&world, &[]).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_looks_into_is_told_so_until_it_happens_anew() {
    let (world, _handler) = with_aside().await;
    age_cases(&world, hours(26));
    assert_eq!(orphans(&world, &[]).await, one("quarantine", false));
    for changed in [true, false] {
        let said = resolve(&world, "review", &["--only", "quarantine"]).await;
        assert_eq!(
            (said.code, &object(&said)["changed"]),
            (Some(0), &json!(changed)),
            "{said:?}"
        );
    }
    assert_eq!(orphans(&world, &[]).await, one("quarantine", true));
    let audit = world.state("orders").document().audit;
    let reviews = audit
        .iter()
        .filter(|entry| entry.what.starts_with("review quarantine"));
    assert_eq!(reviews.count(), 1, "{audit:?}");
    // Older rows than those that are looked into.
    age_cases(&world, hours(26));
    assert_eq!(orphans(&world, &[]).await, one("quarantine", false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poller_that_is_marked_failed_stops_until_it_is_reset_and_somebody_is_told() {
    let world = World::with_orders(json!({
        "deliver": [{ "webhook": { "url": "%HOOK%", "attempts": 1 } }],
        "warnings": { "url": "%HOOK%" },
    }));
    let world = world.await.rows(3).await;
    world
        .receiver
        .answer(|_, _| Answer::Say(500, None, String::new()));
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 500);
    world.state("orders").rewrite(|document| {
        let sink = document.sinks.get_mut("webhook").unwrap();
        sink.failure.as_mut().unwrap().first_at -= hours(3);
    });
    assert_eq!(orphans(&world, &[]).await, one("failure", false));
    world.receiver.answer(|_, _| Answer::Ok);
    let before = world.receiver.deliveries().len();
    for changed in [true, false] {
        let said = resolve(&world, "mark-failed", &[]).await;
        assert_eq!(
            (said.code, &object(&said)["changed"]),
            (Some(0), &json!(changed)),
            "{said:?}"
        );
    }
    let told = world.receiver.deliveries()[before..].to_vec();
    assert_eq!(told.len(), 1, "once");
    let warning = &told[0].body;
    assert_eq!(warning["event"], "dbtick.resolved");
    assert_eq!(
        (&warning["poller"], &warning["kind"], &warning["strategy"]),
        (&json!("orders"), &json!("failure"), &json!("mark-failed"))
    );
    assert_eq!(warning["why"], "three in the morning");
    // A tick says so and does nothing; a reset ends it.
    let ticked = handler.tick("Orders").await;
    assert_eq!(ticked.status, 500);
    handler.stderr.line(&["marked failed"]).await;
    assert_eq!(world.receiver.deliveries().len(), before + 1);
    assert_eq!(orphans(&world, &[]).await, [], "it is resolved");
    let reset = run_beside(&world, &["reset", "orders", "--to", "beginning", "--yes"]).await;
    assert_eq!(reset.code, Some(0), "{reset:?}");
    assert_eq!(handler.tick("Orders").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_whose_poller_is_gone_is_found_and_can_be_closed() {
    let world = world().await.rows(3).await;
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    world.state("orders").rewrite(|document| {
        let at = document.checkpoint.updated_at.as_mut().unwrap();
        *at -= hours(3);
    });
    std::fs::remove_dir_all(world.app().join("Orders")).unwrap();
    let world = world.poller("Others", json!({}));
    assert_eq!(orphans(&world, &[]).await, one("no_poller", false));
    let resumed = resolve(&world, "resume", &[]).await;
    assert_eq!(resumed.code, Some(1), "{resumed:?}");
    assert!(
        resumed.stderr.contains("configure orders again"),
        "{resumed:?}"
    );
    for changed in [true, false] {
        let said = resolve(&world, "review", &[]).await;
        assert_eq!(
            (said.code, &object(&said)["changed"]),
            (Some(0), &json!(changed)),
            "{said:?}"
        );
    }
    assert_eq!(orphans(&world, &[]).await, one("no_poller", true));
    let closed = resolve(&world, "mark-failed", &[]).await;
    assert_eq!(object(&closed)["changed"], true, "{closed:?}");
    assert_eq!(orphans(&world, &[]).await, []);
    // Nobody by that name, and nothing stuck.
    let unknown = run_beside(
        &world,
        &["resolve", "nobody", "--strategy", "review", "--yes"],
    )
    .await;
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("there is others"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_that_nobody_goes_on_with_is_stuck_work_and_closing_it_leaves_the_poller_alone()
{
    let world = world().await.rows(6).await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    world.receiver.answer(|_, _| Answer::Never);
    let begin = [
        "backfill", "orders", "--to", "4", "--name", "again", "--yes",
    ];
    let mut begun = super::support::command::beside(&world, &begin)
        .spawn()
        .unwrap();
    world.receiver.arrived(2).await;
    begun.kill().await.unwrap();
    world.receiver.answer(|_, _| Answer::Ok);
    assert_eq!(orphans(&world, &[]).await, []);
    assert_eq!(
        orphans(&world, &["--grace", "0s"]).await,
        one("backfill", false)
    );
    let resumed = resolve(&world, "resume", &["--grace", "0s"]).await;
    assert_eq!(resumed.code, Some(1), "{resumed:?}");
    assert!(
        resumed
            .stderr
            .contains("dbtick backfill orders --name again"),
        "{resumed:?}"
    );
    for changed in [true, false] {
        let said = resolve(&world, "mark-failed", &["--grace", "0s"]).await;
        assert_eq!(
            (said.code, &object(&said)["changed"]),
            (Some(0), &json!(changed)),
            "{said:?}"
        );
    }
    assert_eq!(orphans(&world, &["--grace", "0s"]).await, []);
    let document = world.state("orders").document();
    assert_eq!(document.status, dbtick::model::state::Status::Active);
    assert!(
        document.audit[0]
            .what
            .contains("abandon the backfill again"),
        "{:?}",
        document.audit
    );
    assert_eq!(handler.tick("Orders").await.status, 200);
}
