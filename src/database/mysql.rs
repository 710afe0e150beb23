//! MySQL and MariaDB, which take the same settings under different names.

use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, MySql};

use super::{
    Access, DatabaseError, Engine, LOCK_TIMEOUT, Pool, Pools, Target, fault, milliseconds,
};
use crate::config::connection::TlsMode;

/// The server closes a connection that has been silent for so long; for those whose process is gone.
const WAIT_TIMEOUT: Duration = Duration::from_secs(600);

/// Strict, but a zero date or the 31st of February in a table must be readable and comparable. `||`
/// and quotes mean what they mean by default, because filters are written by people.
const SQL_MODE: &str = "STRICT_TRANS_TABLES,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION";

/// Values are sorted by so many bytes of their beginning; the source refuses longer cursors and keys
/// (up to three bytes here for one of text).
const SORTED_BYTES: u32 = 4096;

impl Engine for MySql {
    fn among(pools: &mut Pools) -> &mut Vec<Pool<Self>> {
        &mut pools.mysql
    }

    async fn open(target: &Target) -> Result<MySqlConnection, DatabaseError> {
        let server = &target.server;
        let mut options = MySqlConnectOptions::new()
            .host(&server.host)
            .port(server.port)
            .database(&server.database)
            .username(server.user.expose())
            .password(target.password().await?.expose())
            .charset("utf8mb4")
            .timezone(Some("+00:00".to_owned()))
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .ssl_mode(match server.tls.mode {
                TlsMode::Disable => MySqlSslMode::Disabled,
                TlsMode::Prefer => MySqlSslMode::Preferred,
                TlsMode::Require => MySqlSslMode::Required,
                TlsMode::VerifyCa => MySqlSslMode::VerifyCa,
                TlsMode::VerifyFull => MySqlSslMode::VerifyIdentity,
            })
            .disable_statement_logging();
        // How MySQL on Azure takes a token: as it is, over TLS.
        if target.credential.is_some() {
            options = options.enable_cleartext_plugin(true);
        }
        if let Some(roots) = target.roots().await? {
            options = options.ssl_ca_from_pem(roots);
        }
        let opening = |error| fault::opening(target, error);
        let mut connection = options.connect().await.map_err(opening)?;
        let version: String = sqlx::query_scalar("SELECT VERSION()")
            .fetch_one(&mut connection)
            .await
            .map_err(opening)?;
        connection
            .execute(AssertSqlSafe(settings(target, &version)))
            .await
            .map_err(opening)?;
        Ok(connection)
    }
}

fn settings(target: &Target, version: &str) -> String {
    let session = &target.session;
    let timeout = milliseconds(session.statement_timeout);
    let statement_timeout = if version.contains("MariaDB") {
        format!(
            "max_statement_time = {}.{:03}",
            timeout / 1000,
            timeout % 1000
        )
    } else {
        format!("max_execution_time = {timeout}")
    };
    let access = match session.access {
        Access::Read => "READ ONLY",
        Access::Write => "READ WRITE",
    };
    let lock = LOCK_TIMEOUT.as_secs();
    let wait = WAIT_TIMEOUT.as_secs();
    format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, {access};
         SET SESSION sql_mode = '{SQL_MODE}', autocommit = 1, {statement_timeout}, \
         innodb_lock_wait_timeout = {lock}, lock_wait_timeout = {lock}, wait_timeout = {wait}, \
         max_sort_length = {SORTED_BYTES}"
    )
}
