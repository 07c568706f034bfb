//! The descriptor: what a plugin declares when it is loaded (`pilothouse.dev/v1alpha1`, kind `Plugin`).
//!
//! These types are the published schema; [`Descriptor::parse`] also checks what a schema cannot express.

pub(crate) mod bounds;
mod error;
mod schema;
#[cfg(test)]
mod tests;
mod validate;
mod wrong_structure;

use pilothouse_model::Projection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::DescriptorError;
pub use schema::schema;

use crate::config::limits::RequestedLimits;

/// The `apiVersion` of the descriptors that this host accepts.
pub const API_VERSION: &str = "pilothouse.dev/v1alpha1";

/// What a plugin watches, indexes and writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Descriptor {
    /// `pilothouse.dev/v1alpha1`.
    pub api_version: String,
    /// `Plugin`.
    pub kind: String,
    /// The plugin's own name for itself. The plugin runs under its file's stem; another name here only causes a warning.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The plugin's version, free text; shown in `status`.
    #[serde(default)]
    pub version: String,
    /// What the plugin does, in one line.
    #[serde(default)]
    pub summary: String,
    /// The kinds that the plugin reads, and which of their changes start work.
    #[serde(default)]
    pub watches: Vec<Watch>,
    /// What the plugin writes or reads live, as RBAC rules. A call outside them is denied.
    #[serde(default)]
    pub writes: Vec<Rule>,
    /// Hosts to which the plugin sends HTTP requests: `[http://]HOST[:PORT]`, where `*.` before a name stands for all names below it
    /// and `*` for all hosts or ports. A request is sent only if the sidecar grants its host, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<String>,
    /// CustomResourceDefinition manifests of the plugin; applied if granted.
    #[serde(default)]
    pub crds: Vec<serde_json::Value>,
    /// Whether one long-lived instance handles all reconciles and notifications, with one worker. Index values depend on
    /// the object alone and are computed by another instance, so that a reconcile can find what it just wrote.
    #[serde(default)]
    pub stateful: bool,
    /// Limits that the plugin requests; its sidecar may set others.
    #[serde(default)]
    pub limits: RequestedLimits,
}

/// One kind of object that a plugin reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watch {
    /// The plugin's name for this watch; unique in the plugin.
    pub name: String,
    /// The exact API version, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The plural name in URLs; found by discovery when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The namespaces to watch; empty means all.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// A label selector, in the text form of `kubectl -l`.
    #[serde(default)]
    pub label_selector: String,
    /// A field selector, in the text form of `kubectl --field-selector`.
    #[serde(default)]
    pub field_selector: String,
    /// How much of each object is kept.
    #[serde(default)]
    pub projection: ProjectionName,
    /// Which object a change of this kind queues; if absent, the watch only fills the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// A CEL expression over `object`, `old` and `event`; a change for which it is false queues nothing.
    #[serde(default)]
    pub predicate: String,
    /// Whether the plugin's `observe` receives every change, regardless of the predicate.
    #[serde(default)]
    pub notify: bool,
    /// Resync period in milliseconds; 0 disables resync.
    #[serde(default)]
    pub resync: u32,
    /// Indexes over the cached objects.
    #[serde(default)]
    pub indexes: Vec<Index>,
}

/// The projections by the names of the descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProjectionName {
    /// Whole objects.
    #[default]
    Full,
    /// Type and metadata only.
    Metadata,
}

impl From<ProjectionName> for Projection {
    fn from(name: ProjectionName) -> Self {
        match name {
            ProjectionName::Full => Self::Full,
            ProjectionName::Metadata => Self::Metadata,
        }
    }
}

/// Which object is queued when one of this watch changes. Work always names an object of a target watch: one whose
/// own trigger is `self`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Trigger {
    /// The object itself.
    #[serde(rename = "self")]
    Itself,
    /// Its controlling owner, if that has the target watch's kind.
    #[serde(rename_all = "camelCase")]
    Owner {
        /// The target watch.
        watch: String,
    },
    /// Each owner that has the target watch's kind.
    #[serde(rename_all = "camelCase")]
    OwnerAny {
        /// The target watch.
        watch: String,
    },
    /// The object that a label's value names, in the same namespace.
    #[serde(rename_all = "camelCase")]
    Label {
        /// The label's key.
        key: String,
        /// The target watch.
        watch: String,
    },
    /// The object, or objects, that a field names.
    #[serde(rename_all = "camelCase")]
    Field {
        /// JSONPath of the name, such as `{.spec.configMapName}`.
        path: String,
        /// JSONPath of the namespace; if absent, the object's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace_path: Option<String>,
        /// The target watch.
        watch: String,
    },
    /// Each object of the target watch that has this object's key (`namespace/name`) among its index values.
    #[serde(rename_all = "camelCase")]
    Index {
        /// The target watch.
        watch: String,
        /// The index of the target watch.
        index: String,
    },
    /// Each object of the target watch in this object's namespace; for a Namespace, in that namespace.
    #[serde(rename_all = "camelCase")]
    Namespace {
        /// The target watch.
        watch: String,
    },
}

