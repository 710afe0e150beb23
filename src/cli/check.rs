//! `dbtick check`: is every poller of this app fit to run?

mod host_retry;
mod rights;
mod shards;

use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use serde::Serialize;

use super::{chain, fail, local_app, say};
use crate::clock::{Clock, SystemClock};
use crate::config::human::show_duration;
use crate::config::{App, Function, Poller as PollerConfig, RelayFunction, Settings, Target};
use crate::model::halt::{Halt, HaltKind};
use crate::source::Grade;
use crate::tick::Poller;
use crate::tick::quarantine::SetAside;
use crate::tick::report::ClockSkew;
use crate::wiring::Parts;

/// Below this a table has more lines than letters.
const NARROWEST_TABLE: u16 = 60;

#[derive(Debug, Args)]
pub(super) struct Check {
    /// Directory of the Functions app
    #[arg(default_value = ".")]
    app: PathBuf,
    /// Where pollers without a state block keep their state
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Print JSON, one object for the whole app
    #[arg(long)]
    json: bool,
}

/// One row of the table.
#[derive(Debug, Clone, Serialize)]
struct Line {
    poller: String,
    grade: &'static str,
    subject: String,
    text: String,
}

impl Check {
    pub(super) async fn run(self) -> ExitCode {
        let directory = match local_app::read(&self.app, self.state_dir.as_deref()) {
            Ok(directory) => directory,
            Err(error) if self.json => {
                let lines: Vec<Line> = error.faults.iter().map(fault_line).collect();
                self.print(lines, true);
                return ExitCode::FAILURE;
            }
            Err(error) => return fail(&error.to_string()),
        };
        let settings: Settings = directory.environment.iter().collect();
        let app = App::load(&directory.root, &settings);
        let parts = match Parts::new(Arc::new(SystemClock)) {
            Ok(parts) => parts,
            Err(error) => return fail(&error.to_string()),
        };
        let mut lines: Vec<Line> = app.faults().map(fault_line).collect();
        let now = SystemClock.now();
        for function in app.functions.values() {
            let Function::Pollers(function) = function else {
                continue;
            };
            for config in &function.pollers {
                let schedule = function.schedule.as_ref();
                let longest = schedule.and_then(|schedule| schedule.longest_interval(now));
                let interval = schedule.and_then(|schedule| schedule.interval(now));
                if let Some(retry) = function.retry {
                    let text = host_retry::sentence(retry, interval);
                    lines.push(line(&config.name, Grade::Warn, "retry", &text));
                }
                lines.extend(longest.map(|longest| visibility(&config.name, longest)));
                match parts.poller(&app, config) {
                    Ok(poller) => lines.extend(grade(&poller).await),
                    Err(error) => lines.push(line(&config.name, Grade::Fail, "state", &error)),
                }
                let spare = rights::spare(config);
                let spare = spare
                    .iter()
                    .map(|text| line(&config.name, Grade::Warn, "rights", text));
                lines.extend(spare);
                lines.extend(receivers(&app, config));
            }
        }
        if lines.is_empty() {
            return fail("no function of this app has a poller block");
        }
        let failed = lines.iter().any(|line| line.grade == name(Grade::Fail));
        self.print(lines, failed);
        ExitCode::from(u8::from(failed))
    }

    fn print(&self, lines: Vec<Line>, failed: bool) {
        if self.json {
            let object = serde_json::json!({ "ok": !failed, "findings": lines });
            say(&format!("{object}\n"));
            return;
        }
        let lines = shards::said_once(lines);
        let table = table(&lines);
        let wide_enough = table.width().is_some_and(|width| width >= NARROWEST_TABLE);
        if stdout().is_terminal() && wide_enough {
            say(&format!("{table}\n"));
            return;
        }
        for line in &lines {
            let Line {
                poller,
                grade,
                subject,
                text,
            } = line;
            say(&format!("{grade}  {poller}  {subject}: {text}\n"));
        }
    }
}

fn table(lines: &[Line]) -> Table {
    let coloured = Settings::process().filled("NO_COLOR").is_none();
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["", "poller", "what", ""]);
    for line in lines {
        let grade = Cell::new(line.grade);
        let grade = match line.grade {
            _ if !coloured => grade,
            "PASS" => grade.fg(Color::Green),
            "WARN" => grade.fg(Color::Yellow),
            _ => grade.fg(Color::Red),
        };
        table.add_row([
            grade,
            Cell::new(&line.poller),
            Cell::new(&line.subject),
            Cell::new(&line.text),
        ]);
    }
    table
}

