use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::config::schema::schema;

static VALIDATOR: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&schema()).unwrap());

fn problems(document: &Value) -> Vec<String> {
    let mut faults = Faults::of(Path::new("f"));
    check(document, &schema(), &mut faults);
    faults.into_vec().iter().map(ToString::to_string).collect()
}

fn good() -> Value {
    json!({
        "bindings": [{ "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "* * * * * *" }],
        "poller": {
            "source": { "connection": "DB", "table": "orders", "cursor": "updated_at", "key": ["id"] },
            "deliver": [{ "webhook": { "url": "%HOOK%" } }]
        }
    })
}

fn with(pointer: &str, key: &str, value: Value) -> Value {
    let mut document = good();
    document.pointer_mut(pointer).unwrap()[key] = value;
    document
}

fn without(pointer: &str, key: &str) -> Value {
    let mut document = good();
    let object = document
        .pointer_mut(pointer)
        .unwrap()
        .as_object_mut()
        .unwrap();
    object.remove(key).unwrap();
    document
}

/// Documents, and whether their shape is right.
fn table() -> Vec<(Value, bool)> {
    let source = "/poller/source";
    let webhook = "/poller/deliver/0/webhook";
    vec![
        (good(), true),
        (with("", "retry", json!({ "strategy": "fixedDelay" })), true),
        (with("", "anything", json!(1)), true),
        (with("", "parallel", json!(64)), true),
        (with("", "parallel", json!(0)), false),
        (with("", "parallel", json!(65)), false),
        (with("", "pollers", json!([])), false),
        (with("", "pollers", json!([good()["poller"]])), true),
        (with("", "poller", json!([])), false),
        (without("", "bindings"), false),
        (with("", "bindings", json!([{}])), false),
        (with("", "bindings", json!({})), false),
        (with("/poller", "name", json!("x")), true),
        (with("/poller", "name", json!(null)), false),
        (with("/poller", "commit", json!("all")), true),
        (with("/poller", "commit", json!({ "quorum": 2 })), true),
        (with("/poller", "commit", json!({ "quorum": 0 })), false),
        (with("/poller", "commit", json!("most")), false),
        (with("/poller", "poison", json!({ "then": "block" })), true),
        (with("/poller", "poison", json!({ "attempts": 0 })), false),
        (with("/poller", "batch", json!({})), true),
        (with("/poller", "batch", json!(null)), false),
        (
            with(
                "/poller",
                "batch",
                json!({ "max_rows": 1, "max_bytes": "1MiB", "max_wait": "5s" }),
            ),
            true,
        ),
        (with("/poller", "batch", json!({ "max_rows": 0 })), false),
        (
            with("/poller", "batch", json!({ "max_rows": 100_000 })),
            true,
        ),
        (
            with("/poller", "batch", json!({ "max_rows": 100_001 })),
            false,
        ),
        (with("/poller", "batch", json!({ "max_rows": -1 })), false),
        (with("/poller", "batch", json!({ "max_rows": 1.5 })), false),
        (with("/poller", "batch", json!({ "max_rows": "10" })), false),
        (
            with("/poller", "batch", json!({ "max_bytes": 1024 })),
            false,
        ),
        (with("/poller", "deliver", json!([])), false),
        (with("/poller", "deliver", json!({})), false),
        (with("/poller", "deliver", json!([{}])), true),
        (
            with(
                "/poller",
                "lease",
                json!({ "ttl": "24s", "heartbeat": "7s", "margin": "5s" }),
            ),
            true,
        ),
        (with("/poller", "lease", json!({ "ttl": 24 })), false),
        (
            with(
                "/poller",
                "state",
                json!({ "kind": "file", "path": "../state" }),
            ),
            true,
        ),
        (
            with(
                "/poller",
                "state",
                json!({ "kind": "cloud", "path": "../state" }),
            ),
            false,
        ),
        (
            with("/poller", "state", json!({ "kind": 1, "path": "../state" })),
            false,
        ),
        (with("/poller", "state", json!({ "connection": "S" })), true),
        (with("/poller", "state", json!({ "container": 5 })), false),
        (with("/poller", "state", json!({ "path": "" })), false),
        (
            with(
                "/poller",
                "state",
                json!({ "connection": "S", "container": "c" }),
            ),
            true,
        ),
        (without("/poller", "source"), false),
        (without("/poller", "deliver"), false),
        (without(source, "connection"), false),
        (without(source, "cursor"), false),
        (without(source, "key"), false),
        (with(source, "connection", json!("")), false),
        (with(source, "cursor", json!(["a", "b"])), true),
        (with(source, "cursor", json!([])), false),
        (with(source, "cursor", json!("")), false),
        (with(source, "cursor", json!([1])), false),
        (with(source, "cursor", json!({})), false),
        (with(source, "key", json!("id")), true),
        (with(source, "columns", json!(["id"])), true),
        (with(source, "columns", json!("id")), false),
        (with(source, "columns", json!([])), false),
        (with(source, "filter", json!("a LIKE '%x'")), true),
        (with(source, "start", json!("now")), true),
        (with(source, "start", json!("Now")), false),
        (with(source, "start", json!(null)), false),
        (with(source, "nulls", json!("ignore")), true),
        (with(source, "nulls", json!("skip")), false),
        (with(source, "late_commits", json!("auto")), true),
        (with(source, "late_commits", json!("never")), false),
        (
            with(source, "late_commits", json!({ "window": "30s" })),
            true,
        ),
        (with(source, "late_commits", json!({ "settle": 2 })), false),
        (with(source, "late_commits", json!({ "wait": "2s" })), false),
        (with(source, "ordering", json!("cursor")), true),
        (with(source, "ordering", json!("strict")), false),
        (with(source, "stamped_by", json!("transaction_id")), true),
        (with(source, "stamped_by", json!("me")), false),
        (with(source, "future", json!("deliver")), true),
        (with(source, "future", json!(true)), false),
        (with(source, "time_zone", json!("+02:00")), true),
        (with(source, "recovery_point", json!("5m")), true),
        (with(webhook, "attempts", json!(10)), true),
        (with(webhook, "attempts", json!(11)), false),
        (with(webhook, "timeout", json!("5s")), true),
        (with(webhook, "allow_http", json!(true)), true),
        (with(webhook, "allow_http", json!("yes")), false),
        (with(webhook, "url", json!("")), false),
        (with(webhook, "secret", json!("%S%")), true),
        (with(webhook, "secret", json!(["%S%"])), false),
        (with(webhook, "secrets", json!(["%S%", "%T%"])), true),
        (with(webhook, "secrets", json!([])), false),
        (with(webhook, "secrets", json!("%S%")), false),
        (with(webhook, "headers", json!({})), true),
        (with(webhook, "headers", json!({ "a": "b" })), true),
        (with(webhook, "headers", json!({ "a": 1 })), false),
        (with(webhook, "headers", json!({ "a": null })), false),
        (with(webhook, "headers", json!([])), false),
        (with(webhook, "bearer", json!("%T%")), true),
        (with(webhook, "bearer", json!("")), false),
        (with(webhook, "entra", json!({ "audience": "a" })), true),
        (
            with(
                webhook,
                "entra",
                json!({ "audience": "a", "client_id": "b" }),
            ),
            true,
        ),
        (with(webhook, "entra", json!({ "client_id": "b" })), false),
        (with(webhook, "entra", json!("a")), false),
        (with(webhook, "ca", json!("ca.pem")), true),
        (with(webhook, "ca", json!("")), false),
        (with(webhook, "deny_private", json!(true)), true),
        (with(webhook, "deny_private", json!("yes")), false),
        (with(webhook, "gzip", json!(true)), true),
        (with(webhook, "gzip", json!(1)), false),
        (with(webhook, "envelope", json!("cloudevents")), true),
        (with(webhook, "envelope", json!("CloudEvents")), false),
        (with(webhook, "format", json!("json")), false),
        (json!([]), false),
        (json!("poller"), false),
    ]
}

#[test]
fn the_walker_agrees_with_an_independent_validator() {
    for (document, expected) in table() {
        let ours = problems(&document);
        assert_eq!(
            VALIDATOR.is_valid(&document),
            expected,
            "validator: {document}"
        );
        assert_eq!(ours.is_empty(), expected, "walker: {document} {ours:?}");
    }
}

#[test]
fn what_has_the_right_shape_is_what_serde_accepts() {
    for (document, expected) in table() {
        if expected {
            let text = document.to_string();
            let raw = serde_json::from_value::<crate::config::raw::FunctionFile>(document);
            assert!(raw.is_ok(), "{text} {raw:?}");
        }
    }
}

#[test]
fn the_walker_knows_every_keyword_of_the_schema() {
    const KNOWN: [&str; 20] = [
        "$schema",
        "$defs",
        "$ref",
        "title",
        "description",
        "format",
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "minLength",
        "minimum",
        "maximum",
        "anyOf",
        "oneOf",
        "const",
        "default",
        "examples",
    ];
    fn visit(schema: &Value) {
        let Some(object) = schema.as_object() else {
            return;
        };
        for (keyword, value) in object {
            assert!(KNOWN.contains(&keyword.as_str()), "{keyword} in {schema}");
            match (keyword.as_str(), value) {
                ("properties" | "$defs", Value::Object(named)) => named.values().for_each(visit),
                ("anyOf" | "oneOf", Value::Array(branches)) => branches.iter().for_each(visit),
                ("items" | "additionalProperties", each) => visit(each),
                _ => {}
            }
        }
        // The walker stops at a reference or a choice, so nothing else may stand beside one.
        if ["$ref", "anyOf", "oneOf"]
            .iter()
            .any(|keyword| object.contains_key(*keyword))
        {
            for beside in [
                "type",
                "properties",
                "required",
                "items",
                "minimum",
                "minLength",
            ] {
                assert!(!object.contains_key(beside), "{beside} in {schema}");
            }
        }
    }
    visit(&schema());
}

/// A few values of every kind, and the words that our schema knows.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-2_i64..100_002).prop_map(Value::from),
        Just(json!(0.5)),
        prop::sample::select(vec!["", "id", "now", "fail", "file", "5s"]).prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "name", "url", "kind", "path", "webhook", "ttl", "other",
    ]);
    leaf.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..3)
                .prop_map(|object| Value::Object(object.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_stands_in_whichever_place_walker_and_validator_agree(
        value in any_value(),
        pointer in prop::sample::select(vec![
            "/bindings", "/bindings/0", "/bindings/0/type", "/poller", "/poller/name",
            "/poller/source", "/poller/source/cursor", "/poller/source/key", "/poller/source/start",
            "/poller/source/columns", "/poller/batch", "/poller/batch/max_rows", "/poller/deliver",
            "/poller/deliver/0", "/poller/deliver/0/webhook", "/poller/deliver/0/webhook/attempts",
            "/poller/lease", "/poller/state", "/poller/state/kind", "/pollers", "/parallel",
        ]),
    ) {
        let mut document = good();
        document["poller"]["batch"] = json!({});
        document["poller"]["state"] = json!({ "kind": "file", "path": "../state" });
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match document.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[0] = value,
            object => object[key] = value,
        }
        let ours = problems(&document);
        prop_assert_eq!(ours.is_empty(), VALIDATOR.is_valid(&document), "{} {:?}", document, ours);
    }
}
