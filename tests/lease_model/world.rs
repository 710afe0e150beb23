//! A few processes, a person, a receiver and a store, and everything that can happen next.

use dbtick::model::lease::answers::Doubt;

use super::decisions::{Decisions, Deed, Doc, Job, Nonce, Owner};
use super::invariants::{Violation, require};
use super::setup::{Clocks, Mutant, Setup, Wish};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) document: Option<Doc>,
    /// What stood there before the last write, where reads may be stale.
    pub(crate) previous: Option<Option<Doc>>,
    pub(crate) marker: bool,
    /// Writes whose senders have given up waiting, and that may still arrive.
    pub(crate) on_the_way: Vec<Late>,
    pub(crate) processes: Vec<Process>,
    pub(crate) person: Person,
    /// Rows of which somebody has heard that the receiver has them, bit by bit.
    pub(crate) acknowledged: u8,
    /// Rows that it has got, whether anybody has heard of it or not.
    pub(crate) received: u8,
    pub(crate) time: u8,
    pub(crate) written_at: u8,
    /// The highest token that the receiver has seen, where documents get lost.
    pub(crate) highest_sent: u64,
    pub(crate) left: Left,
}

/// What may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) ticks: u8,
    pub(crate) faults: u8,
    pub(crate) crashes: u8,
    pub(crate) refusals: u8,
    pub(crate) orders: u8,
    pub(crate) stale_reads: u8,
    pub(crate) deletions: u8,
}

/// A tag that somebody knows. Tags are never given twice, so all that matters is whether it is that of
/// the document as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tag {
    /// No document was there.
    Nothing,
    Current,
    Previous,
    Old,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Standing {
    pub(crate) doc: Doc,
    pub(crate) tag: Tag,
    /// Of the last write, when it was read.
    pub(crate) age: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Late {
    pub(crate) doc: Doc,
    pub(crate) tag: Tag,
    pub(crate) deed: Deed,
    /// Its sender has said that it failed.
    pub(crate) disowned: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) owner: Owner,
    /// The last that it has begun; it names the claim.
    pub(crate) tick: u8,
    pub(crate) standing: Option<Standing>,
    pub(crate) body: Body,
    /// The row that was read before the claim.
    pub(crate) read: u8,
    pub(crate) keeper: Keeper,
    pub(crate) token: u64,
    pub(crate) sequence: u8,
    pub(crate) beats: u8,
    /// The write that is being made has been accepted. Only the checks look at it.
    pub(crate) landed: bool,
    /// When it was first sent.
    pub(crate) sent: Option<u8>,
    pub(crate) heartbeat_at: u8,
    pub(crate) deadline: u8,
}

/// How far a tick is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Body {
    Between,
    /// There was no document: is there a marker?
    Unborn,
    /// There is a marker: is there really no document?
    Vanished,
    Claiming,
    Settling,
    /// It holds the lease from here on.
    Marking,
    Sending(u8),
    /// The receiver has this row. `part`: not the one before it.
    Received {
        row: u8,
        part: bool,
    },
    Failing,
    Leaving,
}

/// How far a write is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Keeper {
    Free,
    Writes(Write),
    Doubts(Write, Doubt),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    Claim,
    Settle,
    Hold(Job),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Person {
    Away,
    Looks(Ordered),
    Writes(Ordered, Standing, Begins),
}

/// Whether a document has to be made first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Begins {
    No,
    Marked,
    Unmarked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ordered {
    pub(crate) id: u8,
    pub(crate) wish: Wish,
    /// Of the lease that was seen first.
    pub(crate) token: Option<u64>,
    pub(crate) landed: bool,
}

/// Who does what.
pub(crate) type Label = (Who, &'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Process(usize),
    Person,
    Network,
    Time,
}

