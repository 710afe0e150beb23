//! What a webhook may be told, and what is said about the rest.

use dbtick::config::WebhookConfig;
use serde_json::{Value, json};

use crate::{World, only, poller};

const KEY: &str = "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5";

fn world(webhook: Value) -> World {
    let mut block = poller(json!({}));
    for (key, value) in webhook.as_object().unwrap() {
        block["deliver"][0]["webhook"][key] = value.clone();
    }
    World::new()
        .setting("KEY", &format!(" {KEY}\n"))
        .setting("OLD", "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5")
        .poller("orders", &block)
}

#[track_caller]
fn accepted(world: &World) -> WebhookConfig {
    assert_eq!(world.faults(), [""; 0]);
    only(&world.load()).pollers[0].deliver[0].webhook.clone()
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
