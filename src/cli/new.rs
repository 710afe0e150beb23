//! `dbtick new`: a complete app, ready to run.

mod layout;
mod sample_database;
mod template;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::app_files::is_function_name;
use super::output::{object, show, table};
use super::problem::{Problem, finish};
use super::target::quoted;
use super::{local_app, say};
use crate::config::{App, Connection, Settings};
use layout::{Chosen, Layout, Written};
use template::{Database, Template};

/// The app setting that the templates read their tables by.
const CONNECTION: &str = "ORDERS_DB";
/// Without a word: rows go to a webhook, and there is a page to look at.
const DEFAULT: [&str; 2] = ["poll-webhook", "status"];

/// Lay out a new app from templates, ready for `dbtick dev` and `func start`
///
/// With SQLite, which it begins with unless told, the database is created with the tables and some rows. For a
/// server, the statements to run lie in APP/tables. In an app that is there already, --template adds functions;
/// what belongs to the whole app (host.json, local.settings.json, …) is never overwritten.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dbtick new shop
  dbtick new shop --template outbox --template poll-webhook=orders --database postgres
  dbtick new --list")]
pub(super) struct New {
    /// Directory of the app
    #[arg(required_unless_present = "list")]
    app: Option<PathBuf>,
    /// A function by this template, under its name or another: NAME or NAME=FUNCTION [default: poll-webhook and status]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    template: Vec<String>,
    /// Which SQL the tables are written in [default: that of ORDERS_DB, else sqlite]
    #[arg(long, value_enum)]
    database: Option<Database>,
    /// Show the templates, and write nothing
    #[arg(long)]
    list: bool,
    /// Overwrite functions that are there, and use a directory that holds other things
    #[arg(long)]
    force: bool,
    /// Print JSON, one object
    #[arg(long)]
    json: bool,
}

/// A command to be given now, and what it is for.
#[derive(Debug, Serialize)]
struct Step {
    command: String,
    why: &'static str,
}

impl New {
    pub(super) async fn run(self) -> ExitCode {
        let result = match &self.app {
            Some(app) if !self.list => self.lay_out(app).await,
            _ => self.show_all().map_err(Problem::from),
        };
        finish(result, self.json)
    }

    fn show_all(&self) -> Result<(), serde_json::Error> {
        if self.json {
            let one = |template: &Template| json!({ "name": template.name, "summary": template.summary() });
            let all: Vec<Value> = template::ALL.iter().map(one).collect();
            return object(true, &json!({ "templates": all }));
        }
        let mut lines = table(&["template", "what it is for"]);
        for template in template::ALL {
            lines.add_row([template.name, template.summary()]);
        }
        say(&show(&lines));
        Ok(())
    }

    async fn lay_out(&self, app: &Path) -> Result<(), Problem> {
        let chosen = self.chosen()?;
        let is_new = self.look_at(app)?;
        if !is_new && self.template.is_empty() {
            return Err(Problem::usage(format!(
                "{} is an app already; to add a function to it, say which: --template NAME (`dbtick new --list` shows them)",
                app.display()
            )));
        }
        let database = self.database.unwrap_or_else(|| database_of(app));
        let layout = Layout::of(app, &chosen, database);
        let written = layout.write(self.force)?;
        let file = app.join("orders.db");
        let begins = written.has("local.settings.json") && database == Database::Sqlite;
        let created = begins && !layout.tables.is_empty() && !file.exists();
        if created {
            sample_database::create(&file, &layout.tables).await?;
        }
        let steps = steps(app, &chosen, &layout, &written, database, created);
        self.tell(&written, created.then_some(&*file), &faults(app), &steps)?;
        Ok(())
    }

    /// Each with the one that it needs.
    fn chosen(&self) -> Result<Vec<Chosen>, Problem> {
        let mut chosen: Vec<Chosen> = Vec::new();
        let asked: Vec<&str> = match self.template.as_slice() {
            [] => DEFAULT.to_vec(),
            asked => asked.iter().map(String::as_str).collect(),
        };
        for asked in asked {
            chosen.push(parse(asked)?);
        }
        let needed: Vec<&str> = chosen.iter().filter_map(|one| one.template.with).collect();
        for name in needed {
            if !chosen.iter().any(|one| one.template.name == name) {
                chosen.push(parse(name)?);
            }
        }
        for (index, one) in chosen.iter().enumerate() {
            let mut earlier = chosen[..index].iter();
            // A file system may not tell them apart, and the host does not.
            if earlier.any(|other| other.function.eq_ignore_ascii_case(&one.function)) {
                return Err(Problem::usage(format!(
                    "two functions would be called {:?}: give one another name, --template {}=NAME",
                    one.function, one.template.name
                )));
            }
        }
        Ok(chosen)
    }

