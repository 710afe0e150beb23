//! Medians and best runs, ratios, and whether each target was reached.

use std::fmt::Write as _;
use std::time::Duration;

use crate::parts::Cost;

/// The runs of one thing, as numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<_> = numbers.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        Self(sorted)
    }

    pub(crate) fn rates(costs: &[Cost]) -> Self {
        Self::of(costs.iter().map(|c| c.rows as f64 / c.took.as_secs_f64()))
    }

    /// Microseconds of processor time for each row.
    pub(crate) fn cpu(costs: &[Cost]) -> Self {
        let per_row = |c: &Cost| Some(c.cpu?.as_secs_f64() * 1e6 / c.rows as f64);
        Self::of(costs.iter().filter_map(per_row))
    }

    /// In MiB.
    pub(crate) fn memory(costs: &[Cost]) -> Self {
        let mebibytes = |c: &Cost| Some(c.memory? as f64 / f64::from(1 << 20));
        Self::of(costs.iter().filter_map(mebibytes))
    }

    pub(crate) fn milliseconds(times: &[Duration]) -> Self {
        Self::of(times.iter().map(|time| time.as_secs_f64() * 1e3))
    }

    pub(crate) fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        match self.0.len() {
            0 => f64::NAN,
            even if even % 2 == 0 => f64::midpoint(self.0[middle - 1], self.0[middle]),
            _ => self.0[middle],
        }
    }

    pub(crate) fn min(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The median, and between which two the runs lay.
    pub(crate) fn show(&self) -> String {
        if self.is_empty() {
            return "–".to_owned();
        }
        let (median, min, max) = (
            number(self.median()),
            number(self.min()),
            number(self.max()),
        );
        match self.len() {
            1 => median,
            _ => format!("{median} ({min} … {max})"),
        }
    }
}

/// One line of the comparison: `value` of ours to theirs.
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) ours: String,
    pub(crate) other: String,
    pub(crate) ratio: String,
    pub(crate) target: String,
    pub(crate) reached: Option<bool>,
}

impl Target {
    /// Ours must be at least `least` times the other.
    pub(crate) fn at_least(what: &str, ours: &Samples, other: &Samples, least: f64) -> Self {
        let ratio = ours.median() / other.median();
        Self {
            what: what.to_owned(),
            ours: ours.show(),
            other: other.show(),
            ratio: shown(ratio),
            target: format!("≥ {least}"),
            reached: decided(ratio, ratio >= least),
        }
    }

    /// Ours must be at most one `part`-th of the other.
    pub(crate) fn at_most(what: &str, ours: &Samples, other: &Samples, part: f64) -> Self {
        let ratio = other.median() / ours.median();
        Self {
            what: what.to_owned(),
            ours: ours.show(),
            other: other.show(),
            ratio: match shown(ratio) {
                shown if shown == "–" => shown,
                shown => format!("1/{shown}"),
            },
            target: format!("≤ 1/{part}"),
            reached: decided(ratio, ratio >= part),
        }
    }

    pub(crate) fn below(what: &str, ours: &Samples, most: f64) -> Self {
        Self {
            what: what.to_owned(),
            ours: ours.show(),
            other: String::new(),
            ratio: String::new(),
            target: format!("≤ {most}"),
            reached: decided(ours.median(), ours.median() <= most),
        }
    }

    pub(crate) fn count(what: &str, ours: usize, other: Option<usize>, most: usize) -> Self {
        Self {
            what: what.to_owned(),
            ours: ours.to_string(),
            other: other.map_or("–".to_owned(), |other| other.to_string()),
            ratio: String::new(),
            target: most.to_string(),
            reached: Some(ours <= most),
        }
    }
}

fn decided(number: f64, reached: bool) -> Option<bool> {
    number.is_finite().then_some(reached)
}

fn shown(ratio: f64) -> String {
    match ratio.is_finite() {
        true if ratio < 10.0 => format!("{ratio:.2}"),
        true => format!("{ratio:.1}"),
        false => "–".to_owned(),
    }
}

pub(crate) fn targets(lines: &[Target]) -> String {
    let mut text = "| measure | dbtick | compared with | ratio | target | reached |\n\
                    |---|---|---|---|---|---|\n"
        .to_owned();
    for line in lines {
        let reached = match line.reached {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "not decided",
        };
        let Target {
            what,
            ours,
            other,
            ratio,
            target,
            ..
        } = line;
        writeln!(
            text,
            "| {what} | {ours} | {other} | {ratio} | {target} | {reached} |"
        )
        .unwrap();
    }
    text
}

/// All that was run, line by line.
pub(crate) fn runs(lines: &[(String, Vec<Cost>)]) -> String {
    let mut text =
        "| run | rows | rows/s | CPU µs/row | peak MiB | runs |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for (what, costs) in lines.iter().filter(|(_, costs)| !costs.is_empty()) {
        let rows = number(costs[0].rows as f64);
        let rates = Samples::rates(costs);
        let (cpu, memory) = (Samples::cpu(costs), Samples::memory(costs));
        let (cpu, memory, runs) = (cpu.show(), memory.show(), costs.len());
        writeln!(
            text,
            "| {what} | {rows} | {} | {cpu} | {memory} | {runs} |",
            rates.show()
        )
        .unwrap();
    }
    text
}

/// Three digits that matter, thousands apart.
pub(crate) fn number(value: f64) -> String {
    if value < 10.0 {
        return format!("{value:.2}");
    }
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
