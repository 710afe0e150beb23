//! Wrong configuration: the process stays up, and every invocation says what is wrong.

use serde_json::json;

use crate::support::world::{World, poller};

#[tokio::test]
async fn a_faulty_function_says_file_path_and_remedy_and_hides_no_good_one() {
    let world = World::with_orders(json!({})).await.rows(1).await.poller(
        "broken",
        json!({ "source": { "tabel": "x" }, "lease": { "tll": "1s" } }),
    );
    let mut handler = world.serve().await;
    for round in 0..3 {
        let id = format!("invocation-{round}");
        let answer = handler.tick_as("broken", &id).await;
        assert_eq!(answer.status, 500);
        let logs = answer.logs();
        assert!(logs.contains("broken/function.json"), "{logs}");
        assert!(logs.contains("poller.source.tabel"), "{logs}");
        assert!(logs.contains("table"), "a suggestion: {logs}");
        assert!(
            logs.contains("poller.lease.tll"),
            "all faults at once: {logs}"
        );
        let line = handler.stderr.line(&[&id]).await;
        assert!(line.contains("broken/function.json"), "{line}");
        handler.stdout.line(&[&id, "broken/function.json"]).await;
    }
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.receiver.acknowledged_count(), 1);
    assert!(handler.is_running());
}

#[tokio::test]
async fn every_kind_of_wrong_configuration_leaves_the_process_up() {
    let no_setting = json!({ "source": { "connection": "NO_SUCH_SETTING" } });
    let other_database = json!({ "source": { "connection": "PG" } });
    for (name, document, part) in [
        ("not-json", "{".to_owned(), "not sound JSON"),
        ("setting", function(no_setting), "NO_SUCH_SETTING"),
        ("jdbc", function(other_database), "PG"),
        (
            "plain-http",
            function(json!({ "deliver": [{ "webhook": { "url": "http://example.org/" } }] })),
            "allow_http",
        ),
        (
            "state-in-app",
            function(json!({ "state": { "kind": "file", "path": "state" } })),
            "state",
        ),
    ] {
        let world = World::with_orders(json!({}))
            .await
            .rows(1)
            .await
            .setting(
                "PG",
                "jdbc:postgresql://user:canary-password@127.0.0.1/orders",
            )
            .file("bad/function.json", &document);
        let handler = world.serve().await;
        let answer = handler.tick("bad").await;
        assert_eq!(answer.status, 500, "{name}: {answer:?}");
        let logs = answer.logs();
        assert!(logs.contains("bad/function.json"), "{name}: {logs}");
        assert!(logs.contains(part), "{name}: {logs}");
        assert_eq!(handler.tick("Orders").await.status, 200, "{name}");
        let said = handler.everything_said() + &logs;
        assert!(!said.contains("canary"), "{name}: {said}");
    }
}

fn function(changes: serde_json::Value) -> String {
    json!({
        "bindings": [{ "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "0 0 0 1 1 *" }],
        "poller": poller(changes)
    })
    .to_string()
}

#[tokio::test]
async fn a_function_without_a_poller_says_so() {
    let world = World::with_orders(json!({}))
        .await
        .function("Other", json!({}));
    let handler = world.serve().await;
    let answer = handler.tick_as("Other", "the-invocation").await;
    assert_eq!(answer.status, 500);
    assert!(answer.logs().contains("no poller"), "{answer:?}");
    handler.stderr.line(&["the-invocation", "no poller"]).await;
}

#[tokio::test]
async fn an_app_root_that_cannot_be_read_is_named_in_every_answer() {
    let world = World::new().await;
    let missing = world.path("no-such-app").display().to_string();
    let world = world.setting("FUNCTIONS_APP_ROOT_PATH", &missing);
    let mut handler = world.serve().await;
    let answer = handler.tick("Orders").await;
    assert!(answer.status >= 400, "{answer:?}");
    assert!(answer.logs().contains("app root"), "{answer:?}");
    assert!(handler.is_running());
}

#[tokio::test]
async fn pollers_are_off_in_a_deployment_slot() {
    let world = World::with_orders(json!({}))
        .await
        .rows(1)
        .await
        .setting("WEBSITE_SITE_NAME", "shop")
        .setting("WEBSITE_SLOT_NAME", "staging");
    let handler = world.serve().await;
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 200);
    assert!(answer.logs().contains("staging"), "{answer:?}");
    assert_eq!(world.receiver.count(), 0);
    assert!(world.state_texts().is_empty(), "nothing was written");

    let world = world.setting("DBTICK_RUN_IN_SLOT", "1");
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.receiver.acknowledged_count(), 1);
}

/// Any duration is either refused or works: none may end a tick by a panic.
#[tokio::test]
async fn no_duration_however_long_ends_in_a_panic() {
    for (name, changes) in [
        ("ttl", json!({ "lease": { "ttl": "5000000000000h" } })),
        ("wait", json!({ "batch": { "max_wait": "5000000000000h" } })),
        (
            "timeout",
            json!({ "deliver": [{ "webhook": { "url": "%HOOK%", "timeout": "5000000000000h" } }] }),
        ),
    ] {
        let world = World::with_orders(changes).await.rows(1).await;
        let handler = world.serve().await;
        let answer = handler.tick("Orders").await;
        match answer.status {
            200 => assert_eq!(world.receiver.acknowledged_count(), 1, "{name}"),
            status => {
                assert_eq!(status, 500, "{name}");
                assert!(
                    answer.logs().contains("Orders/function.json"),
                    "{name}: {answer:?}"
                );
            }
        }
        let said = handler.everything_said();
        assert!(!said.contains("panicked"), "{name}: {said}");
    }
    let world = World::with_orders(json!({}))
        .await
        .rows(1)
        .await
        .setting("AzureFunctionsJobHost__functionTimeout", "9999.23:59:59");
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
}
