//! A secret in every place that can hold one, on every road that can fail, at the most talkative level: none of them
//! is in what is logged, answered, exported, shown or stored (S6).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64;
use dbtick::store::{ObjectStore, StateStore};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::azurite::{ACCOUNT, Azurite, KEY};
use crate::support::command::run_beside;
use crate::support::handler::{HandlerProcess, free_port};
use crate::support::http::exchange;
use crate::support::mariadb::{self, MariaDb};
use crate::support::postgres::{self, Postgres};
use crate::support::receiver::{Answer, TOKEN};
use crate::support::world::{SETTING_CANARY, World};

const STATUS: &str = include_str!("../../function-templates/status/function.json");

/// Whatever is in a setting here holds this word; so does no name, column or row.
const CANARY: &str = "canary";

/// Says everything back that it was told, wherever somebody might quote it from.
#[derive(Clone, Default)]
struct Echo {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let echo = Self {
            port: listener.local_addr().unwrap().port(),
            ..Self::default()
        };
        let router = Router::new().fallback(say_back).with_state(echo.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        echo
    }

    fn at(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn has_heard(&self, word: &str) -> bool {
        let heard = self.heard.lock().unwrap();
        heard.iter().any(|request| request.contains(word))
    }
}

async fn say_back(
    State(echo): State<Echo>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body = String::from_utf8_lossy(&body).into_owned();
    let request = format!("{method} {uri} {headers:?} {body}");
    let count = {
        let mut heard = echo.heard.lock().unwrap();
        heard.push(request.clone());
        heard.len()
    };
    let statuses = [403, 500, 400, 302, 401, 404, 503, 409, 200];
    // A receiver that takes a batch has nothing to be quoted.
    let statuses = match uri.path().contains("canary-path") {
        true => &statuses[..8],
        false => &statuses,
    };
    let status = StatusCode::from_u16(statuses[count % statuses.len()]).unwrap();
    let line = request.replace(['\r', '\n'], " ");
    let mut response = (status, format!("<Error><Code>{line}</Code></Error>")).into_response();
    for name in [
        "x-ms-error-code",
        "www-authenticate",
        "location",
        "retry-after",
        "etag",
    ] {
        if let Ok(value) = HeaderValue::from_str(&line) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Everything in which a secret could be.
#[derive(Default)]
struct Evidence(Vec<(String, String)>);

impl Evidence {
    fn add(&mut self, from: impl Into<String>, text: impl Into<String>) {
        self.0.push((from.into(), text.into()));
    }

    fn find(&self, word: &str) -> Vec<String> {
        let found = self.0.iter().filter(|(_, text)| text.contains(word));
        found
            .map(|(from, text)| {
                let at = text.find(word).unwrap();
                let start = text[..at]
                    .char_indices()
                    .rev()
                    .nth(120)
                    .map_or(0, |(at, _)| at);
                let end = (at + 80..).find(|end| text.is_char_boundary(*end)).unwrap();
                format!("{from}: …{}…", &text[start..end.min(text.len())])
            })
            .collect()
    }
}

/// `function` → what its poller has beyond the smallest.
fn pollers(echo: &Echo) -> Vec<(&'static str, Value)> {
    let from = |connection: &str, table: &str| json!({ "source": { "connection": connection, "table": table } });
    let blobs = |connection: &str| json!({ "state": { "kind": "blob", "connection": connection } });
    let queue = |connection: &str| json!({ "deliver": [{ "queue": { "queue": "events", "connection": connection } }] });
    let hook = |url: &str| json!({ "deliver": [{ "webhook": { "url": url, "attempts": 1, "timeout": "2s" } }] });
    let all = json!({ "deliver": [{ "webhook": {
        "url": "%HOOK%", "secrets": ["%SIGNING%", "%SIGNING_OLD%"], "bearer": "%BEARER%", "timeout": "2s",
        "headers": { "x-key": "%HEADER%" }
    } }], "warnings": { "url": "%WARNINGS%", "secret": "%SIGNING%" } });
    assert_ne!(echo.port, 0);
    vec![
        ("Orders", all),
        ("PgGood", from("PG", "orders")),
        ("PgTable", from("PG", "nowhere")),
        ("PgWrong", from("PG_WRONG", "orders")),
        ("PgDown", from("PG_DOWN", "orders")),
        ("PgPairs", from("PG_PAIRS", "orders")),
        ("PgBad", from("PG_BAD", "orders")),
        ("MyGood", from("MY", "orders")),
        ("MyTable", from("MY", "nowhere")),
        ("MyWrong", from("MY_WRONG", "orders")),
        ("MyDown", from("MY_DOWN", "orders")),
        (
            "SqlState",
            json!({ "state": { "kind": "sql", "connection": "PG" } }),
        ),
        (
            "SqlStateDown",
            json!({ "state": { "kind": "sql", "connection": "PG_DOWN" } }),
        ),
        ("BlobGood", blobs("STORAGE")),
        ("BlobWrong", blobs("STORAGE_WRONG")),
        ("BlobSas", blobs("STORAGE_SAS")),
        ("BlobEcho", blobs("STORAGE_ECHO")),
        ("BlobSasEcho", blobs("STORAGE_SAS_ECHO")),
        ("BlobSasDown", blobs("STORAGE_SAS_DOWN")),
        ("BlobBad", blobs("STORAGE_BAD")),
        ("BlobIdentity", blobs("STORAGE_IDENTITY")),
        ("BlobClient", blobs("STORAGE_CLIENT")),
        ("QueueWrong", queue("QUEUE_WRONG")),
        ("QueueEcho", queue("QUEUE_ECHO")),
        ("QueueSasDown", queue("QUEUE_SAS_DOWN")),
        ("QueueSasEcho", queue("QUEUE_SAS_ECHO")),
        ("HookEcho", hook("%HOOK_ECHO%")),
        ("HookDown", hook("%HOOK_DOWN%")),
        ("HookBad", hook("%HOOK_BAD%")),
        ("HookHttp", hook("%HOOK_HTTP%")),
        (
            "Entra",
            json!({ "deliver": [{ "webhook": { "url": "%HOOK%", "entra": { "audience": "api://x" } } }] }),
        ),
        (
            "Relayed",
            json!({ "deliver": [{ "relay": { "function": "carry", "key": "%RELAY_KEY%" } }] }),
        ),
        (
            "Misplaced",
            json!({ "deliver": [{ "webhook": { "url": "%HOOK%", "secret": "%HEADER%", "bearer": "%HOOK_BAD%" } }] }),
        ),
        (
            "Rejected",
            json!({ "deliver": [{ "webhook": { "url": "%HOOK%", "attempts": 1 } }], "poison": { "attempts": 1 } }),
        ),
    ]
}

fn settings(
    echo: &Echo,
    identity: &Echo,
    pg: &Postgres,
    my: &MariaDb,
    azurite: &Azurite,
) -> Vec<(&'static str, String)> {
    let (at, down) = (echo.at(), free_port());
    let endpoint = &azurite.endpoint;
    let key = BASE64.encode(b"canary-key-canary-key-canary-key");
    let sas = "SharedAccessSignature=sv=2021-06-08&ss=bq&srt=sco&sp=rwdlac&se=2099-01-01&sig=canary-signature";
    let (pg_port, my_port) = (pg.port, my.port);
    let mut signing = [
        b"canary-canary-canary-new".as_slice(),
        b"canary-canary-canary-old",
    ]
    .map(|key| format!("whsec_{}", BASE64.encode(key)))
    .into_iter();
    vec![
        ("SIGNING", signing.next().unwrap()),
        ("SIGNING_OLD", signing.next().unwrap()),
        ("BEARER", "canary-bearer".to_owned()),
        ("HEADER", "canary-header".to_owned()),
        (
            "WARNINGS",
            format!("http://canary-user:canary-pass@{at}/canary-warnings"),
        ),
        ("PG", pg.url()),
        (
            "PG_WRONG",
            format!("postgres://canary-user:canary-pass@127.0.0.1:{pg_port}/shop"),
        ),
        (
            "PG_DOWN",
            format!("postgres://canary-user:canary-pass@127.0.0.1:{down}/shop"),
        ),
        (
            "PG_PAIRS",
            format!(
                "Host=127.0.0.1;Port={pg_port};Database=shop;Username=canary-user;Password=\"canary;pass\""
            ),
        ),
        (
            "PG_BAD",
            "postgres://canary-user:canary-pass@[::canary]:notaport/shop?canary=canary".to_owned(),
        ),
        ("MY", my.url()),
        (
            "MY_WRONG",
            format!("mysql://canary-user:canary-pass@127.0.0.1:{my_port}/shop"),
        ),
        (
            "MY_DOWN",
            format!(
                "Server=127.0.0.1;Port={down};Database=shop;Uid=canary;Pwd=canary-pass;SslMode=Preferred"
            ),
        ),
        ("STORAGE", azurite.connection_string()),
        (
            "STORAGE_WRONG",
            format!("AccountName={ACCOUNT};AccountKey={key};BlobEndpoint={endpoint}"),
        ),
        ("STORAGE_SAS", format!("BlobEndpoint={endpoint};{sas}")),
        (
            "STORAGE_ECHO",
            format!("AccountName={ACCOUNT};AccountKey={key};BlobEndpoint=http://{at}/{ACCOUNT}"),
        ),
        (
            "STORAGE_SAS_DOWN",
            format!("BlobEndpoint=http://127.0.0.1:{down}/{ACCOUNT};{sas}"),
        ),
        (
            "QUEUE_SAS_DOWN",
            format!("QueueEndpoint=http://127.0.0.1:{down}/{ACCOUNT};{sas}"),
        ),
        (
            "STORAGE_SAS_ECHO",
            format!("BlobEndpoint=http://{at}/{ACCOUNT};{sas}"),
        ),
        (
            "STORAGE_BAD",
            format!("AccountName=canary account;AccountKey=canary!;{sas}"),
        ),
        (
            "STORAGE_IDENTITY__blobServiceUri",
            format!("http://{at}/{ACCOUNT}"),
        ),
        ("STORAGE_IDENTITY__credential", "managedidentity".to_owned()),
        (
            "STORAGE_CLIENT__blobServiceUri",
            format!("http://{at}/{ACCOUNT}"),
        ),
        (
            "STORAGE_CLIENT__tenantId",
            "00000000-0000-0000-0000-000000000000".to_owned(),
        ),
        ("STORAGE_CLIENT__clientId", "canary-client".to_owned()),
        (
            "STORAGE_CLIENT__clientSecret",
            "canary-client-secret".to_owned(),
        ),
        (
            "QUEUE_WRONG",
            format!(
                "AccountName={ACCOUNT};AccountKey={key};QueueEndpoint=http://127.0.0.1:{down}/{ACCOUNT}"
            ),
        ),
        (
            "QUEUE_ECHO",
            format!("AccountName={ACCOUNT};AccountKey={key};QueueEndpoint=http://{at}/{ACCOUNT}"),
        ),
        (
            "QUEUE_SAS_ECHO",
            format!("QueueEndpoint=http://{at}/{ACCOUNT};{sas}"),
        ),
        (
            "HOOK_ECHO",
            format!("http://canary-user:canary-pass@{at}/canary-path?code=canary-query"),
        ),
        (
            "HOOK_DOWN",
            format!(
                "http://canary-user:canary-pass@127.0.0.1:{down}/canary-path?code=canary-query"
            ),
        ),
        (
            "HOOK_BAD",
            "gopher://canary-user:canary-pass@example.org/canary".to_owned(),
        ),
        (
            "HOOK_HTTP",
            "http://canary-user:canary-pass@example.org/canary".to_owned(),
        ),
        ("RELAY_KEY", "canary-relay-key".to_owned()),
        (
            "RELAY_STORAGE",
            format!("AccountName={ACCOUNT};AccountKey={key};QueueEndpoint=http://{at}/{ACCOUNT}"),
        ),
        ("WEBSITE_HOSTNAME", at.clone()),
        (
            "IDENTITY_ENDPOINT",
            format!("http://{}/msi/token", identity.at()),
        ),
        ("IDENTITY_HEADER", "canary-identity-header".to_owned()),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            format!("http://canary-user:canary-pass@{at}/canary-otlp?key=canary"),
        ),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "x-api-key=canary-otlp-header".to_owned(),
        ),
        ("DBTICK_LOG", "trace".to_owned()),
    ]
}

async fn status(handler: &HandlerProcess, path: &str) -> String {
    let request = format!(
        "GET /api/dbtick/{path}?code=canary-function-key HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         X-Functions-Key: canary-function-key\r\n\r\n"
    );
    let answer = exchange(handler.port, request).await;
    format!("{} {} {}", answer.status, answer.head, answer.body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_of_any_kind_is_shown_or_kept_anywhere() {
    let (echo, pg, my) = tokio::join!(Echo::start(), Postgres::start(), MariaDb::start());
    let identity = Echo::start().await;
    let azurite = Azurite::blob();
    let schema =
        "CREATE TABLE orders (id INT PRIMARY KEY, seq INT NOT NULL UNIQUE, note VARCHAR(9));
         INSERT INTO orders VALUES (1, 1, 'x')";
    tokio::join!(pg.sql(schema), my.sql(schema));
    let mut world = World::new()
        .await
        .rows(3)
        .await
        .file("status/function.json", STATUS)
        .file("carry/function.json", &relay_function().to_string());
    world
        .writer()
        .await
        .sql("UPDATE orders SET note = 'x'")
        .await;
    for (name, value) in settings(&echo, &identity, &pg, &my, &azurite) {
        world = world.setting(name, &value);
    }
    let pollers = pollers(&echo);
    for (function, changes) in &pollers {
        world = world.poller(function, changes.clone());
    }
    world
        .receiver
        .answer(|_, delivery| match delivery.body["poller"].as_str() {
            Some("rejected") => Answer::Say(400, None, "no".to_owned()),
            _ => Answer::Ok,
        });

    let mut evidence = Evidence::default();
    let handler = world.serve().await;
    for round in 1..=2 {
        let ticks = pollers.iter().map(|(function, _)| handler.tick(function));
        for ((function, _), answer) in pollers.iter().zip(join_all(ticks).await) {
            let text = format!("{}{}", answer.head, answer.body);
            evidence.add(format!("answer {function} {round}"), text);
        }
    }
    let pages = [
        "",
        "checkpoints",
        "metrics",
        "health",
        "orphans",
        "openapi.json",
    ];
    let of_each = pollers
        .iter()
        .map(|(function, _)| format!("checkpoints/{}", function.to_lowercase()));
    let paths: Vec<String> = pages
        .map(str::to_owned)
        .into_iter()
        .chain(of_each)
        .collect();
    let shown = join_all(paths.iter().map(|path| status(&handler, path))).await;
    for (path, page) in paths.iter().zip(shown) {
        evidence.add(format!("page {path}"), page);
    }
    let commands: [&[&str]; 12] = [
        &["check"],
        &["check", "--json"],
        &["status"],
        &["status", "--json"],
        &["orphans"],
        &["status", "pgwrong"],
        &["peek", "mydown"],
        &["tick", "hookecho"],
        &["tick", "queuesasecho"],
        &["history", "blobsasecho"],
        &["quarantine", "list", "blobwrong"],
        &[
            "resolve",
            "orders",
            "--strategy",
            "resume",
            "--yes",
            "--reason",
            "x",
        ],
    ];
    for command in commands {
        let said = run_beside(&world, command).await;
        evidence.add(command.join(" "), format!("{}{}", said.stdout, said.stderr));
    }
    for (index, text) in world.state_texts().into_iter().enumerate() {
        evidence.add(format!("state file {index}"), text);
    }
    let store = azurite.store("db-state");
    for key in store.list("").await.unwrap() {
        let body = store.load(&key).await.unwrap().unwrap().body;
        evidence.add(key.as_str(), String::from_utf8_lossy(&body));
    }
    for key in store.names("").await.unwrap() {
        let body = store.get(&key).await.unwrap().unwrap();
        evidence.add(key.as_str(), String::from_utf8_lossy(&body));
    }
    for delivery in world.receiver.deliveries() {
        evidence.add("body of a delivery", delivery.text);
    }
    // Spans leave every five seconds.
    crate::support::within("spans", async {
        while !echo.has_heard("canary-otlp-header") {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    for heard in echo
        .heard
        .lock()
        .unwrap()
        .iter()
        .filter(|heard| heard.contains("otlp"))
    {
        let body = heard.split_once("} ").map_or("", |(_, body)| body);
        evidence.add("spans", body);
    }
    for line in handler.everything_said().lines() {
        evidence.add("log", line);
    }

    // Whoever looks for nothing finds nothing.
    for (from, word) in [
        ("log", "PG_WRONG"),
        ("log", "STORAGE_SAS_ECHO"),
        ("log", "QUEUE_ECHO"),
        ("answer PgDown", "PG_DOWN"),
        ("answer BlobIdentity", "STORAGE_IDENTITY"),
        ("page checkpoints", "rejected"),
        ("status --json", "MY_WRONG"),
        ("check", "HookBad/function.json"),
        ("state file", "orders"),
        ("spans", "dbtick"),
        ("answer Orders 1", "3 rows"),
        ("answer HookEcho 1", "127.0.0.1"),
    ] {
        let found = evidence
            .0
            .iter()
            .any(|(name, text)| name.starts_with(from) && text.contains(word));
        let there = evidence.0.iter().filter(|(name, _)| name.starts_with(from));
        let there: Vec<_> = there.take(3).collect();
        assert!(found, "{word} is not in {from}: {there:#?}");
    }
    for secret in [
        "canary-bearer",
        "canary-header",
        "canary-path",
        "canary-relay-key",
        "canary-identity-header",
    ] {
        let sent = world
            .receiver
            .deliveries()
            .iter()
            .any(|delivery| format!("{:?}", delivery.headers).contains(secret));
        assert!(
            sent || echo.has_heard(secret) || identity.has_heard(secret),
            "{secret} was never used"
        );
    }
    let key = BASE64.encode(b"canary-key-canary-key-canary-key");
    let basic = BASE64.encode(b"canary-user:canary-pass");
    let words = [
        CANARY,
        postgres::PASSWORD,
        mariadb::PASSWORD,
        SETTING_CANARY,
        TOKEN,
        KEY,
        &KEY[..20],
        &key[..20],
        &basic[..12],
        &BASE64.encode(b"canary-canary-canary-new")[..16],
        "whsec_Y2Fu",
        "sig=",
        "SharedKey ",
    ];
    for word in words {
        let found = evidence.find(word);
        assert!(found.is_empty(), "{word}: {found:#?}");
    }
}

fn relay_function() -> Value {
    json!({
        "bindings": [
            { "type": "httpTrigger", "direction": "in", "name": "req", "authLevel": "function", "methods": ["post"] },
            { "type": "http", "direction": "out", "name": "res" },
            { "type": "queue", "direction": "out", "name": "messages", "queueName": "events", "connection": "RELAY_STORAGE" }
        ],
        "relay": {}
    })
}
