//! `pilothouse test`: runs a plugin's scenarios in the real host, each against an embedded API server of its own, and then its simulations.

mod attempt;
mod cluster;
mod condition;
mod event;
mod failure_details;
mod name_pattern;
mod object_reference;
mod partial_match;
mod report;
mod runner;
mod scenario;
mod scenario_files;
mod simulations;

use std::path::{Path, PathBuf};

use crate::cli::developer_tools::{Test, TestOutput};
use crate::commands::developer_tools::staged_plugin::StagedPlugin;
use crate::commands::host::engine as host_engine;
use crate::{CommandError, CommandResult, output, shutdown};
use report::ScenarioResult;
use scenario::Scenario;

pub(super) async fn run(flags: Test) -> CommandResult {
    // Before anything else has a hash map.
    simulations::prepare();
    let stop = shutdown::on_signal()?;
    let folder = folder_of(&flags.plugin)?;
    let simulations = simulations::find(&flags, folder)?;
    let files = match flags.scenario.as_slice() {
        [] => scenario_files::find(folder, simulations.is_empty())?,
        files => files.to_owned(),
    };
    let scenarios = files.iter().map(|file| scenario_files::read(file)).collect::<Result<Vec<_>, _>>()?;
    let (scenarios, simulations) = selected(scenarios, simulations, flags.run.as_deref())?;
    simulations::check(&simulations)?;
    let engine = host_engine(flags.cache_dir.clone(), flags.compiler)?;
    let plugin = Box::pin(StagedPlugin::new(&flags.plugin, Some(&engine), &stop)).await?;
    let mut results = Vec::new();
    for scenario in &scenarios {
        let result = Box::pin(runner::run(scenario, &plugin, &engine, &stop)).await?;
        add(result, &mut results, flags.output);
    }
    if report::failures(&results) == 0 {
        simulations::run(&flags, folder, &plugin, &simulations, &stop, &mut results).await?;
    } else if !simulations.is_empty() && flags.output == TestOutput::Text {
        output::print_line("simulations are left out, because a scenario has failed");
    }
    match flags.output {
        TestOutput::Text => output::print_line(report::summary_of(&results)),
        TestOutput::Junit => output::print_line(report::junit(plugin.name().as_str(), &results)),
    };
    match report::failures(&results) {
        0 => Ok(()),
        failed => {
            let all = if simulations.is_empty() { "scenarios" } else { "scenarios and simulations" };
            Err(CommandError::Failure(format!("{failed} of {} {all} failed", results.len())))
        }
    }
}

/// Adds a result, and prints the lines about it.
fn add(result: ScenarioResult, results: &mut Vec<ScenarioResult>, output: TestOutput) {
    if output == TestOutput::Text {
        for line in report::text_of(&result) {
            output::print_line(line);
        }
    }
    results.push(result);
}

/// Returns the folder of the project, or that of the plugin's file.
///
/// # Errors
/// Returns a usage error if the path is neither a folder nor a .wasm file.
fn folder_of(plugin: &Path) -> Result<&Path, CommandError> {
    let usage_error = |problem: &dyn std::fmt::Display| {
        let remedy = "give the folder of a project, or a plugin's .wasm file";
        CommandError::Usage(format!("{}: {problem}; {remedy}", plugin.display()))
    };
    let found = std::fs::metadata(plugin).map_err(|error| usage_error(&error))?;
    if found.is_dir() {
        return Ok(plugin);
    }
    if !found.is_file() || plugin.extension().is_none_or(|extension| extension != "wasm") {
        return Err(usage_error(&"it is neither"));
    }
    match plugin.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => Ok(folder),
        _ => Ok(Path::new(".")),
    }
}

/// Returns the scenarios, and the simulations' files, whose name matches the pattern.
///
/// # Errors
/// Returns a usage error if there is none.
fn selected(
    mut scenarios: Vec<Scenario>,
    mut simulations: Vec<PathBuf>,
    pattern: Option<&str>,
) -> Result<(Vec<Scenario>, Vec<PathBuf>), CommandError> {
    let Some(pattern) = pattern else { return Ok((scenarios, simulations)) };
    let name_of = |file: &PathBuf| file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let names: Vec<_> = scenarios
        .iter()
        .map(|scenario| scenario.name.clone())
        .chain(simulations.iter().map(name_of))
        .collect();
    scenarios.retain(|scenario| name_pattern::matches(pattern, &scenario.name));
    simulations.retain(|file| name_pattern::matches(pattern, &name_of(file)));
    if scenarios.is_empty() && simulations.is_empty() {
        return Err(CommandError::Usage(format!(
            "--run {pattern}: no scenario has this name; there are {}; * stands for any text",
            names.join(", ")
        )));
    }
    Ok((scenarios, simulations))
}
