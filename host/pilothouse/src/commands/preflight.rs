//! `pilothouse preflight`: whether this machine and a cluster have what a host needs. `crate::preflight` judges what this module finds out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use http::Request;
use http_body_util::{BodyExt, Limited};
use jiff::Timestamp;
use pilothouse_controller::{Availability, GrantMode};
use serde_json::Value;

use super::compile::cache_dir;
use super::inspected_plugin::InspectedPlugin;
#[cfg(feature = "registry")]
use super::inspected_plugin::configured;
use super::percent_encoded;
use super::run::{HostConfig, read_config};
use crate::cli::{AuthMode, Preflight};
use crate::preflight::{self as judge, Finding, Outcome};
use crate::{CommandError, CommandResult, cluster, output, plugin_check};

/// The maximum size of a response in bytes.
const MAX_BODY: usize = 1 << 20;
/// How long a response may take after its status.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of plugins that are checked.
const MAX_PLUGINS: usize = 1_000;

pub(crate) async fn run(flags: Preflight) -> CommandResult {
    let mut failed = 0;
    let mut report = |findings: Vec<Finding>| {
        for finding in findings {
            output::print_line(finding.line());
            failed += usize::from(finding.outcome == Outcome::Failed);
        }
    };
    let (config, finding) = configuration(flags.config.as_deref());
    report(vec![finding]);
    let (files, finding) = plugin_files(&flags.plugins, config.has_other_sources());
    report(vec![finding, cache(flags.cache_dir.clone())]);
    #[cfg(feature = "registry")]
    report(
        super::registry::judge_cache(&config, flags.cache_dir.or_else(super::compile::default_cache_dir))
            .into_iter()
            .collect(),
    );
    let plugins: Vec<_> = files.into_iter().map(InspectedPlugin::File).collect();
    #[cfg(feature = "registry")]
    let plugins = {
        let policy = super::registry::read_policy(&config.registries).await;
        let looked_up = super::registry::preflight(&config.plugins, &config.registries, &policy).await;
        report(looked_up.findings);
        plugins.into_iter().chain(configured(looked_up.found, &config, policy.ok().flatten())).collect()
    };
    match cluster::client(flags.kubeconfig.as_deref(), flags.context.as_deref()).await {
        Ok(client) => {
            let (findings, is_reachable) = server(&client).await;
            report(findings);
            if is_reachable {
                if flags.auth == Some(AuthMode::Kubernetes) {
                    report(vec![status_port(&client).await]);
                }
                #[cfg(feature = "registry")]
                report(plugin_objects(&client, &config).await);
                let host = (config.grant_crds, config.grants);
                let mut checks = pin!(plugin_check::check_each(plugins, move |plugin: InspectedPlugin| {
                    let client = client.clone();
                    async move { of_plugin(&plugin, client, host).await }
                }));
                while let Some((_, findings)) = checks.next().await {
                    report(findings);
                }
            }
        }
        Err(error) => {
            report(vec![Finding::failed("server", text_of(error), "the other checks need a cluster")]);
        }
    }
    match failed {
        0 => Ok(()),
        1 => Err(CommandError::Failure("one check failed".to_owned())),
        count => Err(CommandError::Failure(format!("{count} checks failed"))),
    }
}

fn configuration(path: Option<&Path>) -> (HostConfig, Finding) {
    const CHECK: &str = "configuration";
    match read_config(path) {
        Ok(config) => {
            let shown = path.map_or_else(|| "the defaults".to_owned(), |path| path.display().to_string());
            (config, Finding::passed(CHECK, shown))
        }
        Err(error) => {
            let finding =
                Finding::failed(CHECK, text_of(error), "`pilothouse check --config FILE` checks it again");
            (HostConfig::default(), finding)
        }
    }
}

/// Returns the plugins in the directory, and whether it can be read. It may be empty if there are other sources of plugins.
fn plugin_files(directory: &Path, has_other_sources: bool) -> (Vec<PathBuf>, Finding) {
    const CHECK: &str = "plugins";
    let shown = directory.display();
    let entries = match directory.read_dir() {
        Ok(entries) => entries,
        Err(error) => {
            let remedy = "give the directory with the plugins' .wasm files with --plugins, or create it";
            return (Vec::new(), Finding::failed(CHECK, format!("{shown}: {error}"), remedy));
        }
    };
    let mut paths: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| plugin_check::is_plugin_file(path))
        .collect();
    paths.sort();
    let finding = match paths.len() {
        0 if has_other_sources => Finding::passed(
            CHECK,
            format!("{shown} has no .wasm file; the configuration names other plugins"),
        ),
        0 => Finding::warning(
            CHECK,
            format!("{shown} has no .wasm file"),
            "copy a plugin into it; until then the host does nothing",
        ),
        count if count > MAX_PLUGINS => {
            let text = format!("{shown}: {count} plugins, of which the first {MAX_PLUGINS} are checked");
            Finding::warning(CHECK, text, "check the others with `pilothouse check`")
        }
        1 => Finding::passed(CHECK, format!("{shown}: 1 plugin")),
        count => Finding::passed(CHECK, format!("{shown}: {count} plugins")),
    };
    paths.truncate(MAX_PLUGINS);
    (paths, finding)
}

fn cache(path: Option<PathBuf>) -> Finding {
    match cache_dir(path) {
        Some(path) => {
            let problem = pilothouse_plugin::check_cache_directory(&path).err();
            judge::cache(&path.display().to_string(), problem.as_deref())
        }
        None => judge::cache("the user's cache", Some("$HOME is not set")),
    }
}

