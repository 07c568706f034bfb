//! `pilothouse logs`: prints the logs of a running host's plugins.

use futures::StreamExt;
use pilothouse_controller::{PluginLogLine, printable};

use super::remote;
use crate::cli::Logs;
use crate::{CommandError, CommandResult, output};

pub(crate) async fn run(flags: Logs) -> CommandResult {
    let mut path = format!("/api/logs?follow={}", flags.follow);
    if let Some(plugin) = &flags.plugin {
        remote::check_plugin_name(plugin)?;
        path = format!("{path}&plugin={plugin}");
    }
    let mut chunks = std::pin::pin!(remote::get(&flags.server.server, &path).await?);
    let mut pending = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk
            .map_err(|error| CommandError::Failure(format!("lost the connection to the host: {error}")))?;
        pending.extend_from_slice(&chunk);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            if !print(&line)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Prints one NDJSON log line as text. Returns `false` once the reader has closed standard output.
fn print(line: &[u8]) -> Result<bool, CommandError> {
    let line: PluginLogLine = serde_json::from_slice(line).map_err(|error| {
        CommandError::Failure(format!("cannot parse a log line in the host's response: {error}"))
    })?;
    let fields: String =
        line.fields.iter().map(|(key, value)| format!(" {}={value:?}", printable(key))).collect();
    let level = printable(&line.level.to_uppercase()).to_string();
    let (plugin, message) = (printable(&line.plugin), printable(&line.message));
    Ok(output::print_line(format_args!("{} {level:<5} {plugin}: {message}{fields}", line.time_text())))
}
