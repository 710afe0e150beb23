//! What a user sees of the configuration: an app directory in, pollers or faults out.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

#[path = "config/policy.rs"]
mod policy;
#[path = "config/queue.rs"]
mod queue;
#[path = "config/relay.rs"]
mod relay;
#[path = "config/status.rs"]
mod status;
#[path = "config/webhook.rs"]
mod webhook;

use std::fs;
use std::path::Path;
use std::time::Duration;

use dbtick::config::{
    App, CleanUpHow, Connection, Deletes, Function, FunctionPollers, HostRetry, NullPolicy, Rows,
    Settings, SinkConfig, Start, StateConfig, Target, Tombstones, WebhookConfig, schema,
};
use dbtick::model::position::Scalar;
use serde_json::{Value, json};
use tempfile::TempDir;

const SETTINGS: [(&str, &str); 6] = [
    ("OTHER", "sqlite:other.db"),
    ("ORDERS_DB", "sqlite:data/orders.db"),
    ("ORDERS_HOOK", "https://example.org/hook?code=canary"),
    (
        "STORAGE",
        "AccountName=shop;AccountKey=Y2FuYXJ5;EndpointSuffix=core.windows.net",
    ),
    ("PG", "postgres://user:canary@db/orders"),
    ("VAULT", "@Microsoft.KeyVault(SecretUri=https://canary)"),
];

/// An app on disk, loaded with [`SETTINGS`], a state directory and what a test adds.
struct World {
    directory: TempDir,
    settings: Vec<(String, String)>,
}

impl World {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        fs::create_dir(directory.path().join("app")).unwrap();
        let state = directory.path().join("state").display().to_string();
        let settings = SETTINGS.map(|(name, value)| (name.into(), value.into()));
        Self {
            directory,
            settings: settings.into(),
        }
        .setting("DBTICK_STATE_DIR", &state)
    }

    fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    fn file(self, path: &str, text: &str) -> Self {
        let file = self.directory.path().join("app").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        self
    }

    fn function(self, name: &str, document: &Value) -> Self {
        self.file(&format!("{name}/function.json"), &document.to_string())
    }

    fn poller(self, name: &str, poller: &Value) -> Self {
        self.function(name, &timer(json!({ "poller": poller })))
    }

    fn load(&self) -> App {
        let settings: Settings = self.settings.iter().cloned().collect();
        App::load(&self.directory.path().join("app"), &settings)
    }

    fn faults(&self) -> Vec<String> {
        self.load().faults().map(ToString::to_string).collect()
    }
}

