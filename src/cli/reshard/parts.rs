//! Carrying it out: each step is an order that may be repeated, and whoever is cut off between two of them leaves
//! documents that say so.

use super::super::problem::Problem;
use super::super::target::Opened;
use crate::config::Start;
use crate::model::parting::Beginning;
use crate::model::shard::Layout;
use crate::model::sinks;
use crate::model::state::{StateDocument, Status};
use crate::model::transitions::orders::{Parting, fits, retirement};
use crate::model::transitions::{Operator, Order, Refusal};
use crate::tick::Poller;
use crate::tick::operate::{Found, OperateError, Otherwise};

/// A poller in two layouts.
pub(super) struct Parts {
    pub(super) base: String,
    pub(super) was: Layout,
    pub(super) is: Layout,
    old: Vec<Poller>,
    pub(super) new: Vec<Poller>,
    by: Operator,
    /// The order was cut off when some of the new ones had begun: there is no way back for the old ones.
    pub(super) begun: bool,
}

impl Parts {
    pub(super) fn new(
        opened: &Opened,
        base: &str,
        was: Layout,
        is: Layout,
        new: Vec<Poller>,
        by: Operator,
    ) -> Result<Self, Problem> {
        let old = was.names(base);
        let old = old.iter().map(|name| opened.renamed(&new[0], name));
        Ok(Self {
            base: base.to_owned(),
            was,
            is,
            old: old.collect::<Result<_, _>>()?,
            new,
            by,
            begun: false,
        })
    }

    /// The old documents, if the poller may be parted now.
    pub(super) async fn stand(&self) -> Result<Vec<StateDocument>, Problem> {
        let mut found = Vec::new();
        for poller in &self.old {
            found.push(poller.found().await?);
        }
        // An order that was cut off leaves the marker of a birth where there was nothing, last of all.
        let begun = found.iter().any(|it| self.is_shut_out(it));
        let mut documents = Vec::new();
        for (poller, found) in self.old.iter().zip(found) {
            let name = &poller.name;
            if let Some(refusal) = poller.held_by_another().await? {
                return Err(OperateError::from(refusal).into());
            }
            let from_the_beginning = poller.start == Start::Beginning;
            let document = match found {
                Found::Document(document) => *document,
                Found::Nothing { born } if from_the_beginning && (!born || begun) => {
                    StateDocument::first(name, &poller.fingerprint, None)
                }
                Found::Nothing { born: false } => {
                    return Err(Problem::new(format!(
                        "{name} has not begun, and nobody knows where it would: put {} back into function.json, tick it \
                         once (`dbtick tick {name}`), and try again",
                        self.was
                    )));
                }
                found => {
                    let standing = super::super::rails::standing(&found);
                    return Err(Problem::new(format!("{name} cannot be parted: {standing}")));
                }
            };
            self.refuse(poller, &document).await?;
            documents.push(document);
        }
        Ok(documents)
    }

    fn is_shut_out(&self, found: &Found) -> bool {
        match found {
            Found::Document(document) => {
                retirement(document).is_some_and(|it| it.into == self.is.to_string())
            }
            _ => false,
        }
    }

    async fn refuse(&self, poller: &Poller, document: &StateDocument) -> Result<(), Problem> {
        let name = &poller.name;
        let identity = self.new[0].identity();
        fits(document, &identity)?;
        let was = document.source.as_ref();
        let changes = was.map_or_else(Vec::new, |was| was.differences(&identity.definition));
        let mut changes = changes.iter().filter(|change| change.part != "shard");
        if let Some(change) = changes.next() {
            return Err(Problem::new(format!(
                "more than the shards has changed since the checkpoint of {name} was made: {change}. Put it back, reshard, \
                 and change the rest after that"
            )));
        }
        if let Err(differ) = sinks::compare(&document.sinks, &self.new[0].sink_names()) {
            // One that is behind would be forgotten with what it lacks.
            return Err(Problem::new(format!(
                "{}, {name} being one of them: put them back, reshard, and change them after that",
                Refusal::Sinks(differ)
            )));
        }
        if document.status == Status::Failed && retirement(document).is_none() {
            return Err(Problem::new(format!(
                "{name} is marked failed: look into it and `dbtick reset` it first"
            )));
        }
        match poller.set_aside().await?.rows > 0 && !self.begun {
            false => Ok(()),
            true => Err(self.quarantined(name)),
        }
    }

