//! `pilothouse requeue`, `pause`, `resume`, `rollback` and `promote`: change what a plugin of a running host does.

use pilothouse_controller::printable;
use serde::Deserialize;

use super::remote;
use crate::cli::{OnePlugin, Requeue, Rollback};
use crate::{CommandError, CommandResult, output};

#[derive(Deserialize)]
struct Queued {
    watch: String,
    key: String,
}

pub(crate) async fn requeue(flags: Requeue) -> CommandResult {
    remote::check_plugin_name(&flags.plugin)?;
    let mut path =
        format!("/api/plugins/{}/requeue?key={}", flags.plugin, remote::percent_encoded(&flags.key));
    if let Some(watch) = &flags.watch_name {
        path = format!("{path}&watch={}", remote::percent_encoded(watch));
    }
    let text = remote::post(&flags.server.server, &path).await?;
    let Queued { watch, key } =
        serde_json::from_str(&text).map_err(|error| not_a_host(&flags.server.server, &error))?;
    output::print_line(format_args!("queued {} of watch {}", printable(&key), printable(&watch)));
    Ok(())
}

pub(crate) async fn pause(flags: OnePlugin) -> CommandResult {
    change(&flags, "pause").await?;
    let name = &flags.plugin;
    output::print_line(format_args!(
        "paused {name}: it starts no work, and its keys wait; `pilothouse resume {name}` continues"
    ));
    Ok(())
}

pub(crate) async fn resume(flags: OnePlugin) -> CommandResult {
    change(&flags, "resume").await?;
    output::print_line(format_args!("resumed {}", flags.plugin));
    Ok(())
}

#[derive(Deserialize)]
struct Chosen {
    digest: String,
    version: String,
}

pub(crate) async fn rollback(flags: Rollback) -> CommandResult {
    remote::check_plugin_name(&flags.plugin)?;
    let name = &flags.plugin;
    let mut path = format!("/api/plugins/{name}/rollback");
    if let Some(digest) = &flags.digest {
        path = format!("{path}?digest={}", remote::percent_encoded(digest));
    }
    let version = choose(&flags.server.server, &path).await?;
    output::print_line(format_args!(
        "{name}: the host changes to {version}; it runs until the plugin's file changes, and `pilothouse status {name}` shows it"
    ));
    Ok(())
}

pub(crate) async fn promote(flags: OnePlugin) -> CommandResult {
    remote::check_plugin_name(&flags.plugin)?;
    let name = &flags.plugin;
    let version = choose(&flags.server.server, &format!("/api/plugins/{name}/promote")).await?;
    output::print_line(format_args!(
        "{name}: {version} is to reconcile all keys; `pilothouse status {name}` shows when it does"
    ));
    Ok(())
}

/// Sends the request, and returns the version that is to run, for a sentence.
async fn choose(server: &str, path: &str) -> Result<String, CommandError> {
    let text = remote::post(server, path).await?;
    let Chosen { digest, version } =
        serde_json::from_str(&text).map_err(|error| not_a_host(server, &error))?;
    let version = match version.as_str() {
        "" => "the version".to_owned(),
        version => format!("version {}", printable(version)),
    };
    Ok(format!("{version} with the digest {}", printable(&digest)))
}

fn not_a_host(server: &str, error: &serde_json::Error) -> CommandError {
    CommandError::Failure(format!("{server}: the response is not that of a Pilothouse host: {error}"))
}

async fn change(flags: &OnePlugin, action: &str) -> CommandResult {
    remote::check_plugin_name(&flags.plugin)?;
    let path = format!("/api/plugins/{}/{action}", flags.plugin);
    remote::post(&flags.server.server, &path).await.map(drop)
}
