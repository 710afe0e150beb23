//! What dbtick says while it works. stdout is information, stderr is errors: the Functions host
//! tells them apart by the stream, one event per line.

mod export;
mod outlet;
pub mod spans;

use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::Duration;

use serde::Serialize;
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{FilterExt, Targets, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::MakeWriterExt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::Settings;
use crate::model::plain::is_obeyed;
pub use export::Export;
use outlet::Outlet;

use crate::tick::report::{Behind, ClockSkew, LateReport, Tally, TickReport};

/// Transactions that are open for so long are worth a warning with every tick.
const LONG_WAIT_S: i64 = 300;

/// They log headers of answers, and in those a gateway may repeat the address that it was sent, with the
/// signature in it. Nothing of theirs is told below a warning, whatever is asked for.
const QUOTING: [&str; 2] = ["azure_", "typespec"];

/// For what is left to be written at the end.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Where the lines of ticks go; to standard output itself where nothing was started.
static LINES: OnceLock<Outlet> = OnceLock::new();

/// The log and the spans are written for as long as this is kept.
#[derive(Debug)]
pub struct Telemetry {
    export: Option<Export>,
    out: Outlet,
    err: Outlet,
}

impl Telemetry {
    /// Writes and sends what is left. The runtime must still be there.
    pub fn stop(self) {
        if let Some(export) = self.export {
            export.stop();
        }
        self.out.drain(LAST_LINES);
        self.err.drain(LAST_LINES);
    }
}

/// What brought a tick about.
#[derive(Debug, Serialize)]
pub struct Cause<'a> {
    pub invocation_id: &'a str,
    pub past_due: bool,
    /// How often the host has repeated the invocation by its own retry policy.
    #[serde(skip_serializing_if = "is_first")]
    pub host_retry: u32,
    /// Where the host is traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

fn is_first(retry: &u32) -> bool {
    *retry == 0
}

/// One line per tick, for log queries: `event == "dbtick.tick"`.
#[derive(Serialize)]
struct TickLine<'a> {
    event: &'static str,
    poller: &'a str,
    outcome: &'a str,
    #[serde(flatten)]
    cause: Option<&'a Cause<'a>>,
    #[serde(flatten)]
    tally: Tally,
    took_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<&'a str>,
    #[serde(flatten)]
    late: &'a LateReport,
    /// Receivers that do not have what the others have.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    behind: &'a [Behind],
    /// Why the checkpoint went back.
    #[serde(skip_serializing_if = "Option::is_none")]
    rewound: Option<&'a str>,
    /// Beyond the margin only; positive where this machine is ahead of the state store.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_skew_s: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// One line for a tick that met other columns than the one before: `event == "dbtick.schema"`.
#[derive(Serialize)]
struct SchemaLine<'a> {
    event: &'static str,
    poller: &'a str,
    invocation_id: &'a str,
    changes: Vec<String>,
}

/// One line per invocation that was refused: `event == "dbtick.refused"`.
#[derive(Serialize)]
struct RefusedLine<'a> {
    event: &'static str,
    function: &'a str,
    invocation_id: &'a str,
    problems: &'a [String],
}

/// The log as `DBTICK_LOG` wants it, e.g. `info` or `dbtick=debug`; and spans, where the settings of
/// OpenTelemetry name somebody who takes them.
pub fn start(settings: &Settings, runtime: &Handle) -> io::Result<Telemetry> {
    let (out, err) = (Outlet::to(io::stdout())?, Outlet::to(io::stderr())?);
    let export = Export::configured(settings, runtime);
    let filter = settings.get("DBTICK_LOG").unwrap_or("info");
    let taker = export.as_ref().ok().and_then(Option::as_ref);
    // A second start in one process keeps the first.
    drop(LINES.set(out.clone()));
    let (to_out, to_err) = (out.clone(), err.clone());
    let writer = (move || to_err.clone())
        .with_max_level(tracing::Level::ERROR)
        .or_else(move || to_out.clone());
    drop(subscriber(filter, writer, taker).try_init());
    let export = export.unwrap_or_else(|problem| {
        tracing::error!("no spans are exported: {}", one_line(&problem));
        None
    });
    Ok(Telemetry { export, out, err })
}

fn subscriber<W>(filter: &str, writer: W, export: Option<&Export>) -> impl Subscriber + use<W>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let is_for_the_log = filter_fn(|of| {
        let is_span = of.target() == spans::TARGET;
        let is_quiet = *of.level() <= tracing::Level::WARN
            || !QUOTING
                .iter()
                .any(|of_azure| of.target().starts_with(of_azure));
        !is_span && is_quiet
    });
    let log = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        // It would complain on stderr, and panic where nobody reads that either.
        .log_internal_errors(false)
        .with_writer(writer)
        .with_filter(filter.and(is_for_the_log));
    let mut layers = vec![log.boxed()];
    if let Some(export) = export {
        let spans = tracing_opentelemetry::layer()
            .with_tracer(export.tracer())
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_level(false)
            .with_target(false)
            .with_context_activation(false)
            .with_filter(Targets::new().with_target(spans::TARGET, tracing::Level::INFO));
        layers.push(spans.boxed());
    }
    tracing_subscriber::registry().with(layers)
}

