//! What was committed against what was delivered.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use dbtick::config::LateMode;
use dbtick::model::late::Protected;
use tokio::time::Instant;

use crate::polling::Polled;
use crate::writer::Table;

/// What became of the rows of one table under one poller.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) name: String,
    pub(crate) mode: LateMode,
    grade: Protected,
    rows: usize,
    /// How long half of them took at most.
    tick: Duration,
    remembered: u64,
    delivered: usize,
    /// Cursor and body of rows that are there as they were never delivered. Of a row that was changed
    /// twice between two reads, the last version counts.
    pub(crate) lost: Vec<String>,
    pub(crate) duplicates: usize,
    /// Delivered, and never committed.
    pub(crate) invented: usize,
    /// From the answer to COMMIT to the receiver, in order.
    latencies: Vec<Duration>,
}

impl Verdict {
    pub(crate) fn of(table: &Table, rows: &[(String, String)], polled: &Polled) -> Self {
        let committed = table.committed();
        for (_, body) in rows {
            assert!(committed.contains_key(body), "{body} has no writer");
        }
        let delivered: HashSet<_> = polled.deliveries.iter().map(|one| &one.body).collect();
        let ids: HashSet<_> = polled.deliveries.iter().map(|one| one.id).collect();
        let invented = delivered
            .iter()
            .filter(|body| !committed.contains_key(**body));
        Self {
            name: polled.shape.to_owned(),
            mode: polled.mode,
            grade: polled.grade,
            rows: rows.len(),
            tick: percentile(&polled.ticks, 50),
            remembered: polled.remembered,
            delivered: polled.deliveries.len(),
            lost: lost(rows, &delivered, &committed),
            duplicates: polled.deliveries.len() - ids.len(),
            invented: invented.count(),
            latencies: latencies(polled, &committed),
        }
    }

    fn percentile(&self, percent: usize) -> Duration {
        percentile(&self.latencies, percent)
    }
}

fn lost(
    rows: &[(String, String)],
    delivered: &HashSet<&String>,
    committed: &HashMap<String, Instant>,
) -> Vec<String> {
    let first = committed.values().min().copied();
    rows.iter()
        .filter(|(_, body)| !delivered.contains(body))
        .map(|(cursor, body)| {
            let at = committed[body] - first.unwrap();
            format!("{cursor}: {body}, committed {at:?} after the first")
        })
        .collect()
}

fn latencies(polled: &Polled, committed: &HashMap<String, Instant>) -> Vec<Duration> {
    let each = polled.deliveries.iter().filter_map(|one| {
        // A receiver may be faster than the answer to COMMIT.
        Some(one.at.saturating_duration_since(*committed.get(&one.body)?))
    });
    let mut latencies: Vec<_> = each.collect();
    latencies.sort();
    latencies
}

/// Over the rows of all of them.
pub(crate) fn median(verdicts: &[&Verdict]) -> Duration {
    let each = verdicts.iter().flat_map(|verdict| &verdict.latencies);
    let mut all: Vec<_> = each.copied().collect();
    all.sort();
    percentile(&all, 50)
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = sorted.len() * percent / 100;
    sorted.get(at).copied().unwrap_or_default()
}

pub(crate) fn show(verdicts: &[Verdict]) -> String {
    let mut text = format!(
        "{:<16} {:<12} {:>6} {:>9} {:>5} {:>10} {:>8} {:>8} {:>8} {:>10}",
        "source",
        "grade",
        "rows",
        "delivered",
        "lost",
        "duplicates",
        "p50 ms",
        "p99 ms",
        "tick ms",
        "remembered"
    );
    for verdict in verdicts {
        text += &format!(
            "\n{:<16} {:<12} {:>6} {:>9} {:>5} {:>10} {:>8.1} {:>8.1} {:>8.1} {:>10}",
            verdict.name,
            verdict.grade.to_string(),
            verdict.rows,
            verdict.delivered,
            verdict.lost.len(),
            verdict.duplicates,
            milliseconds(verdict.percentile(50)),
            milliseconds(verdict.percentile(99)),
            milliseconds(verdict.tick),
            verdict.remembered,
        );
    }
    text
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
