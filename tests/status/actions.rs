//! What is done over HTTP: audited, and never by another site's doing.

use serde_json::{Value, json};

use super::support::command::{json as parsed, run};
use super::support::receiver::Answer;
use super::support::world::World;
use super::{Form, KEY_CANARY, TEMPLATE, act, ask, get, only_case, with_aside};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poller_is_paused_and_resumed_and_the_trail_says_by_whom() {
    let (world, handler) = with_aside().await;
    for (form, who) in [
        (Form::Wrapped, "http:key night-shift"),
        (Form::Forwarded, "http:unknown"),
    ] {
        let paused = act(
            &handler,
            form,
            "checkpoints/orders/pause",
            "{\"reason\":\"the hook\\nmoves\"}",
        )
        .await;
        paused.says(200, "its ticks read and deliver nothing");
        assert_eq!(
            (&paused.json()["done"], &paused.json()["who"]),
            (&json!(true), &json!(who))
        );
        assert!(handler.tick("Orders").await.logs().contains("paused"));
        // The short memory of looks does not hide what was just done.
        assert_eq!(
            get(&handler, "checkpoints/orders").await.json()["phase"],
            "paused"
        );
        let again = act(&handler, form, "checkpoints/orders/pause", "").await;
        assert_eq!(again.json()["done"], false, "{again:?}");
        let resumed = act(&handler, form, "checkpoints/orders/resume", "{}").await;
        resumed.says(200, "goes on with its next tick");
        let trail = get(&handler, "checkpoints/orders/history").await.json();
        let trail = trail["audit"].as_array().unwrap().clone();
        let paused = &trail[trail.len() - 2];
        assert_eq!(
            (&paused["who"], &paused["why"]),
            (&json!(who), &json!("the hook moves"))
        );
        assert!(!Value::from(trail).to_string().contains(KEY_CANARY));
    }
    assert!(
        world
            .state_texts()
            .concat()
            .contains("http:key night-shift")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_sent_again_and_another_discarded() {
    let (world, handler) = with_aside().await;
    let event = only_case(&handler).await;
    let redrive = format!("checkpoints/orders/quarantine/{event}/redrive");
    let refused = act(&handler, Form::Wrapped, &redrive, "{}").await;
    refused.says(200, "no such customer");
    assert_eq!(refused.json()["done"], false);

    act(&handler, Form::Wrapped, "checkpoints/orders/pause", "{}").await;
    act(&handler, Form::Wrapped, &redrive, "{}")
        .await
        .says(409, "resume orders first");
    act(&handler, Form::Wrapped, "checkpoints/orders/resume", "{}").await;

    world.receiver.answer(|_, _| Answer::Ok);
    let taken = act(&handler, Form::Wrapped, &redrive, "{\"reason\":\"mended\"}").await;
    taken.says(200, "has taken it");
    assert_eq!(taken.json()["done"], true);
    act(&handler, Form::Wrapped, &redrive, "{}")
        .await
        .says(404, "no row of orders");

    super::refuse(&world, &[7], "never");
    world.writer().await.insert(2).await;
    handler.tick("Orders").await;
    let event = only_case(&handler).await;
    let discard = format!("checkpoints/orders/quarantine/{event}/discard");
    let gone = act(
        &handler,
        Form::Forwarded,
        &discard,
        "{\"reason\":\"a test order\"}",
    )
    .await;
    gone.says(200, "no longer in quarantine");
    let trail = parsed(&run(&world, &["history", "orders", "--json"])).to_string();
    assert!(
        trail.contains("a test order") && trail.contains("mended"),
        "{trail}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_receiver_misses_is_discarded_or_sent_for_it_alone() {
    let hook = |name: &str| json!({ "name": name, "webhook": { "url": "%HOOK%", "attempts": 1 } });
    let world = World::with_orders(json!({
        "deliver": [hook("first"), hook("second"), hook("third")],
        "poison": { "attempts": 2 },
    }));
    let world = world.await.file("status/function.json", TEMPLATE);
    let world = world.rows(3).await;
    super::refuse(&world, &[2], "no such customer");
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let list = "checkpoints/orders/quarantine";
    let sinks = |answer: Value| {
        let rows = answer["rows"].as_array().unwrap().clone();
        let mut sinks: Vec<String> = rows
            .iter()
            .map(|row| row["sink"].as_str().unwrap().to_owned())
            .collect();
        sinks.sort();
        sinks
    };
    let all = get(&handler, list).await.json();
    let event = all["rows"][0]["event_id"].as_str().unwrap().to_owned();
    assert_eq!(sinks(all), ["first", "second", "third"]);
    let case = format!("{list}/{event}");
    let one = get(&handler, &format!("{case}?sink=second")).await.json();
    assert_eq!(sinks(one), ["second"]);
    assert_eq!(sinks(get(&handler, &case).await.json()).len(), 3);

    world.receiver.answer(|_, _| Answer::Ok);
    let before = world.receiver.deliveries().len();
    for form in [Form::Wrapped, Form::Forwarded] {
        for what in ["redrive", "discard"] {
            let path = format!("{case}/{what}");
            let unclear = act(&handler, form, &path, "{}").await;
            unclear.says(409, "first, second, third");
            let nobody = act(&handler, form, &path, "{\"sink\":\"nobody\"}").await;
            nobody.says(404, "for nobody");
        }
    }
    assert_eq!(world.receiver.deliveries().len(), before);

    let gone = act(
        &handler,
        Form::Wrapped,
        &format!("{case}/discard"),
        "{\"sink\":\"second\"}",
    )
    .await;
    gone.says(200, "second never gets it");
    assert_eq!(sinks(get(&handler, list).await.json()), ["first", "third"]);
    let sent = act(
        &handler,
        Form::Forwarded,
        &format!("{case}/redrive"),
        "{\"sink\":\"third\"}",
    )
    .await;
    sent.says(200, "third has taken it");
    assert_eq!(world.receiver.deliveries().len(), before + 1);
    assert_eq!(sinks(get(&handler, list).await.json()), ["first"]);
    // The last one needs no name.
    act(&handler, Form::Wrapped, &format!("{case}/discard"), "")
        .await
        .says(200, "first never gets it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_site_can_make_a_browser_send_does_nothing() {
    let (world, handler) = with_aside().await;
    let event = only_case(&handler).await;
    let before = world.state_texts();
    let json_body = json!({ "Content-Type": "application/json" });
    let form_body =
        json!({ "Content-Type": "application/x-www-form-urlencoded", "X-Dbtick-Action": "1" });
    let good = json!({ "Content-Type": "application/json; charset=utf-8", "X-Dbtick-Action": "1" });
    let long = json!({ "reason": "x".repeat(501) }).to_string();
    let longer = json!({ "reason": "x".repeat(20_000) }).to_string();
    for form in [Form::Wrapped, Form::Forwarded] {
        for what in [
            "pause",
            "resume",
            &format!("quarantine/{event}/redrive"),
            &format!("quarantine/{event}/discard"),
        ] {
            let path = format!("checkpoints/orders/{what}");
            for (headers, body, status, words) in [
                (json!({}), "{}", 403, "x-dbtick-action"),
                (json_body.clone(), "{}", 403, "x-dbtick-action"),
                (
                    form_body.clone(),
                    "reason=x",
                    415,
                    "content-type: application/json",
                ),
                (good.clone(), "{", 400, "not what an action needs"),
                (good.clone(), "{\"because\":1}", 400, "because"),
                (good.clone(), &long, 400, "500 characters"),
                (good.clone(), &longer, 413, "too large"),
            ] {
                ask(&handler, form, "POST", &path, headers, body)
                    .await
                    .says(status, words);
            }
            ask(&handler, form, "GET", &path, good.clone(), "")
                .await
                .says(405, "POST");
        }
        act(&handler, form, "checkpoints/nobody/pause", "{}")
            .await
            .says(404, "this app has: orders");
    }
    assert_eq!(world.state_texts(), before, "nothing was written");
}
