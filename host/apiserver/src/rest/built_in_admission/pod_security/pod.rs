//! What the checks read of a Pod, and the words of their messages.

use serde_json::Value;

/// The lists of containers.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// A problem of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub reason: String,
    /// Empty if the reason says it all.
    pub detail: String,
}

/// A Pod, or the template of one.
#[derive(Clone, Copy)]
pub(super) struct Pod<'a> {
    pub metadata: &'a Value,
    pub spec: &'a Value,
}

impl<'a> Pod<'a> {
    /// Returns all containers, in the order of Kubernetes.
    pub(super) fn containers(self) -> impl Iterator<Item = &'a Value> {
        CONTAINERS.into_iter().flat_map(move |list| items(&self.spec[list]))
    }

    /// Returns the names of the containers that meet a condition.
    pub(super) fn named(self, is_selected: impl Fn(&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|container| is_selected(container)).map(name_of).collect()
    }

    /// Whether the Pod runs on Windows, to which some checks do not apply.
    pub(super) fn is_windows(self) -> bool {
        self.spec["os"]["name"] == "windows"
    }
}

/// Returns the security context of a container.
pub(super) fn context(container: &Value) -> &Value {
    &container["securityContext"]
}

pub(super) fn name_of(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the finding if there are names.
pub(super) fn finding(reason: &str, detail: String) -> Option<Finding> {
    Some(Finding { reason: reason.to_owned(), detail })
}

/// Returns the singular for one and the plural for several.
pub(super) fn plural<'t>(one: &'t str, several: &'t str, count: usize) -> &'t str {
    if count == 1 { one } else { several }
}

/// `"a", "b"`.
pub(super) fn quoted<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    format!("\"{}\"", names.join("\", \""))
}

/// `container "a"` or `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// `pod and container "a"`: who sets something.
pub(super) fn setters(pod: bool, names: &[&str]) -> Vec<String> {
    let mut setters = Vec::new();
    if pod {
        setters.push("pod".to_owned());
    }
    if !names.is_empty() {
        setters.push(containers(names));
    }
    setters
}
