//! SQLite: a path, in one of its spellings.

use super::Refusal;

/// The path as it is written; `None` where the value means something else than SQLite.
pub(super) fn path(value: &str) -> Result<Option<&str>, Refusal> {
    let path = if let Some(rest) = strip_prefix_ignoring_case(value, "sqlite:") {
        let path = rest.strip_prefix("//").unwrap_or(rest);
        if path.contains('?') {
            return Err(parameters());
        }
        path
    } else if value.contains("://") {
        return Ok(None);
    } else if value.contains('=') {
        match data_source(value)? {
            Some(path) => path,
            None => return Ok(None),
        }
    } else if [".db", ".sqlite", ".sqlite3"]
        .iter()
        .any(|extension| value.to_lowercase().ends_with(extension))
    {
        value
    } else {
        return Ok(None);
    };
    match path.trim() {
        "" => Err(Refusal::new("the connection names no file", FORMS)),
        ":memory:" => Err(Refusal::new(
            "the database would be gone with each tick",
            "use a file",
        )),
        path => Ok(Some(path)),
    }
}

const FORMS: &str = "write sqlite:PATH, a path that ends in .db, or Data Source=PATH";

/// `Data Source=PATH` alone; beside the keys of a server it is the server.
fn data_source(value: &str) -> Result<Option<&str>, Refusal> {
    let pairs: Vec<(String, &str)> = value
        .split(';')
        .filter(|pair| !pair.trim().is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key.trim().to_lowercase(), value.trim())
        })
        .collect();
    let is_path = |key: &str| matches!(key, "data source" | "datasource" | "filename");
    let is_server = |key: &str| {
        matches!(
            key,
            "host"
                | "server"
                | "port"
                | "user"
                | "user id"
                | "userid"
                | "username"
                | "uid"
                | "database"
                | "initial catalog"
        )
    };
    match pairs.as_slice() {
        [(key, path)] if is_path(key) => Ok(Some(path)),
        _ if pairs.iter().any(|(key, _)| is_server(key)) => Ok(None),
        _ if pairs.iter().any(|(key, _)| is_path(key)) => Err(parameters()),
        _ => Ok(None),
    }
}

fn parameters() -> Refusal {
    Refusal::new(
        "the connection to SQLite has parameters that are not known here",
        FORMS,
    )
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let start = text.get(..prefix.len())?;
    start
        .eq_ignore_ascii_case(prefix)
        .then(|| &text[prefix.len()..])
}
