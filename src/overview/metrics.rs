//! What every poller is worth in numbers: Prometheus text, from the read model alone.
//!
//! One table says which figures there are; the text, docs/metrics.md and the check of the dashboard are
//! made from it. Labels are the names in the configuration, nothing that grows: no ids, errors, owners.

mod table;

use std::fmt::{self, Write};

use super::view::{AppView, PollerView, SinkView, TimingView};
use crate::clock::Timestamp;

pub use table::METRICS;

/// Of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One figure, of an app, of each poller, or of each sink of each poller.
#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    from: From,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    /// From a document: it goes back when the document does.
    Counter,
    /// How often, as `_count`, and for how many seconds in all, as `_sum`.
    Summary,
}

/// `None`: it cannot be told, or does not apply. Then there is no sample, so that nobody takes it for zero.
#[derive(Debug)]
enum From {
    App(fn(&AppView) -> u64),
    Poller(fn(&PollerView, Timestamp) -> Option<u64>),
    Timing(fn(&PollerView) -> Option<TimingView>),
    Sink(fn(&SinkView, Timestamp) -> Option<u64>),
}

impl Metric {
    #[must_use]
    pub fn labels(&self) -> &'static [&'static str] {
        match self.from {
            From::App(_) => &[],
            From::Poller(_) | From::Timing(_) => &["poller"],
            From::Sink(_) => &["poller", "sink"],
        }
    }

    /// As they stand in the text.
    pub fn samples(&self) -> impl Iterator<Item = String> {
        let ends: &[&str] = match self.kind {
            Kind::Gauge | Kind::Counter => &[""],
            Kind::Summary => &["_sum", "_count"],
        };
        ends.iter().map(|end| format!("{}{end}", self.name))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Summary => "summary",
        })
    }
}

/// The exposition of all figures.
#[must_use]
pub fn text(app: &AppView) -> String {
    let mut out = String::new();
    for metric in METRICS {
        let Metric {
            name, kind, help, ..
        } = metric;
        line(
            &mut out,
            format_args!("# HELP {name} {}", escaped(help, false)),
        );
        line(&mut out, format_args!("# TYPE {name} {kind}"));
        samples(&mut out, metric, app);
    }
    out
}

fn samples(out: &mut String, metric: &Metric, app: &AppView) {
    let name = metric.name;
    if let From::App(read) = metric.from {
        return line(out, format_args!("{name} {}", read(app)));
    }
    for poller in &app.pollers {
        let label = format!("poller=\"{}\"", escaped(&poller.poller, true));
        match metric.from {
            From::App(_) => {}
            From::Poller(read) => {
                if let Some(value) = read(poller, app.at) {
                    line(out, format_args!("{name}{{{label}}} {value}"));
                }
            }
            From::Timing(read) => {
                if let Some(TimingView { count, us }) = read(poller) {
                    let seconds = us as f64 / 1e6;
                    line(out, format_args!("{name}_sum{{{label}}} {seconds}"));
                    line(out, format_args!("{name}_count{{{label}}} {count}"));
                }
            }
            From::Sink(read) if table::is_known(poller) => {
                for sink in &poller.sinks {
                    let sink_name = escaped(&sink.name, true);
                    if let Some(value) = read(sink, app.at) {
                        let labels = format_args!("{label},sink=\"{sink_name}\"");
                        line(out, format_args!("{name}{{{labels}}} {value}"));
                    }
                }
            }
            From::Sink(_) => {}
        }
    }
}

fn line(out: &mut String, text: fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes everything");
}

fn escaped(text: &str, quoted: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    match quoted {
        true => text.replace('"', "\\\""),
        false => text,
    }
}

#[cfg(test)]
mod tests;
