//! `pilothouse logs`: prints the logs of a running host's plugins.

use futures::StreamExt;
use pilothouse_controller::{PluginLogLine, printable, printable_quoted};

use super::remote;
use crate::cli::Logs;
use crate::{CommandError, CommandResult, output};

/// The maximum size of a line of the response in bytes. With its fields, a line has at most 2 MiB before its characters are escaped.
const MAX_LINE: usize = 16 << 20;

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
        if pending.len() > MAX_LINE {
            let text = format!("a log line in the host's response has more than {} MiB", MAX_LINE >> 20);
            return Err(CommandError::Failure(text));
        }
    }
    Ok(())
}

/// Prints one NDJSON log line as text. Returns `false` once the reader has closed standard output.
fn print(line: &[u8]) -> Result<bool, CommandError> {
    let line: PluginLogLine = serde_json::from_slice(line).map_err(|error| {
        CommandError::Failure(format!("cannot parse a log line in the host's response: {error}"))
    })?;
    Ok(output::print_line(text(&line)))
}

/// Returns a line as text. A source in brackets follows the name of the plugin, unless the plugin wrote the line with `log`.
fn text(line: &PluginLogLine) -> String {
    let fields: String = line
        .fields
        .iter()
        .map(|(key, value)| format!(" {}={}", printable(key), printable_quoted(value)))
        .collect();
    let level = printable(&line.level.to_uppercase()).to_string();
    let (plugin, source, message) = (printable(&line.plugin), line.source_suffix(), printable(&line.message));
    format!("{} {level:<5} {plugin}{source}: {message}{fields}", line.time_text())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_of_a_plugin_does_not_look_like_one_of_the_host() {
        let shown = |source: &str, message: &str| {
            let line = json!({
                "sequence": 1, "time": "2026-01-02T03:04:05Z", "plugin": "web", "level": "warn", "source": source,
                "message": message, "fields": [["key", "shop/a\u{3164}"]],
            });
            text(&serde_json::from_value(line).expect("a line"))
        };
        let time = "2026-01-02T03:04:05.000000Z";
        let field = r#"key="shop/a\u{3164}""#;
        assert_eq!(shown("host", "stopped"), format!("{time} WARN  web (host): stopped {field}"));
        assert_eq!(
            shown("stdout", "(host): stopped"),
            format!("{time} WARN  web (stdout): (host): stopped {field}")
        );
        assert_eq!(shown("log", "stopped"), format!("{time} WARN  web: stopped {field}"));
        // A host that does not record the source.
        assert_eq!(shown("", "stopped"), format!("{time} WARN  web: stopped {field}"));
    }
}
