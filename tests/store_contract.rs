//! The contract of `StateStore` and `ObjectStore`: every store runs through the same functions.

#![allow(clippy::unwrap_used)]

#[path = "store_contract/sql.rs"]
mod sql;
mod support;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use dbtick::azure::Azure;
use dbtick::clock::SystemClock;
use dbtick::config::{Connection, Settings, TableName};
use dbtick::database::Databases;
use dbtick::store::{
    Deleted, FileStore, MemoryStore, ObjectStore, Put, SqlStore, StateStore, StoreError, StoreKey,
    Swap, Tag,
};

use support::azurite::Azurite;
use support::mariadb::MariaDb;
use support::postgres::Postgres;

trait Store: StateStore + ObjectStore {}
impl<T: StateStore + ObjectStore> Store for T {}

macro_rules! every_store_keeps {
    ($($promise:ident),+ $(,)?) => {
        mod memory {
            use std::sync::Arc;
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(Arc::new(super::MemoryStore::new())).await;
            })+
        }
        mod file {
            use std::sync::Arc;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $promise() {
                let directory = tempfile::tempdir().unwrap();
                let store = super::FileStore::new(directory.path(), Arc::new(super::SystemClock));
                super::$promise(Arc::new(store)).await;
            })+
        }
        mod blob {
            use std::sync::Arc;
            // One server for all of them: it takes longer to start than most of them run.
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn keeps_every_promise() {
                let azurite = super::Azurite::blob();
                $({
                    println!("{}", stringify!($promise));
                    let store = azurite.store(&azurite.fresh_container());
                    super::$promise(Arc::new(store)).await;
                })+
            }
        }
        mod sqlite {
            use std::sync::Arc;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $promise() {
                let directory = tempfile::tempdir().unwrap();
                let value = format!("sqlite:{}", directory.path().join("state.db").display());
                super::$promise(Arc::new(super::sql_store(&value, "dbtick_state"))).await;
            })+
        }
        mod postgres {
            use std::sync::Arc;
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn keeps_every_promise() {
                let postgres = super::Postgres::start().await;
                $({
                    println!("{}", stringify!($promise));
                    let store = super::sql_store(&postgres.url(), stringify!($promise));
                    super::$promise(Arc::new(store)).await;
                })+
            }
        }
        mod mariadb {
            use std::sync::Arc;
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn keeps_every_promise() {
                let mariadb = super::MariaDb::start().await;
                $({
                    println!("{}", stringify!($promise));
                    let store = super::sql_store(&mariadb.url(), stringify!($promise));
                    super::$promise(Arc::new(store)).await;
                })+
            }
        }
    };
}

fn sql_store(value: &str, table: &str) -> SqlStore {
    let settings = Settings::from_iter([("STATE_DB", value)]);
    let connection = Connection::resolve(&settings, Path::new("/"), "STATE_DB").unwrap();
    let clock = Arc::new(SystemClock);
    let databases = Databases::new(Azure::new(clock.clone()).unwrap());
    // The longest name that both servers take.
    let table = TableName {
        schema: None,
        table: table.chars().take(60).collect(),
    };
    SqlStore::new("STATE_DB", &connection, &table, &databases, clock)
}

every_store_keeps!(
    a_missing_document_is_none,
    creating_wins_once,
    replacing_needs_the_latest_tag,
    equal_bodies_get_different_tags,
    a_deleted_document_can_be_created_again_and_old_tags_stay_dead,
    deleting_needs_the_latest_tag,
    listing_shows_the_keys_below_a_prefix,
    one_of_many_concurrent_creators_wins,
    concurrent_increments_add_up_exactly,
    a_body_of_any_bytes_survives,
    an_object_is_written_once_and_read_back,
    one_of_many_concurrent_puts_creates_the_object,
    objects_and_documents_do_not_mix,
);

fn key(path: &str) -> StoreKey {
    StoreKey::new(path).unwrap()
}

fn document() -> StoreKey {
    StoreKey::state("shop", "orders").unwrap()
}

fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[track_caller]
fn won(swap: Result<Swap, StoreError>) -> Tag {
    match swap.unwrap() {
        Swap::Won(tag) => tag,
        Swap::Lost => panic!("the write should have won"),
    }
}

async fn a_missing_document_is_none(store: Arc<dyn Store>) {
    assert!(store.load(&document()).await.unwrap().is_none());
    let tag = Tag::new("none");
    assert_eq!(
        store.replace(&document(), &tag, body("x")).await.unwrap(),
        Swap::Lost
    );
    assert!(store.load(&document()).await.unwrap().is_none());
}

async fn creating_wins_once(store: Arc<dyn Store>) {
    let tag = won(store.create(&document(), body("one")).await);
    assert_eq!(
        store.create(&document(), body("two")).await.unwrap(),
        Swap::Lost
    );
    let loaded = store.load(&document()).await.unwrap().unwrap();
    assert_eq!((loaded.body, loaded.tag), (body("one"), tag));
}

async fn replacing_needs_the_latest_tag(store: Arc<dyn Store>) {
    let first = won(store.create(&document(), body("one")).await);
    let second = won(store.replace(&document(), &first, body("two")).await);
    assert_eq!(
        store
            .replace(&document(), &first, body("three"))
            .await
            .unwrap(),
        Swap::Lost
    );
    let loaded = store.load(&document()).await.unwrap().unwrap();
    assert_eq!((loaded.body, loaded.tag), (body("two"), second));
}

