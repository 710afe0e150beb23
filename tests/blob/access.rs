//! Who may come in, and what those are told who may not.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use azure_core::credentials::Secret;
use azure_core::hmac::hmac_sha256;
use bytes::Bytes;
use dbtick::clock::SystemClock;
use dbtick::store::{BlobStore, ObjectStore, StateStore, StoreError, StoreKey, Swap, Tag};

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::support::azurite::{ACCOUNT, Azurite, KEY, store};
use super::support::handler::free_port;

fn key() -> StoreKey {
    StoreKey::state("app", "orders").unwrap()
}

fn body() -> Bytes {
    Bytes::from_static(b"{}")
}

/// Account SAS as the portal makes it, with these permissions on blobs.
fn signed(endpoint: &str, permissions: &str, expiry: &str) -> String {
    let version = "2021-06-08";
    let text = format!("{ACCOUNT}\n{permissions}\nb\nsco\n\n{expiry}\n\nhttps,http\n{version}\n\n");
    let signature = hmac_sha256(&text, &Secret::new(KEY)).unwrap();
    let signature = signature
        .replace('+', "%2B")
        .replace('/', "%2F")
        .replace('=', "%3D");
    let expiry = expiry.replace(':', "%3A");
    format!(
        "BlobEndpoint={endpoint};SharedAccessSignature=sv={version}&ss=b&srt=sco&sp={permissions}\
         &se={expiry}&spr=https,http&sig={signature}"
    )
}

fn at(connection: &str, container: &str) -> BlobStore {
    store(connection, container, Arc::new(SystemClock))
}

/// The error and its causes, as a log shows them.
fn story(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", story(cause)),
        None => error.to_string(),
    }
}

#[tokio::test]
async fn everyone_is_let_in_or_told_why_not() {
    let azurite = Azurite::blob();
    let endpoint = &azurite.endpoint;
    let far = "2099-01-01T00:00:00Z";

    // A signature with all permissions is as good as a key.
    let signature = signed(endpoint, "rwdlac", far);
    let by_signature = at(&signature, "signed");
    let Swap::Won(tag) = by_signature.create(&key(), body()).await.unwrap() else {
        panic!("nothing was there");
    };
    assert!(by_signature.load(&key()).await.unwrap().is_some());
    assert_eq!(by_signature.list("state/").await.unwrap(), [key()]);
    assert!(matches!(
        by_signature.replace(&key(), &tag, body()).await.unwrap(),
        Swap::Won(_)
    ));

    let wrong_key =
        format!("AccountName={ACCOUNT};AccountKey=Y2FuYXJ5Y2FuYXJ5;BlobEndpoint={endpoint}");
    for (connection, expected) in [
        (wrong_key, "the account key in STORAGE is not accepted"),
        (
            signed(endpoint, "rwdlac", "2020-01-01T00:00:00Z"),
            "the shared access signature in STORAGE has expired or lacks a permission",
        ),
        (
            signed(endpoint, "l", far),
            "the shared access signature in STORAGE has expired or lacks a permission",
        ),
    ] {
        let store = at(&connection, "signed");
        for error in [
            store.load(&key()).await.unwrap_err(),
            store.create(&key(), body()).await.unwrap_err(),
            store.replace(&key(), &tag, body()).await.unwrap_err(),
            store.delete(&key(), &tag).await.unwrap_err(),
            store.put(&key(), body()).await.unwrap_err(),
            store.remove(&key()).await.unwrap_err(),
        ] {
            let said = format!("{error:?} {}", story(&error));
            assert!(matches!(error, StoreError::Refused { .. }), "{said}");
            assert!(said.contains(expected), "{said}");
            assert!(!said.contains("Y2Fu") && !said.contains("sig="), "{said}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_has_surely_written_nothing() {
    let port = free_port();
    let endpoint = format!("http://127.0.0.1:{port}/{ACCOUNT}");
    let store = at(
        &signed(&endpoint, "rwdlac", "2099-01-01T00:00:00Z"),
        "db-state",
    );
    for error in [
        store.load(&key()).await.unwrap_err(),
        store.create(&key(), body()).await.unwrap_err(),
        store
            .replace(&key(), &Tag::new("\"x\""), body())
            .await
            .unwrap_err(),
        store.list("").await.unwrap_err(),
    ] {
        let said = format!("{error:?} {}", story(&error));
        assert!(matches!(error, StoreError::Unreachable { .. }), "{said}");
        assert!(said.contains("STORAGE"), "{said}");
        assert!(!said.contains("sig="), "{said}");
    }
}

/// Takes the whole request, and hangs up instead of answering.
async fn hang_up(listener: TcpListener, requests: Arc<AtomicUsize>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n{}") && !request.starts_with(b"GET") {
            if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                break;
            }
        }
        requests.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_unknown_and_the_write_was_sent_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    tokio::spawn(hang_up(listener, Arc::clone(&requests)));
    let endpoint = format!("http://{address}/{ACCOUNT}");
    let store = at(
        &signed(&endpoint, "rwdlac", "2099-01-01T00:00:00Z"),
        "db-state",
    );
    let tag = Tag::new("\"0x1\"");
    for (number, write) in [
        (1, store.create(&key(), body()).await),
        (2, store.replace(&key(), &tag, body()).await),
    ] {
        let error = write.unwrap_err();
        let said = format!("{error:?} {}", story(&error));
        assert!(
            matches!(error, StoreError::Unknown { .. }),
            "{number}: {said}"
        );
        assert!(!said.contains("sig="), "{said}");
    }
    assert_eq!(requests.load(Ordering::SeqCst), 2, "one each");
    let error = store.load(&key()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
    assert_eq!(requests.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn the_container_is_made_by_the_first_write_and_by_no_read() {
    let azurite = Azurite::blob();
    let store = azurite.store("later");
    assert!(store.load(&key()).await.unwrap().is_none());
    assert!(store.list("").await.unwrap().is_empty());
    let stale = Tag::new("\"0x1\"");
    let replaced = store.replace(&key(), &stale, body()).await.unwrap();
    assert_eq!(replaced, Swap::Lost);
    assert!(store.load(&key()).await.unwrap().is_none());
    // Two first writers at once: both find no container, one document is created.
    let key = key();
    let (one, two) = tokio::join!(store.create(&key, body()), store.create(&key, body()));
    let wins = [one.unwrap(), two.unwrap()];
    let wins = wins.iter().filter(|swap| **swap != Swap::Lost).count();
    assert_eq!(wins, 1);
    let clock = store.load(&key).await.unwrap().unwrap().clock.unwrap();
    assert!(clock.last_write <= clock.now, "{clock:?}");
}
