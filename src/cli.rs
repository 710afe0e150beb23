//! argv → command → exit code.

mod adopt;
mod app_files;
mod backfill;
mod check;
mod clone;
mod demo;
mod dev;
mod history;
mod init;
mod local_app;
mod manual;
mod new;
mod orphans;
mod output;
mod pause;
mod peek;
mod problem;
mod quarantine;
mod rails;
mod reconcile;
mod reset;
mod reshard;
mod resolve;
mod rollback;
mod schema;
mod serve;
mod state;
mod status;
mod target;
mod tick;
mod trace;
mod unlock;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Settings;
use crate::telemetry;

/// Turns any SQL table into an Azure Functions trigger, and loses no row.
///
/// dbtick is the custom handler of a Functions app. It is a pseudo trigger on timers, not a native
/// database trigger: rows are delivered at least once, so receivers must be idempotent (by event id).
#[derive(Debug, Parser)]
#[command(name = "dbtick", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Be the custom handler: the Functions host runs this
    Serve(serve::Serve),
    /// Run a Functions app directory locally, without Core Tools
    Dev(dev::Dev),
    /// See it work on embedded parts: SQLite, file state, a built-in receiver
    Demo(demo::Demo),
    New(new::New),
    /// Look at a table and write the function.json that polls it
    Init(init::Init),
    /// Parse, connect and grade every poller of an app
    Check(check::Check),
    Status(status::Status),
    Peek(peek::Peek),
    Tick(tick::Tick),
    Trace(trace::Trace),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Unlock(unlock::Unlock),
    History(history::History),
    Rollback(rollback::Rollback),
    Reset(reset::Reset),
    Reshard(reshard::Reshard),
    Adopt(adopt::Adopt),
    Clone(clone::Clone),
    State(state::State),
    Quarantine(quarantine::Quarantine),
    Orphans(orphans::Orphans),
    Resolve(resolve::Resolve),
    Backfill(backfill::Backfill),
    Reconcile(reconcile::Reconcile),
    /// Print a JSON Schema: of the poller block, or of the batches that receivers get
    Schema(schema::Schema),
    Completions(manual::Completions),
    Man(manual::Man),
}

/// A write that waits for somebody else's lock is given up after this; it may land or not, as in
/// any crash.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// Exit codes: 0 fine · 1 something is wrong with what was asked for · 2 wrong usage, or not confirmed.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let settings = Settings::process();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}")),
    };
    let telemetry = match cli.command {
        Command::Serve(_) => match telemetry::start(&settings, runtime.handle()) {
            Ok(telemetry) => Some(telemetry),
            Err(error) => return fail(&format!("cannot start: {error}")),
        },
        _ => None,
    };
    let code = runtime.block_on(async {
        match cli.command {
            Command::Serve(serve) => serve.run(&settings).await,
            Command::Dev(dev) => dev.run().await,
            Command::Demo(demo) => demo.run().await,
            Command::New(new) => new.run().await,
            Command::Init(init) => init.run().await,
            Command::Check(check) => check.run().await,
            Command::Status(status) => status.run().await,
            Command::Peek(peek) => peek.run().await,
            Command::Tick(tick) => tick.run().await,
            Command::Trace(trace) => trace.run().await,
            Command::Unlock(unlock) => unlock.run().await,
            Command::Pause(pause) => pause.run().await,
            Command::Resume(resume) => resume.run().await,
            Command::History(history) => history.run().await,
            Command::Rollback(rollback) => rollback.run().await,
            Command::Reset(reset) => reset.run().await,
            Command::Reshard(reshard) => reshard.run().await,
            Command::Adopt(adopt) => adopt.run().await,
            Command::Clone(clone) => clone.run().await,
            Command::State(state) => state.run().await,
            Command::Quarantine(quarantine) => quarantine.run().await,
            Command::Orphans(orphans) => orphans.run().await,
            Command::Resolve(resolve) => resolve.run().await,
            Command::Backfill(backfill) => backfill.run().await,
            Command::Reconcile(reconcile) => reconcile.run().await,
            Command::Schema(schema) => schema.run(),
            Command::Completions(completions) => completions.run::<Cli>(),
            Command::Man(man) => man.run::<Cli>(),
        }
    });
    if let Some(telemetry) = telemetry {
        telemetry.stop();
    }
    runtime.shutdown_timeout(LAST_WRITES);
    code
}

/// Whether these are arguments of ours, for the test of the docs; nothing is run.
pub fn understand<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<(), clap::Error> {
    Cli::try_parse_from(std::iter::once("dbtick").chain(arguments)).map(drop)
}

/// For output that may be piped into `head`: a reader that has seen enough is no error.
fn say(text: &str) {
    std::io::stdout().lock().write_all(text.as_bytes()).ok();
}

/// The same, on stderr.
fn complain(text: &str) {
    std::io::stderr().lock().write_all(text.as_bytes()).ok();
}

/// An error and its causes on one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Says what is wrong on stderr.
fn fail(problem: &str) -> ExitCode {
    complain(&format!("dbtick: {problem}\n"));
    ExitCode::FAILURE
}

/// SIGTERM (containers) or Ctrl-C. The Functions host itself sends SIGKILL.
async fn interrupted() {
    let (Ok(mut term), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        biased;
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
}