async fn equal_bodies_get_different_tags(store: Arc<dyn Store>) {
    let first = won(store.create(&document(), body("same")).await);
    let second = won(store.replace(&document(), &first, body("same")).await);
    assert_ne!(first, second);
    assert_eq!(
        store.replace(&document(), &first, body("x")).await.unwrap(),
        Swap::Lost
    );
}

async fn a_deleted_document_can_be_created_again_and_old_tags_stay_dead(store: Arc<dyn Store>) {
    let first = won(store.create(&document(), body("same")).await);
    assert_eq!(
        store.delete(&document(), &first).await.unwrap(),
        Deleted::Gone
    );
    assert!(store.load(&document()).await.unwrap().is_none());
    let second = won(store.create(&document(), body("same")).await);
    assert_ne!(first, second);
    assert_eq!(
        store.replace(&document(), &first, body("x")).await.unwrap(),
        Swap::Lost
    );
}

async fn deleting_needs_the_latest_tag(store: Arc<dyn Store>) {
    let first = won(store.create(&document(), body("one")).await);
    won(store.replace(&document(), &first, body("two")).await);
    assert_eq!(
        store.delete(&document(), &first).await.unwrap(),
        Deleted::Lost
    );
    assert!(store.load(&document()).await.unwrap().is_some());
}

async fn listing_shows_the_keys_below_a_prefix(store: Arc<dyn Store>) {
    for path in [
        "state/b/x.json",
        "state/a/y.json",
        "state/a/x.json",
        "other/x.json",
    ] {
        won(store.create(&key(path), body("{}")).await);
    }
    let listed = store.list("state/a/").await.unwrap();
    assert_eq!(listed, [key("state/a/x.json"), key("state/a/y.json")]);
    assert!(store.list("nothing/").await.unwrap().is_empty());
}

async fn one_of_many_concurrent_creators_wins(store: Arc<dyn Store>) {
    let attempts: Vec<_> = (0..16)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.create(&document(), body(&n.to_string())).await })
        })
        .collect();
    let mut wins = 0;
    for attempt in attempts {
        if matches!(attempt.await.unwrap().unwrap(), Swap::Won(_)) {
            wins += 1;
        }
    }
    assert_eq!(wins, 1);
}

async fn concurrent_increments_add_up_exactly(store: Arc<dyn Store>) {
    const WRITERS: u64 = 8;
    const EACH: u64 = 25;
    won(store.create(&document(), body("0")).await);
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..EACH {
                    increment(&*store).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(count(&*store).await, WRITERS * EACH);
}

async fn increment(store: &dyn Store) {
    loop {
        let loaded = store.load(&document()).await.unwrap().unwrap();
        let next = std::str::from_utf8(&loaded.body)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            + 1;
        let swap = store
            .replace(&document(), &loaded.tag, body(&next.to_string()))
            .await;
        if matches!(swap.unwrap(), Swap::Won(_)) {
            return;
        }
    }
}

async fn count(store: &dyn Store) -> u64 {
    let loaded = store.load(&document()).await.unwrap().unwrap();
    std::str::from_utf8(&loaded.body).unwrap().parse().unwrap()
}

async fn a_body_of_any_bytes_survives(store: Arc<dyn Store>) {
    let bytes: Bytes = (0..=255_u8)
        .cycle()
        .take(100_000)
        .collect::<Vec<_>>()
        .into();
    won(store.create(&document(), bytes.clone()).await);
    assert_eq!(store.load(&document()).await.unwrap().unwrap().body, bytes);
}

async fn an_object_is_written_once_and_read_back(store: Arc<dyn Store>) {
    let name = key("quarantine/shop/orders/1.json");
    assert_eq!(store.get(&name).await.unwrap(), None);
    assert_eq!(store.put(&name, body("one")).await.unwrap(), Put::Created);
    assert_eq!(store.put(&name, body("two")).await.unwrap(), Put::Exists);
    assert_eq!(store.get(&name).await.unwrap(), Some(body("one")));
    store.remove(&name).await.unwrap();
    store.remove(&name).await.unwrap();
    assert_eq!(store.get(&name).await.unwrap(), None);
}

async fn one_of_many_concurrent_puts_creates_the_object(store: Arc<dyn Store>) {
    let name = key("quarantine/shop/orders/1.json");
    let puts: Vec<_> = (0..16)
        .map(|n| {
            let (store, name) = (Arc::clone(&store), name.clone());
            tokio::spawn(async move { (n, store.put(&name, body(&n.to_string())).await.unwrap()) })
        })
        .collect();
    let mut created = Vec::new();
    for put in puts {
        if let (n, Put::Created) = put.await.unwrap() {
            created.push(body(&n.to_string()));
        }
    }
    assert_eq!(created.len(), 1);
    assert_eq!(store.get(&name).await.unwrap().as_ref(), created.first());
    assert_eq!(store.names("").await.unwrap(), [name]);
}

async fn objects_and_documents_do_not_mix(store: Arc<dyn Store>) {
    let name = key("state/shop/x.json");
    store.put(&name, body("object")).await.unwrap();
    assert!(store.load(&name).await.unwrap().is_none());
    assert!(store.list("").await.unwrap().is_empty());
    won(store.create(&name, body("document")).await);
    assert_eq!(store.names("").await.unwrap(), std::slice::from_ref(&name));
    assert_eq!(store.get(&name).await.unwrap(), Some(body("object")));
}
