use serde_json::{Value, json};

use super::ask::{Ask, below};
use crate::config::StatusFunction;

fn function(signs_in: bool) -> StatusFunction {
    StatusFunction {
        name: "status".to_owned(),
        path: "api/dbtick".to_owned(),
        request: "req".to_owned(),
        response: "res".to_owned(),
        actions: true,
        signs_in,
    }
}

fn asked(signs_in: bool, changes: Value) -> Ask {
    let mut request = json!({
        "Url": "https://app.example/api/dbtick/checkpoints/orders?code=canary-key",
        "Method": "GET", "Query": { "code": "canary-key" },
        "Headers": { "X-Functions-Key": ["canary-key"] }, "Params": {}, "Identities": [],
    });
    for (name, value) in changes.as_object().unwrap() {
        request[name] = value.clone();
    }
    let body = json!({ "Data": { "req": request }, "Metadata": {} }).to_string();
    Ask::wrapped(&function(signs_in), body.as_bytes()).unwrap()
}

#[test]
fn a_request_is_read_from_an_invocation() {
    let ask = asked(
        false,
        json!({
            "Method": "post", "Body": "{}",
            "Headers": { "Content-Type": ["application/json; charset=utf-8"], "X-Dbtick-Action": ["1"] },
        }),
    );
    assert_eq!((ask.method.as_str(), &ask.body[..]), ("POST", &b"{}"[..]));
    assert_eq!(ask.path, ["checkpoints", "orders"]);
    assert!(ask.is_json && ask.is_meant);
    let plain = asked(
        false,
        json!({ "Headers": { "content-type": ["text/plain"], "x-dbtick-action": ["yes"] } }),
    );
    assert!(!plain.is_json && !plain.is_meant);
    for not_one in [
        "",
        "null",
        "{}",
        r#"{"Data":{"tick":{}}}"#,
        r#"{"Data":{"req":{"Url":"x"}}}"#,
    ] {
        assert!(Ask::wrapped(&function(false), not_one.as_bytes()).is_none());
    }
}

#[test]
fn who_asks_is_what_the_host_tells_and_never_a_key() {
    let key = json!([{
        "AuthenticationType": "WebJobsAuthLevel", "IsAuthenticated": true, "Name": null,
        "Claims": [
            { "Type": "http://schemas.microsoft.com/2017/07/functions/claims/authlevel", "Value": "Function" },
            { "Type": "http://schemas.microsoft.com/2017/07/functions/claims/keyid", "Value": "night\nshift" },
        ],
    }]);
    let ada = json!({ "X-MS-CLIENT-PRINCIPAL-NAME": ["ada@example.com"] });
    let named = json!([{ "IsAuthenticated": true, "Name": "ada" }]);
    for (signs_in, identities, headers, expected) in [
        (false, json!([]), json!({}), "http:unknown"),
        (false, key.clone(), json!({}), "http:key night shift"),
        // Anybody can send it where the platform does not.
        (false, key.clone(), ada.clone(), "http:key night shift"),
        (false, named.clone(), json!({}), "http:unknown"),
        (true, json!([]), ada.clone(), "http:ada@example.com"),
        (true, key, ada, "http:ada@example.com (key night shift)"),
        (true, named, json!({}), "http:ada"),
    ] {
        let ask = asked(
            signs_in,
            json!({ "Identities": identities, "Headers": headers }),
        );
        assert_eq!(ask.caller, expected);
    }
    let long = json!({ "X-MS-CLIENT-PRINCIPAL-NAME": ["a".repeat(1000)] });
    assert!(asked(true, json!({ "Headers": long })).caller.len() < 150);
}

#[test]
fn only_what_is_below_the_route_is_ours() {
    for (path, expected) in [
        ("/api/dbtick", Some("")),
        ("/api/dbtick/", Some("")),
        ("/API/DbTick/health", Some("health")),
        ("/api/dbtick//health", Some("health")),
        ("/api/dbticks/health", None),
        ("/api", None),
        ("/", None),
    ] {
        let found = below("api/dbtick", path).map(|parts| parts.join("/"));
        assert_eq!(found.as_deref(), expected, "{path}");
    }
}
