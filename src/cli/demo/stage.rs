//! What happens, turned into lines: batches from the receiver, ticks and processes from the host,
//! the checkpoint from the state file.

use std::pin::pin;
use std::time::Duration;

use chrono::TimeDelta;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::app::{FUNCTION, LEASE_MARGIN};
use super::checkpoint::{CheckpointFile, Standing};
use super::ledger::SharedLedger;
use super::receiver::Arrival;
use super::view::{Tone, View};
use crate::clock::{Clock, SystemClock};
use crate::local::{Events, HostEvent, InvocationFailure, LogLevel, LogSource};

const REFRESH: Duration = Duration::from_millis(100);
const SIGKILL: i32 = 9;

#[derive(Debug)]
pub(super) struct Stage<'a> {
    pub(super) view: &'a View,
    pub(super) ledger: SharedLedger,
    pub(super) arrivals: mpsc::UnboundedReceiver<Arrival>,
    pub(super) events: Events,
    pub(super) checkpoint: CheckpointFile,
    pub(super) standing: Standing,
    pub(super) shown_checkpoint: i64,
    /// Ctrl-C reaches the handler too, and its end is no news then.
    pub(super) ending: bool,
}

/// The handler's own line about a tick.
#[derive(Debug, Deserialize)]
pub(super) struct Tick {
    outcome: String,
    pub(super) batches: u64,
    pub(super) rows: u64,
    pub(super) took_ms: u64,
}

impl Stage<'_> {
    pub(super) async fn show_until<T>(&mut self, done: impl Future<Output = T>) -> T {
        let mut done = pin!(done);
        let mut refresh = tokio::time::interval(REFRESH);
        loop {
            tokio::select! {
                biased;
                Some(arrival) = self.arrivals.recv() => self.view.batch(&arrival),
                Some(event) = self.events.next() => self.report(event).await,
                _ = refresh.tick() => self.refresh().await,
                value = &mut done => return value,
            }
        }
    }

    async fn refresh(&mut self) {
        self.look_at_checkpoint().await;
        let now = SystemClock.now();
        self.ledger.read(|ledger| self.view.status(ledger, now));
    }

    async fn look_at_checkpoint(&mut self) {
        if let Some(standing) = self.checkpoint.read().await {
            self.standing = standing;
            self.ledger
                .change(|ledger| ledger.committed = standing.committed);
        }
    }

    async fn report(&mut self, event: HostEvent) {
        let alarm = |label, text: &str| self.view.line(Tone::Alarm, label, text);
        match event {
            HostEvent::HandlerReady { pid } if !self.ending => {
                let text = format!("process {pid} is ready");
                self.view.line(Tone::Quiet, "handler", &text);
            }
            HostEvent::HandlerExited {
                pid, code, signal, ..
            } if !self.ending && signal != Some(SIGKILL) => match code {
                Some(code) => alarm("handler", &format!("process {pid} exited with {code}")),
                None => alarm("handler", &format!("process {pid} was ended by a signal")),
            },
            HostEvent::InvocationEnded {
                function, result, ..
            } if function == FUNCTION => {
                self.ledger.change(|ledger| ledger.ticks += 1);
                match result.outcome {
                    Err(InvocationFailure::NoAnswer(_)) if !self.ending => {
                        alarm("tick", "failed: the handler is gone, and gave no answer");
                    }
                    Err(failure) if !self.ending => alarm("tick", &format!("failed: {failure}")),
                    _ => {}
                }
            }
            HostEvent::Log {
                source: LogSource::Stdout,
                line,
                ..
            } => {
                if let Ok(tick) = serde_json::from_str(&line) {
                    self.tick(&tick).await;
                }
            }
            HostEvent::Log {
                source: LogSource::Stderr | LogSource::Host,
                level: LogLevel::Error,
                line,
            } if !self.ending && !line.starts_with("signal 9 ") => alarm("", &line),
            HostEvent::Missed(count) => alarm("", &format!("{count} events were not shown")),
            _ => {}
        }
    }

    async fn tick(&mut self, tick: &Tick) {
        if tick.outcome == "held_elsewhere" {
            let now = SystemClock.now();
            let left = self
                .standing
                .held_until
                .map_or(TimeDelta::zero(), |until| until + LEASE_MARGIN - now);
            if left > TimeDelta::zero() && self.ledger.read(|ledger| ledger.kills > 0) {
                self.view.waiting(left.as_seconds_f64());
            }
        } else if tick.batches > 0 {
            self.look_at_checkpoint().await;
            let to = self.standing.committed;
            let from = std::mem::replace(&mut self.shown_checkpoint, to);
            self.view.committed(from, to, tick);
        }
    }
}
