//! One process: the steps of a tick, as `tick.rs`, `tick/keeper.rs` and `tick/drain.rs` take them, with
//! everything that others may do in between.

use dbtick::model::lease::answers::{Doubt, Found, Rival, Verdict, judge};
use dbtick::model::lease::trusted_for;
use dbtick::model::state::Status;
use dbtick::model::transitions::Refusal;

use super::decisions::{Deed, Doc, HEARTBEAT, Job, MARGIN, Mark, Outcome, TTL, bit};
use super::invariants::{Violation, require};
use super::setup::{Clocks, Mutant};
use super::world::{Body, Context, Keeper, Late, Standing, Tag, Who, World, Write};

impl World {
    pub(crate) fn process(&self, at: usize, context: &mut Context<'_>) -> Result<(), Violation> {
        let process = &self.processes[at];
        let who = Who::Process(at);
        if process.body != Body::Between {
            self.stop(at, context);
        }
        if process.holds() && context.setup.clocks != Clocks::Lie && self.time >= process.deadline {
            // It writes nothing more, and what it was sending is dropped.
            let mut world = self.clone();
            world.processes[at].ends();
            context.counts.leases_lost += 1;
            context.moves.push(((who, "stops in time"), world));
            return Ok(());
        }
        match process.keeper {
            Keeper::Free => {}
            Keeper::Writes(write) => self.write(at, write, context)?,
            Keeper::Doubts(write, doubt) => self.look_for_it(at, write, doubt, context)?,
        }
        let is_free = process.keeper == Keeper::Free;
        match process.body {
            Body::Between if self.may_begin(at) => {
                for (mut world, found) in self.reads(context) {
                    world.left.ticks -= 1;
                    world.processes[at].tick = context.setup.ticks - world.left.ticks;
                    match found {
                        None => world.processes[at].body = Body::Unborn,
                        Some(found) if !world.is_work(at, found, context) => continue,
                        Some(_) => {}
                    }
                    context.moves.push(((who, "loads the document"), world));
                }
            }
            Body::Between | Body::Claiming | Body::Settling => {}
            Body::Unborn => {
                let mut world = self.clone();
                if self.marker {
                    world.processes[at].body = Body::Vanished;
                } else {
                    let first = Standing {
                        doc: context.decisions.first(),
                        tag: Tag::Nothing,
                        age: 0,
                    };
                    world.is_work(at, first, context);
                }
                context.moves.push(((who, "looks for the marker"), world));
            }
            Body::Vanished => {
                for (mut world, found) in self.reads(context) {
                    let works = found.is_some_and(|found| world.is_work(at, found, context));
                    context.counts.alarms += u64::from(found.is_none());
                    if !works {
                        world.processes[at].ends();
                    }
                    context.moves.push(((who, "looks once more"), world));
                }
            }
            Body::Marking => {
                let mut world = self.clone();
                world.marker |= context.setup.mutant != Mutant::MarkerAfterCommit;
                world.send_row(at, Some(process.read), context);
                context.moves.push(((who, "leaves the marker"), world));
                self.beat(at, context)?;
            }
            Body::Sending(row) => {
                self.send(at, row, context)?;
                self.beat(at, context)?;
            }
            Body::Received { row, part } if is_free => self.commit(at, row, part, context)?,
            Body::Failing if is_free => self.hold(at, Job::Fail, context)?,
            Body::Leaving if is_free => self.hold(at, Job::Release, context)?,
            Body::Received { .. } | Body::Failing | Body::Leaving => {}
        }
        Ok(())
    }

    /// It gives up: its store is out of reach for too long, its lease is over, its time is spent. Or it is
    /// killed, and comes back under another name.
    fn stop(&self, at: usize, context: &mut Context<'_>) {
        if self.left.crashes == 0 {
            return;
        }
        let mut world = self.clone();
        world.left.crashes -= 1;
        world.processes[at].ends();
        let label = (Who::Process(at), "gives up");
        context.moves.push((label, world.clone()));
        world.processes[at].owner.life += 1;
        context.counts.crashes += 1;
        context.moves.push(((Who::Process(at), "crashes"), world));
    }

    /// Processes are alike until they have done something, so they begin one after the other.
    fn may_begin(&self, at: usize) -> bool {
        self.left.ticks > 0 && (at == 0 || self.processes[at - 1].tick > 0)
    }

