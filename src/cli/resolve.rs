//! `dbtick resolve`: something is done about stuck work (F2), once, with a word in the audit trail (F3).

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::orphans::Grace;
use super::problem::{Problem, finish};
use super::rails::{self, Rails, Rows};
use super::say;
use super::target::{Opened, Target};
use crate::backfill::Plan;
use crate::clock::{Clock, SystemClock};
use crate::model::transitions::{Operator, Order};
use crate::overview::Overview;
use crate::overview::orphans::{Orphan, OrphanKind};
use crate::tick::Poller;
use crate::tick::budget::Budget;
use crate::tick::operate::Otherwise;
use crate::tick::quarantine::{Redrive, Redriven};

/// Do something about stuck work of a poller: let it go on, stop it, or set it aside for a person
///
/// Running it twice changes nothing more. Each resolution is in the audit trail, and is told to the webhook
/// in `warnings`, if there is one.
#[derive(Debug, Args)]
pub(super) struct Resolve {
    #[command(flatten)]
    target: Target,
    /// What to do
    #[arg(long, value_enum)]
    strategy: Strategy,
    /// Only this kind of stuck work
    #[arg(long, value_name = "KIND", value_parser = kind)]
    only: Option<OrphanKind>,
    #[command(flatten)]
    grace: Grace,
    #[command(flatten)]
    rails: Rails,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Strategy {
    /// Let it go on from its checkpoint: free the lease, ask receivers at once, send quarantined rows again
    Resume,
    /// Stop the poller until it is reset
    MarkFailed,
    /// Set it aside: somebody looks into it, and it is not told of until it happens anew
    Review,
}

impl Strategy {
    fn name(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::MarkFailed => "mark-failed",
            Self::Review => "review",
        }
    }
}

fn kind(text: &str) -> Result<OrphanKind, String> {
    let named = OrphanKind::ALL.iter().find(|kind| kind.name() == text);
    named.copied().ok_or_else(|| {
        let names: Vec<_> = OrphanKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("there is {}", names.join(", "))
    })
}

/// What became of one thing that was stuck.
struct Resolved {
    orphan: Orphan,
    /// `None`: there was nothing to change.
    done: Option<String>,
    /// Why nothing could be done.
    failed: Option<String>,
}

impl Resolve {
    pub(super) async fn run(self) -> ExitCode {
        let json = self.rails.json;
        finish(self.resolve().await, json)
    }

    async fn resolve(&self) -> Result<(), Problem> {
        let opened = self.target.place.open()?;
        let overview = opened.overview()?;
        let name = self.target.poller.to_lowercase();
        let mut stuck = overview.orphans(self.grace.get()).await?;
        stuck.retain(|orphan| orphan.poller == name);
        let is_stray = stuck.iter().any(|o| o.kind == OrphanKind::NoPoller);
        if !is_stray {
            // Says which there are.
            opened.poller(&name)?;
        }
        stuck.retain(|orphan| self.only.is_none_or(|only| orphan.kind == only));
        let by = self.rails.operator(&opened)?;
        let plan = self.plan(&name, &stuck);
        if stuck.is_empty() {
            let text =
                format!("{name} has no stuck work of that kind; there was nothing to change\n");
            match self.rails.json {
                true => say(&format!(
                    "{}\n",
                    plan.json(false, json!({ "changed": false, "resolved": [] }))
                )),
                false => say(&text),
            }
            return Ok(());
        }
        if !self.rails.agreed(&plan, &name)? {
            return Ok(());
        }
        // Somebody may have taken his time to agree: what is not stuck any more is left alone.
        let still = overview.orphans(self.grace.get()).await?;
        let mut resolved = Vec::new();
        for orphan in stuck {
            let same = |now: &Orphan| (now.code(), now.since) == (orphan.code(), orphan.since);
            if !still
                .iter()
                .any(|now| now.poller == orphan.poller && same(now))
            {
                resolved.push(Resolved {
                    orphan,
                    done: None,
                    failed: None,
                });
                continue;
            }
            let by = Operator {
                id: format!("{:032x}", SystemClock.random()),
                ..by.clone()
            };
            let done = self.act(&overview, &orphan, &by).await;
            let (done, failed) = match done {
                Ok(done) => (done, None),
                Err(problem) => (None, Some(problem.text().to_owned())),
            };
            resolved.push(Resolved {
                orphan,
                done,
                failed,
            });
        }
        let untold = self.warn(&opened, &by, &resolved).await;
        self.report(plan, &resolved, &untold)
    }