    /// Whether it is to become an app, and not one already.
    fn look_at(&self, app: &Path) -> Result<bool, Problem> {
        let shown = app.display();
        let unreadable =
            |error: io::Error| Problem::new(format!("{shown} cannot be read: {error}"));
        let mut entries = match fs::read_dir(app) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(Problem::new(format!(
                    "{shown} is a file, or below one: name a directory"
                )));
            }
            Err(error) => return Err(unreadable(error)),
        };
        match fs::read_to_string(app.join("host.json")) {
            Ok(host) if is_ours(&host) => Ok(false),
            Ok(_) => Err(Problem::new(format!(
                "{shown} is an app with another handler than dbtick (its host.json says so), and an app has only one: name a directory of its own"
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if entries.next().is_some() && !self.force {
                    return Err(Problem::new(format!(
                        "{shown} is not empty, and no app (it has no host.json): name another directory, or say --force to lay out the app between what is there"
                    )));
                }
                Ok(true)
            }
            Err(error) => Err(unreadable(error)),
        }
    }

    fn tell(
        &self,
        written: &Written,
        created: Option<&Path>,
        faults: &[String],
        steps: &[Step],
    ) -> Result<(), serde_json::Error> {
        if self.json {
            let Written { wrote, kept } = written;
            return object(
                true,
                &json!({ "wrote": wrote, "kept": kept, "created": created, "faults": faults, "next": steps }),
            );
        }
        for path in &written.kept {
            say(&format!("kept    {}\n", path.display()));
        }
        for path in &written.wrote {
            say(&format!("wrote   {}\n", path.display()));
        }
        if let Some(file) = created {
            say(&format!("created {} with some rows\n", file.display()));
        }
        for fault in faults {
            say(&format!("mind: {fault}\n"));
        }
        say("\nnext:\n");
        let widest = steps.iter().map(|step| step.command.chars().count()).max();
        let width = widest.unwrap_or_default();
        for Step { command, why } in steps {
            say(&format!("  {command:width$}  # {why}\n"));
        }
        Ok(())
    }
}

/// `NAME` or `NAME=FUNCTION`.
fn parse(asked: &str) -> Result<Chosen, Problem> {
    let (name, function) = asked.split_once('=').unwrap_or((asked, asked));
    let Some(template) = template::named(name) else {
        let meant = match template::like(name) {
            Some(meant) => format!("did you mean {meant}? "),
            None => String::new(),
        };
        return Err(Problem::usage(format!(
            "there is no template {name:?}; {meant}`dbtick new --list` shows them"
        )));
    };
    if !is_function_name(function) {
        return Err(Problem::usage(format!(
            "{function:?} is no name of a function: write letters, digits, - and _, beginning with a letter"
        )));
    }
    let is_named_by_another = template::ALL.iter().any(|other| other.with == Some(name));
    if is_named_by_another && function != name {
        return Err(Problem::usage(format!(
            "the function of the template {name} keeps that name, because others call it by it; rename it by hand in both places"
        )));
    }
    let function = function.to_owned();
    Ok(Chosen { template, function })
}

/// Whether dbtick is the custom handler, by whatever path.
fn is_ours(host: &str) -> bool {
    let host: Value = serde_json::from_str(host).unwrap_or_default();
    let executable = host.pointer("/customHandler/description/defaultExecutablePath");
    let executable = executable.and_then(Value::as_str).unwrap_or_default();
    Path::new(executable)
        .file_stem()
        .is_some_and(|name| name == "dbtick")
}

/// Of the connection that the app has, if it has one.
fn database_of(app: &Path) -> Database {
    let settings = local_app::settings(app).unwrap_or_default();
    let root = std::path::absolute(app).unwrap_or_else(|_| app.to_owned());
    match Connection::resolve(&settings, &root, CONNECTION) {
        Ok(Connection::Postgres(_)) => Database::Postgres,
        Ok(Connection::MySql(_)) => Database::Mysql,
        Ok(Connection::Sqlite { .. }) | Err(_) => Database::Sqlite,
    }
}

/// What `check` would say before it looks at any database.
fn faults(app: &Path) -> Vec<String> {
    let directory = match local_app::read(app, None) {
        Ok(directory) => directory,
        Err(error) => return error.faults.iter().map(ToString::to_string).collect(),
    };
    let settings: Settings = directory.environment.iter().collect();
    let app = App::load(&directory.root, &settings);
    app.faults().map(ToString::to_string).collect()
}

fn steps(
    app: &Path,
    chosen: &[Chosen],
    layout: &Layout,
    written: &Written,
    database: Database,
    created: bool,
) -> Vec<Step> {
    let at = |name: &str| quoted(&app.join(name).display().to_string());
    let mut steps = Vec::new();
    let mut step = |command: String, why| steps.push(Step { command, why });
    let any = |is: fn(&Template) -> bool| chosen.iter().any(|one| is(one.template));
    if written.has("local.settings.json") && database != Database::Sqlite {
        step(
            format!("edit {}", at("local.settings.json")),
            "ORDERS_DB is your database; now it is one on this machine",
        );
    }
    let is_fresh = written.has("local.settings.json");
    for table in layout.tables.iter().filter(|_| !created) {
        let name = format!("tables/{}.sql", table.name);
        if !written.has(&name) {
            continue;
        }
        let client = match database {
            Database::Sqlite => format!("sqlite3 {}", at("orders.db")),
            Database::Postgres if is_fresh => format!("psql {}", database.connection()),
            Database::Postgres => "psql \"$ORDERS_DB\"".to_owned(),
            Database::Mysql if is_fresh => "mysql -h 127.0.0.1 -u root -p shop".to_owned(),
            Database::Mysql => "mysql -p DATABASE".to_owned(),
        };
        step(
            format!("{client} < {}", at(&name)),
            "the table; rows to try it with lie beside it, in .rows.sql",
        );
    }
    if any(Template::puts) {
        let command = "npx azurite --silent --location ~/.azurite".to_owned();
        step(command, "the storage emulator, in a second terminal");
    }
    if any(Template::posts) {
        let command = format!("python3 {}", at("receiver.py"));
        step(command, "takes what arrives, in another terminal");
    }
    let app = quoted(&app.display().to_string());
    step(
        format!("dbtick check {app}"),
        "connects, and grades every poller",
    );
    step(
        format!("dbtick dev {app}"),
        "runs it; or func start in that directory, with dbtick on the PATH, and Azurite",
    );
    for one in chosen.iter().filter(|one| one.template.name == "backfill") {
        let command = format!("dbtick backfill {} --app {app}", one.function);
        step(command, "when it has ticked once: what was there before");
    }
    steps
}
