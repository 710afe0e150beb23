//! Relays: the functions that carry output bindings, and the pollers that name them.

use std::time::Duration;

use dbtick::config::{Function, RelayConfig, Target};
use serde_json::{Value, json};

use super::{World, only, poller};

fn bindings() -> Value {
    json!([
        { "type": "httpTrigger", "direction": "in", "name": "req", "authLevel": "function", "methods": ["post"] },
        { "type": "http", "direction": "out", "name": "res" },
        { "type": "queue", "direction": "out", "name": "messages", "queueName": "orders", "connection": "STORAGE" }
    ])
}

/// An app with a relay `carry`, and a poller `orders` that delivers through it.
fn world(relay: Value) -> World {
    with_sink(relay, json!({ "function": "carry", "key": "%RELAY_KEY%" }))
}

fn with_sink(relay: Value, sink: Value) -> World {
    let poller = poller(json!({ "deliver": [{ "relay": sink }] }));
    World::new()
        .setting("RELAY_KEY", "canary-key")
        .function("carry", &relay)
        .poller("orders", &poller)
}

fn config(world: &World) -> RelayConfig {
    let app = world.load();
    let faults: Vec<_> = app.faults().collect();
    assert!(faults.is_empty(), "{faults:#?}");
    match &only(&app).pollers[0].deliver[0].to {
        Target::Relay(relay) => RelayConfig::clone(relay),
        other => panic!("{other:?}"),
    }
}

/// Each expected text begins a fault; there are no others.
#[track_caller]
fn check(world: &World, expected: &[&str]) {
    let faults = world.faults();
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for expected in expected {
        let found = faults.iter().any(|fault| fault.starts_with(expected));
        assert!(found, "{expected}\n{faults:#?}");
    }
    let all = faults.concat();
    assert!(!all.contains("canary"), "{all}");
}

#[test]
fn the_smallest_relay_gets_every_default() {
    let relay = config(&world(json!({ "bindings": bindings(), "relay": {} })));
    let function = &relay.function;
    assert_eq!(
        [&function.name, &function.path, &function.kind],
        ["carry", "api/carry", "queue"]
    );
    assert_eq!(
        [&function.request, &function.response, &function.output],
        ["req", "res", "messages"]
    );
    assert_eq!(function.largest_message, Some(48 * 1024));
    assert_eq!(relay.timeout, Duration::from_secs(100));
    assert_eq!(relay.app, None);
    assert_eq!(relay.key, "canary-key");
    assert!(!format!("{relay:?}").contains("canary"), "{relay:?}");
    let app = world(json!({ "bindings": bindings(), "relay": {} })).load();
    assert!(matches!(app.function("carry"), Some(Function::Relay(_))));
}

#[test]
fn every_key_reaches_the_relay() {
    let mut bindings = bindings();
    bindings[0]["route"] = json!("internal/carry-on");
    bindings.as_array_mut().unwrap().push(
        json!({ "type": "serviceBus", "direction": "out", "name": "bus", "topicName": "orders" }),
    );
    let sink = json!({ "function": "carry", "key": "%RELAY_KEY%", "timeout": "30s" });
    let world = with_sink(
        json!({ "bindings": bindings, "relay": { "output": "bus" } }),
        sink,
    )
    .setting("WEBSITE_HOSTNAME", "shop.azurewebsites.net")
    .file(
        "host.json",
        r#"{ "version": "2.0", "extensions": { "http": { "routePrefix": "v1/" } } }"#,
    );
    let relay = config(&world);
    assert_eq!(relay.function.path, "v1/internal/carry-on");
    assert_eq!(
        [&relay.function.output, &relay.function.kind],
        ["bus", "serviceBus"]
    );
    assert_eq!(relay.function.largest_message, None, "of a queue only");
    assert_eq!(relay.timeout, Duration::from_secs(30));
    let app = relay.app.unwrap();
    assert_eq!(app.as_str(), "https://shop.azurewebsites.net/");
}

#[test]
fn settings_override_what_host_json_says_about_the_way_to_a_relay() {
    let world = world(json!({ "bindings": bindings(), "relay": {} }))
        .file(
            "host.json",
            r#"{ "version": "2.0", "extensions": { "http": { "routePrefix": "v1" } } }"#,
        )
        .setting("AzureFunctionsJobHost__extensions__http__routePrefix", "")
        .setting(
            "AzureFunctionsJobHost__extensions__queues__messageEncoding",
            "none",
        );
    let relay = config(&world);
    assert_eq!(relay.function.path, "carry");
    assert_eq!(relay.function.largest_message, Some(64 * 1024));
}

/// The bindings of a relay with a change, and what is wrong with them then.
#[track_caller]
fn check_bindings(change: impl FnOnce(&mut Vec<Value>), expected: &str) {
    let mut bindings = bindings();
    change(bindings.as_array_mut().unwrap());
    let expected = format!("carry/function.json: {expected}");
    check(
        &world(json!({ "bindings": bindings, "relay": {} })),
        &[
            &expected,
            "orders/function.json: poller.deliver[0].relay.function: is a relay with faults: carry",
        ],
    );
}

