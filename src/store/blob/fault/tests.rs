//! Every answer of the service, by what the caller may do about it.

use chrono::{DateTime, TimeDelta};

use super::*;
use crate::azure::connection::{Service, StorageConnection};
use crate::config::Settings;

fn endpoint(pairs: &[(&str, &str)]) -> ServiceEndpoint {
    let settings: Settings = pairs.iter().copied().collect();
    let connection = StorageConnection::resolve(&settings, "S").unwrap();
    connection.service(Service::Blob).unwrap()
}

fn by_key() -> ServiceEndpoint {
    endpoint(&[("S", "AccountName=shop;AccountKey=Y2FuYXJ5")])
}

fn by_identity() -> ServiceEndpoint {
    endpoint(&[
        ("S__accountName", "shop"),
        ("S__credential", "managedidentity"),
    ])
}

fn now() -> Timestamp {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn faults(endpoint: &ServiceEndpoint) -> Faults<'_> {
    Faults {
        endpoint,
        container: "db-state",
        name: "state/app/orders.json",
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

fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Unreachable { .. } => "unreachable",
        StoreError::Busy { .. } => "busy",
        StoreError::Unknown { .. } => "unknown",
        StoreError::Refused { .. } => "refused",
    }
}

#[test]
fn a_write_is_lost_only_where_its_condition_did_not_hold_and_unreachable_only_where_it_surely_did_not_happen()
 {
    for (status, code, expected) in [
        (412, "ConditionNotMet", "lost"),
        (412, "", "lost"),
        (409, "BlobAlreadyExists", "lost"),
        (404, "BlobNotFound", "lost"),
        (404, "ContainerNotFound", "no container"),
        (409, "ContainerBeingDeleted", "unreachable"),
        (429, "", "unreachable"),
        (503, "ServerBusy", "unreachable"),
        (503, "", "unknown"),
        (500, "InternalError", "unknown"),
        (500, "OperationTimedOut", "unknown"),
        (502, "", "unknown"),
        (504, "", "unknown"),
        (408, "", "unknown"),
        (401, "NoAuthenticationInformation", "refused"),
        (403, "AuthorizationPermissionMismatch", "refused"),
        (404, "", "refused"),
        (412, "LeaseIdMissing", "refused"),
        (409, "BlobImmutableDueToPolicy", "refused"),
        (400, "InvalidHeaderValue", "refused"),
        (307, "", "refused"),
    ] {
        let found = match faults(&by_key()).write(answered(status, code)) {
            Verdict::Lost => "lost",
            Verdict::NoContainer => "no container",
            Verdict::Failed(error) => kind(&error),
        };
        assert_eq!(found, expected, "{status} {code}");
    }
}

#[test]
fn a_read_can_be_tried_again_unless_a_person_must_act() {
    for (status, code, expected) in [
        (429, "", "unreachable"),
        (500, "InternalError", "unreachable"),
        (503, "", "unreachable"),
        (403, "AuthorizationPermissionMismatch", "refused"),
        (404, "", "refused"),
        (302, "", "refused"),
    ] {
        let error = faults(&by_key()).read(answered(status, code));
        assert_eq!(kind(&error), expected, "{status} {code}");
    }
    assert!(is_missing(&answered(404, "BlobNotFound")));
    assert!(is_missing(&answered(404, "ContainerNotFound")));
    assert!(
        !is_missing(&answered(404, "")),
        "a proxy's 404 is no first run"
    );
    assert!(!is_missing(&answered(404, "ResourceNotFound")));
}

#[test]
fn what_was_never_sent_is_unreachable_and_what_was_cut_off_is_unknown() {
    let endpoint = by_key();
    let failed = |failure| match faults(&endpoint).write(failure) {
        Verdict::Failed(error) => kind(&error),
        other => panic!("{other:?}"),
    };
    assert_eq!(failed(Failure::NeverSent("refused".into())), "unreachable");
    assert_eq!(failed(Failure::Cut("reset".into())), "unknown");
    let read = faults(&endpoint).read(Failure::Cut("reset".into()));
    assert_eq!(kind(&read), "unreachable");
}

#[test]
fn only_a_service_that_turned_the_request_away_is_waited_for() {
    let wait = Duration::from_secs(1);
    for (status, code, expected) in [
        (429, "", Some(wait)),
        (503, "ServerBusy", Some(wait)),
        (503, "", None),
        (500, "InternalError", None),
        (412, "ConditionNotMet", None),
    ] {
        let Failure::Answered(answer) = answered(status, code) else {
            unreachable!();
        };
        let answer = Answer {
            retry_after: Some(wait),
            ..answer
        };
        assert_eq!(
            turned_away(&Failure::Answered(answer)),
            expected,
            "{status} {code}"
        );
    }
    assert_eq!(turned_away(&answered(503, "ServerBusy")), None);
}

#[test]
fn a_refusal_says_which_right_or_setting_is_missing() {
    let (key, identity) = (by_key(), by_identity());
    for (endpoint, status, code, expected) in [
        (
            &identity,
            403,
            "AuthorizationPermissionMismatch",
            "role Storage Blob Data Contributor",
        ),
        (
            &identity,
            401,
            "InvalidAuthenticationInfo",
            "the identity of S may not",
        ),
        (
            &key,
            403,
            "AuthenticationFailed",
            "the account key in S is not accepted",
        ),
        (
            &key,
            403,
            "AuthorizationFailure",
            "the firewall of the account",
        ),
        (
            &key,
            403,
            "KeyBasedAuthenticationNotPermitted",
            "remove S and set S__accountName",
        ),
        (
            &key,
            404,
            "",
            "no blob endpoint of a storage account: check S",
        ),
        (
            &key,
            412,
            "LeaseIdMissing",
            "an Azure lease on this blob: break it",
        ),
        (
            &key,
            400,
            "InvalidUri",
            "check S and the settings of the account",
        ),
    ] {
        let said = faults(endpoint).read(answered(status, code)).to_string();
        assert!(said.contains(expected), "{said}");
        assert!(
            said.contains("db-state/state/app/orders.json of S"),
            "{said}"
        );
    }
    let Failure::Answered(answer) = answered(403, "AuthenticationFailed") else {
        unreachable!();
    };
    let answer = Answer {
        date: Some(now() + TimeDelta::minutes(20)),
        ..answer
    };
    let said = faults(&key).read(Failure::Answered(answer)).to_string();
    assert!(
        said.contains("clock is 20 minutes behind the store's"),
        "{said}"
    );
}
