//! The security list and the fault list: each row has its tests, and each test says whose it is.

use std::collections::BTreeMap;

use super::{files, listed, packages, read, root};

/// Code of the library and of the tests, by path below the root.
fn sources() -> BTreeMap<String, String> {
    let paths = files("src", "rs").into_iter().chain(files("tests", "rs"));
    paths
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(root()).unwrap();
            (path.display().to_string(), text)
        })
        .collect()
}

/// `| S1 | rule | tests |`, by number.
fn rules(page: &str) -> Vec<(usize, &str)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| S"));
    rows.filter_map(|row| {
        let (number, rest) = row.split_once(" | ")?;
        Some((number.parse().ok()?, rest))
    })
    .collect()
}

fn tests_of(row: &str) -> Vec<&str> {
    let tests = row.split("`test:").skip(1);
    tests.map(|rest| rest.split('`').next().unwrap()).collect()
}

/// In the doc comment of the test, in its name, or in the head of its file.
fn says_whose_it_is(code: &str, test: &str, rule: &str) -> bool {
    let has = |text: &str| {
        text.split(|letter: char| !letter.is_ascii_alphanumeric())
            .any(|word| word == rule)
    };
    let Some(at) = code.find(&format!("fn {test}(")) else {
        return false;
    };
    let before: Vec<&str> = code[..at].lines().rev().skip(1).collect();
    let comment = before.iter().take_while(|line| {
        line.trim_start().starts_with("///") || line.trim_start().starts_with("#[")
    });
    let head: String = code
        .lines()
        .take_while(|line| line.starts_with("//!"))
        .collect();
    comment.copied().any(has) || has(&head)
}

#[test]
fn every_rule_of_the_security_list_has_a_test_that_names_it() {
    let page = read("SECURITY.md");
    let rules = rules(&page);
    let numbers: Vec<usize> = rules.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=18).collect::<Vec<_>>());
    let sources = sources();
    for (number, row) in rules {
        let tests = tests_of(row);
        assert!(!tests.is_empty(), "S{number} has no test");
        let rule = format!("S{number}");
        let named = tests.iter().any(|test| {
            sources
                .values()
                .any(|code| says_whose_it_is(code, test, &rule))
        });
        assert!(named, "none of the tests of {rule} names it: {tests:?}");
    }
}

#[test]
fn every_fault_has_somebody_who_injects_it() {
    let page = read("docs/faults.md");
    let simulated = read("tests/simulation/faults.rs");
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| fault"))
        .collect();
    assert!(rows.len() > 35, "{}", rows.len());
    for row in rows {
        let faults: Vec<&str> = row.split("`sim:").skip(1).collect();
        assert!(!tests_of(row).is_empty() || !faults.is_empty(), "{row}");
        for fault in faults {
            let name = fault.split('`').next().unwrap();
            let drawn = simulated.contains(&format!("    {name}: "));
            assert!(drawn, "the simulator has no {name}");
        }
    }
    let table = simulated.split_once("\nfaults! {").unwrap().1;
    let table = table.split_once("\n}").unwrap().0;
    let names = table.lines().filter(|line| !line.trim().starts_with("///"));
    let names: Vec<_> = names
        .filter_map(|line| Some(line.trim().split_once(": ")?.0))
        .collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert!(
            page.contains(&format!("`sim:{name}`")),
            "no row names sim:{name}"
        );
    }
}

/// S16: what was looked at is what is built.
#[test]
fn every_build_is_of_the_locked_dependencies() {
    let mut commands = 0;
    let scripts = ["tests/run", "tests/tools", ".ci/run"].map(|path| root().join(path));
    for path in scripts.into_iter().chain(files("deploy", "sh")) {
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Some(at) = words.iter().position(|word| *word == "cargo") else {
                continue;
            };
            let builds = [
                "build", "test", "run", "clippy", "doc", "install", "bench", "check", "nextest",
            ];
            let command = words.get(at + 1).copied().unwrap_or_default();
            if builds.contains(&command) && !line.contains("--version >") {
                commands += 1;
                assert!(words.contains(&"--locked"), "{}: {line}", path.display());
            }
        }
    }
    assert!(commands >= 6, "{commands}");
    let ignored = read(".gitignore");
    assert!(!ignored.contains("Cargo.lock"));
    // One TLS and one HTTP stack: two would have to be watched.
    let mut versions: BTreeMap<String, usize> = BTreeMap::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap().to_owned();
        *versions.entry(name).or_default() += 1;
    }
    for name in [
        "rustls",
        "ring",
        "rustls-webpki",
        "hyper",
        "hyper-util",
        "reqwest",
        "http",
        "url",
        "tokio",
        "sqlx",
    ] {
        assert_eq!(versions.get(name), Some(&1), "{name}");
    }
    let banned = read("deny.toml");
    assert!(listed(&banned, "deny = [", "crate = \"").contains("openssl"));
}

/// S16.
#[test]
fn the_build_forbids_unsafe_code_and_checks_overflow() {
    let manifest = read("Cargo.toml");
    let section = |name: &str| {
        let from = manifest
            .split_once(name)
            .unwrap_or_else(|| panic!("no {name}"))
            .1;
        from.split("\n[").next().unwrap().to_owned()
    };
    assert!(section("[lints.rust]").contains("unsafe_code = \"forbid\""));
    assert!(section("[profile.release]").contains("overflow-checks = true"));
    assert!(section("[lints.clippy]").contains("unwrap_used = \"warn\""));
    assert!(!manifest.contains("overflow-checks = false"));
    assert!(
        !manifest.contains("panic = \"abort\""),
        "a bug would take every poller with it"
    );
    for (path, code) in sources() {
        let allows = ["allow(unsafe_code", "allow(clippy::disallowed"];
        for allowed in allows.iter().filter(|_| path.starts_with("src/")) {
            let owner = ["src/clock.rs", "src/config/environment.rs"].contains(&path.as_str());
            assert!(owner || !code.contains(*allowed), "{path} has {allowed}");
        }
    }
}

/// S17: by the types that hold them, and where none does, by the one function.
#[test]
fn no_secret_is_compared_byte_by_byte() {
    let secrets = read("src/config/secret.rs");
    assert!(secrets.contains("ct_eq"));
    assert!(
        !secrets.contains("derive(Clone, PartialEq"),
        "a derived == stops at the first difference"
    );
    for (path, compares) in [
        ("src/local/http.rs", "same(given, key)"),
        ("src/sink/relay.rs", "same(&given.token, &receipt.token)"),
    ] {
        assert!(read(path).contains(compares), "{path}");
    }
}
