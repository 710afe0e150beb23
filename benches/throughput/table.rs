//! The same table in three databases: orders of about 668 bytes as JSON, three of them per cursor value.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use tempfile::TempDir;

use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;

pub(crate) const CURSOR: &str = "updated_at";
pub(crate) const KEY: &str = "id";

const COLUMNS: &str = "customer, email, status, amount, quantity, paid, address, note";

/// With room for the table, as a server that is used has.
pub(crate) async fn postgres() -> Postgres {
    Postgres::with()
        .hba("host all all 127.0.0.1/32 trust")
        .setting("shared_buffers", "1GB")
        .setting("max_wal_size", "4GB")
        .setting("autovacuum", "off")
        .start()
        .await
}

pub(crate) async fn mariadb() -> MariaDb {
    MariaDb::with()
        .setting("innodb-buffer-pool-size", "1G")
        .setting("innodb-log-file-size", "512M")
        .start()
        .await
}

pub(crate) async fn fill_postgres(server: &Postgres, table: &str, rows: usize) {
    server
        .sql(&format!(
            "CREATE TABLE {table} (id bigint NOT NULL, updated_at timestamptz NOT NULL, customer text NOT NULL,
               email text, status text, amount numeric(12, 2), quantity integer, paid boolean, address text, note text);
             INSERT INTO {table} {};
             ALTER TABLE {table} ADD PRIMARY KEY (id);
             CREATE INDEX ON {table} (updated_at, id)",
            postgres_rows(1, rows)
        ))
        .await;
    server.sql(&format!("VACUUM ANALYZE {table}")).await;
}

/// Rows behind those that are there.
pub(crate) async fn add_to_postgres(server: &Postgres, table: &str, from: usize, rows: usize) {
    let rows = postgres_rows(from, from + rows - 1);
    server.sql(&format!("INSERT INTO {table} {rows}")).await;
}

fn postgres_rows(first: usize, last: usize) -> String {
    format!(
        "SELECT i, '2026-01-01Z'::timestamptz + i / 3 * interval '1 ms', 'Customer ' || md5(i::text),
           'customer' || i || '@example.com', (ARRAY['new', 'paid', 'shipped', 'returned'])[1 + i % 4],
           i % 100000 / 100.0, i % 7, i % 2 = 0, 'Via della Libertà ' || i % 300 || ', ' || md5('a' || i),
           'said \"leave it at the door\": ' || repeat(md5('n' || i), 11)
         FROM generate_series({first}, {last}) i"
    )
}

pub(crate) async fn fill_mariadb(server: &MariaDb, table: &str, rows: usize) {
    server
        .sql(&format!(
            "CREATE TABLE {table} (id BIGINT PRIMARY KEY, updated_at DATETIME(6) NOT NULL, customer TEXT NOT NULL,
               email TEXT, status TEXT, amount DECIMAL(12, 2), quantity INT, paid BOOLEAN, address TEXT, note TEXT)
               CHARACTER SET utf8mb4"
        ))
        .await;
    server
        .sql(&format!(
            "INSERT INTO {table} (id, updated_at, {COLUMNS})
             SELECT seq, '2026-01-01' + INTERVAL seq DIV 3 * 1000 MICROSECOND, CONCAT('Customer ', md5(seq)),
               CONCAT('customer', seq, '@example.com'), ELT(1 + seq % 4, 'new', 'paid', 'shipped', 'returned'),
               seq % 100000 / 100.0, seq % 7, seq % 2 = 0,
               CONCAT('Via della Libertà ', seq % 300, ', ', md5(CONCAT('a', seq))),
               CONCAT('said \"leave it at the door\": ', repeat(md5(CONCAT('n', seq)), 11))
             FROM seq_1_to_{rows}"
        ))
        .await;
    server
        .sql(&format!(
            "CREATE INDEX {table}_by_cursor ON {table} (updated_at, id)"
        ))
        .await;
    server.sql(&format!("ANALYZE TABLE {table}")).await;
}

/// The app setting for the file that it fills.
pub(crate) async fn fill_sqlite(directory: &TempDir, table: &str, rows: usize) -> String {
    let path = directory.path().join("orders.db");
    let mut connection = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .disable_statement_logging()
        .connect()
        .await
        .unwrap();
    for statement in [
        "PRAGMA journal_mode = WAL".to_owned(),
        format!(
            "CREATE TABLE {table} (id INTEGER PRIMARY KEY, updated_at TEXT NOT NULL, customer TEXT NOT NULL,
               email TEXT, status TEXT, amount REAL, quantity INTEGER, paid BOOLEAN, address TEXT, note TEXT)"
        ),
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
             INSERT INTO {table} (id, updated_at, {COLUMNS})
             SELECT i, strftime('%Y-%m-%d %H:%M:%f', 1767225600 + i / 3 / 1000.0, 'unixepoch'),
               'Customer ' || lower(hex(randomblob(16))), 'customer' || i || '@example.com',
               substr('new     paid    shipped returned', 1 + i % 4 * 8, 8), i % 100000 / 100.0, i % 7, i % 2,
               'Via della Libertà ' || i % 300 || ', ' || lower(hex(randomblob(16))),
               'said \"leave it at the door\": ' || lower(hex(randomblob(176)))
             FROM n"
        ),
        format!("CREATE INDEX {table}_by_cursor ON {table} (updated_at, id)"),
        "ANALYZE".to_owned(),
    ] {
        connection.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    connection.close().await.unwrap();
    format!("sqlite:{}", path.display())
}
