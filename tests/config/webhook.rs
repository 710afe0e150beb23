//! What a webhook may be told, and what is said about the rest.

use dbtick::config::{Authorization, WebhookConfig};
use dbtick::model::address::Network;
use dbtick::model::envelope::Envelope;
use serde_json::{Value, json};

use crate::{World, only, poller, webhook_of};

const KEY: &str = "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5";

fn world(webhook: Value) -> World {
    let mut block = poller(json!({}));
    for (key, value) in webhook.as_object().unwrap() {
        block["deliver"][0]["webhook"][key] = value.clone();
    }
    World::new()
        .setting("KEY", &format!(" {KEY}\n"))
        .setting("OLD", "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5")
        .setting("TOKEN", "canary\n")
        .setting("LINES", "canary\r\nx-injected: canary")
        .poller("orders", &block)
}

#[track_caller]
fn accepted(world: &World) -> WebhookConfig {
    assert_eq!(world.faults(), [""; 0]);
    webhook_of(&only(&world.load()).pollers[0].deliver[0]).clone()
}

/// The expected text begins the only fault, which shows no value of a setting.
#[track_caller]
fn refused(world: &World, expected: &str) {
    let faults = world.faults();
    let expected = format!("orders/function.json: poller.deliver[0].webhook.{expected}");
    assert!(
        matches!(&*faults, [fault] if fault.starts_with(&expected)),
        "{expected}: {faults:#?}"
    );
    assert!(!faults[0].contains("canary"), "{faults:#?}");
    assert!(!faults[0].contains("Y2Fu"), "{faults:#?}");
}

#[test]
fn one_key_signs_or_two() {
    for (webhook, count) in [
        (json!({}), 0),
        (json!({ "secret": "%KEY%" }), 1),
        (json!({ "secrets": ["%KEY%"] }), 1),
        (json!({ "secrets": ["%KEY%", "%OLD%"] }), 2),
    ] {
        let signing = accepted(&world(webhook.clone())).signing;
        assert_eq!(signing.len(), count, "{webhook}");
        if let Some(first) = signing.first() {
            assert_eq!(first.expose(), b"canarycanarycanarycanary");
        }
    }
}

#[test]
fn a_key_that_is_none_or_stands_in_the_file_is_refused_without_being_shown() {
    for (webhook, expected) in [
        (json!({ "secret": KEY }), "secret: is not the name of"),
        (
            json!({ "secret": "whsec_%KEY%" }),
            "secret: is not the name of",
        ),
        (json!({ "secret": "%%" }), "secret: is not the name of"),
        (
            json!({ "secret": "%KEY%%KEY%" }),
            "secret: is not the name of",
        ),
        (
            json!({ "secret": "%NOPE%" }),
            "secret: '%NOPE%' does not resolve",
        ),
        (
            json!({ "secret": "%VAULT%" }),
            "secret: the app setting is a Key Vault",
        ),
        (
            json!({ "secrets": ["%KEY%", KEY] }),
            "secrets[1]: is not the name of",
        ),
        (
            json!({ "secrets": ["%KEY%", "%OLD%", "%KEY%"] }),
            "secrets: has more than two",
        ),
        (
            json!({ "secret": "%KEY%", "secrets": ["%OLD%"] }),
            "secrets: stands beside secret",
        ),
    ] {
        refused(&world(webhook), expected);
    }
    for value in [
        "",
        "canary",
        "whsec_",
        "whsec_canary!",
        "Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5",
        "WHSEC_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5",
        "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXI=",
        &format!("whsec_{}", "Y2FuYXJ5".repeat(11)),
    ] {
        let world = world(json!({ "secret": "%BAD%" })).setting("BAD", value);
        refused(&world, "secret: is not a key of Standard Webhooks: %BAD%");
    }
}

