//! Whether a batch costs the same wherever in the table it begins.
//!
//! `cargo bench --bench deep_pages -- [--rows N]`; see benches/README.md for what it said.
//! Ends with exit code 1 if a batch deep in the table takes more than twice the time of one at row 10.

#![allow(clippy::unwrap_used)] // a failed step is the end of a benchmark

#[allow(dead_code)] // the contract suite uses the rest
#[path = "../tests/source_contract/fixture.rs"]
mod fixture;
#[path = "../tests/support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use dbtick::model::position::Position;
use dbtick::source::Source;
use fixture::{Engine, Fixture, MANY_BYTES, Writer, open, read};
use serde_json::Value;
use sqlx::AssertSqlSafe;
use support::mariadb::MariaDb;
use support::postgres::Postgres;

const ROWS: usize = 5_000_000;
const BATCH: usize = 500;
const REPETITIONS: usize = 300;
/// For each thing that is measured, once it was done [`ENOUGH`] times: the OR form takes seconds.
const PATIENCE: Duration = Duration::from_secs(8);
const ENOUGH: usize = 5;
const SHALLOW: usize = 10;
const MOST_RATIO: f64 = 2.0;

#[tokio::main]
async fn main() -> ExitCode {
    let Some(rows) = rows_asked_for() else {
        eprintln!("usage: deep_pages [--rows N], N at least {}", 10 * BATCH);
        return ExitCode::from(2);
    };
    println!(
        "{rows} rows, batches of {BATCH}. Each number is the median of up to {REPETITIONS} reads after\n\
         one that is not counted, on one open connection; the places take turns, so that caches and\n\
         the machine's other work meet all of them alike. `dbtick` is `Source::read`: look at the\n\
         catalogue, page, JSON. `OR form` (`c > x OR (c = x AND k > y)`) and `limit` (the same rows by\n\
         `id BETWEEN`) are bare statements: rows fetched, no value decoded.\n"
    );
    println!("| | row {SHALLOW} | middle | end | worst ratio | reads |");
    println!("|---|---|---|---|---|---|");
    let mut flat = true;
    for database in [Database::Sqlite, Database::Postgres, Database::MariaDb] {
        flat &= database.measure(rows).await;
    }
    if flat {
        ExitCode::SUCCESS
    } else {
        println!("\nnot flat: a deep batch takes more than {MOST_RATIO} times as long");
        ExitCode::FAILURE
    }
}

/// Cargo adds `--bench`.
fn rows_asked_for() -> Option<usize> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let mut arguments = arguments.iter().filter(|argument| *argument != "--bench");
    let rows = match arguments.next().map(String::as_str) {
        None => ROWS,
        Some("--rows") => arguments.next()?.replace([',', '_'], "").parse().ok()?,
        Some(_) => return None,
    };
    (arguments.next().is_none() && rows >= 10 * BATCH).then_some(rows)
}

#[derive(Debug, Clone, Copy)]
enum Database {
    Sqlite,
    Postgres,
    MariaDb,
}

impl Database {
    /// Prints its lines; whether dbtick's own is flat.
    async fn measure(self, rows: usize) -> bool {
        let engine = self.engine().await;
        let started = SystemClock.monotonic();
        let statements = self.fill(rows);
        let mut fixture = engine.fixture(&statements[0]).await;
        for statement in &statements[1..] {
            fixture.run(statement).await;
        }
        let filled = SystemClock.monotonic() - started;
        eprintln!("{self:?}: filled in {:.1} s", filled.as_secs_f64());

        let depths = [SHALLOW, rows / 2, rows - BATCH - 1];
        let source = open(&fixture.table("t", &["c"], &["id"]));
        let ours = self.ours(&fixture, source.as_ref(), depths).await;
        print(&format!("{self:?}: dbtick"), &ours);
        // On MariaDB the OR form is ours.
        if !matches!(self, Self::MariaDb) {
            let mut places = Vec::new();
            for depth in depths {
                places.push((self.cursor_at(&mut fixture, depth).await, depth));
            }
            for (form, with) in [
                ("parameters", Self::with_parameters as Form),
                ("literals", Self::with_literals),
            ] {
                let statements: Vec<_> = places
                    .iter()
                    .map(|(c, depth)| with(self, c, *depth))
                    .collect();
                let times = bare(&mut fixture, &statements).await;
                print(&format!("{self:?}: OR form, {form}"), &times);
            }
        }
        let limits = depths.map(|depth| {
            let (from, to) = (depth + 1, depth + BATCH);
            let sql = format!("SELECT id, c, note FROM t WHERE id BETWEEN {from} AND {to}");
            Bare { sql, values: None }
        });
        print(
            &format!("{self:?}: limit"),
            &bare(&mut fixture, &limits).await,
        );
        ratio(&ours) <= MOST_RATIO
    }

