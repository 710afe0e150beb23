//! The application that writes into the table: bursts of orders, each in one transaction.
//!
//! The cursor is the row id, drawn under SQLite's one write lock: ids become visible in their
//! order, so a checkpoint on them cannot pass a row that is still being written.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};
use tokio_util::sync::CancellationToken;

use super::ledger::SharedLedger;
use crate::clock::{Clock, SystemClock};

const TABLE: &str = "CREATE TABLE orders (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    customer TEXT NOT NULL,
    amount INTEGER NOT NULL,
    placed_at TEXT NOT NULL
)";
const ORDER: &str = "INSERT INTO orders (customer, amount, placed_at) VALUES (?, ?, ?)";
const CUSTOMERS: [&str; 5] = ["Ada", "Edsger", "Grace", "Barbara", "Leslie"];

const BETWEEN_BURSTS: Duration = Duration::from_millis(250);
/// Shares of one second's rows; on average a quarter, like the pause between bursts.
const BURSTS: [f64; 8] = [0.2, 0.4, 0.0, 0.1, 0.7, 0.0, 0.1, 0.5];

#[derive(Debug)]
pub(super) struct Writer {
    connection: SqliteConnection,
    ledger: SharedLedger,
    rate: u32,
}

impl Writer {
    /// Creates the file and the table.
    pub(super) async fn open(file: &Path, ledger: SharedLedger, rate: u32) -> Result<Self, String> {
        let open = async {
            let mut connection = SqliteConnectOptions::new()
                .filename(file)
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Normal)
                .disable_statement_logging()
                .connect()
                .await?;
            sqlx::query(TABLE).execute(&mut connection).await?;
            Ok(connection)
        };
        let connection = open
            .await
            .map_err(|error| cannot("create the table", error))?;
        Ok(Self {
            connection,
            ledger,
            rate,
        })
    }

    /// A burst that has begun is finished. `stop` is cancelled, too, when writing fails.
    pub(super) async fn write_until(mut self, stop: CancellationToken) -> Result<(), String> {
        let _guard = stop.clone().drop_guard();
        let mut due = 0.0;
        for share in BURSTS.iter().cycle() {
            due += share * f64::from(self.rate);
            let rows = due.floor();
            due -= rows;
            self.burst(rows as usize)
                .await
                .map_err(|error| cannot("insert rows", error))?;
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(BETWEEN_BURSTS) => {}
            }
        }
        self.connection
            .close()
            .await
            .map_err(|error| cannot("close the table", error))
    }

    async fn burst(&mut self, rows: usize) -> Result<(), sqlx::Error> {
        if rows == 0 {
            return Ok(());
        }
        let placed_at = SystemClock.now().to_rfc3339();
        let mut ids = Vec::with_capacity(rows);
        let mut transaction = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        for row in 0..rows {
            let inserted = sqlx::query(ORDER)
                .bind(CUSTOMERS[row % CUSTOMERS.len()])
                .bind(990 + 137 * (row % 40) as i64)
                .bind(&placed_at)
                .execute(&mut *transaction)
                .await?;
            ids.push(inserted.last_insert_rowid());
        }
        transaction.commit().await?;
        let now = SystemClock.now();
        self.ledger.change(|ledger| ledger.insert(&ids, now));
        Ok(())
    }
}

fn cannot(what: &str, error: sqlx::Error) -> String {
    format!("the demo cannot {what}: {error}")
}
