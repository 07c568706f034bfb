//! What a check reports.

use pilothouse_plugin::Exports;
use serde::Serialize;

use super::Right;
use crate::config::descriptor::{Descriptor, Rule, Watch};
use crate::config::limits::Effective;
use crate::config::sidecar::Sidecar;

/// What is known of a plugin that loads. Its JSON is `pilothouse check --json` (docs/cli.md): members are only added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// The name that it would run under.
    pub name: String,
    /// Whether it would run; if not, `problems` says why.
    pub runs: bool,
    /// What keeps it from running, each with place and remedy.
    pub problems: Vec<String>,
    /// What is allowed and probably not meant.
    pub warnings: Vec<String>,
    /// Its own version text.
    pub version: String,
    /// What it says it does.
    pub summary: String,
    /// What the file is: `component` or `coreModule`.
    pub form: &'static str,
    /// Bytes of the file.
    pub size: usize,
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// The version of `pilothouse:controller` that it was built for.
    pub contract: String,
    /// The world that its exports make: `reconciler`, `observer`, `controller`, or `mixed`.
    pub world: &'static str,
    /// The optional interfaces that it exports.
    pub exports: Vec<&'static str>,
    /// The interfaces that it imports.
    pub imports: Vec<String>,
    /// What it watches.
    pub watches: Vec<CheckedWatch>,
    /// What it wants to write.
    pub writes: Vec<Rule>,
    /// The hosts that it sends HTTP requests to, as far as its sidecar grants them.
    pub http: Vec<String>,
    /// Names of the CRDs that it brings.
    pub crds: Vec<String>,
    /// What the host must be allowed to do for it.
    pub rights: Vec<Right>,
    /// What it would run under.
    pub limits: CheckedLimits,
    /// Whether a sidecar lies beside it.
    pub has_sidecar: bool,
    /// Whether the sidecar lets it run.
    pub enabled: bool,
    /// What the plugin logged while it described itself.
    pub log: Vec<String>,
}

/// A watch of the descriptor, and whether a server has its kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedWatch {
    /// As the descriptor has it, with the plural name where that is known.
    #[serde(flatten)]
    pub watch: Watch,
    /// Whether the kind is served.
    pub served: Verdict,
    /// Whether its objects are in namespaces, where that is known.
    #[serde(skip)]
    pub namespaced: Option<bool>,
}

/// What a server says of something that a plugin needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The server has it, or allows it.
    Yes,
    /// The server lacks it, or denies it.
    No,
    /// The plugin brings the CRD itself.
    ByOwnCrd,
    /// Only the cluster knows, and it was not asked.
    Unverified,
}

/// The limits that the plugin would run under: the sidecar's, else its own wishes, else the host's.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedLimits {
    /// Bytes of memory that one instance may use.
    pub memory: usize,
    /// Milliseconds that one reconcile may take.
    pub reconcile_timeout_ms: u128,
    /// Milliseconds that one observe may take.
    pub observe_timeout_ms: u128,
    /// Object handles that may be open at a time.
    pub handles: u32,
    /// Bytes of the body of one HTTP request or response.
    pub http_body: usize,
    /// HTTP requests that one instance may have under way.
    pub http_requests: u32,
    /// Keys that are reconciled at the same time.
    pub workers: u16,
    /// Milliseconds that instantiation and describe may take, each.
    pub describe_timeout_ms: u128,
    /// Milliseconds that the index values of one object may take.
    pub index_timeout_ms: u128,
    /// Elements of an instance's tables.
    pub table_elements: usize,
    /// Core instances, memories and tables of a component, each.
    pub instances: usize,
    /// Bytes that one call may carry either way.
    pub message_size: usize,
    /// Bytes of a manifest or patch.
    pub object_size: usize,
    /// Log lines per second.
    pub log_lines_per_second: u32,
    /// Bytes of log per second.
    pub log_bytes_per_second: usize,
    /// Bytes of one log line.
    pub log_line_size: usize,
    /// Series of the plugin's own metrics.
    pub metric_series: u32,
    /// Requests to the API server per second.
    pub client_qps: u32,
    /// Requests to the API server that may come at once.
    pub client_burst: u32,
    /// Kubernetes Events per second.
    pub events_per_second: u32,
    /// Bytes that the host may hold for the plugin.
    pub host_memory: usize,
}

impl CheckedLimits {
    pub(super) fn new(limits: &Effective, descriptor: &Descriptor, sidecar: &Sidecar) -> Self {
        let Effective { guest: limits, quotas, .. } = limits;
        Self {
            memory: limits.memory,
            reconcile_timeout_ms: limits.reconcile_timeout.as_millis(),
            observe_timeout_ms: limits.observe_timeout.as_millis(),
            handles: limits.handles,
            http_body: limits.http_body,
            http_requests: limits.http_requests,
            workers: if descriptor.stateful { 1 } else { sidecar.workers.unwrap_or(1) },
            describe_timeout_ms: limits.describe_timeout.as_millis(),
            index_timeout_ms: limits.index_timeout.as_millis(),
            table_elements: limits.table_elements,
            instances: limits.instances,
            message_size: limits.message_size,
            object_size: limits.object_size,
            log_lines_per_second: limits.log_lines_per_second,
            log_bytes_per_second: limits.log_bytes_per_second,
            log_line_size: limits.log_line_size,
            metric_series: quotas.metric_series,
            client_qps: quotas.client_qps,
            client_burst: quotas.client_burst,
            events_per_second: quotas.events_per_second,
            host_memory: quotas.host_memory,
        }
    }
}

pub(super) fn exports(exports: Exports) -> Vec<&'static str> {
    let named = [("reconcile", exports.reconcile), ("observe", exports.observe), ("index", exports.index)];
    named.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
}

pub(super) fn world(exports: Exports) -> &'static str {
    match (exports.reconcile, exports.observe, exports.index) {
        (true, false, false) => "reconciler",
        (false, true, false) => "observer",
        (true, true, true) => "controller",
        _ => "mixed",
    }
}
