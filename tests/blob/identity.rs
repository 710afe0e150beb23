//! Managed identity, end to end: the identity endpoint, a token, Azurite over TLS.

use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};

use super::support::azurite::{Azurite, certificates};
use super::support::identity::{CANARY, IdentityEndpoint, Token};
use super::support::world::World;

async fn world(endpoint: &str, identity: &IdentityEndpoint) -> World {
    let trusted = certificates().join("ca.pem").display().to_string();
    super::world(&[
        ("AzureWebJobsStorage__blobServiceUri", endpoint),
        ("AzureWebJobsStorage__credential", "managedidentity"),
        ("AzureWebJobsStorage__clientId", "the-client"),
        ("IDENTITY_ENDPOINT", &identity.url),
        ("IDENTITY_HEADER", CANARY),
        ("SSL_CERT_FILE", &trusted),
        ("DBTICK_LOG", "trace"),
    ])
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_managed_identity_is_asked_once_and_again_before_its_token_expires() {
    let azurite = Azurite::blob_with_tokens();
    // Four minutes are too few to go on with; an hour is not.
    let identity =
        IdentityEndpoint::start(|number| Token::ExpiresIn(if number == 0 { 240 } else { 3600 }))
            .await;
    let world = world(&azurite.endpoint, &identity).await;
    let handler = world.serve().await;
    for tick in 1..=3 {
        let answer = handler.tick("Orders").await;
        let said = handler.everything_said();
        assert_eq!(answer.status, 200, "tick {tick}: {answer:?} {said}");
    }
    assert_eq!(world.receiver.count(), 1);
    let asked = identity.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    for (query, headers) in asked {
        for part in [
            "resource=https%3A%2F%2Fstorage.azure.com&",
            "client_id=the-client",
        ] {
            assert!(format!("{query}&").contains(part), "{query}");
        }
        assert_eq!(headers["x-identity-header"], CANARY);
    }
    let said = handler.everything_said();
    assert!(!said.contains(CANARY), "{said}");
    assert!(!said.contains("eyJ"), "a token was printed: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identity_that_cannot_be_had_fails_fast_and_says_what_to_set() {
    // Nothing listens there, and nothing is asked: there is no token.
    let nowhere = "https://127.0.0.1:1/account";
    for (token, expected) in [
        (
            None,
            "no answer within 3s; check that the identity of AzureWebJobsStorage__clientId",
        ),
        (
            Some(400),
            "the identity service answered 400; check that the identity of",
        ),
    ] {
        let identity = IdentityEndpoint::start(move |_| match token {
            None => Token::Never,
            Some(status) => Token::Refused(status),
        })
        .await;
        let world = world(nowhere, &identity).await;
        let handler = world.serve().await;
        let asked = SystemClock.monotonic();
        let answer = handler.tick("Orders").await;
        let took = SystemClock.monotonic() - asked;
        assert_eq!(answer.status, 500);
        assert!(took < Duration::from_secs(6), "{took:?}");
        assert!(answer.logs().contains(expected), "{}", answer.logs());
        assert!(!handler.everything_said().contains(CANARY));
    }
}
