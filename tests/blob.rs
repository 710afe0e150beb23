//! State in Azure Blob Storage: on a real Azurite, from the app setting to the blob.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "blob/access.rs"]
mod access;
#[path = "blob/clocks.rs"]
mod clocks;
#[path = "blob/identity.rs"]
mod identity;

use dbtick::model::state::StateDocument;
use dbtick::store::{BlobStore, StateStore, StoreKey};
use serde_json::json;

use support::azurite::Azurite;
use support::world::World;

/// A world without a state directory, as on Azure.
async fn world(settings: &[(&str, &str)]) -> World {
    let mut world = World::with_orders(json!({})).await.rows(3).await;
    world.environment.remove("DBTICK_STATE_DIR");
    for (name, value) in settings {
        world = world.setting(name, value);
    }
    world
}

async fn document(store: &BlobStore) -> Option<StateDocument> {
    let key = StoreKey::state("app", "orders").unwrap();
    let loaded = store.load(&key).await.unwrap()?;
    Some(StateDocument::from_bytes(&loaded.body, "orders", &["id".to_owned()]).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_on_azure_keeps_its_state_in_a_blob() {
    let azurite = Azurite::blob();
    let connection = azurite.connection_string();
    let world = world(&[
        ("AzureWebJobsStorage", &connection),
        ("WEBSITE_INSTANCE_ID", "instance"),
        ("DBTICK_LOG", "trace"),
    ])
    .await;
    let handler = world.serve().await;
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 200, "{answer:?} {}", handler.stderr.text());
    assert_eq!(world.receiver.count(), 1);

    let store = azurite.store("db-state");
    let committed = document(&store).await.unwrap();
    assert_eq!(committed.position().unwrap().to_string(), "3 (3)");
    assert_eq!(committed.lease.held, None, "given back");
    let key = StoreKey::birth_marker("app", "orders").unwrap();
    assert!(store.load(&key).await.unwrap().is_some());

    drop(handler);
    let next = world.serve().await;
    assert_eq!(next.tick("Orders").await.status, 200);
    assert_eq!(
        world.receiver.count(),
        1,
        "the checkpoint outlives the process"
    );
    let said = next.everything_said();
    assert!(said.contains("\"outcome\":\"idle\""), "{said}");
    assert!(!said.contains(support::azurite::KEY), "{said}");
    assert!(!said.contains("clock_skew"), "{said}");
}
