//! Projects on the command line: they are built, and the scenarios in their folder are the default ones.

use tokio_util::sync::CancellationToken;

use crate::CommandError;
use crate::cli::simulation::Sim;
use crate::commands::developer_tools::simulation_files;
use crate::commands::developer_tools::staged_plugin::StagedPlugin;

/// Notes the scenarios of a project in the flags, if it is the only plugin and the flags leave open what to simulate it in.
///
/// # Errors
/// Errors if the folder of the scenarios cannot be read.
pub(super) fn find_scenarios(flags: &mut Sim) -> Result<(), CommandError> {
    if let ([project], true) = (flags.plugins.as_slice(), uses_scenarios_of_project(flags))
        && project.is_dir()
    {
        flags.scenario = simulation_files::find(project)?;
    }
    Ok(())
}

/// Builds the plugins that are folders, and notes the files in the flags. Returns the built plugins, which must be kept until the end.
///
/// # Errors
/// Errors if a build fails.
pub(super) async fn build(
    flags: &mut Sim,
    stop: &CancellationToken,
) -> Result<Vec<StagedPlugin>, CommandError> {
    let mut built = Vec::new();
    if !flags.plugins.iter().any(|plugin| plugin.is_dir()) {
        return Ok(built);
    }
    for plugin in &flags.plugins {
        let file = if plugin.is_dir() {
            let staged = Box::pin(StagedPlugin::new(plugin, None, stop)).await?;
            let file = staged.file();
            built.push(staged);
            file
        } else {
            plugin.clone()
        };
        flags.derived.files.push(file);
    }
    Ok(built)
}

/// Returns whether the flags leave open what the plugin is simulated in. A replay needs the scenario of its trace, which may be none.
fn uses_scenarios_of_project(flags: &Sim) -> bool {
    flags.scenario.is_empty()
        && flags.objects.is_none()
        && flags.replay.is_none()
        && flags.recording.is_none()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::PathBuf;

    use super::*;

    fn flags(arguments: &[&str]) -> Sim {
        Sim::of_arguments(arguments.iter().map(OsString::from)).expect("valid arguments")
    }

    #[tokio::test]
    async fn files_are_simulated_as_they_are() {
        let mut flags = flags(&["a.wasm", "b.wasm"]);
        let built = build(&mut flags, &CancellationToken::new()).await.expect("nothing to build");
        assert!(built.is_empty());
        assert_eq!(flags.plugin_files(), [PathBuf::from("a.wasm"), PathBuf::from("b.wasm")]);
        assert!(flags.scenario.is_empty());
    }

    #[test]
    fn the_scenarios_of_a_project_are_used_unless_the_flags_say_what_to_simulate() {
        assert!(uses_scenarios_of_project(&flags(&["greeter", "--seeds", "7"])));
        for other in [["--scenario", "a"], ["--objects", "a"], ["--replay", "a"], ["--recording", "a"]] {
            assert!(
                !uses_scenarios_of_project(&flags(&[&["greeter"][..], &other[..]].concat())),
                "{other:?}"
            );
        }
    }
}
