//! Who may put messages, and what those are told who may not.

use azure_core::credentials::Secret;
use azure_core::hmac::hmac_sha256;
use dbtick::sink::{FailureKind, Verdict};

use crate::support::azurite::{ACCOUNT, KEY};
use crate::{Storage, batch, deliver, ids, row, sink};

/// Account SAS as the portal makes it, with these permissions on queues.
fn signed(endpoint: &str, permissions: &str) -> String {
    let (version, expiry) = ("2021-06-08", "2099-01-01T00:00:00Z");
    let text = format!("{ACCOUNT}\n{permissions}\nq\nsco\n\n{expiry}\n\nhttps,http\n{version}\n\n");
    let signature = hmac_sha256(&text, &Secret::new(KEY)).unwrap();
    let signature = signature
        .replace('+', "%2B")
        .replace('/', "%2F")
        .replace('=', "%3D");
    let expiry = expiry.replace(':', "%3A");
    format!(
        "QueueEndpoint={endpoint};SharedAccessSignature=sv={version}&ss=q&srt=sco&sp={permissions}\
         &se={expiry}&spr=https,http&sig={signature}"
    )
}

#[tokio::test]
async fn a_signature_that_may_add_and_create_is_enough() {
    let storage = Storage::queues();
    let sink = sink(&signed(&storage.queues.endpoint, "ac"), |_| {});
    let verdict = deliver(&sink, &batch([row(1)])).await;
    assert_eq!(verdict, Verdict::Acknowledged);
    assert_eq!(ids(&storage.messages().await), [1]);
}

#[tokio::test]
async fn who_may_not_is_told_what_is_missing_and_no_secret_is_shown() {
    let storage = Storage::queues();
    let endpoint = &storage.queues.endpoint;
    storage.queue().create().await.unwrap();
    for (connection, expected) in [
        (
            format!("AccountName={ACCOUNT};AccountKey=Y2FuYXJ5Y2FuYXJ5;QueueEndpoint={endpoint}"),
            "the account key in STORAGE is not accepted: copy it again from the portal",
        ),
        (
            signed(endpoint, "r"),
            "the shared access signature in STORAGE has expired or lacks a permission: it needs add",
        ),
    ] {
        let verdict = deliver(&sink(&connection, |_| {}), &batch([row(1)])).await;
        let Verdict::Failed(failure) = verdict else {
            panic!("{verdict:?}");
        };
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.reason.contains(expected), "{failure}");
    }
}
