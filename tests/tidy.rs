//! House rules that a compiler does not know: dependency policy, tree, docs that name tests.

#![allow(clippy::unwrap_used)]

#[path = "tidy/security.rs"]
mod security;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use dbtick::config::{App, Settings};
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(directory: &str, extension: &str) -> Vec<PathBuf> {
    fn walk(directory: &Path, extension: &str, found: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(directory) else {
            return;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, extension, found);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(directory), extension, &mut found);
    assert!(!found.is_empty(), "no .{extension} below {directory}");
    found
}

/// The quoted strings of a list in deny.toml.
fn listed<'a>(text: &'a str, from: &str, item: &str) -> BTreeSet<&'a str> {
    let list = text.split_once(from).unwrap().1;
    let list = list.split_once("\n]").unwrap().0;
    let found: BTreeSet<_> = list
        .split(item)
        .skip(1)
        .map(|rest| rest.split_once('"').unwrap().0)
        .collect();
    assert!(!found.is_empty());
    found
}

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .arg(format!(
            "--filter-platform={}-unknown-linux-gnu",
            std::env::consts::ARCH
        ))
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

#[test]
fn every_dependency_keeps_the_policy_of_deny_toml() {
    let policy = read("deny.toml");
    let allowed = listed(&policy, "allow = [", "  \"");
    let banned = listed(&policy, "deny = [", "crate = \"");
    let mut broken = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        if name == "dbtick" {
            continue;
        }
        if banned.contains(name) {
            broken.push(format!("{name} is banned"));
        }
        let source = package["source"].as_str().unwrap_or("a path");
        if !source.starts_with("registry+https://github.com/rust-lang/crates.io-index") {
            broken.push(format!("{name} comes from {source}"));
        }
        let licence = package["license"].as_str().unwrap_or("");
        if !licence_is_allowed(licence, &allowed) {
            broken.push(format!("{name} has the licence {licence:?}"));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// `A OR B` needs one of them, `A AND B` both; a slash is an old form of OR.
fn licence_is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], "");
    expression.split(" AND ").all(|part| {
        part.split(" OR ")
            .any(|licence| allowed.contains(licence.trim()))
    })
}

