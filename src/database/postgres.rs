//! PostgreSQL.
//!
//! Settings travel in the start-up packet: they cannot be forgotten, and a pooler that hands one
//! server connection to several clients refuses them at once, where a SET would have leaked
//! `default_transaction_read_only` to other people's sessions.

use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions, Postgres};

use super::{
    Access, DatabaseError, Engine, IDLE_IN_TRANSACTION, LOCK_TIMEOUT, Pool, Pools, Target, fault,
    milliseconds,
};
use crate::config::connection::TlsMode;

impl Engine for Postgres {
    fn among(pools: &mut Pools) -> &mut Vec<Pool<Self>> {
        &mut pools.postgres
    }

    async fn open(target: &Target) -> Result<PgConnection, DatabaseError> {
        let server = &target.server;
        let session = &target.session;
        let mut options = PgConnectOptions::new_without_pgpass()
            .host(&server.host)
            .port(server.port)
            .database(&server.database)
            .username(server.user.expose())
            .password(target.password().await?.expose())
            .application_name(&session.application)
            // Shortest text that reads back as the same number.
            .extra_float_digits(1)
            .ssl_mode(match server.tls.mode {
                TlsMode::Disable => PgSslMode::Disable,
                TlsMode::Prefer => PgSslMode::Prefer,
                TlsMode::Require => PgSslMode::Require,
                TlsMode::VerifyCa => PgSslMode::VerifyCa,
                TlsMode::VerifyFull => PgSslMode::VerifyFull,
            })
            .options([
                ("default_transaction_isolation", "read committed".to_owned()),
                (
                    "default_transaction_read_only",
                    match session.access {
                        Access::Read => "on".to_owned(),
                        Access::Write => "off".to_owned(),
                    },
                ),
                (
                    "statement_timeout",
                    milliseconds(session.statement_timeout).to_string(),
                ),
                ("lock_timeout", milliseconds(LOCK_TIMEOUT).to_string()),
                (
                    "idle_in_transaction_session_timeout",
                    milliseconds(IDLE_IN_TRANSACTION).to_string(),
                ),
                ("IntervalStyle", "iso_8601".to_owned()),
                ("bytea_output", "hex".to_owned()),
                ("standard_conforming_strings", "on".to_owned()),
                // A commit that was answered must have happened.
                ("synchronous_commit", "on".to_owned()),
            ])
            .disable_statement_logging();
        if let Some(roots) = target.roots().await? {
            options = options.ssl_root_cert_from_pem(roots);
        }
        options
            .connect()
            .await
            .map_err(|error| fault::opening(target, error))
    }
}
