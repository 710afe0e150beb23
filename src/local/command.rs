//! The handler's command line by the host's rules: a relative path is joined to the app root only
//! if that file exists, otherwise it is a command on PATH; `%NAME%` is expanded; arguments are
//! joined with spaces into one line and split again, so an argument with spaces needs quotes.

use std::path::{Path, PathBuf};

use super::app::{AppDirectory, Environment};

/// What to execute, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandlerCommand {
    /// An existing file.
    pub executable: PathBuf,
    /// After expansion and splitting.
    pub arguments: Vec<String>,
    /// The child's working directory.
    pub directory: PathBuf,
}

/// host.json names an executable that is nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "host.json: customHandler.description.defaultExecutablePath: '{name}' is neither a file below {} nor a command on PATH; build it, or correct the name",
    directory.display()
)]
pub struct ExecutableNotFound {
    name: String,
    directory: PathBuf,
}

impl HandlerCommand {
    /// The command of an app; `executable` stands in place of the one in host.json.
    pub fn of(
        app: &AppDirectory,
        executable: Option<PathBuf>,
    ) -> Result<HandlerCommand, ExecutableNotFound> {
        let description = &app.handler;
        let within = |path: &Option<String>| match path {
            None => app.root.clone(),
            Some(path) => app.root.join(path),
        };
        let directory = within(&description.worker_directory);
        let executable = match executable {
            Some(executable) => executable,
            None => locate(&description.executable, &directory, &app.environment)?,
        };
        let mut line: Vec<String> = description.arguments.clone();
        if let Some(worker) = &description.worker_path {
            let worker = expand(worker, &app.environment, Unset::Kept);
            let joined = directory.join(&worker);
            let worker = if joined.exists() {
                joined.display().to_string()
            } else {
                worker
            };
            line.push(format!("\"{worker}\""));
        }
        line.extend(description.worker_arguments.iter().cloned());
        let line = expand(&line.join(" "), &app.environment, Unset::Empty);
        Ok(HandlerCommand {
            executable,
            arguments: split(&line),
            directory: within(&description.working_directory),
        })
    }
}

fn locate(
    name: &str,
    directory: &Path,
    environment: &Environment,
) -> Result<PathBuf, ExecutableNotFound> {
    let name = expand(name, environment, Unset::Kept);
    let joined = directory.join(&name);
    if joined.is_file() {
        return Ok(joined);
    }
    let on_path = environment.get("PATH").and_then(|path| {
        let mut candidates = path.split(':').map(|folder| Path::new(folder).join(&name));
        candidates.find(|candidate| candidate.is_file())
    });
    on_path.ok_or_else(|| ExecutableNotFound {
        name,
        directory: directory.to_owned(),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unset {
    Kept,
    Empty,
}

/// Environment names keep their case here, unlike app settings.
fn expand(text: &str, environment: &Environment, unset: Unset) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        let Some((name, tail)) = after.split_once('%') else {
            break;
        };
        expanded.push_str(before);
        match environment.get(name) {
            Some(value) => expanded.push_str(value),
            None if unset == Unset::Empty => {}
            None => {
                expanded.push('%');
                expanded.push_str(name);
                rest = &after[name.len()..];
                continue;
            }
        }
        rest = tail;
    }
    expanded.push_str(rest);
    expanded
}

/// .NET's splitting on Unix: blanks separate, double quotes group, a backslash escapes a quote.
fn split(line: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut current: Option<String> = None;
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'"') => {
                chars.next();
                current.get_or_insert_default().push('"');
            }
            '"' => {
                quoted = !quoted;
                current.get_or_insert_default();
            }
            ' ' | '\t' if !quoted => arguments.extend(current.take()),
            c => current.get_or_insert_default().push(c),
        }
    }
    arguments.extend(current);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_split_at_blanks_outside_quotes() {
        for (line, expected) in [
            ("serve --port 1", &["serve", "--port", "1"][..]),
            ("  a  \"b c\" ", &["a", "b c"]),
            (r#"say \"hi\""#, &["say", "\"hi\""]),
            (r#"x"y z"w """#, &["xy zw", ""]),
            ("", &[]),
        ] {
            assert_eq!(split(line), expected, "{line}");
        }
    }

    #[test]
    fn percent_names_expand_from_the_environment() {
        let environment = Environment::from([("DIR".to_owned(), "/x".to_owned())]);
        for (text, kept, emptied) in [
            ("%DIR%/run", "/x/run", "/x/run"),
            ("a%NO%b", "a%NO%b", "ab"),
            ("%NO%DIR%", "%NO/x", "DIR%"),
            ("100%", "100%", "100%"),
        ] {
            assert_eq!(expand(text, &environment, Unset::Kept), kept, "{text}");
            assert_eq!(expand(text, &environment, Unset::Empty), emptied, "{text}");
        }
    }
}
