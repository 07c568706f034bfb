//! What the page of one plugin shows beside its status: how it came to its state, what it waits for, and what it may do.

use serde::{Deserialize, Serialize};

use super::PluginStatusSource;
use super::slow_reconciles::SlowReconcile;
use crate::cache::views::View;
use crate::config::descriptor::Rule;
use crate::config::rule_intersection::intersect;
use crate::explain::MissingPrerequisite;
use crate::lifecycle::StateChange;
use crate::load::version::Version;

/// Details of one plugin. They contain no content of objects and no value of `config`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginDetails {
    /// The last changes of its state, the oldest first.
    pub history: Vec<StateChange>,
    /// What is missing, so that the plugin does no work; absent if nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingPrerequisite>,
    /// What the plugin does, as its descriptor says; "" if no version runs.
    pub summary: String,
    /// The watches of the running version.
    pub watches: Vec<WatchDetails>,
    /// What the plugin may do; absent without a valid sidecar, which grants nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<PluginGrants>,
    /// The keys whose reconciles took longest since the host started, the slowest first.
    pub slow_reconciles: Vec<SlowReconcile>,
}

/// A watch of a running version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WatchDetails {
    /// The plugin's name for the watch.
    pub name: String,
    /// The resource, as kubectl accepts it.
    pub resource: String,
    /// The namespaces of the watch; empty for all, and for a cluster-scoped kind.
    pub namespaces: Vec<String>,
    /// The label selector; "" for none.
    pub label_selector: String,
    /// The field selector; "" for none.
    pub field_selector: String,
    /// Whether the plugin reconciles its objects.
    pub is_target: bool,
    /// Whether the first list is in the cache.
    pub synced: bool,
    /// Why the watch does not work; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a plugin may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginGrants {
    /// The service account under which the plugin acts, as `namespace/name`; absent for the host's own identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// The requests that both the descriptor and the sidecar allow.
    pub writes: Vec<Rule>,
    /// The hosts to which the sidecar allows HTTP requests.
    pub http: Vec<String>,
    /// Whether the sidecar allows the plugin's CRDs; absent if the host's configuration decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crds: Option<bool>,
}

impl PluginStatusSource {
    /// Returns the details of the plugin.
    pub(crate) fn details(&self) -> PluginDetails {
        let version = self.running_status.version();
        let version = version.as_deref();
        let views = version.into_iter().flat_map(|version| &version.views.by_name);
        PluginDetails {
            history: self.history(),
            missing: self.plugin_situation(version).missing,
            summary: version.map(|version| version.descriptor.summary.clone()).unwrap_or_default(),
            watches: views.map(|(name, view)| watch_details(name, view)).collect(),
            grants: self.grants(version),
            slow_reconciles: self.plugin.slow_reconciles.list(),
        }
    }

    fn grants(&self, version: Option<&Version>) -> Option<PluginGrants> {
        let granted = self.plugin.current_grants.sidecar_grants()?;
        let declared = version.into_iter().flat_map(|version| &version.descriptor.writes);
        Some(PluginGrants {
            service_account: granted.service_account.as_ref().map(ToString::to_string),
            writes: declared.flat_map(|declared| intersect(declared, granted.writes.as_deref())).collect(),
            http: granted.http.iter().map(ToString::to_string).collect(),
            crds: granted.crds,
        })
    }
}

fn watch_details(name: &str, view: &View) -> WatchDetails {
    let statuses = || view.subscriptions.iter().map(|subscription| subscription.status());
    WatchDetails {
        name: name.to_owned(),
        resource: view.resource.to_string(),
        namespaces: view.cache.namespaces.clone(),
        label_selector: view.label_selector.to_string(),
        field_selector: view.field_selector.to_string(),
        is_target: view.is_target,
        synced: statuses().all(|status| status.synced),
        error: statuses().find_map(|status| status.error).map(|error| error.to_string()),
    }
}