#[test]
fn a_licence_outside_the_list_is_noticed() {
    let allowed = BTreeSet::from(["MIT", "ISC"]);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND ISC", true),
        ("", false),
    ] {
        assert_eq!(
            licence_is_allowed(expression, &allowed),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn the_tree_keeps_its_habits() {
    let mut broken = Vec::new();
    for path in files("src", "rs").into_iter().chain(files("tests", "rs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut say = |what: &str| broken.push(format!("{}: {what}", path.display()));
        // What several test binaries share has to be called mod.rs, or it would be one itself.
        if path.ends_with("mod.rs") && !path.ends_with("tests/support/mod.rs") {
            say("modules are foo.rs + foo/, not mod.rs");
        }
        if text.contains(concat!("#[ign", "ore")) {
            say("tests are not ignored");
        }
        let in_src = path.starts_with(root().join("src"));
        if in_src && !path.ends_with("tests.rs") && text.lines().count() > 500 {
            say("more than 500 lines");
        }
        if in_src
            && !path.ends_with("tests.rs")
            && !text.starts_with("//!")
            && !path.ends_with("main.rs")
        {
            say("no module doc");
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_select_in_the_core_is_biased() {
    for room in ["tick", "source", "sink", "store", "host"] {
        for path in files(&format!("src/{room}"), "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for block in text.split("select! {").skip(1) {
                let first = block.trim_start();
                assert!(first.starts_with("biased;"), "{}", path.display());
            }
        }
    }
}

#[test]
fn every_test_that_the_docs_name_exists() {
    let code: String = files("src", "rs")
        .into_iter()
        .chain(files("tests", "rs"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let mut named = 0;
    let pages = files("docs", "md").into_iter();
    for path in pages.chain([root().join("SECURITY.md")]) {
        let text = std::fs::read_to_string(&path).unwrap();
        for name in text.split("`test:").skip(1) {
            let name = name.split('`').next().unwrap();
            named += 1;
            let exists =
                code.contains(&format!("fn {name}(")) || code.contains(&format!("    {name},"));
            assert!(
                exists,
                "{} names the test {name}, which does not exist",
                path.display()
            );
        }
    }
    assert!(named > 0, "the docs name no tests");
}

/// As `semantics.md` counts them.
#[test]
fn every_promise_of_the_contract_is_in_the_table_of_guarantees() {
    let counts = [
        ('A', 8),
        ('B', 10),
        ('C', 9),
        ('D', 10),
        ('E', 3),
        ('F', 6),
        ('G', 7),
        ('H', 3),
        ('I', 20),
    ];
    let text = read("docs/guarantees.md");
    let rows = text.lines().filter(|line| line.contains("`test:"));
    let numbers = rows.filter_map(|row| row.strip_prefix("| ")?.split('|').next());
    let numbers: BTreeSet<_> = numbers
        .flat_map(|it| it.split(',').map(str::trim))
        .collect();
    for (letter, count) in counts {
        for number in 1..=count {
            let name = format!("{letter}{number}");
            assert!(
                numbers.contains(name.as_str()),
                "{name} has no row with a test"
            );
        }
    }
}

#[test]
fn every_outcome_of_a_tick_has_its_line_in_the_operations_page() {
    let report = read("src/tick/report.rs");
    let page = read("docs/operations.md");
    let names: Vec<_> = report
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Self::"))
        .filter_map(|arm| arm.split_once("=> \"")?.1.strip_suffix("\","))
        .collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(
            page.contains(&format!("| `{name}` |")),
            "{name} has no line"
        );
    }
}

#[test]
fn every_key_of_a_poller_is_in_the_configuration_page() {
    fn keys<'a>(schema: &'a Value, found: &mut BTreeSet<&'a str>) {
        match schema {
            Value::Object(members) => {
                if let Some(Value::Object(properties)) = members.get("properties") {
                    found.extend(properties.keys().map(String::as_str));
                }
                members.values().for_each(|member| keys(member, found));
            }
            Value::Array(members) => members.iter().for_each(|member| keys(member, found)),
            _ => {}
        }
    }
    let schema: Value = serde_json::from_str(&read("schema/poller.schema.json")).unwrap();
    let page = read("docs/configuration.md");
    let mut found = BTreeSet::new();
    keys(&schema, &mut found);
    // What the host reads is the host's to document.
    found.retain(|key| !["$schema", "bindings", "direction", "retry", "type"].contains(key));
    assert!(found.len() > 20, "{found:?}");
    let missing: Vec<_> = found.iter().filter(|key| !page.contains(**key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_finding_is_explained() {
    let page = read("docs/operations.md");
    let missing: Vec<_> = dbtick::overview::health::CODES
        .into_iter()
        .filter(|code| !page.contains(&format!("`{code}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_template_is_a_poller_without_faults() {
    let app = tempfile::tempdir().unwrap();
    let state = tempfile::tempdir().unwrap();
    std::fs::copy(root().join("host.json"), app.path().join("host.json")).unwrap();
    for entry in std::fs::read_dir(root().join("function-templates")).unwrap() {
        let template = entry.unwrap().path();
        if !template.join("function.json").exists() {
            continue;
        }
        let target = app.path().join(template.file_name().unwrap());
        std::fs::create_dir(&target).unwrap();
        let text = std::fs::read_to_string(template.join("function.json")).unwrap();
        // Two templates may use one poller name; in an app they must not.
        std::fs::write(target.join("function.json"), text).unwrap();
    }
    let sample: Value = serde_json::from_str(&read("local.settings.sample.json")).unwrap();
    let values = sample["Values"].as_object().unwrap().iter();
    let settings: Settings = values
        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
        .chain([(
            "DBTICK_STATE_DIR".to_owned(),
            state.path().display().to_string(),
        )])
        .collect();
    let loaded = App::load(app.path(), &settings);
    let faults: Vec<String> = loaded.faults().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(loaded.pollers().count() >= 3);
}

/// What the crash test breaks on purpose is in a program of its own.
#[test]
#[cfg(not(feature = "planted"))]
fn nothing_is_planted_in_a_build_without_the_feature() {
    let binary = std::fs::read(env!("CARGO_BIN_EXE_dbtick")).unwrap();
    let holds = |text: &str| {
        let text = text.as_bytes();
        binary.windows(text.len()).any(|part| part == text)
    };
    assert!(holds("DBTICK_STATE_DIR"), "names of variables are found");
    for name in ["DBTICK_CRASH_AT", "DBTICK_BUG", "commit-before-deliver"] {
        assert!(!holds(name), "{name}");
    }
    let names = read("src/planted/names.rs");
    for name in ["DBTICK_CRASH_AT", "DBTICK_BUG", "commit-before-deliver"] {
        assert!(names.contains(name), "{name} is planted under another name");
    }
    let manifest = read("Cargo.toml");
    let features = manifest.split_once("[features]").unwrap().1;
    let features = features.split("\n[").next().unwrap();
    assert!(!features.contains("default"), "{features}");
}

#[test]
fn the_disclosure_stands_where_people_look() {
    let main_help = Command::new(env!("CARGO_BIN_EXE_dbtick"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(main_help.stdout).unwrap();
    for (place, text) in [
        ("README.md", read("README.md")),
        ("src/lib.rs", read("src/lib.rs")),
        ("--help", help),
    ] {
        let words = text
            .replace("//!", " ")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        for phrase in ["pseudo trigger on timers", "at least once", "idempotent"] {
            assert!(words.contains(phrase), "{place} does not say {phrase:?}");
        }
    }
    let readme = read("README.md");
    let (_, promises) = readme.split_once("| not promised |").unwrap();
    let (promises, _) = promises.split_once("\n\n").unwrap();
    for phrase in [
        "exactly once",
        "intermediate states",
        "order across pollers",
        "hard deletes",
        "*below* the checkpoint",
        "enters a filter",
    ] {
        assert!(
            promises.contains(phrase),
            "what is not promised: {phrase:?}"
        );
    }
}
