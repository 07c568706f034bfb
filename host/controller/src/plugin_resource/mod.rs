//! Plugins that objects of the kind `Plugin` describe, besides those of the plugins directory and of the configuration.
//!
//! ```text
//! Plugin objects ─▶ object (parse) ─▶ selection (which run) ─▶ registry (pull) ─▶ host (run)
//!                                          └────────▶ conditions ◀────────┴────────────┘ ─▶ write_schedule ─▶ status of the object
//! ```
//!
//! Everything here is pure. `host::plugin_objects` reads the objects, passes the plugins on, and writes the status.

mod conditions;
mod crd;
mod object;
mod object_status;
mod selection;
mod structural;
mod write_schedule;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use pilothouse_model::ResourceType;
use pilothouse_model::names::is_dns_label;
use serde_json::{Map, Value};

pub(crate) use conditions::{Observation, wanted_status};
pub use crd::plugin_crd;
pub(crate) use object::PluginObject;
pub(crate) use object_status::PluginObjectStatus;
pub(crate) use selection::{Refusal, TakenNames, select};
pub(crate) use write_schedule::WriteSchedule;

const GROUP: &str = "pilothouse.dev";
const VERSION: &str = "v1alpha1";
const KIND: &str = "Plugin";
const PLURAL: &str = "plugins";

/// The most plugins of objects, in all namespaces.
pub(crate) const MAX_OBJECTS: usize = 1000;
/// The most namespaces that a configuration lists. Each is a watch.
const MAX_NAMESPACES: usize = 256;
/// The most plugins of a namespace that is not the host's own.
pub(crate) const MAX_OBJECTS_OF_OTHERS: usize = 50;

/// Which objects of the kind `Plugin` a host runs, and how.
#[derive(Clone)]
pub struct PluginResource {
    /// The namespaces besides the host's own.
    pub namespaces: OtherNamespaces,
    /// The plugins of the configuration, whose names objects cannot have.
    pub configured: BTreeSet<String>,
    /// Receives the plugins that are to run, at first and whenever they change.
    pub apply: Arc<dyn Fn(ObjectPlugins) + Send + Sync>,
}

impl fmt::Debug for PluginResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespaces, configured, .. } = self;
        f.debug_struct("PluginResource")
            .field("namespaces", namespaces)
            .field("configured", configured)
            .finish_non_exhaustive()
    }
}

/// The namespaces besides the host's own whose objects are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherNamespaces {
    /// These.
    Listed(Vec<String>),
    /// All.
    All,
}

impl OtherNamespaces {
    /// Checks names of namespaces, which become parts of URLs; `["*"]` stands for all namespaces.
    ///
    /// # Errors
    /// Returns what is wrong with the list.
    pub fn parse(names: &[String]) -> Result<Self, String> {
        if names.len() > MAX_NAMESPACES {
            return Err(format!(
                "there are {} entries, and at most {MAX_NAMESPACES} are accepted",
                names.len()
            ));
        }
        match names {
            [all] if all == "*" => Ok(Self::All),
            _ => match names.iter().find(|name| !is_dns_label(name)) {
                Some(name) if name == "*" => {
                    Err("\"*\" stands for all namespaces and has to be the only entry".to_owned())
                }
                Some(name) => Err(format!("{name:?} is not the name of a namespace")),
                None => Ok(Self::Listed(names.to_vec())),
            },
        }
    }
}

/// The plugins that objects describe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectPlugins {
    /// The plugins that are to run.
    pub plugins: Vec<ObjectPlugin>,
    /// Whether the objects of all namespaces are known. Otherwise, others may follow.
    pub are_all: bool,
}

/// A plugin that an object describes.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectPlugin {
    /// The plugin's name.
    pub name: String,
    /// The reference of the artifact.
    pub image: String,
    /// How often a tag is looked at.
    pub poll: Option<String>,
    /// The members of the plugin's sidecar.
    pub sidecar: Map<String, Value>,
}

/// Returns the resource of the objects.
pub(crate) fn resource_type() -> ResourceType {
    ResourceType {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        kind: KIND.to_owned(),
        plural: PLURAL.to_owned(),
        namespaced: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(names: &[&str]) -> Result<OtherNamespaces, String> {
        OtherNamespaces::parse(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn no_other_namespace_counts_unless_it_is_listed() {
        assert_eq!(parse(&[]), Ok(OtherNamespaces::Listed(Vec::new())));
        assert_eq!(parse(&["shop"]), Ok(OtherNamespaces::Listed(vec!["shop".to_owned()])));
        assert_eq!(parse(&["*"]), Ok(OtherNamespaces::All));
    }

    #[test]
    fn a_wrong_list_of_namespaces_is_refused() {
        for (names, part) in [
            (&["a/b"][..], "\"a/b\" is not the name"),
            (&["shop", "*"][..], "has to be the only entry"),
            (&[""][..], "is not the name"),
            (&["x"; 300][..], "300 entries"),
        ] {
            let error = parse(names).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }
}
