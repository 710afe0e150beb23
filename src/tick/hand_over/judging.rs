//! Whether a row or its receiver is to blame. To blame a row means to give it up, so a receiver must show
//! that it takes others, before and after.

use tokio::time::timeout_at;

use super::{Fate, Suspect, Work, blames_content};
use crate::model::envelope::Batch;
use crate::model::page::{EventId, Page, PageWriter};
use crate::model::policy::PoisonPolicy;
use crate::model::position::Position;
use crate::model::sinks::Failure;
use crate::sink::{DeliveryFailure, FailureKind, Stance, Verdict};
use crate::source::ReadPage;
use crate::tick::Poller;
use crate::tick::quarantine::is_kept;

/// So many rows that a sink has got before are sent again to see that it takes anything: one of them may
/// be as bad.
const MOST_EARLIER: usize = 3;
/// A page that is looked at row by row is filled up to so many. One more than may be set aside, by default.
const MOST_WITNESSES: usize = 11;
/// So many are looked for: a row that has changed since is somewhere else.
const MOST_SOUGHT: usize = 20;

/// How many rows behind it this page lacks. A row has failed before, and nobody in its page could show whose fault
/// that is: it is alone, or it is looked for among so few that all of them may be as bad.
pub(in crate::tick) fn witnesses_wanted<'a>(
    poller: &Poller,
    failures: impl Iterator<Item = &'a Failure>,
    page: &Page,
) -> usize {
    let PoisonPolicy { attempts, most, .. } = poller.poison;
    let enough = MOST_WITNESSES.min(most as usize + 1);
    if page.len() >= enough.max(2) {
        return 0;
    }
    let ids = page.events().iter().map(|event| event.id).collect();
    let rejections = failures.filter(|failure| failure.concerns(&ids));
    match rejections.map(|failure| failure.rejections).max() {
        Some(rejections) if rejections + 1 >= attempts => enough.saturating_sub(page.len()),
        Some(_) => usize::from(page.len() == 1),
        None => 0,
    }
}

