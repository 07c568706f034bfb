//! Parses the arguments of this process, and improves the errors of clap.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

use super::Cli;
use crate::CommandError;

/// The commands that a build can leave out, each with the Cargo feature that includes it.
pub(super) const OPTIONAL_COMMANDS: [(&str, &str); 12] = [
    ("dev", "developer-tools"),
    ("new", "developer-tools"),
    ("build", "developer-tools"),
    ("test", "developer-tools"),
    ("sim", "simulation"),
    ("sdk", "developer-tools"),
    ("abi", "developer-tools"),
    ("apiserver", "embedded-server"),
    ("envtest", "embedded-server"),
    ("push", "registry"),
    ("pull", "registry"),
    ("verify", "registry"),
];

/// Parses the arguments of this process. If they are invalid, or ask for help or for the version, prints clap's text and exits.
///
/// # Errors
/// Returns a usage error if the command is one that this build leaves out.
pub(crate) fn parse() -> Result<Cli, CommandError> {
    Cli::try_parse_from(arguments()).map_err(|error| match left_out_command(&error) {
        Some((command, feature)) => CommandError::left_out(&format!("the command `{command}`"), feature),
        None => without_hidden_commands(error).exit(),
    })
}

/// Returns the arguments of this process; those of the programs that envtest starts as arguments of `pilothouse`.
fn arguments() -> Vec<OsString> {
    let arguments = std::env::args_os().collect();
    #[cfg(feature = "embedded-server")]
    let arguments =
        super::program_name::translate(arguments, std::env::var_os("PILOTHOUSE_CONTROLLERS").is_some());
    arguments
}

/// Removes the commands that `--help` does not list from the suggestions of an error.
fn without_hidden_commands(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::Strings(suggested)) = error.get(ContextKind::SuggestedSubcommand) else {
        return error;
    };
    let cli = Cli::command();
    let is_hidden = |name: &str| cli.find_subcommand(name).is_some_and(clap::Command::is_hide_set);
    let shown: Vec<String> = suggested.iter().filter(|name| !is_hidden(name)).cloned().collect();
    if shown.is_empty() {
        error.remove(ContextKind::SuggestedSubcommand);
    } else {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown));
    }
    error
}

/// Returns the subcommand that clap did not know and its feature, if other builds have it.
fn left_out_command(error: &clap::Error) -> Option<(&'static str, &'static str)> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    OPTIONAL_COMMANDS.into_iter().find(|(command, _)| command == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_command_exists_if_its_feature_is_enabled() {
        for (command, feature) in OPTIONAL_COMMANDS {
            let is_enabled = match feature {
                "developer-tools" => cfg!(feature = "developer-tools"),
                "embedded-server" => cfg!(feature = "embedded-server"),
                "registry" => cfg!(feature = "registry"),
                "simulation" => cfg!(feature = "simulation"),
                _ => panic!("{command} needs {feature}, which is not a feature of this package"),
            };
            assert_eq!(Cli::command().find_subcommand(command).is_some(), is_enabled, "{command}");
        }
    }

    #[test]
    fn the_error_for_a_command_that_was_left_out_has_its_feature() {
        let without = clap::Command::new("pilothouse")
            .subcommand_required(true)
            .subcommand(clap::Command::new("run"))
            .subcommand(clap::Command::new("rbac"));
        let error_of = |line: &str| without.clone().try_get_matches_from(line.split(' ')).expect_err(line);
        for (command, feature) in OPTIONAL_COMMANDS {
            for line in [format!("pilothouse {command} --flag value"), format!("pilothouse help {command}")] {
                assert_eq!(left_out_command(&error_of(&line)), Some((command, feature)), "{line}");
            }
        }
        for line in ["pilothouse fly", "pilothouse run dev", "pilothouse --dev"] {
            assert_eq!(left_out_command(&error_of(line)), None, "{line}");
        }
    }

    #[test]
    fn a_hidden_command_is_not_suggested_for_a_misspelled_one() {
        let error_of = |name: &str| Cli::try_parse_from(["pilothouse", name]).expect_err(name);
        for name in ["complie", "compiel", "compil"] {
            let error = error_of(name);
            assert!(error.to_string().contains("'compile'"), "clap suggests it: {error}");
            let text = without_hidden_commands(error).to_string();
            assert!(text.contains(name) && !text.contains("'compile'"), "{text}");
        }
        let text = without_hidden_commands(error_of("statsu")).to_string();
        assert!(text.contains("'status'"), "{text}");
        let text = without_hidden_commands(error_of("qqqq")).to_string();
        assert!(!text.contains("similar"), "{text}");
    }
}
