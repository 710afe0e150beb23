//! Spans of the real handler, at a collector that takes OTLP over HTTP (G5).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use data_encoding::HEXLOWER;
use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::handler::{HandlerProcess, free_port};
use crate::support::http::{RawAnswer, chunked, exchange, timer_body};
use crate::support::receiver::Answer;
use crate::support::within;
use crate::support::world::{ROW_CANARY, World};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const HOST: &str = "b7ad6b7169203331";
const SECRET: &str = "canary-of-the-collector";

/// What has arrived.
#[derive(Clone)]
struct Collector {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    spans: Mutex<Vec<Span>>,
    resources: Mutex<Vec<BTreeMap<String, Value>>>,
    requests: Mutex<Vec<(Uri, HeaderMap)>>,
    status: Mutex<StatusCode>,
    arrived: watch::Sender<usize>,
}

impl Collector {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            spans: Mutex::default(),
            resources: Mutex::default(),
            requests: Mutex::default(),
            status: Mutex::new(StatusCode::OK),
            arrived: watch::Sender::new(0),
        });
        let router = Router::new()
            .fallback(receive)
            .with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { port, shared }
    }

    async fn requests(&self, count: usize) {
        let mut arrived = self.shared.arrived.subscribe();
        let wait = async move { drop(arrived.wait_for(|n| *n >= count).await.unwrap()) };
        within("spans arrive", wait).await;
    }

    fn spans(&self) -> Vec<Span> {
        let mut spans = self.shared.spans.lock().unwrap().clone();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }
}

async fn receive(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let status = *shared.status.lock().unwrap();
    if status.is_success() {
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        for of_resource in request.resource_spans {
            let resource = of_resource.resource.unwrap().attributes;
            shared.resources.lock().unwrap().push(attributes(&resource));
            let spans = of_resource.scope_spans.into_iter();
            let spans = spans.flat_map(|scope| scope.spans);
            shared.spans.lock().unwrap().extend(spans);
        }
    }
    shared.requests.lock().unwrap().push((uri, headers));
    shared.arrived.send_modify(|n| *n += 1);
    (status, String::new())
}

fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, Value> {
    let value = |value: &Option<AnyValue>| match value.as_ref().and_then(|v| v.value.as_ref()) {
        Some(Any::StringValue(text)) => json!(text),
        Some(Any::IntValue(number)) => json!(number),
        Some(Any::BoolValue(is)) => json!(is),
        other => panic!("{other:?}"),
    };
    pairs
        .iter()
        .map(|pair| (pair.key.clone(), value(&pair.value)))
        .collect()
}

fn hex(id: &[u8]) -> String {
    HEXLOWER.encode(id)
}

