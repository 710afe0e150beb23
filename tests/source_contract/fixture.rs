//! A database to write into and the source that reads it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dbtick::azure::Azure;
use dbtick::clock::SystemClock;
use dbtick::config::connection::{Login, Server, Tls, TlsMode};
use dbtick::config::secret::Secret;
use dbtick::config::{Connection, Deletes, LateCommits, NullPolicy, Rows, SourceConfig, Start};
use dbtick::database::Databases;
use dbtick::model::late::Survey;
use dbtick::model::page::PageWriter;
use dbtick::model::position::Position;
use dbtick::source::{ReadPage, Source, SourceError};
use serde_json::Value;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection as _};
use tempfile::TempDir;

use crate::support::mariadb::{self, MariaDb};
use crate::support::postgres::{self, Postgres};

pub(crate) const MAX_WAIT: Duration = Duration::from_secs(60);
pub(crate) const MANY_BYTES: usize = 1 << 24;

/// What keeps databases. A server takes its time to start, so that one of them serves many promises.
pub(crate) enum Engine {
    Sqlite,
    MariaDb(MariaDb),
    Postgres(Postgres),
}

/// A database of its own.
pub(crate) struct Fixture {
    pub(crate) writer: Writer,
    connection: Connection,
    identity: String,
    quote: char,
    _directory: Option<TempDir>,
}

/// The client that fills the database.
pub(crate) enum Writer {
    Sqlite(SqliteConnection),
    MySql(MySqlConnection),
    Postgres(PgConnection),
}

impl Engine {
    /// Without passwords: proving one takes longer than most tests.
    pub(crate) async fn postgres() -> Self {
        let trusting = Postgres::with().hba("host all all 127.0.0.1/32 trust");
        Self::Postgres(trusting.start().await)
    }

    /// An empty database in which `schema` was run.
    pub(crate) async fn fixture(&self, schema: &str) -> Fixture {
        let mut fixture = match self {
            Self::Sqlite => sqlite().await,
            Self::MariaDb(server) => mariadb(server).await,
            Self::Postgres(server) => postgres(server).await,
        };
        fixture.run(schema).await;
        fixture
    }

    /// A type of text columns under which `'a' = 'A'`, or nearly so.
    pub(crate) fn collated_text(&self) -> &'static str {
        match self {
            Self::Sqlite => "VARCHAR(20) COLLATE NOCASE",
            Self::MariaDb(_) => "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            Self::Postgres(_) => "VARCHAR(20) COLLATE \"und-x-icu\"",
        }
    }
}

async fn sqlite() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("db");
    let options = SqliteConnectOptions::new()
        .filename(&file)
        .create_if_missing(true);
    let writer = SqliteConnection::connect_with(&options).await.unwrap();
    Fixture {
        writer: Writer::Sqlite(writer),
        connection: Connection::Sqlite { file },
        identity: "sqlite:test.db".to_owned(),
        quote: '"',
        _directory: Some(directory),
    }
}

/// A database of its own on a server that is shared.
async fn mariadb(server: &MariaDb) -> Fixture {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let name = format!("d{}", MADE.fetch_add(1, Ordering::Relaxed));
    server.database(&name).await;
    Fixture {
        writer: Writer::MySql(server.connect(&name).await),
        connection: mysql_connection(server.port, &name, mariadb::USER, mariadb::PASSWORD),
        identity: format!("mysql://127.0.0.1/{name}"),
        quote: '`',
        _directory: None,
    }
}

/// A database of its own on a server that is shared.
async fn postgres(server: &Postgres) -> Fixture {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let name = format!("d{}", MADE.fetch_add(1, Ordering::Relaxed));
    server.database(&name).await;
    Fixture {
        writer: Writer::Postgres(server.connect(&name).await),
        connection: postgres_connection(server.port, &name, postgres::USER, postgres::PASSWORD),
        identity: format!("postgres://127.0.0.1/{name}"),
        quote: '"',
        _directory: None,
    }
}

pub(crate) fn mysql_connection(
    port: u16,
    database: &str,
    user: &str,
    password: &str,
) -> Connection {
    Connection::MySql(server(port, database, user, password))
}

pub(crate) fn postgres_connection(
    port: u16,
    database: &str,
    user: &str,
    password: &str,
) -> Connection {
    Connection::Postgres(server(port, database, user, password))
}

fn server(port: u16, database: &str, user: &str, password: &str) -> Server {
    Server {
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
    }
}

impl Fixture {
    pub(crate) async fn run(&mut self, sql: &str) {
        let statements = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        let ran = match &mut self.writer {
            Writer::Sqlite(writer) => statements.execute(writer).await.map(drop),
            Writer::MySql(writer) => statements.execute(writer).await.map(drop),
            Writer::Postgres(writer) => statements.execute(writer).await.map(drop),
        };
        ran.unwrap_or_else(|error| panic!("{error}: {sql}"));
    }

