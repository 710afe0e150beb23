//! What the answers of the queue service mean for whoever asked.
//!
//! `NotDone` only where it is certain that nothing was put. Everything that could have been applied
//! before the answer got lost or went wrong is `Unknown`.

use std::error::Error;
use std::time::Duration;

use crate::azure::connection::{Access, ServiceEndpoint};
use crate::azure::failure::{Answer, Failure};
use crate::clock::Timestamp;

type Cause = Box<dyn Error + Send + Sync>;

/// Signatures are refused beyond fifteen minutes; far below that a clock is worth a word.
const NOTEWORTHY_SKEW_MINUTES: i64 = 5;

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
            (409, "QueueBeingDeleted" | "QueueDisabled") => QueueError::NotDone {
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
                    "this machine's clock is {} minutes {way} the service's, and signatures are good \
                     for 15: set the clock",
                    skew.abs()
                )
            }
            (401 | 403, "KeyBasedAuthenticationNotPermitted") => format!(
                "the account allows no keys: remove {setting} and set {setting}__accountName, and give \
                 the app's identity the role Storage Queue Data Message Sender"
            ),
            (401 | 403, "AuthorizationFailure") => {
                let right = self.missing_right();
                format!("{right}; or the firewall of the account keeps this network out")
            }
            (401 | 403, _) => self.missing_right(),
            (404, _) => format!("this is no queue endpoint of a storage account: check {setting}"),
            _ => format!("check {setting} and the settings of the account"),
        }
    }

    fn missing_right(&self) -> String {
        let setting = self.endpoint.setting();
        match self.endpoint.access() {
            Access::Identity(_) => format!(
                "the identity of {setting} may not put messages here: give it the role Storage Queue \
                 Data Message Sender on the queue, or Storage Queue Data Contributor on the account if \
                 it is to create the queue"
            ),
            Access::Sas(_) => format!(
                "the shared access signature in {setting} has expired or lacks a permission: it needs \
                 add on objects, and create on containers if it is to create the queue"
            ),
            Access::SharedKey { .. } => {
                format!(
                    "the account key in {setting} is not accepted: copy it again from the portal"
                )
            }
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
