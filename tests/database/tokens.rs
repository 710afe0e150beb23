//! Logging in with a token of Entra ID in place of a password, end to end: the real handler, the
//! identity endpoint of App Service, a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{RawQuery, State};
use axum::{Json, Router};
use dbtick::clock::{Clock, SystemClock};
use dbtick::config::connection::{Login, TlsMode};
use serde_json::json;

use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::world::World;
use crate::{resolve, server};

/// Well-formed, and the password of a user of the server: that is how a token is checked here.
const TOKEN: &str = "eyJhbGciOiJub25lIn0.eyJjYW5hcnkiOjF9.Y2FuYXJ5";

/// The endpoint, and how often it was asked for a token of a database.
async fn identity_endpoint() -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/msi/token", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let router = Router::new()
        .fallback(
            async |State(asked): State<Arc<AtomicUsize>>, RawQuery(query): RawQuery| {
                let query = query.unwrap_or_default();
                if query.contains("resource=https%3A%2F%2Fossrdbms-aad.database.windows.net") {
                    asked.fetch_add(1, Ordering::Relaxed);
                }
                let expires = SystemClock.now().timestamp() + 3600;
                Json(json!({
                    "access_token": TOKEN, "expires_on": expires.to_string(),
                    "resource": "https://ossrdbms-aad.database.windows.net", "token_type": "Bearer"
                }))
            },
        )
        .with_state(Arc::clone(&asked));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, asked)
}

async fn state_is_kept_with_a_token(connection: &str) {
    let (endpoint, asked) = identity_endpoint().await;
    let world = World::with_orders(json!({ "state": { "kind": "sql", "connection": "STATE_DB" } }))
        .await
        .setting("STATE_DB", connection)
        .setting("STATE_DB__credential", "managedidentity")
        .setting("IDENTITY_ENDPOINT", &endpoint)
        .setting("IDENTITY_HEADER", "header")
        .setting("DBTICK_LOG", "trace")
        .rows(3)
        .await;
    let handler = world.serve().await;
    for tick in 1..=2 {
        let answer = handler.tick("Orders").await;
        let said = handler.everything_said();
        assert_eq!(answer.status, 200, "tick {tick}: {answer:?} {said}");
    }
    assert_eq!(
        world.receiver.count(),
        1,
        "the second tick found the state of the first"
    );
    assert_eq!(asked.load(Ordering::Relaxed), 1, "the token is kept");
    let said = handler.everything_said();
    assert!(!said.contains("eyJ"), "a token was printed: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_postgres_in_place_of_a_password() {
    let postgres = Postgres::start().await;
    postgres.role("the app", TOKEN).await;
    postgres
        .sql("GRANT CREATE ON SCHEMA public TO \"the app\"")
        .await;
    let at = format!("127.0.0.1:{}", postgres.port);
    state_is_kept_with_a_token(&format!("postgres://the%20app@{at}/postgres")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_opens_mariadb_in_place_of_a_password() {
    let mariadb = MariaDb::start().await;
    mariadb.user("the app", TOKEN).await;
    let port = mariadb.port;
    let value = format!("Server=127.0.0.1;Port={port};Database=main;Uid=the app;SslMode=Preferred");
    state_is_kept_with_a_token(&value).await;
}

#[test]
fn a_token_goes_only_to_a_server_that_proves_who_it_is() {
    let managed = ("ORDERS_DB__credential", "managedidentity");
    for (mode, expected) in [
        ("", TlsMode::VerifyFull),
        ("?sslmode=require", TlsMode::VerifyFull),
        ("?sslmode=verify-ca", TlsMode::VerifyCa),
    ] {
        let server = server(&format!("postgres://u@db.example.org/d{mode}"), &[managed]);
        assert!(matches!(server.login, Login::Token(_)));
        assert_eq!(server.tls.mode, expected, "{mode}");
    }
    for (value, expected) in [
        (
            "postgres://u@db.example.org/d?sslmode=disable",
            "must not travel readable",
        ),
        (
            "mysql://u@db.example.org/d?ssl-mode=preferred",
            "must not travel readable",
        ),
        ("postgres://u:canary@db.example.org/d", "has a password"),
    ] {
        let refusal = resolve(&[("ORDERS_DB", value), managed])
            .unwrap_err()
            .to_string();
        assert!(refusal.contains(expected), "{refusal}");
        assert!(!refusal.contains("canary"), "{refusal}");
    }
    let half = ("ORDERS_DB__clientSecret", "canary");
    let refusal = resolve(&[("ORDERS_DB", "postgres://u@db.example.org/d"), half]).unwrap_err();
    assert!(
        refusal.to_string().contains("ORDERS_DB__tenantId"),
        "{refusal}"
    );
}
