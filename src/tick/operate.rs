//! Orders of a person, carried out on the document of a poller: read → apply → conditional write,
//! as a tick does it. An order whose answer was lost is found again by its id in the audit trail, so
//! it happens once (C6, C7).

mod aside;
mod count;

use super::Poller;
use super::birth::{first_document, leave_birth_marker};
use super::keeper::Standing;
use super::layout;
use super::reading::{answered, load, pause};
use super::report::TickError;
use crate::model::lease::{AgeEvidence, Held};
use crate::model::state::{DocumentError, StateDocument};
use crate::model::transitions::{Action, Applied, Operator, Order, Refusal, apply};
use crate::store::{Loaded, StoreError, StoreKey, Swap, Tag};
use chrono::TimeDelta;

pub use count::Count;

/// Each time somebody else was faster, or the answer was lost.
const MOST_TRIES: u32 = 8;

/// What stands in the place of a poller's document.
#[derive(Debug)]
pub enum Found {
    /// `born`: it has been there before.
    Nothing {
        born: bool,
    },
    Document(Box<StateDocument>),
    /// Something that is no document of this poller; left as it is.
    Refused {
        error: DocumentError,
        body: Loaded,
    },
}

/// What to do where there is no document that could be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    Refuse,
    /// Make one.
    Begin,
    /// Make one, also in the place of one that is refused, which is moved aside first.
    Replace,
}

/// An order that was carried out.
#[derive(Debug)]
pub struct Operated {
    pub document: StateDocument,
    /// Where the refused document is now.
    pub aside: Option<StoreKey>,
    /// There was nothing to change.
    pub already: bool,
}

/// A lease that somebody has, or had when it died.
#[derive(Debug)]
pub struct LeaseNow {
    pub held: Held,
    pub token: u64,
    /// Since the last heartbeat, by the store's clock where it has one.
    pub age: TimeDelta,
    /// Not expired, or not for as long as the margin: nobody else takes it (C2).
    pub is_alive: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    #[error("{poller} has not run yet: there is no state to change")]
    NotBegun { poller: String },
    #[error("{refusal}; wait until its tick is over, or, if it has died, until the lease runs out")]
    Held { refusal: Refusal },
    #[error(transparent)]
    Refused(Refusal),
    #[error(transparent)]
    Tick(#[from] TickError),
}

impl From<StoreError> for OperateError {
    fn from(error: StoreError) -> Self {
        Self::Tick(error.into())
    }
}

impl From<Refusal> for OperateError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Held { .. } => Self::Held { refusal },
            refusal => Self::Refused(refusal),
        }
    }
}

impl Operated {
    /// The version to which `rollback` brings back what this order replaced. A tick may have
    /// committed since.
    #[must_use]
    pub fn undo(&self) -> Option<u64> {
        let replaced = self.document.history.iter().rev().find(|entry| entry.undo);
        replaced.map(|entry| entry.version)
    }
}

impl Poller {
    pub async fn found(&self) -> Result<Found, TickError> {
        Ok(match self.look().await? {
            Seen::Nothing { born } => Found::Nothing { born },
            Seen::Document(standing) => Found::Document(Box::new(standing.document)),
            Seen::Refused { error, body } => Found::Refused { error, body },
        })
    }

    /// Who holds the lease, as far as the evidence goes (C2).
    pub async fn held_by_another(&self) -> Result<Option<Refusal>, TickError> {
        let Seen::Document(standing) = self.look().await? else {
            return Ok(None);
        };
        let evidence = self.evidence(&standing);
        let held = standing.document.lease.held.as_ref();
        Ok(held
            .filter(|held| !held.may_be_taken(evidence))
            .map(|held| Refusal::Held {
                owner_id: held.owner_id.clone(),
                token: standing.document.lease.token.get(),
            }))
    }

    /// The lease as it stands; `None`: nobody has it.
    pub async fn lease_now(&self) -> Result<Option<LeaseNow>, TickError> {
        let Seen::Document(standing) = self.look().await? else {
            return Ok(None);
        };
        let evidence = self.evidence(&standing);
        let Some(held) = standing.document.lease.held else {
            return Ok(None);
        };
        let now = evidence.store.map_or(evidence.local_now, |store| store.now);
        Ok(Some(LeaseNow {
            is_alive: !held.may_be_taken(evidence),
            age: now - held.heartbeat_at,
            token: standing.document.lease.token.get(),
            held,
        }))
    }

    /// Carries out an order, made anew from the evidence of each read.
    pub async fn operate(
        &self,
        by: &Operator,
        otherwise: Otherwise,
        order: impl Fn(AgeEvidence) -> Order,
    ) -> Result<Operated, OperateError> {
        let mut aside = None;
        let mut tries = 0;
        let kept = |aside: Option<(StoreKey, Tag)>| aside.map(|(key, _)| key);
        loop {
            let (standing, begins) = self.standing_for(otherwise, &mut aside).await?;
            let order = order(self.evidence(&standing));
            let document = (!begins).then_some(&standing.document);
            layout::refuse_beside(self, &order, document).await?;
            let action = Action::Operate {
                by: by.clone(),
                order,
            };
            let next = match apply(&standing.document, &action, self.clock.now())? {
                Applied::Changed(next) => *next,
                Applied::Already => {
                    let already = !standing
                        .document
                        .audit
                        .iter()
                        .any(|e| e.id.as_deref() == Some(&by.id));
                    return Ok(Operated {
                        document: standing.document,
                        aside: kept(aside),
                        already,
                    });
                }
            };
            tries += 1;
            // Before the document, unlike in a first tick: what is imported may have committed
            // rows, and whoever is cut off between the two gives the order again.
            if begins || standing.document.is_newborn() {
                leave_birth_marker(self, &mut 0).await?;
            }
            match self.swap(&standing, &next).await {
                Ok(Swap::Won(_)) => {
                    return Ok(Operated {
                        document: next,
                        aside: kept(aside),
                        already: false,
                    });
                }
                Ok(Swap::Lost) if tries == MOST_TRIES => {
                    return Err(TickError::Contended { tries }.into());
                }
                Err(error @ (StoreError::Refused { .. } | StoreError::Busy { .. })) => {
                    return Err(error.into());
                }
                Err(error) if tries == MOST_TRIES => return Err(error.into()),
                Ok(Swap::Lost) => {}
                Err(_) => pause(self, tries.min(4)).await,
            }
        }
    }

