//! Where the time of an invocation goes: invocation → tick → read, claim, deliver, commit.
//!
//! Spans are made only while somebody exports them: the log does not take them, and without a taker each
//! costs one comparison. They say which poller and receiver, how much and how it ended; never what is in
//! a row, its key or place, nor what a receiver said.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::model::trace::TraceParent;
use crate::sink::{DeliveryFailure, FailureKind};
use crate::tick::report::{Tally, TickReport};

/// Nothing else is exported, and the log takes none of it.
pub(super) const TARGET: &str = "dbtick::spans";

/// `host` is the span of whoever invokes us.
pub fn invocation(function: &str, id: &str, host: Option<TraceParent>) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        parent: None,
        "invocation",
        otel.kind = "consumer",
        function,
        invocation_id = id,
    );
    if let Some(host) = host.filter(|_| !span.is_disabled()) {
        let parent = Context::new().with_remote_span_context(context_of(host));
        // It has just been made, so it has not begun yet.
        span.set_parent(parent).ok();
    }
    span
}

pub fn tick(poller: &str, invocation_id: &str) -> Span {
    tracing::info_span!(
        target: TARGET,
        "tick",
        poller,
        invocation_id,
        outcome = Empty,
        batches = Empty,
        rows = Empty,
        bytes = Empty,
        otel.status_code = Empty,
    )
}

pub(crate) fn claim() -> Span {
    tracing::info_span!(target: TARGET, "claim", outcome = Empty)
}

pub(crate) fn read() -> Span {
    tracing::info_span!(target: TARGET, "read", outcome = Empty, rows = Empty)
}

pub(crate) fn deliver(sink: &str, rows: usize, bytes: usize) -> Span {
    tracing::info_span!(
        target: TARGET,
        "deliver",
        otel.kind = "client",
        sink,
        rows = number(rows as u64),
        bytes = number(bytes as u64),
        outcome = Empty,
        otel.status_code = Empty,
    )
}

pub(crate) fn commit(rows: u64) -> Span {
    tracing::info_span!(target: TARGET, "commit", rows = number(rows), outcome = Empty)
}

/// So many rows to deliver were found.
pub(crate) fn found(span: &Span, rows: usize) {
    span.record("rows", number(rows as u64));
}

/// How a tick ended.
pub fn ticked(span: &Span, report: &TickReport) {
    let outcome = match &report.result {
        Ok(outcome) => outcome.name(),
        Err(error) => error.name(),
    };
    let Tally {
        batches,
        rows,
        bytes,
        ..
    } = report.tally;
    span.record("outcome", outcome);
    span.record("batches", number(batches));
    span.record("rows", number(rows));
    span.record("bytes", number(bytes));
    if report.is_failure() {
        span.record("otel.status_code", "ERROR");
    }
}

/// How a delivery ended; `None`: all of it was taken or set aside.
pub(crate) fn delivered(span: &Span, failure: Option<&DeliveryFailure>) {
    let Some(failure) = failure else {
        span.record("outcome", "done");
        return;
    };
    let outcome = match failure.kind {
        FailureKind::Passing => "passing",
        FailureKind::Broken => "broken",
        FailureKind::Rejected => "rejected",
        FailureKind::TooLarge => "too_large",
        FailureKind::Gone => "gone",
        FailureKind::Refused => "refused",
    };
    span.record("outcome", outcome);
    span.record("otel.status_code", "ERROR");
}

/// What those who are called get to name as their parent; `None`: nobody exports.
pub fn place_of(span: &Span) -> Option<TraceParent> {
    if span.is_disabled() {
        return None;
    }
    let context = span.context();
    let span = context.span();
    let context = span.span_context();
    let trace = u128::from_be_bytes(context.trace_id().to_bytes());
    let id = u64::from_be_bytes(context.span_id().to_bytes());
    TraceParent::of(trace, id, context.trace_flags().to_u8())
}

/// OpenTelemetry has no numbers without a sign.
fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn context_of(parent: TraceParent) -> SpanContext {
    let (trace, span, flags) = parent.parts();
    SpanContext::new(
        TraceId::from_bytes(trace.to_be_bytes()),
        SpanId::from_bytes(span.to_be_bytes()),
        TraceFlags::new(flags),
        true,
        TraceState::NONE,
    )
}
