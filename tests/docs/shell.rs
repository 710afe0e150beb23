//! Shell blocks are shell, and every `dbtick …` in them and in the text is understood by the program.

use std::io::Write;
use std::process::{Command, Stdio};

use clap::error::ErrorKind;

use super::pages::{Block, all_blocks, is_documentation, pages, prose};

/// What is not installed where these tests run.
const ELSEWHERE: [&str; 8] = [
    "az",
    "azd",
    "func",
    "docker",
    "kubectl",
    "helm",
    "gh",
    "kafka-consumer-groups",
];

fn shell_blocks() -> Vec<Block> {
    let is_shell = |block: &Block| ["sh", "bash", "shell"].contains(&&*block.language);
    all_blocks().into_iter().filter(is_shell).collect()
}

#[test]
fn every_shell_block_is_shell() {
    for block in shell_blocks() {
        let mut shell = Command::new("bash")
            .arg("-n")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        shell
            .stdin
            .take()
            .unwrap()
            .write_all(block.text.as_bytes())
            .unwrap();
        let output = shell.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.is_empty(),
            "{}: {said}",
            block.place()
        );
    }
}

#[test]
fn what_cannot_be_run_here_is_marked() {
    let mut elsewhere = 0;
    for block in shell_blocks() {
        let words = commands(&block.text);
        let foreign = words.iter().find(|words| ELSEWHERE.contains(&&*words[0]));
        elsewhere += usize::from(foreign.is_some());
        if is_documentation(&block.page) {
            assert_eq!(
                block.is("elsewhere"),
                foreign.is_some(),
                "{}: {foreign:?}",
                block.place()
            );
        }
    }
    println!("{elsewhere} shell blocks need what is not here");
}

#[test]
fn every_command_in_the_docs_exists() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    let mut judge = |place: &str, words: &[String], in_text: bool| {
        let Some(arguments) = arguments(words) else {
            return;
        };
        checked += 1;
        if let Err(error) = dbtick::cli::understand(arguments.iter().map(String::as_str)) {
            let is_help = matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            );
            let is_short = in_text
                && matches!(
                    error.kind(),
                    ErrorKind::MissingRequiredArgument
                        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                        | ErrorKind::InvalidValue
                        | ErrorKind::ValueValidation
                );
            if !is_help && !is_short {
                wrong.push(format!("{place}: {words:?}: {error}"));
            }
        }
    };
    for block in shell_blocks() {
        for words in commands(&block.text) {
            judge(&block.place(), &words, false);
        }
    }
    for block in all_blocks() {
        let typed = block
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("$ "));
        for words in typed.flat_map(commands) {
            judge(&block.place(), &words, false);
        }
    }
    // In the text a command may be named without what it needs.
    for page in pages() {
        for span in prose(&page).split('`').skip(1).step_by(2) {
            for mut words in commands(span) {
                words.retain(|word| word != "…");
                judge(&page.display().to_string(), &words, true);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 100, "{checked}");
}

#[test]
fn a_command_that_does_not_exist_is_noticed() {
    for line in [
        "dbtick chek shop",
        "dbtick check --nope",
        "cargo run -- demo --for-ever",
        "X=1 dbtick tick",
    ] {
        let words = commands(line);
        let arguments = arguments(&words[0]).unwrap();
        let understood = dbtick::cli::understand(arguments.iter().map(String::as_str));
        assert!(understood.is_err(), "{line}");
    }
    let text = "cat > x <<'END'\ndbtick nonsense\nEND\nls | dbtick check shop \\\n  --json # dbtick nonsense\n";
    let ours: Vec<_> = commands(text)
        .iter()
        .filter_map(|words| arguments(words))
        .collect();
    assert_eq!(ours, [["check", "shop", "--json"]]);
}

/// What dbtick is asked to do, where it is dbtick that is asked.
fn arguments(words: &[String]) -> Option<Vec<String>> {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let ours = match words.as_slice() {
        ["dbtick" | "./dbtick", rest @ ..] => rest,
        ["cargo", "run", rest @ ..] if !rest.contains(&"--example") => {
            let at = rest.iter().position(|word| *word == "--")?;
            &rest[at + 1..]
        }
        _ => return None,
    };
    Some(ours.iter().map(|word| (*word).to_owned()).collect())
}

/// The commands of a script, as words: without comments, here-documents, redirections and assignments.
pub fn commands(script: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let script = script.replace("\\\n", " ");
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        let mut command: Vec<String> = Vec::new();
        for word in words(line) {
            if ["|", "||", "&&", ";", "&", "(", ")"].contains(&&*word) {
                found.push(std::mem::take(&mut command));
            } else {
                command.push(word);
            }
        }
        found.push(command);
        if let Some((_, end)) = line.split_once("<<") {
            let end = end.split_whitespace().next().unwrap_or_default();
            let end = end.trim_matches(['\'', '"', '-']);
            lines.by_ref().find(|line| line.trim() == end);
        }
    }
    let is_set = |word: &String| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| {
            name.chars()
                .all(|it| it.is_ascii_alphanumeric() || it == '_')
        })
    };
    for command in &mut found {
        while command
            .first()
            .is_some_and(|word| is_set(word) || word == "sudo")
        {
            command.remove(0);
        }
        if let Some(at) = command
            .iter()
            .position(|word| word.starts_with(['>', '<']) || word.starts_with("2>"))
        {
            command.truncate(at);
        }
    }
    found.retain(|command| !command.is_empty());
    found
}

/// Quotes keep words together; a # begins a comment.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(end), letter) if letter == end => quote = None,
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, '|' | ';' | '&' | '(' | ')') => {
                words.extend(word.take());
                words.push(letter.to_string());
            }
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}
