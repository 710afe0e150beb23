//! The crash: SIGKILL while the receiver has a batch and has not answered. What is delivered and
//! not committed comes again, so nothing is lost, and a receiver can tell by the ids.

use std::time::Duration;

use super::ledger::{Ledger, SharedLedger};
use super::receiver::{Arrival, Trap};
use super::view::{Tone, View, short};
use crate::clock::{Clock, SystemClock};
use crate::local::LocalHost;

/// Some ordinary ticks first.
const ORDINARY_LIFE: Duration = Duration::from_millis(2500);
/// For the eye.
const MOMENT: Duration = Duration::from_millis(400);
const AFTERWARDS: Duration = Duration::from_millis(1500);
/// The lease, its margin, a restart and two ticks take six seconds at most.
const LONGEST_RECOVERY: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Crash<'a> {
    pub(super) host: &'a LocalHost,
    pub(super) trap: &'a Trap,
    pub(super) ledger: SharedLedger,
    pub(super) view: &'a View,
}

impl Crash<'_> {
    pub(super) async fn show(&self) {
        tokio::time::sleep(ORDINARY_LIFE).await;
        let any_commit = |ledger: &Ledger| (ledger.committed > 0).then_some(());
        self.ledger.wait(any_commit).await;
        let Ok(held) = self.trap.set().await else {
            return;
        };
        tokio::time::sleep(MOMENT).await;
        self.kill(&held.arrival).await;
        let recovery = tokio::time::timeout(LONGEST_RECOVERY, self.recover(&held.arrival));
        if recovery.await.is_err() {
            let text = format!("batch {} did not come again", short(&held.arrival.batch));
            self.view.line(Tone::Alarm, "failed", &text);
        }
        tokio::time::sleep(AFTERWARDS).await;
    }

    async fn kill(&self, held: &Arrival) {
        let pid = self.host.handler_pid().unwrap_or_default();
        let text = format!(
            "handler {pid}; its batch {} is received, not answered, not committed",
            short(&held.batch)
        );
        self.view.line(Tone::Alarm, "kill -9", &text);
        self.host.kill_handler().await;
        self.ledger.change(|ledger| ledger.kills += 1);
    }

    async fn recover(&self, held: &Arrival) {
        let killed = SystemClock.monotonic();
        let token = self.ledger.wait(|ledger| ledger.came_again(held)).await;
        let past = |ledger: &Ledger| (ledger.committed >= held.last).then_some(ledger.committed);
        let committed = self.ledger.wait(past).await;
        let took = (SystemClock.monotonic() - killed).as_secs_f64();
        let lost = self.ledger.read(Ledger::lost_below_checkpoint);
        let text = format!(
            "batch {}: same batch id, same event ids, fencing token {} -> {token}",
            short(&held.batch),
            held.token
        );
        self.view.line(Tone::Good, "recovered", &text);
        let text = format!("in {took:.1} s; up to checkpoint id {committed}: {lost} rows lost");
        let tone = if lost == 0 { Tone::Good } else { Tone::Alarm };
        self.view.line(tone, "", &text);
    }
}