#[test]
fn headers_are_added_and_never_ours() {
    let headers =
        json!({ "X-Tenant": "a-%ORDERS_DB%", "x-plain": "", "authorization": "Key %KEY%" });
    let headers = world(json!({ "headers": headers }));
    let headers = headers.setting("KEY", "canary");
    let headers = accepted(&headers).headers;
    assert_eq!(headers["x-tenant"], "a-sqlite:data/orders.db");
    assert_eq!(headers["authorization"], "Key canary");
    assert!(headers.values().all(|value| value.is_sensitive()));
    for (name, value, expected) in [
        ("Content-Type", "x", "is a header that dbtick"),
        ("content-length", "1", "is a header that dbtick"),
        ("Host", "x", "is a header that dbtick"),
        ("idempotency-key", "x", "is a header that dbtick"),
        ("Webhook-Id", "x", "is a header that dbtick"),
        ("webhook-anything", "x", "is a header that dbtick"),
        ("Connection", "close", "is a header that dbtick"),
        ("transfer-encoding", "chunked", "is a header that dbtick"),
        ("Traceparent", "x", "is a header that dbtick"),
        ("Accept-Encoding", "gzip", "is a header that dbtick"),
        ("a b", "x", "is not the name of a header"),
        ("a:b", "x", "is not the name of a header"),
        ("", "x", "is not the name of a header"),
        ("x-a", "%LINES%", "has a value that no header can have"),
        ("x-a", "%NOPE%", "'%NOPE%' does not resolve"),
    ] {
        let world = world(json!({ "headers": { name: value } }));
        refused(&world, &format!("headers.{name}: {expected}"));
    }
    let twice = world(json!({ "headers": { "X-A": "1", "x-a": "2" } }));
    refused(&twice, "headers.x-a: is there twice");
}

#[test]
fn a_token_is_sent_by_itself_and_never_readable() {
    let token = accepted(&world(json!({ "bearer": "%TOKEN%" }))).authorization;
    assert!(matches!(token, Some(Authorization::Bearer(value)) if value == "Bearer canary"));
    for audience in ["api://x", "api://x/.default"] {
        let entra = json!({ "entra": { "audience": audience, "client_id": "me" } });
        let Some(Authorization::Entra { scope, .. }) = accepted(&world(entra)).authorization else {
            panic!("no identity");
        };
        assert_eq!(scope, "api://x/.default");
    }
    let entra = json!({ "audience": "api://x" });
    let intranet = "http://intranet/";
    for (webhook, expected) in [
        (json!({ "bearer": "canary" }), "bearer: is not the name of"),
        (
            json!({ "bearer": "%LINES%" }),
            "bearer: is not a token: %LINES%",
        ),
        (
            json!({ "bearer": "%TOKEN%", "entra": entra }),
            "entra: stands beside bearer",
        ),
        (
            json!({ "entra": { "audience": "a b" } }),
            "entra.audience: is not an id: a b",
        ),
        (
            json!({ "bearer": "%TOKEN%", "headers": { "Authorization": "x" } }),
            "headers.Authorization: stands beside bearer",
        ),
        (
            json!({ "entra": entra, "headers": { "authorization": "x" } }),
            "headers.authorization: stands beside",
        ),
        (
            json!({ "url": "https://u:p@example.org/", "headers": { "authorization": "x" } }),
            "headers.authorization: stands beside",
        ),
        (
            json!({ "url": "https://u:p@example.org/", "bearer": "%TOKEN%" }),
            "bearer: stands beside a user",
        ),
        (
            json!({ "url": intranet, "allow_http": true, "bearer": "%TOKEN%" }),
            "bearer: would travel readable",
        ),
        (
            json!({ "url": intranet, "allow_http": true, "entra": entra }),
            "entra: would travel readable",
        ),
        (
            json!({ "url": intranet, "allow_http": true, "headers": { "Authorization": "x" } }),
            "headers.Authorization: would travel readable",
        ),
    ] {
        refused(&world(webhook), expected);
    }
    for webhook in [
        json!({ "url": "http://localhost/", "bearer": "%TOKEN%" }),
        json!({ "url": "http://localhost/", "headers": { "authorization": "x" } }),
        json!({ "url": intranet, "allow_http": true, "headers": { "x-tenant": "x" } }),
    ] {
        accepted(&world(webhook));
    }
}

