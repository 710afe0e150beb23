//! A private MariaDB server.

use std::path::{Path, PathBuf};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use tempfile::TempDir;

use super::certificate::Certificate;
use super::server::{self, End, Program, Server};

pub const USER: &str = "admin";
pub const PASSWORD: &str = "canary-mariadb-password";

pub struct MariaDb {
    server: Option<Server>,
    /// Outlives the server.
    directory: TempDir,
    settings: Vec<String>,
    pub port: u16,
    pub certificate: Option<Certificate>,
}

/// Settings of a server that is to be started.
#[derive(Default)]
pub struct MariaDbOptions {
    settings: Vec<String>,
    tls: bool,
}

impl MariaDbOptions {
    /// Such as `innodb_flush_log_at_trx_commit`, `1`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push(format!("--{name}={value}"));
        self
    }

    /// TLS is offered, with a certificate that no system trusts.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    pub async fn start(self) -> MariaDb {
        let directory = server::directory();
        server::copy_of("mariadb-data", &directory.path().join("data"), init);
        std::fs::write(
            directory.path().join("init.sql"),
            format!(
                "CREATE USER IF NOT EXISTS {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n\
                 GRANT ALL ON *.* TO {USER}@'127.0.0.1' WITH GRANT OPTION;\n\
                 CREATE DATABASE IF NOT EXISTS main;\n"
            ),
        )
        .unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let mut settings = vec![
            format!("--datadir={}", at("data")),
            format!("--socket={}", at("socket")),
            format!("--pid-file={}", at("pid")),
            format!("--init-file={}", at("init.sql")),
            format!("--tmpdir={}", directory.path().display()),
            "--bind-address=127.0.0.1".to_owned(),
            "--skip-name-resolve".to_owned(),
            "--innodb-buffer-pool-size=16M".to_owned(),
            LOG_FILE_SIZE.to_owned(),
            "--innodb-flush-log-at-trx-commit=0".to_owned(),
            "--innodb-flush-method=nosync".to_owned(),
            "--performance-schema=off".to_owned(),
        ];
        let certificate = self
            .tls
            .then(|| Certificate::in_directory(directory.path()));
        if let Some(certificate) = &certificate {
            settings.push(format!("--ssl-cert={}", certificate.certificate.display()));
            settings.push(format!("--ssl-key={}", certificate.key.display()));
        }
        settings.extend(self.settings);
        let mut mariadb = MariaDb {
            server: None,
            directory,
            settings,
            port: 0,
            certificate,
        };
        // Somebody else may take the port between the question and the start.
        for _ in 0..5 {
            mariadb.port = server::free_port();
            match mariadb.run().await {
                Ok(()) => return mariadb,
                Err(log) if log.contains("Can't start server: Bind") => {}
                Err(log) => panic!("{log}"),
            }
        }
        panic!("no free port for MariaDB");
    }
}

impl MariaDb {
    pub async fn start() -> Self {
        MariaDbOptions::default().start().await
    }

    #[must_use]
    pub fn with() -> MariaDbOptions {
        MariaDbOptions::default()
    }

    /// Of the database `main`, as a user who may do everything.
    pub fn url(&self) -> String {
        self.url_of("main")
    }

    pub fn url_of(&self, database: &str) -> String {
        format!(
            "mysql://{USER}:{PASSWORD}@127.0.0.1:{}/{database}",
            self.port
        )
    }

    /// Creates a database; its URL.
    pub async fn database(&self, name: &str) -> String {
        self.sql(&format!("CREATE DATABASE {}", quoted(name))).await;
        self.url_of(name)
    }

    /// Creates a user who may read and write everything.
    pub async fn user(&self, name: &str, password: &str) {
        let name = name.replace('\'', "''");
        let password = password.replace('\\', "\\\\").replace('\'', "''");
        self.sql(&format!(
            "CREATE USER '{name}'@'127.0.0.1' IDENTIFIED BY '{password}';
             GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON *.* TO '{name}'@'127.0.0.1'"
        ))
        .await;
    }

    /// Runs statements in the database `main`.
    pub async fn sql(&self, statements: &str) {
        self.sql_in("main", statements).await;
    }

    pub async fn sql_in(&self, database: &str, statements: &str) {
        let mut connection = self.connect(database).await;
        connection
            .execute(AssertSqlSafe(statements.to_owned()))
            .await
            .unwrap();
        sqlx::Connection::close(connection).await.unwrap();
    }

    /// As the user who may do everything.
    pub async fn connect(&self, database: &str) -> MySqlConnection {
        MySqlConnectOptions::new()
            .host("127.0.0.1")
            .port(self.port)
            .username(USER)
            .password(PASSWORD)
            .database(database)
            .ssl_mode(MySqlSslMode::Preferred)
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

    pub fn log(&self) -> String {
        self.server.as_ref().map(Server::log).unwrap_or_default()
    }

    async fn run(&mut self) -> Result<(), String> {
        let mut command = vec![
            program().display().to_string(),
            "--no-defaults".to_owned(),
            format!("--port={}", self.port),
        ];
        command.extend(self.settings.iter().cloned());
        let server = Server::start(Program {
            command,
            ready: "ready for connections",
            clean: "TERM",
            crash: "KILL",
        });
        self.server = Some(server.await?);
        Ok(())
    }
}

/// Small, because it is copied for every test.
const LOG_FILE_SIZE: &str = "--innodb-log-file-size=4M";

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn init(directory: &Path) {
    let data = format!("--datadir={}", directory.display());
    server::run(
        Path::new("mariadb-install-db"),
        &[
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            LOG_FILE_SIZE,
            &data,
        ],
    );
}

/// Off the PATH of an ordinary user on Debian.
fn program() -> PathBuf {
    let debian = Path::new("/usr/sbin/mariadbd");
    if debian.exists() {
        debian.into()
    } else {
        "mariadbd".into()
    }
}
