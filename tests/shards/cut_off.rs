//! A reshard dies between any two of its steps, and function.json may be changed again after that.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use dbtick::model::state::Status;
use serde_json::json;

use super::all_rows;
use super::reshard::deploy;
use super::support::command::{good, refused, run};
use super::support::world::World;

/// The documents and markers of the poller.
type Files = BTreeMap<String, Option<Vec<u8>>>;

fn state(world: &World) -> PathBuf {
    world.path("state/state/app")
}

fn files(world: &World) -> Files {
    let entries = fs::read_dir(state(world)).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file());
    files
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, Some(fs::read(path).unwrap()))
        })
        .collect()
}

/// As if the documents behind the first `steps` of these had not been written yet.
fn cut_off(world: &World, before: &Files, order: &[&str], steps: usize) {
    for poller in &order[steps..] {
        for kind in ["json", "born"] {
            let name = format!("{poller}.{kind}");
            let path = state(world).join(&name);
            match before.get(&name) {
                Some(Some(bytes)) => fs::write(path, bytes).unwrap(),
                _ => drop(fs::remove_file(path)),
            }
        }
    }
}

const ORDER: [&str; 6] = [
    "orders.0of2",
    "orders.1of2",
    "orders.0of4",
    "orders.1of4",
    "orders.2of4",
    "orders.3of4",
];

/// Two shards, which have been four once, and go on to be four again.
async fn resharded() -> (World, Files) {
    let world = World::new().await;
    for (step, shards) in [4, 2].into_iter().enumerate() {
        deploy(&world, json!(shards));
        if step > 0 {
            good(&run(&world, &["reshard", "orders", "--yes"]));
        }
        let handler = world.serve().await;
        assert_eq!(handler.tick("Orders").await.status, 200);
        world.writer().await.insert(20).await;
        assert_eq!(handler.tick("Orders").await.status, 200);
    }
    world.writer().await.insert(20).await;
    let before = files(&world);
    deploy(&world, json!(4));
    good(&run(&world, &["reshard", "orders", "--yes"]));
    (world, before)
}

async fn goes_on(world: &World) {
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let times = all_rows(world, 60);
    assert!(times.values().all(|times| *times <= 2), "{times:?}");
}

#[tokio::test]
async fn a_reshard_that_dies_between_two_steps_is_finished_by_the_same_order() {
    for steps in 1..ORDER.len() {
        let (world, before) = resharded().await;
        cut_off(&world, &before, &ORDER, steps);
        let handler = world.serve().await;
        assert_eq!(handler.tick("Orders").await.status, 500, "after {steps}");
        let again = run(&world, &["reshard", "orders", "--yes"]);
        assert!(good(&again).contains("done: "), "after {steps}: {again:?}");
        goes_on(&world).await;
        let nothing = run(&world, &["reshard", "orders", "--yes"]);
        assert!(good(&nothing).contains("nothing to change"), "{nothing:?}");
    }
}

#[tokio::test]
async fn a_reshard_that_dies_before_anything_began_is_taken_back_by_the_old_number() {
    for steps in [1, 2] {
        let (world, before) = resharded().await;
        cut_off(&world, &before, &ORDER, steps);
        deploy(&world, json!(2));
        let handler = world.serve().await;
        assert_eq!(handler.tick("Orders").await.status, 500);
        handler.stdout.line(&["dbtick reshard orders"]).await;
        let stood = world.state("orders.1of2").committed();
        let back = run(&world, &["reshard", "orders", "--yes"]);
        assert!(good(&back).contains("each where it stood"), "{back:?}");
        assert_eq!(world.state("orders.1of2").committed(), stood);
        goes_on(&world).await;
        let times = all_rows(&world, 60);
        assert!(times.values().all(|times| *times == 1), "{times:?}");
        // And once more, by a fresh order.
        deploy(&world, json!(4));
        good(&run(&world, &["reshard", "orders", "--yes"]));
        world.writer().await.insert(5).await;
        assert_eq!(world.serve().await.tick("Orders").await.status, 200);
        all_rows(&world, 65);
    }
}

#[tokio::test]
async fn a_reshard_of_which_some_have_begun_is_not_left_for_another() {
    let (world, before) = resharded().await;
    cut_off(&world, &before, &ORDER, 4);
    for shards in [2, 3] {
        deploy(&world, json!(shards));
        assert_eq!(world.serve().await.tick("Orders").await.status, 500);
        let refusal = run(&world, &["reshard", "orders", "--yes"]);
        refused(&refusal, 1, &["put 4 shards by key back"]);
    }
    deploy(&world, json!(4));
    good(&run(&world, &["reshard", "orders", "--yes"]));
    deploy(&world, json!(3));
    good(&run(&world, &["reshard", "orders", "--yes"]));
    goes_on(&world).await;
}

#[tokio::test]
async fn a_shard_is_not_begun_by_hand_while_others_have_the_rows() {
    let (world, before) = resharded().await;
    // Not one step was made; and all old ones are shut out.
    for steps in [0, 2] {
        cut_off(&world, &before, &ORDER, steps);
        if steps == 2 {
            good(&run(&world, &["reshard", "orders", "--yes"]));
            cut_off(&world, &before, &ORDER, steps);
        }
        let reset = ["reset", "orders.0of4", "--to", "beginning", "--yes"];
        refused(&run(&world, &reset), 1, &["dbtick reshard orders"]);
    }
    // One that was made all the same counts for nothing once a person has marked it failed.
    let theirs = world.state("orders.0of4");
    let by_hand = |status: Status| {
        theirs.rewrite(|document| {
            document.audit.clear();
            document.status = status;
        });
    };
    by_hand(Status::Active);
    let many = run(&world, &["reshard", "orders", "--yes"]);
    refused(&many, 1, &["dbtick resolve"]);
    by_hand(Status::Failed);
    good(&run(&world, &["reshard", "orders", "--yes"]));
    goes_on(&world).await;
}

#[tokio::test]
async fn what_was_paused_and_moved_is_paused_under_its_new_name() {
    let world = World::new().await;
    deploy(&world, json!(2));
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    for poller in ["orders.0of2", "orders.1of2"] {
        good(&run(&world, &["pause", poller]));
        let reset = ["reset", poller, "--to", "beginning", "--yes"];
        good(&run(&world, &reset));
    }
    deploy(&world, json!(3));
    good(&run(&world, &["reshard", "orders", "--yes"]));
    world.writer().await.insert(10).await;
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    assert_eq!(world.receiver.count(), 0, "it is paused");
    for poller in ["orders.0of3", "orders.1of3", "orders.2of3"] {
        good(&run(&world, &["resume", poller]));
    }
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    all_rows(&world, 10);
}