    /// Whether there is anything to do; then it is begun.
    fn is_work(&mut self, at: usize, found: Standing, context: &mut Context<'_>) -> bool {
        let facts = context.decisions.facts(found.doc);
        let next = facts.next_row(context.setup.rows);
        let write = match next {
            Some(_) => Write::Claim,
            None if !facts.is_settled() => Write::Settle,
            None => return false,
        };
        let process = &mut self.processes[at];
        process.standing = Some(found);
        process.read = next.unwrap_or(0);
        process.landed = false;
        process.sequence = 0;
        process.sent = None;
        process.keeper = Keeper::Writes(write);
        process.body = match write {
            Write::Settle => Body::Settling,
            Write::Claim | Write::Hold(_) => Body::Claiming,
        };
        let deed = self.deed(at, write, found);
        let decided = context.decisions.decide(found.doc, deed, self.time);
        matches!(decided, Outcome::Changed(_))
    }

    fn deed(&self, at: usize, write: Write, standing: Standing) -> Deed {
        let process = &self.processes[at];
        let (owner, nonce, age) = (process.owner, process.nonce(), standing.age);
        match write {
            Write::Claim => Deed::Claim { owner, nonce, age },
            Write::Settle => Deed::Settle { nonce, age },
            Write::Hold(job) => Deed::Hold {
                owner,
                mark: Mark {
                    token: process.token,
                    nonce,
                    sequence: process.sequence,
                },
                job,
            },
        }
    }

    /// A numbered write of a holder.
    fn hold(&self, at: usize, job: Job, context: &mut Context<'_>) -> Result<(), Violation> {
        let mut world = self.clone();
        let process = &mut world.processes[at];
        process.sequence += 1;
        process.landed = false;
        process.sent = None;
        process.keeper = Keeper::Writes(Write::Hold(job));
        world.write(at, Write::Hold(job), context)
    }

    fn beat(&self, at: usize, context: &mut Context<'_>) -> Result<(), Violation> {
        let process = &self.processes[at];
        let due = match context.setup.clocks {
            Clocks::Lie => process.beats > 0,
            Clocks::Agree { .. } | Clocks::Calm { .. } => self.time >= process.heartbeat_at,
        };
        match due && process.keeper == Keeper::Free {
            true => self.hold(at, Job::Beat, context),
            false => Ok(()),
        }
    }

    fn commit(
        &self,
        at: usize,
        row: u8,
        part: bool,
        context: &mut Context<'_>,
    ) -> Result<(), Violation> {
        let Some(standing) = self.processes[at].standing else {
            unreachable!("a holder knows the document");
        };
        let facts = context.decisions.facts(standing.doc);
        let others = (1..=context.setup.rows).filter(|other| *other != row);
        let is_last = others.map(bit).all(|other| facts.covered & other != 0);
        let mut ways = vec![(true, true)];
        if !is_last && !part {
            ways.push((true, false));
        }
        if context.setup.remembers && !part {
            ways.push((false, is_last));
        }
        for (proven, ends) in ways {
            self.hold(at, Job::Commit { row, proven, ends }, context)?;
        }
        Ok(())
    }

    /// Derives a change from what is known, and writes it.
    fn write(&self, at: usize, write: Write, context: &mut Context<'_>) -> Result<(), Violation> {
        let Some(standing) = self.processes[at].standing else {
            unreachable!("whoever writes knows the document");
        };
        if self.processes[at].sent.is_none() {
            let mut world = self.clone();
            world.processes[at].sent = Some(self.time);
            return world.write(at, write, context);
        }
        let who = Who::Process(at);
        let deed = self.deed(at, write, standing);
        let next = match context.decisions.decide(standing.doc, deed, self.time) {
            Outcome::Changed(next) => next,
            Outcome::Already => {
                let mut world = self.clone();
                context.counts.found_again += 1;
                world.is_done(at, write, context)?;
                context.moves.push(((who, "finds its write"), world));
                return Ok(());
            }
            Outcome::Refused(refusal) => {
                let planned = matches!(
                    (&refusal, write),
                    (Refusal::LeaseLost { .. } | Refusal::Failed, Write::Hold(_))
                        | (
                            Refusal::Held { .. } | Refusal::Paused | Refusal::Failed,
                            Write::Claim | Write::Settle
                        )
                );
                require(planned, "C7", || format!("{deed:?}: {refusal}"))?;
                let mut world = self.clone();
                context.counts.leases_lost += u64::from(matches!(write, Write::Hold(_)));
                world.processes[at].ends();
                context.moves.push(((who, "finds that it may not"), world));
                return Ok(());
            }
        };
        self.swap(at, write, standing, (next, deed), context)
    }