    fn plan(&self, name: &str, stuck: &[Orphan]) -> rails::Plan {
        let found = stuck.iter();
        let found = found.map(|orphan| format!("{}: {}", orphan.kind.name(), orphan.says));
        rails::Plan {
            what: "resolve",
            poller: name.to_owned(),
            from: "stuck".to_owned(),
            to: match self.strategy {
                Strategy::Resume => "going on from its checkpoint",
                Strategy::MarkFailed
                    if stuck.iter().all(|one| one.kind == OrphanKind::Backfill) =>
                {
                    "given up: the backfill, not the poller"
                }
                Strategy::MarkFailed => "marked failed: it stops until it is reset",
                Strategy::Review => "set aside for a person to look into",
            }
            .to_owned(),
            rows: Rows::unmoved(),
            notes: found.collect(),
        }
    }

    async fn act(
        &self,
        overview: &Overview,
        orphan: &Orphan,
        by: &Operator,
    ) -> Result<Option<String>, Problem> {
        let review = || Order::Review {
            code: orphan.code(),
            since: orphan.since,
        };
        let Some(poller) = overview.poller(&orphan.poller) else {
            return self.act_on_stray(overview, orphan, by, review()).await;
        };
        let said = |changed: bool, text: &str| changed.then(|| text.to_owned());
        match (self.strategy, orphan.kind) {
            (Strategy::Resume, OrphanKind::Quarantine) => redrive(poller, by).await,
            (Strategy::Resume, OrphanKind::Backfill) => Err(Problem::new(format!(
                "a backfill goes on by the command that began it: {}",
                orphan.says
            ))),
            (Strategy::Resume, _) => {
                let order = |evidence| Order::GoOn { evidence };
                let operated = poller.operate(by, Otherwise::Refuse, order).await?;
                Ok(said(!operated.already, "goes on with the next tick"))
            }
            // The live poller is not to blame.
            (Strategy::MarkFailed, OrphanKind::Backfill) => {
                let name = orphan.name.as_deref().unwrap_or_default();
                let what = format!("abandon the backfill {name}");
                let note = |_| Order::Note { what: what.clone() };
                poller.operate(by, Otherwise::Refuse, note).await?;
                let (_, changed) = Plan::abandon(poller, name, by).await?;
                Ok(said(changed, "abandoned"))
            }
            (Strategy::MarkFailed, _) => {
                let operated = poller
                    .operate(by, Otherwise::Refuse, |_| Order::Fail)
                    .await?;
                Ok(said(!operated.already, "marked failed"))
            }
            (Strategy::Review, _) => {
                let operated = poller.operate(by, Otherwise::Refuse, |_| review()).await?;
                Ok(said(!operated.already, "set aside for review"))
            }
        }
    }

    /// Its poller is gone: what cannot go on can be closed, or looked into.
    async fn act_on_stray(
        &self,
        overview: &Overview,
        orphan: &Orphan,
        by: &Operator,
        review: Order,
    ) -> Result<Option<String>, Problem> {
        let strays = overview.strays().await?;
        let Some(stray) = strays.into_iter().find(|stray| stray.name == orphan.poller) else {
            return Ok(None);
        };
        let (order, text) = match self.strategy {
            Strategy::Resume => {
                return Err(Problem::new(format!(
                    "there is no poller that could go on: configure {} again, or mark it failed",
                    orphan.poller
                )));
            }
            Strategy::MarkFailed => (Order::Fail, "marked failed"),
            Strategy::Review => (review, "set aside for review"),
        };
        let changed = stray.operate(by, &order).await?;
        Ok(changed.then(|| text.to_owned()))
    }