    /// With room for the table, as a server that is used has.
    async fn engine(self) -> Engine {
        match self {
            Self::Sqlite => Engine::Sqlite,
            Self::Postgres => Engine::Postgres(
                Postgres::with()
                    .hba("host all all 127.0.0.1/32 trust")
                    .setting("shared_buffers", "1GB")
                    .setting("maintenance_work_mem", "512MB")
                    .setting("max_wal_size", "4GB")
                    .setting("autovacuum", "off")
                    .start()
                    .await,
            ),
            Self::MariaDb => Engine::MariaDb(
                MariaDb::with()
                    .setting("innodb-buffer-pool-size", "1G")
                    .setting("innodb-log-file-size", "512M")
                    .start()
                    .await,
            ),
        }
    }

    /// Three rows share each cursor value; cursor and key rise together, so that the rows of a page
    /// are also a range of keys.
    fn fill(self, rows: usize) -> Vec<String> {
        match self {
            Self::Sqlite => vec![
                "PRAGMA synchronous = OFF".to_owned(),
                "CREATE TABLE t (id INTEGER PRIMARY KEY, c TEXT NOT NULL, note TEXT)".to_owned(),
                format!(
                    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
                     INSERT INTO t SELECT i, datetime(1767225600 + i / 3, 'unixepoch'), 'note ' || i FROM n"
                ),
                "CREATE INDEX t_c_id ON t (c, id)".to_owned(),
                "ANALYZE".to_owned(),
            ],
            Self::Postgres => vec![
                "CREATE TABLE t (id bigint NOT NULL, c timestamptz NOT NULL, note text)".to_owned(),
                format!(
                    "INSERT INTO t SELECT i, '2026-01-01Z'::timestamptz + i / 3 * interval '1 s', 'note ' || i
                     FROM generate_series(1, {rows}) i"
                ),
                "ALTER TABLE t ADD PRIMARY KEY (id)".to_owned(),
                "CREATE INDEX ON t (c, id)".to_owned(),
                "VACUUM ANALYZE t".to_owned(),
            ],
            Self::MariaDb => vec![
                "CREATE TABLE t (id BIGINT PRIMARY KEY, c DATETIME(6) NOT NULL, note TEXT)".to_owned(),
                format!(
                    "INSERT INTO t SELECT seq, '2026-01-01' + INTERVAL seq DIV 3 SECOND, CONCAT('note ', seq)
                     FROM seq_1_to_{rows}"
                ),
                "CREATE INDEX t_c_id ON t (c, id)".to_owned(),
                "ANALYZE TABLE t".to_owned(),
            ],
        }
    }

    async fn ours(
        self,
        fixture: &Fixture,
        source: &dyn Source,
        depths: [usize; 3],
    ) -> Vec<Vec<Duration>> {
        let mut places = Vec::new();
        for depth in depths {
            places.push((depth, position_of(fixture, depth).await));
        }
        let mut times = vec![Vec::new(); places.len()];
        let started = SystemClock.monotonic();
        for round in 0..=REPETITIONS {
            for (place, (depth, position)) in places.iter().enumerate() {
                let before = SystemClock.monotonic();
                let read = read(source, Some(position), BATCH, MANY_BYTES).await;
                let took = SystemClock.monotonic() - before;
                let page = read.unwrap().page;
                // A fast answer that is the wrong one counts for nothing.
                assert_eq!(page.len(), BATCH);
                let first: Value = serde_json::from_slice(page.json(&page.events()[0])).unwrap();
                let id = &first["key"]["id"];
                let id = id.as_i64().or_else(|| id.as_str()?.parse().ok());
                assert_eq!(id, i64::try_from(depth + 1).ok(), "{self:?}: {first}");
                if round > 0 {
                    times[place].push(took);
                }
            }
            if impatient(round, started) {
                break;
            }
        }
        times
    }

