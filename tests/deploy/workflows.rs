//! The hosted workflows do what `.ci/run` does, with what they say they use.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{files, is_executable, parsed, read, yaml};

fn workflow(name: &str) -> Value {
    yaml(&format!(".github/workflows/{name}.yml"))
}

/// All steps of a workflow.
fn steps(workflow: &Value) -> Vec<&Value> {
    let jobs = workflow["jobs"].as_object().unwrap().values();
    jobs.flat_map(|job| job["steps"].as_array().unwrap())
        .collect()
}

fn runs(workflow: &Value) -> Vec<&str> {
    steps(workflow)
        .into_iter()
        .filter_map(|step| step["run"].as_str())
        .collect()
}

#[test]
fn the_hosted_gate_is_the_gate() {
    assert!(is_executable(".ci/run"));
    let gate = read(".ci/run");
    assert!(gate.trim_end().ends_with("exec ./tests/run"), "{gate}");
    for name in ["ci", "release"] {
        let workflow = workflow(name);
        let commands = runs(&serde_json::json!({ "jobs": { "gate": workflow["jobs"]["gate"] } }))
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        assert_eq!(commands.last().unwrap(), "./.ci/run", "{name}");
    }
    // Nothing is published that has not passed it.
    let release = workflow("release");
    assert_eq!(release["jobs"]["build"]["needs"], "gate");
    assert_eq!(release["jobs"]["publish"]["needs"], "build");
    let nightly = workflow("nightly");
    assert!(
        runs(&nightly).contains(&"./tests/run --long"),
        "{nightly:#}"
    );
    assert!(
        read("tests/run").contains("DBTICK_PACKAGE=built"),
        "the long run builds the package"
    );
}

#[test]
fn known_vulnerabilities_are_looked_for() {
    for name in ["ci", "nightly"] {
        let workflow = workflow(name);
        let found = steps(&workflow).into_iter().any(|step| {
            let action = step["uses"].as_str().unwrap_or_default();
            let command = step["with"]["command"].as_str().unwrap_or_default();
            action.starts_with("EmbarkStudios/cargo-deny-action@") && command.contains("advisories")
        });
        assert!(found, "{name}");
    }
}

#[test]
fn every_action_is_pinned_and_every_workflow_asks_for_little() {
    let toolchain = read("rust-toolchain.toml");
    let version = toolchain.split_once("channel = \"").unwrap().1;
    let image = format!("rust:{}-bookworm", version.split('"').next().unwrap());
    for path in files(".github/workflows", "yml") {
        let workflow = yaml(&path);
        assert_eq!(workflow["permissions"]["contents"], "read", "{path}");
        for step in steps(&workflow) {
            let Some(action) = step["uses"].as_str() else {
                continue;
            };
            let version = action
                .split_once("@v")
                .unwrap_or_else(|| panic!("{action}"));
            assert_eq!(version.1.split('.').count(), 3, "{path}: {action}");
        }
        for run in runs(&workflow) {
            for line in run.lines().filter(|line| line.contains("cargo install")) {
                assert!(line.contains("--locked --version"), "{path}: {line}");
            }
        }
        for (name, job) in workflow["jobs"].as_object().unwrap() {
            if let Some(container) = job["container"].as_str() {
                assert_eq!(container, image, "{path}: {name}");
            }
        }
    }
}

#[test]
fn a_release_has_static_programs_checksums_contents_and_a_proof() {
    let release = workflow("release");
    assert_eq!(release["on"]["push"]["tags"][0], "v*");
    let matrix = release["jobs"]["build"]["strategy"]["matrix"]["include"]
        .as_array()
        .unwrap();
    let targets: BTreeSet<&str> = matrix
        .iter()
        .map(|it| it["target"].as_str().unwrap())
        .collect();
    assert_eq!(
        targets.into_iter().collect::<Vec<_>>(),
        ["aarch64-unknown-linux-musl", "x86_64-unknown-linux-musl"]
    );
    let runs = runs(&release).join("\n");
    for part in [
        "deploy/build.sh",
        "cargo cyclonedx",
        "sha256sum",
        "gh release create",
    ] {
        assert!(runs.contains(part), "{part}");
    }
    let proof = steps(&release).into_iter().any(|step| {
        let action = step["uses"].as_str().unwrap_or_default();
        action.starts_with("actions/attest-build-provenance@")
    });
    assert!(proof);
    assert!(is_executable("deploy/build.sh"));
    assert!(read("deploy/build.sh").contains("deploy/is-static.sh"));
}

#[test]
fn the_changelog_has_the_version_that_is_built() {
    let changelog = read("CHANGELOG.md");
    assert!(changelog.contains("\n## [Unreleased]\n"));
    let version = format!("\n## [{}]", env!("CARGO_PKG_VERSION"));
    assert!(changelog.contains(&version), "{version}");
}

/// A form that cannot be read is not shown to anybody.
#[test]
fn the_forms_for_issues_parse_and_ask_to_leave_out_secrets() {
    let forms = files(".github/ISSUE_TEMPLATE", "yml");
    let said = parsed(&forms);
    let mut shown = 0;
    for path in forms.iter().filter(|path| !path.ends_with("config.yml")) {
        let form = &said[path][0];
        assert!(form["name"].is_string() && form["description"].is_string());
        let mut ids = BTreeSet::new();
        for field in form["body"].as_array().unwrap() {
            let kind = field["type"].as_str().unwrap();
            assert!(
                ["markdown", "textarea", "input", "dropdown"].contains(&kind),
                "{path}: {kind}"
            );
            if kind != "markdown" {
                assert!(field["attributes"]["label"].is_string(), "{path}");
                assert!(ids.insert(field["id"].as_str().unwrap()), "{path}");
            }
        }
        shown += 1;
    }
    assert_eq!(shown, 2);
    let bug = said[".github/ISSUE_TEMPLATE/bug.yml"].to_string();
    assert!(bug.contains("Leave out secrets") && bug.contains("SECURITY.md"));
}
