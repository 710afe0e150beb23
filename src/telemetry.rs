//! What dbtick says while it works. stdout is information, stderr is errors: the Functions host
//! tells them apart by the stream, one event per line.

use std::io::{self, Write};

use serde::Serialize;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

use crate::tick::report::{Behind, ClockSkew, LateReport, Tally, TickReport};

/// Transactions that are open for so long are worth a warning with every tick.
const LONG_WAIT_S: i64 = 300;

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

/// `filter` as in `DBTICK_LOG`, e.g. `info` or `dbtick=debug`.
pub fn start(filter: &str) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let writer = io::stderr
        .with_max_level(tracing::Level::ERROR)
        .or_else(io::stdout);
    // A second start in one process keeps the first.
    drop(
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(false)
            // It would complain on stderr, and panic where nobody reads that either.
            .log_internal_errors(false)
            .with_writer(writer)
            .try_init(),
    );
}

/// The line of a tick that nobody's invocation brought about.
#[must_use]
pub fn tick_line(report: &TickReport) -> impl Serialize + '_ {
    line_of(report, None)
}

fn line_of<'a>(report: &'a TickReport, cause: Option<&'a Cause<'a>>) -> TickLine<'a> {
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
    line(&line_of(report, Some(cause)));
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
    text.replace(char::is_control, " ")
}

/// A log that cannot be written must not stop a tick, so a failure to write is not an error here.
fn line(value: &impl Serialize) {
    if let Ok(mut text) = serde_json::to_vec(value) {
        text.push(b'\n');
        io::stdout().lock().write_all(&text).ok();
    }
}
