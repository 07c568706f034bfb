//! `pilothouse explain`: shows why a key of a plugin of a running host was reconciled, or was not.

use std::time::Duration;

use pilothouse_controller::{Explanation, printable};
use tokio::time::sleep;

use super::remote;
use crate::cli::{Explain, ExplainOutput};
use crate::{CommandError, CommandResult, explanation, output};

/// How often `--follow` queries the host.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) async fn run(flags: Explain) -> CommandResult {
    remote::check_plugin_name(&flags.plugin)?;
    let mut path =
        format!("/api/explain?plugin={}&key={}", flags.plugin, remote::percent_encoded(&flags.key));
    if let Some(watch) = &flags.watch_name {
        path = format!("{path}&watch={}", remote::percent_encoded(watch));
    }
    let server = &flags.server.server;
    if flags.output == ExplainOutput::Json {
        output::print_line(remote::get_text(server, &path).await?);
        return Ok(());
    }
    let mut shown = Vec::new();
    loop {
        let text = remote::get_text(server, &path).await?;
        let explained: Explanation = serde_json::from_str(&text).map_err(|error| {
            CommandError::Failure(format!("{server}: the response is not that of a Pilothouse host: {error}"))
        })?;
        let lines = explanation::lines(&explained);
        for line in lines.iter().filter(|line| !line.is_among(&shown)) {
            if !output::print_line(printable(&line.text)) {
                return Ok(());
            }
        }
        if !flags.follow {
            return Ok(());
        }
        shown = lines;
        sleep(FOLLOW_INTERVAL).await;
    }
}