fn timer(mut document: Value) -> Value {
    document["bindings"] = json!([
        { "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "*/15 * * * * *" }
    ]);
    document
}

fn smallest() -> Value {
    json!({
        "source": { "connection": "ORDERS_DB", "table": "orders", "cursor": "updated_at", "key": "id" },
        "deliver": [{ "webhook": { "url": "%ORDERS_HOOK%" } }]
    })
}

/// The smallest poller with what `changes` says on top of it; `null` takes a key away.
fn poller(changes: Value) -> Value {
    fn merge(target: &mut Value, changes: Value) {
        match (target, changes) {
            (Value::Object(target), Value::Object(changes)) => {
                for (key, change) in changes {
                    if change.is_null() {
                        target.remove(&key);
                    } else {
                        merge(target.entry(key).or_insert(Value::Null), change);
                    }
                }
            }
            (target, change) => *target = change,
        }
    }
    let mut poller = smallest();
    merge(&mut poller, changes);
    poller
}

fn only(app: &App) -> &FunctionPollers {
    match app.function("orders") {
        Some(Function::Pollers(function)) => function,
        other => panic!("{other:?}"),
    }
}

fn webhook_of(sink: &SinkConfig) -> &WebhookConfig {
    match &sink.to {
        Target::Webhook(webhook) => webhook,
        other => panic!("{other:?}"),
    }
}

/// Each expected text begins a fault at `orders/function.json: poller.`; there are no others.
#[track_caller]
fn check(changes: Value, expected: &[&str]) {
    let faults = World::new().poller("orders", &poller(changes)).faults();
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (fault, expected) in faults.iter().zip(expected) {
        let expected = format!("orders/function.json: poller.{expected}");
        assert!(fault.starts_with(&expected), "{fault}\n{expected}");
    }
}

#[test]
fn the_smallest_poller_gets_every_default() {
    let world = World::new().poller("Orders", &smallest());
    let app = world.load();
    let Some(Function::Pollers(function)) = app.function("Orders") else {
        panic!("{app:?}");
    };
    assert!(app.function("orders").is_none(), "names are exact");
    assert_eq!((function.parallel, function.retry), (4, None));
    let [poller] = function.pollers.as_slice() else {
        panic!("{function:?}");
    };
    assert_eq!(poller.name, "orders");
    let source = &poller.source;
    let Connection::Sqlite { file } = &source.connection else {
        panic!("{:?}", source.connection);
    };
    assert_eq!(*file, app.root.join("data/orders.db"));
    assert_eq!(source.connection_name, "ORDERS_DB");
    assert!(source.connection_identity.starts_with("sqlite:/"));
    assert!(source.connection_identity.ends_with("/data/orders.db"));
    assert_eq!(
        (&*source.cursor, &*source.key),
        (&["updated_at".to_owned()][..], &["id".to_owned()][..])
    );
    assert_eq!(
        (source.start.clone(), source.nulls),
        (Start::Beginning, NullPolicy::Fail)
    );
    assert_eq!((&source.columns, &source.filter), (&None, &None));
    assert_eq!(
        (poller.batch.max_rows.get(), poller.batch.max_bytes.get()),
        (1000, 1 << 20)
    );
    assert_eq!(poller.batch.max_wait, Duration::from_secs(5));
    let lease = poller.lease;
    assert_eq!(
        [lease.ttl, lease.heartbeat, lease.margin],
        [24, 7, 5].map(Duration::from_secs)
    );
    let [sink] = poller.deliver.as_slice() else {
        panic!("{poller:?}");
    };
    assert_eq!(sink.name, "webhook");
    let webhook = webhook_of(sink);
    assert_eq!(
        webhook.url.expose().as_str(),
        "https://example.org/hook?code=canary"
    );
    assert_eq!(
        (webhook.timeout, webhook.attempts),
        (Duration::from_secs(30), 3)
    );
    assert_eq!(app.function_timeout, Some(Duration::from_secs(300)));
}

#[test]
fn every_key_reaches_the_poller() {
    let world = World::new().setting("WAIT", "2").poller(
        "orders",
        &poller(json!({
            "name": "Shop-Orders",
            "source": {
                "table": "main.orders", "cursor": ["day", "seq"], "key": ["id", "line"],
                "columns": ["id", "%ORDERS_COLUMN%"], "filter": "name LIKE '%draft%'",
                "start": "now", "nulls": "ignore"
            },
            "batch": { "max_rows": 10, "max_bytes": "64KiB", "max_wait": "%WAIT%s" },
            "deliver": [
                { "name": "Hook", "webhook": {
                    "url": "http://intranet/hook", "timeout": "00:00:10", "attempts": 1, "allow_http": true } },
                { "webhook": { "url": "http://localhost:1/" } }
            ],
            "lease": { "ttl": "1m", "heartbeat": "20s", "margin": "10s" },
            "state": { "kind": "file", "path": "../elsewhere/./x/.." }
        })),
    ).setting("ORDERS_COLUMN", "amount");
    let app = world.load();
    assert_eq!(world.faults(), [""; 0]);
    let poller = &only(&app).pollers[0];
    let source = &poller.source;
    assert_eq!(poller.name, "shop-orders");
    assert_eq!(
        source.rows,
        Rows::Table {
            schema: Some("main".into()),
            table: "orders".into()
        }
    );
    assert_eq!(source.cursor, ["day", "seq"]);
    assert_eq!(source.key, ["id", "line"]);
    assert_eq!(
        source.columns.as_deref(),
        Some(&["id".to_owned(), "amount".to_owned()][..])
    );
    assert_eq!(source.filter.as_deref(), Some("name LIKE '%draft%'"));
    assert_eq!(
        (source.start.clone(), source.nulls),
        (Start::Now, NullPolicy::Ignore)
    );
    assert_eq!(
        (poller.batch.max_rows.get(), poller.batch.max_bytes.get()),
        (10, 65_536)
    );
    assert_eq!(poller.batch.max_wait, Duration::from_secs(2));
    let names: Vec<_> = poller
        .deliver
        .iter()
        .map(|sink| sink.name.as_str())
        .collect();
    assert_eq!(names, ["hook", "webhook-1"]);
    let webhook = webhook_of(&poller.deliver[0]);
    assert_eq!(
        (webhook.timeout, webhook.attempts),
        (Duration::from_secs(10), 1)
    );
    assert_eq!(poller.lease.margin, Duration::from_secs(10));
    let parent = app.root.parent().unwrap();
    assert_eq!(
        poller.state,
        StateConfig::File {
            directory: parent.join("elsewhere")
        }
    );
}

#[test]
fn a_start_deletions_and_an_outbox_can_be_told() {
    let source = |changes: Value| {
        let world = World::new().poller("orders", &poller(json!({ "source": changes })));
        only(&world.load()).pollers[0].source.clone()
    };
    for (from, expected) in [
        (json!(7), Scalar::Integer(7)),
        (json!("2026-01-01"), Scalar::Text("2026-01-01".into())),
    ] {
        let start = source(json!({ "start": { "from": from } })).start;
        assert_eq!(start, Start::From(expected));
    }
    let soft = source(json!({ "deletes": { "soft": "gone_at" } })).deletes;
    assert_eq!(soft, Deletes::Soft("gone_at".into()));
    let changes = json!({ "deletes": { "tombstones": { "table": "old.gone", "key": "row" } } });
    let told = source(changes);
    let expected = Tombstones {
        schema: Some("old".into()),
        table: "gone".into(),
        cursor: told.cursor.clone(),
        key: vec!["row".into()],
    };
    assert_eq!(told.deletes, Deletes::Tombstones(expected));
    for (clean_up, expected) in [
        (json!("keep"), None),
        (json!("delete"), Some(CleanUpHow::Delete)),
        (
            json!({ "mark": "sent" }),
            Some(CleanUpHow::Mark("sent".into())),
        ),
    ] {
        let outbox = json!({ "outbox": { "payload": "body", "clean_up": clean_up } });
        let outbox = source(outbox).outbox.unwrap();
        assert_eq!(outbox.payload, "body");
        assert_eq!(outbox.clean_up.map(|clean_up| clean_up.how), expected);
    }
}

#[test]
fn a_query_stands_in_place_of_a_table_and_keeps_its_percent_signs() {
    let query = "SELECT * FROM orders WHERE name LIKE '%x%'";
    let world = World::new().poller(
        "orders",
        &poller(json!({ "source": { "table": null, "query": query } })),
    );
    let app = world.load();
    assert_eq!(only(&app).pollers[0].source.rows, Rows::Query(query.into()));
}

#[test]
fn faults_in_the_shape_are_all_reported_with_a_suggestion() {
    check(
        json!({
            "source": { "curser": "x", "cursor": null, "late_commits": "never", "start": "middle", "columns": "id" },
            "batch": { "maxRows": 5, "max_rows": 0 },
            "deliver": [{ "webhook": { "url": 5, "format": "json" }, "require": true }, { "queue": {} }],
            "zebra": 1
        }),
        &[
            "batch.maxRows: is not a known key (did you mean max_rows?)",
            "batch.max_rows: is out of range: 0 (from 1 to 100000)",
            "deliver[0].require: is not a known key (did you mean required?)",
            "deliver[0].webhook.format: is not available in this version",
            "deliver[0].webhook.url: must be a string, not a number",
            "deliver[1].queue.queue: is missing",
            "source.cursor: is missing",
            "source.columns: must be an array of strings, not a string (The columns to deliver;",
            "source.curser: is not a known key (did you mean cursor?)",
            "source.late_commits: is not one of the choices: never (write one of: auto, off)",
            "source.start: is not one of the choices: middle (write one of: beginning, now)",
            "zebra: is not a known key (the keys here are: ",
        ],
    );
}

#[test]
fn an_unknown_key_does_not_hide_a_wrong_value() {
    check(
        poller(json!({ "bach": {}, "lease": { "ttl": "0s", "hartbeat": "1s" } })),
        &[
            "bach: is not a known key",
            "lease.hartbeat: is not a known key",
            "lease.ttl: is zero",
        ],
    );
}

#[test]
fn faults_in_the_values_are_all_reported() {
    check(
        json!({
            "name": "no spaces",
            "source": { "connection": "NOPE", "table": "a.b.c", "cursor": ["x", "x"], "key": " " },
            "batch": { "max_bytes": "1mb", "max_wait": "5 minutes" },
            "deliver": [{ "webhook": { "url": "%MISSING%", "timeout": "0s" } }],
            "lease": { "ttl": "10s", "heartbeat": "5s", "margin": "5s" },
            "state": { "kind": "file", "path": "state" }
        }),
        &[
            "name: is not a name: no spaces (use ",
            "source.connection: no app setting has this name: NOPE (add ",
            "source.table: is not the name of a table: a.b.c (write ",
            "source.cursor[1]: is named twice: x (",
            "source.key: is empty (",
            "batch.max_bytes: is not a size: 1mb (write it like 512B, 64KiB, 1MiB or 1MB)",
            "batch.max_wait: is not a duration: 5 minutes (write it like 500ms",
            "deliver[0].webhook.url: '%MISSING%' does not resolve to a value. (add ",
            "deliver[0].webhook.timeout: is zero (",
            "lease.heartbeat: must be less than half of ttl (10s): 5s (",
            "lease.margin: must be less than ttl minus heartbeat (5s): 5s (",
            "state.path: is inside the app root, where a changed file can restart the host (",
        ],
    );
}

#[test]
fn single_faults_say_what_to_do() {
    let source = |change: Value| json!({ "source": change });
    let url = |url: &str| json!({ "deliver": [{ "webhook": { "url": url } }] });
    for (changes, expected) in [
        (
            source(json!({ "query": "SELECT 1" })),
            "source.query: stands beside table (keep one",
        ),
        (
            source(json!({ "table": null })),
            "source.table: is missing (name the table",
        ),
        (
            source(json!({ "deletes": {} })),
            "source.deletes: names no way (name a column",
        ),
        (
            source(json!({ "deletes": { "soft": "gone", "tombstones": { "table": "t" } } })),
            "source.deletes.tombstones: stands beside soft",
        ),
        (
            source(json!({ "deletes": { "tombstones": { "table": "t", "key": ["a", "b"] } } })),
            "source.deletes.tombstones.key: has 2 column(s), and source.key has 1",
        ),
        (
            source(json!({ "table": null, "query": "SELECT 1", "outbox": { "payload": "p" } })),
            "source.outbox: needs a table, and the source is a query",
        ),
        (
            source(json!({ "outbox": { "payload": "p", "connection": "X" } })),
            "source.outbox.connection: is used by clean_up alone",
        ),
        (
            source(json!({ "outbox": { "payload": "p", "clean_up": { "mark": "id" } } })),
            "source.outbox.clean_up.mark: would move the row in its own order",
        ),
        (
            source(
                json!({ "outbox": { "payload": "p", "clean_up": "delete", "connection": "OTHER" } }),
            ),
            "source.outbox.connection: is another database than the source",
        ),
        (
            source(json!({ "cursor": ["a", "b"], "start": { "from": 7 } })),
            "source.start.from: is one value, and the cursor has several columns",
        ),
        (
            source(json!({ "connection": "VAULT" })),
            "source.connection: the app setting is a Key Vault reference",
        ),
        (
            source(json!({ "connection": "sqlite://x.db" })),
            "source.connection: is a connection, and must be the name of an app setting",
        ),
        (
            url("%VAULT%"),
            "deliver[0].webhook.url: the app setting is a Key Vault reference",
        ),
        (
            url("http://example.org"),
            "deliver[0].webhook.url: is plain http to another machine",
        ),
        (
            url("https://h/100%"),
            "deliver[0].webhook.url: the '%' has no closing '%', at position 13",
        ),
        (
            json!({ "batch": { "max_bytes": "1023B" } }),
            "batch.max_bytes: is out of range: 1023B (from 1KiB to 64MiB)",
        ),
        (
            json!({ "batch": { "max_bytes": "65MiB" } }),
            "batch.max_bytes: is out of range: 65MiB",
        ),
        (
            json!({ "state": { "kind": "cloud" } }),
            "state.kind: is not one of the choices: cloud (write one of: blob, file, sql)",
        ),
        (
            json!({ "state": { "kind": "blob", "path": "../x" } }),
            "state.path: means nothing here: it belongs to \"kind\": \"file\" (remove the key)",
        ),
        (
            json!({ "state": { "kind": "file", "path": "../x", "connection": "STORAGE" } }),
            "state.connection: means nothing here: it belongs to \"kind\": \"blob\"",
        ),
        (
            json!({ "state": { "kind": "file", "path": "../x", "container": "c" } }),
            "state.container: means nothing here",
        ),
        (
            json!({ "state": { "kind": "file" } }),
            "state.path: is missing (name a directory",
        ),
        (
            json!({ "state": { "path": "../x" } }),
            "state.kind: is missing (add \"kind\": \"file\"",
        ),
        (
            json!({ "state": { "connection": "NOPE" } }),
            "state.connection: no app setting has this name: NOPE (set NOPE to the connection string",
        ),
        (
            json!({ "state": {} }),
            "state: no app setting has this name: AzureWebJobsStorage (set AzureWebJobsStorage to",
        ),
        (
            json!({ "state": { "connection": "VAULT" } }),
            "state.connection: the app setting is a Key Vault reference that the platform did not resolve: VAULT",
        ),
        (
            json!({ "state": { "connection": "AccountName=a;AccountKey=canary" } }),
            "state.connection: is a connection, and must be the name of an app setting",
        ),
        (
            json!({ "state": { "connection": "STORAGE", "container": "Db_State" } }),
            "state.container: is not the name of a container: Db_State (use 3 to 63",
        ),
        (
            json!({ "state": { "connection": "STORAGE" }, "lease": { "margin": "1900ms" } }),
            "lease.margin: is too short for the clock of a storage account, which counts whole seconds: \
             1900ms (write at least 2s)",
        ),
        (
            json!({ "state": { "kind": "file", "path": "../app/x" } }),
            "state.path: is inside the app root",
        ),
        (
            json!({ "deliver": [
            { "name": "a", "webhook": { "url": "https://h" } },
            { "name": "A", "webhook": { "url": "https://h" } }
        ] }),
            "deliver[1].name: another receiver of this poller has the same name",
        ),
    ] {
        check(changes, &[expected]);
    }
}

#[test]
fn malformed_json_is_reported_with_line_and_column() {
    let faults = World::new()
        .file("orders/function.json", "{\n  \"poller\": {,}\n}")
        .faults();
    assert_eq!(
        faults,
        [
            "orders/function.json: is not sound JSON, at line 2 column 14: key must be a string (mend the file at that place)"
        ]
    );
}

#[test]
fn a_key_that_is_written_twice_is_refused_where_a_poller_lives() {
    let twice = |key: &str| format!("{{ \"bindings\": [],\n \"{key}\": {{}}, \"{key}\": {{}} }}");
    let faults = World::new()
        .file("orders/function.json", &twice("poller"))
        .file("other/function.json", &twice("extra"))
        .faults();
    let expected = "orders/function.json: is not sound JSON, at line 2 column 23: \
                    a key is written twice: poller (";
    assert!(faults[0].starts_with(expected), "{faults:#?}");
    assert!(
        faults.iter().all(|fault| fault.starts_with("orders/")),
        "{faults:#?}"
    );
}

#[test]
fn a_broken_function_hides_no_good_one() {
    let world = World::new()
        .poller("broken", &json!({}))
        .file("worse/function.json", "{")
        .poller("orders", &smallest())
        .function(
            "status",
            &json!({ "bindings": [{ "type": "httpTrigger" }] }),
        )
        .file("notes/readme.txt", "no function here");
    let app = world.load();
    assert!(matches!(app.function("broken"), Some(Function::Faulty(faults)) if faults.len() == 2));
    assert!(matches!(app.function("worse"), Some(Function::Faulty(_))));
    assert!(matches!(app.function("status"), Some(Function::NotAPoller)));
    assert!(app.function("notes").is_none());
    assert_eq!(only(&app).pollers.len(), 1);
    assert_eq!(app.pollers().count(), 1);
}

#[test]
fn several_pollers_share_a_function_under_names_of_their_own() {
    let blocks = [smallest(), poller(json!({ "name": "own" })), smallest()];
    let document =
        timer(json!({ "pollers": blocks, "parallel": 2, "retry": { "strategy": "fixedDelay" } }));
    let app = World::new().function("orders", &document).load();
    let function = only(&app);
    let names: Vec<_> = function
        .pollers
        .iter()
        .map(|poller| poller.name.as_str())
        .collect();
    assert_eq!(names, ["orders-0", "own", "orders-2"]);
    let unreadable = Some(HostRetry::Unreadable);
    assert_eq!((function.parallel, function.retry), (2, unreadable));
}

#[test]
fn a_retry_policy_in_host_json_counts_for_every_function() {
    let retry = r#"{ "strategy": "fixedDelay", "maxRetryCount": -1, "delayInterval": "00:00:10" }"#;
    let host = format!("\u{feff}{{ \"retry\": {retry}, \"functionTimeout\": \"-1\" }}");
    let world = World::new()
        .file("host.json", &host)
        .poller("orders", &smallest());
    let app = world.load();
    assert_eq!(only(&app).retry, Some(HostRetry::Endless));
    assert_eq!(app.function_timeout, None);
}

#[test]
fn the_function_around_a_poller_is_checked_too() {
    let out = json!({ "type": "queue", "direction": "out", "name": "q" });
    let mut with_output = timer(json!({ "poller": smallest() }));
    with_output["bindings"].as_array_mut().unwrap().push(out);
    let http = json!([{ "type": "httpTrigger", "direction": "in" }]);
    for (document, expected) in [
        (
            with_output,
            "bindings[1]: is an output, which the host writes after our answer",
        ),
        (
            json!({ "poller": smallest(), "bindings": http }),
            "bindings: has no timerTrigger",
        ),
        (json!({ "poller": smallest() }), "bindings: is missing"),
        (
            timer(json!({ "poller": smallest(), "pollers": [smallest()] })),
            "pollers: stands beside poller",
        ),
        (
            timer(json!({ "poller": smallest(), "parallel": 2 })),
            "parallel: means nothing without pollers",
        ),
        (
            timer(json!({ "pollers": [smallest()], "paralel": 2 })),
            "paralel: is not a known key (did you mean parallel?)",
        ),
        (
            timer(json!({ "Poller": smallest() })),
            "Poller: is not a known key (did you mean poller?)",
        ),
        (timer(json!({ "pollers": [] })), "pollers: is empty"),
    ] {
        let faults = World::new().function("orders", &document).faults();
        assert_eq!(faults.len(), 1, "{faults:#?}");
        let expected = format!("orders/function.json: {expected}");
        assert!(
            faults[0].starts_with(&expected),
            "{}\n{expected}",
            faults[0]
        );
    }
}

#[test]
fn two_pollers_with_one_name_are_both_refused_even_if_one_is_broken() {
    let broken = poller(json!({ "name": "ORDERS", "batch": { "max_wait": "x" } }));
    let world = World::new()
        .poller("orders", &smallest())
        .poller("other", &broken);
    assert_eq!(
        world.faults(),
        [
            "orders/function.json: poller.name: another poller of the app has the same name: orders \
         (give each its own name; see other/function.json poller)",
            "other/function.json: poller.batch.max_wait: is not a duration: x \
         (write it like 500ms, 5s, 2m, 1h, 7d or 00:01:30)",
            "other/function.json: poller.name: another poller of the app has the same name: orders \
         (give each its own name; see orders/function.json poller)",
        ]
    );
}

#[test]
fn state_needs_a_place_and_files_are_refused_on_azure() {
    let file = poller(json!({ "state": { "kind": "file", "path": "../state" } }));
    for (settings, block, expected) in [
        (
            vec![("DBTICK_STATE_DIR", "")],
            smallest(),
            "no app setting has this name: AzureWebJobsStorage",
        ),
        (
            vec![
                ("DBTICK_STATE_DIR", ""),
                ("AzureWebJobsStorage", "nonsense"),
            ],
            smallest(),
            "is not a connection string of a storage account: AzureWebJobsStorage",
        ),
        (
            vec![("DBTICK_STATE_DIR", "state")],
            smallest(),
            "is inside the app root",
        ),
        (
            vec![("CONTAINER_NAME", "c"), ("WEBSITE_SITE_NAME", "s")],
            smallest(),
            "files on an Azure instance vanish",
        ),
        (
            vec![("WEBSITE_POD_NAME", "c"), ("WEBSITE_SITE_NAME", "s")],
            file.clone(),
            "path: files on an Azure instance vanish",
        ),
        (
            vec![("WEBSITE_INSTANCE_ID", "c")],
            file,
            "path: files on an Azure instance vanish",
        ),
    ] {
        let mut world = World::new().poller("orders", &block);
        for (name, value) in settings {
            world = world.setting(name, value);
        }
        let faults = world.faults();
        let expected = match expected.strip_prefix("path: ") {
            Some(expected) => format!("orders/function.json: poller.state.path: {expected}"),
            None => format!("orders/function.json: poller.state: {expected}"),
        };
        assert!(
            matches!(&*faults, [fault] if fault.starts_with(&expected)),
            "{faults:#?}"
        );
    }
}

#[test]
fn state_lives_in_the_storage_account_of_the_app_unless_told() {
    let storage = ("AzureWebJobsStorage", "UseDevelopmentStorage=true");
    for (settings, block, expected) in [
        (
            vec![("DBTICK_STATE_DIR", ""), storage],
            json!({}),
            Some(("AzureWebJobsStorage", "db-state")),
        ),
        (vec![storage], json!({}), None),
        (
            vec![
                ("DBTICK_STATE_DIR", ""),
                storage,
                ("WEBSITE_INSTANCE_ID", "i"),
            ],
            json!({}),
            Some(("AzureWebJobsStorage", "db-state")),
        ),
        (
            vec![storage],
            json!({ "state": { "container": "mine" } }),
            Some(("AzureWebJobsStorage", "mine")),
        ),
        (
            vec![],
            json!({ "state": { "kind": "blob", "connection": "%WHICH%", "container": "a-%WHERE%" } }),
            Some(("STORAGE", "a-1")),
        ),
    ] {
        let mut world = World::new()
            .setting("WHICH", "STORAGE")
            .setting("WHERE", "1")
            .poller("orders", &poller(block));
        for (name, value) in settings {
            world = world.setting(name, value);
        }
        let app = world.load();
        let found = match &only(&app).pollers[0].state {
            StateConfig::Blob {
                endpoint,
                container,
            } => Some((endpoint.setting(), container.as_str())),
            StateConfig::File { .. } | StateConfig::Sql { .. } => None,
        };
        assert_eq!(found, expected);
    }
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_does_not_smuggle_state_into_the_app_root() {
    let world = World::new().poller(
        "orders",
        &poller(json!({ "state": { "kind": "file", "path": "../link/state" } })),
    );
    let base = world.directory.path();
    std::os::unix::fs::symlink(base.join("app"), base.join("link")).unwrap();
    assert_eq!(world.faults().len(), 1);
}

#[test]
fn nothing_printed_contains_a_secret() {
    let good = poller(json!({
        "deliver": [{ "webhook": {
            "url": "https://canary:canary@example.org/%TOKEN%?sig=canary",
            "secrets": ["%KEY%", "%KEY%"],
            "headers": { "x-key": "%SECRET%", "x-other": "canary" }
        } }, { "webhook": { "url": "https://example.org/", "bearer": "%BEARER%" } }]
    }));
    let bad = |connection: &str| {
        poller(json!({
            "source": { "connection": connection },
            "deliver": [
                { "webhook": { "url": "http://user:canary@example.org/?sig=canary" } },
                { "webhook": { "url": "%ORDERS_HOOK%", "secret": "canary" } },
                { "webhook": { "url": "%ORDERS_HOOK%", "secrets": ["%SECRET%", "whsec_canary"] } },
                { "webhook": { "url": "%ORDERS_HOOK%", "bearer": "%SECRET%", "headers": { "x": "%LINES%" } } },
                { "webhook": { "url": "%ORDERS_HOOK%", "bearer": "canary" } },
                { "webhook": { "url": "%ORDERS_HOOK%", "entra": { "audience": "%SECRET%" } } },
            ],
            "batch": { "max_wait": "%SECRET%", "max_bytes": "%SECRET%" },
            "lease": { "ttl": "%SECRET%" },
            "name": "%SECRET%",
        }))
    };
    let world = World::new()
        .setting("TOKEN", "path")
        .setting("SECRET", "canary canary")
        .setting("BEARER", "canary")
        .setting("LINES", "canary\r\nx: canary")
        .setting("KEY", "whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5")
        .poller("good", &good)
        .poller("direct", &bad("postgres://user:canary@db/x"))
        .poller("postgres", &bad("PG"))
        .poller("vault", &bad("VAULT"))
        .poller(
            "blob",
            &poller(json!({ "state": { "connection": "STORAGE" } })),
        );
    let app = world.load();
    assert_eq!(app.pollers().count(), 2);
    let settings: Settings = world.settings.iter().cloned().collect();
    let printed = format!("{app:#?}\n{settings:?}\n{}", world.faults().join("\n"));
    assert!(printed.len() > 1000);
    assert!(!printed.contains("canary"), "{printed}");
    assert!(!printed.contains("Y2FuYXJ5"), "{printed}");
}

#[test]
fn the_checked_in_schema_is_the_generated_one() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/poller.schema.json");
    let generated = format!("{:#}\n", schema());
    if option_env!("UPDATE_SCHEMA").is_some() {
        fs::write(&file, &generated).unwrap();
    }
    let checked_in = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        checked_in == generated,
        "schema/poller.schema.json is old: UPDATE_SCHEMA=1 cargo test --test config"
    );
}

