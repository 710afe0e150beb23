//! The pages of the repository, and what is fenced in them.
//!
//! The first word behind a fence is the language, the others are for these tests:
//!
//! - `elsewhere`: needs a cloud, a program or a server that is not here. Parsed, and counted, but nothing more.
//! - `part`: JSON that is a part of something; it is parsed.
//! - on getting-started.md: `walk` is typed in terminal A, `terminal=N` goes on running in its own, `ends=N` ends one first,
//!   `exit=N` says how the command ends, `expect=…` is what a terminal says, `build` is what a test must not do.

use std::path::{Path, PathBuf};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[derive(Debug, Clone)]
pub struct Block {
    pub page: PathBuf,
    pub line: usize,
    pub language: String,
    pub marks: Vec<String>,
    pub text: String,
}

impl Block {
    pub fn is(&self, mark: &str) -> bool {
        self.marks.iter().any(|found| found == mark)
    }

    /// Of `terminal=2`: `2`.
    pub fn mark(&self, name: &str) -> Option<&str> {
        self.marks
            .iter()
            .find_map(|mark| mark.strip_prefix(name)?.strip_prefix('='))
    }

    pub fn place(&self) -> String {
        format!("{}:{}", self.page.display(), self.line)
    }
}

/// Every page, by its path below the root.
pub fn pages() -> Vec<PathBuf> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy();
            let is_ours = !["target", "node_modules", ".git", ".tools", "shop"].contains(&&*name);
            if path.is_dir() && is_ours && !path.is_symlink() {
                walk(&path, found);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path.strip_prefix(root()).unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(root(), &mut found);
    found.sort();
    assert!(found.len() > 10, "{found:?}");
    found
}

pub fn read(page: impl AsRef<Path>) -> String {
    let path = root().join(page);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// README.md and docs: the pages of this project's own words, held to every rule.
pub fn is_documentation(page: &Path) -> bool {
    page == Path::new("README.md") || page.starts_with("docs")
}

pub fn blocks(page: &Path) -> Vec<Block> {
    let text = read(page);
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (Some(_), Some("")) => found.extend(open.take()),
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, Some(info)) => {
                let mut words = info.split_whitespace().map(str::to_owned);
                open = Some(Block {
                    page: page.to_owned(),
                    line: index + 1,
                    language: words.next().unwrap_or_default(),
                    marks: words.collect(),
                    text: String::new(),
                });
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block does not end: {open:?}");
    found
}

pub fn all_blocks() -> Vec<Block> {
    pages().iter().flat_map(|page| blocks(page)).collect()
}

/// A page without what is fenced.
pub fn prose(page: &Path) -> String {
    let mut fenced = false;
    let text = read(page);
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn marks_are_the_ones_that_these_tests_know() {
    let known = ["elsewhere", "part", "walk", "build"];
    let named = ["terminal", "ends", "exit", "expect"];
    for block in all_blocks() {
        for mark in &block.marks {
            let name = mark.split_once('=').map(|(name, _)| name);
            assert!(
                known.contains(&&**mark) || name.is_some_and(|name| named.contains(&name)),
                "{}: {mark}",
                block.place()
            );
        }
    }
}
