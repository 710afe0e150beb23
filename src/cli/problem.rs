//! Why a command did not do what it was asked to.

use std::error::Error;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::{fail, say};

/// What is said, and the exit code: 1, or 2 when it was asked for in the wrong way.
#[derive(Debug)]
pub(super) struct Problem {
    text: String,
    usage: bool,
    /// For machines, where there is more to say than the text.
    object: Option<Value>,
}

impl Problem {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            usage: false,
            object: None,
        }
    }

    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            usage: true,
            object: None,
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Machines are told this, in place of the text alone.
    pub(super) fn in_detail(self, object: Value) -> Self {
        Self {
            object: Some(object),
            ..self
        }
    }

    pub(super) fn from_error(error: impl Error) -> Self {
        Self::new(story(&error))
    }
}

impl<E: Error> From<E> for Problem {
    fn from(error: E) -> Self {
        Self::from_error(error)
    }
}

/// The end of a command; machines find the problem on stdout too.
pub(super) fn finish(result: Result<(), Problem>, json: bool) -> ExitCode {
    let Err(Problem {
        text,
        usage,
        object,
    }) = result
    else {
        return ExitCode::SUCCESS;
    };
    if json {
        let mut object = object.unwrap_or_else(|| json!({ "ok": false }));
        object["error"] = json!(text);
        say(&format!("{object}\n"));
    }
    let code = fail(&text);
    if usage { ExitCode::from(2) } else { code }
}

/// The error with its causes, each said once.
pub(super) fn story(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text += &format!(": {next}");
        }
        cause = error.source();
    }
    text
}
