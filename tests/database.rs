//! Connections to real servers: how they are opened, pinned, kept, replaced, and what their errors
//! say.

#![allow(clippy::unwrap_used)]

#[path = "database/errors.rs"]
mod errors;
#[path = "database/passwords.rs"]
mod passwords;
#[path = "database/sessions.rs"]
mod sessions;
mod support;

use std::path::Path;
use std::time::Duration;

use dbtick::config::connection::{Refusal, Server};
use dbtick::config::{Connection, Settings};
use dbtick::database::{Access, DatabaseError, Engine, Pool, Session, Target};
use sqlx::{MySql, Postgres};

const STATEMENT_TIMEOUT: Duration = Duration::from_millis(12_345);

fn session(access: Access) -> Session {
    Session {
        application: "dbtick/orders".into(),
        access,
        statement_timeout: STATEMENT_TIMEOUT,
    }
}

fn resolve(settings: &[(&str, &str)]) -> Result<Connection, Refusal> {
    let settings = Settings::from_iter(settings.iter().copied());
    Connection::resolve(&settings, Path::new("/"), "ORDERS_DB")
}

/// The server that a connection means, with what stands beside it.
#[track_caller]
fn server(value: &str, beside: &[(&str, &str)]) -> Server {
    let mut settings = vec![("ORDERS_DB", value)];
    settings.extend_from_slice(beside);
    match resolve(&settings) {
        Ok(Connection::Postgres(server) | Connection::MySql(server)) => server,
        other => panic!("{other:?}"),
    }
}

fn pool<E: Engine>(value: &str) -> Pool<E> {
    Pool::new(target(value, Access::Read))
}

fn target(value: &str, access: Access) -> Target {
    Target::new("ORDERS_DB", server(value, &[]), session(access))
}

/// Opens one connection and closes it.
async fn open(value: &str, beside: &[(&str, &str)]) -> Result<(), DatabaseError> {
    let server = server(value, beside);
    let target = Target::new("ORDERS_DB", server, session(Access::Read));
    if value.starts_with("mysql") || value.contains("Port=3306") || value.contains("SslMode") {
        Pool::<MySql>::new(target).take().await.map(drop)
    } else {
        Pool::<Postgres>::new(target).take().await.map(drop)
    }
}