/// With two receivers, and batches of four.
async fn world(endpoint: &str) -> World {
    let both = json!({
        "batch": { "max_rows": 4 },
        "deliver": [
            { "name": "first", "webhook": { "url": "%HOOK%" } },
            { "name": "second", "webhook": { "url": "%HOOK%" } }
        ],
    });
    let world = World::with_orders(both).await.rows(6).await;
    world
        .setting("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .setting("OTEL_EXPORTER_OTLP_HEADERS", &format!("x-token={SECRET}"))
        .setting("OTEL_BSP_SCHEDULE_DELAY", "50")
        .setting("OTEL_SERVICE_NAME", "shop")
}

async fn tick(handler: &HandlerProcess, id: &str, flags: &str) -> RawAnswer {
    let request = chunked("Orders", id, &timer_body(&Value::Null).to_string());
    let trace = format!("traceparent: 00-{TRACE}-{HOST}-{flags}\r\nUser-Agent:");
    exchange(handler.port, request.replacen("User-Agent:", &trace, 1)).await
}

#[tokio::test]
async fn the_spans_of_a_tick_arrive_as_children_of_the_host_and_parents_of_its_receivers() {
    let collector = Collector::start().await;
    let world = world(&format!("http://127.0.0.1:{}", collector.port)).await;
    let mut handler = world.serve().await;
    assert_eq!(tick(&handler, "the-invocation", "01").await.status, 200);
    // A clean stop sends what is left.
    handler.signal(Signal::SIGTERM);
    handler.ended().await;
    let spans = collector.spans();
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE));
    let named = |name: &str| -> Vec<&Span> {
        let spans = spans.iter().filter(|span| span.name == name);
        spans.collect()
    };
    let [invocation] = named("invocation")[..] else {
        panic!("{spans:#?}");
    };
    let [tick] = named("tick")[..] else {
        panic!("{spans:#?}");
    };
    assert_eq!(hex(&invocation.parent_span_id), HOST);
    assert_eq!(tick.parent_span_id, invocation.span_id);
    let parts = ["claim", "read", "deliver", "commit"];
    let counts = parts.map(|name| named(name).len());
    assert_eq!(counts, [1, 2, 4, 2], "two batches, two receivers");
    for part in parts.iter().flat_map(|name| named(name)) {
        assert_eq!(part.parent_span_id, tick.span_id, "{}", part.name);
        assert!(part.start_time_unix_nano >= tick.start_time_unix_nano);
        assert!(part.end_time_unix_nano <= tick.end_time_unix_nano);
    }
    assert_eq!(spans.len(), 11);

    let known = attributes(&tick.attributes);
    for (name, expected) in [
        ("poller", json!("orders")),
        ("invocation_id", json!("the-invocation")),
        ("outcome", json!("drained")),
        ("batches", json!(2)),
        ("rows", json!(6)),
    ] {
        assert_eq!(known.get(name), Some(&expected), "{name}: {known:?}");
    }
    let mut delivered: Vec<_> = named("deliver")
        .iter()
        .map(|span| attributes(&span.attributes))
        .map(|known| {
            (
                known["sink"].clone(),
                known["rows"].clone(),
                known["outcome"].clone(),
            )
        })
        .collect();
    delivered.sort_by_key(|known| format!("{known:?}"));
    let expected = [("first", 2), ("first", 4), ("second", 2), ("second", 4)];
    assert_eq!(
        delivered,
        expected.map(|(sink, rows)| (json!(sink), json!(rows), json!("done")))
    );
    let said: Vec<_> = spans
        .iter()
        .map(|span| attributes(&span.attributes))
        .collect();
    let said = format!("{said:?}");
    for secret in [ROW_CANARY, SECRET, "canary", "\"id\""] {
        assert!(!said.contains(secret), "{secret} in {said}");
    }

    let parent = format!("00-{TRACE}-{}-01", hex(&tick.span_id));
    for delivery in world.receiver.deliveries() {
        assert_eq!(delivery.headers["traceparent"], parent);
    }
    let line = handler.stdout.line(&["dbtick.tick"]).await;
    assert!(line.contains(TRACE), "{line}");
    let resources = collector.shared.resources.lock().unwrap();
    assert_eq!(resources[0]["service.name"], "shop");
    for (uri, headers) in collector.shared.requests.lock().unwrap().iter() {
        assert_eq!(uri.path(), "/v1/traces");
        assert_eq!(headers["x-token"], SECRET);
        assert_eq!(headers["content-type"], "application/x-protobuf");
    }
}

#[tokio::test]
async fn a_host_that_is_not_traced_gets_whole_traces_of_its_own() {
    let collector = Collector::start().await;
    let world = world(&format!("http://127.0.0.1:{}", collector.port)).await;
    let mut handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    handler.signal(Signal::SIGTERM);
    handler.ended().await;
    let spans = collector.spans();
    let roots: Vec<_> = spans
        .iter()
        .filter(|span| span.parent_span_id.is_empty())
        .collect();
    let [root] = roots[..] else {
        panic!("{spans:#?}");
    };
    assert_eq!(root.name, "invocation");
    assert!(spans.iter().all(|span| span.trace_id == root.trace_id));
    // The log and the receivers are in the same trace.
    let trace = hex(&root.trace_id);
    assert!(handler.stdout.line(&["dbtick.tick"]).await.contains(&trace));
    let parent = &world.receiver.deliveries()[0].headers["traceparent"];
    assert!(parent.to_str().unwrap().contains(&trace));
}

