//! Every reachable state, once, the nearest first: what is found has the shortest story.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::decisions::Decisions;
use super::invariants::{Violation, require};
use super::setup::Setup;
use super::world::{Context, Counts, Label, Who, World};

#[derive(Debug)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    /// Documents that went through their bytes.
    pub(crate) documents: usize,
    /// Of `transitions::apply`.
    pub(crate) questions: usize,
    pub(crate) counts: Counts,
}

/// A rule that does not hold, and how it came to that.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) violation: Violation,
    pub(crate) steps: Vec<String>,
}

pub(crate) fn explore(setup: &Setup) -> Result<Explored, Story> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut decisions = Decisions::new(setup);
    let mut counts = Counts::default();
    let first = World::of(setup, &mut decisions);
    // Two states in a few million that share 64 bits are less likely than a fault of the machine.
    let mut known = HashMap::from([(hasher.hash_one(&first), 0_u32)]);
    let mut came_from: Vec<(u32, Label)> = vec![(0, (Who::Time, "it begins"))];
    let mut left = VecDeque::from([(0_u32, first)]);
    let mut steps = 0;
    while let Some((number, world)) = left.pop_front() {
        let mut context = Context {
            setup,
            decisions: &mut decisions,
            counts: &mut counts,
            moves: Vec::new(),
        };
        let ended = world
            .go_on(&mut context)
            .and_then(|()| world.would_end_well(&mut context));
        let moves = context.moves;
        if let Err(violation) = ended {
            return Err(Story {
                violation,
                steps: story(&came_from, number),
            });
        }
        for (label, next) in moves {
            steps += 1;
            let fresh = u32::try_from(came_from.len()).unwrap();
            if *known.entry(hasher.hash_one(&next)).or_insert(fresh) == fresh {
                came_from.push((number, label));
                left.push_back((fresh, next));
            }
        }
        assert!(came_from.len() < 30_000_000, "the world is not small");
    }
    Ok(Explored {
        states: came_from.len(),
        steps,
        documents: decisions.count(),
        questions: decisions.questions(),
        counts,
    })
}

impl World {
    /// I2: were this the end of all faults, every row would be delivered, and the poller would go on.
    fn would_end_well(&self, context: &mut Context<'_>) -> Result<(), Violation> {
        let doc = match self.document {
            Some(doc) => doc,
            None if self.marker => return Ok(()),
            None => context.decisions.first(),
        };
        let sent = context.decisions.quiet(doc);
        let sent = sent.map_err(|what| Violation { name: "I2", what })?;
        let all = (1_u8 << context.setup.rows) - 1;
        require(sent | self.acknowledged == all, "I2", || {
            format!("only {:#b} are ever delivered", sent | self.acknowledged)
        })
    }
}

fn story(came_from: &[(u32, Label)], mut number: u32) -> Vec<String> {
    let mut steps = Vec::new();
    while number != 0 {
        let (before, (who, what)) = came_from[number as usize];
        let who = match who {
            Who::Process(at) => format!("process {at}"),
            other => format!("{other:?}").to_lowercase(),
        };
        steps.push(format!("{who} {what}"));
        number = before;
    }
    steps.reverse();
    steps
}
