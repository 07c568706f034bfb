//! What is wrong with roles and bindings, after `k8s.io/kubernetes/pkg/apis/rbac/validation`.

use pilothouse_model::LabelSelector;
use serde_json::Value;

use super::field;
use crate::status::Cause;

const GROUP: &str = "rbac.authorization.k8s.io";

/// What is wrong with a Role or ClusterRole.
pub(super) fn role(new: &Value, cluster: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, rule) in items(&new["rules"]).enumerate() {
        self::rule(rule, cluster, &field::index("rules", index), &mut causes);
    }
    let aggregation = &new["aggregationRule"];
    if cluster && aggregation.is_object() {
        let at = "aggregationRule.clusterRoleSelectors";
        if items(&aggregation["clusterRoleSelectors"]).next().is_none() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            causes.push(field::required(at, detail));
        }
        for (index, selector) in items(&aggregation["clusterRoleSelectors"]).enumerate() {
            if LabelSelector::from_json(selector).is_err() {
                causes.push(field::invalid(&field::index(at, index), selector, "invalid label selector."));
            }
        }
    }
    causes
}

fn rule(rule: &Value, cluster: bool, at: &str, causes: &mut Vec<Cause>) {
    let empty = |name: &str| items(&rule[name]).next().is_none();
    let child = |name: &str| field::child(at, name);
    if empty("verbs") {
        causes.push(field::required(&child("verbs"), "verbs must contain at least one value"));
    }
    if !empty("nonResourceURLs") {
        let mut refuse =
            |detail| causes.push(field::invalid(&child("nonResourceURLs"), &rule["nonResourceURLs"], detail));
        if !cluster {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if !(empty("apiGroups") && empty("resources") && empty("resourceNames")) {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if empty("apiGroups") {
        causes
            .push(field::required(&child("apiGroups"), "resource rules must supply at least one api group"));
    }
    if empty("resources") {
        causes.push(field::required(&child("resources"), "resource rules must supply at least one resource"));
    }
}

/// What is wrong with a RoleBinding or ClusterRoleBinding.
pub(super) fn binding(new: &Value, old: Option<&Value>, cluster: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let reference = &new["roleRef"];
    if old.is_some_and(|old| old["roleRef"] != *reference) {
        causes.push(field::invalid("roleRef", reference, "cannot change roleRef"));
    }
    one_of(reference, "apiGroup", "roleRef", &[GROUP], &mut causes);
    let kinds: &[&str] = if cluster { &["ClusterRole"] } else { &["ClusterRole", "Role"] };
    one_of(reference, "kind", "roleRef", kinds, &mut causes);
    if text(reference, "name").is_empty() {
        causes.push(field::required("roleRef.name", ""));
    }
    for (index, subject) in items(&new["subjects"]).enumerate() {
        self::subject(subject, cluster, &field::index("subjects", index), &mut causes);
    }
    causes
}

fn subject(subject: &Value, cluster: bool, at: &str, causes: &mut Vec<Cause>) {
    if text(subject, "name").is_empty() {
        causes.push(field::required(&field::child(at, "name"), ""));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            one_of(subject, "apiGroup", at, &[""], causes);
            if cluster && text(subject, "namespace").is_empty() {
                causes.push(field::required(&field::child(at, "namespace"), ""));
            }
        }
        "User" | "Group" => one_of(subject, "apiGroup", at, &[GROUP], causes),
        _ => one_of(subject, "kind", at, &["Group", "ServiceAccount", "User"], causes),
    }
}

fn one_of(object: &Value, name: &str, at: &str, known: &[&str], causes: &mut Vec<Cause>) {
    let found = text(object, name);
    if !known.contains(&found) {
        causes.push(field::not_supported(&field::child(at, name), &Value::from(found), known));
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().unwrap_or_default()
}
