//! What must hold with every write that the store accepts. The numbers are those of the docs.

use super::decisions::{Deed, Doc, Facts, Job};
use super::setup::{Clocks, Mutant, Wish};
use super::world::{Context, Person, World};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) name: &'static str,
    pub(crate) what: String,
}

pub(crate) fn require(
    holds: bool,
    name: &'static str,
    what: impl FnOnce() -> String,
) -> Result<(), Violation> {
    match holds {
        true => Ok(()),
        false => Err(Violation { name, what: what() }),
    }
}

impl World {
    /// The one place where a write takes effect.
    pub(crate) fn accept(
        &mut self,
        next: Doc,
        deed: Deed,
        context: &mut Context<'_>,
    ) -> Result<(), Violation> {
        let before = self
            .document
            .map(|doc| context.decisions.facts(doc).clone());
        let after = context.decisions.facts(next).clone();
        self.check(before.as_ref(), &after, deed, context)?;
        self.count(before.as_ref(), deed, context);
        self.changes(Some(next), context);
        self.forget_the_hopeless(context);
        match deed {
            Deed::Claim { nonce, .. } | Deed::Settle { nonce, .. } => {
                let process = &mut self.processes[usize::from(nonce.process)];
                process.landed |= process.nonce() == nonce && process.sequence == 0;
            }
            Deed::Hold { mark, .. } => {
                let process = &mut self.processes[usize::from(mark.nonce.process)];
                process.landed |=
                    process.nonce() == mark.nonce && process.sequence == mark.sequence;
            }
            Deed::Order { id, .. } => {
                if let Person::Looks(order) | Person::Writes(order, ..) = &mut self.person
                    && order.id == id
                {
                    order.landed = true;
                }
            }
        }
        Ok(())
    }

    fn check(
        &self,
        before: Option<&Facts>,
        after: &Facts,
        deed: Deed,
        context: &Context<'_>,
    ) -> Result<(), Violation> {
        let lost = after.covered & !self.acknowledged;
        require(lost == 0, "I1", || {
            format!("rows {lost:#b} are passed, and nobody has said that it has them")
        })?;
        require(after.is_newborn || self.marker, "I14", || {
            "something is committed, and there is no marker".to_owned()
        })?;
        require(after.history_ends_at_checkpoint, "G3", || {
            "the last version is not the checkpoint".to_owned()
        })?;
        let Some(before) = before else {
            return the_first(after, deed, self.highest_sent);
        };
        tokens_fence(before, after, deed)?;
        the_checkpoint_is_monotone(before, after, deed)?;
        versions_are_given_once(before, after)?;
        self.nobody_is_disturbed(before, deed, context)
    }

    /// Where clocks agree, nobody loses a lease that it still trusts (C2), but by an explicit order.
    fn nobody_is_disturbed(
        &self,
        before: &Facts,
        deed: Deed,
        context: &Context<'_>,
    ) -> Result<(), Violation> {
        let takes = matches!(deed, Deed::Claim { .. } | Deed::Settle { .. });
        let respected = context.setup.mutant != Mutant::ExpiryIgnored;
        let held = before.owner.is_some();
        if context.setup.clocks == Clocks::Lie || !takes || !held || !respected {
            return Ok(());
        }
        let disturbed = self.processes.iter().find(|process| {
            process.holds() && process.token == before.token && self.time < process.deadline
        });
        require(disturbed.is_none(), "C2", || {
            format!("the lease is taken from {:?}", disturbed.map(|it| it.owner))
        })
    }

    fn count(&self, before: Option<&Facts>, deed: Deed, context: &mut Context<'_>) {
        let counts = &mut *context.counts;
        counts.accepted += 1;
        counts.created += u64::from(before.is_none());
        let takeover = before.is_some_and(|before| before.owner.is_some());
        match deed {
            Deed::Claim { .. } => {
                counts.claims += 1;
                counts.takeovers += u64::from(takeover);
                let late = self.on_the_way.iter();
                let fenced = late.filter(|late| matches!(late.deed, Deed::Hold { .. }));
                counts.too_late_after_a_takeover += fenced.count() as u64;
            }
            Deed::Settle { .. } => counts.settlements += 1,
            Deed::Order { .. } => counts.orders += 1,
            Deed::Hold { job, .. } => match job {
                Job::Beat => counts.renewals += 1,
                Job::Commit { .. } => counts.commits += 1,
                Job::Fail | Job::Release => counts.releases += 1,
            },
        }
    }
}

