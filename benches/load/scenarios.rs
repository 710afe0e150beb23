//! What is done to the handler, each with a process of its own.

use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use futures_util::future::join_all;
use serde_json::json;

use crate::app::{App, Fired, PollerOf, failed, longest, median};
use crate::process;
use crate::report::Report;

const SECOND: Duration = Duration::from_secs(1);
/// Of one poller that drains by itself, whatever it reads.
const ALONE_MIB: u64 = 64;
/// Of what is on its way in all pollers together there may be 128 MiB.
const TOGETHER_MIB: u64 = 256;

const POLLERS: usize = 1000;
const DUE: usize = 100;
const SMALL: usize = 20;

/// A thousand small tables, all with rows; then none with any; then each with one more.
pub(crate) async fn many(report: &mut Report) {
    const NAME: &str = "1,000 pollers, 100 due in a second";
    let tables = format!(
        "DO $$ BEGIN FOR t IN 1..{POLLERS} LOOP
             EXECUTE format('CREATE TABLE t%s (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                 seq timestamptz NOT NULL DEFAULT now(), note text)', t);
             EXECUTE format('CREATE INDEX ON t%s (seq, id)', t);
             EXECUTE format('INSERT INTO t%s (note) SELECT repeat(''n'', 200) FROM generate_series(1, {SMALL})', t);
             IF t % 50 = 0 THEN COMMIT; END IF;
         END LOOP; END $$"
    );
    let pollers = (1..=POLLERS).map(|t| PollerOf {
        function: format!("T{t}"),
        table: format!("public.t{t}"),
        changes: json!({}),
    });
    let app = App::start(&tables, pollers.collect(), 30 * SECOND, POLLERS * SMALL).await;
    report.seconds(NAME, "start to ready", app.ready, 2 * SECOND);
    let idle_kib = app.peak_kib();
    for (what, grows) in [
        ("20 rows each", false),
        ("nothing new", false),
        ("a row each", true),
    ] {
        if grows {
            let more = format!(
                "DO $$ BEGIN FOR t IN 1..{POLLERS} LOOP
                     EXECUTE format('INSERT INTO t%s (note) VALUES (''one more'')', t);
                 END LOOP; END $$"
            );
            app.postgres.sql(&more).await;
        }
        let cpu = process::cpu(app.handler.pid);
        let fired = all_of_them(&app).await;
        let cpu = process::cpu(app.handler.pid) - cpu;
        let micros = cpu.as_micros() / POLLERS as u128;
        report.none(NAME, &format!("{what}: ticks that failed"), failed(&fired));
        report.seconds(
            NAME,
            &format!("{what}: longest wait"),
            longest(&fired),
            5 * SECOND,
        );
        let figure = format!("{:.1} ms", median(&fired).as_secs_f64() * 1e3);
        report.says(NAME, &format!("{what}: median wait"), &figure);
        report.says(
            NAME,
            &format!("{what}: CPU of the handler for a tick"),
            &format!("{micros} µs"),
        );
    }
    let (mut missing, mut again) = (0, 0);
    for t in 1..=POLLERS {
        let (never, more) = app.receiver.missing_and_again(&format!("t{t}"), SMALL + 1);
        missing += never;
        again += more;
    }
    report.none(NAME, "rows not delivered", missing);
    report.says(NAME, "rows delivered again", &again.to_string());
    let figure = format!("{:.1} MiB", idle_kib as f64 / 1024.0);
    report.says(NAME, "memory before the first tick", &figure);
    report.memory(NAME, "peak memory", app.peak_kib(), TOGETHER_MIB);
}

/// A hundred in each second, whether those before have ended or not.
async fn all_of_them(app: &App) -> Vec<Fired> {
    let mut seconds = tokio::time::interval(SECOND);
    let mut rounds = Vec::new();
    for first in (1..=POLLERS).step_by(DUE) {
        seconds.tick().await;
        let due = (first..first + DUE).map(|t| app.fire(&format!("T{t}")));
        rounds.push(tokio::spawn(join_all(due)));
    }
    let rounds = join_all(rounds).await;
    rounds
        .into_iter()
        .flat_map(|round| round.unwrap())
        .collect()
}

