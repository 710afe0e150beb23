//! Every answer of the service, by what the caller may do about it.

use chrono::{DateTime, TimeDelta};

use super::*;
use crate::azure::connection::{Service, StorageConnection};
use crate::config::Settings;

fn endpoint(pairs: &[(&str, &str)]) -> ServiceEndpoint {
    let settings: Settings = pairs.iter().copied().collect();
    let connection = StorageConnection::resolve(&settings, "S").unwrap();
    connection.service(Service::Queue).unwrap()
}

fn by_key() -> ServiceEndpoint {
    endpoint(&[("S", "AccountName=shop;AccountKey=Y2FuYXJ5")])
}

fn now() -> Timestamp {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn faults(endpoint: &ServiceEndpoint) -> Faults<'_> {
    Faults {
        endpoint,
        queue: "order-events",
        now: now(),
    }
}

fn answered(status: u16, code: &str) -> Failure {
    Failure::Answered(Answer {
        status,
        code: code.to_owned(),
        request_id: "r".to_owned(),
        retry_after: None,
        date: Some(now()),
    })
}

fn kind(error: &QueueError) -> &'static str {
    match error {
        QueueError::Missing { .. } => "missing",
        QueueError::NotDone { .. } => "not done",
        QueueError::Unknown { .. } => "unknown",
        QueueError::Rejected { .. } => "rejected",
        QueueError::Refused { .. } => "refused",
    }
}

#[test]
fn a_put_is_not_done_only_where_that_is_certain() {
    let endpoint = by_key();
    for (status, code, expected) in [
        (404, "QueueNotFound", "missing"),
        (404, "ResourceNotFound", "refused"),
        (404, "", "refused"),
        (409, "QueueBeingDeleted", "not done"),
        (409, "QueueDisabled", "refused"),
        (429, "", "not done"),
        (503, "ServerBusy", "not done"),
        (503, "", "unknown"),
        (500, "InternalError", "unknown"),
        (500, "OperationTimedOut", "unknown"),
        (502, "", "unknown"),
        (504, "", "unknown"),
        (408, "", "unknown"),
        (413, "RequestBodyTooLarge", "rejected"),
        (400, "MessageTooLarge", "rejected"),
        (400, "InvalidXmlDocument", "rejected"),
        (400, "OutOfRangeQueryParameterValue", "refused"),
        (400, "", "refused"),
        (401, "NoAuthenticationInformation", "refused"),
        (403, "AuthorizationPermissionMismatch", "refused"),
    ] {
        let error = faults(&endpoint).put(answered(status, code));
        assert_eq!(kind(&error), expected, "{status} {code}");
        assert!(error.to_string().contains("queue order-events of S"));
    }
    for (failure, expected) in [
        (Failure::NeverSent("refused".into()), "not done"),
        (Failure::Cut("reset".into()), "unknown"),
    ] {
        assert_eq!(kind(&faults(&endpoint).put(failure)), expected);
    }
}

#[test]
fn creating_what_is_there_is_no_fault_and_a_lost_answer_to_it_is_no_message() {
    let endpoint = by_key();
    let create = |failure| faults(&endpoint).create(failure);
    assert!(create(answered(409, "QueueAlreadyExists")).is_ok());
    for failure in [answered(500, ""), Failure::Cut("reset".into())] {
        assert_eq!(kind(&create(failure).unwrap_err()), "not done");
    }
}

#[test]
fn a_refusal_says_what_to_do_and_shows_no_key() {
    let identity = endpoint(&[
        ("S__accountName", "shop"),
        ("S__credential", "managedidentity"),
    ]);
    for (endpoint, status, code, expected) in [
        (
            &identity,
            403,
            "AuthorizationPermissionMismatch",
            "role Storage Queue Data Message Sender on the queue, or Storage Queue Data Contributor",
        ),
        (
            &by_key(),
            403,
            "AuthorizationFailure",
            "copy it again from the portal; or the firewall of the account",
        ),
        (
            &by_key(),
            403,
            "KeyBasedAuthenticationNotPermitted",
            "remove S and set S__accountName, and give the app's identity the role Storage Queue Data",
        ),
        (&by_key(), 404, "", "no queue endpoint of a storage account"),
    ] {
        let said = faults(endpoint).put(answered(status, code)).to_string();
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("Y2FuYXJ5"), "{said}");
    }
}

#[test]
fn a_clock_that_is_off_is_named_before_the_key() {
    let endpoint = by_key();
    let mut faults = faults(&endpoint);
    faults.now = now() - TimeDelta::minutes(20);
    let said = faults
        .put(answered(403, "AuthenticationFailed"))
        .to_string();
    assert!(said.contains("clock is 20 minutes behind"), "{said}");
}
