//! The sidecar, `NAME.yaml` beside `NAME.wasm`: the operator's settings for a plugin.
//!
//! `parse` reads and checks one, and `error` names the field that is wrong.

mod error;
mod parse;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::ServiceAccount;
use crate::config::descriptor::Rule;
use crate::config::limits::SidecarLimits;
pub use crate::config::rollout_settings::{
    CanaryError, CanaryMembers, CanaryShare, ProbationError, ProbationPeriod, RolloutSettings,
};

pub use error::SidecarError;
pub(crate) use parse::MAX_SIDECAR;

/// The operator's settings for one plugin. Absent fields have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sidecar {
    /// Whether the plugin runs; `true` by default.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// Passed to the plugin as JSON, by `describe` and by the import `config`.
    #[serde(default)]
    pub config: serde_json::Map<String, serde_json::Value>,
    /// The number of keys that are reconciled at the same time; 1 by default, as in controller-runtime.
    #[serde(default, deserialize_with = "parse::workers")]
    #[schemars(range(min = 1, max = 64))]
    pub workers: Option<u16>,
    /// Limits, which override those that the plugin requests.
    #[serde(default)]
    pub limits: SidecarLimits,
    /// What the plugin may do; if absent, all that its descriptor asks for.
    #[serde(default)]
    pub grants: GrantSettings,
    /// The service account as which the plugin reads and writes; if absent, the host's own identity.
    #[serde(default)]
    #[schemars(
        with = "Option<String>",
        regex(pattern = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")
    )]
    pub service_account: Option<ServiceAccount>,
    /// How a new version replaces the running one.
    #[serde(default)]
    pub rollout: RolloutSettings,
    /// A new version that is compared with the running one.
    #[serde(default)]
    pub shadow: Option<ShadowSettings>,
}

/// A new version that runs in the shadow of the running one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShadowSettings {
    /// Its file, relative to the plugins directory.
    pub file: String,
}

/// What is granted to a plugin where its sidecar says nothing, or if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GrantMode {
    /// What the descriptor declares, except for HTTP.
    #[default]
    Declared,
    /// Nothing.
    Explicit,
}

/// What the operator grants. Each field restricts what the descriptor asks for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Grants")]
pub struct GrantSettings {
    /// What may be watched; if absent, all that the descriptor watches.
    #[serde(default)]
    pub watches: Option<Vec<WatchRule>>,
    /// The allowed writes, as RBAC rules; if absent, those of the descriptor.
    #[serde(default)]
    pub writes: Option<Vec<Rule>>,
    /// Whether the plugin's CRDs may be applied; if absent, the host's default (`dev` applies them, `run`
    /// does not).
    #[serde(default)]
    pub crds: Option<bool>,
    /// Hosts to which the plugin may send HTTP requests, of those that its descriptor asks for; none by
    /// default.
    #[serde(default)]
    pub http: Vec<String>,
}

/// What may be watched: an RBAC rule without verbs, because a watch needs `list` and `watch` together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WatchRule {
    /// API groups; "" for core, `*` for all.
    pub api_groups: Vec<String>,
    /// Plural names; `*` for all.
    pub resources: Vec<String>,
    /// Namespaces; empty for all, and for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
}

impl Sidecar {
    /// The plugin's config as JSON text, which is what the plugin receives.
    #[must_use]
    pub fn config_json(&self) -> String {
        serde_json::Value::Object(self.config.clone()).to_string()
    }

    /// Whether `rollout.canary` differs between the two texts, and nothing else that has an effect.
    pub(crate) fn differ_only_in_canary(left: &str, right: &str) -> bool {
        let [Ok(mut left), Ok(mut right)] = [left, right].map(Self::parse) else { return false };
        left.rollout.canary.take() != right.rollout.canary.take() && left == right
    }
}

/// Returns the JSON Schema of a sidecar, as in `docs/sidecar.schema.json`.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Sidecar).to_value();
    schema["title"] = "Pilothouse sidecar".into();
    schema
}
