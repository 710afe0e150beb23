//! What a tick costs, counted between us and the server.

use dbtick::tick::report::Outcome;

use crate::support::azurite::Azurite;
use crate::world::{BlobWorld, CALM, done};

/// One server for all of them; each function is a promise of its own.
#[tokio::test]
async fn a_tick_costs_what_the_design_says() {
    let azurite = Azurite::blob();
    an_idle_tick_is_one_get_and_no_put(&azurite).await;
    a_tick_of_n_batches_is_one_get_and_at_most_n_plus_one_puts(&azurite).await;
    the_first_tick_also_asks_for_and_leaves_its_birth_marker(&azurite).await;
}

async fn an_idle_tick_is_one_get_and_no_put(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    assert_eq!(done(world.tick().await), Outcome::Idle);
    assert_eq!(world.proxy.fresh_lines(), ["GET orders.json 200"]);
}

async fn a_tick_of_n_batches_is_one_get_and_at_most_n_plus_one_puts(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    for batches in [1, 2, 5] {
        world.insert(batches * 2).await;
        assert_eq!(done(world.tick().await), Outcome::Drained);
        let lines = world.proxy.fresh_lines();
        assert_eq!(lines[0], "GET orders.json 200", "{batches} batches");
        let puts = &lines[1..];
        assert!(
            puts.iter()
                .all(|line| line == "PUT orders.json if-match 201")
        );
        // One takes the lease. A commit may be for several batches.
        let most = batches as usize + 1;
        assert!((2..=most).contains(&puts.len()), "{batches}: {lines:?}");
    }
}

/// The birth marker is looked for before the first write, and left behind once; so is state of the same
/// poller with other shards, by a list.
async fn the_first_tick_also_asks_for_and_leaves_its_birth_marker(azurite: &Azurite) {
    // The container exists from here on.
    BlobWorld::born_on(azurite, CALM).await;
    let world = BlobWorld::on(azurite, CALM).await;
    assert_eq!(done(world.tick().await), Outcome::Idle);
    assert_eq!(
        world.proxy.fresh_lines(),
        [
            "GET orders.json 404",
            "GET orders.born 404",
            "GET db-state 200"
        ]
    );
    world.insert(1).await;
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(
        world.proxy.fresh_lines(),
        [
            "GET orders.json 404",
            "GET orders.born 404",
            "GET db-state 200",
            "PUT orders.json if-none-match 201",
            "PUT orders.born if-none-match 201",
            "PUT orders.json if-match 201",
        ]
    );
}