/// The line of a tick: what log queries may count on. No cause: nobody's invocation brought it about.
pub fn tick_line<'a>(report: &'a TickReport, cause: Option<&'a Cause<'a>>) -> impl Serialize + 'a {
    let (outcome, error) = match &report.result {
        Ok(outcome) => (outcome.name(), None),
        Err(error) => (error.name(), Some(error.story())),
    };
    TickLine {
        event: "dbtick.tick",
        poller: &report.poller,
        outcome,
        cause,
        tally: report.tally,
        took_ms: report.took_ms,
        checkpoint: report.checkpoint.as_deref(),
        late: &report.late,
        behind: &report.behind,
        rewound: report.rewound.as_deref(),
        clock_skew_s: report.clock_skew.map(ClockSkew::seconds),
        error,
    }
}

pub fn tick_ended(report: &TickReport, cause: &Cause<'_>) {
    let invocation_id = cause.invocation_id;
    line(&tick_line(report, Some(cause)));
    if let Some(seconds) = report
        .late
        .oldest_witness_s
        .filter(|age| *age >= LONG_WAIT_S)
    {
        let witness = report.late.oldest_witness.as_deref().unwrap_or_default();
        tracing::warn!(
            invocation_id,
            poller = %report.poller,
            "a transaction has been open for {seconds} s or more ({witness}); rows arrive, but the checkpoint \
             waits for it and more and more of them must be remembered: end it, or its session"
        );
    }
    if let Some(why) = &report.rewound {
        tracing::warn!(invocation_id, poller = %report.poller, "{why}: the checkpoint went back, rows come again");
    }
    if let Some(skew) = report.clock_skew {
        tracing::warn!(invocation_id, poller = %report.poller, "{}", skew.sentence());
    }
    if !report.schema_changes.is_empty() {
        let changes = report.schema_changes.iter();
        line(&SchemaLine {
            event: "dbtick.schema",
            poller: &report.poller,
            invocation_id,
            changes: changes.map(ToString::to_string).collect(),
        });
    }
    if report.is_failure() {
        tracing::error!(invocation_id, "{}", one_line(&report.sentence()));
    }
}

/// An invocation that came to no tick: the story on stdout, its cause on one line of stderr.
pub fn refused(function: &str, invocation_id: &str, problems: &[String]) {
    line(&RefusedLine {
        event: "dbtick.refused",
        function,
        invocation_id,
        problems,
    });
    let first = problems.first().map_or("", String::as_str);
    let more = match problems.len() {
        0 | 1 => String::new(),
        count => format!(" (and {} more, on stdout)", count - 1),
    };
    tracing::error!(invocation_id, "{}{more}", one_line(first));
}

/// Names come from requests: none may begin a line of its own.
fn one_line(text: &str) -> String {
    text.replace(is_obeyed, " ")
}

/// A log that cannot be written must not stop a tick, so a failure to write is not an error here.
fn line(value: &impl Serialize) {
    if let Ok(mut text) = serde_json::to_vec(value) {
        text.push(b'\n');
        match LINES.get() {
            Some(outlet) => outlet.put(text),
            None => drop(io::stdout().lock().write_all(&text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_span_is_made_while_nobody_takes_any() {
        for filter in ["info", "trace", "dbtick=trace", "dbtick::spans=trace"] {
            let subscriber = subscriber(filter, io::sink, None);
            tracing::subscriber::with_default(subscriber, || {
                let span = spans::invocation("Orders", "id", None);
                assert!(span.is_disabled(), "{filter}");
                assert!(spans::tick("orders", "id").is_disabled());
                assert!(spans::deliver("hook", 1, 1).is_disabled());
                assert_eq!(spans::place_of(&spans::tick("orders", "id")), None);
            });
        }
    }

    #[test]
    fn spans_that_are_taken_are_not_in_the_log() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let settings = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")];
        let settings: Settings = settings.into_iter().collect();
        let export = Export::configured(&settings, runtime.handle()).unwrap();
        let (file, path) = tempfile::NamedTempFile::new().unwrap().into_parts();
        let subscriber = subscriber("info", std::sync::Mutex::new(file), export.as_ref());
        tracing::subscriber::with_default(subscriber, || {
            let span = spans::tick("orders", "id");
            assert!(!span.is_disabled());
            let _inside = span.enter();
            tracing::info!("said inside");
        });
        let log = std::fs::read_to_string(path).unwrap();
        assert!(
            log.contains("said inside") && !log.contains("orders"),
            "{log}"
        );
    }
}
