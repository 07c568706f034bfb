//! The permissions on the API server that the host, and a plugin's service account, need for a plugin.

#[cfg(test)]
mod tests;

use pilothouse_model::FieldSelector;
use pilothouse_model::names::guess_plural;
use serde::Serialize;

use super::scopes::Scopes;
use super::{Availability, CheckedWatch};
use crate::access::{ServiceAccount, only_name};
use crate::config::descriptor::{Descriptor, Rule};
use crate::config::rule_intersection::intersect;
use crate::config::rule_match::includes_all_namespaces;
use crate::config::sidecar::{Sidecar, WatchRule};
use crate::config::watch_grants::granted_namespaces;

/// One verb on one resource, as in an RBAC rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequiredPermission {
    /// The plugin's service account, if that needs the permission; `None` for the host.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub service_account: Option<ServiceAccount>,
    /// The API group; "" for core.
    pub group: String,
    /// The plural name, with `/status` or another subresource if there is one; `*` for all.
    pub resource: String,
    /// The verb; `*` for all.
    pub verb: String,
    /// The namespace; "" for all namespaces and for cluster scope.
    pub namespace: String,
    /// The names of the only objects that the permission is needed for; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The part of the plugin that needs the permission.
    pub needed_for: String,
    /// Whether the resource name is only guessed from the kind, because no server could resolve it.
    pub is_guess: bool,
    /// Whether the server allows it.
    pub allowed: Availability,
}

/// Serializes a service account as `NAMESPACE/NAME`.
pub(super) fn as_text<S: serde::Serializer>(
    account: &Option<ServiceAccount>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&account.as_ref().map(ToString::to_string).unwrap_or_default())
}

/// The verbs that the cache of a watch needs. The cache also answers the plugin's own gets and lists.
const CACHE_VERBS: [&str; 2] = ["list", "watch"];
/// The verbs of writes. The outcome of one without a response is found out by `get`.
const WRITE_VERBS: [&str; 4] = ["create", "update", "patch", "delete"];
/// The verbs that applying a CRD and waiting until it is served needs.
const APPLY_VERBS: [&str; 3] = ["get", "create", "patch"];
/// The verbs that recording Events needs.
const EVENT_VERBS: [&str; 2] = ["create", "patch"];

/// Some verbs on one resource.
struct ResourceVerbs<'a> {
    group: &'a str,
    resource: &'a str,
    verbs: &'a [&'a str],
    /// Empty for all namespaces.
    namespaces: &'a [String],
    names: &'a [String],
    is_guess: bool,
}

#[derive(Default)]
struct PermissionCollector(Vec<RequiredPermission>);

impl PermissionCollector {
    fn add(&mut self, account: Option<&ServiceAccount>, needed_for: &str, asked: &ResourceVerbs<'_>) {
        let all = [String::new()];
        let is_all = asked.namespaces.is_empty() || asked.namespaces.iter().any(|namespace| namespace == "*");
        let namespaces = if is_all { &all[..] } else { asked.namespaces };
        for namespace in namespaces {
            self.0.extend(asked.verbs.iter().map(|verb| RequiredPermission {
                service_account: account.cloned(),
                group: asked.group.to_owned(),
                resource: asked.resource.to_owned(),
                verb: (*verb).to_owned(),
                namespace: namespace.clone(),
                names: asked.names.to_vec(),
                needed_for: needed_for.to_owned(),
                is_guess: asked.is_guess,
                allowed: Availability::Unverified,
            }));
        }
    }
}

impl PermissionCollector {
    /// Adds those that no permission added before includes.
    fn add_missing(&mut self, account: Option<&ServiceAccount>, needed_for: &str, asked: &ResourceVerbs<'_>) {
        let before = self.0.len();
        self.add(account, needed_for, asked);
        for permission in self.0.split_off(before) {
            if !self.0.iter().any(|known| known.includes(&permission)) {
                self.0.push(permission);
            }
        }
    }
}

impl RequiredPermission {
    /// Whether this permission allows all that the other one allows.
    fn includes(&self, other: &Self) -> bool {
        let covers = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        self.service_account == other.service_account
            && covers(&self.group, &other.group)
            && covers(&self.resource, &other.resource)
            && covers(&self.verb, &other.verb)
            && (self.namespace.is_empty() || self.namespace == other.namespace)
            && (self.names.is_empty() || self.names == other.names)
    }
}

