//! What a check reports.

use std::time::Duration;

use pilothouse_plugin::Exports;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::Right;
use crate::config::descriptor::{Descriptor, Rule, Watch};
use crate::config::limits::{EffectiveLimits, LIMITS, Unit};
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

/// The limits that the plugin would run under: those of its sidecar, else those that it requests, else the defaults.
#[derive(Debug)]
pub struct CheckedLimits {
    /// Keys that are reconciled at the same time.
    pub workers: u16,
    /// All other limits.
    pub effective: EffectiveLimits,
}

impl CheckedLimits {
    pub(super) fn new(effective: EffectiveLimits, descriptor: &Descriptor, sidecar: &Sidecar) -> Self {
        Self { workers: if descriptor.stateful { 1 } else { sidecar.workers.unwrap_or(1) }, effective }
    }
}

/// A member for each limit under its name. Durations are in milliseconds, under names that end in `Ms`.
impl Serialize for CheckedLimits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("workers", &self.workers)?;
        for limit in &LIMITS {
            let value = self.effective.get(limit);
            match limit.unit {
                Unit::Bytes | Unit::Count => map.serialize_entry(limit.name, &value)?,
                Unit::Duration => {
                    let milliseconds = Duration::from_nanos(value).as_millis();
                    map.serialize_entry(&format!("{}Ms", limit.name), &milliseconds)?;
                }
            }
        }
        map.end()
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
