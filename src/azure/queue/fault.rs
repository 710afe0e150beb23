//! What the answers of the queue service mean for whoever asked.
//!
//! `NotDone` only where it is certain that nothing was put. Everything that could have been applied
//! before the answer got lost or went wrong is `Unknown`.

use std::error::Error;
use std::time::Duration;

use crate::azure::advice::{Needs, about_rights};
use crate::azure::connection::ServiceEndpoint;
use crate::azure::failure::{Answer, Failure};
use crate::clock::Timestamp;

type Cause = Box<dyn Error + Send + Sync>;

pub(crate) const NEEDS: Needs = Needs {
    to: "put messages",
    role: "Storage Queue Data Message Sender",
    scope: "the queue, or Storage Queue Data Contributor on the account where it is to create the queue",
    permissions: "add on objects, and create on containers where it is to create the queue",
};

/// By what is done about it.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// Nothing was put, because there is no queue.
    #[error("{context}: there is no such queue")]
    Missing { context: String },
    /// Nothing was put; it passes by itself.
    #[error("{context}")]
    NotDone {
        context: String,
        /// The service asks to be left alone for so long.
        wait: Option<Duration>,
        #[source]
        cause: Cause,
    },
    /// It may have been put; a second put may make two of it.
    #[error("{context}: it may have been done, the answer was lost")]
    Unknown {
        context: String,
        #[source]
        cause: Cause,
    },
    /// Nothing was put: the service does not take this message.
    #[error("{context}: the message is not taken")]
    Rejected {
        context: String,
        #[source]
        cause: Cause,
    },
    /// Nothing was put, and a person must act.
    #[error("{context}")]
    Refused {
        context: String,
        #[source]
        cause: Cause,
    },
}

/// What an error has to name.
pub(super) struct Faults<'a> {
    pub(super) endpoint: &'a ServiceEndpoint,
    pub(super) queue: &'a str,
    pub(super) now: Timestamp,
}

impl Faults<'_> {
    pub(super) fn put(&self, failure: Failure) -> QueueError {
        self.judge(failure, |context, cause| QueueError::Unknown {
            context,
            cause,
        })
    }

    /// A read that went wrong has changed nothing that matters.
    pub(super) fn read(&self, failure: Failure) -> QueueError {
        self.judge(failure, passing)
    }

    /// Somebody else may have been faster, which is as good; one that has other metadata serves too.
    pub(super) fn create(&self, failure: Failure) -> Result<(), QueueError> {
        match failure {
            Failure::Answered(answer) if answer.code == "QueueAlreadyExists" => Ok(()),
            // Whether or not it was made: the message that needs it was surely not put.
            failure => Err(self.judge(failure, passing)),
        }
    }

    /// It cannot be a part of XML.
    pub(super) fn unwritable(&self, error: azure_core::Error) -> QueueError {
        QueueError::Rejected {
            context: self.subject(),
            cause: error.kind().to_string().into(),
        }
    }

    /// `lost` says what it means when no answer tells.
    fn judge(&self, failure: Failure, lost: fn(String, Cause) -> QueueError) -> QueueError {
        match failure {
            Failure::Answered(answer) => self.answered(answer, lost),
            Failure::NeverSent(cause) => {
                let host = self.endpoint.host();
                passing(format!("{} at {host}: not reached", self.subject()), cause)
            }
            Failure::NoToken(error) if error.is_passing() => passing(self.subject(), error.into()),
            Failure::NoToken(error) => QueueError::Refused {
                context: self.subject(),
                cause: error.into(),
            },
            Failure::Cut(cause) => lost(self.subject(), cause),
        }
    }

    fn answered(&self, answer: Answer, lost: fn(String, Cause) -> QueueError) -> QueueError {
        let context = self.subject();
        match (answer.status, answer.code.as_str()) {
            (404, "QueueNotFound") => QueueError::Missing { context },
            (409, "QueueBeingDeleted") => QueueError::NotDone {
                context: format!(
                    "{context}: the queue is being deleted; somebody must have asked for that"
                ),
                wait: None,
                cause: answer.into(),
            },
            // Throttling happens before the operation. A 503 that does not say so may come from
            // something between us and the service, which has perhaps passed the request on.
            (429, _) | (503, "ServerBusy") => QueueError::NotDone {
                context: format!("{context}: it is too busy"),
                wait: answer.retry_after,
                cause: answer.into(),
            },
            (408 | 500..=599, _) => lost(context, answer.into()),
            (400 | 413, code) if is_about_the_message(answer.status, code) => {
                QueueError::Rejected {
                    context,
                    cause: answer.into(),
                }
            }
            _ => QueueError::Refused {
                context: format!("{context}: {}", self.way_out(&answer)),
                cause: answer.into(),
            },
        }
    }

    fn subject(&self) -> String {
        format!("queue {} of {}", self.queue, self.endpoint.setting())
    }

    fn way_out(&self, answer: &Answer) -> String {
        if let Some(advice) = about_rights(self.endpoint, &NEEDS, answer, self.now) {
            return advice;
        }
        let setting = self.endpoint.setting();
        match answer.status {
            404 => format!("this is no queue endpoint of a storage account: check {setting}"),
            _ => format!("check {setting} and the settings of the account"),
        }
    }
}

fn passing(context: String, cause: Cause) -> QueueError {
    QueueError::NotDone {
        context,
        wait: None,
        cause,
    }
}

/// Other answers of 400 are about the address or a parameter, which is the same for every message.
fn is_about_the_message(status: u16, code: &str) -> bool {
    status == 413
        || matches!(
            code,
            "MessageTooLarge"
                | "RequestBodyTooLarge"
                | "InvalidXmlDocument"
                | "InvalidXmlNodeValue"
        )
}

#[cfg(test)]
mod tests;
