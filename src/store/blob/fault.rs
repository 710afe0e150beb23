//! What the answers of the blob service mean for whoever asked.
//!
//! `Unreachable` only where it is certain that nothing was written: no connection, no token, turned
//! away at the door. Everything that could have been applied before the answer got lost or went wrong
//! is `Unknown`.

use std::error::Error;
use std::io;
use std::time::Duration;

use crate::azure::connection::{Access, ServiceEndpoint};
use crate::azure::failure::{Answer, Failure};
use crate::clock::Timestamp;
use crate::store::StoreError;

type Cause = Box<dyn Error + Send + Sync>;

/// Signatures are refused beyond fifteen minutes; far below that a clock is worth a word.
const NOTEWORTHY_SKEW_MINUTES: i64 = 5;

/// Why a conditional write did not simply succeed.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The condition did not hold.
    Lost,
    /// Nothing was written, because there is no container to write to.
    NoContainer,
    Failed(StoreError),
}

/// What an error has to name.
pub(super) struct Faults<'a> {
    pub(super) endpoint: &'a ServiceEndpoint,
    pub(super) container: &'a str,
    /// Of the blob; empty for the container itself.
    pub(super) name: &'a str,
    pub(super) now: Timestamp,
}

/// Only the service's own word for it counts: a 404 from somewhere else must not look like a
/// poller that has never run.
pub(super) fn is_missing(failure: &Failure) -> bool {
    matches!(failure, Failure::Answered(answer) if answer.status == 404
        && matches!(answer.code.as_str(), "BlobNotFound" | "ContainerNotFound"))
}

/// How long to wait before sending again what the service surely has not done.
pub(super) fn turned_away(failure: &Failure) -> Option<Duration> {
    match failure {
        Failure::Answered(answer) if is_turned_away(answer) => answer.retry_after,
        _ => None,
    }
}

/// Throttling happens before the operation. A 503 that does not say `ServerBusy` may come from
/// something between us and the service, which has perhaps passed the request on.
fn is_turned_away(answer: &Answer) -> bool {
    answer.status == 429 || (answer.status == 503 && answer.code == "ServerBusy")
}

