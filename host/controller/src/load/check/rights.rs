//! What the host must be allowed to do on the API server for a plugin.

use http::Method;
use serde::Serialize;
use serde_json::{Value, json};

use super::{CheckedWatch, Verdict};
use crate::descriptor::{Descriptor, Rule};
use crate::server::{Payload, Server, ServerError};
use crate::sidecar::Sidecar;

/// One verb on one resource, as RBAC sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Right {
    /// The API group, "" for core.
    pub group: String,
    /// The plural name, with `/status` or another subresource where there is one; `*` for all.
    pub resource: String,
    /// The verb; `*` for all.
    pub verb: String,
    /// The namespace, "" for all of them or for cluster scope.
    pub namespace: String,
    /// What of the plugin needs it.
    pub needed_for: String,
    /// Whether the resource's name is only derived from its kind, because no server was found that knows it.
    pub is_guess: bool,
    /// Whether the server allows it.
    pub allowed: Verdict,
}

/// What reading a watch takes.
const READ: [&str; 3] = ["get", "list", "watch"];
/// What applying a CRD and waiting until it is served takes.
const APPLY: [&str; 3] = ["get", "create", "patch"];
/// What recording Events takes.
const RECORD: [&str; 2] = ["create", "patch"];

/// Every right that the plugin needs, in the order of its descriptor.
pub(super) fn needed(descriptor: &Descriptor, watches: &[CheckedWatch], sidecar: &Sidecar) -> Vec<Right> {
    let mut rights = Vec::new();
    let mut add =
        |group: &str, resource: &str, verbs: &[&str], namespaces: &[String], needed_for: &str, is_guess| {
            let everywhere = [String::new()];
            let all = namespaces.is_empty() || namespaces.iter().any(|namespace| namespace == "*");
            let namespaces = if all { &everywhere[..] } else { namespaces };
            for namespace in namespaces {
                rights.extend(verbs.iter().map(|verb| Right {
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    verb: (*verb).to_owned(),
                    namespace: namespace.clone(),
                    needed_for: needed_for.to_owned(),
                    is_guess,
                    allowed: Verdict::Unverified,
                }));
            }
        };
    for CheckedWatch { watch, .. } in watches {
        let group = watch.api_version.split_once('/').map_or("", |(group, _)| group);
        let plural = watch.resource.clone().unwrap_or_else(|| guessed_plural(&watch.kind));
        let needed_for = format!("watch {}", watch.name);
        add(group, &plural, &READ, &watch.namespaces, &needed_for, watch.resource.is_none());
    }
    for (position, rule) in descriptor.writes.iter().enumerate() {
        let verbs: Vec<&str> = rule.verbs.iter().map(String::as_str).collect();
        for (group, resource) in resources(rule) {
            add(group, resource, &verbs, &rule.namespaces, &format!("writes[{position}]"), false);
        }
    }
    if !descriptor.crds.is_empty() && sidecar.grants.crds != Some(false) {
        add("apiextensions.k8s.io", "customresourcedefinitions", &APPLY, &[], "crds", false);
    }
    add("events.k8s.io", "events", &RECORD, &[], "events", false);
    rights
}

fn resources(rule: &Rule) -> impl Iterator<Item = (&str, &str)> {
    rule.api_groups
        .iter()
        .flat_map(|group| rule.resources.iter().map(|resource| (group.as_str(), resource.as_str())))
}

