//! What the store says of each fault: surely not, perhaps, never, or somebody was faster.

use bytes::Bytes;
use dbtick::store::{Deleted, StateStore, StoreError, StoreKey, Swap, Tag};

use crate::support::azurite::Azurite;
use crate::support::proxy::Fault;
use crate::world::{BlobWorld, CALM};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Done,
    Lost,
    Unreachable,
    Unknown,
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Create,
    Replace,
    Delete,
}

async fn say(store: &dyn StateStore, call: Call, key: &StoreKey, tag: &Tag) -> (Says, String) {
    let body = Bytes::from_static(b"after");
    let result = match call {
        Call::Create => store.create(key, body).await,
        Call::Replace => store.replace(key, tag, body).await,
        Call::Delete => store.delete(key, tag).await.map(|deleted| match deleted {
            Deleted::Gone => Swap::Won(tag.clone()),
            Deleted::Lost => Swap::Lost,
        }),
    };
    let story = format!("{result:?}");
    let says = match result {
        Ok(Swap::Won(_)) => Says::Done,
        Ok(Swap::Lost) => Says::Lost,
        Err(StoreError::Unreachable { .. } | StoreError::Busy { .. }) => Says::Unreachable,
        Err(StoreError::Unknown { .. }) => Says::Unknown,
        Err(StoreError::Refused { .. }) => Says::Refused,
    };
    (says, story)
}

/// One server for all of them; each function is a promise of its own.
#[tokio::test]
async fn the_store_says_what_its_caller_may_do() {
    let azurite = Azurite::blob();
    every_fault_of_a_write_is_told_by_what_the_caller_may_do_about_it(&azurite).await;
    a_server_that_nobody_can_reach_has_surely_done_nothing(&azurite).await;
    connections_that_were_cut_while_idle_are_replaced_quietly(&azurite).await;
    a_read_is_whole_or_an_error(&azurite).await;
    a_read_tells_the_servers_time_and_the_time_of_the_last_write(&azurite).await;
    no_error_shows_the_account_key_or_a_signature(&azurite).await;
}

async fn every_fault_of_a_write_is_told_by_what_the_caller_may_do_about_it(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    let (world, store) = (&world, world.poller().store);
    let store = store.as_ref();
    let calls = [Call::Create, Call::Replace, Call::Delete];
    // Fault, what is said, and what the server has done.
    let table = [
        (None, Says::Done, true),
        (Some(Fault::AnswerDropped), Says::Unknown, true),
        (Some(Fault::Truncated), Says::Unknown, true),
        (Some(Fault::Reset), Says::Unknown, false),
        (Some(Fault::Say(500, &[])), Says::Unknown, false),
        (Some(Fault::Say(502, &[])), Says::Unknown, false),
        (Some(Fault::Say(504, &[])), Says::Unknown, false),
        (Some(Fault::Say(408, &[])), Says::Unknown, false),
        (Some(Fault::Say(503, &[])), Says::Unreachable, false),
        (Some(Fault::Say(429, &[])), Says::Unreachable, false),
        (Some(Fault::Say(401, &[])), Says::Refused, false),
        (Some(Fault::Say(403, &[])), Says::Refused, false),
        (Some(Fault::Say(412, &[])), Says::Lost, false),
    ];
    for (index, (fault, expected, done)) in table.into_iter().enumerate() {
        for call in calls {
            let key = StoreKey::new(format!("seam/{index}-{call:?}")).unwrap();
            let tag = match call {
                Call::Create => Tag::new("none"),
                _ => match store.create(&key, Bytes::from_static(b"before")).await {
                    Ok(Swap::Won(tag)) => tag,
                    other => panic!("{other:?}"),
                },
            };
            world.proxy.fresh();
            if let Some(fault) = &fault {
                world.proxy.nth(1, "", key.as_str(), fault.clone());
            }
            let (says, story) = say(store, call, &key, &tag).await;
            let lines = world.proxy.fresh_lines();
            let case = format!("{call:?} {fault:?}: {story}: {lines:#?}");
            assert_eq!(says, expected, "{case}");
            assert_eq!(lines.len(), 1, "one request: {case}");
            world.proxy.heal();
            let now = store.load(&key).await.unwrap().map(|loaded| loaded.body);
            let (before, after) = match call {
                Call::Create => (None, Some("after")),
                Call::Replace => (Some("before"), Some("after")),
                Call::Delete => (Some("before"), None),
            };
            let should = if done { after } else { before };
            assert_eq!(
                now,
                should.map(|text| Bytes::from_static(text.as_bytes())),
                "{case}"
            );
        }
    }
}

async fn a_server_that_nobody_can_reach_has_surely_done_nothing(azurite: &Azurite) {
    let world = BlobWorld::on(azurite, CALM).await;
    let store = world.poller().store;
    world.proxy.close().await;
    let key = StoreKey::new("seam/closed").unwrap();
    for call in [Call::Create, Call::Replace, Call::Delete] {
        let (says, story) = say(store.as_ref(), call, &key, &Tag::new("\"0x1\"")).await;
        assert_eq!(says, Says::Unreachable, "{call:?}: {story}");
    }
    let error = store.load(&key).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
}

/// A reused connection that the server has closed meanwhile is everyday life, not a fault.
async fn connections_that_were_cut_while_idle_are_replaced_quietly(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    let store = world.poller().store;
    store.load(&world.key()).await.unwrap().unwrap();
    world.proxy.close().await;
    world.proxy.reopen();
    // A client learns of a cut from its own reader, a moment later than we do.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    store.load(&world.key()).await.unwrap().unwrap();
}

async fn a_read_is_whole_or_an_error(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    let store = world.poller().store;
    for fault in [
        Fault::Truncated,
        Fault::Reset,
        Fault::AnswerDropped,
        Fault::Say(500, &[]),
        Fault::Say(503, &[]),
        Fault::Say(403, &[]),
    ] {
        world.proxy.nth(1, "GET", "orders.json", fault.clone());
        let result = store.load(&world.key()).await;
        assert!(result.is_err(), "{fault:?}: {result:?}");
    }
    assert!(store.load(&world.key()).await.unwrap().is_some());
}

/// The lease rule needs both times, and from one answer.
async fn a_read_tells_the_servers_time_and_the_time_of_the_last_write(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    let loaded = world.poller().store.load(&world.key()).await.unwrap();
    let clock = loaded.unwrap().clock.expect("this store tells the time");
    let age = clock.now - clock.last_write;
    assert!((0..=10).contains(&age.num_seconds()), "{clock:?}");
}

/// Not in a message, not in a chain of causes, not in Debug.
async fn no_error_shows_the_account_key_or_a_signature(azurite: &Azurite) {
    let world = BlobWorld::on(azurite, CALM).await;
    let connection = &world.world.environment["STATE"];
    let key = connection.split("AccountKey=").nth(1).unwrap();
    let key = &key[..20];
    let poller = world.poller();
    let mut said = format!("{poller:?}");
    for fault in [
        Fault::Reset,
        Fault::AnswerDropped,
        Fault::Truncated,
        Fault::Say(403, &[]),
        Fault::Say(500, &[]),
        Fault::Say(503, &[]),
    ] {
        world.proxy.nth(1, "", "orders.json", fault);
        let error = poller.store.load(&world.key()).await.unwrap_err();
        said += &format!("{error:#?} {error}");
        let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
        while let Some(error) = cause {
            said += &format!("{error:#?} {error}");
            cause = error.source();
        }
    }
    assert!(!said.contains(key), "{said}");
    assert!(!said.contains("SharedKey "), "{said}");
    assert!(!said.to_lowercase().contains("authorization\""), "{said}");
}
