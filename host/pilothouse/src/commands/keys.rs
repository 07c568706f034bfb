//! `pilothouse keys`: shows which keys a plugin of a running host has queued, and why.

use std::time::Duration;

use pilothouse_controller::{KeyStateName, PluginKeys, QueuedKey, printable};

use super::remote;
use crate::cli::Keys;
use crate::{CommandError, CommandResult, output};

/// As many keys as the host returns.
const LIMIT: usize = 10_000;

pub(crate) async fn run(flags: Keys) -> CommandResult {
    remote::check_plugin_name(&flags.plugin)?;
    let server = &flags.server.server;
    let text = remote::get_text(server, &format!("/api/plugins/{}/keys?limit={LIMIT}", flags.plugin)).await?;
    if flags.json {
        output::print_line(text);
        return Ok(());
    }
    let PluginKeys { keys, pending } = serde_json::from_str(&text).map_err(|error| {
        CommandError::Failure(format!("{server}: the response is not that of a Pilothouse host: {error}"))
    })?;
    let listed = keys.len();
    let shown: Vec<_> = keys.iter().filter(|key| !flags.failing || key.attempts > 0).collect();
    if shown.is_empty() {
        let which = if flags.failing { "no key has failed" } else { "no key is pending" };
        output::print_line(format_args!("{which}; {pending} pending"));
        return Ok(());
    }
    let header = ["WATCH", "KEY", "STATE", "TIME", "ATTEMPTS", "LAST-ERROR"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(shown.into_iter().map(row)).collect();
    for line in output::align(&rows) {
        output::print_line(line);
    }
    if pending > listed {
        output::print_line(format_args!("and {} more", pending - listed));
    }
    Ok(())
}

fn row(key: &QueuedKey) -> Vec<String> {
    let time = Duration::from_millis(key.milliseconds);
    let (state, time) = match key.state {
        KeyStateName::Processing => ("processing", format!("for {time:.1?}")),
        KeyStateName::Ready => ("ready", format!("for {time:.1?}")),
        KeyStateName::Delayed => ("delayed", format!("in {time:.1?}")),
    };
    vec![
        printable(&key.watch).to_string(),
        printable(&key.key).to_string(),
        state.to_owned(),
        time,
        key.attempts.to_string(),
        key.last_error.as_deref().map_or_else(|| "-".to_owned(), |error| printable(error).to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_back_off_shows_when_it_is_tried_again_and_why_it_failed() {
        let key = QueuedKey {
            watch: "foos".to_owned(),
            key: "shop/a".to_owned(),
            state: KeyStateName::Delayed,
            milliseconds: 655_360,
            attempts: 18,
            last_error: Some("failed: 401\nno".to_owned()),
        };
        assert_eq!(row(&key), ["foos", "shop/a", "delayed", "in 655.4s", "18", r"failed: 401\nno"]);
        let key = QueuedKey { state: KeyStateName::Ready, milliseconds: 20, last_error: None, ..key };
        assert_eq!(row(&key)[2..], ["ready", "for 20.0ms", "18", "-"]);
    }
}
