//! The databases, as writers and outages know them.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Error, Row};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::faults::Outage;
use super::support::mariadb::{self, MariaDb};
use super::support::postgres::{self, Postgres};
use super::support::server::End;
use super::tables::{MARIADB, MARIADB_WITH_LOCKS, POSTGRES, Source, Table};

const READER: &str = "reader";
const PASSWORD: &str = "canary-reader-password";
const MOST_CONNECTING: Duration = Duration::from_secs(5);

pub(crate) struct Database {
    pub(crate) source: Source,
    port: u16,
    /// Whoever restarts it has it alone.
    server: Mutex<Server>,
}

enum Server {
    Postgres(Postgres),
    MariaDb(MariaDb),
}

pub(crate) enum Session {
    Postgres(PgConnection),
    MariaDb(MySqlConnection),
}

/// A row as it stands in the end.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) label: String,
    pub(crate) amount: String,
    pub(crate) note: Option<String>,
    pub(crate) poison: bool,
    pub(crate) cursor: String,
    pub(crate) key: String,
}

impl Database {
    /// What was committed outlives the process, however it ends. (That the disk itself may fail is not
    /// tested: nothing here waits for it.)
    pub(crate) async fn start(source: Source) -> Self {
        let (server, port) = match source {
            Source::Postgres => {
                let server = Postgres::with()
                    .hba("host all all 127.0.0.1/32 trust")
                    .setting("synchronous_commit", "on")
                    .setting("lock_timeout", "1s");
                let server = server.start().await;
                server.role(READER, PASSWORD).await;
                let port = server.port;
                (Server::Postgres(server), port)
            }
            Source::MariaDb => {
                let server = MariaDb::with()
                    .setting("innodb-flush-log-at-trx-commit", "1")
                    .setting("innodb-lock-wait-timeout", "1")
                    .setting("performance-schema", "ON")
                    .setting(
                        "performance-schema-instrument",
                        "wait/lock/metadata/sql/mdl=ON",
                    )
                    .setting(
                        "performance-schema-consumer-events-statements-current",
                        "ON",
                    );
                let server = server.start().await;
                let grants = format!(
                    "CREATE USER {READER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';
                     GRANT SELECT ON main.* TO {READER}@'127.0.0.1'"
                );
                server.sql(&grants).await;
                let port = server.port;
                (Server::MariaDb(server), port)
            }
        };
        Self {
            source,
            port,
            server: Mutex::new(server),
        }
    }

    pub(crate) async fn create(&self, table: &Table) -> Result<(), Error> {
        let mut session = self.open().await?;
        for statement in table.schema {
            session.run(statement).await?;
        }
        Ok(())
    }

    /// App settings.
    pub(crate) fn connections(&self) -> Vec<(&'static str, String)> {
        let port = self.port;
        match self.source {
            Source::Postgres => vec![(
                POSTGRES,
                format!("postgres://{READER}:{PASSWORD}@127.0.0.1:{port}/postgres?sslmode=disable"),
            )],
            Source::MariaDb => [
                (MARIADB, READER, PASSWORD),
                (MARIADB_WITH_LOCKS, mariadb::USER, mariadb::PASSWORD),
            ]
            .map(|(name, user, password)| {
                let url =
                    format!("mysql://{user}:{password}@127.0.0.1:{port}/main?sslmode=disable");
                (name, url)
            })
            .into(),
        }
    }

    /// Of somebody who may write.
    pub(crate) async fn open(&self) -> Result<Session, Error> {
        let opening = async {
            Ok(match self.source {
                Source::Postgres => {
                    let options = PgConnectOptions::new_without_pgpass()
                        .host("127.0.0.1")
                        .port(self.port)
                        .username(postgres::USER)
                        .database("postgres")
                        .ssl_mode(PgSslMode::Disable)
                        .disable_statement_logging();
                    Session::Postgres(options.connect().await?)
                }
                Source::MariaDb => {
                    let options = MySqlConnectOptions::new()
                        .host("127.0.0.1")
                        .port(self.port)
                        .username(mariadb::USER)
                        .password(mariadb::PASSWORD)
                        .database("main")
                        .ssl_mode(MySqlSslMode::Disabled)
                        .disable_statement_logging();
                    Session::MariaDb(options.connect().await?)
                }
            })
        };
        let opened = timeout(MOST_CONNECTING, opening).await;
        opened.unwrap_or(Err(Error::PoolTimedOut))
    }