/// How often things have happened: a world in which nothing does proves nothing.
macro_rules! counts {
    ($($name:ident,)+) => {
        #[derive(Debug, Clone, Copy, Default)]
        pub(crate) struct Counts { $(pub(crate) $name: u64,)+ }

        impl Counts {
            pub(crate) fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

counts! {
    accepted,
    created,
    claims,
    takeovers,
    renewals,
    commits,
    settlements,
    releases,
    orders,
    rejected,
    answers_lost,
    requests_lost,
    success_told_as_loss,
    sent_late,
    landed_late,
    landed_late_after_the_sender_was_gone,
    too_late_after_a_takeover,
    found_again,
    repeated,
    overtaken,
    leases_lost,
    stale_reads,
    crashes,
    refused_deliveries,
    second_deliveries,
    alarms,
    deletions,
}

/// What is asked and told while a world goes on.
pub(crate) struct Context<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) decisions: &'a mut Decisions,
    pub(crate) counts: &'a mut Counts,
    pub(crate) moves: Vec<(Label, World)>,
}

impl Process {
    fn new(process: u8) -> Self {
        Self {
            owner: Owner { process, life: 0 },
            tick: 0,
            standing: None,
            body: Body::Between,
            read: 0,
            keeper: Keeper::Free,
            token: 0,
            sequence: 0,
            beats: 0,
            landed: false,
            sent: None,
            heartbeat_at: 0,
            deadline: 0,
        }
    }

    pub(crate) fn nonce(&self) -> Nonce {
        Nonce {
            process: self.owner.process,
            tick: self.tick,
        }
    }

    pub(crate) fn holds(&self) -> bool {
        use Body::*;
        matches!(
            self.body,
            Marking | Sending(_) | Received { .. } | Failing | Leaving
        )
    }

    /// The tick is over; all that it knew is forgotten.
    pub(crate) fn ends(&mut self) {
        *self = Self {
            owner: self.owner,
            tick: self.tick,
            ..Self::new(self.owner.process)
        };
    }
}

impl World {
    pub(crate) fn of(setup: &Setup, decisions: &mut Decisions) -> Self {
        Self {
            document: setup.born.then(|| decisions.begun()),
            previous: None,
            marker: setup.born,
            on_the_way: Vec::new(),
            processes: (0..setup.processes).map(Process::new).collect(),
            person: Person::Away,
            acknowledged: 0,
            received: 0,
            time: 0,
            written_at: 0,
            highest_sent: 0,
            left: Left {
                ticks: setup.ticks,
                faults: setup.faults,
                crashes: setup.crashes,
                refusals: setup.refusals,
                orders: setup.orders,
                stale_reads: setup.stale_reads,
                deletions: setup.deletions,
            },
        }
    }

    /// Everything that can happen next.
    pub(crate) fn go_on(&self, context: &mut Context<'_>) -> Result<(), Violation> {
        for at in 0..self.processes.len() {
            self.process(at, context)?;
        }
        self.person(context)?;
        self.network(context)?;
        self.time(context);
        Ok(())
    }

    pub(crate) fn age(&self, setup: &Setup) -> u8 {
        match setup.clocks {
            Clocks::Lie => u8::MAX,
            Clocks::Agree { .. } | Clocks::Calm { .. } => self.time - self.written_at,
        }
    }

    /// What a read may return.
    pub(crate) fn reads(&self, context: &mut Context<'_>) -> Vec<(World, Option<Standing>)> {
        let age = self.age(context.setup);
        let standing = |doc: Option<Doc>, tag| doc.map(|doc| Standing { doc, tag, age });
        let mut reads = vec![(self.clone(), standing(self.document, Tag::Current))];
        if let (Some(previous), 1..) = (self.previous, self.left.stale_reads) {
            let mut world = self.clone();
            world.left.stale_reads -= 1;
            context.counts.stale_reads += 1;
            reads.push((world, standing(previous, Tag::Previous)));
        }
        reads
    }

    pub(crate) fn takes(&self, tag: Tag, setup: &Setup) -> bool {
        if setup.mutant == Mutant::NoCondition {
            return true;
        }
        match tag {
            Tag::Nothing => self.document.is_none(),
            Tag::Current => self.document.is_some(),
            Tag::Previous | Tag::Old => false,
        }
    }

    /// Whatever anybody knows is older by one write.
    pub(crate) fn changes(&mut self, to: Option<Doc>, context: &mut Context<'_>) {
        let keeps = context.setup.stale_reads > 0;
        let age = |standing: &mut Standing| {
            standing.tag = match standing.tag {
                Tag::Current if keeps => Tag::Previous,
                Tag::Nothing => Tag::Nothing,
                Tag::Current | Tag::Previous | Tag::Old => Tag::Old,
            };
        };
        for process in &mut self.processes {
            process.standing.iter_mut().for_each(age);
        }
        if let Person::Writes(_, standing, _) = &mut self.person {
            age(standing);
        }
        self.previous = keeps.then_some(self.document);
        self.document = to;
        self.written_at = self.time;
    }

    fn network(&self, context: &mut Context<'_>) -> Result<(), Violation> {
        for (at, late) in self.on_the_way.iter().enumerate() {
            let mut world = self.clone();
            world.on_the_way.remove(at);
            if self.takes(late.tag, context.setup) {
                require(!late.disowned, "I8", || {
                    format!("{:?} had been given up on", late.deed)
                })?;
                context.counts.landed_late += 1;
                let gone = !self.is_being_written(late.deed);
                context.counts.landed_late_after_the_sender_was_gone += u64::from(gone);
                world.accept(late.doc, late.deed, context)?;
            }
            context
                .moves
                .push(((Who::Network, "a write arrives late"), world));
        }
        if self.left.deletions > 0 && self.document.is_some() {
            let mut world = self.clone();
            world.left.deletions -= 1;
            world.changes(None, context);
            world.forget_the_hopeless(context);
            context.counts.deletions += 1;
            context
                .moves
                .push(((Who::Person, "deletes the document"), world));
        }
        Ok(())
    }

    fn is_being_written(&self, deed: Deed) -> bool {
        let nonce = match deed {
            Deed::Claim { nonce, .. } | Deed::Settle { nonce, .. } => nonce,
            Deed::Hold { mark, .. } => mark.nonce,
            Deed::Order { .. } => return self.person != Person::Away,
        };
        let process = &self.processes[usize::from(nonce.process)];
        process.nonce() == nonce && process.body != Body::Between
    }

    /// Writes whose condition can never hold again change nothing, whenever they arrive.
    pub(crate) fn forget_the_hopeless(&mut self, context: &mut Context<'_>) {
        if context.setup.mutant == Mutant::NoCondition {
            return;
        }
        let created_again = self.left.deletions > 0 || self.document.is_none();
        self.on_the_way
            .retain(|late| late.tag == Tag::Nothing && created_again);
    }

    fn time(&self, context: &mut Context<'_>) {
        let (until, calm) = match context.setup.clocks {
            Clocks::Lie => return,
            Clocks::Agree { until } => (until, false),
            Clocks::Calm { until } => (until, true),
        };
        let in_time = |process: &Process| {
            let busy = process.keeper != Keeper::Free && process.body != Body::Claiming;
            !busy && (!process.holds() || self.time < process.heartbeat_at)
        };
        if self.time == until || calm && !self.processes.iter().all(in_time) {
            return;
        }
        let mut world = self.clone();
        world.time += 1;
        context.moves.push(((Who::Time, "passes"), world));
    }
}