/// The database, the state, and what a tick would read between the two.
async fn grade(poller: &Poller) -> Vec<Line> {
    let say = |grade, subject: &str, text: &str| line(&poller.name, grade, subject, &text);
    let mut lines = Vec::new();
    let described = poller.source.describe().await;
    match &described {
        Ok(description) => {
            let findings = description.findings.iter();
            lines.extend(findings.map(|found| say(found.grade, found.subject, &found.text)));
        }
        Err(error) => lines.push(say(Grade::Fail, "source", &chain(error))),
    }
    let standing = poller.standing().await;
    match &standing {
        Ok(found) => {
            lines.push(say(Grade::Pass, "state", &found.sentence));
            let skew = found.clock_skew.map(ClockSkew::sentence);
            lines.extend(skew.map(|sentence| say(Grade::Warn, "clock", &sentence)));
            lines.extend(found.halt.as_ref().map(|halt| halted(&poller.name, halt)));
        }
        Err(error) => lines.push(say(Grade::Fail, "state", &error.story())),
    }
    if let Ok(SetAside { rows: 1.., .. }) = poller.set_aside().await {
        let name = &poller.name;
        let text = format!(
            "rows were set aside and not delivered: `dbtick quarantine list {name}` says which and why"
        );
        lines.push(say(Grade::Warn, "quarantine", &text));
    }
    // What a tick would say of a halt is less than what was said already.
    let runs = standing.is_ok_and(|found| found.halt.is_none());
    if described.is_ok() && runs {
        lines.push(match poller.next_rows().await {
            Ok(sentence) => say(Grade::Pass, "next rows", &sentence),
            Err(error) => say(Grade::Fail, "next rows", &error.story()),
        });
    }
    lines
}

/// Neither is a fault of the configuration; being marked failed is for a person to look into.
fn halted(poller: &str, halt: &Halt) -> Line {
    let (grade, way_on) = match halt.kind {
        HaltKind::Paused => (
            Grade::Warn,
            format!("`dbtick resume {poller}` lets it go on"),
        ),
        HaltKind::Failed => (
            Grade::Fail,
            format!("look into it, then `dbtick reset {poller}`"),
        ),
    };
    line(poller, grade, "status", &format!("{halt}; {way_on}"))
}

/// Who receives the rows; none of them is called.
fn receivers(app: &App, poller: &PollerConfig) -> Vec<Line> {
    let say = |grade, subject: &str, text: String| line(&poller.name, grade, subject, &text);
    let mut lines = Vec::new();
    for sink in &poller.deliver {
        match &sink.to {
            Target::Webhook(webhook) => {
                let text = format!("posts to {} (not called by check)", webhook.url);
                lines.push(say(Grade::Pass, &sink.name, text));
            }
            Target::Queue(queue) => {
                let (name, setting) = (&queue.queue, queue.endpoint.setting());
                let text = format!("puts messages into {name} of {setting} (not called by check)");
                lines.push(say(Grade::Pass, &sink.name, text));
            }
            Target::Relay(relay) => {
                let RelayFunction {
                    name, output, kind, ..
                } = &relay.function;
                let text = format!(
                    "through the function {name} to its {kind} output {output} (not called by check)"
                );
                lines.push(say(Grade::Pass, &sink.name, text));
                if !app.has_extensions {
                    let text = format!(
                        "host.json has no extensionBundle, without which the Functions host does not know \
                         the binding type {kind}; `dbtick dev` does: see docs/relay.md"
                    );
                    lines.push(say(Grade::Warn, &sink.name, text));
                }
            }
        }
    }
    lines
}

/// A8: how long a row may take to arrive.
fn visibility(poller: &str, longest: Duration) -> Line {
    let interval = show_duration(longest);
    let text = format!(
        "a row arrives within {interval} (the schedule) + query + a running tick + delivery"
    );
    line(poller, Grade::Pass, "visibility delay", &text)
}

fn fault_line(fault: &crate::config::Fault) -> Line {
    let place = match fault.path.as_str() {
        "" => fault.file.display().to_string(),
        path => format!("{}: {path}", fault.file.display()),
    };
    let text = format!("{}; {}", fault.problem, fault.hint);
    line("-", Grade::Fail, &place, &text)
}

fn line(poller: &str, grade: Grade, subject: &str, text: &impl ToString) -> Line {
    Line {
        poller: poller.to_owned(),
        grade: name(grade),
        subject: subject.to_owned(),
        text: text.to_string(),
    }
}

fn name(grade: Grade) -> &'static str {
    match grade {
        Grade::Pass => "PASS",
        Grade::Warn => "WARN",
        Grade::Fail => "FAIL",
    }
}
