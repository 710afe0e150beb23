//! Every JSON block is what it says: read by the parser, the decoder or the schema that the program itself uses.

use std::collections::BTreeMap;
use std::path::Path;

use dbtick::config::{App, Settings};
use dbtick::model::state::StateDocument;
use serde_json::{Value, json};

use super::pages::{Block, all_blocks, is_documentation, read, root};

#[test]
fn every_json_block_in_the_docs_is_what_it_says() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for block in all_blocks() {
        if block.language != "json" {
            continue;
        }
        match judge(&block) {
            Ok(kind) => *seen.entry(kind).or_default() += 1,
            Err(problem) => wrong.push(format!("{}: {problem}", block.place())),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    println!("{seen:?}");
    for kind in ["function.json", "batch", "message", "log line", "answer"] {
        assert!(seen.contains_key(kind), "{kind}: {seen:?}");
    }
}

#[test]
fn json_that_is_not_what_it_says_is_noticed() {
    let poller = |source: Value, deliver: Value| {
        json!({
            "bindings": [{ "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "0 * * * * *" }],
            "poller": { "source": source, "deliver": deliver }
        })
    };
    let source =
        json!({ "connection": "ORDERS_DB", "table": "orders", "cursor": "version", "key": "id" });
    let hook = json!([{ "webhook": { "url": "%ORDERS_HOOK%" } }]);
    let misspelt =
        json!({ "connection": "ORDERS_DB", "tabel": "orders", "cursor": "version", "key": "id" });
    for (value, is_good) in [
        (poller(source.clone(), hook.clone()), true),
        (poller(misspelt, hook), false),
        (
            poller(source, json!([{ "webhook": { "url": "ftp://nowhere" } }])),
            false,
        ),
        (json!({ "batch_id": "batch_1", "events": [] }), false),
        (json!({ "nobody": "knows" }), false),
        (json!({ "version": 1, "poller_name": "orders" }), false),
        (json!({ "event": "dbtick.nonsense" }), false),
        (json!({ "failed": [{ "reason": "no id" }] }), false),
    ] {
        let block = Block {
            page: "docs/page.md".into(),
            line: 1,
            language: "json".to_owned(),
            marks: Vec::new(),
            text: value.to_string(),
        };
        assert_eq!(
            judge(&block).is_ok(),
            is_good,
            "{value}: {:?}",
            judge(&block)
        );
    }
}

/// What it is, if it is that.
fn judge(block: &Block) -> Result<&'static str, String> {
    let value: Value = serde_json::from_str(&block.text).map_err(|error| error.to_string())?;
    let has = |key: &str| value.get(key).is_some();
    if block.is("elsewhere") || block.is("part") {
        return Ok("marked");
    }
    if has("bindings") {
        return function(&value).map(|()| "function.json");
    }
    if has("poller_name") {
        let name = value["poller_name"].as_str().unwrap_or_default();
        let decoded = StateDocument::from_bytes(block.text.as_bytes(), name, &[]);
        return decoded.map(|_| "state").map_err(|error| error.to_string());
    }
    if has("specversion") || value.pointer("/0/specversion").is_some() {
        return cloud_events(&value).map(|()| "CloudEvents");
    }
    if value.pointer("/events/0/payload").is_some() {
        return debezium(&value).map(|()| "Debezium");
    }
    if value.get("event").is_some_and(Value::is_object) {
        return by_schema(&value, "queue-message.schema.json").map(|()| "message");
    }
    if has("batch_id") {
        return by_schema(&value, "batch.schema.json").map(|()| "batch");
    }
    if has("failed") {
        return answer(&value).map(|()| "answer");
    }
    if let Some(event) = value["event"].as_str() {
        return log_line(event, &value).map(|()| "log line");
    }
    if has("Values") {
        let all_text = value["Values"]
            .as_object()
            .is_some_and(|all| all.values().all(Value::is_string));
        return if all_text {
            Ok("settings")
        } else {
            Err("app settings are text".to_owned())
        };
    }
    if has("customHandler") || has("extensionBundle") {
        return Ok("host.json");
    }
    // A lifecycle rule of a storage account, which only Azure can judge.
    if value.pointer("/rules/0/definition").is_some() || !is_documentation(&block.page) {
        return Ok("of Azure");
    }
    Err("nobody knows what this is: teach tests/docs/json.rs, or mark the block `part` or `elsewhere`".to_owned())
}

/// Loaded as an app loads it, with a setting for every name, beside a relay.
fn function(value: &Value) -> Result<(), String> {
    let app = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = app.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("host.json", &read("host.json"));
    write("function/function.json", &value.to_string());
    if value.get("relay").is_none() {
        write(
            "relay/function.json",
            &read("function-templates/relay/function.json"),
        );
    }
    let text = value.to_string();
    let named = text.split('%').skip(1).step_by(2).map(str::to_owned);
    let mut settings: BTreeMap<String, String> = named
        .map(|name| {
            let value = match &*name {
                name if name.contains("SECRET") => "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                name if name.contains("KEY") => "a-key-of-a-function",
                _ => "https://receiver.example/orders",
            };
            (name, value.to_owned())
        })
        .collect();
    connections(value, &mut settings);
    let storage = "AccountName=shop;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net";
    settings.insert("AzureWebJobsStorage".to_owned(), storage.to_owned());
    settings.insert(
        "DBTICK_STATE_DIR".to_owned(),
        state.path().display().to_string(),
    );
    let settings: Settings = settings.into_iter().collect();
    let loaded = App::load(app.path(), &settings);
    let faults: Vec<String> = loaded.faults().map(ToString::to_string).collect();
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults.join("; "))
    }
}