/// A first document, or one in the place of a lost one.
fn the_first(after: &Facts, deed: Deed, sent: u64) -> Result<(), Violation> {
    require(after.checkpoint == 0, "I3", || {
        format!("a first document stands at {}", after.checkpoint)
    })?;
    match deed {
        Deed::Claim { .. } => require(after.token == 1, "I4", || {
            format!("the first token is {}", after.token)
        }),
        Deed::Order { .. } => require(after.token > sent, "I4", || {
            format!("token {}, and receivers know {sent}", after.token)
        }),
        Deed::Hold { .. } | Deed::Settle { .. } => {
            require(false, "I9", || format!("{deed:?} makes a document"))
        }
    }
}

/// I4, I5 and I9.
fn tokens_fence(before: &Facts, after: &Facts, deed: Deed) -> Result<(), Violation> {
    let (old, new) = (before.token, after.token);
    let grows = match deed {
        Deed::Claim { .. } | Deed::Settle { .. } => true,
        Deed::Hold { .. } => false,
        Deed::Order { wish, .. } => !matches!(wish, Wish::Pause | Wish::Resume | Wish::Fail),
    };
    if let Deed::Hold { owner, mark, .. } = deed {
        require(mark.token == old, "I9", || {
            format!("a write of token {} lands on token {old}", mark.token)
        })?;
        let holder = before.holder.as_ref();
        let is_its = holder.is_some_and(|(nonce, _)| *nonce == mark.nonce.name())
            && before.owner.as_ref() == Some(&owner.name());
        require(is_its, "I5", || {
            format!(
                "{owner:?} writes with token {old}, which is that of {:?}",
                before.owner
            )
        })?;
        let follows = holder.is_some_and(|(_, last)| *last < mark.sequence.into());
        require(follows, "I9", || {
            format!("write {} lands on {holder:?}", mark.sequence)
        })?;
    }
    require(new == old + u64::from(grows), "I4", || {
        format!("{deed:?} leaves token {old} at {new}")
    })?;
    let nonce = |facts: &Facts| facts.holder.as_ref().map(|(nonce, _)| nonce.clone());
    require(grows || nonce(before) == nonce(after), "I5", || {
        format!(
            "token {old} has two claims: {:?} and {:?}",
            before.holder, after.holder
        )
    })?;
    let other_owner = after.owner.is_some() && before.owner != after.owner;
    require(grows || !other_owner, "I5", || {
        format!(
            "token {old} goes from {:?} to {:?}",
            before.owner, after.owner
        )
    })
}

/// I3; what was delivered above the checkpoint is not forgotten either.
fn the_checkpoint_is_monotone(before: &Facts, after: &Facts, deed: Deed) -> Result<(), Violation> {
    if let Deed::Order { id, wish, .. } = deed {
        let twice = after.orders.len() != before.orders.len() + 1;
        require(!twice, "C7", || {
            format!("order {id} is not in the trail once")
        })?;
        if matches!(wish, Wish::Reset | Wish::Rollback) {
            return Ok(());
        }
    }
    require(before.checkpoint <= after.checkpoint, "I3", || {
        format!(
            "the checkpoint goes from {} to {}",
            before.checkpoint, after.checkpoint
        )
    })?;
    require(before.covered & !after.covered == 0, "I3", || {
        format!("of {:#b}, {:#b} are left", before.covered, after.covered)
    })
}

/// G3
fn versions_are_given_once(before: &Facts, after: &Facts) -> Result<(), Violation> {
    let (from, to) = (before.version, after.version);
    let moved = before.checkpoint != after.checkpoint;
    require(if moved { from < to } else { from <= to }, "G3", || {
        format!("version {from:?} is followed by {to:?}")
    })
}