/// Those who wait for slow receivers hold all places; who comes meanwhile gets his turn.
pub(crate) async fn crowd(report: &mut Report) {
    const NAME: &str = "150 slow pollers and 100 quick ones";
    const SLOW: usize = 150;
    const ROWS: usize = 3000;
    let pollers = |kind: &'static str, count: usize, batch: usize| {
        (1..=count).map(move |n| PollerOf {
            function: format!("{kind}{n}"),
            table: format!("public.{}", kind.to_lowercase()),
            changes: json!({ "batch": { "max_rows": batch } }),
        })
    };
    let tables = table("slow", ROWS, 1000) + &table("quick", SMALL, 200);
    let pollers = pollers("Slow", SLOW, 100).chain(pollers("Quick", DUE, 1000));
    let app = App::start(&tables, pollers.collect(), 30 * SECOND, ROWS).await;
    app.receiver
        .pace(|poller| match poller.starts_with("slow") {
            true => SECOND,
            false => Duration::ZERO,
        });
    let slow = (1..=SLOW).map(|n| app.fire(&format!("Slow{n}")));
    let slow = tokio::spawn(join_all(slow));
    tokio::time::sleep(2 * SECOND).await;
    let quick = join_all((1..=DUE).map(|n| app.fire(&format!("Quick{n}")))).await;
    report.none(NAME, "quick ticks that failed", failed(&quick));
    // A turn is ten seconds, of which two are over, and then a batch is finished.
    report.seconds(
        NAME,
        "longest wait of a quick one",
        longest(&quick),
        12 * SECOND,
    );
    let slow = slow.await.unwrap();
    report.none(NAME, "slow ticks that failed", failed(&slow));
    let latest = app.latest_answer();
    report.seconds(NAME, "longest tick, of 30 s", longest(&slow), latest);
    app.receiver.pace(|_| Duration::ZERO);
    let rest = join_all((1..=SLOW).map(|n| app.fire(&format!("Slow{n}")))).await;
    report.none(NAME, "ticks that failed after that", failed(&rest));
    let missing = |name: &'static str, count: usize, rows: usize| {
        let missing = |n| {
            app.receiver
                .missing_and_again(&format!("{name}{n}"), rows)
                .0
        };
        (1..=count).map(missing).sum::<usize>()
    };
    let missing = missing("slow", SLOW, ROWS) + missing("quick", DUE, SMALL);
    report.none(NAME, "rows not delivered", missing);
    report.memory(NAME, "peak memory", app.peak_kib(), TOGETHER_MIB);
}

/// From the first row to the last, by ticks of twenty seconds.
pub(crate) async fn large(report: &mut Report, rows: usize) {
    let name = &format!("a table of {rows} rows");
    let app = one(
        &table("orders", rows, 200),
        json!({}),
        20 * SECOND,
        rows / 20,
    )
    .await;
    let began = SystemClock.monotonic();
    let fired = app.drain("Orders").await;
    let took = SystemClock.monotonic() - began;
    drained(report, name, &app, rows, &fired, took);
    let growth = app.peak_kib().saturating_sub(app.receiver.early_kib());
    report.memory(
        name,
        "growth of that after a twentieth of the rows",
        growth,
        8,
    );
}

/// The same rows to a receiver that takes ten times as long as they took to be read and sent.
pub(crate) async fn slow(report: &mut Report) {
    const NAME: &str = "a receiver ten times slower";
    const ROWS: usize = 100_000;
    const BATCH: usize = 1000;
    let app = one(
        &table("orders", 2 * ROWS, 1000),
        json!({}),
        10 * SECOND,
        BATCH,
    )
    .await;
    let began = SystemClock.monotonic();
    // What the source gives: all of it, once, to a receiver that is quick.
    app.drain("Orders").await;
    let quick = SystemClock.monotonic() - began;
    let batch = quick / u32::try_from(2 * ROWS / BATCH).unwrap();
    report.says(
        NAME,
        "a batch, quick",
        &format!("{:.1} ms", batch.as_secs_f64() * 1e3),
    );
    drop(app);

    let app = one(&table("orders", ROWS, 1000), json!({}), 10 * SECOND, BATCH).await;
    app.receiver.pace(move |_| 10 * batch);
    let began = SystemClock.monotonic();
    let fired = app.drain("Orders").await;
    let took = SystemClock.monotonic() - began;
    drained(report, NAME, &app, ROWS, &fired, took);
    let growth = app.peak_kib().saturating_sub(app.receiver.early_kib());
    report.memory(NAME, "growth of that after the first batch", growth, 32);
}

