//! The functions that show pollers.

use dbtick::config::{Function, StatusFunction};
use serde_json::{Value, json};

use super::World;

fn status() -> Value {
    json!({
        "bindings": [
            { "type": "httpTrigger", "direction": "in", "name": "req", "authLevel": "function", "methods": ["get", "post"], "route": "dbtick/{*path}" },
            { "type": "http", "direction": "out", "name": "res" }
        ],
        "status": {}
    })
}

/// With another value at this place.
fn with(pointer: &str, value: Value) -> Value {
    let mut document = status();
    match document.pointer_mut(pointer) {
        Some(place) => *place = value,
        None => {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            document.pointer_mut(parent).unwrap()[key] = value;
        }
    }
    document
}

fn config(world: &World) -> StatusFunction {
    let app = world.load();
    let faults: Vec<_> = app.faults().collect();
    assert!(faults.is_empty(), "{faults:#?}");
    match app.function("status") {
        Some(Function::Status(status)) => status.clone(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check(document: &Value, expected: &[&str]) {
    let faults = World::new().function("status", document).faults();
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for expected in expected {
        let found = faults.iter().any(|fault| fault.contains(expected));
        assert!(found, "{expected}\n{faults:#?}");
    }
}

#[test]
fn a_status_function_is_found_below_its_route() {
    let function = config(&World::new().function("status", &status()));
    assert_eq!(
        [
            &function.name,
            &function.path,
            &function.request,
            &function.response
        ],
        ["status", "api/dbtick", "req", "res"]
    );
    assert!(function.actions && !function.signs_in);
    let elsewhere = World::new()
        .function(
            "status",
            &with("/bindings/0/route", json!("/ops/ticks/{*rest}")),
        )
        .setting("AzureFunctionsJobHost__extensions__http__routePrefix", "")
        .setting("WEBSITE_AUTH_ENABLED", "True");
    let function = config(&elsewhere);
    assert_eq!(function.path, "ops/ticks");
    assert!(function.signs_in);
}

/// S9.
#[test]
fn nobody_looks_or_acts_without_a_key() {
    for level in ["anonymous", "Anonymous"] {
        let mut open = with("/bindings/0/authLevel", json!(level));
        let told = &["bindings[0].authLevel: lets everybody who knows the address see keys"];
        check(&open, told);
        open["status"]["actions"] = json!(false);
        check(&open, told);
    }
    let mut shows = with("/status/actions", json!(false));
    shows["bindings"][0]["methods"] = json!(["get"]);
    let function = config(&World::new().function("status", &shows));
    assert!(!function.actions);
}

#[test]
fn every_mistake_in_a_status_function_is_told() {
    for (pointer, value, expected) in [
        (
            "/bindings/0/route",
            json!("dbtick"),
            "is not such a route: dbtick",
        ),
        ("/bindings/0/route", json!("{*path}"), "is not such a route"),
        (
            "/bindings/0/route",
            json!("a/{b}/{*path}"),
            "is not such a route",
        ),
        (
            "/bindings/0/route",
            json!("a/../{*path}"),
            "is not such a route",
        ),
        ("/bindings/0/methods", json!(["get"]), "does not hold post"),
        ("/bindings/0/methods", json!(["post"]), "does not hold get"),
        (
            "/bindings/0/authLevel",
            json!("everyone"),
            "is not a level: everyone",
        ),
        (
            "/bindings/0/type",
            json!("timerTrigger"),
            "has no httpTrigger",
        ),
        (
            "/bindings/1/type",
            json!("queue"),
            "is an output that nothing is written to",
        ),
        (
            "/bindings/1/name",
            json!("$return"),
            "is not a name that an answer can be given by",
        ),
        (
            "/retry",
            json!({ "strategy": "fixedDelay" }),
            "retry: would have the host do again",
        ),
        ("/relay", json!({}), "relay: stands beside status"),
        ("/status/action", json!(true), "action"),
        ("/status/actions", json!("no"), "actions"),
    ] {
        let document = with(pointer, value);
        let faults = World::new().function("status", &document).faults();
        let found = faults.iter().any(|fault| fault.contains(expected));
        assert!(found, "{pointer}: {expected}\n{faults:#?}");
    }
    let mut without = status();
    without["bindings"][0]
        .as_object_mut()
        .unwrap()
        .remove("route");
    check(&without, &["bindings[0].route: is missing"]);
}