/// Of a database where it is that of a source, of a storage account elsewhere.
fn connections(value: &Value, settings: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            let reads = members.contains_key("cursor") || members.contains_key("payload");
            if let (true, Some(name)) = (reads, members.get("connection").and_then(Value::as_str)) {
                settings.insert(
                    name.to_owned(),
                    "postgres://reader@localhost/shop".to_owned(),
                );
            }
            members
                .values()
                .for_each(|member| connections(member, settings));
        }
        Value::Array(members) => members
            .iter()
            .for_each(|member| connections(member, settings)),
        _ => {}
    }
}

fn by_schema(value: &Value, name: &str) -> Result<(), String> {
    let schema: Value = serde_json::from_str(&read(Path::new("schema").join(name))).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator.validate(value).map_err(|error| error.to_string())
}

/// The native events inside are those of a batch.
fn cloud_events(value: &Value) -> Result<(), String> {
    let events = value
        .as_array()
        .ok_or("a batch of CloudEvents is an array")?;
    for event in events {
        for name in ["specversion", "id", "source", "type"] {
            event[name].as_str().ok_or(format!("{name} is missing"))?;
        }
        let batch = json!({
            "version": 1, "poller": event["poller"], "batch_id": event["batchid"], "attempt": 1,
            "fence": { "token": 1, "sequence": 1 }, "types": {}, "events": [event["data"]]
        });
        by_schema(&batch, "batch.schema.json")?;
    }
    Ok(())
}

fn debezium(value: &Value) -> Result<(), String> {
    for event in value["events"].as_array().into_iter().flatten() {
        let payload = event["payload"].as_object().ok_or("payload is missing")?;
        let names: Vec<_> = payload.keys().map(String::as_str).collect();
        if names != ["before", "after", "op", "source"]
            && names != ["after", "before", "op", "source"]
        {
            return Err(format!("{names:?}"));
        }
    }
    Ok(())
}

fn answer(value: &Value) -> Result<(), String> {
    for failed in value["failed"].as_array().ok_or("failed is a list")? {
        failed["id"].as_str().ok_or("an id is missing")?;
        let known = |name: &String| ["id", "reason", "retry"].contains(&name.as_str());
        if !failed.as_object().is_some_and(|it| it.keys().all(known)) {
            return Err(format!("{failed}"));
        }
    }
    Ok(())
}

/// Its name stands in the sources, its outcome in the page of operations.
fn log_line(event: &str, value: &Value) -> Result<(), String> {
    let known = [
        "dbtick.tick",
        "dbtick.refused",
        "dbtick.schema",
        "dbtick.resolved",
    ];
    if !known.contains(&event) {
        return Err(format!("{event} is no line of the log"));
    }
    if let Some(outcome) = value["outcome"].as_str() {
        let report = std::fs::read_to_string(root().join("src/tick/report.rs")).unwrap();
        if !report.contains(&format!("=> \"{outcome}\",")) {
            return Err(format!("{outcome} is no outcome"));
        }
    }
    Ok(())
}
