//! Warns about rules of `writes` that allow nothing, because no request can match them.

use crate::config::descriptor::{Descriptor, Rule};
use crate::config::sidecar::Sidecar;

/// The verbs of the requests that a plugin can send.
const VERBS: [&str; 7] = ["get", "list", "create", "update", "patch", "delete", "*"];

/// Returns a warning for each rule, or part of one, that can never match.
pub(super) fn warnings(descriptor: &Descriptor, sidecar: &Sidecar) -> Vec<String> {
    let declared = descriptor.writes.iter().enumerate().map(|(at, rule)| (format!("writes[{at}]"), rule));
    let sidecar_rules = sidecar.grants.writes.iter().flatten().enumerate();
    let sidecar_rules = sidecar_rules.map(|(at, rule)| (format!("the sidecar's grants.writes[{at}]"), rule));
    let mut warnings: Vec<String> = declared.flat_map(|(place, rule)| rule_warnings(&place, rule)).collect();
    for (place, rule) in sidecar_rules {
        let faults = rule_warnings(&place, rule);
        if faults.is_empty() && !descriptor.writes.iter().any(|declared| overlap(declared, rule)) {
            warnings.push(format!(
                "{place} allows nothing: no rule of the descriptor's writes has anything in common with it"
            ));
        }
        warnings.extend(faults);
    }
    warnings
}

/// Returns a warning for each rule of the sidecar, or part of one, that can never match, whatever the plugin is.
#[must_use]
pub fn sidecar_warnings(sidecar: &Sidecar) -> Vec<String> {
    let rules = sidecar.grants.writes.iter().flatten().enumerate();
    rules.flat_map(|(at, rule)| rule_warnings(&format!("grants.writes[{at}]"), rule)).collect()
}

fn rule_warnings(place: &str, rule: &Rule) -> Vec<String> {
    if [&rule.api_groups, &rule.resources, &rule.verbs].iter().any(|list| list.is_empty()) {
        return vec![format!(
            "{place} allows nothing: apiGroups, resources and verbs must each have an entry: {rule:?}"
        )];
    }
    let group = rule.api_groups.iter().find(|group| group.contains('/') || *group == "v1").map(|group| {
        format!("the API group {group:?} never matches: write the group without the version, \"\" for v1")
    });
    let resource = rule.resources.iter().find(|name| name.chars().any(|letter| letter.is_ascii_uppercase()));
    let resource = resource.map(|name| {
        format!("the resource {name:?} never matches: write the plural of the kind in lower case")
    });
    let verb =
        rule.verbs.iter().find(|verb| !VERBS.contains(&verb.as_str())).map(|verb| {
            format!("the verb {verb:?} never matches: the host asks for {}", VERBS[..6].join(", "))
        });
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let namespace = rule.namespaces.iter().find(|name| *name != "*" && !is_name(name)).map(|name| {
        format!("the namespace {name:?} never matches: write a whole name, or leave namespaces out for all")
    });
    let faults = [group, resource, verb, namespace].into_iter().flatten();
    faults.map(|fault| format!("{place}: {fault}")).collect()
}

/// Whether some request is allowed by both rules.
fn overlap(one: &Rule, other: &Rule) -> bool {
    let common = |one: &[String], other: &[String]| {
        one.iter().any(|item| item == "*" || other.iter().any(|known| known == "*" || known == item))
    };
    let subresource = |name: &str| name.starts_with("*/");
    let resources = common(&one.resources, &other.resources)
        || one.resources.iter().chain(&other.resources).any(|name| subresource(name));
    let everywhere = one.namespaces.is_empty() || other.namespaces.is_empty();
    resources
        && common(&one.api_groups, &other.api_groups)
        && common(&one.verbs, &other.verbs)
        && (everywhere || common(&one.namespaces, &other.namespaces))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(writes: &Value, sidecar: &str) -> Vec<String> {
        let descriptor =
            json!({"apiVersion": crate::config::descriptor::API_VERSION, "kind": "Plugin", "writes": writes});
        let descriptor = serde_json::from_value(descriptor).expect("a descriptor");
        warnings(&descriptor, &Sidecar::parse(sidecar).expect("a sidecar"))
    }

    #[test]
    fn each_unmatchable_rule_is_reported() {
        for (rule, expected) in [
            (json!({"apiGroups": [""], "resources": ["pods"]}), "must each have an entry"),
            (
                json!({"apiGroups": ["apps/v1"], "resources": ["deployments"], "verbs": ["get"]}),
                "\"apps/v1\" never",
            ),
            (json!({"apiGroups": ["v1"], "resources": ["pods"], "verbs": ["get"]}), "\"v1\" never matches"),
            (
                json!({"apiGroups": ["apps"], "resources": ["Deployment"], "verbs": ["get"]}),
                "\"Deployment\" never",
            ),
            (
                json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["Get"]}),
                "\"Get\" never matches",
            ),
            (
                json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "namespaces": ["team-*"]}),
                "\"team-*\" never matches",
            ),
        ] {
            let found = found(&json!([rule]), "");
            assert!(
                found.len() == 1 && found[0].contains(expected) && found[0].starts_with("writes[0]"),
                "{found:?}"
            );
        }
        let good = json!([{"apiGroups": ["apps", ""], "resources": ["*/status", "pods"], "verbs": ["*"], "namespaces": ["*"]}]);
        assert_eq!(found(&good, ""), Vec::<String>::new());
    }

    #[test]
    fn a_grant_that_does_not_overlap_the_descriptor_is_reported() {
        let declared = json!([{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["update"], "namespaces": ["a"]}]);
        let grant = |group: &str, resource: &str, verb: &str, namespace: &str| {
            format!(
                "grants: {{writes: [{{apiGroups: ['{group}'], resources: ['{resource}'], verbs: ['{verb}'], namespaces: ['{namespace}']}}]}}"
            )
        };
        assert_eq!(found(&declared, &grant("*", "deployments", "update", "a")), Vec::<String>::new());
        for other in [
            grant("batch", "*", "*", "*"),
            grant("apps", "replicasets", "update", "a"),
            grant("apps", "deployments", "delete", "a"),
            grant("apps", "deployments", "update", "b"),
        ] {
            let found = found(&declared, &other);
            assert!(found.len() == 1 && found[0].contains("has anything in common"), "{other}: {found:?}");
        }
    }
}
