//! `dbtick unlock`: takes the lease from whoever has it.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::problem::{Problem, finish};
use super::rails::{Plan, Rails, Rows, standing};
use super::say;
use super::target::Target;
use crate::model::transitions::Order;
use crate::tick::Poller;
use crate::tick::operate::{Found, LeaseNow, Otherwise};

/// Take the lease from an instance that has died
///
/// Nobody needs to: a lease that is not renewed runs out, and the next tick takes it. This is for those who
/// cannot wait. The fencing token grows, so whoever had the lease can commit nothing more: rows may come
/// twice, none is lost.
#[derive(Debug, Args)]
pub(super) struct Unlock {
    #[command(flatten)]
    target: Target,
    /// Also when the lease has not expired, and its holder may be at work
    #[arg(long)]
    even_if_alive: bool,
    #[command(flatten)]
    rails: Rails,
}

impl Unlock {
    pub(super) async fn run(self) -> ExitCode {
        let json = self.rails.json;
        finish(self.unlock().await, json)
    }

    async fn unlock(&self) -> Result<(), Problem> {
        let (opened, poller) = self.target.open()?;
        let by = self.rails.operator(&opened)?;
        refuse_without_document(&poller).await?;
        let Some(lease) = poller.lease_now().await? else {
            self.say_free(&poller.name);
            return Ok(());
        };
        let plan = plan(&poller, &lease);
        if lease.is_alive && !self.even_if_alive && !self.rails.is_dry_run() {
            let owner = &lease.held.owner_id;
            return Err(Problem::new(format!(
                "nothing was changed: the lease of {} is alive, {owner} renewed it {}; if that instance is \
                 surely gone, say --even-if-alive, or wait: it runs out by itself",
                poller.name,
                ago(&lease)
            )));
        }
        if !self.rails.agreed(&plan, &poller.name)? {
            return Ok(());
        }
        let order = |evidence| Order::Unlock {
            token: lease.token,
            even_if_alive: self.even_if_alive,
            evidence,
        };
        let operated = poller.operate(&by, Otherwise::Refuse, order).await?;
        match self.rails.json || operated.already {
            true => self.rails.report(plan, &operated, None),
            false => say(&format!(
                "done: nobody has the lease of {} any more\n",
                poller.name
            )),
        }
        Ok(())
    }

    fn say_free(&self, name: &str) {
        match self.rails.json {
            true => {
                let object = json!({
                    "ok": true, "done": true, "what": "unlock", "poller": name, "changed": false,
                });
                say(&format!("{object}\n"));
            }
            false => say(&format!(
                "there was nothing to change: nobody has the lease of {name}\n"
            )),
        }
    }
}

async fn refuse_without_document(poller: &Poller) -> Result<(), Problem> {
    let found = poller.found().await?;
    match &found {
        Found::Document(_) | Found::Nothing { born: false } => Ok(()),
        Found::Nothing { born: true } | Found::Refused { .. } => {
            // Says what to do about it.
            poller.standing().await?;
            Err(Problem::new(standing(&found)))
        }
    }
}

fn plan(poller: &Poller, lease: &LeaseNow) -> Plan {
    let LeaseNow {
        held,
        token,
        is_alive,
        ..
    } = lease;
    let owner = &held.owner_id;
    let state = match is_alive {
        true => "alive",
        false => "expired",
    };
    let mut notes = vec![format!(
        "the token grows to {}: whatever {owner} still does, it cannot commit",
        token + 1
    )];
    notes.push(match is_alive {
        true => format!(
            "if {owner} is at work, what it delivers from now on comes again: duplicates, never loss"
        ),
        false => "the next tick would take it by itself".to_owned(),
    });
    Plan {
        what: "unlock",
        poller: poller.name.clone(),
        from: format!(
            "held by {owner} with token {token}, {state}; last heartbeat {}, {}",
            held.heartbeat_at.format("%Y-%m-%d %H:%M:%S"),
            ago(lease)
        ),
        to: "held by nobody".to_owned(),
        rows: Rows::unmoved(),
        notes,
    }
}

fn ago(lease: &LeaseNow) -> String {
    format!("{} s ago", lease.age.num_seconds().max(0))
}
