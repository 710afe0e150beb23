//! What the answers of the blob service mean for whoever asked.
//!
//! `Unreachable` only where it is certain that nothing was written: no connection, no token, turned
//! away at the door. Everything that could have been applied before the answer got lost or went wrong
//! is `Unknown`.

use std::error::Error;
use std::io;
use std::time::Duration;

use crate::azure::advice::{Needs, about_rights};
use crate::azure::connection::ServiceEndpoint;
use crate::azure::failure::{Answer, Failure};
use crate::clock::Timestamp;
use crate::store::StoreError;

type Cause = Box<dyn Error + Send + Sync>;

pub(crate) const NEEDS: Needs = Needs {
    to: "read and write",
    role: "Storage Blob Data Contributor",
    scope: "the account or the container",
    permissions: "read, add, create, write, delete and list on containers and objects",
};

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
        if let Some(advice) = about_rights(self.endpoint, &NEEDS, answer, self.now) {
            return advice;
        }
        let setting = self.endpoint.setting();
        match (answer.status, answer.code.as_str()) {
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
}

#[cfg(test)]
mod tests;
