//! What the status of an answer means, where it is not 2xx.

use reqwest::StatusCode;

use super::super::FailureKind;

pub(super) fn kind(status: StatusCode) -> FailureKind {
    match status.as_u16() {
        408 | 429 | 503 => FailureKind::Passing,
        500.. => FailureKind::Broken,
        410 => FailureKind::Gone,
        413 => FailureKind::TooLarge,
        400 | 415 | 422 => FailureKind::Rejected,
        _ => FailureKind::Refused,
    }
}

/// Whether it is worth another try inside the tick.
///
/// 504 is a time-out, only not ours: the receiver behind the gateway may be working on it.
pub(super) fn may_pass_soon(status: StatusCode) -> bool {
    match kind(status) {
        FailureKind::Passing => true,
        FailureKind::Broken => status != StatusCode::GATEWAY_TIMEOUT,
        FailureKind::Rejected
        | FailureKind::TooLarge
        | FailureKind::Gone
        | FailureKind::Refused => false,
    }
}

/// Whether a Retry-After is an answer to it. Where rows must be sent in another way, or not at
/// all, nothing is gained by waiting.
pub(super) fn passes_with_time(status: StatusCode) -> bool {
    matches!(
        kind(status),
        FailureKind::Passing | FailureKind::Broken | FailureKind::Refused
    )
}

pub(super) fn hint(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => "; redirects are not followed: configure the final address",
        400 | 415 | 422 => {
            "; the receiver does not take what the batch holds: its own log says which row and why"
        }
        401 | 403 => "; check the receiver's key or token",
        404 => "; check the webhook's path",
        405 => "; the receiver does not take POST at this path: check the webhook's path",
        410 => "; the receiver says that it is gone for good: configure its new address",
        413 => {
            "; the batch is too large for the receiver and is sent again in halves: make \
             batch.max_bytes or batch.max_rows smaller"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By status: kind, tried again inside the tick, Retry-After is kept.
    #[test]
    fn every_status_has_one_meaning() {
        use FailureKind::{Broken, Gone, Passing, Refused, Rejected, TooLarge};
        for (statuses, expected) in [
            (&[408, 429, 503][..], (Passing, true, true)),
            (&[500, 501, 502, 505, 507, 599, 999], (Broken, true, true)),
            (&[504], (Broken, false, true)),
            (&[400, 415, 422], (Rejected, false, false)),
            (&[413], (TooLarge, false, false)),
            (&[410], (Gone, false, false)),
            (
                &[300, 301, 302, 303, 304, 307, 308, 399],
                (Refused, false, true),
            ),
            (
                &[
                    401, 402, 403, 404, 405, 406, 407, 409, 411, 412, 414, 418, 451, 499,
                ],
                (Refused, false, true),
            ),
        ] {
            for status in statuses {
                let code = StatusCode::from_u16(*status).unwrap();
                let meaning = (kind(code), may_pass_soon(code), passes_with_time(code));
                assert_eq!(meaning, expected, "{status}");
            }
        }
    }

    #[test]
    fn a_hint_says_what_to_do_and_continues_the_sentence() {
        for (status, part) in [
            (302, "final address"),
            (400, "which row"),
            (401, "key or token"),
            (403, "key or token"),
            (404, "path"),
            (405, "POST"),
            (410, "gone for good"),
            (413, "in halves"),
            (422, "which row"),
        ] {
            let hint = hint(StatusCode::from_u16(status).unwrap());
            assert!(hint.starts_with("; ") && hint.contains(part), "{status}");
        }
        assert_eq!(hint(StatusCode::INTERNAL_SERVER_ERROR), "");
    }
}
