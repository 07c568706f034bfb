//! The permissions on the API server that the host, and a plugin's service account, need for a plugin.

use pilothouse_model::FieldSelector;
use pilothouse_model::names::guess_plural;
use serde::Serialize;

use super::scopes::Scopes;
use super::{CheckedWatch, Verdict};
use crate::access::{ServiceAccount, only_name};
use crate::client::grants::{granted_namespaces, intersect};
use crate::config::descriptor::{Descriptor, Rule};
use crate::config::sidecar::{Sidecar, WatchRule};

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
    pub allowed: Verdict,
}

/// Serializes a service account as `NAMESPACE/NAME`.
pub(super) fn as_text<S: serde::Serializer>(
    account: &Option<ServiceAccount>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&account.as_ref().map(ToString::to_string).unwrap_or_default())
}

/// The verbs that reading a watch needs.
const READ_VERBS: [&str; 3] = ["get", "list", "watch"];
/// The verbs that the host's cache needs if the plugin reads as a service account.
const CACHE_VERBS: [&str; 2] = ["list", "watch"];
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
                allowed: Verdict::Unverified,
            }));
        }
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
    let account = sidecar.service_account.as_ref();
    let mut event_namespaces = EventNamespaces::default();
    for checked in watches {
        let (group, plural) = checked.resource();
        let Ok(namespaces) = checked.granted_namespaces(sidecar) else { continue };
        event_namespaces.add(&namespaces, checked.namespaced);
        // A selector that does not parse keeps the plugin from loading anyway.
        let name = only_name(&FieldSelector::parse(&checked.watch.field_selector).unwrap_or_default());
        let names = if name.is_empty() { vec![] } else { vec![name] };
        let asked = |verbs| ResourceVerbs {
            group,
            resource: &plural,
            verbs,
            namespaces: &namespaces,
            names: &names,
            is_guess: checked.watch.resource.is_none(),
        };
        let needed_for = format!("watch {}", checked.watch.name);
        if account.is_some() {
            needed.add(None, &needed_for, &asked(&CACHE_VERBS));
        }
        needed.add(account, &needed_for, &asked(&READ_VERBS));
    }
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
                needed.add(account, &format!("writes[{position}]"), &asked);
            }
        }
    }
    if let Some(account) = account {
        add_impersonation_permissions(&mut needed, account, !descriptor.writes.is_empty());
    }
    if !descriptor.crds.is_empty() && sidecar.grants.crds.unwrap_or(grant_crds) {
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
    needed.0
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn needed(
        descriptor: &Descriptor,
        watches: &[CheckedWatch],
        sidecar: &Sidecar,
        grant_crds: bool,
    ) -> Vec<RequiredPermission> {
        super::needed(descriptor, watches, sidecar, &Scopes::default(), grant_crds)
    }

    fn checked(members: &Value, resource: Option<&str>) -> CheckedWatch {
        let mut watch = json!({"name": "w"});
        watch.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        watch["resource"] = json!(resource);
        let watch = serde_json::from_value(watch).expect("a watch");
        CheckedWatch { watch, served: Verdict::Unverified, namespaced: None }
    }

    fn deployments(namespaces: &[&str]) -> CheckedWatch {
        let members = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespaces": namespaces});
        checked(&members, Some("deployments"))
    }

    fn descriptor(members: &Value) -> Descriptor {
        let mut descriptor = json!({"apiVersion": crate::config::descriptor::API_VERSION, "kind": "Plugin"});
        descriptor.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        serde_json::from_value(descriptor).expect("a descriptor")
    }

    fn texts(permissions: &[RequiredPermission]) -> Vec<String> {
        let text = |permission: &RequiredPermission| {
            let RequiredPermission {
                service_account,
                group,
                resource,
                verb,
                namespace,
                names,
                needed_for,
                ..
            } = permission;
            let who = service_account.as_ref().map(|account| format!("{account} ")).unwrap_or_default();
            let names = if names.is_empty() { String::new() } else { format!(" {names:?}") };
            format!("{needed_for}: {who}{verb} {resource}.{group}{names} in {namespace:?}")
        };
        permissions.iter().map(text).collect()
    }

    fn sidecar(text: &str) -> Sidecar {
        Sidecar::parse(text).expect("a sidecar")
    }

    #[test]
    fn watches_writes_crds_and_events_need_permissions() {
        let descriptor = descriptor(&json!({
            "writes": [{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["patch"]}],
            "crds": [{"kind": "CustomResourceDefinition", "metadata": {"name": "foos.example.com"}}],
        }));
        let permissions =
            needed(&descriptor, &[deployments(&["shop"])], &sidecar("grants: {crds: true}"), false);
        let crd = "customresourcedefinitions.apiextensions.k8s.io [\"foos.example.com\"]";
        assert_eq!(
            texts(&permissions),
            [
                "watch w: get deployments.apps in \"shop\"",
                "watch w: list deployments.apps in \"shop\"",
                "watch w: watch deployments.apps in \"shop\"",
                "writes[0]: patch pods. in \"\"",
                "writes[0]: patch pods/status. in \"\"",
                &format!("crds: get {crd} in \"\""),
                &format!("crds: create {crd} in \"\""),
                &format!("crds: patch {crd} in \"\""),
                "events: create events.events.k8s.io in \"\"",
                "events: patch events.events.k8s.io in \"\"",
            ]
        );
    }

    #[test]
    fn crds_that_the_host_does_not_apply_need_no_permissions() {
        let descriptor = descriptor(&json!({"crds": [{"kind": "CustomResourceDefinition"}]}));
        let needs = |text, granted| {
            needed(&descriptor, &[], &sidecar(text), granted)
                .iter()
                .any(|permission| permission.needed_for == "crds")
        };
        assert!(!needs("", false) && needs("", true));
        assert!(needs("grants: {crds: true}", false) && !needs("grants: {crds: false}", true));
    }

    #[test]
    fn no_permission_exceeds_the_sidecars_grants() {
        let descriptor = descriptor(&json!({"writes": [
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["update", "delete"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
        ]}));
        let sidecar = sidecar(
            "grants:\n  watches: [{apiGroups: [apps], resources: ['*'], namespaces: [shop]}]\n  writes:\n    - {apiGroups: [apps], \
             resources: ['*'], verbs: [update], namespaces: [shop]}\n",
        );
        let secrets = checked(&json!({"apiVersion": "v1", "kind": "Secret"}), Some("secrets"));
        let permissions = needed(&descriptor, &[deployments(&[]), secrets], &sidecar, false);
        assert_eq!(
            texts(&permissions),
            [
                "watch w: get deployments.apps in \"shop\"",
                "watch w: list deployments.apps in \"shop\"",
                "watch w: watch deployments.apps in \"shop\"",
                "writes[0]: update deployments.apps in \"shop\"",
                "events: create events.events.k8s.io in \"shop\"",
                "events: patch events.events.k8s.io in \"shop\"",
            ]
        );
    }

    #[test]
    fn a_service_account_reads_and_writes_while_the_host_caches_and_reviews() {
        let rule = json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["update"], "namespaces": ["shop"]});
        let descriptor = descriptor(&json!({"writes": [rule]}));
        let permissions =
            needed(&descriptor, &[deployments(&["shop"])], &sidecar("serviceAccount: bots/a"), false);
        assert_eq!(
            texts(&permissions),
            [
                "watch w: list deployments.apps in \"shop\"",
                "watch w: watch deployments.apps in \"shop\"",
                "watch w: bots/a get deployments.apps in \"shop\"",
                "watch w: bots/a list deployments.apps in \"shop\"",
                "watch w: bots/a watch deployments.apps in \"shop\"",
                "writes[0]: bots/a update deployments.apps in \"shop\"",
                "serviceAccount: impersonate serviceaccounts. [\"a\"] in \"bots\"",
                "serviceAccount: create subjectaccessreviews.authorization.k8s.io in \"\"",
                "events: create events.events.k8s.io in \"shop\"",
                "events: patch events.events.k8s.io in \"shop\"",
            ]
        );
    }

    #[test]
    fn a_watch_of_one_object_needs_a_permission_on_only_that_object() {
        let members = json!({"apiVersion": "v1", "kind": "Node", "fieldSelector": "metadata.name=n1"});
        let nodes = CheckedWatch { namespaced: Some(false), ..checked(&members, Some("nodes")) };
        let permissions = needed(&descriptor(&json!({})), &[nodes], &Sidecar::default(), false);
        assert_eq!(texts(&permissions)[0], "watch w: get nodes. [\"n1\"] in \"\"");
        // Events about cluster-scoped objects.
        assert_eq!(texts(&permissions)[3], "events: create events.events.k8s.io in \"default\"");
    }

    #[test]
    fn an_unknown_kind_gets_a_guessed_plural_and_is_marked() {
        let watches = [checked(&json!({"apiVersion": "example.com/v1", "kind": "Policy"}), None)];
        let permissions = needed(&descriptor(&json!({})), &watches, &Sidecar::default(), false);
        assert!(permissions[0].is_guess && permissions[0].resource == "policies", "{permissions:?}");
    }
}
