//! `dbtick completions` and `dbtick man`: what the command line is made of, for shells and for `man`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man as Page;

use super::problem::{Problem, finish};
use super::say;

/// Print a completion script for a shell
///
/// For bash: `dbtick completions bash > ~/.local/share/bash-completion/completions/dbtick`
#[derive(Debug, Args)]
pub(super) struct Completions {
    shell: Shell,
}

/// Print the manual page of dbtick, or write one for every command
#[derive(Debug, Args)]
pub(super) struct Man {
    /// Write dbtick.1, dbtick-serve.1 and so on into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Completions {
    pub(super) fn run<C: CommandFactory>(self) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut C::command(), "dbtick", &mut script);
        say(&String::from_utf8_lossy(&script));
        ExitCode::SUCCESS
    }
}

impl Man {
    pub(super) fn run<C: CommandFactory>(self) -> ExitCode {
        let mut command = C::command().disable_help_subcommand(true);
        command.build();
        finish(self.print(command), false)
    }

    fn print(&self, command: Command) -> Result<(), Problem> {
        let Some(directory) = &self.out else {
            let mut page = Vec::new();
            Page::new(command).render(&mut page)?;
            say(&String::from_utf8_lossy(&page));
            return Ok(());
        };
        std::fs::create_dir_all(directory).map_err(|error| unwritten(directory, &error))?;
        let written = write_all(directory, command)?;
        say(&format!("{written} pages in {}\n", directory.display()));
        Ok(())
    }
}

/// A page for the command and one for each below it; how many.
fn write_all(directory: &Path, command: Command) -> Result<usize, Problem> {
    let mut written = 1;
    for below in command.get_subcommands() {
        // `state export` has the page of dbtick-state-export.
        written += write_all(directory, below.clone())?;
    }
    let page = Page::new(command);
    let file = directory.join(page.get_filename());
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(&file, text).map_err(|error| unwritten(&file, &error))?;
    Ok(written)
}

fn unwritten(place: &Path, error: &io::Error) -> Problem {
    Problem::new(format!("cannot write {}: {error}", place.display()))
}
