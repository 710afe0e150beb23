//! `dbtick reshard`: the rows of a poller are parted in another way, and it goes on where it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use clap::Args;

use super::problem::{Problem, finish};
use super::rails::{Plan, Rails, place_of, rows_behind_all};
use super::target::{Opened, Target};
use crate::config::Start;
use crate::model::lease::FencingToken;
use crate::model::shard::Layout;
use crate::model::state::{CursorMark, StateDocument, Status};
use crate::model::transitions::orders::{Parting, fits};
use crate::model::transitions::{Operator, Order};
use crate::store::StoreKey;
use crate::tick::Poller;
use crate::tick::layout::retired_into;
use crate::tick::operate::{Found, OperateError, Operated, Otherwise};

/// Go on with as many shards as function.json says
///
/// For a poller that has state and whose `shards` were changed, also from none or to none: until then it refuses to
/// tick. Its documents are shut out, all of them, and new ones begin where the last of the old ones stood, or the
/// last of their receivers. So nothing is lost, and rows that some shards had delivered beyond that place come
/// again, with the ids that they had. Refused while anybody holds a lease, and while rows are in quarantine. If it is
/// cut off in the middle, the poller stands still until the order is given again.
#[derive(Debug, Args)]
pub(super) struct Reshard {
    #[command(flatten)]
    target: Target,
    /// How many shards function.json has, to be sure that both mean the same
    #[arg(long, value_name = "N")]
    to: Option<u16>,
    #[command(flatten)]
    rails: Rails,
}

/// A poller in two layouts.
struct Parts {
    base: String,
    was: Layout,
    is: Layout,
    old: Vec<Poller>,
    new: Vec<Poller>,
}

/// Where the new documents begin.
struct Beginning {
    at: Option<CursorMark>,
    token: FencingToken,
    paused: bool,
}