#[test]
fn authorities_come_from_a_file_or_from_a_setting() {
    let pem = include_str!("../azurite/certificates/ca.pem");
    let file = |written: &str| world(json!({ "ca": written })).file("certificates/ca.pem", pem);
    for world in [
        file("certificates/ca.pem"),
        file("%CA%").setting("CA", pem),
        file("%CA%").setting("CA", &pem.replace('\n', "\\n")),
        file("%CA%").setting("CA", "certificates/ca.pem"),
    ] {
        assert_eq!(accepted(&world).authorities.len(), 1);
    }
    let cut = pem.replace("-----END", "");
    for (world, expected) in [
        (
            file("nowhere.pem"),
            "the certificates to trust cannot be read: No such file",
        ),
        (file("orders/function.json"), "holds no certificates"),
        (file("%CA%").setting("CA", &cut), "holds no certificates"),
        (
            file("%CA%").setting(
                "CA",
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            ),
            "holds no certificates, or one",
        ),
    ] {
        refused(&world, &format!("ca: {expected}"));
    }
}

fn beside_endpoints(webhook: Value) -> World {
    world(webhook)
        .setting("IDENTITY_ENDPOINT", "http://127.0.0.1:4141/msi/token")
        .setting("MSI_ENDPOINT", "http://localhost:4142/")
        .setting("IMDS_ENDPOINT", "https://tokens.example:4143")
}

#[test]
fn what_is_never_a_receiver_is_refused() {
    for (webhook, expected) in [
        (
            json!({ "url": "https://169.254.169.254/" }),
            "url: is a link-local",
        ),
        (
            json!({ "url": "https://10.0.0.4/", "deny_private": true }),
            "url: is a private address",
        ),
        (
            json!({ "url": "http://localhost:4141/x" }),
            "url: is the identity endpoint",
        ),
        (
            json!({ "url": "http://[::1]:4141/" }),
            "url: is the identity endpoint",
        ),
        (
            json!({ "url": "http://0.0.0.0:4141/", "allow_http": true }),
            "url: is the identity endpoint",
        ),
        (
            json!({ "url": "https://[::]:4141/" }),
            "url: is the identity endpoint",
        ),
        (
            json!({ "url": "http://2130706433:4142/" }),
            "url: is the identity endpoint",
        ),
        (
            json!({ "url": "https://tokens.example:4143/" }),
            "url: is the identity endpoint",
        ),
    ] {
        refused(&beside_endpoints(webhook), expected);
    }
    // A name is judged by what it leads to, when it does.
    for (url, found) in [
        ("https://example.org:4141/", 1),
        ("https://example.org:4142/", 1),
        ("https://example.org/", 0),
        ("http://127.0.0.1:4145/", 0),
    ] {
        let identity = accepted(&beside_endpoints(json!({ "url": url }))).identity;
        assert_eq!(identity.len(), found, "{url}");
    }
    let open = json!({ "url": "https://10.0.0.4/", "deny_private": false });
    assert_eq!(accepted(&world(open)).network, Network::Any);
    assert_eq!(
        accepted(&world(json!({ "deny_private": true }))).network,
        Network::Public
    );
}

#[test]
fn bodies_are_plain_and_native_unless_told() {
    let plain = accepted(&world(json!({})));
    assert_eq!((plain.gzip, plain.envelope), (false, Envelope::Native));
    for (word, expected) in [
        ("native", Envelope::Native),
        ("cloudevents", Envelope::CloudEvents),
        ("debezium", Envelope::Debezium),
    ] {
        let told = accepted(&world(json!({ "gzip": true, "envelope": word })));
        assert_eq!((told.gzip, told.envelope), (true, expected));
    }
}
