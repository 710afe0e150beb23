//! `dbtick new`: apps that run as they are laid out, and nothing that was there written over.

#![allow(clippy::unwrap_used)] // the lint exempts test functions, not what they call

mod support;

#[path = "new/templates.rs"]
mod templates;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use support::command::Said;
use support::handler::BINARY;

/// Beside the new app, with nothing in the environment that an app could read.
fn run(directory: &TempDir, arguments: &[&str]) -> Said {
    let output = Command::new(BINARY)
        .args(arguments)
        .current_dir(directory.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("XDG_STATE_HOME", directory.path().join("state"))
        .output()
        .unwrap();
    Said {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.as_ref().display()))
}

/// Everything below a directory that is text, and its bytes.
fn contents(directory: &Path) -> BTreeSet<(String, Vec<u8>)> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found
}

/// The names that `--list` shows.
fn listed() -> Vec<String> {
    let directory = TempDir::new().unwrap();
    let said = run(&directory, &["new", "--list", "--json"]);
    let list: Value = serde_json::from_str(&said.stdout).unwrap();
    let templates = list["templates"].as_array().unwrap().iter();
    templates
        .map(|template| template["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_template_of_the_tree_is_offered_with_a_line_of_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("function-templates");
    let directories = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap());
    let mut in_tree: Vec<String> = directories
        .filter(|entry| entry.path().join("function.json").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    in_tree.sort();
    let mut offered = listed();
    offered.sort();
    assert_eq!(offered, in_tree);
    let directory = TempDir::new().unwrap();
    let list = run(&directory, &["new", "--list"]);
    assert_eq!((list.code, &*list.stderr), (Some(0), ""));
    let index = read(root.join("README.md"));
    for name in in_tree {
        let page = read(root.join(&name).join("README.md"));
        let mut lines = page.lines();
        assert_eq!(lines.next().unwrap(), format!("# {name}"));
        let summary = lines.nth(1).unwrap();
        assert!(summary.len() <= 90 && summary.ends_with('.'), "{summary}");
        assert!(list.stdout.contains(summary), "{name}: {}", list.stdout);
        assert!(
            index.contains(&format!("[{name}]({name}/README.md)")),
            "{name}"
        );
        let function = read(root.join(&name).join("function.json"));
        for setting in settings(&function) {
            let row = format!("| `{setting}` |");
            assert!(page.contains(&row), "{name} does not explain {setting}");
        }
    }
}

/// The app settings that a function.json names.
fn settings(function: &str) -> BTreeSet<String> {
    let named = function.split('%').skip(1).step_by(2);
    let connections = function.split("\"connection\": \"").skip(1);
    let connections = connections.map(|rest| rest.split('"').next().unwrap());
    named.chain(connections).map(str::to_owned).collect()
}

#[test]
fn a_new_app_passes_its_check_at_once() {
    let directory = TempDir::new().unwrap();
    let said = run(&directory, &["new", "shop"]);
    assert_eq!((said.code, &*said.stderr), (Some(0), ""), "{said:?}");
    for part in [
        "wrote   shop/poll-webhook/function.json",
        "wrote   shop/status/function.json",
        "created shop/orders.db",
        "python3 shop/receiver.py",
        "dbtick check shop",
        "dbtick dev shop",
    ] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let app = directory.path().join("shop");
    for (laid_out, source) in [
        ("host.json", "host.json"),
        ("local.settings.json", "local.settings.sample.json"),
        (
            "poll-webhook/function.json",
            "function-templates/poll-webhook/function.json",
        ),
        ("receiver.py", "samples/python/receiver.py"),
    ] {
        assert_eq!(
            read(app.join(laid_out)),
            read(root.join(source)),
            "{laid_out}"
        );
    }
    for (file, left_out) in [
        (".gitignore", "local.settings.json"),
        (".funcignore", "local.settings*.json"),
    ] {
        assert!(read(app.join(file)).lines().any(|line| line == left_out));
    }
    let check = run(&directory, &["check", "shop", "--json"]);
    assert_eq!(check.code, Some(0), "{}", check.stdout);
    assert!(
        check.stdout.contains("there are rows to deliver"),
        "{}",
        check.stdout
    );
}

#[test]
fn a_function_is_added_to_an_app_and_what_was_there_is_kept() {
    let directory = TempDir::new().unwrap();
    assert_eq!(run(&directory, &["new", "shop"]).code, Some(0));
    let app = directory.path().join("shop");
    let settings = read(app.join("local.settings.json")).replace("8080", "9090");
    fs::write(app.join("local.settings.json"), &settings).unwrap();
    let before = contents(&app);

    let said = run(&directory, &["new", "shop"]);
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("is an app already"), "{}", said.stderr);
    assert_eq!(contents(&app), before);

    let said = run(&directory, &["new", "shop", "--template", "outbox=mail"]);
    assert_eq!((said.code, &*said.stderr), (Some(0), ""));
    assert!(contents(&app).is_superset(&before), "nothing else changed");
    assert!(app.join("mail/function.json").exists());
    let step = "sqlite3 shop/orders.db < shop/tables/outbox.sql";
    assert!(said.stdout.contains(step), "{}", said.stdout);
    assert!(!said.stdout.contains("< shop/tables/orders.sql"));

    // The same again changes nothing; a function that a person has changed is not written over.
    let before = contents(&app);
    let again = ["new", "shop", "--template", "outbox=mail"];
    assert_eq!(run(&directory, &again).code, Some(0));
    assert_eq!(contents(&app), before);
    let file = app.join("mail/function.json");
    fs::write(&file, "{}").unwrap();
    let said = run(&directory, &again);
    assert_eq!((said.code, &*said.stdout), (Some(1), ""));
    for part in ["shop/mail/function.json", "nothing was written", "--force"] {
        assert!(said.stderr.contains(part), "{part}: {}", said.stderr);
    }
    assert_eq!(read(&file), "{}");
    let said = run(
        &directory,
        &["new", "shop", "--template", "outbox=mail", "--force"],
    );
    assert_eq!(said.code, Some(0));
    assert_eq!(contents(&app), before, "by force, and only the function");
}

#[test]
fn settings_that_an_app_lacks_are_named() {
    let directory = TempDir::new().unwrap();
    assert_eq!(run(&directory, &["new", "shop"]).code, Some(0));
    let file = directory.path().join("shop/local.settings.json");
    let values = r#""Values": { "ORDERS_DB": "postgres://ada:secret@127.0.0.1/shop" }"#;
    fs::write(&file, format!("{{ \"IsEncrypted\": false, {values} }}")).unwrap();
    let said = run(&directory, &["new", "shop", "--template", "soft-delete"]);
    assert_eq!(said.code, Some(0));
    assert!(said.stdout.contains("ORDERS_HOOK"), "{}", said.stdout);
    let table = read(directory.path().join("shop/tables/customers.sql"));
    assert!(table.contains("timestamptz"), "as ORDERS_DB says: {table}");
}

#[test]
fn what_is_in_the_way_is_named_with_the_way_out() {
    let directory = TempDir::new().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("file"), "").unwrap();
    fs::create_dir(at("other")).unwrap();
    fs::write(at("other/notes.txt"), "").unwrap();
    fs::create_dir(at("node")).unwrap();
    fs::write(at("node/host.json"), r#"{ "version": "2.0" }"#).unwrap();
    fs::create_dir(at("odd")).unwrap();
    fs::write(at("odd/poll-webhook"), "").unwrap();
    for (arguments, code, parts) in [
        (
            &["file"][..],
            1,
            &["file is a file", "name a directory"][..],
        ),
        (&["file/below"], 1, &["name a directory"]),
        (&["other"], 1, &["other is not empty", "--force"]),
        (&["node"], 1, &["another handler", "directory of its own"]),
        (
            &["odd", "--force"],
            1,
            &["odd/poll-webhook", "a file is in the way"],
        ),
        (
            &["/proc/shop"],
            1,
            &["/proc/shop/host.json cannot be written"],
        ),
        (
            &["shop", "--template", "poll-webhok"],
            2,
            &["\"poll-webhok\"", "did you mean poll-webhook?", "--list"],
        ),
        (
            &["shop", "--template", "kafka"],
            2,
            &["\"kafka\"", "--list"],
        ),
        (
            &["shop", "--template", "poll-webhook=9"],
            2,
            &["no name of a function"],
        ),
        (
            &["shop", "--template", "outbox=a,status=A"],
            2,
            &["two functions would be called", "=NAME"],
        ),
        (
            &["shop", "--template", "relay=carry"],
            2,
            &["keeps that name"],
        ),
        (&["shop", "--database", "oracle"], 2, &["postgres"]),
        (&[], 2, &["<APP>"]),
    ] {
        let before = contents(directory.path());
        let said = run(&directory, &[&["new"], arguments].concat());
        assert_eq!(
            (said.code, &*said.stdout),
            (Some(code), ""),
            "{arguments:?}"
        );
        for part in parts {
            assert!(said.stderr.contains(part), "{arguments:?}: {}", said.stderr);
        }
        assert_eq!(contents(directory.path()), before, "{arguments:?}");
    }
    let said = run(&directory, &["new", "other", "--force"]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(at("other/notes.txt").exists());
}

#[test]
fn machines_are_told_the_same() {
    let directory = TempDir::new().unwrap();
    let relay = ["new", "shop", "--template", "poll-relay", "--json"];
    let said: Value = serde_json::from_str(&run(&directory, &relay).stdout).unwrap();
    assert_eq!(said["ok"], true);
    let wrote = said["wrote"].to_string();
    assert!(
        wrote.contains("shop/relay/function.json"),
        "it needs one: {wrote}"
    );
    assert!(said["next"].to_string().contains("azurite"), "{said}");
    let host = read(directory.path().join("shop/host.json"));
    assert!(host.contains("extensionBundle"), "for the queue: {host}");
    let check = run(&directory, &["check", "shop"]);
    assert_eq!(check.code, Some(0), "{}", check.stdout);
    assert!(
        !check.stdout.contains("extensionBundle"),
        "{}",
        check.stdout
    );
    let said: Value =
        serde_json::from_str(&run(&directory, &["new", "shop", "--json"]).stdout).unwrap();
    assert_eq!(said["ok"], false);
    assert!(said["error"].as_str().unwrap().contains("--template NAME"));
}
