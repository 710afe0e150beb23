//! What is shown, to whom, and what never is.

use serde_json::{Value, json};

use super::support::command::{good, run};
use super::support::world::ROW_CANARY;
use super::support::world::SETTING_CANARY;
use super::{Form, KEY_CANARY, ROWS, act, ask, get, only_case, refuse, with_aside, world};

const LOOKS: [&str; 10] = [
    "orphans",
    "",
    "checkpoints",
    "checkpoints/orders",
    "checkpoints/orders/history",
    "checkpoints/orders/schema",
    "checkpoints/orders/quarantine",
    "health",
    "metrics",
    "openapi.json",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_of_one_process_shows_what_the_ticks_of_another_did() {
    let world = world().await.rows(ROWS).await;
    refuse(&world, &[2], "no such customer");
    let pages = world.serve().await;
    let before = get(&pages, "checkpoints/orders").await.json();
    assert_eq!(
        (&before["phase"], &before["counters"]["rows"]),
        (&json!("new"), &json!(0))
    );

    let ticks = world.serve().await;
    assert_eq!(ticks.tick("Orders").await.status, 200);
    let later = world.serve().await;
    let after = get(&later, "checkpoints/orders").await.json();
    assert_eq!(after["counters"]["rows"], json!(ROWS));
    assert_eq!(after["quarantine"]["rows"], json!(1));
    assert_eq!(after["lag"]["rows"], json!(0));
    assert!(after["last_success"].is_string(), "{after:#}");

    act(
        &pages,
        Form::Wrapped,
        "checkpoints/orders/pause",
        "{\"reason\":\"moved\"}",
    )
    .await;
    assert!(ticks.tick("Orders").await.logs().contains("paused"));
    let seen = get(&pages, "checkpoints").await.json();
    assert_eq!(seen["pollers"][0]["phase"], "paused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_data_is_shown_only_to_who_asks_for_it_and_secrets_to_nobody() {
    let (world, handler) = with_aside().await;
    let event = only_case(&handler).await;
    let hook = world.environment["HOOK"].clone();
    let secret = hook.rsplit('=').next().unwrap();
    let case = format!("checkpoints/orders/quarantine/{event}");
    for form in [Form::Wrapped, Form::Forwarded] {
        for path in LOOKS.iter().copied().chain([case.as_str()]) {
            let got = ask(&handler, form, "GET", path, json!({}), "").await;
            for canary in [ROW_CANARY, SETTING_CANARY, KEY_CANARY, secret] {
                assert!(!got.body.contains(canary), "{canary} at {path}: {got:?}");
            }
        }
        let asked = ask(
            &handler,
            form,
            "GET",
            &format!("{case}?data=1"),
            json!({}),
            "",
        )
        .await;
        assert_eq!(asked.json()["rows"][0]["event"]["data"]["note"], ROW_CANARY);
    }
    let said = handler.everything_said();
    for canary in [ROW_CANARY, KEY_CANARY] {
        assert!(!said.contains(canary), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_in_an_address_is_not_logged() {
    let world = world().await.setting("DBTICK_LOG", "trace");
    let handler = world.serve().await;
    let path = format!("health?code={KEY_CANARY}");
    let got = ask(&handler, Form::Forwarded, "GET", &path, json!({}), "").await;
    assert_eq!(got.status, 200, "{got:?}");
    let said = handler.everything_said();
    assert!(said.contains("/api/dbtick/health"), "{said}");
    assert!(!said.contains(KEY_CANARY), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_cached_framed_or_guessed_by_a_browser() {
    let (_world, handler) = with_aside().await;
    for form in [Form::Wrapped, Form::Forwarded] {
        for path in LOOKS.iter().chain(&["nothing"]) {
            let got = ask(&handler, form, "GET", path, json!({}), "").await;
            let header = |name: &str| got.headers[name].as_str().unwrap().to_owned();
            assert_eq!(header("cache-control"), "no-store", "{path}");
            assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
            assert_eq!(header("referrer-policy"), "no-referrer", "{path}");
            let policy = header("content-security-policy");
            assert!(policy.starts_with("default-src 'none'"), "{policy}");
            assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
            assert!(!policy.contains("unsafe"), "{policy}");
            assert_eq!(
                policy.contains("script-src"),
                path.is_empty(),
                "{path}: {policy}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_fails_when_something_is_stuck() {
    let (world, handler) = with_aside().await;
    let well = get(&handler, "health").await;
    assert_eq!(
        (well.status, &well.json()["stuck"]),
        (200, &json!([])),
        "{well:?}"
    );
    std::fs::write(world.path("state/state/app/orders.json"), "damaged").unwrap();
    let fresh = world.serve().await;
    let stuck = get(&fresh, "health").await;
    assert_eq!(stuck.status, 503, "{stuck:?}");
    assert_eq!(stuck.json()["stuck"], json!(["orders"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_function_without_actions_only_shows() {
    let (world, _) = with_aside().await;
    let mut shows: Value = serde_json::from_str(super::TEMPLATE).unwrap();
    shows["status"]["actions"] = json!(false);
    let world = world.file("status/function.json", &shows.to_string());
    let handler = world.serve().await;
    only_case(&handler).await;
    let act = act(&handler, Form::Wrapped, "checkpoints/orders/pause", "{}").await;
    act.says(403, "only shows");
    let page = get(&handler, "").await;
    assert!(page.body.contains("data-actions=\"false\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_columns_of_a_kept_checkpoint_are_told() {
    let (world, handler) = with_aside().await;
    let first = get(&handler, "checkpoints/orders/schema").await.json();
    let version = first["version"].as_u64().unwrap();
    world
        .writer()
        .await
        .sql("ALTER TABLE orders ADD COLUMN paid INTEGER")
        .await;
    world.writer().await.insert(1).await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let names = |answer: &Value| {
        let columns = answer["columns"].as_array().unwrap().clone();
        columns
            .iter()
            .map(|c| c["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let now = get(&handler, "checkpoints/orders/schema").await.json();
    assert_eq!(names(&now), ["id", "seq", "note", "paid"]);
    let then = get(
        &handler,
        &format!("checkpoints/orders/schema?version={version}"),
    )
    .await;
    assert_eq!(names(&then.json()), ["id", "seq", "note"]);
    assert_eq!(then.json(), first);
    good(&run(&world, &["history", "orders"]));
}