impl Reshard {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.reshard().await, self.rails.json)
    }

    async fn reshard(&self) -> Result<(), Problem> {
        let opened = self.target.place.open()?;
        let by = self.rails.operator(&opened)?;
        let Some(parts) = self.parts(&opened).await? else {
            return self.nothing_to_do();
        };
        let documents = parts.stand().await?;
        let from = documents
            .iter()
            .map(|document| format!("{} at {}", document.poller_name, place_of(document)))
            .collect::<Vec<_>>();
        let beginning = Beginning::of(&documents);
        let at = match &beginning.at {
            Some(mark) => mark.position.to_string(),
            None => "the beginning".to_owned(),
        };
        let plan = Plan {
            what: "reshard",
            poller: parts.base.clone(),
            from: format!("{}: {}", parts.was, from.join("; ")),
            to: format!("{}, all at {at}", parts.is),
            rows: rows_behind_all(
                &parts.new,
                beginning.at.as_ref().map(|mark| &mark.position),
            )
            .await,
            notes: vec![
                "nothing is lost: each begins where the last of the old ones stood; what the others had delivered \
                 beyond that comes again, with the same ids"
                    .to_owned(),
                "stop the app, or deploy the same function.json to it: an instance with the old one stands still from \
                 now on"
                    .to_owned(),
            ],
        };
        if !self.rails.agreed(&plan, &parts.base)? {
            return Ok(());
        }
        let first = parts.carry_out(&by).await?;
        let undo = format!(
            "put {} back into function.json, then `dbtick reshard {}{}`",
            parts.was,
            parts.base,
            self.target.place.arguments()
        );
        let operated = Operated {
            document: first,
            aside: None,
            already: false,
        };
        self.rails.report(plan, &operated, Some(undo));
        Ok(())
    }

    fn nothing_to_do(&self) -> Result<(), Problem> {
        let text = "there was nothing to change: its state has as many shards as function.json";
        match self.rails.json {
            true => super::say("{\"ok\":true,\"done\":false,\"changed\":false}\n"),
            false => super::say(&format!("{text}\n")),
        }
        Ok(())
    }

    /// `None`: all is as it should be.
    async fn parts(&self, opened: &Opened) -> Result<Option<Parts>, Problem> {
        let asked = self.target.poller.to_lowercase();
        let (base, _) = Layout::of(&asked);
        let new = opened.parts_of(base)?;
        let Some(any) = new.first() else {
            // Says which pollers there are.
            return Err(match opened.poller(base) {
                Ok(_) => Problem::new(format!("{base} cannot be found")),
                Err(problem) => problem,
            });
        };
        let is = Layout::of(&any.name).1;
        let count = u16::try_from(new.len()).unwrap_or(u16::MAX);
        if let Some(to) = self.to.filter(|to| (*to).max(1) != count) {
            return Err(Problem::usage(format!(
                "function.json has {is}, not {to}: change it there first, nothing was changed"
            )));
        }
        let layouts = layouts(any, opened.app_name(), base).await?;
        let has_others = layouts.iter().any(|layout| *layout != is);
        let mut live = BTreeSet::new();
        // By the time of the order, of which the last may have been cut off.
        let mut left = BTreeMap::new();
        for layout in layouts.into_iter().filter(|layout| *layout != is) {
            for name in layout.names(base) {
                let poller = opened.renamed(any, &name)?;
                let Found::Document(document) = poller.found().await? else {
                    continue;
                };
                match retired_into(&document) {
                    None => {
                        live.insert(layout);
                    }
                    Some(into) if into == is.to_string() => {
                        left.insert(document.audit.last().map(|entry| entry.at), layout);
                    }
                    Some(_) => {}
                }
            }
        }
        let mut begun = 0;
        for poller in &new {
            if let Found::Document(document) = poller.found().await?
                && retired_into(&document).is_none()
            {
                begun += 1;
            }
        }
        let was = match live.len() {
            0 if begun == 0 && left.is_empty() && has_others => {
                return Err(Problem::new(format!(
                    "the state of {base} was left behind for shards that are gone: restore their documents (`dbtick state \
                     import`), or begin by hand: `dbtick reset {} --to beginning`, for each shard",
                    any.name
                )));
            }
            0 if begun < new.len() => left.pop_last().map(|(_, layout)| layout),
            0 => None,
            1 if begun == 0 => live.pop_first(),
            _ => {
                let all: Vec<_> = live.iter().map(ToString::to_string).collect();
                return Err(Problem::new(format!(
                    "{base} has state with {}, and {begun} documents of {is}: nobody but a person can say which ones count. \
                     Mark the others failed (`dbtick resolve`), and try again",
                    all.join(", with ")
                )));
            }
        };
        let Some(was) = was else {
            return Ok(None);
        };
        let old = was.names(base);
        let old = old.iter().map(|name| opened.renamed(any, name));
        Ok(Some(Parts {
            base: base.to_owned(),
            was,
            is,
            old: old.collect::<Result<_, _>>()?,
            new,
        }))
    }
}

/// Everything that there is state of.
async fn layouts(any: &Poller, app: &str, base: &str) -> Result<BTreeSet<Layout>, Problem> {
    let prefix = format!("state/{app}/");
    let mut found = BTreeSet::new();
    for key in any.store.list(&format!("{prefix}{base}")).await? {
        let name = key.as_str().strip_prefix(&prefix).unwrap_or_default();
        if let Some(name) = name.strip_suffix(".json").or(name.strip_suffix(".born")) {
            let (of, layout) = Layout::of(name);
            if of == base {
                found.insert(layout);
            }
        }
    }
    Ok(found)
}

impl Parts {
    fn whole(&self) -> &Poller {
        &self.new[0]
    }

    /// The old documents, if the poller may be parted now.
    async fn stand(&self) -> Result<Vec<StateDocument>, Problem> {
        let mut documents = Vec::new();
        for poller in &self.old {
            let name = &poller.name;
            if let Some(refusal) = poller.held_by_another().await? {
                return Err(OperateError::from(refusal).into());
            }
            let document = match poller.found().await? {
                Found::Document(document) => *document,
                Found::Nothing { born: false } if poller.start == Start::Beginning => {
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
                    let standing = super::rails::standing(&found);
                    return Err(Problem::new(format!("{name} cannot be parted: {standing}")));
                }
            };
            self.refuse(poller, &document).await?;
            documents.push(document);
        }
        Ok(documents)
    }