    fn quarantined(&self, name: &str) -> Problem {
        Problem::new(format!(
            "{name} has rows in quarantine, which nobody would find under its new name: put {} back into function.json, \
             then `dbtick quarantine redrive {name}` or `discard` them",
            self.was
        ))
    }

    pub(super) fn beginning(&self, documents: &[StateDocument]) -> Result<Beginning, Problem> {
        let beginning = Beginning::of(documents, self.new[0].recovery_point);
        beginning.map_err(|disagree| {
            Problem::new(format!(
                "{disagree}: put {} back into function.json, let it tick until `dbtick status` is content, and try again",
                self.was
            ))
        })
    }

    /// First nobody can go on with the old documents, then the new ones begin. The first of these.
    pub(super) async fn carry_out(&self) -> Result<StateDocument, Problem> {
        let retired = self.shut_out().await?;
        let beginning = match self.looked_at_again(&retired).await {
            Err(problem) if !self.begun => {
                self.bring_back(&self.old).await?;
                return Err(problem);
            }
            beginning => beginning?,
        };
        let mut first = None;
        for poller in &self.new {
            self.refuse_taken_back().await?;
            let order = |evidence| Order::Part {
                step: Parting::Begin {
                    beginning: Box::new(beginning.clone()),
                    source: Box::new(poller.identity()),
                    sinks: poller.sink_names(),
                },
                evidence,
            };
            let begun = poller.operate(&self.by, Otherwise::Begin, order).await?;
            first.get_or_insert(begun.document);
        }
        first.ok_or_else(|| Problem::new("there is no shard"))
    }

    /// Ticks went on until a moment ago: one may have set a row aside. Nobody can now.
    async fn looked_at_again(&self, retired: &[StateDocument]) -> Result<Beginning, Problem> {
        for poller in self.old.iter().filter(|_| !self.begun) {
            if poller.set_aside().await?.rows > 0 {
                return Err(self.quarantined(&poller.name));
            }
        }
        self.beginning(retired)
    }

    /// Those that have never begun last: what is cut off then is known for what it is by the others.
    async fn shut_out(&self) -> Result<Vec<StateDocument>, Problem> {
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for poller in &self.old {
            match poller.found().await? {
                Found::Document(_) => there.push(poller),
                _ => missing.push(poller),
            }
        }
        let mut retired = Vec::new();
        for poller in there.into_iter().chain(missing) {
            let order = |evidence| Order::Part {
                step: Parting::Retire { into: self.is },
                evidence,
            };
            // Also where it has not begun: nobody shall begin it now.
            let operated = poller.operate(&self.by, Otherwise::Begin, order).await?;
            retired.push(operated.document);
        }
        Ok(retired)
    }

    /// Somebody else may have given the opposite order meanwhile.
    async fn refuse_taken_back(&self) -> Result<(), Problem> {
        for poller in &self.old {
            if !self.is_shut_out(&poller.found().await?) {
                return Err(Problem::new(format!(
                    "{} goes on again: somebody has taken this order back; nothing else is begun",
                    poller.name
                )));
            }
        }
        Ok(())
    }

    /// Those that were shut out, of the layout that function.json has.
    pub(super) async fn retired(&self) -> Result<Vec<StateDocument>, Problem> {
        let mut retired = Vec::new();
        for poller in &self.new {
            if let Found::Document(document) = poller.found().await?
                && retirement(&document).is_some()
            {
                retired.push(*document);
            }
        }
        Ok(retired)
    }

    pub(super) async fn take_back(&self) -> Result<StateDocument, Problem> {
        let first = self.bring_back(&self.new).await?;
        first.ok_or_else(|| Problem::new("there is no shard"))
    }

    /// They go on where they stood. The first of them.
    async fn bring_back(&self, pollers: &[Poller]) -> Result<Option<StateDocument>, Problem> {
        let by = Operator {
            id: format!("{}-taken-back", self.by.id),
            ..self.by.clone()
        };
        let mut first = None;
        for poller in pollers {
            // One that has never begun, begins when it ticks.
            if !matches!(poller.found().await?, Found::Document(_)) {
                continue;
            }
            let order = |evidence| Order::Part {
                step: Parting::TakeBack,
                evidence,
            };
            let operated = poller.operate(&by, Otherwise::Refuse, order).await?;
            first.get_or_insert(operated.document);
        }
        Ok(first)
    }
}
