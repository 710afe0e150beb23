//! What the owner of an app writes: function.json, and app settings with secrets in them.

use std::fs;
use std::path::Path;

use dbtick::config::{App, Settings};

use super::CANARY;

/// Every setting that a function.json may name has a secret in it.
const SETTINGS: [(&str, &str); 12] = [
    ("ORDERS_DB", "sqlite:data/orders.db"),
    (
        "PG",
        "postgres://user:cAnArY@db.example/orders?sslmode=verify-full",
    ),
    ("MY", "mysql://user:cAnArY@db.example:3307/orders"),
    (
        "HOOK",
        "https://user:cAnArY@hooks.example/cAnArY?code=cAnArY",
    ),
    ("KEY", "whsec_Y0FuQXJZY0FuQXJZY0FuQXJZY0FuQXJZ"),
    ("TOKEN", "cAnArY"),
    (
        "STORAGE",
        "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=Y0FuQXJZY0FuQXJZ;EndpointSuffix=core.windows.net",
    ),
    (
        "QUEUES",
        "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=Y0FuQXJZY0FuQXJZ;EndpointSuffix=core.windows.net",
    ),
    (
        "SAS",
        "BlobEndpoint=https://shop.blob.core.windows.net;SharedAccessSignature=sv=1&sig=cAnArY",
    ),
    ("AzureWebJobsStorage__accountName", "shop"),
    ("VAULT", "@Microsoft.KeyVault(SecretUri=https://cAnArY)"),
    ("EVERY", "0 */5 * * * *"),
];

/// The canary in Base64, as the key of an account has it.
const ENCODED: &str = "Y0FuQXJZ";

const HOST: &str = r#"{"version":"2.0","functionTimeout":"00:05:00","extensionBundle":{"id":"x"}}"#;

/// Any function.json: pollers, or faults that say where, and never a secret.
pub(crate) fn configuration(input: &[u8]) {
    let root = root();
    fs::write(root.join("orders/function.json"), input).unwrap();
    told(&App::load(root, &settings(&root.join("../state"))));
}

pub(crate) fn settings(state: &Path) -> Settings {
    let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let state = ("DBTICK_STATE_DIR".to_owned(), state.display().to_string());
    settings.into_iter().chain([state]).collect()
}

/// The value of a setting: `cAnArY` in it stands for what is secret.
pub(crate) fn connection(input: &[u8]) {
    let root = root();
    let Ok(value) = std::str::from_utf8(input) else {
        return;
    };
    fs::write(root.join("orders/function.json"), CONNECTED).unwrap();
    let settings = [
        ("ORDERS_DB", value),
        ("HOOK", value),
        ("KEY", value),
        ("QUEUES", value),
        ("STATE", value),
        ("AzureWebJobsStorage", value),
    ];
    let settings: Settings = settings.into_iter().collect();
    told(&App::load(root, &settings));
    assert!(!format!("{settings:?}").contains(CANARY));
}

const CONNECTED: &str = r#"{
    "bindings": [{ "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "0 * * * * *" }],
    "pollers": [
        { "source": { "connection": "ORDERS_DB", "table": "orders", "cursor": "seq", "key": "id" },
          "deliver": [{ "webhook": { "url": "%HOOK%", "secret": "%KEY%", "bearer": "%KEY%" } }] },
        { "name": "others", "source": { "connection": "ORDERS_DB", "table": "orders", "cursor": "seq", "key": "id" },
          "state": { "connection": "STATE" },
          "deliver": [{ "queue": { "queue": "orders", "connection": "QUEUES" } }] }
    ]
}"#;

/// One app for all inputs of a thread.
fn root() -> &'static Path {
    thread_local! {
        static ROOT: &'static Path = {
            let directory = tempfile::tempdir().unwrap().keep();
            let root = directory.join("app");
            fs::create_dir_all(root.join("orders")).unwrap();
            fs::write(root.join("host.json"), HOST).unwrap();
            root.leak()
        };
    }
    ROOT.with(|root| *root)
}

fn told(app: &App) {
    for fault in app.faults() {
        assert!(!fault.problem.is_empty() && !fault.file.as_os_str().is_empty());
        silent(&fault.to_string());
    }
    for poller in app.pollers() {
        assert!(!poller.name.is_empty() && !poller.deliver.is_empty());
        assert!(!poller.source.cursor.is_empty() && !poller.source.key.is_empty());
        assert!(poller.lease.heartbeat < poller.lease.ttl / 2);
    }
    silent(&format!("{app:?}"));
}

fn silent(text: &str) {
    assert!(!text.contains(CANARY) && !text.contains(ENCODED), "{text}");
}