    async fn refuse(&self, poller: &Poller, document: &StateDocument) -> Result<(), Problem> {
        let name = &poller.name;
        let identity = self.whole().identity();
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
        if document.status == Status::Failed && retired_into(document).is_none() {
            return Err(Problem::new(format!(
                "{name} is marked failed: look into it and `dbtick reset` it first"
            )));
        }
        if poller.set_aside().await?.rows > 0 {
            return Err(Problem::new(format!(
                "{name} has rows in quarantine, which nobody would find under its new name: put {} back into function.json, \
                 then `dbtick quarantine redrive {name}` or `discard` them",
                self.was
            )));
        }
        Ok(())
    }

    /// First nobody can go on with the old documents, then the new ones begin. The first of these.
    async fn carry_out(&self, by: &Operator) -> Result<StateDocument, Problem> {
        let mut retired = Vec::new();
        for poller in &self.old {
            let order = |evidence| Order::Part {
                step: Parting::Retire { into: self.is },
                evidence,
            };
            // Also where it has not begun: nobody shall begin it now.
            let operated = poller.operate(by, Otherwise::Begin, order).await?;
            retired.push(operated.document);
        }
        let paused = |name: &str| retired_while_paused(&retired, name);
        let beginning = Beginning {
            paused: self.old.iter().any(|poller| paused(&poller.name)),
            ..Beginning::of(&retired)
        };
        let mut first = None;
        for poller in &self.new {
            let document = match poller.found().await? {
                // By an order that was cut off.
                Found::Document(document) if retired_into(&document).is_none() => *document,
                _ => {
                    let order = |evidence| Order::Part {
                        step: Parting::Begin {
                            at: beginning.at.clone(),
                            token: beginning.token,
                            paused: beginning.paused,
                            source: Box::new(poller.identity()),
                        },
                        evidence,
                    };
                    poller.operate(by, Otherwise::Begin, order).await?.document
                }
            };
            first.get_or_insert(document);
        }
        first.ok_or_else(|| Problem::new("there is no shard"))
    }
}

/// What was paused stays paused under its new name: the last halt but one says so.
fn retired_while_paused(retired: &[StateDocument], name: &str) -> bool {
    let document = retired.iter().find(|document| document.poller_name == name);
    let mut halts = document.into_iter().flat_map(|document| {
        let trail = document.audit.iter().rev();
        let words = ["pause", "resume", "reset", "rollback", "reshard"];
        trail.filter(move |entry| words.iter().any(|word| entry.what.starts_with(word)))
    });
    halts
        .next()
        .is_some_and(|entry| entry.what.starts_with("pause"))
}

impl Beginning {
    fn of(documents: &[StateDocument]) -> Self {
        let places = documents.iter().flat_map(|document| {
            let behind = document.sinks.values();
            let behind = behind.filter_map(|sink| Some(sink.lag.as_ref()?.position.clone()));
            behind.chain([document.checkpoint.cursor.clone()])
        });
        // In front of all places is the beginning.
        let least = places.min_by_key(|mark| mark.as_ref().map(|mark| mark.position.clone()));
        let tokens = documents.iter().map(|document| document.lease.token);
        Self {
            at: least.flatten(),
            token: tokens.max().unwrap_or_default(),
            paused: documents
                .iter()
                .any(|document| document.status == Status::Paused),
        }
    }
}

impl Opened {
    /// The pollers that one block of function.json has become.
    fn parts_of(&self, base: &str) -> Result<Vec<Poller>, Problem> {
        let names = self.names().filter(|name| Layout::of(name).0 == base);
        let found = names.map(|name| self.poller(name));
        found.collect()
    }

    /// With another document than it has.
    fn renamed(&self, like: &Poller, name: &str) -> Result<Poller, Problem> {
        let mut poller = self.poller(&like.name)?;
        poller.state_key = StoreKey::state(self.app_name(), name).map_err(Problem::from_error)?;
        poller.birth_marker =
            StoreKey::birth_marker(self.app_name(), name).map_err(Problem::from_error)?;
        poller.name = name.to_owned();
        Ok(poller)
    }
}
