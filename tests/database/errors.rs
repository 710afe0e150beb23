//! What a person reads when a connection cannot be opened; never a part of the setting's value.

use dbtick::database::DatabaseError;

use crate::support::mariadb::{self, MariaDb};
use crate::support::postgres::{self, Postgres};
use crate::support::server::{End, free_port};

const CANARY: &str = "canary";

#[derive(Debug, PartialEq, Eq)]
enum Reaction {
    TryAgain,
    Act,
}
use Reaction::{Act, TryAgain};

/// Each word is in the error, no part of the value is.
#[track_caller]
fn says(opened: Result<(), DatabaseError>, reaction: Reaction, words: &[&str]) {
    let error = opened.expect_err("no connection");
    let text = chain(&error);
    let found = match error {
        DatabaseError::Unreachable { .. } => TryAgain,
        DatabaseError::Refused { .. } => Act,
        DatabaseError::Query { .. } => panic!("{text}"),
    };
    assert_eq!(found, reaction, "{text}");
    assert!(text.contains("ORDERS_DB"), "{text}");
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains(CANARY), "{text}");
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(" {error}"));
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn postgres_says_why_it_lets_nobody_in() {
    let mut postgres = Postgres::start().await;
    let at = format!("127.0.0.1:{}", postgres.port);
    let open = async |value: &str| crate::open(value, &[]).await;
    says(
        open(&format!("postgres://postgres:canary@{at}/postgres")).await,
        Act,
        &[
            "does not accept the user with this password",
            "28P01",
            "percent-encoded",
        ],
    );
    says(
        open(&format!("postgres://canary:canary@{at}/postgres")).await,
        Act,
        &["does not accept the user with this password"],
    );
    says(
        open(&postgres.url_of("canary")).await,
        Act,
        &["has no database of this name", "upper and lower case"],
    );
    says(
        open(&format!("{}?sslmode=require", postgres.url())).await,
        Act,
        &["offers no TLS", "turn TLS on"],
    );
    postgres
        .sql("CREATE ROLE canary_reader LOGIN PASSWORD 'x'; CREATE DATABASE closed; REVOKE CONNECT ON DATABASE closed FROM public")
        .await;
    says(
        open(&format!("postgres://canary_reader:x@{at}/closed")).await,
        Act,
        &["may not use this database", "CONNECT"],
    );
    postgres.stop(End::Clean).await;
    says(
        open(&postgres.url()).await,
        TryAgain,
        &["nothing listens", "check host and port"],
    );
    postgres.start_again().await;
    open(&postgres.url()).await.unwrap();
}

#[tokio::test]
async fn mariadb_says_why_it_lets_nobody_in() {
    let mut mariadb = MariaDb::start().await;
    let at = format!("127.0.0.1:{}", mariadb.port);
    let open = async |value: &str| crate::open(value, &[]).await;
    says(
        open(&format!("mysql://{}:canary@{at}/main", mariadb::USER)).await,
        Act,
        &["does not accept the user with this password"],
    );
    says(
        open(&mariadb.url_of("canary")).await,
        Act,
        &["has no database of this name"],
    );
    says(
        open(&format!("{}?ssl-mode=required", mariadb.url())).await,
        Act,
        &["offers no TLS"],
    );
    mariadb
        .sql("CREATE USER canary_reader@'127.0.0.1' IDENTIFIED BY 'x'; CREATE DATABASE closed")
        .await;
    says(
        open(&format!("mysql://canary_reader:x@{at}/closed")).await,
        Act,
        &["may not use this database"],
    );
    mariadb.stop(End::Clean).await;
    says(open(&mariadb.url()).await, TryAgain, &["nothing listens"]);
    mariadb.start_again().await;
    open(&mariadb.url()).await.unwrap();
}

#[tokio::test]
async fn a_full_server_is_tried_again() {
    let postgres = Postgres::with()
        .setting("max_connections", "4")
        .setting("superuser_reserved_connections", "1")
        .start()
        .await;
    postgres.role("reader", "x").await;
    let mut taken = Vec::new();
    for _ in 0..3 {
        taken.push(postgres.connect("postgres").await);
    }
    let url = format!("postgres://reader:x@127.0.0.1:{}/postgres", postgres.port);
    says(
        crate::open(&url, &[]).await,
        TryAgain,
        &["takes no connection now", "53300"],
    );
    let mariadb = MariaDb::with()
        .setting("max_connections", "10")
        .start()
        .await;
    mariadb.user("reader", "x").await;
    let mut taken = Vec::new();
    for _ in 0..10 {
        taken.push(mariadb.connect("main").await);
    }
    let url = format!("mysql://reader:x@127.0.0.1:{}/main", mariadb.port);
    says(
        crate::open(&url, &[]).await,
        TryAgain,
        &["takes no connection now"],
    );
}

