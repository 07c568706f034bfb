//! `pilothouse completions` and the hidden `man-pages`: what a shell and `man` show of the command line.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::cli::{Cli, Completions, ManPages};
use crate::{CommandError, CommandResult};

const PROGRAM: &str = "pilothouse";

/// Prints the completion script of a shell.
pub(crate) fn run(flags: &Completions) -> CommandResult {
    match io::stdout().write_all(&script(flags.shell)) {
        // A reader that has seen enough, such as `head`, is not an error.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::Failure(format!("cannot write the completion script: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a man page for the program and one for each of its commands into a directory.
pub(crate) fn write_man_pages(flags: &ManPages) -> CommandResult {
    let folder: &Path = &flags.folder;
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(visible(&Cli::command()), folder))
        .map_err(|error| {
            CommandError::Failure(format!("cannot write man pages into {}: {error}", folder.display()))
        })
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(&Cli::command()), PROGRAM, &mut script);
    script
}

/// Returns a copy of the definition without what is hidden from users, which clap would complete.
fn visible(command: &Command) -> Command {
    let mut copy = Command::new(command.get_name().to_owned())
        .subcommand_required(command.is_subcommand_required_set())
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(command.get_subcommands().filter(|child| !child.is_hide_set()).map(visible));
    if let Some(text) = command.get_about() {
        copy = copy.about(text.clone());
    }
    if let Some(text) = command.get_long_about() {
        copy = copy.long_about(text.clone());
    }
    if let Some(version) = command.get_version() {
        copy = copy.version(version.to_owned());
    }
    copy
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_completes_what_is_visible_and_nothing_else() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(*shell)).expect("text");
            for part in ["requeue", "watch-name", "kubeconfig", "completions"] {
                assert!(script.contains(part), "{shell} does not complete {part}");
            }
            for hidden in ["man-pages", "test-review-every"] {
                assert!(!script.contains(hidden), "{shell} completes {hidden}");
            }
        }
    }

    #[test]
    fn every_visible_command_has_a_man_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let pages = folder.path().join("man/man1");
        assert!(write_man_pages(&ManPages { folder: pages.clone() }).is_ok());
        for command in visible(&Cli::command()).get_subcommands() {
            let file = pages.join(format!("pilothouse-{}.1", command.get_name()));
            let page =
                fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(page.contains(".TH"), "{page}");
        }
        assert!(pages.join("pilothouse.1").exists());
        assert!(!pages.join("pilothouse-compile.1").exists());
    }
}