impl Work<'_> {
    /// Whether the rows or the receiver are to blame.
    pub(super) async fn judge_suspects(&mut self) {
        if self.failure.is_some() {
            // It ended before it was done. Whoever was named while others were taken is judged all the same.
            self.suspects.retain(|_, suspect| !suspect.alone);
            if self.suspects.len() <= self.room && self.takes_others() {
                self.convict();
            }
            return;
        }
        if self.suspects.len() <= self.room {
            if !self.takes_others() {
                self.ask_earlier_row().await;
            }
            if self.takes_others() {
                self.ask_once_more().await;
            } else if self.are_all_aside().await {
                return self.convict();
            }
        }
        let blame = if self.suspects.is_empty() || self.failure.is_some() {
            return;
        } else if !self.takes_others() {
            let tried = self.suspects.len();
            format!("it took none of the rows that were tried one by one ({tried})")
        } else if self.suspects.len() > self.room {
            format!(
                "it would be more than {} of a thousand rows (poison.most)",
                self.dispatch.poller.poison.most
            )
        } else {
            return self.convict();
        };
        let (at, first) = self.suspects.first_key_value().expect("there is one");
        let reason = format!(
            "{}; {blame}, so this is taken for the receiver's fault and nothing was set aside",
            first.said(self.batch.event_ids[*at])
        );
        self.failure = Some(DeliveryFailure::new(FailureKind::Rejected, reason));
    }

    fn convict(&mut self) {
        for (at, Suspect { reason, .. }) in std::mem::take(&mut self.suspects) {
            self.fates[at] = Fate::Bad { reason };
        }
    }

    /// Only a receiver that takes other rows shows that a row is to blame: now, or, where it has rejected
    /// the row by its word, when it did so before.
    fn takes_others(&self) -> bool {
        let mut suspects = self.suspects.iter();
        let named_before = |at: &usize| self.times_named(&self.batch.event_ids[*at]) > 0;
        let shown_before = |(at, suspect): (&usize, &Suspect)| !suspect.alone && named_before(at);
        let taken = self.fates.contains(&Fate::Taken) || self.took_earlier;
        taken || suspects.all(shown_before)
    }

    pub(super) fn times_named(&self, id: &EventId) -> u32 {
        self.before.map_or(0, |before| before.times_named(id))
    }

    /// They were judged before, and whoever did it did not live to commit: their neighbours may have been committed
    /// since, so that nobody is left who could show it again. They are kept, so nothing is lost by passing them.
    async fn are_all_aside(&self) -> bool {
        for at in self.suspects.keys() {
            let kept = is_kept(
                self.dispatch.poller,
                self.sink.name(),
                self.batch.event_ids[*at],
            );
            let kept = timeout_at(self.dispatch.budget.abandon_at(), kept).await;
            // Who cannot tell asks again with the next tick.
            if !matches!(kept, Ok(Ok(true))) {
                return false;
            }
        }
        !self.suspects.is_empty()
    }

    /// A row that was sent alone may have met the receiver in a bad moment, which began after others were
    /// taken, or ended before. Only one that is refused, then, after another one was taken, refused
    /// again, is to blame.
    async fn ask_once_more(&mut self) {
        let alone = self.suspects.iter().filter(|(_, suspect)| suspect.alone);
        let alone: Vec<usize> = alone.map(|(at, _)| *at).collect();
        if alone.is_empty() {
            return;
        }
        let taken = self.fates.iter().rposition(|fate| *fate == Fate::Taken);
        if let (false, Some(witness)) = (self.took_since, taken) {
            match self.send(witness..witness + 1).await {
                Verdict::Acknowledged => {}
                Verdict::Failed(failure) => self.failure = Some(failure),
                Verdict::Partly(_) => {
                    let reason = "it does not take again what it has just taken";
                    self.failure = Some(DeliveryFailure::new(FailureKind::Passing, reason));
                }
            }
        }
        for at in alone {
            if self.failure.is_some() {
                return;
            }
            match self.send(at..at + 1).await {
                Verdict::Acknowledged => {
                    self.suspects.remove(&at);
                    self.fates[at] = Fate::Taken;
                    self.resent.push(at);
                }
                Verdict::Failed(failure) if !blames_content(failure.kind) => {
                    self.failure = Some(failure);
                }
                // That says nothing about the row.
                Verdict::Partly(named) if named.iter().all(|it| it.stance == Stance::NotTried) => {
                    let reason = "it did not try a row that it has refused before";
                    self.failure = Some(DeliveryFailure::new(FailureKind::Passing, reason));
                }
                Verdict::Failed(_) | Verdict::Partly(_) => {}
            }
        }
    }

    /// Where all neighbours of a row were delivered before it, they never come with it again: one of them
    /// is sent once more, to see whether the receiver takes anything.
    async fn ask_earlier_row(&mut self) {
        let mut tried = 0;
        // The last ones first: they had the least time to change.
        let mut places: Vec<_> = self.earlier.values().chain(self.reached).collect();
        places.sort_unstable_by(|one, other| other.cmp(one));
        for place in places.into_iter().take(MOST_SOUGHT) {
            if tried == MOST_EARLIER {
                return;
            }
            let Some(batch) = self.read_again(place).await else {
                continue;
            };
            tried += 1;
            self.repeats += batch.len() as u64;
            let abandon = self.dispatch.budget.abandon_at();
            let sent = timeout_at(abandon, self.sink.deliver(&batch)).await;
            if matches!(sent, Ok(Verdict::Acknowledged)) {
                self.took_earlier = true;
                self.took_since = true;
                return;
            }
        }
    }

    /// `None`: it has changed since, or cannot be read now.
    async fn read_again(&self, place: &Position) -> Option<Batch> {
        let poller = self.dispatch.poller;
        let writer = PageWriter::new(&poller.events_as, 2, usize::MAX);
        let find = poller.source.find(place, writer);
        let found = timeout_at(self.dispatch.budget.abandon_at(), find).await;
        let ReadPage { page, types, .. } = found.ok()?.ok()?;
        let is_reached = self.reached == Some(place);
        let page = page.without(|id| !is_reached && !self.earlier.contains_key(id));
        if page.is_empty() {
            return None;
        }
        let fence = self.dispatch.fences.next();
        Some(Batch::assemble(
            &poller.events_as,
            &types,
            &page,
            fence,
            1,
            None,
        ))
    }
}
