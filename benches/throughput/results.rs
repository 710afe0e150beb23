//! All that was measured, and how it is told.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};

use crate::growth::Growth;
use crate::parts::{Cost, Parts, TABLE};
use crate::process::{load, machine};
use crate::report::{Samples, Target, number, runs, targets};
use crate::small::{Start, Ticks};

#[derive(Default)]
pub(crate) struct Results {
    pub(crate) dbtick_1000: Vec<Cost>,
    pub(crate) dbtick_100: Vec<Cost>,
    pub(crate) peer_1000: Vec<Cost>,
    pub(crate) peer_100: Vec<Cost>,
    pub(crate) copy: Vec<Cost>,
    pub(crate) post_1000: Vec<Cost>,
    pub(crate) post_100: Vec<Cost>,
    others: Vec<(String, Vec<Cost>)>,
    pub(crate) starts: (Start, Start),
    pub(crate) ticks: Option<Ticks>,
    pub(crate) peer_ticks: Option<Ticks>,
    pub(crate) growth: Vec<Growth>,
    pub(crate) took: Duration,
    load: String,
    versions: String,
    row_bytes: f64,
}

impl Results {
    pub(crate) fn begin() -> Self {
        Self {
            load: load(),
            ..Self::default()
        }
    }

    pub(crate) fn other(&mut self, what: &str, cost: Cost) {
        match self.others.iter_mut().find(|(known, _)| known == what) {
            Some((_, costs)) => costs.push(cost),
            None => self.others.push((what.to_owned(), vec![cost])),
        }
    }

    /// What the numbers are about.
    pub(crate) async fn know(&mut self, parts: &Parts) {
        let ask = |statement: String| async {
            let mut connection = parts.postgres.connect("postgres").await;
            let statement = sqlx::AssertSqlSafe(statement);
            let answer: String = sqlx::query_scalar(statement)
                .fetch_one(&mut connection)
                .await
                .unwrap();
            answer
        };
        let postgres = ask("SHOW server_version".to_owned()).await;
        let bytes = ask(format!(
            "SELECT avg(octet_length(row_to_json(t)::text))::float8::text FROM {TABLE} t"
        ))
        .await;
        self.row_bytes = bytes.parse().unwrap();
        let dbtick = Command::new(&parts.dbtick).arg("--version").output();
        let dbtick = String::from_utf8(dbtick.unwrap().stdout).unwrap();
        let size = std::fs::metadata(&parts.dbtick).unwrap().len();
        self.versions = format!(
            "{} ({} bytes), PostgreSQL {postgres}, azure-functions-db 0.8.3 from PyPI",
            dbtick.trim(),
            number(size as f64)
        );
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{}, {}. {}.\nTable of {} bytes of JSON per row. Load of the machine {} at the start, {} at the end; the \
             run took {:.0} s.\nMedian (least … most) of the runs. Every row of every run was looked for at the receiver.\n\n",
            SystemClock.now().format("%Y-%m-%d %H:%M UTC"),
            machine(),
            self.versions,
            number(self.row_bytes),
            self.load,
            load(),
            self.took.as_secs_f64()
        );
        text += &targets(&self.targets());
        text += "\n";
        text += &runs(&self.runs());
        text += "\n";
        self.small(&mut text);
        text += &crate::growth::table(&self.growth);
        text
    }

    fn targets(&self) -> Vec<Target> {
        let rate = Samples::rates;
        let (cpu, memory, time) = (Samples::cpu, Samples::memory, Samples::milliseconds);
        let (ours, theirs) = &self.starts;
        let mut lines = vec![
            Target::at_least(
                "rows/s, batch 1000, to the peer",
                &rate(&self.dbtick_1000),
                &rate(&self.peer_1000),
                15.0,
            ),
            Target::at_least(
                "rows/s, batch 1000, to COPY row_to_json",
                &rate(&self.dbtick_1000),
                &rate(&self.copy),
                0.6,
            ),
            Target::at_least(
                "rows/s, batch 100, to the peer",
                &rate(&self.dbtick_100),
                &rate(&self.peer_100),
                40.0,
            ),
            Target::at_most(
                "CPU µs per row, batch 1000",
                &cpu(&self.dbtick_1000),
                &cpu(&self.peer_1000),
                15.0,
            ),
            Target::at_most(
                "CPU µs per row, batch 100",
                &cpu(&self.dbtick_100),
                &cpu(&self.peer_100),
                15.0,
            ),
            Target::at_most(
                "peak memory, MiB, batch 1000",
                &memory(&self.dbtick_1000),
                &memory(&self.peer_1000),
                3.0,
            ),
            Target::at_most(
                "start to first delivery, ms",
                &time(&ours.delivery),
                &time(&theirs.delivery),
                6.0,
            ),
            Target::below("start to first delivery, ms", &time(&ours.delivery), 150.0),
            Target::below(
                "start to the answer of GET /, ms",
                &time(&ours.answer),
                15.0,
            ),
        ];
        if let Some(ticks) = &self.ticks {
            let peer = self.peer_ticks.as_ref();
            let (idle, one) = (ticks.idle.len(), ticks.one_batch.len());
            let peers = (peer.map(|p| p.idle.len()), peer.map(|p| p.one_batch.len()));
            lines.push(Target::count(
                "storage requests, idle tick",
                idle,
                peers.0,
                1,
            ));
            lines.push(Target::count(
                "storage requests, one-batch tick",
                one,
                peers.1,
                3,
            ));
        }
        lines.extend(crate::growth::targets(&self.growth));
        lines
    }

    fn runs(&self) -> Vec<(String, Vec<Cost>)> {
        let mut lines: Vec<_> = [
            (
                "dbtick, PostgreSQL → webhook, batch 1000",
                &self.dbtick_1000,
            ),
            ("dbtick, PostgreSQL → webhook, batch 100", &self.dbtick_100),
            ("peer, batch 1000", &self.peer_1000),
            ("peer, batch 100", &self.peer_100),
            ("limit: COPY row_to_json", &self.copy),
            ("limit: raw POST of the bodies of 1000", &self.post_1000),
            ("limit: raw POST of the bodies of 100", &self.post_100),
        ]
        .into_iter()
        .map(|(what, costs)| (what.to_owned(), costs.clone()))
        .collect();
        lines.extend(
            self.others
                .iter()
                .map(|(what, costs)| (format!("dbtick, {what}"), costs.clone())),
        );
        lines
    }

    fn small(&self, text: &mut String) {
        for (who, ticks) in [("dbtick", &self.ticks), ("peer", &self.peer_ticks)] {
            let Some(ticks) = ticks else { continue };
            let time = Samples::milliseconds(&ticks.idle_time);
            write!(
                text,
                "{who}: an idle tick takes {} ms of {} runs",
                time.show(),
                time.len()
            )
            .unwrap();
            if let Some(cpu) = ticks.idle_cpu {
                write!(text, ", {:.0} µs of CPU", cpu.as_secs_f64() * 1e6).unwrap();
            }
            writeln!(text, ".\n- idle: {}", ticks.idle.join(", ")).unwrap();
            writeln!(text, "- one batch: {}", ticks.one_batch.join(", ")).unwrap();
            if !ticks.settling.is_empty() {
                writeln!(text, "- the tick after it: {}", ticks.settling.join(", ")).unwrap();
            }
            text.push('\n');
        }
    }
}