    /// Creates the document of a poller that has none; `false`: there is one already.
    pub async fn begin_with(&self, document: &StateDocument) -> Result<bool, OperateError> {
        let id = document.audit.last().and_then(|entry| entry.id.as_ref());
        let mut tries = 0;
        loop {
            match self.look().await? {
                Seen::Nothing { born: false } => layout::refuse_living(self).await?,
                Seen::Document(found) => {
                    let ours = found
                        .document
                        .audit
                        .iter()
                        .any(|entry| entry.id.as_ref() == id);
                    if ours {
                        leave_birth_marker(self, &mut 0).await?;
                    }
                    return Ok(ours);
                }
                Seen::Nothing { born: true } | Seen::Refused { .. } => return Ok(false),
            }
            tries += 1;
            let body = document.to_bytes().into();
            let request = self.store.create(&self.state_key, body);
            match answered(self, &self.state_key, request).await {
                Ok(_) => {}
                Err(error @ (StoreError::Refused { .. } | StoreError::Busy { .. })) => {
                    return Err(error.into());
                }
                Err(error) if tries == MOST_TRIES => return Err(error.into()),
                Err(_) => pause(self, tries.min(4)).await,
            }
        }
    }

    async fn look(&self) -> Result<Seen, TickError> {
        let Some(loaded) = load(self, &self.state_key).await? else {
            let born = load(self, &self.birth_marker).await?.is_some();
            return Ok(Seen::Nothing { born });
        };
        let Loaded { body, tag, clock } = loaded.clone();
        Ok(
            match StateDocument::from_bytes(&body, &self.name, &self.key_columns) {
                Ok(document) => Seen::Document(Box::new(Standing {
                    document,
                    tag: Some(tag),
                    clock,
                    skew: TimeDelta::zero(),
                })),
                Err(error) => Seen::Refused {
                    error,
                    body: loaded,
                },
            },
        )
    }

    /// The document to change, and whether it is a new one.
    async fn standing_for(
        &self,
        otherwise: Otherwise,
        aside: &mut Option<(StoreKey, Tag)>,
    ) -> Result<(Standing, bool), OperateError> {
        match self.look().await? {
            Seen::Document(standing) => Ok((*standing, false)),
            Seen::Nothing { .. } if otherwise != Otherwise::Refuse => {
                Ok((self.beginning(None), true))
            }
            Seen::Nothing { born: true } => Err(TickError::DocumentGone {
                key: self.state_key.to_string(),
                poller: self.name.clone(),
            }
            .into()),
            Seen::Nothing { born: false } => Err(OperateError::NotBegun {
                poller: self.name.clone(),
            }),
            Seen::Refused { body, .. } if otherwise == Otherwise::Replace => {
                if aside.as_ref().is_none_or(|(_, saved)| *saved != body.tag) {
                    *aside = Some((self.move_aside(&body).await?, body.tag.clone()));
                }
                Ok((self.beginning(Some(body)), true))
            }
            Seen::Refused { error, .. } => Err(TickError::Document {
                key: self.state_key.to_string(),
                poller: self.name.clone(),
                source: error,
            }
            .into()),
        }
    }

    /// A document without a past. Receivers may remember tokens of one that was lost, even where no marker
    /// tells of it yet: those counted claims, and seconds are more than any count of them.
    fn beginning(&self, instead_of: Option<Loaded>) -> Standing {
        let mut document = first_document(self, None);
        let seconds = u64::try_from(self.clock.now().timestamp()).unwrap_or(0);
        document.lease.token = document.lease.token.at_least(seconds);
        Standing {
            document,
            tag: instead_of.map(|loaded| loaded.tag),
            clock: None,
            skew: TimeDelta::zero(),
        }
    }

    fn evidence(&self, standing: &Standing) -> AgeEvidence {
        AgeEvidence {
            local_now: self.clock.now(),
            store: standing.clock,
            margin: self.lease.margin,
        }
    }

    async fn swap(&self, standing: &Standing, next: &StateDocument) -> Result<Swap, StoreError> {
        let (store, key) = (&self.store, &self.state_key);
        let body = next.to_bytes().into();
        let write = async {
            match &standing.tag {
                Some(tag) => store.replace(key, tag, body).await,
                None => store.create(key, body).await,
            }
        };
        answered(self, key, write).await
    }
}

enum Seen {
    Nothing { born: bool },
    Document(Box<Standing>),
    Refused { error: DocumentError, body: Loaded },
}