impl Faults<'_> {
    pub(super) fn read(&self, failure: Failure) -> StoreError {
        match failure {
            Failure::Answered(answer) => match answer.status {
                408 | 429 | 500..=599 => self.unreachable(self.subject(), answer),
                _ => self.refused(answer),
            },
            failure => self.not_answered(failure, Self::unreachable),
        }
    }

    pub(super) fn write(&self, failure: Failure) -> Verdict {
        let answer = match failure {
            Failure::Answered(answer) => answer,
            failure => return Verdict::Failed(self.not_answered(failure, Self::unknown)),
        };
        Verdict::Failed(match (answer.status, answer.code.as_str()) {
            (412, "ConditionNotMet" | "TargetConditionNotMet" | "")
            | (409, "BlobAlreadyExists" | "")
            | (404, "BlobNotFound") => return Verdict::Lost,
            (404, "ContainerNotFound") => return Verdict::NoContainer,
            (409, "ContainerBeingDeleted") => self.container_gone(),
            _ if is_turned_away(&answer) => {
                let context = format!("{}: it is too busy", self.subject());
                match answer.retry_after {
                    Some(wait) => StoreError::Busy {
                        context: format!("{context}, and asks to wait {} s", wait.as_secs()),
                        wait,
                        cause: answer.into(),
                    },
                    None => self.unreachable(context, answer),
                }
            }
            (408 | 500..=599, _) => self.unknown(self.subject(), answer),
            _ => self.refused(answer),
        })
    }

    /// Somebody else may have been faster, which is as good.
    pub(super) fn create_container(&self, failure: Failure) -> Result<(), StoreError> {
        match failure {
            Failure::Answered(answer) if answer.code == "ContainerAlreadyExists" => Ok(()),
            Failure::Answered(answer) if answer.code == "ContainerBeingDeleted" => {
                Err(self.container_gone())
            }
            Failure::Answered(answer) if matches!(answer.status, 408 | 429 | 500..=599) => {
                // The write that needs it has surely not happened.
                Err(self.unreachable(format!("{}: creating it", self.subject()), answer))
            }
            Failure::Answered(answer) => Err(self.refused(answer)),
            failure => Err(self.not_answered(failure, Self::unreachable)),
        }
    }

    pub(super) fn container_gone(&self) -> StoreError {
        let context = format!(
            "{}: the container is being deleted; somebody must have asked for that",
            self.subject()
        );
        self.unreachable(context, io::Error::from(io::ErrorKind::NotFound))
    }

    /// An answer without a tag is not from this service as we know it.
    pub(super) fn untold_tag(&self) -> StoreError {
        let context = format!("{}: the answer has no ETag", self.subject());
        self.unknown(context, io::Error::from(io::ErrorKind::InvalidData))
    }

    /// `cut` says what a lost answer means.
    fn not_answered(
        &self,
        failure: Failure,
        cut: impl Fn(&Self, String, Cause) -> StoreError,
    ) -> StoreError {
        match failure {
            Failure::NeverSent(cause) => {
                let context = format!("{} at {}", self.subject(), self.endpoint.host());
                self.unreachable(context, cause)
            }
            Failure::NoToken(error) if error.is_passing() => {
                self.unreachable(self.subject(), error)
            }
            Failure::NoToken(error) => StoreError::Refused {
                context: self.subject(),
                cause: error.into(),
            },
            Failure::Cut(cause) => cut(self, self.subject(), cause),
            Failure::Answered(answer) => cut(self, self.subject(), answer.into()),
        }
    }

    fn subject(&self) -> String {
        let (container, setting) = (self.container, self.endpoint.setting());
        match self.name {
            "" => format!("container {container} of {setting}"),
            name => format!("{container}/{name} of {setting}"),
        }
    }

    fn unreachable(&self, context: String, cause: impl Into<Cause>) -> StoreError {
        StoreError::Unreachable {
            context,
            cause: cause.into(),
        }
    }

    fn unknown(&self, context: String, cause: impl Into<Cause>) -> StoreError {
        StoreError::Unknown {
            context,
            cause: cause.into(),
        }
    }

    fn refused(&self, answer: Answer) -> StoreError {
        StoreError::Refused {
            context: format!("{}: {}", self.subject(), self.way_out(&answer)),
            cause: answer.into(),
        }
    }

    fn way_out(&self, answer: &Answer) -> String {
        let setting = self.endpoint.setting();
        let signed = !matches!(self.endpoint.access(), Access::Identity(_));
        let skew = match answer.date {
            Some(date) => (self.now - date).num_minutes(),
            None => 0,
        };
        match (answer.status, answer.code.as_str()) {
            (401 | 403, _) if signed && skew.abs() >= NOTEWORTHY_SKEW_MINUTES => {
                let way = if skew < 0 { "behind" } else { "ahead of" };
                format!(
                    "this machine's clock is {} minutes {way} the store's, and signatures are good for \
                     15: set the clock",
                    skew.abs()
                )
            }
            (401 | 403, "KeyBasedAuthenticationNotPermitted") => format!(
                "the account allows no keys: remove {setting} and set {setting}__accountName, and give the \
                 app's identity the role Storage Blob Data Contributor"
            ),
            (401 | 403, code) => {
                let right = self.missing_right();
                match code {
                    "AuthorizationFailure" => {
                        format!("{right}; or the firewall of the account keeps this network out")
                    }
                    _ => right,
                }
            }
            (404, _) => format!("this is no blob endpoint of a storage account: check {setting}"),
            (412, "LeaseIdMissing" | "LeaseLost" | "LeaseNotPresentWithBlobOperation") => {
                "somebody holds an Azure lease on this blob: break it".to_owned()
            }
            (409, "SnapshotsPresent" | "BlobImmutableDueToPolicy") => {
                "the blob is protected by snapshots or an immutability policy: use a container without"
                    .to_owned()
            }
            _ => format!("check {setting} and the settings of the account"),
        }
    }

    fn missing_right(&self) -> String {
        let setting = self.endpoint.setting();
        match self.endpoint.access() {
            Access::Identity(_) => format!(
                "the identity of {setting} may not read and write here: give it the role Storage Blob \
                 Data Contributor on the account or the container"
            ),
            Access::Sas(_) => format!(
                "the shared access signature in {setting} has expired or lacks a permission: it needs \
                 read, add, create, write, delete and list on containers and objects"
            ),
            Access::SharedKey { .. } => {
                format!(
                    "the account key in {setting} is not accepted: copy it again from the portal"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