#[tokio::test]
async fn a_server_that_is_something_else_or_silent_is_told_apart() {
    let postgres = Postgres::start().await;
    let mariadb = MariaDb::start().await;
    let swapped = format!("postgres://u:canary@127.0.0.1:{}/d", mariadb.port);
    says(crate::open(&swapped, &[]).await, TryAgain, &["check"]);
    // Each of the two waits for the other to speak first.
    let swapped = format!(
        "mysql://u:canary@127.0.0.1:{}/d?connect_timeout=1",
        postgres.port
    );
    says(
        crate::open(&swapped, &[]).await,
        TryAgain,
        &["did not answer within 1s", "firewall"],
    );
    says(
        crate::open("postgres://u:canary@no-such-host.invalid/d", &[]).await,
        TryAgain,
        &["cannot be resolved"],
    );
    let nobody = format!("postgres://u:canary@127.0.0.1:{}/d", free_port());
    says(
        crate::open(&nobody, &[]).await,
        TryAgain,
        &["nothing listens"],
    );
}

/// `localhost` is what the certificate names.
fn forms(scheme: &str, login: &str, port: u16, database: &str) -> (String, String) {
    let url = |host: &str| format!("{scheme}://{login}@{host}:{port}/{database}");
    (url("localhost"), url("127.0.0.1"))
}

async fn certificates_are_looked_at(localhost: &str, address: &str, authority: &str) {
    let pem = std::fs::read_to_string(authority).unwrap();
    let pem_setting = pem.replace('\n', "\\n");
    let with = |mode: &str| format!("{localhost}?sslmode={mode}");
    for (value, beside) in [
        (localhost.to_owned(), None),
        (with("require"), None),
        (
            format!("{}&sslrootcert={authority}", with("verify-full")),
            None,
        ),
        (with("verify-full"), Some(authority)),
        (with("verify-full"), Some(pem.as_str())),
        (localhost.to_owned(), Some(pem_setting.as_str())),
        (format!("{address}?sslmode=verify-ca"), Some(authority)),
        (format!("{address}?sslmode=require"), Some(authority)),
    ] {
        let beside: Vec<_> = beside
            .map(|roots| ("ORDERS_DB__sslrootcert", roots))
            .into_iter()
            .collect();
        crate::open(&value, &beside)
            .await
            .unwrap_or_else(|error| panic!("{value} {}: {error}", beside.len()));
    }
    says(
        crate::open(&with("verify-full"), &[]).await,
        Act,
        &[
            "authority that is not trusted",
            "ORDERS_DB__sslrootcert",
            "sslmode=require",
        ],
    );
    says(
        crate::open(&with("verify-ca"), &[]).await,
        Act,
        &["authority that is not trusted"],
    );
    let beside = [("ORDERS_DB__sslrootcert", authority)];
    says(
        crate::open(&format!("{address}?sslmode=verify-full"), &beside).await,
        Act,
        &["names another host", "verify-ca"],
    );
    let missing = [("ORDERS_DB__sslrootcert", "/no/such/file.pem")];
    says(
        crate::open(localhost, &missing).await,
        Act,
        &["cannot be read", "ORDERS_DB__sslrootcert"],
    );
}

#[tokio::test]
async fn postgres_must_show_the_certificate_that_the_mode_asks_for() {
    let postgres = Postgres::with()
        .tls()
        .hba("hostssl all all all scram-sha-256")
        .start()
        .await;
    let login = format!("{}:{}", postgres::USER, postgres::PASSWORD);
    let (localhost, address) = forms("postgres", &login, postgres.port, "postgres");
    let authority = &postgres.certificate.as_ref().unwrap().authority;
    certificates_are_looked_at(&localhost, &address, authority.to_str().unwrap()).await;
    says(
        crate::open(&format!("{localhost}?sslmode=disable"), &[]).await,
        Act,
        &["admits no such connection", "sslmode"],
    );
}

#[tokio::test]
async fn mariadb_must_show_the_certificate_that_the_mode_asks_for() {
    let mariadb = MariaDb::with()
        .tls()
        .setting("require_secure_transport", "ON")
        .start()
        .await;
    let login = format!("{}:{}", mariadb::USER, mariadb::PASSWORD);
    let (localhost, address) = forms("mysql", &login, mariadb.port, "main");
    let authority = &mariadb.certificate.as_ref().unwrap().authority;
    certificates_are_looked_at(&localhost, &address, authority.to_str().unwrap()).await;
    says(
        crate::open(&format!("{localhost}?sslmode=disable"), &[]).await,
        Act,
        &["takes TLS only", "sslmode=require"],
    );
}
