//! The figures for machines (G5): what an operator's own tools make of them, and that the documentation, the
//! dashboard, the workbook and the alerts in deploy/ use only what there is.

#![allow(clippy::unwrap_used)]

mod support;

#[path = "metrics/deploy.rs"]
mod deploy;

use std::process::Command;
use std::sync::Arc;

use dbtick::clock::SystemClock;
use dbtick::config::{App, Settings};
use dbtick::overview::Overview;
use dbtick::overview::metrics::{self, METRICS, Metric};
use dbtick::wiring::Parts;
use serde_json::{Value, json};

use support::receiver::Answer;
use support::verify::{python, run};
use support::world::World;

/// As a parser that shares no code with us reads it: name, labels, value.
const READ: &str = "
import sys, json
from prometheus_client.parser import text_string_to_metric_families as families
print(json.dumps([[f.name, f.type, f.documentation, [[s.name, s.labels, s.value] for s in f.samples]]
                  for f in families(sys.stdin.read())]))
";

fn read(text: &str) -> Vec<Value> {
    let output = run(Command::new(python()).args(["-c", READ]), text.as_bytes());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn value(families: &[Value], sample: &str, labels: &Value) -> Option<f64> {
    let samples = families.iter().flat_map(|f| f[3].as_array().unwrap());
    let mut found = samples.filter(|s| s[0] == sample && s[1] == *labels);
    found.next().map(|sample| sample[2].as_f64().unwrap())
}

/// What another process than the one that ticks makes of it.
async fn text_of(world: &World) -> String {
    let settings: Settings = world.environment.clone().into_iter().collect();
    let app = App::load(&world.app(), &settings);
    let parts = Parts::new(Arc::new(SystemClock)).unwrap();
    metrics::text(&Overview::new(&app, &parts).unwrap().all().await)
}

#[tokio::test]
async fn a_parser_of_prometheus_reads_every_figure_with_its_type_and_value() {
    let changes = json!({ "batch": { "max_rows": 4 }, "name": "orders" });
    let world = World::with_orders(changes).await.rows(10).await;
    let handler = world.serve().await;
    // The second batch fails once: four rows have been sent and come again.
    world.receiver.answer(|n, _| match n {
        1 => Answer::Say(400, None, "no".to_owned()),
        _ => Answer::Ok,
    });
    assert_eq!(handler.tick("Orders").await.status, 500);
    assert_eq!(handler.tick("Orders").await.status, 200);
    world.writer().await.insert(3).await;
    let text = text_of(&world).await;
    let families = read(&text);
    assert_eq!(families.len(), METRICS.len(), "{text}");
    for (family, metric) in families.iter().zip(METRICS) {
        let name = metric.name.trim_end_matches("_total");
        assert_eq!(family[0], name);
        assert_eq!(family[1], metric.kind.to_string());
        assert_eq!(family[2], metric.help);
    }
    let orders = json!({ "poller": "orders" });
    for (sample, expected) in [
        ("dbtick_up", 1.0),
        ("dbtick_lag_rows", 3.0),
        ("dbtick_batches_committed_total", 3.0),
        ("dbtick_rows_committed_total", 10.0),
        ("dbtick_rows_resent_total", 4.0),
        ("dbtick_failed_ticks_total", 1.0),
        ("dbtick_commits_failed_total", 0.0),
        ("dbtick_read_seconds_count", 3.0),
        ("dbtick_deliver_seconds_count", 3.0),
        // Of the first tick the claim and the commit, of the second the same; without the last of each.
        ("dbtick_commit_seconds_count", 4.0),
        ("dbtick_lease_held", 0.0),
        ("dbtick_quarantine_rows", 0.0),
    ] {
        assert_eq!(
            value(&families, sample, &orders),
            Some(expected),
            "{sample}"
        );
    }
    for sample in ["read", "deliver", "commit"] {
        let sample = format!("dbtick_{sample}_seconds_sum");
        assert!(
            value(&families, &sample, &orders).unwrap() > 0.0,
            "{sample}"
        );
    }
    let bytes = value(&families, "dbtick_bytes_committed_total", &orders);
    let sent = world.receiver.deliveries().into_iter().enumerate();
    let sent = sent
        .filter(|(n, _)| *n != 1)
        .map(|(_, sent)| sent.text.len());
    assert_eq!(bytes, Some(sent.sum::<usize>() as f64));
    let sink = json!({ "poller": "orders", "sink": "webhook" });
    assert_eq!(
        value(&families, "dbtick_sink_rows_total", &sink),
        Some(10.0),
        "{text}"
    );
}

#[test]
fn the_documentation_has_every_figure_as_it_is() {
    let mut table = "| name | type | labels | what it is |\n|---|---|---|---|\n".to_owned();
    for metric in METRICS {
        let Metric {
            name, kind, help, ..
        } = metric;
        let labels = metric.labels().join(", ");
        table.push_str(&format!("| `{name}` | {kind} | {labels} | {help} |\n"));
    }
    let docs = include_str!("../docs/metrics.md");
    assert!(
        docs.contains(&table),
        "docs/metrics.md should have:\n{table}"
    );
}