/// As most CRDs are named, where no server can be asked.
fn guessed_plural(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if kind.ends_with(['s', 'x']) || kind.ends_with("ch") => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

/// Asks the server about each right. A denied one is a problem; where the server cannot be asked, that is one.
pub(super) async fn review(server: &Server, rights: &mut [Right], problems: &mut Vec<String>) {
    for right in rights {
        match is_allowed(server, right).await {
            Ok(true) => right.allowed = Verdict::Yes,
            Ok(false) => {
                right.allowed = Verdict::No;
                problems.push(denied(right));
            }
            Err(error) => {
                problems.push(format!("rights cannot be checked: {error}"));
                return;
            }
        }
    }
}

fn denied(right: &Right) -> String {
    let place = match right.namespace.as_str() {
        "" => "in all namespaces".to_owned(),
        namespace => format!("in namespace {namespace}"),
    };
    format!(
        "{}: the kubeconfig's user may not {} {} of group {:?} {place}; grant it (`pilothouse rbac` prints the roles)",
        right.needed_for, right.verb, right.resource, right.group
    )
}

async fn is_allowed(server: &Server, right: &Right) -> Result<bool, ServerError> {
    let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "group": right.group, "resource": resource, "subresource": subresource,
            "verb": right.verb, "namespace": right.namespace,
        }}
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = server.request(Method::POST, path, Some(Payload::json(review.to_string()))).await?;
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    Ok(answer.pointer("/status/allowed").and_then(Value::as_bool).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(members: &Value, resource: Option<&str>) -> CheckedWatch {
        let mut watch = json!({"name": "w"});
        watch.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        watch["resource"] = json!(resource);
        let watch = serde_json::from_value(watch).expect("a watch");
        CheckedWatch { watch, served: Verdict::Unverified }
    }

    fn descriptor(members: &Value) -> Descriptor {
        let mut descriptor = json!({"apiVersion": crate::descriptor::API_VERSION, "kind": "Plugin"});
        descriptor.as_object_mut().expect("an object").extend(members.as_object().expect("members").clone());
        serde_json::from_value(descriptor).expect("a descriptor")
    }

    fn texts(rights: &[Right]) -> Vec<String> {
        let text = |right: &Right| {
            let Right { group, resource, verb, namespace, needed_for, .. } = right;
            format!("{needed_for}: {verb} {resource}.{group} in {namespace:?}")
        };
        rights.iter().map(text).collect()
    }

    #[test]
    fn watches_writes_crds_and_events_are_all_rights() {
        let watches = [checked(
            &json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespaces": ["shop"]}),
            Some("deployments"),
        )];
        let descriptor = descriptor(&json!({
            "writes": [{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["patch"]}],
            "crds": [{"kind": "CustomResourceDefinition"}],
        }));
        let rights = needed(&descriptor, &watches, &Sidecar::default());
        assert_eq!(
            texts(&rights),
            [
                "watch w: get deployments.apps in \"shop\"",
                "watch w: list deployments.apps in \"shop\"",
                "watch w: watch deployments.apps in \"shop\"",
                "writes[0]: patch pods. in \"\"",
                "writes[0]: patch pods/status. in \"\"",
                "crds: get customresourcedefinitions.apiextensions.k8s.io in \"\"",
                "crds: create customresourcedefinitions.apiextensions.k8s.io in \"\"",
                "crds: patch customresourcedefinitions.apiextensions.k8s.io in \"\"",
                "events: create events.events.k8s.io in \"\"",
                "events: patch events.events.k8s.io in \"\"",
            ]
        );
    }

    #[test]
    fn crds_that_the_operator_applies_need_no_right() {
        let descriptor = descriptor(&json!({"crds": [{"kind": "CustomResourceDefinition"}]}));
        let sidecar = Sidecar::parse("grants: {crds: false}").expect("a sidecar");
        assert!(needed(&descriptor, &[], &sidecar).iter().all(|right| right.needed_for != "crds"));
    }

    #[test]
    fn an_unknown_kind_gets_the_usual_plural_and_is_marked() {
        let watches = [checked(&json!({"apiVersion": "example.com/v1", "kind": "Policy"}), None)];
        let rights = needed(&descriptor(&json!({})), &watches, &Sidecar::default());
        assert!(rights[0].is_guess && rights[0].resource == "policies", "{rights:?}");
        assert_eq!(guessed_plural("Gateway"), "gateways");
        assert_eq!(guessed_plural("Ingress"), "ingresses");
    }
}
