//! `dbtick reshard`: the rows of a poller are parted in another way, and it goes on where it stands.

mod choosing;
mod parts;

use std::process::ExitCode;

use clap::Args;

use super::problem::{Problem, finish};
use super::rails::{Plan, Rails, place_of, rows_behind_all};
use super::target::{Opened, Target};
use crate::model::shard::Layout;
use crate::model::state::StateDocument;
use crate::model::transitions::Operator;
use crate::store::StoreKey;
use crate::tick::Poller;
use crate::tick::operate::{Found, Operated};
use choosing::{Choice, Layouts, Part, choose};
use parts::Parts;

/// Go on with as many shards as function.json says
///
/// For a poller that has state and whose `shards` were changed, also from none or to none: until then it refuses to
/// tick. Its documents are shut out, all of them, and new ones begin where the last of the old ones stood, or the
/// last of their receivers. So nothing is lost, and rows that some shards had delivered beyond that place come
/// again, with the ids that they had. Refused while anybody holds a lease, and while rows are in quarantine. If it is
/// cut off in the middle, the poller stands still until the order is given again: then it goes on, or, with the old
/// number back in function.json and nothing begun yet, it is taken back.
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

impl Reshard {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.reshard().await, self.rails.json)
    }

    async fn reshard(&self) -> Result<(), Problem> {
        let opened = self.target.place.open()?;
        let by = self.rails.operator(&opened)?;
        let asked = self.target.poller.to_lowercase();
        let (base, _) = Layout::of(&asked);
        let new = self.configured(&opened, base)?;
        let is = Layout::of(&new[0].name).1;
        let layouts = layouts(&opened, &new, base, is).await?;
        let parts = |was, by| Parts::new(&opened, base, was, is, new, by);
        match choose(is, &layouts) {
            Choice::Nothing => self.nothing_to_do(),
            Choice::Part { was } => self.part(parts(was, by)?).await,
            // Under the name that it has in their trails.
            Choice::Finish { was, order, begun } => {
                let mut parts = parts(was, Operator { id: order, ..by })?;
                parts.begun = begun;
                self.part(parts).await
            }
            Choice::TakeBack => self.take_back(parts(is, by)?).await,
            Choice::Unfinished { into } => Err(Problem::new(format!(
                "{base} was to go on with {into}, and that was cut off halfway: put {into} back into function.json, give this \
                 order again, and change it after that"
            ))),
            Choice::Many { live, begun } => {
                let all: Vec<_> = live.iter().map(ToString::to_string).collect();
                Err(Problem::new(format!(
                    "{base} has state with {}, and {begun} documents of {is}: nobody but a person can say which ones count. \
                     Mark the others failed (`dbtick resolve`), and try again",
                    all.join(", with ")
                )))
            }
            Choice::LeftBehind => {
                let name = Layout::names(is, base).swap_remove(0);
                Err(Problem::new(format!(
                    "the state of {base} was left behind for shards that are gone: restore their documents (`dbtick state \
                     import`), or begin by hand: `dbtick reset {name} --to beginning`, for each shard"
                )))
            }
        }
    }

    /// The pollers that one block of function.json has become: at least one.
    fn configured(&self, opened: &Opened, base: &str) -> Result<Vec<Poller>, Problem> {
        let names = opened.names().filter(|name| Layout::of(name).0 == base);
        let found: Vec<Poller> = names
            .map(|name| opened.poller(name))
            .collect::<Result<_, _>>()?;
        let Some(any) = found.first() else {
            // Says which pollers there are.
            return Err(match opened.poller(base) {
                Ok(_) => Problem::new(format!("{base} cannot be found")),
                Err(problem) => problem,
            });
        };
        let count = u16::try_from(found.len()).unwrap_or(u16::MAX);
        if let Some(to) = self.to.filter(|to| (*to).max(1) != count) {
            return Err(Problem::usage(format!(
                "function.json has {}, not {to}: change it there first, nothing was changed",
                Layout::of(&any.name).1
            )));
        }
        Ok(found)
    }

    fn nothing_to_do(&self) -> Result<(), Problem> {
        let text = "there was nothing to change: its state has as many shards as function.json";
        match self.rails.json {
            true => super::say("{\"ok\":true,\"done\":false,\"changed\":false}\n"),
            false => super::say(&format!("{text}\n")),
        }
        Ok(())
    }

    async fn part(&self, parts: Parts) -> Result<(), Problem> {
        let documents = parts.stand().await?;
        let from = documents
            .iter()
            .map(|document| format!("{} at {}", document.poller_name, place_of(document)))
            .collect::<Vec<_>>();
        let beginning = parts.beginning(&documents)?;
        let place = beginning.at.as_ref().map(|mark| &mark.position);
        let at = match place {
            Some(place) => place.to_string(),
            None => "the beginning".to_owned(),
        };
        let plan = Plan {
            what: "reshard",
            poller: parts.base.clone(),
            from: format!("{}: {}", parts.was, from.join("; ")),
            to: format!("{}, all at {at}", parts.is),
            rows: rows_behind_all(&parts.new, place).await,
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
        let document = parts.carry_out().await?;
        let undo = format!(
            "put {} back into function.json, then `dbtick reshard {}{}`",
            parts.was,
            parts.base,
            self.target.place.arguments()
        );
        self.rails.report(plan, &done(document), Some(undo));
        Ok(())
    }

    async fn take_back(&self, parts: Parts) -> Result<(), Problem> {
        let documents = parts.retired().await?;
        let from: Vec<_> = documents.iter().map(|it| it.poller_name.clone()).collect();
        let places = documents.iter().map(|document| document.position());
        let plan = Plan {
            what: "take back a reshard",
            poller: parts.base.clone(),
            from: format!("shut out: {}", from.join(", ")),
            to: format!("{}, each where it stood", parts.is),
            rows: rows_behind_all(&parts.new, places.min().flatten()).await,
            notes: vec!["nothing had begun in the place of these".to_owned()],
        };
        if !self.rails.agreed(&plan, &parts.base)? {
            return Ok(());
        }
        let document = parts.take_back().await?;
        self.rails.report(plan, &done(document), None);
        Ok(())
    }
}

fn done(document: StateDocument) -> Operated {
    Operated {
        document,
        aside: None,
        already: false,
    }
}

/// Everything that there is state of, and what function.json has.
async fn layouts(
    opened: &Opened,
    new: &[Poller],
    base: &str,
    is: Layout,
) -> Result<Layouts, Problem> {
    let any = &new[0];
    let prefix = format!("state/{}/", opened.app_name());
    let mut found = Layouts::new();
    for key in any.store.list(&format!("{prefix}{base}")).await? {
        let name = key.as_str().strip_prefix(&prefix).unwrap_or_default();
        if let Some(name) = name.strip_suffix(".json").or(name.strip_suffix(".born")) {
            let (of, layout) = Layout::of(name);
            if of == base {
                found.entry(layout).or_default();
            }
        }
    }
    found.entry(is).or_default();
    for (layout, parts) in &mut found {
        for name in layout.names(base) {
            let poller = opened.renamed(any, &name)?;
            parts.push(match poller.found().await? {
                Found::Document(document) => Part::of(&document),
                Found::Nothing { .. } => Part::Missing,
                refused @ Found::Refused { .. } => {
                    let standing = super::rails::standing(&refused);
                    return Err(Problem::new(format!("{name} cannot be parted: {standing}")));
                }
            });
        }
    }
    Ok(found)
}

impl Opened {
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
