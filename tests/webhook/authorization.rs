//! What a request carries besides the batch: headers, a token, a token of an identity.

use dbtick::config::Authorization;
use dbtick::config::secret::{Secret, SecretUrl};
use dbtick::sink::Verdict;
use serde_json::{Value, json};

use crate::support::handler::HandlerProcess;
use crate::support::identity::{CANARY, IdentityEndpoint, Token};
use crate::support::receiver::TOKEN;
use crate::support::world::World;
use crate::{PATIENT, RawReceiver, WebhookConfig, deliver, open, status};

/// Without a user in the URL, who would be sent as Authorization.
fn webhook(port: u16) -> WebhookConfig {
    let url = format!("http://127.0.0.1:{port}/path-canary");
    WebhookConfig {
        timeout: PATIENT,
        ..WebhookConfig::new(SecretUrl::new(url.parse().unwrap()))
    }
}

#[tokio::test]
async fn headers_and_a_token_go_with_every_attempt_and_are_not_shown() {
    let receiver = RawReceiver::playing(vec![status("503 Busy"), status("200 OK")]).await;
    let mut config = webhook(receiver.port);
    let value = Secret::new("header-canary").header().unwrap();
    config.headers.insert("x-tenant", value);
    let token = Secret::new(CANARY).bearer().unwrap();
    config.authorization = Some(Authorization::Bearer(token));
    assert_eq!(deliver(&open(config)).await, Verdict::Acknowledged);
    let seen = receiver.seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    for request in seen.iter() {
        assert_eq!(request.header("x-tenant"), Some("header-canary"));
        let expected = format!("Bearer {CANARY}");
        assert_eq!(request.header("authorization"), Some(expected.as_str()));
        assert_eq!(request.header("content-type"), Some("application/json"));
    }
}

/// The real process: which identity endpoint there is, is told by its environment.
async fn with_identity(endpoint: &IdentityEndpoint, entra: Value) -> World {
    let hook = json!({ "url": "%HOOK%", "entra": entra });
    World::with_orders(json!({ "deliver": [{ "webhook": hook }] }))
        .await
        .rows(1)
        .await
        .setting("IDENTITY_ENDPOINT", &endpoint.url)
        .setting("IDENTITY_HEADER", CANARY)
        .setting("DBTICK_LOG", "trace")
}

#[tokio::test]
async fn a_token_of_the_identity_is_fetched_once_and_sent_with_every_batch() {
    let endpoint = IdentityEndpoint::start(|_| Token::ExpiresIn(3600)).await;
    let entra = json!({ "audience": "api://orders-receiver", "client_id": "my-identity" });
    let world = with_identity(&endpoint, entra).await;
    let handler = world.serve().await;
    for tick in 1..=3 {
        let answer = handler.tick("Orders").await;
        assert_eq!(answer.status, 200, "{}", handler.everything_said());
        assert_eq!(world.receiver.count(), tick);
        world.writer().await.insert(1).await;
    }
    let asked = endpoint.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let query = format!("{}&", asked[0].0);
    for part in [
        "resource=api%3A%2F%2Forders-receiver&",
        "client_id=my-identity&",
    ] {
        assert!(query.contains(part), "{query}");
    }
    for delivery in world.receiver.deliveries() {
        let value = delivery.headers["authorization"].to_str().unwrap();
        assert!(value.starts_with("Bearer eyJ"), "{value}");
    }
    assert_silent(&handler);
}

#[tokio::test]
async fn without_a_token_nothing_is_sent_and_the_failure_says_what_to_set() {
    let endpoint = IdentityEndpoint::start(|_| Token::Refused(400)).await;
    for (client_id, expected) in [
        (None, "webhook.entra.client_id"),
        (Some("my-identity"), "the identity my-identity"),
    ] {
        let mut entra = json!({ "audience": "api://orders-receiver" });
        if let Some(client_id) = client_id {
            entra["client_id"] = client_id.into();
        }
        let world = with_identity(&endpoint, entra).await;
        let handler = world.serve().await;
        let answer = handler.tick("Orders").await;
        assert_eq!(answer.status, 500);
        let logs = answer.logs();
        for part in ["nothing was sent to http://127.0.0.1", "400", expected] {
            assert!(logs.contains(part), "{logs}");
        }
        assert_eq!(world.receiver.count(), 0);
        assert_silent(&handler);
    }
}

fn assert_silent(handler: &HandlerProcess) {
    let said = handler.everything_said();
    for secret in [CANARY, "eyJ", TOKEN] {
        assert!(!said.contains(secret), "{secret} in {said}");
    }
}