/// Returns exactly the permissions that the plugin needs with its sidecar, in the order of its descriptor. A watch
/// that the sidecar does not grant needs none.
pub(super) fn needed(
    descriptor: &Descriptor,
    watches: &[CheckedWatch],
    sidecar: &Sidecar,
    scopes: &Scopes,
    grant_crds: bool,
) -> Vec<RequiredPermission> {
    let mut needed = PermissionCollector::default();
    let mut event_namespaces = EventNamespaces::default();
    add_watch_permissions(&mut needed, &mut event_namespaces, watches, sidecar);
    add_write_permissions(&mut needed, &mut event_namespaces, descriptor, sidecar, scopes);
    add_outcome_permissions(&mut needed, descriptor, watches, sidecar, scopes);
    if let Some(account) = &sidecar.service_account {
        add_impersonation_permissions(&mut needed, account, !descriptor.writes.is_empty());
    }
    if !descriptor.crds.is_empty() && sidecar.grants.crds.unwrap_or(grant_crds) {
        add_crd_permissions(&mut needed, descriptor);
    }
    add_event_permissions(&mut needed, event_namespaces);
    needed.0
}

/// Adds what the caches of the watches need, and the namespaces of Events about their objects.
fn add_watch_permissions(
    needed: &mut PermissionCollector,
    event_namespaces: &mut EventNamespaces,
    watches: &[CheckedWatch],
    sidecar: &Sidecar,
) {
    let account = sidecar.service_account.as_ref();
    for checked in watches {
        let (group, plural) = checked.resource();
        let Ok(namespaces) = checked.granted_namespaces(sidecar) else { continue };
        event_namespaces.add(&namespaces, checked.namespaced);
        let names = checked.names();
        let asked = ResourceVerbs {
            group,
            resource: &plural,
            verbs: &CACHE_VERBS,
            namespaces: &namespaces,
            names: &names,
            is_guess: checked.watch.resource.is_none(),
        };
        let needed_for = format!("watch {}", checked.watch.name);
        if account.is_some() {
            needed.add(None, &needed_for, &asked);
        }
        // The host reviews whether the account may read what the cache shows the plugin.
        needed.add(account, &needed_for, &asked);
    }
}

/// Adds the declared writes that the sidecar grants, and the namespaces of Events about their objects.
fn add_write_permissions(
    needed: &mut PermissionCollector,
    event_namespaces: &mut EventNamespaces,
    descriptor: &Descriptor,
    sidecar: &Sidecar,
    scopes: &Scopes,
) {
    for (position, declared) in descriptor.writes.iter().enumerate() {
        for rule in intersect(declared, sidecar.grants.writes.as_deref()) {
            let verbs: Vec<&str> = rule.verbs.iter().map(String::as_str).collect();
            event_namespaces.add(&rule.namespaces, None);
            for (group, resource) in resources(&rule) {
                if scopes.grants_nothing(&rule, group, resource) {
                    continue;
                }
                let namespaces = &rule.namespaces;
                let asked =
                    ResourceVerbs { group, resource, verbs: &verbs, namespaces, names: &[], is_guess: false };
                needed.add(sidecar.service_account.as_ref(), &format!("writes[{position}]"), &asked);
            }
        }
    }
}

/// Adds what applying the plugin's CRDs needs.
fn add_crd_permissions(needed: &mut PermissionCollector, descriptor: &Descriptor) {
    let asked = ResourceVerbs {
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
        verbs: &APPLY_VERBS,
        namespaces: &[],
        names: &super::crd_names(descriptor),
        is_guess: false,
    };
    needed.add(None, "crds", &asked);
}

/// Adds what recording Events needs.
fn add_event_permissions(needed: &mut PermissionCollector, event_namespaces: EventNamespaces) {
    let namespaces = event_namespaces.namespaces();
    let asked = ResourceVerbs {
        group: "events.k8s.io",
        resource: "events",
        verbs: &EVENT_VERBS,
        namespaces: &namespaces,
        names: &[],
        is_guess: false,
    };
    needed.add(None, "events", &asked);
}

/// Adds `get` for the objects that the plugin both watches and writes: a write without a response is followed by a get
/// ([`crate::client::writer`]).
fn add_outcome_permissions(
    needed: &mut PermissionCollector,
    descriptor: &Descriptor,
    watches: &[CheckedWatch],
    sidecar: &Sidecar,
    scopes: &Scopes,
) {
    for (position, declared) in descriptor.writes.iter().enumerate() {
        for rule in intersect(declared, sidecar.grants.writes.as_deref()) {
            for checked in watches.iter().filter(|checked| checked.is_written_by(&rule)) {
                let (group, plural) = checked.resource();
                let is_limited = !includes_all_namespaces(&rule.namespaces);
                if (is_limited && checked.namespaced == Some(false))
                    || scopes.grants_nothing(&rule, group, &plural)
                {
                    continue;
                }
                let Ok(watched) = checked.granted_namespaces(sidecar) else { continue };
                let Some(namespaces) = common_namespaces(&watched, &rule.namespaces) else { continue };
                let names = checked.names();
                let asked = ResourceVerbs {
                    group,
                    resource: &plural,
                    verbs: &["get"],
                    namespaces: &namespaces,
                    names: &names,
                    is_guess: checked.watch.resource.is_none(),
                };
                let account = sidecar.service_account.as_ref();
                needed.add_missing(account, &format!("outcome of writes[{position}]"), &asked);
            }
        }
    }
}