    async fn cursor_at(self, fixture: &mut Fixture, row: usize) -> String {
        let sql = AssertSqlSafe(format!(
            "SELECT CAST(c AS char(40)) FROM t WHERE id = {row}"
        ));
        let c: String = match &mut fixture.writer {
            Writer::Sqlite(writer) => sqlx::query_scalar(sql).fetch_one(writer).await,
            Writer::Postgres(writer) => sqlx::query_scalar(sql).fetch_one(writer).await,
            Writer::MySql(writer) => sqlx::query_scalar(sql).fetch_one(writer).await,
        }
        .unwrap();
        c.trim_end().to_owned()
    }

    /// As a driver with prepared statements sends it; the server does not see the values when it
    /// makes a plan for all of them.
    fn with_parameters(self, c: &str, row: usize) -> Bare {
        let (x, y) = match self {
            Self::Postgres => ("CAST($1::text AS timestamptz)", "$2"),
            Self::Sqlite | Self::MariaDb => ("?1", "?2"),
        };
        let values = Some((c.to_owned(), i64::try_from(row).unwrap()));
        Bare {
            sql: or_form(x, y),
            values,
        }
    }

    /// The server sees the values when it makes its plan.
    fn with_literals(self, c: &str, row: usize) -> Bare {
        Bare {
            sql: or_form(&format!("'{c}'"), &row.to_string()),
            values: None,
        }
    }
}

type Form = fn(Database, &str, usize) -> Bare;

/// A statement without dbtick around it.
struct Bare {
    sql: String,
    values: Option<(String, i64)>,
}

fn or_form(x: &str, y: &str) -> String {
    format!(
        "SELECT id, c, note FROM t WHERE c > {x} OR (c = {x} AND id > {y})
         ORDER BY c, id LIMIT {BATCH}"
    )
}

macro_rules! fetched {
    ($writer:expr, $bare:expr) => {{
        let mut query = sqlx::query(AssertSqlSafe($bare.sql.clone()));
        if let Some((c, row)) = &$bare.values {
            query = query.bind(c).bind(*row);
        }
        query.fetch_all($writer).await.unwrap().len()
    }};
}

/// As the source itself tells it.
async fn position_of(fixture: &Fixture, row: usize) -> Position {
    let query = format!("SELECT id, c FROM t WHERE id = {row}");
    let source = open(&fixture.query(&query, &["c"], &["id"]));
    let read = read(source.as_ref(), None, 1, MANY_BYTES).await.unwrap();
    read.page.last_position().unwrap().clone()
}

/// Statements as they are, in turns.
async fn bare(fixture: &mut Fixture, statements: &[Bare]) -> Vec<Vec<Duration>> {
    let mut times = vec![Vec::new(); statements.len()];
    let started = SystemClock.monotonic();
    for round in 0..=REPETITIONS {
        for (place, statement) in statements.iter().enumerate() {
            let before = SystemClock.monotonic();
            let rows = match &mut fixture.writer {
                Writer::Sqlite(writer) => fetched!(writer, statement),
                Writer::Postgres(writer) => fetched!(writer, statement),
                Writer::MySql(writer) => fetched!(writer, statement),
            };
            let took = SystemClock.monotonic() - before;
            assert_eq!(rows, BATCH, "{}", statement.sql);
            if round > 0 {
                times[place].push(took);
            }
        }
        if impatient(round, started) {
            break;
        }
    }
    times
}

fn impatient(round: usize, started: tokio::time::Instant) -> bool {
    round >= ENOUGH && SystemClock.monotonic() - started > PATIENCE
}

fn print(what: &str, times: &[Vec<Duration>]) {
    let cells: Vec<_> = times
        .iter()
        .map(|times| format!("{:.2} ms", median(times) * 1e3))
        .collect();
    println!(
        "| {what} | {} | {:.2} | {} |",
        cells.join(" | "),
        ratio(times),
        times[0].len()
    );
}

/// Of the slower of the two deep places to the shallow one.
fn ratio(times: &[Vec<Duration>]) -> f64 {
    let deep = times[1..].iter().map(|times| median(times));
    deep.fold(0.0, f64::max) / median(&times[0])
}

fn median(times: &[Duration]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2].as_secs_f64()
}
