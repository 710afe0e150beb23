//! A lease that is taken from its holder by hand.

use nix::sys::signal::Signal;
use serde_json::json;

use super::support::receiver::Answer;
use super::support::world::World;
use super::{deliveries, drain, drained, good, json, refused, run};

#[tokio::test]
async fn a_poller_without_a_lease_says_so() {
    let (world, _handler) = drained(2).await;
    let tag = world.state("orders").read().unwrap().tag;
    let free = run(&world, &["unlock", "orders", "--yes"]);
    assert_eq!(
        good(&free),
        "there was nothing to change: nobody has the lease of orders\n"
    );
    let free = json(&run(&world, &["unlock", "orders", "--json"]));
    assert_eq!(
        (&free["ok"], &free["changed"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(world.state("orders").read().unwrap().tag, tag);
    refused(
        &run(&world, &["unlock", "oders"]),
        1,
        &["there is no poller"],
    );
}

/// Killed in the middle of a delivery, as the Functions host kills.
#[tokio::test]
async fn the_lease_of_a_dead_instance_is_taken_and_the_next_tick_goes_on_at_once() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    world.receiver.answer(|_, _| Answer::WhenOpened);
    let mut dead = world.serve().await;
    tokio::join!(dead.try_tick("Orders"), async {
        world.receiver.arrived(1).await;
        dead.signal(Signal::SIGKILL);
    });
    dead.ended().await;
    world.receiver.open_gate();
    let tag = || world.state("orders").read().unwrap().tag;
    let before = tag();
    let dry = run(&world, &["unlock", "orders", "--dry-run"]);
    let owner = format!("worker-{}", dead.port);
    let text = good(&dry);
    for words in [
        &*owner,
        "alive; last heartbeat ",
        " s ago",
        "to    held by nobody",
        "cannot commit",
        "duplicates, never loss",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let alive = run(&world, &["unlock", "orders", "--yes"]);
    refused(
        &alive,
        1,
        &["nothing was changed", &owner, "--even-if-alive"],
    );
    let asked = run(&world, &["unlock", "orders", "--even-if-alive"]);
    refused(&asked, 2, &["no terminal", "--yes"]);
    assert_eq!(tag(), before);

    let handler = world.serve().await;
    let blocked = handler.tick("Orders").await;
    assert!(
        blocked.logs().contains("the lease is held by"),
        "{blocked:?}"
    );
    let why = ["--reason", "the machine is gone"];
    let done = run(
        &world,
        &[&["unlock", "orders", "--yes", "--even-if-alive"], &why[..]].concat(),
    );
    assert!(
        good(&done).ends_with("done: nobody has the lease of orders any more\n"),
        "{done:?}"
    );
    let document = world.state("orders").document();
    assert_eq!(
        (document.lease.token.get(), &document.lease.held),
        (2, &None)
    );
    let entry = document.audit.last().unwrap();
    assert!(
        entry.what.starts_with("unlock, was held by ") && entry.what.contains(&owner),
        "{entry:?}"
    );
    assert_eq!(entry.why, "the machine is gone");
    drain(&handler).await;
    assert_eq!(world.state("orders").committed(), 2);
}

/// C5: what a holder delivers after that is not committed by it, and comes again.
#[tokio::test]
async fn a_holder_that_is_alive_after_all_cannot_commit_and_no_row_is_lost() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    world.receiver.answer(|_, _| Answer::WhenOpened);
    let holder = world.serve().await;
    let meanwhile = async {
        world.receiver.arrived(1).await;
        let unlock = ["unlock", "orders", "--yes", "--even-if-alive", "--json"];
        let done = json(&run(&world, &unlock));
        assert_eq!(
            (&done["done"], &done["changed"]),
            (&json!(true), &json!(true))
        );
        world.receiver.open_gate();
    };
    let (answer, ()) = tokio::join!(holder.tick("Orders"), meanwhile);
    assert_eq!(answer.status, 500, "{answer:?}");
    assert!(answer.logs().contains("the lease was lost"), "{answer:?}");
    assert_eq!(world.state("orders").committed(), 0);
    drain(&holder).await;
    assert_eq!(
        (world.state("orders").committed(), deliveries(&world)),
        (2, vec![2, 2])
    );
}
