//! What is in deploy/ uses only figures, labels, fields and outcomes that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use chrono::TimeDelta;
use dbtick::overview::metrics::{METRICS, Metric};
use dbtick::telemetry::{self, Cause};
use dbtick::tick::report::{Behind, ClockSkew, LateReport, Tally, TickError, TickReport};
use serde_json::Value;

fn read(path: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = std::fs::read_to_string(&path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All texts under one of these keys.
fn texts<'a>(value: &'a Value, keys: &[&str], found: &mut Vec<&'a str>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| texts(value, keys, found)),
        Value::Object(pairs) => {
            for (key, value) in pairs {
                match value {
                    Value::String(text) if keys.contains(&key.as_str()) => found.push(text),
                    value => texts(value, keys, found),
                }
            }
        }
        _ => {}
    }
}

fn all_texts<'a>(value: &'a Value, keys: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    texts(value, keys, &mut found);
    assert!(!found.is_empty(), "nothing under {keys:?}");
    found
}

/// The words of a text; a word may have dots in it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    text.split(move |c| !is_word(c))
        .filter(|word| !word.is_empty())
}

/// Sample → its labels.
fn samples() -> BTreeMap<String, &'static [&'static str]> {
    let with_labels = |metric: &'static Metric| {
        let samples = metric.samples();
        samples.map(|sample| (sample, metric.labels()))
    };
    METRICS.iter().flat_map(with_labels).collect()
}

fn figures(text: &str) -> Vec<&str> {
    words(text)
        .filter(|word| word.starts_with("dbtick_"))
        .collect()
}

/// What stands in `by (…)`, in `{…}` behind a figure and, for legends, in `{{…}}`.
fn labels(expression: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for part in expression.split("by (").skip(1) {
        found.extend(words(part.split_once(')').unwrap().0));
    }
    let inside = expression.split('{').skip(1);
    for part in inside.filter(|part| !part.is_empty()) {
        let inside = part.split_once('}').unwrap().0;
        let pairs = inside.split(',').filter(|pair| !pair.is_empty());
        found.extend(pairs.filter_map(|pair| words(pair).next()));
    }
    found
}