    /// One conditional write, with everything that may become of it.
    fn swap(
        &self,
        at: usize,
        write: Write,
        standing: Standing,
        (next, deed): (Doc, Deed),
        context: &mut Context<'_>,
    ) -> Result<(), Violation> {
        let who = Who::Process(at);
        let doubts = |world: &mut World, doubt| {
            world.processes[at].keeper = Keeper::Doubts(write, doubt);
        };
        let takes = self.takes(standing.tag, context.setup);
        let mut world = self.clone();
        if takes {
            world.accept(next, deed, context)?;
            world.adopt(at, next);
            world.is_done(at, write, context)?;
            context.moves.push(((who, "writes"), world));
        } else {
            context.counts.rejected += 1;
            doubts(&mut world, Doubt::Lost);
            context.moves.push(((who, "loses the race"), world));
        }
        if self.left.faults == 0 {
            return Ok(());
        }
        let mut faulty = self.clone();
        faulty.left.faults -= 1;
        if takes {
            let mut world = faulty.clone();
            world.accept(next, deed, context)?;
            context.counts.answers_lost += 1;
            let mut resent = world.clone();
            world.unanswered(at, write, next, context)?;
            context
                .moves
                .push(((who, "writes, and hears nothing"), world));
            context.counts.success_told_as_loss += 1;
            doubts(&mut resent, Doubt::Lost);
            let label = (who, "writes twice, and is told that it has lost");
            context.moves.push((label, resent));
            let mut world = faulty.clone();
            context.counts.sent_late += 1;
            world.on_the_way.push(Late {
                doc: next,
                tag: standing.tag,
                deed,
                disowned: context.setup.mutant == Mutant::UnknownTakenForFailed,
            });
            world.unanswered(at, write, next, context)?;
            context
                .moves
                .push(((who, "writes; it stays on the way"), world));
        }
        context.counts.requests_lost += 1;
        faulty.unanswered(at, write, next, context)?;
        context
            .moves
            .push(((who, "writes; it never arrives"), faulty));
        Ok(())
    }

    /// What a process does without an answer: it looks. Mutants believe something.
    fn unanswered(
        &mut self,
        at: usize,
        write: Write,
        next: Doc,
        context: &mut Context<'_>,
    ) -> Result<(), Violation> {
        match (context.setup.mutant, write) {
            (Mutant::UnknownClaimTrusted, Write::Claim)
            | (Mutant::UnknownCommitTrusted, Write::Hold(Job::Commit { .. })) => {
                if let Some(standing) = &mut self.processes[at].standing {
                    standing.doc = next;
                }
                self.is_done(at, write, context)
            }
            (Mutant::UnknownTakenForFailed, _) | (_, Write::Settle) => {
                self.processes[at].ends();
                Ok(())
            }
            _ => {
                self.processes[at].keeper = Keeper::Doubts(write, Doubt::Unanswered);
                Ok(())
            }
        }
    }

    fn adopt(&mut self, at: usize, doc: Doc) {
        let age = 0;
        let tag = Tag::Current;
        self.processes[at].standing = Some(Standing { doc, tag, age });
    }

    fn look_for_it(
        &self,
        at: usize,
        write: Write,
        doubt: Doubt,
        context: &mut Context<'_>,
    ) -> Result<(), Violation> {
        let process = &self.processes[at];
        let Some(before) = process.standing else {
            unreachable!("whoever writes knows the document");
        };
        let rival = match write {
            Write::Claim if context.setup.mutant == Mutant::ClaimOutlasts => Rival::Outlast,
            Write::Claim => Rival::Yield,
            Write::Hold(_) => Rival::Outlast,
            // Nothing depends on it; the next tick reads again.
            Write::Settle => {
                let mut world = self.clone();
                world.processes[at].ends();
                context
                    .moves
                    .push(((Who::Process(at), "lets it go"), world));
                return Ok(());
            }
        };
        let expected = context.decisions.facts(before.doc).token + 1;
        for (mut world, read) in self.reads(context) {
            let found = match read {
                None => Found::Nothing,
                Some(read) if read.tag == before.tag => Found::Same,
                Some(read) => Found::Other(context.decisions.document(read.doc)),
            };
            let takes_it_for_its_own = context.setup.mutant == Mutant::MarkNotCompared
                && matches!(found, Found::Other(other) if other.lease.token.get() == expected);
            let nonce = process.nonce().name();
            let verdict = judge(doubt, rival, &nonce, before.tag != Tag::Nothing, found);
            if let Some(read) = read {
                world.processes[at].standing = Some(read);
            }
            let what = match verdict {
                _ if takes_it_for_its_own && write == Write::Claim => {
                    world.is_done(at, write, context)?;
                    "takes the document for its own"
                }
                Verdict::Derive => {
                    world.processes[at].keeper = Keeper::Writes(write);
                    "reads what stands there now"
                }
                Verdict::Repeat => {
                    context.counts.repeated += 1;
                    world.processes[at].keeper = Keeper::Writes(write);
                    "finds that nothing has happened"
                }
                Verdict::Overtaken => {
                    context.counts.overtaken += 1;
                    world.processes[at].ends();
                    "is overtaken"
                }
                Verdict::Gone => {
                    context.counts.alarms += 1;
                    world.processes[at].ends();
                    "finds no document"
                }
            };
            context.moves.push(((Who::Process(at), what), world));
        }
        Ok(())
    }

