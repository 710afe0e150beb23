//! Whether cost grows with the table: memory, and the time of a batch far inside it.

use std::fmt::Write as _;
use std::time::Duration;

use crate::parts::{Case, Cost, Parts};
use crate::report::{Samples, Target, number};
use crate::table;

const LEAST_ROWS: usize = 10_000;
/// Batches at each place.
const WINDOW: usize = 100;

#[derive(Debug)]
pub(crate) struct Growth {
    cost: Cost,
    /// Times between batches: at the beginning, in the middle, at the end.
    places: [Vec<Duration>; 3],
}

/// Tables of ten times as many rows each.
pub(crate) async fn measure(parts: &Parts, most: usize) -> Vec<Growth> {
    let mut found = Vec::new();
    let mut rows = LEAST_ROWS;
    let table = "orders_growing";
    while rows <= most {
        table::fill_postgres(&parts.postgres, table, rows).await;
        let case = Case {
            table,
            rows,
            ..parts.case()
        };
        let (cost, seen) = parts.dbtick_seen(&case).await;
        let gaps: Vec<_> = seen
            .arrivals
            .windows(2)
            .map(|two| two[1] - two[0])
            .collect();
        let window = |at: usize| match gaps.len().checked_sub(WINDOW) {
            Some(last) => gaps[at.min(last)..][..WINDOW].to_vec(),
            // Too few to tell places apart.
            None => Vec::new(),
        };
        let places = [window(1), window(gaps.len() / 2), window(gaps.len())];
        found.push(Growth { cost, places });
        parts.postgres.sql(&format!("DROP TABLE {table}")).await;
        rows *= 10;
    }
    found
}

pub(crate) fn targets(growth: &[Growth]) -> Vec<Target> {
    let (Some(first), Some(last)) = (growth.first(), growth.last()) else {
        return Vec::new();
    };
    let [beginning, middle, _] = &last.places;
    let memory = |growth: &Growth| Samples::memory(&[growth.cost]);
    vec![
        within_noise(
            &format!("peak MiB, {} rows to {}", size(last), size(first)),
            &memory(last),
            &memory(first),
        ),
        within_noise(
            &format!(
                "ms per batch, row {} to row 10",
                number(last.cost.rows as f64 / 2.0)
            ),
            &Samples::milliseconds(middle),
            &Samples::milliseconds(beginning),
        ),
    ]
}

fn within_noise(what: &str, ours: &Samples, other: &Samples) -> Target {
    const NOISE: f64 = 1.2;
    let ratio = ours.median() / other.median();
    Target {
        what: what.to_owned(),
        ours: ours.show(),
        other: other.show(),
        ratio: format!("{ratio:.2}"),
        target: format!("≤ {NOISE}"),
        // Better than equal cannot be: then the machine was too busy to tell.
        reached: (ratio >= 1.0 / NOISE).then_some(ratio <= NOISE),
    }
}

pub(crate) fn table(growth: &[Growth]) -> String {
    if growth.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "How cost grows, batch 1000; ms per batch are medians of {WINDOW} batches.\n\n\
         | rows | rows/s | CPU µs/row | peak MiB | ms per batch: beginning | middle | end |\n|---|---|---|---|---|---|---|\n"
    );
    for line in growth {
        let cost = [line.cost];
        let [beginning, middle, end] = line.places.each_ref().map(|times| match times.is_empty() {
            true => "–".to_owned(),
            false => number(Samples::milliseconds(times).median()),
        });
        writeln!(
            text,
            "| {} | {} | {} | {} | {beginning} | {middle} | {end} |",
            size(line),
            Samples::rates(&cost).show(),
            Samples::cpu(&cost).show(),
            Samples::memory(&cost).show()
        )
        .unwrap();
    }
    text
}

fn size(growth: &Growth) -> String {
    number(growth.cost.rows as f64)
}
