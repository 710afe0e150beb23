//! A private PostgreSQL server.

use std::path::{Path, PathBuf};

use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use tempfile::TempDir;

use super::certificate::Certificate;
use super::server::{self, End, Program, Server};

pub const USER: &str = "postgres";
pub const PASSWORD: &str = "canary-postgres-password";

pub struct Postgres {
    server: Option<Server>,
    /// Outlives the server.
    directory: TempDir,
    settings: Vec<String>,
    pub port: u16,
    pub certificate: Option<Certificate>,
}

/// Settings of a server that is to be started.
#[derive(Default)]
pub struct PostgresOptions {
    settings: Vec<String>,
    hba: Option<String>,
    tls: bool,
}

impl PostgresOptions {
    /// A line of postgresql.conf, such as `fsync`, `on`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push(format!("{name}={value}"));
        self
    }

    /// TLS is offered, with a certificate that no system trusts.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// In place of pg_hba.conf, such as `hostssl all all all md5`.
    #[must_use]
    pub fn hba(mut self, lines: &str) -> Self {
        self.hba = Some(format!("{lines}\n"));
        self
    }

    pub async fn start(self) -> Postgres {
        let directory = server::directory();
        let data = directory.path().join("data");
        server::copy_of("postgres-data-md5", &data, init);
        if let Some(hba) = &self.hba {
            std::fs::write(data.join("pg_hba.conf"), hba).unwrap();
        }
        let mut settings = vec![
            "listen_addresses=127.0.0.1".to_owned(),
            format!("unix_socket_directories={}", directory.path().display()),
            "fsync=off".to_owned(),
            "shared_buffers=16MB".to_owned(),
            "max_prepared_transactions=8".to_owned(),
            "logging_collector=off".to_owned(),
            "log_destination=stderr".to_owned(),
        ];
        let certificate = self
            .tls
            .then(|| Certificate::in_directory(directory.path()));
        if let Some(certificate) = &certificate {
            settings.push("ssl=on".to_owned());
            settings.push(format!(
                "ssl_cert_file={}",
                certificate.certificate.display()
            ));
            settings.push(format!("ssl_key_file={}", certificate.key.display()));
        }
        settings.extend(self.settings);
        let mut postgres = Postgres {
            server: None,
            directory,
            settings,
            port: 0,
            certificate,
        };
        // Somebody else may take the port between the question and the start.
        for _ in 0..5 {
            postgres.port = server::free_port();
            match postgres.run().await {
                Ok(()) => return postgres,
                Err(log) if log.contains("could not bind") => {}
                Err(log) => panic!("{log}"),
            }
        }
        panic!("no free port for PostgreSQL");
    }
}

impl Postgres {
    pub async fn start() -> Self {
        PostgresOptions::default().start().await
    }

    #[must_use]
    pub fn with() -> PostgresOptions {
        PostgresOptions::default()
    }

    /// Of the database `postgres`, as its superuser.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    pub fn url_of(&self, database: &str) -> String {
        format!(
            "postgres://{USER}:{PASSWORD}@127.0.0.1:{}/{database}",
            self.port
        )
    }

    /// Creates a database; its URL.
    pub async fn database(&self, name: &str) -> String {
        self.sql(&format!("CREATE DATABASE {}", quoted(name))).await;
        self.url_of(name)
    }

    /// Creates a role that may log in; its password is checked by SCRAM, as on Azure.
    pub async fn role(&self, name: &str, password: &str) {
        let password = password.replace('\'', "''");
        // Standard strings: a backslash is a backslash.
        self.sql(&format!(
            "SET password_encryption = 'scram-sha-256'; CREATE ROLE {} LOGIN PASSWORD '{password}'",
            quoted(name)
        ))
        .await;
    }

    /// Runs statements in the database `postgres`.
    pub async fn sql(&self, statements: &str) {
        self.sql_in("postgres", statements).await;
    }

    pub async fn sql_in(&self, database: &str, statements: &str) {
        let mut connection = self.connect(database).await;
        connection
            .execute(AssertSqlSafe(statements.to_owned()))
            .await
            .unwrap();
        sqlx::Connection::close(connection).await.unwrap();
    }

    /// As the superuser.
    pub async fn connect(&self, database: &str) -> PgConnection {
        PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(self.port)
            .username(USER)
            .password(PASSWORD)
            .database(database)
            .ssl_mode(PgSslMode::Prefer)
            .disable_statement_logging()
            .connect()
            .await
            .unwrap()
    }

    pub async fn stop(&mut self, how: End) {
        self.server.take().unwrap().end(how).await;
    }

    /// On the same data and the same port.
    pub async fn start_again(&mut self) {
        self.run().await.unwrap();
    }

    /// Keeps a copy of the data of a server that is stopped.
    pub fn keep_copy(&self) {
        self.copy("data", "kept");
    }

    /// What happened since the copy was kept has not happened.
    pub fn put_copy_back(&self) {
        self.copy("kept", "data");
    }

    fn copy(&self, from: &str, to: &str) {
        assert!(self.server.is_none(), "a server that runs is not copied");
        let (from, to) = (
            self.directory.path().join(from),
            self.directory.path().join(to),
        );
        if to.exists() {
            std::fs::remove_dir_all(&to).unwrap();
        }
        server::copy(&from, &to);
    }

    /// A copy that may only be read, of a primary that nothing is heard of.
    pub async fn become_standby(&mut self) {
        self.stop(End::Clean).await;
        let signal = self.directory.path().join("data/standby.signal");
        std::fs::write(signal, "").unwrap();
        self.start_again().await;
    }

    /// A standby that takes writes from now on.
    pub async fn promote(&mut self) {
        self.stop(End::Clean).await;
        std::fs::remove_file(self.directory.path().join("data/standby.signal")).unwrap();
        self.start_again().await;
    }

    pub fn log(&self) -> String {
        self.server.as_ref().map(Server::log).unwrap_or_default()
    }

    async fn run(&mut self) -> Result<(), String> {
        let mut command = vec![
            tool("postgres").display().to_string(),
            "-D".to_owned(),
            self.directory.path().join("data").display().to_string(),
            "-p".to_owned(),
            self.port.to_string(),
        ];
        for setting in &self.settings {
            command.extend(["-c".to_owned(), setting.clone()]);
        }
        let server = Server::start(Program {
            command,
            // Read-only ones, on a standby.
            ready: "database system is ready to accept ",
            clean: "INT",
            crash: "QUIT",
        });
        self.server = Some(server.await?);
        Ok(())
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn init(directory: &Path) {
    let password = directory.with_extension("password");
    std::fs::write(&password, PASSWORD).unwrap();
    let (data, password) = (
        directory.display().to_string(),
        password.display().to_string(),
    );
    server::run(
        &tool("initdb"),
        &[
            "--no-sync",
            "--wal-segsize=1",
            "--username",
            USER,
            "--pwfile",
            &password,
            // The client counts rounds of SCRAM slowly in a debug build; roles of tests use it.
            "--auth=md5",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--pgdata",
            &data,
        ],
    );
}

/// The newest of what Debian keeps off the PATH, else whatever the PATH has.
fn tool(name: &str) -> PathBuf {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            let tool = path.join("bin").join(name);
            tool.exists().then_some((version, tool))
        })
        .collect();
    found.sort();
    found.pop().map_or_else(|| name.into(), |(_, tool)| tool)
}