    /// While it is being restarted, and for a moment after.
    pub(crate) async fn open_at_last(&self) -> Session {
        loop {
            match self.open().await {
                Ok(session) => return session,
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    pub(crate) async fn suffer(&self, outage: Outage) {
        let mut server = self.server.lock().await;
        match (outage, &mut *server) {
            (Outage::Session, Server::Postgres(_)) => self.kill_a_session().await,
            (Outage::Clean, server) => server.restart(End::Clean).await,
            (Outage::Crash | Outage::Session, server) => server.restart(End::Crash).await,
        }
    }

    /// PostgreSQL ends all others then, and recovers.
    async fn kill_a_session(&self) {
        let mut session = self.open_at_last().await;
        let somebody = "SELECT max(pid)::text FROM pg_stat_activity \
                        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        if let Ok(rows) = session.ask(somebody).await
            && let Some(Some(pid)) = rows.first().map(|row| row[0].clone())
        {
            kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL).ok();
        }
    }

    pub(crate) async fn rows(&self, table: &Table) -> Vec<Found> {
        let number = match self.source {
            Source::Postgres => "amount::text, note, poison::int::text",
            Source::MariaDb => "CAST(amount AS CHAR), note, CAST(poison AS CHAR)",
        };
        let key = match (self.source, table.key_column()) {
            (_, "name") => "name".to_owned(),
            (Source::Postgres, key) => format!("{key}::text"),
            (Source::MariaDb, key) => format!("CAST({key} AS CHAR)"),
        };
        let Table { name, place, .. } = table;
        let sql = format!("SELECT name, label, {number}, {place}, {key} FROM {name}");
        let rows = self.open_at_last().await.ask(&sql).await.unwrap();
        let found = rows.into_iter().map(|row| {
            let [name, label, amount, note, poison, cursor, key] = row.try_into().unwrap();
            Found {
                name: name.unwrap(),
                label: label.unwrap(),
                amount: amount.unwrap(),
                note,
                poison: poison.unwrap() == "1",
                cursor: cursor.unwrap(),
                key: key.unwrap(),
            }
        });
        found.collect()
    }

    /// What it wrote to standard error, since it was last started.
    pub(crate) async fn log(&self) -> String {
        match &*self.server.lock().await {
            Server::Postgres(server) => server.log(),
            Server::MariaDb(server) => server.log(),
        }
    }
}

impl Server {
    async fn restart(&mut self, how: End) {
        match self {
            Self::Postgres(server) => {
                server.stop(how).await;
                server.start_again().await;
            }
            Self::MariaDb(server) => {
                server.stop(how).await;
                server.start_again().await;
            }
        }
    }
}

impl Session {
    pub(crate) async fn run(&mut self, sql: &str) -> Result<u64, Error> {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Self::Postgres(session) => Ok(statement.execute(session).await?.rows_affected()),
            Self::MariaDb(session) => Ok(statement.execute(session).await?.rows_affected()),
        }
    }

    /// Columns of text.
    async fn ask(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Postgres(session) => {
                let rows = sqlx::query(sql).fetch_all(session).await?;
                rows.iter().map(texts).collect()
            }
            Self::MariaDb(session) => {
                let rows = sqlx::query(sql).fetch_all(session).await?;
                rows.iter().map(texts).collect()
            }
        }
    }

    /// As a literal.
    pub(crate) fn quoted(&self, text: &str) -> String {
        let text = match self {
            Self::Postgres(_) => text.to_owned(),
            Self::MariaDb(_) => text.replace('\\', "\\\\"),
        };
        format!("'{}'", text.replace('\'', "''"))
    }
}

fn texts<R: Row>(row: &R) -> Result<Vec<Option<String>>, Error>
where
    usize: sqlx::ColumnIndex<R>,
    Option<String>: for<'r> sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    (0..row.len()).map(|at| row.try_get(at)).collect()
}
