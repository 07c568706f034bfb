//! `pilothouse logs`: the log lines of a running host's plugins.

use futures::StreamExt;
use pilothouse_controller::{PluginLogLine, printable};

use super::remote;
use crate::cli::Logs;
use crate::{Failed, Outcome, output};

pub(crate) async fn run(flags: Logs) -> Outcome {
    let mut path = format!("/api/logs?follow={}", flags.follow);
    if let Some(plugin) = &flags.plugin {
        if !plugin.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
            return Err(Failed::Usage(format!(
                "{plugin:?} cannot name a plugin; see `pilothouse status` for those there are"
            )));
        }
        path = format!("{path}&plugin={plugin}");
    }
    let mut chunks = std::pin::pin!(remote::get(&flags.server.server, &path).await?);
    let mut pending = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Failed::Work(format!("the host's answer was cut: {error}")))?;
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

/// Prints one line, and says whether anybody still reads.
fn print(line: &[u8]) -> Result<bool, Failed> {
    let line: PluginLogLine = serde_json::from_slice(line)
        .map_err(|error| Failed::Work(format!("the host's answer is not a log line: {error}")))?;
    let fields: String =
        line.fields.iter().map(|(key, value)| format!(" {}={value:?}", printable(key))).collect();
    let level = printable(&line.level.to_uppercase()).to_string();
    let (plugin, message) = (printable(&line.plugin), printable(&line.message));
    Ok(output::line(format_args!("{} {level:<5} {plugin}: {message}{fields}", line.time)))
}