#[test]
fn a_relay_that_the_host_would_not_find_or_not_write_is_refused() {
    let set = |index: usize, key: &'static str, value: Value| {
        move |bindings: &mut Vec<Value>| bindings[index][key] = value
    };
    check_bindings(
        set(0, "authLevel", json!("anonymous")),
        "bindings[0].authLevel: lets everybody",
    );
    check_bindings(
        set(0, "authLevel", json!("admin")),
        "bindings[0].authLevel: wants the master key",
    );
    check_bindings(
        set(0, "authLevel", json!("some")),
        "bindings[0].authLevel: is not a level",
    );
    check_bindings(
        set(0, "methods", json!(["get"])),
        "bindings[0].methods: does not hold post",
    );
    check_bindings(
        set(0, "route", json!("orders/{id}")),
        "bindings[0].route: is not a plain route",
    );
    check_bindings(
        set(0, "route", json!("../admin")),
        "bindings[0].route: is not a plain route",
    );
    check_bindings(
        set(0, "type", json!("timerTrigger")),
        "bindings: has no httpTrigger",
    );
    check_bindings(
        set(1, "name", json!("$return")),
        "bindings[1].name: is not a name",
    );
    check_bindings(
        set(2, "name", json!("my_queue")),
        "bindings[2].name: is not a name",
    );
    check_bindings(
        set(2, "dataType", json!("binary")),
        "bindings[2].dataType: would have the host",
    );
    check_bindings(
        |bindings| drop(bindings.remove(1)),
        "bindings: has no http output",
    );
    check_bindings(
        |bindings| drop(bindings.remove(2)),
        "bindings: has no output besides the answer",
    );
    check_bindings(
        |bindings| bindings.push(json!({ "type": "blob", "direction": "out", "name": "copy" })),
        "relay.output: is missing, and there are several outputs (write one of: messages, copy)",
    );
}

#[test]
fn a_relay_block_is_checked_like_everything_else() {
    for (document, expected) in [
        (
            json!({ "bindings": bindings(), "relay": { "output": "res" } }),
            "relay.output: is not an output of the function: res",
        ),
        (
            json!({ "bindings": bindings(), "relay": { "outputs": "messages" } }),
            "relay.outputs: is not a known key (did you mean output?)",
        ),
        (
            json!({ "bindings": bindings(), "relay": true }),
            "relay: must be an object",
        ),
        (
            json!({ "bindings": bindings(), "relay": {}, "retry": { "strategy": "fixedDelay" } }),
            "retry: would write messages again",
        ),
        (
            json!({ "bindings": bindings(), "relay": {}, "poller": poller(json!({})) }),
            "relay: stands beside a poller",
        ),
    ] {
        let expected = format!("carry/function.json: {expected}");
        let named =
            "orders/function.json: poller.deliver[0].relay.function: is a relay with faults";
        check(&world(document), &[&expected, named]);
    }
    let misspelt = world(json!({ "bindings": bindings(), "realy": {} }));
    check(
        &misspelt,
        &[
            "carry/function.json: realy: is not a known key (did you mean relay?)",
            "orders/function.json: poller.deliver[0].relay.function: is not a relay: carry",
        ],
    );
}

#[test]
fn a_poller_names_a_relay_that_is_there_and_a_key_that_is_in_a_setting() {
    let relay = json!({ "bindings": bindings(), "relay": {} });
    for (sink, expected) in [
        (
            json!({ "function": "carrier", "key": "%RELAY_KEY%" }),
            "function: is not a function of this app: carrier (the relays of this app are: carry)",
        ),
        (
            json!({ "function": "orders", "key": "%RELAY_KEY%" }),
            "function: is not a relay: orders (add \"relay\": {} to orders/function.json",
        ),
        (
            json!({ "function": "carry", "key": "canary-key" }),
            "key: is not the name of an app setting, and a secret does not belong into the file",
        ),
        (
            json!({ "function": "carry", "key": "%EMPTY%" }),
            "key: is not a key: %EMPTY%",
        ),
        (
            json!({ "function": "carry", "key": "%MISSING%" }),
            "key: '%MISSING%' does not resolve to a value.",
        ),
        (json!({ "function": "carry" }), "key: is missing"),
        (
            json!({ "function": "carry", "key": "%RELAY_KEY%", "timeout": "5m" }),
            "timeout: is longer than Azure lets an HTTP function run: 230s",
        ),
        (
            json!({ "function": "carry", "key": "%RELAY_KEY%", "host": "example.org" }),
            "host: is not a known key",
        ),
    ] {
        let expected = format!("orders/function.json: poller.deliver[0].relay.{expected}");
        check(
            &with_sink(relay.clone(), sink).setting("EMPTY", ""),
            &[&expected],
        );
    }
    let at = "orders/function.json: poller.deliver[0].relay";
    let disabled = world(relay.clone()).setting("AzureWebJobs_carry_Disabled", "true");
    check(
        &disabled,
        &[&format!(
            "{at}.function: is disabled by an app setting: carry"
        )],
    );
    let nowhere = world(relay).setting("WEBSITE_HOSTNAME", "canary@169.254.169.254");
    check(
        &nowhere,
        &[&format!(
            "{at}: cannot be posted to: WEBSITE_HOSTNAME is not a host name"
        )],
    );
}

#[test]
fn an_output_of_the_timer_function_itself_is_refused_and_the_relay_named() {
    let mut document = json!({ "poller": poller(json!({})) });
    document["bindings"] = json!([
        { "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "* * * * * *" },
        { "type": "queue", "direction": "out", "name": "messages", "queueName": "orders" }
    ]);
    let faults = World::new().function("orders", &document).faults();
    assert_eq!(faults.len(), 1, "{faults:#?}");
    assert!(faults[0].contains("after our answer"), "{faults:#?}");
    assert!(faults[0].contains("through a relay"), "{faults:#?}");
}

#[test]
fn a_receiver_is_of_one_kind() {
    let both = poller(json!({ "deliver": [{
        "webhook": { "url": "%ORDERS_HOOK%" },
        "relay": { "function": "carry", "key": "%RELAY_KEY%" }
    }] }));
    let faults = World::new().poller("orders", &both).faults();
    assert_eq!(faults.len(), 1, "{faults:#?}");
    assert!(
        faults[0].contains("deliver[0].relay: stands beside webhook"),
        "{faults:#?}"
    );
}
