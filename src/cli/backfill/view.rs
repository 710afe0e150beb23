//! How far a backfill has come: a bar on a terminal, plain lines in a pipe, nothing beside JSON.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Instant, sleep};

use crate::backfill::Progress;
use crate::cli::say;
use crate::clock::{Clock, SystemClock};

const REDRAW: Duration = Duration::from_millis(200);
const NEXT_LINE: Duration = Duration::from_secs(5);
const TEMPLATE: &str = "{prefix} [{bar:24}] {percent}% {wide_msg}";

pub(super) struct View {
    title: String,
    progress: Arc<Progress>,
    started: Instant,
    how: How,
}

enum How {
    Bar(ProgressBar),
    Lines,
    Silent,
}

impl View {
    pub(super) fn new(poller: &str, name: &str, progress: Arc<Progress>, json: bool) -> Self {
        let title = format!("backfill {poller} {name}");
        let how = match (json, stderr().is_terminal()) {
            (true, _) => How::Silent,
            (false, false) => How::Lines,
            (false, true) => {
                let target = ProgressDrawTarget::stderr();
                let bar = ProgressBar::with_draw_target(Some(progress.total()), target);
                let style = ProgressStyle::with_template(TEMPLATE);
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                bar.set_prefix(title.clone());
                How::Bar(bar)
            }
        };
        Self {
            title,
            started: SystemClock.monotonic(),
            progress,
            how,
        }
    }

    pub(super) async fn run(&self) {
        loop {
            let pause = match &self.how {
                How::Bar(bar) => {
                    bar.set_length(self.progress.total());
                    bar.set_position(self.progress.done());
                    bar.set_message(self.text());
                    REDRAW
                }
                How::Lines => {
                    say(&format!("{}: {}\n", self.title, self.text()));
                    NEXT_LINE
                }
                How::Silent => NEXT_LINE,
            };
            sleep(pause).await;
        }
    }

    pub(super) fn finish(&self) {
        if let How::Bar(bar) = &self.how {
            bar.set_position(self.progress.done());
            bar.abandon_with_message(self.text());
        }
    }

    /// `120 of 1000 rows, 40 rows/s, 22 s left`
    fn text(&self) -> String {
        let (done, total) = (self.progress.done(), self.progress.total());
        let mut text = format!("{done} of {total} rows");
        let seconds = (SystemClock.monotonic() - self.started).as_secs_f64();
        let rate = done.saturating_sub(self.progress.before()) as f64 / seconds.max(0.001);
        if self.progress.is_reconciling() {
            text += ", reconciling";
        } else if rate >= 1.0 {
            let left = total.saturating_sub(done) as f64 / rate;
            text += &format!(", {rate:.0} rows/s, {} left", time(left));
        }
        if let Some(note) = self.progress.note() {
            text += &format!("; {note}");
        }
        text
    }
}

fn time(seconds: f64) -> String {
    match seconds as u64 {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds if seconds < 7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}
