//! What is written where, decided before the first file is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::template::{Database, Table, Template};
use crate::cli::app_files::{HOST_JSON, write_whole};
use crate::cli::problem::Problem;

const SETTINGS: &str = include_str!("../../../local.settings.sample.json");
const RECEIVER: &str = include_str!("../../../samples/python/receiver.py");
/// Secrets and what grows while one works.
const GITIGNORE: &str = "local.settings.json\n*.db\n*.db-*\n__pycache__/\n";
/// What `func azure functionapp publish` must leave out.
const FUNCIGNORE: &str =
    ".git*\n*.db\n*.db-*\n*.md\n__pycache__\nlocal.settings*.json\nreceiver.py\ntables\n";
/// Only timers and HTTP are built into the host.
const BUNDLE: &str = "\"version\": \"2.0\",
  \"extensionBundle\": { \"id\": \"Microsoft.Azure.Functions.ExtensionBundle\", \"version\": \"[4.*, 5.0.0)\" },";

/// A function of the new app.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) template: &'static Template,
    pub(super) function: String,
}

#[derive(Debug)]
pub(super) struct Layout {
    files: Vec<File>,
    pub(super) tables: Vec<Table>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    text: String,
    /// Belongs to one function, and may be written over by force. What belongs to the whole app is left
    /// alone where it is there already.
    is_of_function: bool,
}

/// What became of the files.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) wrote: Vec<PathBuf>,
    pub(super) kept: Vec<PathBuf>,
}

impl Written {
    pub(super) fn has(&self, name: &str) -> bool {
        self.wrote.iter().any(|path| path.ends_with(name))
    }
}

impl Layout {
    pub(super) fn of(app: &Path, chosen: &[Chosen], database: Database) -> Self {
        let mut files = Vec::new();
        let mut add = |name: String, text: String, is_of_function| {
            let path = app.join(name);
            files.push(File {
                path,
                text,
                is_of_function,
            });
        };
        let any = |is: fn(&Template) -> bool| chosen.iter().any(|one| is(one.template));
        let host = match any(|template| template.has_extension) {
            true => HOST_JSON.replace("\"version\": \"2.0\",", BUNDLE),
            false => HOST_JSON.to_owned(),
        };
        let settings = SETTINGS.replace(Database::Sqlite.connection(), database.connection());
        add("host.json".to_owned(), host, false);
        add("local.settings.json".to_owned(), settings, false);
        add(".funcignore".to_owned(), FUNCIGNORE.to_owned(), false);
        add(".gitignore".to_owned(), GITIGNORE.to_owned(), false);
        for Chosen { template, function } in chosen {
            let file = |name: &str| format!("{function}/{name}");
            add(file("function.json"), template.function.to_owned(), true);
            add(file("README.md"), template.readme.to_owned(), true);
        }
        let tables = tables(chosen);
        for table in &tables {
            let statements = table.statements(database).to_owned();
            add(format!("tables/{}.sql", table.name), statements, false);
            let rows = table.rows.to_owned();
            add(format!("tables/{}.rows.sql", table.name), rows, false);
        }
        if any(Template::posts) {
            add("receiver.py".to_owned(), RECEIVER.to_owned(), false);
        }
        Self { files, tables }
    }

    /// Nothing is written where something would have to be written over.
    pub(super) fn write(&self, force: bool) -> Result<Written, Problem> {
        let mut written = Written::default();
        let mut fresh = Vec::new();
        let mut others = Vec::new();
        for file in &self.files {
            match fs::read(&file.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => fresh.push(file),
                Ok(text) if text == file.text.as_bytes() => written.kept.push(file.path.clone()),
                Ok(_) if !file.is_of_function => written.kept.push(file.path.clone()),
                Ok(_) if force => fresh.push(file),
                Ok(_) => others.push(file.path.display().to_string()),
                Err(error) => return Err(unwritable(&file.path, &error)),
            }
        }
        if !others.is_empty() {
            return Err(Problem::new(format!(
                "there already, and not as the template is: {}; nothing was written. Give the function \
                 another name, --template TEMPLATE=NAME, or overwrite it with --force",
                others.join(", ")
            )));
        }
        for file in fresh {
            let directory = file.path.parent().unwrap_or(Path::new("."));
            fs::create_dir_all(directory)
                .and_then(|()| write_whole(&file.path, &file.text))
                .map_err(|error| unwritable(&file.path, &error))?;
            written.wrote.push(file.path.clone());
        }
        Ok(written)
    }
}

/// Each once, those first that others need.
fn tables(chosen: &[Chosen]) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for table in chosen.iter().flat_map(|chosen| chosen.template.tables) {
        if !tables.iter().any(|known| known.name == table.name) {
            tables.push(*table);
        }
    }
    tables
}

fn unwritable(path: &Path, error: &io::Error) -> Problem {
    let way_out = match error.kind() {
        io::ErrorKind::NotADirectory => "a file is in the way; move it, or choose another name",
        io::ErrorKind::IsADirectory => "a directory is in the way; move it",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a directory that you may write to"
        }
        _ => "see to it and give the command again: it goes on with what is missing",
    };
    let path = path.display();
    Problem::new(format!("{path} cannot be written: {error}; {way_out}"))
}
