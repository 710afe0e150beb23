//! A server and the sessions of its writers.

use dbtick::config::connection::{Connection, Login, Server as Address, Tls, TlsMode};
use dbtick::config::secret::Secret;
use dbtick::config::{Deletes, LateCommits, NullPolicy, Rows, SourceConfig, Start};
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Error};

use crate::shape::{Reader, Shape};
use crate::support::mariadb::{self, MariaDb};
use crate::support::postgres::{self, Postgres};

const READER: &str = "reader";
const READERS_PASSWORD: &str = "canary-reader-password";

pub(crate) enum Server {
    Postgres(Postgres),
    MariaDb(MariaDb),
}

pub(crate) enum Session {
    Postgres(PgConnection),
    MariaDb(MySqlConnection),
}

/// How a transaction may end in two steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TwoPhase {
    /// `PREPARE TRANSACTION`, and any session goes on.
    Prepare,
    /// `XA`, from the first statement on, and the same session goes on.
    Xa,
}

impl Server {
    pub(crate) async fn postgres() -> Self {
        let server = Postgres::with()
            .hba("host all all 127.0.0.1/32 trust")
            .setting("max_connections", "500")
            .setting("max_prepared_transactions", "100")
            .setting("lock_timeout", "1s");
        let server = server.start().await;
        server.role(READER, READERS_PASSWORD).await;
        Self::Postgres(server)
    }

    /// Metadata locks are recorded, for those who may see them.
    pub(crate) async fn mariadb() -> Self {
        let server = MariaDb::with()
            .setting("max-connections", "500")
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
        server
            .sql(&format!(
                "CREATE USER {READER}@'127.0.0.1' IDENTIFIED BY '{READERS_PASSWORD}';
                 GRANT SELECT ON main.* TO {READER}@'127.0.0.1'"
            ))
            .await;
        Self::MariaDb(server)
    }

    pub(crate) async fn create(&self, shape: &Shape) {
        let Shape { schema, name, .. } = shape;
        match self {
            Self::Postgres(server) => {
                let granted = format!("{schema}; GRANT SELECT ON {name} TO {READER}");
                server.sql(&granted).await;
            }
            Self::MariaDb(server) => server.sql(schema).await,
        }
    }

    pub(crate) async fn open(&self) -> Session {
        match self {
            Self::Postgres(server) => Session::Postgres(server.connect("postgres").await),
            Self::MariaDb(server) => Session::MariaDb(server.connect("main").await),
        }
    }

    /// Cursor and body of every row.
    pub(crate) async fn rows(&self, shape: &Shape) -> Vec<(String, String)> {
        let Shape { name, cursor, .. } = shape;
        match self.open().await {
            Session::Postgres(mut session) => {
                let sql = format!("SELECT {cursor}::text, body FROM {name}");
                let rows = sqlx::query_as(AssertSqlSafe(sql));
                rows.fetch_all(&mut session).await.unwrap()
            }
            Session::MariaDb(mut session) => {
                let sql = format!("SELECT CAST({cursor} AS CHAR), body FROM {name}");
                let rows = sqlx::query_as(AssertSqlSafe(sql));
                rows.fetch_all(&mut session).await.unwrap()
            }
        }
    }

    pub(crate) fn source(&self, shape: &Shape, late: LateCommits) -> SourceConfig {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let connection = self.connection(shape.reader);
        SourceConfig {
            connection_name: "STRESSED_DB".to_owned(),
            connection_identity: "stressed".to_owned(),
            connection,
            rows: Rows::Table {
                schema: None,
                table: shape.name.to_owned(),
            },
            cursor: owned(&[shape.cursor]),
            key: owned(shape.key),
            columns: None,
            filter: None,
            start: Start::Beginning,
            nulls: NullPolicy::Fail,
            deletes: Deletes::Unseen,
            outbox: None,
            late,
            shard: None,
        }
    }

    fn connection(&self, reader: Reader) -> Connection {
        let (port, database, owner, password) = match self {
            Self::Postgres(server) => (server.port, "postgres", postgres::USER, postgres::PASSWORD),
            Self::MariaDb(server) => (server.port, "main", mariadb::USER, mariadb::PASSWORD),
        };
        let (user, password) = match reader {
            Reader::Plain => (READER, READERS_PASSWORD),
            Reader::Owner => (owner, password),
        };
        let address = Address {
            host: "127.0.0.1".into(),
            port,
            database: database.into(),
            user: Secret::new(user.to_owned()),
            login: Login::Password(Secret::new(password.to_owned())),
            tls: Tls {
                mode: TlsMode::Disable,
                roots: None,
            },
            connect_timeout: None,
            most_connections: None,
        };
        match self {
            Self::Postgres(_) => Connection::Postgres(address),
            Self::MariaDb(_) => Connection::MySql(address),
        }
    }
}

impl Session {
    /// How many rows it has touched.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<u64, Error> {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Self::Postgres(session) => Ok(statement.execute(session).await?.rows_affected()),
            Self::MariaDb(session) => Ok(statement.execute(session).await?.rows_affected()),
        }
    }

    pub(crate) async fn ask(&mut self, sql: &str) -> String {
        let question = sqlx::query_scalar(AssertSqlSafe(sql.to_owned()));
        match self {
            Self::Postgres(session) => question.fetch_one(session).await.unwrap(),
            Self::MariaDb(_) => unreachable!("nothing is drawn from MariaDB"),
        }
    }

    pub(crate) fn two_phase(&self) -> TwoPhase {
        match self {
            Self::Postgres(_) => TwoPhase::Prepare,
            Self::MariaDb(_) => TwoPhase::Xa,
        }
    }
}