impl Trigger {
    /// The names and keys in the trigger.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        let (first, second) = match self {
            Self::Itself => (None, None),
            Self::Owner { watch }
            | Self::OwnerAny { watch }
            | Self::Field { watch, .. }
            | Self::Namespace { watch } => (Some(watch), None),
            Self::Label { key, watch } => (Some(watch), Some(key)),
            Self::Index { watch, index } => (Some(watch), Some(index)),
        };
        first.into_iter().chain(second)
    }

    /// The watch whose objects are queued; `None` for the watch itself.
    #[must_use]
    pub fn target(&self) -> Option<&str> {
        match self {
            Self::Itself => None,
            Self::Owner { watch }
            | Self::OwnerAny { watch }
            | Self::Label { watch, .. }
            | Self::Field { watch, .. }
            | Self::Index { watch, .. }
            | Self::Namespace { watch } => Some(watch),
        }
    }
}

/// An index over a watch. Exactly one of the fields besides `name` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Index {
    /// The plugin's name for the index; unique in the watch.
    pub name: String,
    /// By the value of this label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// By the value of this annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotation: Option<String>,
    /// By the values that this JSONPath finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// By the UIDs of the owners.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owner: bool,
    /// By the values that the plugin's own `index.values` returns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub computed: bool,
}

/// An RBAC PolicyRule, with namespaces; an empty list of namespaces means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// API groups, "" for core, `*` for all.
    #[serde(default)]
    pub api_groups: Vec<String>,
    /// Plural names, also `deployments/status`; `*` for all.
    #[serde(default)]
    pub resources: Vec<String>,
    /// Verbs; `*` for all.
    #[serde(default)]
    pub verbs: Vec<String>,
    /// Namespaces; empty for all.
    #[serde(default)]
    pub namespaces: Vec<String>,
}

/// A CRD of the plugin, as far as a watch of its kind needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnCrd<'a> {
    pub(crate) name: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) namespaced: bool,
}

impl Descriptor {
    /// Returns the CRD of the plugin that serves a kind, if there is one.
    pub(crate) fn own_crd(&self, api_version: &str, kind: &str) -> Option<OwnCrd<'_>> {
        let (group, version) = api_version.split_once('/')?;
        self.crds.iter().find_map(|crd| {
            let versions = crd.pointer("/spec/versions")?.as_array()?;
            let is_served = crd.pointer("/spec/group")? == group
                && crd.pointer("/spec/names/kind")? == kind
                && versions.iter().any(|found| found["name"] == version);
            let name = crd.pointer("/metadata/name")?.as_str()?;
            let plural = crd.pointer("/spec/names/plural")?.as_str()?;
            let namespaced = crd.pointer("/spec/scope").is_some_and(|scope| scope == "Namespaced");
            is_served.then_some(OwnCrd { name, plural, namespaced })
        })
    }

    /// Parses and validates the text that a plugin's `describe` returned.
    ///
    /// # Errors
    /// Returns the first field that is wrong, and what belongs there.
    pub fn parse(text: &str) -> Result<Self, DescriptorError> {
        bounds::check_text(text)?;
        let mut descriptor: Self =
            serde_json::from_str(text).map_err(|source| match wrong_structure::find(text) {
                Some((path, problem)) => {
                    DescriptorError::invalid(path, problem, "see docs/plugin.schema.json")
                }
                None => DescriptorError::Json { source },
            })?;
        bounds::check(&descriptor)?;
        validate::validate(&descriptor)?;
        // The descriptor is kept for as long as the version runs.
        descriptor.watches.shrink_to_fit();
        descriptor.writes.shrink_to_fit();
        Ok(descriptor)
    }

    /// The indexes that the plugin computes, with their watches.
    pub fn computed_indexes(&self) -> impl Iterator<Item = (&Watch, &Index)> {
        let all = self.watches.iter().flat_map(|watch| watch.indexes.iter().map(move |index| (watch, index)));
        all.filter(|(_, index)| index.computed)
    }

    /// The watch with this name.
    #[must_use]
    pub fn watch(&self, name: &str) -> Option<&Watch> {
        self.watches.iter().find(|watch| watch.name == name)
    }
}
