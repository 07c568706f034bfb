//! The result of a check.

use std::time::Duration;

use pilothouse_plugin::Exports;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::RequiredPermission;
use super::permissions::as_text;
use crate::access::ServiceAccount;
use crate::config::descriptor::{Descriptor, Rule, Watch};
use crate::config::limits::{EffectiveLimits, LIMITS, Unit};
use crate::config::rule_intersection::intersect;
use crate::config::sidecar::Sidecar;

/// The report on a plugin that loads. Its JSON is that of `pilothouse check --json` (docs/cli.md): fields are
/// only added.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// The name under which the plugin would run.
    pub name: String,
    /// Whether the plugin would run; if not, `problems` says why.
    pub runs: bool,
    /// What keeps the plugin from running, each with its place and remedy.
    pub problems: Vec<String>,
    /// What is allowed but probably a mistake.
    pub warnings: Vec<String>,
    /// The plugin's own version.
    pub version: String,
    /// The plugin's description of what it does.
    pub summary: String,
    /// The format of the file: `component` or `coreModule`.
    pub form: &'static str,
    /// The size of the file in bytes.
    pub size: usize,
    /// SHA-256 of the file, in hex.
    pub digest: String,
    /// How long compiling the plugin took; `None` if the engine had the code in its cache. Not part of the JSON.
    #[serde(skip)]
    pub compile_time: Option<Duration>,
    /// The version of `pilothouse:controller` that the plugin was built for.
    pub contract: String,
    /// The world that matches its exports: `reconciler`, `observer`, `controller`, or `mixed`.
    pub world: &'static str,
    /// The optional interfaces that the plugin exports.
    pub exports: Vec<&'static str>,
    /// The interfaces that the plugin imports.
    pub imports: Vec<String>,
    /// The plugin's watches.
    pub watches: Vec<CheckedWatch>,
    /// The plugin's write rules, with what the sidecar grants of each.
    pub writes: Vec<CheckedRule>,
    /// The hosts to which the plugin sends HTTP requests, if its sidecar grants them.
    pub http: Vec<String>,
    /// The names of the plugin's CRDs.
    pub crds: Vec<String>,
    /// The permissions that the host needs for the plugin.
    #[serde(rename = "rights")]
    pub permissions: Vec<RequiredPermission>,
    /// The limits that would apply.
    pub limits: CheckedLimits,
    /// Whether the plugin has a sidecar.
    pub has_sidecar: bool,
    /// The service account as which the plugin reads and writes; absent for the host's own identity.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub service_account: Option<ServiceAccount>,
    /// Whether the sidecar lets the host apply the plugin's CRDs; absent if it leaves that to the host's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants_crds: Option<bool>,
    /// Whether the sidecar enables the plugin.
    pub enabled: bool,
    /// What the plugin logged during `describe`.
    pub log: Vec<String>,
}

/// A write rule of the descriptor, and what the sidecar grants of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedRule {
    /// The rule in the descriptor.
    #[serde(flatten)]
    pub rule: Rule,
    /// The parts of the rule that the sidecar grants: the rule itself if the sidecar does not restrict it, and none if it grants nothing of
    /// it.
    pub granted: Vec<Rule>,
}

impl CheckedRule {
    pub(super) fn of(declared: Vec<Rule>, sidecar: &Sidecar) -> Vec<Self> {
        let granted = sidecar.grants.writes.as_deref();
        declared.into_iter().map(|rule| Self { granted: intersect(&rule, granted), rule }).collect()
    }
}

/// A watch of the descriptor, and whether a server serves its kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedWatch {
    /// The watch in the descriptor, with the plural name if that is known.
    #[serde(flatten)]
    pub watch: Watch,
    /// Whether the kind is served.
    pub served: Availability,
    /// Whether the kind is namespaced, if that is known.
    #[serde(skip)]
    pub namespaced: Option<bool>,
}

impl CheckedWatch {
    /// Creates the result for a watch. `plural` is used if the descriptor has no plural name.
    pub(super) fn new(
        watch: &Watch,
        served: Availability,
        plural: Option<String>,
        namespaced: Option<bool>,
    ) -> Self {
        let resource = watch.resource.clone().or(plural);
        Self { served, namespaced, watch: Watch { resource, ..watch.clone() } }
    }
}

/// Whether a server has, or allows, what a plugin needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Availability {
    /// The server has it, or allows it.
    Yes,
    /// The server lacks it, or denies it.
    No,
    /// The plugin brings the CRD itself.
    ByOwnCrd,
    /// Only the cluster knows, and it was not queried.
    Unverified,
}

/// The limits that would apply to the plugin: the sidecar's, else the requested ones, else the defaults.
#[derive(Debug)]
pub struct CheckedLimits {
    /// The number of keys that are reconciled at the same time.
    pub workers: u16,
    /// All other limits.
    pub effective: EffectiveLimits,
}

impl CheckedLimits {
    pub(super) fn new(effective: EffectiveLimits, descriptor: &Descriptor, sidecar: &Sidecar) -> Self {
        Self { workers: if descriptor.stateful { 1 } else { sidecar.workers.unwrap_or(1) }, effective }
    }
}

/// Serializes each limit under its name. Durations are in milliseconds, and their names end in `Ms`.
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