/// Returns the namespaces in both lists, of which an empty one, and one with `*`, means all; `None` if there are none.
fn common_namespaces(one: &[String], other: &[String]) -> Option<Vec<String>> {
    let common: Vec<String> = match (includes_all_namespaces(one), includes_all_namespaces(other)) {
        (true, true) => return Some(Vec::new()),
        (true, false) => other.to_vec(),
        (false, true) => one.to_vec(),
        (false, false) => one.iter().filter(|namespace| other.contains(namespace)).cloned().collect(),
    };
    (!common.is_empty()).then_some(common)
}

/// Adds the permissions that the host needs to impersonate a service account and to review what that may read.
fn add_impersonation_permissions(
    needed: &mut PermissionCollector,
    account: &ServiceAccount,
    sends_requests: bool,
) {
    let asked = |group, resource, verbs, namespaces, names| ResourceVerbs {
        group,
        resource,
        verbs,
        namespaces,
        names,
        is_guess: false,
    };
    let (namespaces, names) = ([account.namespace().to_owned()], [account.name().to_owned()]);
    if sends_requests {
        let impersonation = asked("", "serviceaccounts", &["impersonate"], &namespaces, &names);
        needed.add(None, "serviceAccount", &impersonation);
    }
    let reviews = asked("authorization.k8s.io", "subjectaccessreviews", &["create"], &[], &[]);
    needed.add(None, "serviceAccount", &reviews);
}

/// The namespaces of the Events about the plugin's objects.
#[derive(Default)]
struct EventNamespaces {
    all: bool,
    named: Vec<String>,
}

impl EventNamespaces {
    fn add(&mut self, namespaces: &[String], namespaced: Option<bool>) {
        if namespaced == Some(false) {
            // Events about cluster-scoped objects go to `default`.
            self.named.push("default".to_owned());
        } else if namespaces.is_empty() || namespaces.iter().any(|namespace| namespace == "*") {
            self.all = true;
        } else {
            self.named.extend(namespaces.iter().cloned());
        }
    }

    fn namespaces(mut self) -> Vec<String> {
        if self.all {
            return Vec::new();
        }
        self.named.sort();
        self.named.dedup();
        self.named
    }
}

impl CheckedWatch {
    /// The name of the only object that the watch selects, if its selector allows only one.
    fn names(&self) -> Vec<String> {
        // A selector that does not parse keeps the plugin from loading anyway.
        let name = only_name(&FieldSelector::parse(&self.watch.field_selector).unwrap_or_default());
        if name.is_empty() { Vec::new() } else { vec![name] }
    }

    /// Whether the rule allows writes to objects of the watch's kind, or to their subresources.
    fn is_written_by(&self, rule: &Rule) -> bool {
        let (group, plural) = self.resource();
        rule.verbs.iter().any(|verb| verb == "*" || WRITE_VERBS.contains(&verb.as_str()))
            && resources(rule).any(|(known, pattern)| {
                let written = pattern.split_once('/').map_or(pattern, |(written, _)| written);
                (known == "*" || known == group) && (written == "*" || written == plural)
            })
    }

    /// The API group and the plural name.
    pub(super) fn resource(&self) -> (&str, String) {
        let group = self.watch.api_version.split_once('/').map_or("", |(group, _)| group);
        (group, self.watch.resource.clone().unwrap_or_else(|| guess_plural(&self.watch.kind)))
    }

    /// The namespaces of the watch that the sidecar grants.
    pub(super) fn granted_namespaces(&self, sidecar: &Sidecar) -> Result<Vec<String>, WatchRule> {
        let (group, plural) = self.resource();
        let kind = (group, plural.as_str(), self.namespaced != Some(false));
        granted_namespaces(sidecar.grants.watches.as_deref(), kind, &self.watch.namespaces)
    }
}

/// Returns each pair of an API group and a resource in a rule.
pub(super) fn resources(rule: &Rule) -> impl Iterator<Item = (&str, &str)> {
    rule.api_groups
        .iter()
        .flat_map(|group| rule.resources.iter().map(|resource| (group.as_str(), resource.as_str())))
}
