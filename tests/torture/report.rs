//! What a run came to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, presets};
use serde_json::{Value, json};

use super::planted::POINTS;
use super::reconcile::{Account, Accounts, Promise, Violation};
use super::{Counts, World};

/// Of each promise that was broken.
const MOST_SHOWN: usize = 5;

#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) counts: Counts,
    /// By the name of the database.
    pub(crate) sources: Vec<(&'static str, Account)>,
    pub(crate) violations: Vec<Violation>,
    pub(crate) harms: u64,
    /// Conditional writes that lost.
    pub(crate) refused: usize,
    /// Until nobody did any harm any more.
    pub(crate) chaos: Duration,
    pub(crate) directory: PathBuf,
}

impl Report {
    pub(crate) fn of(world: &World, accounts: &Accounts, chaos: Duration) -> Self {
        let sources = world.options.sources.iter();
        Self {
            seed: world.options.seed,
            counts: world.counts.lock().unwrap().clone(),
            sources: sources
                .map(|source| (source.name(), accounts.of(*source)))
                .collect(),
            violations: accounts.violations.clone(),
            harms: world.proxies.iter().map(|proxy| proxy.harms()).sum(),
            refused: world.documents.refused(),
            chaos,
            directory: world.directory.clone(),
        }
    }

    pub(crate) fn table(&self) -> String {
        let header = [
            "source",
            "rows",
            "versions",
            "deliveries",
            "kills",
            "random",
            "at a point",
            "zombies",
            "restarts",
            "lost",
            "duplicates",
            "per kill",
            "read again",
            "set aside",
            "longest outage",
            "seconds",
        ];
        let mut table = comfy_table::Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(header);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for (source, account) in &self.sources {
            let Counts {
                random,
                unreached,
                zombies,
                outages,
                ..
            } = &self.counts;
            table.add_row([
                (*source).to_owned(),
                account.rows.to_string(),
                account.versions.to_string(),
                account.deliveries.to_string(),
                self.counts.kills().to_string(),
                (random + unreached).to_string(),
                self.counts.at_named_points().to_string(),
                zombies.to_string(),
                outages.get(source).unwrap_or(&0).to_string(),
                account.lost.to_string(),
                account.duplicates.to_string(),
                format!("{:.1}", self.per_kill(account)),
                account.read_again.to_string(),
                account.quarantined.to_string(),
                format!("{:.1} s", account.longest_outage.as_secs_f64()),
                format!("{:.0}", self.chaos.as_secs_f64()),
            ]);
        }
        let lines = table.to_string();
        let lines = lines.lines().map(|line| format!("{}\n", line.trim_end()));
        lines.collect()
    }

    /// Without those that come because a restarted database is read again: that is meant.
    fn per_kill(&self, account: &Account) -> f64 {
        let kills = self.counts.kills() + self.counts.zombies;
        (account.duplicates - account.read_again) as f64 / kills.max(1) as f64
    }

    /// What else there was, so that nobody takes a quiet world for a safe one.
    pub(crate) fn beside(&self) -> String {
        let Counts {
            ticks,
            good_ticks,
            failed_ticks,
            unanswered_ticks,
            at_points,
            ..
        } = &self.counts;
        let sum = |of: fn(&Account) -> usize| {
            self.sources
                .iter()
                .map(|(_, account)| of(account))
                .sum::<usize>()
        };
        let missed: Vec<&str> = POINTS
            .iter()
            .copied()
            .filter(|point| !at_points.contains_key(point))
            .collect();
        let missed = match missed.is_empty() {
            true => "every named point was died at".to_owned(),
            false => format!(
                "{} of {} named points were died at, not {}",
                at_points.len(),
                POINTS.len(),
                missed.join(", ")
            ),
        };
        format!(
            "{ticks} ticks ({good_ticks} good, {failed_ticks} failed, {unanswered_ticks} without an answer), {} exchanges harmed, \
             {} versions of documents, {} leases taken over, {} batches of holders who had lost theirs, {} writes refused by the \
             store; {missed}\n",
            self.harms,
            sum(|account| account.documents),
            sum(|account| account.takeovers),
            sum(|account| account.stale),
            self.refused,
        )
    }

    fn by_promise(&self) -> BTreeMap<Promise, Vec<&Violation>> {
        let mut by_promise: BTreeMap<_, Vec<&Violation>> = BTreeMap::new();
        for violation in &self.violations {
            let entry = by_promise.entry(violation.promise);
            entry.or_default().push(violation);
        }
        by_promise
    }

    /// Which promises, and how often.
    pub(crate) fn broken(&self) -> String {
        let broken = self.by_promise().into_iter();
        let broken = broken.map(|(promise, all)| format!("{promise:?} ({})", all.len()));
        broken.collect::<Vec<_>>().join(", ")
    }

    /// Nothing, where nothing is wrong.
    pub(crate) fn complaints(&self) -> String {
        let mut text = String::new();
        for (promise, violations) in self.by_promise() {
            text += &format!("{promise:?}: {} times\n", violations.len());
            for violation in violations.iter().take(MOST_SHOWN) {
                text += &format!("  {}: {}\n", violation.poller, violation.what);
            }
        }
        if !text.is_empty() {
            text += &format!(
                "Logs of writers, receivers, documents, faults and handlers are kept in {}\n",
                self.directory.display()
            );
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let sources = self.sources.iter().map(|(source, account)| {
            json!({
                "source": source, "rows": account.rows, "versions": account.versions,
                "deliveries": account.deliveries,
                "restarts": self.counts.outages.get(source).unwrap_or(&0),
                "lost": account.lost, "duplicates": account.duplicates,
                "duplicates_per_kill": self.per_kill(account), "read_again": account.read_again,
                "quarantined": account.quarantined, "documents": account.documents,
                "takeovers": account.takeovers, "stale_batches": account.stale,
                "longest_outage_s": account.longest_outage.as_secs_f64(),
            })
        });
        let violations = self.violations.iter().map(|violation| {
            json!({
                "promise": format!("{:?}", violation.promise),
                "poller": violation.poller, "what": violation.what,
            })
        });
        json!({
            "ok": self.violations.is_empty(), "seed": self.seed,
            "kills": self.counts.kills(), "random": self.counts.random + self.counts.unreached,
            "at_points": self.counts.at_points, "zombies": self.counts.zombies,
            "ticks": self.counts.ticks, "harmed_exchanges": self.harms, "refused_writes": self.refused,
            "seconds": self.chaos.as_secs_f64(),
            "sources": sources.collect::<Value>(), "violations": violations.collect::<Value>(),
        })
    }
}