    /// The writer believes that its write has happened, and goes on.
    fn is_done(
        &mut self,
        at: usize,
        write: Write,
        context: &mut Context<'_>,
    ) -> Result<(), Violation> {
        let time = self.time;
        let process = &mut self.processes[at];
        require(process.landed, "I8", || {
            format!("process {at} believes in its {write:?}, which has not happened")
        })?;
        process.keeper = Keeper::Free;
        let Some(standing) = process.standing else {
            unreachable!("whoever writes knows the document");
        };
        let facts = context.decisions.facts(standing.doc);
        let counted_from = match context.setup.mutant {
            Mutant::TrustedFromAnswer => time,
            _ => process.sent.unwrap_or(time),
        };
        if context.setup.clocks != Clocks::Lie {
            let trusted = trusted_for(TTL, MARGIN).as_secs();
            process.deadline = counted_from + u8::try_from(trusted).unwrap();
            process.heartbeat_at = counted_from + HEARTBEAT;
        }
        match write {
            Write::Claim => {
                process.token = facts.token;
                process.beats = match context.setup.clocks {
                    Clocks::Lie => context.setup.beats,
                    Clocks::Agree { .. } | Clocks::Calm { .. } => 0,
                };
                process.body = Body::Marking;
                if !facts.is_newborn {
                    let first = Some(process.read);
                    self.send_row(at, first, context);
                }
            }
            Write::Hold(Job::Beat) => process.beats = process.beats.saturating_sub(1),
            Write::Hold(Job::Commit { ends: false, .. }) => {
                self.marker |= context.setup.mutant == Mutant::MarkerAfterCommit;
                match facts.status {
                    Status::Active => {
                        let next = facts.next_row(context.setup.rows);
                        self.send_row(at, next, context);
                    }
                    Status::Paused | Status::Failed => self.processes[at].body = Body::Leaving,
                }
            }
            Write::Hold(_) | Write::Settle => process.ends(),
        }
        Ok(())
    }

    fn send_row(&mut self, at: usize, row: Option<u8>, context: &Context<'_>) {
        self.processes[at].body = match (row, context.setup.mutant) {
            (Some(row), Mutant::CommitBeforeDelivery) => Body::Received { row, part: false },
            (Some(row), _) => Body::Sending(row),
            (None, _) => Body::Leaving,
        };
    }

    /// A row goes to the receiver.
    fn send(&self, at: usize, row: u8, context: &mut Context<'_>) -> Result<(), Violation> {
        let who = Who::Process(at);
        let mut world = self.clone();
        world.receives(at, row, context)?;
        world.acknowledged |= bit(row);
        world.processes[at].body = Body::Received { row, part: false };
        context.moves.push(((who, "delivers a row"), world));
        if self.left.refusals == 0 {
            return Ok(());
        }
        context.counts.refused_deliveries += 1;
        let mut refused = self.clone();
        refused.left.refusals -= 1;
        let fails = match context.setup.mutant {
            Mutant::FailureCountedAsDone => Body::Received { row, part: false },
            _ => Body::Failing,
        };
        refused.processes[at].body = fails;
        let mut lost = refused.clone();
        lost.receives(at, row, context)?;
        let mut part = refused.clone();
        context.moves.push(((who, "is refused"), refused));
        context
            .moves
            .push(((who, "delivers, and hears nothing"), lost));
        let other = row + 1;
        let covered = self.processes[at]
            .standing
            .map_or(0, |standing| context.decisions.facts(standing.doc).covered);
        if other <= context.setup.rows && covered & bit(other) == 0 {
            part.receives(at, other, context)?;
            part.acknowledged |= bit(other);
            part.processes[at].body = Body::Received {
                row: other,
                part: true,
            };
            let label = (who, "is refused one row and delivers the next");
            context.moves.push((label, part));
        }
        Ok(())
    }

    fn receives(
        &mut self,
        from: usize,
        row: u8,
        context: &mut Context<'_>,
    ) -> Result<(), Violation> {
        if context.setup.deletions > 0 {
            self.highest_sent = self.highest_sent.max(self.processes[from].token);
        }
        let again = self.received & bit(row) != 0;
        context.counts.second_deliveries += u64::from(again);
        require(!again || !context.setup.is_calm(), "I11", || {
            format!("row {row} is delivered twice in a calm world")
        })?;
        self.received |= bit(row);
        Ok(())
    }
}
