//! The key of a relay: what the script asks of `az`, seen by a stand-in that writes down how it was called. Azure itself
//! is not here.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use super::root;

const KEY: &str = "canary-relay-key";

/// Writes down its arguments, and whatever it is given in a file.
const STAND_IN: &str = r#"#!/bin/sh
echo "$*" >>"$CALLS"
case "$*" in
  *"keys set"*) printf '{"name": "x", "value": "%s"}' "$KEY" ;;
  *"keys list"*) printf '{"default": "a", "dbtick-20260101T000000Z": "b", "dbtick-20260301T000000Z": "c", "dbtick-20260201T000000Z": "d"}' ;;
  *"functionapp show"*) echo /subscriptions/s/sites/shop ;;
  *"secret set"*)
    [ "$FAIL" != vault ] || exit 1
    while [ "$1" != --file ]; do shift; done
    cat "$2" >"$CALLS.secret"
    stat -c %a "$2" >"$CALLS.mode"
    ;;
esac
"#;

fn run(directory: &Path, arguments: &[&str], fail: &str) -> (Output, Vec<String>) {
    let az = directory.join("az");
    std::fs::write(&az, STAND_IN).unwrap();
    std::fs::set_permissions(&az, PermissionsExt::from_mode(0o755)).unwrap();
    let calls = directory.join("calls");
    let output = Command::new(root().join("deploy/relay-key.sh"))
        .args(arguments)
        .env("PATH", format!("{}:/usr/bin:/bin", directory.display()))
        .env("TMPDIR", directory)
        .env("CALLS", &calls)
        .env("KEY", KEY)
        .env("FAIL", fail)
        .output()
        .unwrap();
    let calls = std::fs::read_to_string(calls).unwrap_or_default();
    (output, calls.lines().map(str::to_owned).collect())
}

const RELAY: [&str; 4] = ["group", "shop", "vault", "relay"];

#[test]
fn a_new_key_is_made_kept_in_the_vault_and_read_again_and_old_ones_stay() {
    let directory = tempfile::tempdir().unwrap();
    let (output, calls) = run(directory.path(), &RELAY, "");
    assert!(output.status.success(), "{output:?}");
    let order = [
        "functionapp function keys set --resource-group group --name shop --function-name relay",
        "keyvault secret set --vault-name vault --name DBTICK-RELAY-KEY",
        "functionapp show",
        "rest --method post --url /subscriptions/s/sites/shop/config/configreferences/appsettings/refresh",
    ];
    assert_eq!(calls.len(), order.len(), "{calls:#?}");
    for (call, begin) in calls.iter().zip(order) {
        assert!(call.starts_with(begin), "{call}");
        assert!(!call.contains(KEY), "a command line is seen by others");
    }
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!(read("calls.secret"), KEY);
    assert_eq!(read("calls.mode").trim(), "600");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains(KEY), "{said}");
    assert!(said.contains("--retire group shop vault relay"), "{said}");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 4, "az, and what it wrote: {left:?}");
}

#[test]
fn a_vault_that_refuses_ends_it_and_the_key_is_left_nowhere() {
    let directory = tempfile::tempdir().unwrap();
    let (output, calls) = run(directory.path(), &RELAY, "vault");
    assert!(!output.status.success());
    assert!(calls.last().unwrap().starts_with("keyvault"), "{calls:#?}");
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains(KEY), "{text}");
    }
}

#[test]
fn retiring_deletes_only_what_the_script_made_and_never_the_newest() {
    let directory = tempfile::tempdir().unwrap();
    let arguments: Vec<&str> = ["--retire"].into_iter().chain(RELAY).collect();
    let (output, calls) = run(directory.path(), &arguments, "");
    assert!(output.status.success(), "{output:?}");
    let deleted: Vec<&str> = calls
        .iter()
        .filter(|call| call.contains("keys delete"))
        .map(|call| call.split_once("--key-name ").unwrap().1)
        .map(|rest| rest.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        deleted,
        ["dbtick-20260101T000000Z", "dbtick-20260201T000000Z"]
    );
}

#[test]
fn wrong_arguments_are_told_and_nothing_is_asked_of_azure() {
    for arguments in [&[][..], &["group"], &["--retire", "group", "shop", "vault"]] {
        let directory = tempfile::tempdir().unwrap();
        let (output, calls) = run(directory.path(), arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(calls.is_empty(), "{calls:?}");
    }
}
