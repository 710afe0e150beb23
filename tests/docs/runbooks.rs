//! Everything that the program calls by a name, and every error that it can say, has its line in operations.md.

use super::pages::read;
use dbtick::overview::health::{CODES, Health, Phase};
use dbtick::overview::orphans::OrphanKind;

const PAGE: &str = "docs/operations.md";

/// Where errors are worded that people meet. Those of a tick have their outcome in the page instead.
const WORDED: [&str; 23] = [
    "src/azure/identity.rs",
    "src/azure/queue/fault.rs",
    "src/backfill/plan.rs",
    "src/backfill/run.rs",
    "src/config/settings.rs",
    "src/database/fault.rs",
    "src/host/invocation.rs",
    "src/host/serve.rs",
    "src/model/address.rs",
    "src/schedule.rs",
    "src/sink/relay/wire.rs",
    "src/sink/webhook/answer.rs",
    "src/sink/webhook/client.rs",
    "src/source/fragment.rs",
    "src/tick/quarantine.rs",
    "src/source.rs",
    "src/store.rs",
    "src/model/state/wire.rs",
    "src/model/transitions.rs",
    "src/local/command.rs",
    "src/local/event.rs",
    "src/local/host.rs",
    "src/local/invocation.rs",
];

#[test]
fn every_name_that_status_uses_is_explained() {
    let page = read(PAGE);
    let phases = [
        Phase::New,
        Phase::Idle,
        Phase::Due,
        Phase::Working,
        Phase::Waiting,
        Phase::Failing,
        Phase::Paused,
        Phase::Failed,
        Phase::Unknown,
    ];
    let levels = [
        Health::Ok,
        Health::Attention,
        Health::Stopped,
        Health::Stuck,
    ];
    let names = CODES
        .into_iter()
        .chain(phases.map(Phase::name))
        .chain(levels.map(Health::name))
        .chain(OrphanKind::ALL.map(OrphanKind::name));
    let missing: Vec<_> = names
        .filter(|name| !page.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_verdict_of_trace_is_explained() {
    let page = read(PAGE);
    let source = read("src/model/trail.rs");
    let verdicts = source.split_once("pub enum Verdict {").unwrap().1;
    let verdicts = verdicts.split_once('}').unwrap().0;
    let names = verdicts
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','));
    let names: Vec<_> = names.map(snake_case).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn every_error_has_a_line_with_a_way_out() {
    let page = plain(read(PAGE));
    let mut missing = Vec::new();
    let mut checked = 0;
    for file in WORDED {
        let source = read(file);
        for error in source.split("#[error(").skip(1) {
            let Some(text) = error.trim_start().strip_prefix('"') else {
                continue;
            };
            let text = text.replace("\\\"", "\u{1}");
            let text = text
                .split('"')
                .next()
                .unwrap()
                .replace('\u{1}', "\"")
                .replace("\\\n", "");
            // What stands between two values; an error of values alone is worded where it is made.
            let fixed = text.split(['{', '}']).step_by(2).map(plain);
            let Some(longest) = fixed.max_by_key(String::len).filter(|it| it.len() > 8) else {
                continue;
            };
            checked += 1;
            if !page.contains(&longest) {
                missing.push(format!("{file}: {longest}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(checked > 60, "{checked}");
}

fn plain(text: impl AsRef<str>) -> String {
    let words: Vec<_> = text.as_ref().split_whitespace().collect();
    words
        .join(" ")
        .trim_matches(['\'', ' ', ':', ';', ',', '(', ')'])
        .to_owned()
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
