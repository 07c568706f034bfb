//! `pilothouse status`: shows the plugins of a running host.

use pilothouse_controller::{HostMemoryStatus, PluginStatus, printable};
use serde::Deserialize;

use super::remote;
use crate::cli::Status;
use crate::{CommandError, CommandResult, output};

#[derive(Deserialize)]
struct Plugins {
    plugins: Vec<PluginStatus>,
}

pub(crate) async fn run(flags: Status) -> CommandResult {
    let text = remote::get_text(&flags.server.server, "/api/plugins").await?;
    if flags.json {
        output::print_line(text);
        return Ok(());
    }
    let Plugins { plugins } = serde_json::from_str(&text).map_err(|error| {
        let server = &flags.server.server;
        CommandError::Failure(format!("{server}: the response is not that of a Pilothouse host: {error}"))
    })?;
    if plugins.is_empty() {
        output::print_line(format_args!("no plugins; copy a .wasm file into the host's plugins directory"));
        return Ok(());
    }
    let rows: Vec<[String; 7]> = plugins.iter().map(row).collect();
    let header =
        ["NAME", "VERSION", "STATE", "GENERATION", "QUEUE", "RECONCILES", "HOST-MEMORY"].map(str::to_owned);
    let width = |column: usize| {
        rows.iter().chain([&header]).map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    for row in [&header].into_iter().chain(&rows) {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        output::print_line(format_args!("{}", cells.join("   ").trim_end()));
    }
    for plugin in plugins.iter().filter(|plugin| !plugin.error.is_empty()) {
        let since = match plugin.since.as_str() {
            "" => String::new(),
            since => format!(" ({} since {since})", plugin.state.as_str()),
        };
        let (name, error) = (printable(&plugin.name), printable(&plugin.error));
        output::print_line(format_args!("{name}: {error}{}", printable(&since)));
    }
    Ok(())
}

fn row(plugin: &PluginStatus) -> [String; 7] {
    let reconciles = plugin.counters.get("reconciles").copied().unwrap_or_default();
    [
        printable(&plugin.name).to_string(),
        if plugin.version.is_empty() { "-".to_owned() } else { printable(&plugin.version).to_string() },
        plugin.state.as_str().to_owned(),
        plugin.generation.to_string(),
        plugin.queue_depth.to_string(),
        reconciles.to_string(),
        host_memory(&plugin.host_memory),
    ]
}

/// Returns the memory that the host holds for a plugin and its limit, such as `3/64Mi`. Returns `-` for an older host, which does not
/// report it.
fn host_memory(memory: &HostMemoryStatus) -> String {
    match memory.limit {
        0 => "-".to_owned(),
        limit => format!("{}/{}Mi", memory.used.div_ceil(1 << 20), limit >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_memory_is_shown_in_whole_mebibytes() {
        let memory =
            |used, limit| host_memory(&HostMemoryStatus { used, limit, ..HostMemoryStatus::default() });
        assert_eq!(memory(0, 64 << 20), "0/64Mi");
        assert_eq!(memory(1, 64 << 20), "1/64Mi");
        assert_eq!(memory(70 << 20, 64 << 20), "70/64Mi");
        assert_eq!(memory(0, 0), "-");
    }

    #[test]
    fn control_characters_in_plugin_text_are_escaped() {
        let plugin = serde_json::json!({
            "name": "p", "version": "1\u{1b}[2J\n\u{9b}\u{202e}", "state": "running", "generation": 1, "error": "",
            "digest": "", "queueDepth": 0, "counters": {},
        });
        let plugin: PluginStatus = serde_json::from_value(plugin).expect("a status");
        assert_eq!(row(&plugin)[1], r"1\u{1b}[2J\n\u{9b}\u{202e}");
    }
}