    pub(crate) async fn count(&mut self, table: &str) -> i64 {
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        match &mut self.writer {
            Writer::Sqlite(writer) => sqlx::query_scalar(sql).fetch_one(writer).await,
            Writer::MySql(writer) => sqlx::query_scalar(sql).fetch_one(writer).await,
            Writer::Postgres(writer) => sqlx::query_scalar(sql).fetch_one(writer).await,
        }
        .unwrap()
    }

    /// The client of a database on MySQL or MariaDB.
    pub(crate) fn mysql(&mut self) -> &mut MySqlConnection {
        match &mut self.writer {
            Writer::MySql(writer) => writer,
            _ => unreachable!("the fixture is one of another database"),
        }
    }

    /// A name as this database writes it.
    pub(crate) fn quoted(&self, name: &str) -> String {
        let mark = self.quote;
        let doubled = name.replace(mark, &format!("{mark}{mark}"));
        format!("{mark}{doubled}{mark}")
    }

    pub(crate) fn table(&self, table: &str, cursor: &[&str], key: &[&str]) -> SourceConfig {
        let rows = Rows::Table {
            schema: None,
            table: table.to_owned(),
        };
        self.config(rows, cursor, key)
    }

    pub(crate) fn query(&self, query: &str, cursor: &[&str], key: &[&str]) -> SourceConfig {
        self.config(Rows::Query(query.to_owned()), cursor, key)
    }

    fn config(&self, rows: Rows, cursor: &[&str], key: &[&str]) -> SourceConfig {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        SourceConfig {
            connection_name: "ORDERS_DB".into(),
            connection_identity: self.identity.clone(),
            connection: self.connection.clone(),
            rows,
            cursor: owned(cursor),
            key: owned(key),
            columns: None,
            filter: None,
            start: Start::Beginning,
            nulls: NullPolicy::Fail,
            deletes: Deletes::Unseen,
            outbox: None,
            late: LateCommits::default(),
            shard: None,
        }
    }
}

/// Like the program opens it.
pub(crate) fn open(config: &SourceConfig) -> Arc<dyn Source> {
    let azure = Azure::new(Arc::new(SystemClock)).unwrap();
    dbtick::source::open(config, &Databases::new(azure))
}

pub(crate) async fn read(
    source: &dyn Source,
    after: Option<&Position>,
    rows: usize,
    bytes: usize,
) -> Result<ReadPage, SourceError> {
    let writer = PageWriter::new("p", rows, bytes);
    source.read(after, writer, MAX_WAIT).await
}

pub(crate) async fn find(source: &dyn Source, at: &Position) -> Result<ReadPage, SourceError> {
    source.find(at, PageWriter::new("p", 1, MANY_BYTES)).await
}

/// What `find` gives for the positions at the ends of a page is what is in the page there, to the id,
/// and in the same words.
pub(crate) async fn found_again(source: &dyn Source, read: &ReadPage) {
    let events = read.page.events();
    for at in [events.first(), events.last()].into_iter().flatten() {
        let there = events.iter().filter(|event| event.position == at.position);
        let expected: Vec<_> = there
            .map(|event| (event.id, event.op, read.page.json(event)))
            .collect();
        let found = find(source, &at.position).await.unwrap();
        let events: Vec<_> = found
            .page
            .events()
            .iter()
            .map(|event| (event.id, event.op, found.page.json(event)))
            .collect();
        assert_eq!(events, expected, "at {}", at.position);
        assert_eq!(found.page.last_position(), Some(&at.position));
        assert_eq!(
            (found.end, &found.types, &found.schema, &found.server),
            (true, &read.types, &read.schema, &read.server)
        );
        assert_eq!(found.survey, Survey::default());
    }
}

/// Every row, page by page; positions must rise strictly, and the ends of pages be found again.
pub(crate) async fn read_all(
    source: &dyn Source,
    rows: usize,
    bytes: usize,
) -> Vec<(Position, Value)> {
    let mut all: Vec<(Position, Value)> = Vec::new();
    loop {
        let after = all.last().map(|(position, _)| position.clone());
        let read = read(source, after.as_ref(), rows, bytes).await.unwrap();
        assert!(read.end || !read.page.is_empty(), "a page without progress");
        found_again(source, &read).await;
        for event in read.page.events() {
            let json = serde_json::from_slice(read.page.json(event)).unwrap();
            if let Some((before, _)) = all.last() {
                assert!(*before < event.position, "{before} then {}", event.position);
            }
            all.push((event.position.clone(), json));
        }
        if read.end {
            return all;
        }
    }
}

/// One column of the data of every row.
pub(crate) async fn column(config: &SourceConfig, rows: usize, name: &str) -> Vec<Value> {
    let source: Arc<dyn Source> = open(config);
    let all = read_all(source.as_ref(), rows, MANY_BYTES).await;
    all.into_iter()
        .map(|(_, json)| json["data"][name].clone())
        .collect()
}

pub(crate) async fn failure(config: &SourceConfig) -> String {
    let error = read(open(config).as_ref(), None, 10, MANY_BYTES)
        .await
        .unwrap_err();
    error.to_string()
}
