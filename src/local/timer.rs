//! The listener of one timer: never two runs at once; a run that overruns its next time is
//! followed by one immediate run, not by a backlog.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::app::{Function, TimerTrigger};
use super::envelope::{Members, TriggerData, dotnet_time};
use super::event::{LogLevel, LogSource};
use super::invocation::Invoker;

mod status;

use status::Status;

/// The wall clock is asked again at least this often: machines sleep, clocks jump.
const LONGEST_NAP: Duration = Duration::from_secs(30);
const NEVER: &str = "0001-01-01T00:00:00";

/// Fires the timer until the host stops.
pub(super) async fn listen(invoker: Arc<Invoker>, function: Function, timer: TimerTrigger) {
    let now = invoker.clock.now();
    let monitored = is_monitored(&timer, now);
    let file = invoker
        .status_directory
        .as_ref()
        .filter(|_| monitored)
        .map(|folder| folder.join(format!("{}.json", function.name)));
    let (mut status, mut past_due) = Status::resume(file.as_deref(), &timer.schedule, now);
    let mut due = past_due || timer.run_on_startup;
    loop {
        if !due {
            tokio::select! {
                () = until(&invoker, status.next) => {}
                () = invoker.stopping.cancelled() => return,
            }
        }
        if invoker.stopping.is_cancelled() {
            return;
        }
        let at = invoker.clock.now();
        let scheduled = if due { at } else { at.max(status.next) };
        let info = info(&timer, monitored.then_some(&status), past_due);
        (due, past_due) = (false, false);
        invoker.invoke(&function, info).await;
        status = Status {
            last: Some(scheduled),
            next: timer.schedule.next_after(scheduled),
        };
        if file.as_ref().is_some_and(|file| !status.keep(file)) {
            let line = format!("the status of timer {} cannot be written", function.name);
            invoker
                .reporter
                .log(LogSource::Host, LogLevel::Warning, line);
        }
    }
}

/// What a manual run carries: no listener, so no status.
pub(super) fn manual(timer: &TimerTrigger) -> TriggerData {
    info(timer, None, false)
}

fn is_monitored(timer: &TimerTrigger, now: DateTime<Utc>) -> bool {
    timer.use_monitor && !timer.schedule.is_sub_minute(now)
}

async fn until(invoker: &Invoker, time: DateTime<Utc>) {
    loop {
        let left = time - invoker.clock.now();
        if left <= TimeDelta::zero() {
            return;
        }
        tokio::time::sleep(left.to_std().unwrap_or_default().min(LONGEST_NAP)).await;
    }
}

fn info(timer: &TimerTrigger, status: Option<&Status>, past_due: bool) -> TriggerData {
    let status = status.map(|status| {
        let last = status.last.map_or_else(|| NEVER.to_owned(), dotnet_time);
        Members::default()
            .with("Last", &format!("{last}+00:00"))
            .with("Next", &format!("{}+00:00", dotnet_time(status.next)))
            .with("LastUpdated", &format!("{last}+00:00"))
    });
    let schedule = Members::default().with("AdjustForDST", &timer.schedule.adjusts_for_dst());
    let info = Members::default()
        .with("Schedule", &schedule)
        .with("ScheduleStatus", &status)
        .with("IsPastDue", &past_due);
    TriggerData::new(&info)
}