/// Checks the API server. Returns whether it can be reached and accepts the credentials.
async fn server(client: &kube::Client) -> (Vec<Finding>, bool) {
    let response = match get(client, "/version").await {
        Ok(response) => response,
        Err(problem) => {
            let remedy = "check the address and the credentials in the kubeconfig, and the network";
            return (vec![Finding::failed("server", problem, remedy)], false);
        }
    };
    let is_accepted = response.status != 401;
    let mut findings = vec![
        judge::server(response.status, &response.body, &response.message()),
        judge::clock(response.date.as_deref(), response.arrived),
    ];
    if !is_accepted {
        return (findings, false);
    }
    // A second is enough: the status comes before the events.
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?watch=true&allowWatchBookmarks=true&sendInitialEvents=true\
         &resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
        percent_encoded(client.default_namespace())
    );
    let is_accepted = match get(client, &path).await {
        Ok(response) => {
            findings.push(judge::streaming_lists(response.status, &response.message()));
            response.status != 401
        }
        Err(problem) => {
            let remedy = "try again once the API server answers";
            findings.push(Finding::warning("watch-list", problem, remedy));
            true
        }
    };
    (findings, is_accepted)
}

/// A response of the API server.
struct Response {
    status: u16,
    date: Option<String>,
    arrived: Timestamp,
    body: String,
}

impl Response {
    /// Returns the message of a `Status`.
    fn message(&self) -> String {
        let status: Value = serde_json::from_str(&self.body).unwrap_or_default();
        status["message"].as_str().unwrap_or_default().chars().take(200).collect()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the date of a response is compared with the clock of this machine"
)]
async fn get(client: &kube::Client, path: &str) -> Result<Response, String> {
    let failed = |error: &dyn std::error::Error| format!("GET {path}: {}", cluster::causes(error));
    let request = Request::get(path).body(kube::client::Body::empty()).map_err(|error| failed(&error))?;
    let response = client.send(request).await.map_err(|error| failed(&error))?;
    let arrived = Timestamp::now();
    let status = response.status().as_u16();
    let date = response.headers().get("date").and_then(|date| date.to_str().ok()).map(str::to_owned);
    // A watch that the server ends, or that is too large, has told its status.
    let body =
        tokio::time::timeout(BODY_TIMEOUT, Limited::new(response.into_body(), MAX_BODY).collect()).await;
    let body = body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let body = String::from_utf8_lossy(&body).into_owned();
    Ok(Response { status, date, arrived, body })
}

/// Reviews the permissions of a host that asks the API server who may read its status port.
async fn status_port(client: &kube::Client) -> Finding {
    let mut permissions = super::host_permissions::of_status_port();
    let problems = pilothouse_controller::review_permissions(client.clone(), &mut permissions).await;
    let remedy =
        "apply what `pilothouse rbac --auth kubernetes` prints, or install the chart, which grants them";
    judge::host_permissions("the status port", &problems, permissions.len(), remedy)
}

/// Checks that the kind `Plugin` is served, and reviews the permissions for its objects. Returns nothing if the host runs none.
#[cfg(feature = "registry")]
async fn plugin_objects(client: &kube::Client, config: &HostConfig) -> Vec<Finding> {
    let mut permissions =
        super::host_permissions::of_plugin_objects(&config.plugin_resource, client.default_namespace());
    if permissions.is_empty() {
        return Vec::new();
    }
    let served = get(client, "/apis/pilothouse.dev/v1alpha1").await.map(|response| response.status);
    let problems = pilothouse_controller::review_permissions(client.clone(), &mut permissions).await;
    let remedy = "apply what `pilothouse rbac --config FILE` prints, or set pluginResource.enabled in the chart's values";
    let judged = judge::host_permissions("Plugin objects", &problems, permissions.len(), remedy);
    vec![judge::plugin_kind(served), judged]
}

/// Reviews the permissions that a plugin needs, and looks up the kinds of its CRDs.
async fn of_plugin(
    plugin: &InspectedPlugin,
    client: kube::Client,
    (grant_crds, grants): (bool, GrantMode),
) -> Vec<Finding> {
    let (name, file) = (plugin.name(), plugin.shown());
    let opened = match plugin.open().await {
        Ok(opened) => opened,
        Err(error) => return vec![Finding::failed("rights", text_of(error), "run the command again")],
    };
    let report = match plugin_check::check_in(opened.file(), Some(client), (grant_crds, grants)).await {
        Ok(report) => report,
        Err(error) => {
            let remedy = format!("`pilothouse check {file}` says more");
            return vec![Finding::failed("rights", text_of(plugin.renamed(error, &opened)), remedy)];
        }
    };
    let allowed =
        report.permissions.iter().filter(|permission| permission.allowed == Availability::Yes).count();
    let mut findings = vec![judge::rights(
        &name,
        (&plugin.rbac_argument(), &file),
        &report.problems,
        (allowed, report.permissions.len()),
    )];
    let by_own_crd = report.watches.iter().filter(|watch| watch.served == Availability::ByOwnCrd);
    let missing: BTreeSet<_> = by_own_crd.map(|watch| watch.watch.kind.clone()).collect();
    let missing: Vec<_> = missing.into_iter().collect();
    if report.enabled {
        let may_apply = report.grants_crds.unwrap_or(grant_crds);
        findings.extend(judge::crds(&name, &file, &missing, may_apply));
    }
    findings
}

fn text_of(error: CommandError) -> String {
    let (CommandError::Failure(text) | CommandError::Usage(text)) = error;
    text
}