    /// Best effort: what was done is in the audit trail.
    async fn warn(&self, opened: &Opened, by: &Operator, resolved: &[Resolved]) -> Vec<String> {
        let name = self.target.poller.to_lowercase();
        let Some(webhook) = opened.warnings(&name) else {
            return Vec::new();
        };
        let mut untold = Vec::new();
        for Resolved { orphan, done, .. } in resolved {
            let Some(done) = done else { continue };
            let notice = json!({
                "event": "dbtick.resolved",
                "level": "warning",
                "app": opened.app_name(),
                "poller": orphan.poller,
                "kind": orphan.kind,
                "since": orphan.since,
                "says": orphan.says,
                "strategy": self.strategy.name(),
                "done": done,
                "who": by.who,
                "why": by.why,
                "at": opened.now(),
            });
            let id = format!("warning_{}_{}", by.id, orphan.kind.name());
            if let Err(failure) = webhook.post(&id, notice.to_string().into()).await {
                untold.push(failure.to_string());
            }
        }
        untold
    }

    fn report(
        &self,
        plan: rails::Plan,
        resolved: &[Resolved],
        untold: &[String],
    ) -> Result<(), Problem> {
        let problems: Vec<String> = resolved
            .iter()
            .filter_map(|one| {
                Some(format!(
                    "{}: {}",
                    one.orphan.kind.name(),
                    one.failed.as_ref()?
                ))
            })
            .collect();
        let problem = (!problems.is_empty()).then(|| Problem::new(problems.join("; ")));
        if self.rails.json {
            let all = resolved.iter().map(|one| {
                let Orphan { kind, since, .. } = &one.orphan;
                json!({ "kind": kind, "since": since, "done": one.done, "failed": one.failed })
            });
            let rest = json!({
                "ok": problem.is_none(),
                "changed": resolved.iter().any(|one| one.done.is_some()),
                "resolved": all.collect::<Vec<Value>>(),
                "untold": untold,
            });
            let object = plan.json(true, rest);
            return match problem {
                Some(problem) => Err(problem.in_detail(object)),
                None => {
                    say(&format!("{object}\n"));
                    Ok(())
                }
            };
        }
        for one in resolved.iter().filter(|one| one.failed.is_none()) {
            let done = one.done.as_deref().unwrap_or("there was nothing to change");
            say(&format!("{}: {done}\n", one.orphan.kind.name()));
        }
        for why in untold {
            say(&format!("the webhook in `warnings` was not told: {why}\n"));
        }
        problem.map_or(Ok(()), Err)
    }
}

async fn redrive(poller: &Poller, by: &Operator) -> Result<Option<String>, Problem> {
    let mut kept = poller.quarantined().await?.rows;
    kept.retain(|kept| !kept.superseded);
    let budget = Budget::starting(poller.clock.monotonic(), None);
    let results = poller
        .redrive(&kept, Redrive::default(), by, &budget)
        .await?;
    let count = |wanted: &dyn Fn(&Redriven) -> bool| results.iter().filter(|r| wanted(r)).count();
    let delivered = count(&|result| *result == Redriven::Delivered);
    let superseded = count(&|result| *result == Redriven::Superseded);
    let stay: Vec<&str> = results
        .iter()
        .filter_map(|result| match result {
            Redriven::Failed(why) => Some(why.as_str()),
            _ => None,
        })
        .collect();
    if let Some(first) = stay.first() {
        return Err(Problem::new(format!(
            "{delivered} sent again, {superseded} superseded, {} stay: {first}",
            stay.len()
        )));
    }
    Ok((!results.is_empty()).then(|| format!("{delivered} sent again, {superseded} superseded")))
}
