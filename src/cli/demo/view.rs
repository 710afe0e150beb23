//! What a person sees: lines that scroll, and on a terminal a status line that stays at the bottom.
//! Into a pipe go plain lines without escape codes, with a status line every second.

use std::io::{IsTerminal, Write, stdout};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ledger::Ledger;
use super::receiver::Arrival;
use super::stage::Tick;
use super::summary::Summary;
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::config::Settings;

const WIDTH: usize = 100;
const SPINNER: &str = "{spinner} {wide_msg}";

#[derive(Debug)]
pub(super) struct View {
    started: Instant,
    bottom: Option<ProgressBar>,
    colour: bool,
    reader_gone: CancellationToken,
    next_status: AtomicU64,
    next_wait: AtomicU64,
}

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Quiet,
    Good,
    Notice,
    Alarm,
}

/// Enough of a batch id to recognise it.
pub(super) fn short(batch: &str) -> &str {
    let id = batch.strip_prefix("batch_").unwrap_or(batch);
    id.get(..8).unwrap_or(id)
}

impl View {
    pub(super) fn new(settings: &Settings) -> Self {
        let live = stdout().is_terminal() && settings.get("TERM") != Some("dumb");
        let bottom = live.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
            let style = ProgressStyle::with_template(SPINNER);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar
        });
        Self {
            started: SystemClock.monotonic(),
            bottom,
            colour: live && settings.filled("NO_COLOR").is_none(),
            reader_gone: CancellationToken::new(),
            next_status: AtomicU64::new(1),
            next_wait: AtomicU64::new(0),
        }
    }

    /// Resolves when nobody reads any more, as in `dbtick demo | head`.
    pub(super) async fn reader_gone(&self) {
        self.reader_gone.cancelled().await;
    }

    pub(super) fn batch(&self, arrival: &Arrival) {
        let (tone, label, note) = match arrival {
            Arrival { held: true, .. } => (Tone::Notice, "batch", "received, not answered"),
            Arrival { repeated: 0, .. } => (Tone::Plain, "batch", ""),
            Arrival { .. } => (Tone::Notice, "again", "seen before"),
        };
        let text = format!(
            "{}  {:>4} rows   id {:>6} .. {:<6}   fence {:<6} {note}",
            short(&arrival.batch),
            arrival.rows,
            arrival.first,
            arrival.last,
            format!("{}.{}", arrival.token, arrival.sequence),
        );
        self.line(tone, label, text.trim_end());
    }

    /// After a tick; in a pipe the status lines say it.
    pub(super) fn committed(&self, from: i64, to: i64, tick: &Tick) {
        if self.bottom.is_some() {
            let plural = if tick.batches == 1 {
                "batch"
            } else {
                "batches"
            };
            let text = format!(
                "{:8}  {:>4} rows   id {from:>6} -> {to:<6}   {} {plural}, {} ms",
                "", tick.rows, tick.batches, tick.took_ms
            );
            self.line(Tone::Quiet, "checkpoint", &text);
        }
    }

    /// At most once a second.
    pub(super) fn waiting(&self, seconds: f64) {
        if self.is_due(&self.next_wait) {
            let text = format!("the dead handler's lease runs out in {seconds:.1} s");
            self.line(Tone::Notice, "waiting", &text);
        }
    }

    pub(super) fn say_draining(&self) {
        let text = "no more rows are inserted; the last ones are delivered";
        self.line(Tone::Quiet, "ending", text);
    }

    pub(super) fn status(&self, ledger: &Ledger, now: Timestamp) {
        let lag = ledger.lag(now);
        let text = format!(
            "inserted {:<5}  delivered {:<5}  committed {:<5} to id {:<5}  lag {} rows, {:.1} s",
            ledger.inserted(),
            ledger.delivered(),
            ledger.committed_rows(),
            ledger.committed,
            lag.rows,
            lag.seconds,
        );
        match &self.bottom {
            Some(bar) => {
                bar.set_message(text);
                bar.tick();
            }
            None if self.is_due(&self.next_status) => self.line(Tone::Quiet, "status", &text),
            None => {}
        }
    }

    pub(super) fn line(&self, tone: Tone, label: &str, text: &str) {
        let seconds = (SystemClock.monotonic() - self.started).as_secs_f64();
        let line = format!("{seconds:>5.1}s  {label:<10}  {text}");
        let line: String = line.replace(['\n', '\r', '\u{1b}'], " ");
        let line: String = line.chars().take(WIDTH).collect();
        self.print(&self.paint(tone, line.trim_end()));
    }

    /// Takes the status line away; what is printed afterwards stays.
    pub(super) fn close(&self) {
        if let Some(bar) = &self.bottom {
            bar.finish_and_clear();
        }
    }

    pub(super) fn conclude(&self, summary: &Summary, kept: Option<&Path>) {
        let tone = if summary.is_complete() {
            Tone::Good
        } else {
            Tone::Alarm
        };
        let verdict = if summary.is_complete() {
            "Nothing was lost."
        } else {
            "ROWS ARE MISSING."
        };
        self.print_plain(&format!("\n{}\n\n{summary}", self.paint(tone, verdict)));
        if let Some(kept) = kept {
            self.print_plain(&format!("\nkept: {}", kept.display()));
        }
    }

    fn is_due(&self, next: &AtomicU64) -> bool {
        let now = (SystemClock.monotonic() - self.started).as_secs();
        next.fetch_max(now + 1, Ordering::Relaxed) <= now
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            _ if !self.colour => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Quiet => "2",
            Tone::Good => "1;32",
            Tone::Notice => "33",
            Tone::Alarm => "1;31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    pub(super) fn print(&self, text: &str) {
        match &self.bottom {
            Some(bar) => bar.println(text),
            None => self.print_plain(text),
        }
    }

    fn print_plain(&self, text: &str) {
        let mut out = stdout().lock();
        if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            self.reader_gone.cancel();
        }
    }
}
