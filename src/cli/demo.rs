//! `dbtick demo`: the whole job on embedded parts, and what a crash does to it (nothing).
//!
//! A throw-away app runs under the local host by the real protocol: this very program is its custom
//! handler. The demo itself only inserts rows, receives batches and looks at the state file.

mod app;
mod checkpoint;
mod crash;
mod intro;
mod ledger;
mod receiver;
mod stage;
mod summary;
mod view;
mod writer;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio_util::sync::CancellationToken;

use self::app::{DemoApp, FUNCTION};
use self::checkpoint::{CheckpointFile, Standing};
use self::crash::Crash;
use self::ledger::SharedLedger;
use self::receiver::Receiver;
use self::stage::Stage;
use self::view::View;
use self::writer::Writer;
use super::{dev, fail, interrupted};
use crate::config::{Settings, human};
use crate::local::{HostOptions, LocalHost};

/// The handler is killed on purpose: the host must not give up on it.
const RESTART_BUDGET: u32 = 1000;
/// A lease that has to be waited out, and some ticks.
const LONGEST_DRAIN: Duration = Duration::from_secs(20);
const BETWEEN_DRAINING_TICKS: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// End by itself after this time, such as 10s; without it Ctrl-C ends the demo
    #[arg(long = "for", value_name = "TIME", value_parser = human::duration)]
    length: Option<Duration>,
    /// Kill the handler in the middle of a batch, and show that nothing is lost
    #[arg(long)]
    crash: bool,
    /// Rows inserted per second, on average
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=5000))]
    rate: u32,
    /// Leave the app, the table and the state behind
    #[arg(long)]
    keep: bool,
}

impl Demo {
    pub(super) async fn run(self) -> ExitCode {
        let view = View::new(&Settings::process());
        match self.play(&view).await {
            Ok(code) => code,
            Err(problem) => {
                view.close();
                fail(&problem)
            }
        }
    }

    async fn play(&self, view: &View) -> Result<ExitCode, String> {
        let ledger = SharedLedger::default();
        let receiver = Receiver::start(ledger.clone(), app::batch_rows(self.rate)).await?;
        let app = DemoApp::build(receiver.url(), self.rate)?;
        let writer = Writer::open(&app.database, ledger.clone(), self.rate).await?;
        let host = start_host(&app).await?;
        let page = page(&app, &host)?;
        view.print(&intro::text(&app, &page, self.length, self.crash));
        view.print("");

        let mut stage = Stage {
            view,
            ledger: ledger.clone(),
            arrivals: receiver.arrivals,
            events: host.events(),
            checkpoint: CheckpointFile::new(&app.state)?,
            standing: Standing::default(),
            shown_checkpoint: 0,
            ending: false,
        };
        let crash = Crash {
            host: &host,
            trap: &receiver.trap,
            ledger: ledger.clone(),
            view,
        };
        let stop_writing = CancellationToken::new();
        let writing = tokio::spawn(writer.write_until(stop_writing.clone()));
        let end = async {
            tokio::select! {
                end = self.end(&host, crash) => end,
                () = stop_writing.cancelled() => Ok(()),
            }
        };
        let stopped = stage.show_until(end).await;
        stop_writing.cancel();
        let written = writing.await.map_err(|error| error.to_string())?;
        if stopped.is_ok() {
            view.say_draining();
            stage.ending = true;
            stage.show_until(drained(&host, &ledger)).await;
        }
        host.shutdown().await;
        view.close();
        stopped.and(written)?;

        let kept = app.finish(self.keep)?;
        let summary = ledger.read(summary::Summary::of);
        view.conclude(&summary, kept.as_deref());
        Ok(ExitCode::from(u8::from(!summary.is_complete())))
    }

    /// The end of the run: Ctrl-C, a reader that went away, the time, or the end of the crash. A
    /// crash that has begun is shown to its end. `Err` when the host stopped by itself.
    async fn end(&self, host: &LocalHost, crash: Crash<'_>) -> Result<(), String> {
        let view = crash.view;
        let length = async {
            match (self.length, self.crash) {
                (Some(length), _) => tokio::time::sleep(length).await,
                (None, true) => {}
                (None, false) => std::future::pending().await,
            }
        };
        let crash = async {
            if self.crash {
                crash.show().await;
            }
        };
        tokio::select! {
            biased;
            () = interrupted() => Ok(()),
            () = view.reader_gone() => Ok(()),
            reason = host.wait() => Err(reason.to_string()),
            _ = futures_util::future::join(length, crash) => Ok(()),
        }
    }
}

async fn start_host(app: &DemoApp) -> Result<LocalHost, String> {
    let options = HostOptions {
        http_port: Some(0),
        restart_budget: Some(RESTART_BUDGET),
        ..HostOptions::default()
    };
    let directory = app.read()?;
    LocalHost::start(directory, options)
        .await
        .map_err(|error| error.to_string())
}

/// To be opened in a browser while it runs.
fn page(app: &DemoApp, host: &LocalHost) -> Result<String, String> {
    let status = dev::status_function(&app.read()?);
    let address = status.map(|status| dev::page_address(host, &status));
    Ok(address.unwrap_or_default())
}

/// Ticks by hand until every row has arrived and is committed, for as long as that may take; a
/// second Ctrl-C cuts it short, and the summary then says what is missing.
async fn drained(host: &LocalHost, ledger: &SharedLedger) {
    let ticks = async {
        while !ledger.read(ledger::Ledger::is_settled) {
            host.invoke(FUNCTION).await;
            tokio::time::sleep(BETWEEN_DRAINING_TICKS).await;
        }
    };
    tokio::select! {
        biased;
        () = interrupted() => {}
        _ = host.wait() => {}
        _ = tokio::time::timeout(LONGEST_DRAIN, ticks) => {}
    }
}
