//! The documentation is held to the program: links lead somewhere, JSON is what it says, commands exist, the reference
//! is generated, and the page for newcomers is typed by a test.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod support;

#[path = "docs/json.rs"]
mod json;
#[path = "docs/links.rs"]
mod links;
#[path = "docs/pages.rs"]
mod pages;
#[path = "docs/reference.rs"]
mod reference;
#[path = "docs/runbooks.rs"]
mod runbooks;
#[path = "docs/shell.rs"]
mod shell;
#[path = "docs/walk.rs"]
mod walk;
