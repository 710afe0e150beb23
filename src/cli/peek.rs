//! `dbtick peek`: the next rows that a tick would deliver. It holds no lease, sends nothing and writes
//! nothing.

use std::process::ExitCode;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::output;
use super::problem::{Problem, finish};
use super::say;
use super::target::Target;
use crate::model::plain::plain;
use crate::tick::Forecast;

/// Show the next rows that a tick would deliver, and deliver none of them
///
/// It takes no lease and writes nothing. Row data is shown only with --data. Where there is nothing to
/// deliver, it says why.
#[derive(Debug, Args)]
pub(super) struct Peek {
    #[command(flatten)]
    target: Target,
    /// How many rows at most
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rows: u16,
    /// Show what is in the rows, too
    #[arg(long)]
    data: bool,
    /// Print JSON, one object
    #[arg(long)]
    json: bool,
}

/// An event as it would be sent; numbers keep their digits.
#[derive(Debug, Serialize, Deserialize)]
struct Event<'a> {
    id: &'a str,
    op: &'a str,
    #[serde(borrow)]
    cursor: &'a RawValue,
    #[serde(borrow)]
    key: &'a RawValue,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    position: String,
    #[serde(flatten)]
    event: Event<'a>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    ok: bool,
    poller: &'a str,
    /// Why there are no rows.
    nothing: Option<&'a str>,
    rows: &'a [Line<'a>],
    /// There are more behind them.
    more: bool,
}

impl Peek {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.show().await, self.json)
    }

    async fn show(&self) -> Result<(), Problem> {
        let (_, poller) = self.target.open()?;
        let most = usize::from(self.rows);
        // One more tells whether there are more.
        let forecast = poller.forecast(most + 1).await?;
        let mut lines = self.lines(&forecast)?;
        let more = lines.len() > most;
        lines.truncate(most);
        if self.json {
            let report = Report {
                ok: true,
                poller: &poller.name,
                nothing: forecast.nothing.as_deref(),
                rows: &lines,
                more,
            };
            say(&format!("{}\n", serde_json::to_string(&report)?));
            return Ok(());
        }
        let name = &poller.name;
        if let Some(why) = &forecast.nothing {
            say(&format!("{name}: {why}\n"));
            return Ok(());
        }
        say(&output::show(&self.table(&lines)));
        let batch = poller.batch.max_rows;
        let last = match more {
            true => "; there are more behind them",
            false => ", and no more",
        };
        let rows = match lines.len() {
            1 => "1 row".to_owned(),
            rows => format!("{rows} rows"),
        };
        say(&format!(
            "{name}: a tick would deliver {rows} next, in batches of up to {batch}{last}\n"
        ));
        Ok(())
    }

    fn lines<'a>(&self, forecast: &'a Forecast) -> Result<Vec<Line<'a>>, Problem> {
        let events = forecast.pages.iter().flat_map(|page| {
            let events = page.events().iter();
            events.map(move |event| (&event.position, page.json(event)))
        });
        events
            .map(|(position, json)| {
                let mut event: Event<'_> = serde_json::from_slice(json)?;
                event.data = event.data.filter(|_| self.data);
                let position = position.to_string();
                Ok(Line { position, event })
            })
            .collect()
    }

    fn table(&self, lines: &[Line<'_>]) -> comfy_table::Table {
        let mut header = vec!["position", "op", "key", "event id"];
        header.extend(self.data.then_some("data"));
        let mut table = output::table(&header);
        for Line { position, event } in lines {
            let mut row = vec![
                position.clone(),
                event.op.to_owned(),
                plain(event.key.get()),
                event.id.to_owned(),
            ];
            row.extend(event.data.map(|data| plain(data.get())));
            table.add_row(row);
        }
        table
    }
}
