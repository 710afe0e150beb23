//! What a person sees of each command: exit code, stdout, stderr.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use support::handler::{BINARY, Lines};
use support::receiver::TOKEN;
use support::within;
use support::world::World;

#[derive(Debug)]
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn command(arguments: &[&str], environment: &BTreeMap<String, String>) -> Command {
    let mut command = Command::new(BINARY);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .envs(environment)
        .stdin(Stdio::null());
    command
}

fn run_in(directory: &Path, arguments: &[&str], environment: &BTreeMap<String, String>) -> Said {
    let mut command = command(arguments, environment);
    let output = command.current_dir(directory).output().unwrap();
    Said {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(arguments: &[&str]) -> Said {
    run_in(&std::env::temp_dir(), arguments, &BTreeMap::new())
}

fn check(world: &World, arguments: &[&str]) -> Said {
    let arguments = [&["check"], arguments].concat();
    run_in(&world.app(), &arguments, &world.environment)
}

#[test]
fn help_says_what_dbtick_is_and_what_it_is_not() {
    let said = run(&["--help"]);
    assert_eq!(said.code, Some(0));
    for words in ["pseudo trigger", "at least once", "idempotent"] {
        assert!(said.stdout.contains(words), "{}", said.stdout);
    }
    for name in [
        "serve",
        "dev",
        "demo",
        "new",
        "init",
        "check",
        "peek",
        "trace",
        "tick",
        "unlock",
        "completions",
        "man",
        "pause",
        "resume",
        "history",
        "rollback",
        "reset",
        "adopt",
        "clone",
        "state",
        "schema",
        "backfill",
        "reconcile",
    ] {
        assert!(said.stdout.contains(name), "{}", said.stdout);
        let help = run(&[name, "--help"]);
        assert_eq!((help.code, &*help.stderr), (Some(0), ""), "{name}");
        assert!(
            help.stdout.contains("Usage: dbtick"),
            "{name}: {}",
            help.stdout
        );
    }
    assert_eq!(
        run(&["--version"]).stdout,
        concat!("dbtick ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn misuse_is_2_and_names_the_remedy() {
    let said = run(&["serve"]);
    assert_eq!((said.code, &*said.stdout), (Some(2), ""));
    assert_eq!(
        said.stderr,
        "dbtick: no port to serve on: the Functions host sets FUNCTIONS_CUSTOMHANDLER_PORT; run the \
         app with `func start` or `dbtick dev`, or pass --port\n"
    );
    let said = run(&["chek"]);
    assert_eq!((said.code, &*said.stdout), (Some(2), ""));
    assert!(
        said.stderr.contains("'check'"),
        "a suggestion: {}",
        said.stderr
    );
    for arguments in [
        &[][..],
        &["serve", "--port", "many"],
        &["check", "--jsno"],
        &["dev", "--restart-budget", "-1"],
        &["schema", "rows"],
    ] {
        let said = run(arguments);
        assert_eq!((said.code, &*said.stdout), (Some(2), ""), "{arguments:?}");
        assert!(
            said.stderr.contains("--help") || said.stderr.contains("Usage"),
            "{arguments:?}: {}",
            said.stderr
        );
    }
    let port = [("FUNCTIONS_CUSTOMHANDLER_PORT".to_owned(), "many".to_owned())];
    let said = run_in(&std::env::temp_dir(), &["serve"], &port.into());
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("many"), "{}", said.stderr);
}

#[test]
fn a_directory_that_is_no_app_is_named() {
    let empty = tempfile::tempdir().unwrap();
    for name in ["dev", "check"] {
        let said = run(&[name, empty.path().to_str().unwrap()]);
        assert_eq!((said.code, &*said.stdout), (Some(1), ""), "{name}");
        assert!(said.stderr.contains("host.json"), "{name}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    }
}

#[test]
fn each_schema_is_a_json_schema() {
    for (of, part) in [
        ("poller", "/properties/poller"),
        ("batch", "/properties/batch_id"),
        ("message", "/properties/claim_check"),
    ] {
        let said = run(&["schema", of]);
        assert_eq!((said.code, &*said.stderr), (Some(0), ""));
        let schema: Value = serde_json::from_str(&said.stdout).unwrap();
        jsonschema::meta::validate(&schema).unwrap();
        assert!(schema.pointer(part).is_some(), "{of}: {schema}");
    }
    assert_eq!(run(&["schema"]).stdout, run(&["schema", "poller"]).stdout);
}

/// A8.
#[tokio::test]
async fn check_says_how_long_a_row_may_take_by_the_schedule_as_it_is_configured() {
    let mut world = World::new().await.setting("OFTEN", "0 */5 * * * *");
    for (function, schedule) in [
        ("Often", "*/15 * * * * *"),
        ("Hourly", "0 0 * * * *"),
        // The longest of its gaps counts.
        ("Office", "0 0 9,17 * * *"),
        ("Named", "%OFTEN%"),
    ] {
        let function_json = json!({
            "bindings": [{
                "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": schedule
            }],
            "poller": support::world::poller(json!({}))
        });
        let path = format!("{function}/function.json");
        world = world.file(&path, &function_json.to_string());
    }
    let said = check(&world, &[]).stdout;
    for (poller, delay) in [
        ("often", "15s"),
        ("hourly", "1h"),
        ("office", "16h"),
        ("named", "5m"),
    ] {
        let expected = format!("a row arrives within {delay} (the schedule)");
        let mut lines = said
            .lines()
            .filter(|line| line.contains("visibility delay"));
        assert!(
            lines.any(|line| line.contains(poller) && line.contains(&expected)),
            "{poller}: {expected}: {said}"
        );
    }
}

#[tokio::test]
async fn check_passes_a_good_app_in_plain_lines() {
    let world = World::with_orders(json!({})).await.rows(3).await;
    let said = check(&world, &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.stderr, "");
    for line in said.stdout.lines() {
        assert!(
            line.starts_with("PASS  orders  ") || line.starts_with("WARN  orders  "),
            "{line}"
        );
    }
    assert!(
        said.stdout.contains("the first tick creates it"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("visibility delay"), "{}", said.stdout);
    assert!(!said.stdout.contains(TOKEN), "{}", said.stdout);
    assert!(!said.stdout.contains('\u{1b}'), "no colours into a pipe");
    assert_eq!(world.receiver.count(), 0, "check calls no receiver");
    assert!(world.state_texts().is_empty(), "check writes nothing");

    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    let said = check(&world, &[]);
    assert!(
        said.stdout.contains("checkpoint at 3 (3)"),
        "{}",
        said.stdout
    );
}

#[tokio::test]
async fn check_as_json_is_one_object_for_good_and_bad_apps() {
    let good = World::with_orders(json!({})).await;
    let no_table = World::with_orders(json!({ "source": { "table": "nowhere" } })).await;
    let no_such_key = World::with_orders(json!({ "source": { "tabel": "x" } })).await;
    let not_json = World::with_orders(json!({}))
        .await
        .file("Bad/function.json", "{");
    for (name, world, ok, part) in [
        ("good", good, true, "checkpoint"),
        ("no table", no_table, false, "nowhere"),
        ("no such key", no_such_key, false, "tabel"),
        ("not JSON", not_json, false, "Bad"),
    ] {
        let said = check(&world, &["--json"]);
        assert_eq!(said.code, Some(i32::from(!ok)), "{name}: {said:?}");
        let object: Value = match serde_json::from_str(&said.stdout) {
            Ok(object) => object,
            Err(error) => panic!("{name}: {error}: {said:?}"),
        };
        assert_eq!(object["ok"], ok, "{name}: {object}");
        let findings = object["findings"].as_array().unwrap();
        for finding in findings {
            for field in ["poller", "grade", "subject", "text"] {
                assert!(finding[field].is_string(), "{name}: {finding}");
            }
        }
        if !ok {
            let failed = findings
                .iter()
                .find(|finding| finding["grade"] == "FAIL" && finding.to_string().contains(part));
            assert!(failed.is_some(), "{name}: {object}");
        }
    }
}

#[tokio::test]
async fn check_fails_a_bad_app_and_says_where() {
    let world =
        World::with_orders(json!({ "lease": { "ttl": "2s" }, "batch": { "max_bytes": "1B" } }))
            .await
            .poller("Good", json!({}));
    let said = check(&world, &[]);
    assert_eq!(said.code, Some(1), "{said:?}");
    for part in [
        "FAIL  -  Orders/function.json: poller.lease.heartbeat",
        "FAIL  -  Orders/function.json: poller.batch.max_bytes",
        "PASS  good  ",
    ] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
}

#[tokio::test]
async fn check_grades_a_damaged_state_as_a_failure() {
    let world = World::with_orders(json!({})).await.rows(1).await;
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    std::fs::write(world.state("orders").path, "{").unwrap();
    let said = check(&world, &[]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.stdout.contains("FAIL  orders  state"),
        "{}",
        said.stdout
    );
}

/// Each: what is done to an app that has run, and what check must then say.
#[tokio::test]
async fn check_fails_for_every_reason_that_fails_a_tick() {
    fn vanish(world: &World) {
        std::fs::remove_file(world.state("orders").path).unwrap();
    }
    fn change(world: &World) {
        let file = world.app().join("Orders/function.json");
        let text = std::fs::read_to_string(&file).unwrap();
        let changed = text.replace("\"cursor\":\"seq\"", "\"cursor\":\"id\"");
        assert_ne!(text, changed);
        std::fs::write(&file, changed).unwrap();
    }
    let cases = [
        (
            vanish as fn(&World),
            "FAIL  orders  state: state/app/orders.json: the state document is gone",
        ),
        (change, "FAIL  orders  next rows: the source has changed"),
    ];
    for (done, expected) in cases {
        let world = World::with_orders(json!({})).await.rows(1).await;
        assert_eq!(world.serve().await.tick("Orders").await.status, 200);
        assert_eq!(check(&world, &[]).code, Some(0));
        done(&world);
        let said = check(&world, &[]);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.stdout.contains(expected), "{}", said.stdout);
        assert_eq!(world.serve().await.tick("Orders").await.status, 500);
    }
}

#[tokio::test]
async fn check_promises_no_rows_that_start_now_leaves_out() {
    let world = World::with_orders(json!({ "source": { "start": "now" } }))
        .await
        .rows(1)
        .await;
    let said = check(&world, &[]);
    assert!(
        said.stdout.contains("are not delivered (start: now)"),
        "{}",
        said.stdout
    );
}

/// Each: which file has the policy, the policy, and what check must say about it.
#[tokio::test]
async fn check_warns_of_a_retry_policy_of_the_host_by_what_it_does() {
    let world = World::with_orders(json!({})).await;
    assert!(!check(&world, &[]).stdout.contains("WARN  orders  retry"));
    let fixed = |count: i64| json!({ "strategy": "fixedDelay", "maxRetryCount": count, "delayInterval": "00:00:10" });
    let backoff = json!({
        "strategy": "exponentialBackoff", "maxRetryCount": 3,
        "minimumInterval": "00:00:05", "maximumInterval": "00:01:00"
    });
    for (name, policy, expected) in [
        (
            "Orders/function.json",
            fixed(1),
            Some("repeats a failed tick once; the next"),
        ),
        (
            "Orders/function.json",
            fixed(2),
            Some("2 times, for 20s or more, which is longer than the 15s between two ticks"),
        ),
        (
            "Orders/function.json",
            fixed(-1),
            Some("without end (maxRetryCount is -1)"),
        ),
        (
            "Orders/function.json",
            backoff,
            Some("3 times, for 35s or more"),
        ),
        ("Orders/function.json", fixed(0), None),
        (
            "host.json",
            fixed(-1),
            Some("without end (maxRetryCount is -1)"),
        ),
        ("host.json", json!({}), Some("which cannot be read here")),
    ] {
        let file = world.app().join(name);
        let text = std::fs::read_to_string(&file).unwrap();
        let mut document: Value = serde_json::from_str(&text).unwrap();
        document["retry"] = policy.clone();
        if name == "Orders/function.json" {
            document["bindings"][0]["schedule"] = "*/15 * * * * *".into();
        }
        std::fs::write(&file, document.to_string()).unwrap();
        let said = check(&world, &[]);
        std::fs::write(&file, text).unwrap();
        assert_eq!(said.code, Some(0), "{said:?}");
        let warned = said
            .stdout
            .lines()
            .find(|line| line.starts_with("WARN  orders  retry"));
        match expected {
            Some(part) => assert!(warned.unwrap().contains(part), "{policy}: {warned:?}"),
            None => assert_eq!(warned, None, "{policy}"),
        }
    }
}

#[tokio::test]
async fn check_fails_where_the_next_tick_would() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    let said = check(&world, &[]);
    let rows = "PASS  orders  next rows: there are rows to deliver";
    assert!(said.stdout.contains(rows), "{}", said.stdout);
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    let mut writer = world.writer().await;
    writer
        .sql("UPDATE orders SET seq = 'text' WHERE id = 1")
        .await;
    let said = check(&world, &[]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let next = "FAIL  orders  next rows: column \"seq\" holds integer values and values of another";
    assert!(said.stdout.contains(next), "{}", said.stdout);
}

/// `dbtick schema | head -1`
#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_reason_to_panic() {
    let world = World::with_orders(json!({})).await;
    let app = world.app().display().to_string();
    for arguments in [
        &["schema"][..],
        &["schema", "batch"],
        &["check", &app],
        &["check", &app, "--json"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(arguments, &world.environment);
        let output = command
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!error.contains("panicked"), "{arguments:?}: {error}");
    }
}

#[tokio::test]
async fn dev_runs_an_app_on_its_own_binary_and_takes_the_handler_with_it() {
    let world = World::with_orders(json!({})).await.rows(3).await;
    let function = std::fs::read_to_string(world.app().join("Orders/function.json")).unwrap();
    let function = function.replace("0 0 0 1 1 *", "* * * * * *");
    let world = world.file("Orders/function.json", &function);
    let app = world.app().display().to_string();
    let mut environment = world.environment.clone();
    environment.remove("FUNCTIONS_APP_ROOT_PATH");
    let mut child =
        tokio::process::Command::from(command(&["dev", &app, "--port", "0"], &environment))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
    let stdout = Lines::of(child.stdout.take().unwrap());
    let stderr = Lines::of(child.stderr.take().unwrap());
    let ready = stdout.line(&["handler ", " is ready"]).await;
    let handler: i32 = ready.split(' ').nth(1).unwrap().parse().unwrap();
    stdout
        .line(&["orders: drained; 3 rows in 1 batches committed up to 3 (3)"])
        .await;
    stdout.line(&["Orders: ok"]).await;
    assert_eq!(world.state("orders").committed(), 3);
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let status = within("dev ends", child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", stderr.text());
    assert!(
        kill(Pid::from_raw(handler), None).is_err(),
        "the handler is gone"
    );
    let said = stdout.text() + &stderr.text();
    assert!(
        !said.contains(TOKEN) && !said.contains("dbtick.tick"),
        "{said}"
    );
}

/// Every command that there is, also `state export` and the like, by asking the binary.
fn commands(above: &[&str]) -> Vec<Vec<String>> {
    let help = run(&[above, &["--help"]].concat());
    let mut names: Vec<Vec<String>> = Vec::new();
    let listed = help.stdout.lines().skip_while(|line| *line != "Commands:");
    for line in listed.skip(1).take_while(|line| !line.is_empty()) {
        let Some((name, about)) = line.trim().split_once("  ") else {
            assert!(
                line.starts_with("       "),
                "{line:?} says nothing about itself"
            );
            continue;
        };
        // Text that goes on from the line above.
        if line.starts_with("      ") || name == "help" {
            continue;
        }
        assert!(
            about.trim().len() > 10,
            "{line:?} says nothing about itself"
        );
        let path: Vec<&str> = above.iter().copied().chain([name]).collect();
        names.push(path.iter().map(|&part| part.to_owned()).collect());
        names.extend(commands(&path));
    }
    names
}

#[test]
fn every_command_has_a_manual_page_and_says_what_it_does() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("man");
    let said = run(&["man", "--out", out.to_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let all = commands(&[]);
    assert!(all.len() > 20, "{all:?}");
    for command in &all {
        let page = out.join(format!("dbtick-{}.1", command.join("-")));
        let text =
            std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{page:?}: {error}"));
        assert!(
            text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"),
            "{text}"
        );
    }
    let pages = std::fs::read_dir(&out).unwrap().count();
    assert_eq!(pages, all.len() + 1, "{said:?}");
    assert!(run(&["man"]).stdout.contains(".TH dbtick 1"));
    let refused = run(&["man", "--out", "/proc/nowhere"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("cannot write /proc/nowhere"),
        "{refused:?}"
    );
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let said = run(&["completions", shell]);
        assert_eq!((said.code, &*said.stderr), (Some(0), ""));
        for name in ["quarantine", "unlock", "peek"] {
            assert!(said.stdout.contains(name), "{shell}");
        }
    }
    let unknown = run(&["completions", "cmd"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
}