/// All rows have the time at which their transaction began, which is in the past when they become visible.
pub(crate) async fn burst(report: &mut Report, rows: usize) {
    let name = &format!("{rows} rows in one transaction");
    let empty = "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        seq timestamptz NOT NULL DEFAULT now(), note text);
        CREATE INDEX ON orders (seq, id)";
    let app = one(empty, json!({}), 20 * SECOND, rows / 20).await;
    let insert = |count: usize| {
        format!(
            "INSERT INTO orders (note) SELECT repeat('n', 200) FROM generate_series(1, {count})"
        )
    };
    app.postgres.sql(&insert(10)).await;
    let first = app.drain("Orders").await;
    report.none(name, "ticks before it that failed", failed(&first));
    // The poller goes on while the transaction is open, and others commit beside it.
    let statement = insert(rows);
    let began = SystemClock.monotonic();
    let bursting = app.postgres.sql(&statement);
    let ticking = async {
        let mut fired = Vec::new();
        loop {
            app.postgres.sql(&insert(1)).await;
            fired.push(app.fire("Orders").await);
            tokio::time::sleep(Duration::from_millis(200)).await;
            let failed = fired.last().is_some_and(|last| !last.is_good());
            if failed || app.receiver.events() > 1000 {
                return fired;
            }
        }
    };
    let ((), mut fired) = tokio::join!(bursting, ticking);
    let beside = fired.len();
    report.says(name, "ticks until it was delivered", &beside.to_string());
    fired.extend(app.drain("Orders").await);
    let took = SystemClock.monotonic() - began;
    drained(report, name, &app, rows + 10 + beside, &fired, took);
    let bytes = app.document_bytes("orders");
    report.says(name, "state document after it", &format!("{bytes} bytes"));
}

/// `rows` of about so many bytes, three of them at each time.
fn table(name: &str, rows: usize, bytes: usize) -> String {
    format!(
        "CREATE TABLE {name} (id int PRIMARY KEY, seq timestamptz NOT NULL, note text);
         INSERT INTO {name} SELECT i, '2026-01-01Z'::timestamptz + i / 3 * interval '1 ms',
             repeat('n', {bytes}) FROM generate_series(1, {rows}) i;
         CREATE INDEX ON {name} (seq, id);"
    )
}

async fn one(table: &str, changes: serde_json::Value, timeout: Duration, early: usize) -> App {
    let orders = PollerOf {
        function: "Orders".to_owned(),
        table: "public.orders".to_owned(),
        changes,
    };
    App::start(table, vec![orders], timeout, early).await
}

fn drained(
    report: &mut Report,
    name: &str,
    app: &App,
    rows: usize,
    fired: &[Fired],
    took: Duration,
) {
    let (missing, again) = app.receiver.missing_and_again("orders", rows);
    report.none(name, "ticks that failed", failed(fired));
    report.none(name, "rows not delivered", missing);
    report.says(name, "rows delivered again", &again.to_string());
    let figure = format!("{} in {:.1} s", fired.len(), took.as_secs_f64());
    report.says(name, "ticks", &figure);
    let figure = format!("{:.0}", rows as f64 / took.as_secs_f64());
    report.says(name, "rows a second", &figure);
    let mib = app.receiver.bytes() >> 20;
    report.says(name, "delivered", &format!("{mib} MiB"));
    let limit = format!("longest tick, of {} s", app.timeout.as_secs());
    report.seconds(name, &limit, longest(fired), app.latest_answer());
    report.memory(name, "peak memory", app.peak_kib(), ALONE_MIB);
}