#[tokio::test]
async fn a_host_that_is_not_recorded_is_obeyed_unless_the_sampler_says_otherwise() {
    for (sampler, expected) in [(None, 0), (Some("always_on"), 11)] {
        let collector = Collector::start().await;
        let mut world = world(&format!("http://127.0.0.1:{}", collector.port)).await;
        if let Some(sampler) = sampler {
            world = world.setting("OTEL_TRACES_SAMPLER", sampler);
        }
        let mut handler = world.serve().await;
        assert_eq!(tick(&handler, "id", "00").await.status, 200);
        handler.signal(Signal::SIGTERM);
        handler.ended().await;
        assert_eq!(collector.spans().len(), expected, "{sampler:?}");
        let parent = &world.receiver.deliveries()[0].headers["traceparent"];
        let flags = if expected > 0 { "-01" } else { "-00" };
        assert!(parent.to_str().unwrap().ends_with(flags), "{parent:?}");
        assert!(parent.to_str().unwrap().contains(TRACE), "{parent:?}");
    }
}

#[tokio::test]
async fn a_tick_that_fails_is_an_error_without_the_receivers_words() {
    let collector = Collector::start().await;
    let world = world(&format!("http://127.0.0.1:{}", collector.port)).await;
    let words = || "canary-words".to_owned();
    world
        .receiver
        .answer(move |_, _| Answer::Say(400, None, words()));
    let mut handler = world.serve().await;
    assert_eq!(tick(&handler, "id", "01").await.status, 500);
    handler.signal(Signal::SIGTERM);
    handler.ended().await;
    let spans = collector.spans();
    for (name, outcome) in [("tick", "delivery_failed"), ("deliver", "rejected")] {
        let span = spans.iter().find(|span| span.name == name).unwrap();
        assert_eq!(attributes(&span.attributes)["outcome"], outcome);
        let status = span.status.as_ref().unwrap();
        assert_eq!((status.code, status.message.as_str()), (2, ""), "{name}");
    }
    assert!(!format!("{spans:?}").contains("canary"));
    assert!(spans.iter().all(|span| span.name != "commit"));
}

#[tokio::test]
async fn a_collector_that_is_not_there_or_refuses_stops_no_tick_and_is_told_once() {
    let refusing = Collector::start().await;
    *refusing.shared.status.lock().unwrap() = StatusCode::UNAUTHORIZED;
    let gone = free_port();
    for (port, fault) in [
        (gone, "error sending request"),
        (refusing.port, "it answers 401"),
    ] {
        let endpoint = format!("http://user:{SECRET}@127.0.0.1:{port}/{SECRET}");
        let world = world(&endpoint).await;
        let mut handler = world.serve().await;
        for n in 0..3 {
            assert_eq!(handler.tick("Orders").await.status, 200);
            world.writer().await.insert(1).await;
            if port == refusing.port {
                refusing.requests(n + 1).await;
            }
        }
        let told = handler.stdout.line(&["spans do not arrive", fault]).await;
        assert!(told.contains(&format!("http://127.0.0.1:{port}")), "{told}");
        handler.signal(Signal::SIGTERM);
        handler.ended().await;
        let said = handler.everything_said();
        assert!(!said.contains(SECRET), "{said}");
        assert_eq!(said.matches("spans do not arrive").count(), 1, "{said}");
        assert_eq!(handler.stderr.all(), [""; 0]);
        assert_eq!(world.state("orders").committed(), 8);
    }
}

#[tokio::test]
async fn a_collector_that_never_answers_holds_up_neither_ticks_nor_the_stop() {
    let silent = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let port = silent.local_addr().unwrap().port();
    let world = world(&format!("http://127.0.0.1:{port}")).await;
    let mut handler = world.serve().await;
    for _ in 0..3 {
        assert_eq!(handler.tick("Orders").await.status, 200);
        world.writer().await.insert(1).await;
    }
    let (connection, _) = within("it is asked", silent.accept()).await.unwrap();
    assert_eq!(handler.tick("Orders").await.status, 200);
    handler.signal(Signal::SIGTERM);
    handler.ended().await;
    drop(connection);
    assert_eq!(world.state("orders").committed(), 9);
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_said_and_nothing_is_exported() {
    let collector = Collector::start().await;
    let world = world(&format!("http://127.0.0.1:{}", collector.port)).await;
    let world = world.setting("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let mut handler = world.serve().await;
    let said = handler.stderr.line(&["no spans are exported"]).await;
    assert!(said.contains("OTEL_EXPORTER_OTLP_PROTOCOL"), "{said}");
    assert_eq!(handler.tick("Orders").await.status, 200);
    handler.signal(Signal::SIGTERM);
    handler.ended().await;
    assert_eq!(collector.spans().len(), 0);
}