#[test]
fn the_smallest_poller_satisfies_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    assert!(validator.is_valid(&timer(json!({ "poller": smallest() }))));
}

#[test]
fn state_in_a_table_names_its_database() {
    let state = |state: Value| World::new().poller("orders", &poller(json!({ "state": state })));
    let app = state(json!({ "kind": "sql", "connection": "PG", "table": "ops.dbtick" })).load();
    let StateConfig::Sql {
        connection_name,
        connection,
        table,
    } = &only(&app).pollers[0].state
    else {
        panic!("{app:?}");
    };
    let Connection::Postgres(server) = &**connection else {
        panic!("{connection:?}");
    };
    assert_eq!((connection_name.as_str(), server.port), ("PG", 5432));
    assert_eq!(
        (table.schema.as_deref(), table.table.as_str()),
        (Some("ops"), "dbtick")
    );
    let app = state(json!({ "kind": "sql", "connection": "ORDERS_DB" })).load();
    let StateConfig::Sql { table, .. } = &only(&app).pollers[0].state else {
        panic!("{app:?}");
    };
    assert_eq!(
        (&table.schema, table.table.as_str()),
        (&None, "dbtick_state")
    );
    for (value, expected) in [
        (
            json!({ "kind": "sql" }),
            "state.connection: is missing (name the app setting",
        ),
        (
            json!({ "kind": "sql", "connection": "NOPE" }),
            "state.connection: no app setting has this name: NOPE",
        ),
        (
            json!({ "kind": "sql", "connection": "PG", "table": "a.b.c" }),
            "state.table: is not the name of a table",
        ),
        (
            json!({ "kind": "sql", "connection": "PG", "path": "x" }),
            "state.path: means nothing here",
        ),
        (
            json!({ "kind": "sql", "connection": "PG", "container": "x" }),
            "state.container: means nothing here",
        ),
        (
            json!({ "kind": "file", "path": "../s", "table": "x" }),
            "state.table: means nothing here",
        ),
    ] {
        check(json!({ "state": value }), &[expected]);
    }
    let on_azure = state(json!({ "kind": "sql", "connection": "ORDERS_DB" }))
        .setting("WEBSITE_INSTANCE_ID", "1")
        .faults();
    assert!(
        on_azure[0].contains("files on an Azure instance vanish"),
        "{on_azure:?}"
    );
    let on_azure = state(json!({ "kind": "sql", "connection": "PG" }))
        .setting("WEBSITE_INSTANCE_ID", "1")
        .faults();
    assert!(on_azure.is_empty(), "{on_azure:?}");
}