#[test]
fn the_dashboard_uses_only_figures_and_labels_that_there_are() {
    let dashboard = read("deploy/grafana/dbtick.json");
    let samples = samples();
    let mut used = BTreeSet::new();
    let panels = dashboard["panels"].as_array().unwrap();
    for target in panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
    {
        let expression = target["expr"].as_str().unwrap();
        let figures = figures(expression);
        assert!(!figures.is_empty(), "{expression}");
        let asked: BTreeSet<_> = [expression, target["legendFormat"].as_str().unwrap()]
            .into_iter()
            .flat_map(labels)
            .collect();
        for figure in figures {
            let Some(labels) = samples.get(figure) else {
                panic!("there is no {figure}: {expression}");
            };
            for label in &asked {
                assert!(
                    labels.contains(label),
                    "{figure} has no label {label}: {expression}"
                );
            }
            used.insert(figure);
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["query"]["query"].as_str() {
            let [figure] = figures(query)[..] else {
                panic!("{query}");
            };
            let label = variable["name"].as_str().unwrap();
            assert!(samples[figure].contains(&label), "{query}");
        }
    }
    for wanted in [
        "dbtick_health",
        "dbtick_lag_rows",
        "dbtick_lag_seconds",
        "dbtick_rows_committed_total",
        "dbtick_checkpoint_age_seconds",
        "dbtick_sink_attempts",
        "dbtick_quarantine_rows",
        "dbtick_lease_age_seconds",
        "dbtick_deliver_seconds_sum",
    ] {
        assert!(used.contains(wanted), "{wanted} is not shown");
    }
}

#[test]
fn the_documentation_names_only_figures_that_there_are() {
    let samples = samples();
    let docs = include_str!("../../docs/metrics.md");
    for figure in figures(docs) {
        let summary = METRICS.iter().any(|metric| metric.name == figure);
        assert!(
            summary || samples.contains_key(figure),
            "there is no {figure}"
        );
    }
}

/// A line of a tick with everything that one can have.
fn longest_line() -> Value {
    let report = TickReport {
        poller: "orders".to_owned(),
        result: Err(TickError::MarkedFailed),
        tally: Tally {
            batches: 1,
            rows: 1,
            bytes: 1,
            writes: 1,
            left_behind: 1,
            quarantined: 1,
        },
        took_ms: 1,
        checkpoint: Some("5 (5)".to_owned()),
        clock_skew: ClockSkew::beyond(Duration::ZERO, TimeDelta::seconds(9)),
        schema_changes: Vec::new(),
        late: LateReport {
            remembered: 1,
            witnesses: 1,
            oldest_witness: Some("one".to_owned()),
            oldest_witness_s: Some(1),
            future_rows: 1,
            waiting_rows: 1,
        },
        rewound: Some("it was restored".to_owned()),
        behind: vec![Behind {
            sink: "hook".to_owned(),
            since: chrono::DateTime::UNIX_EPOCH,
            error: Some("no".to_owned()),
        }],
        caught_up: true,
        is_told: true,
    };
    let cause = Cause {
        invocation_id: "id",
        past_due: false,
        host_retry: 1,
        trace_id: Some("trace".to_owned()),
    };
    serde_json::to_value(telemetry::tick_line(&report, Some(&cause))).unwrap()
}

#[test]
fn the_workbook_and_the_alerts_ask_only_for_what_a_line_has() {
    let line = longest_line();
    let operations = include_str!("../../docs/operations.md");
    for (file, most) in [
        ("deploy/azure/workbook.json", 5),
        ("deploy/azure/alerts.json", 5),
    ] {
        let document = read(file);
        let queries = all_texts(&document, &["query"]);
        let queries: Vec<_> = queries
            .into_iter()
            .filter(|query| query.contains('|'))
            .collect();
        assert!(queries.len() >= most, "{file}");
        for query in queries {
            // As the line begins, and as the log has it.
            assert!(
                query.contains("startswith '{\"event\":\"dbtick.tick\"'"),
                "{query}"
            );
            assert!(query.contains("line = parse_json(message)"), "{query}");
            assert!(
                words(query).any(|word| word.starts_with("line.")),
                "{query}"
            );
            for word in words(query) {
                if let Some(field) = word.strip_prefix("line.") {
                    assert!(line.get(field).is_some(), "a line has no {field}: {query}");
                }
                if let Some(field) = word.strip_prefix("behind.") {
                    assert!(
                        line["behind"][0].get(field).is_some(),
                        "no {field}: {query}"
                    );
                }
            }
            let outcomes = query.lines().filter(|line| line.contains("outcome"));
            for quoted in outcomes.flat_map(|line| line.split('\'').skip(1).step_by(2)) {
                let row = format!("| `{quoted}` |");
                assert!(
                    operations.contains(&row),
                    "there is no outcome {quoted}: {query}"
                );
            }
        }
    }
    let text = serde_json::to_string(&line).unwrap();
    assert!(text.contains("\"event\":\"dbtick.tick\""));
}

#[test]
fn every_parameter_of_the_alerts_is_used_and_explained() {
    let alerts = read("deploy/azure/alerts.json");
    let rules = alerts["resources"].to_string();
    let readme = include_str!("../../deploy/azure/README.md");
    for (name, parameter) in alerts["parameters"].as_object().unwrap() {
        assert!(
            rules.contains(&format!("parameters('{name}')")),
            "{name} is not used"
        );
        assert!(parameter["metadata"]["description"].is_string(), "{name}");
        assert!(
            readme.contains(&format!("`{name}`")),
            "{name} is not in the README"
        );
    }
    for used in rules.split("parameters('").skip(1) {
        let name = used.split_once('\'').unwrap().0;
        assert!(
            alerts["parameters"].get(name).is_some(),
            "{name} is no parameter"
        );
    }
}
