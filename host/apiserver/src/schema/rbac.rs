//! Validation of roles and bindings, after `k8s.io/kubernetes/pkg/apis/rbac/validation`.

use pilothouse_model::LabelSelector;
use serde_json::Value;

use super::field;
use crate::status::Cause;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Returns what is wrong with a Role, or with a ClusterRole if `cluster`.
pub(super) fn validate_role(new: &Value, cluster: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, rule) in items(&new["rules"]).enumerate() {
        validate_rule(rule, cluster, &field::index("rules", index), &mut causes);
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

fn validate_rule(rule: &Value, cluster: bool, at: &str, causes: &mut Vec<Cause>) {
    let is_empty = |name: &str| items(&rule[name]).next().is_none();
    let child = |name: &str| field::child(at, name);
    if is_empty("verbs") {
        causes.push(field::required(&child("verbs"), "verbs must contain at least one value"));
    }
    if !is_empty("nonResourceURLs") {
        let mut reject =
            |detail| causes.push(field::invalid(&child("nonResourceURLs"), &rule["nonResourceURLs"], detail));
        if !cluster {
            reject("namespaced rules cannot apply to non-resource URLs");
        }
        if !(is_empty("apiGroups") && is_empty("resources") && is_empty("resourceNames")) {
            reject("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if is_empty("apiGroups") {
        causes
            .push(field::required(&child("apiGroups"), "resource rules must supply at least one api group"));
    }
    if is_empty("resources") {
        causes.push(field::required(&child("resources"), "resource rules must supply at least one resource"));
    }
}

/// Returns what is wrong with a RoleBinding, or with a ClusterRoleBinding if `cluster`.
pub(super) fn validate_binding(new: &Value, old: Option<&Value>, cluster: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let reference = &new["roleRef"];
    validate_one_of(reference, "apiGroup", "roleRef", &[GROUP], &mut causes);
    let kinds: &[&str] = if cluster { &["ClusterRole"] } else { &["Role", "ClusterRole"] };
    validate_one_of(reference, "kind", "roleRef", kinds, &mut causes);
    if text(reference, "name").is_empty() {
        causes.push(field::required("roleRef.name", ""));
    }
    for (index, subject) in items(&new["subjects"]).enumerate() {
        validate_subject(subject, cluster, &field::index("subjects", index), &mut causes);
    }
    if old.is_some_and(|old| old["roleRef"] != *reference) {
        let shown = format!(
            r#"{{"APIGroup":{},"Kind":{},"Name":{}}}"#,
            reference["apiGroup"], reference["kind"], reference["name"]
        );
        causes.push(field::invalid_shown("roleRef", &shown, "cannot change roleRef"));
    }
    causes
}

fn validate_subject(subject: &Value, cluster: bool, at: &str, causes: &mut Vec<Cause>) {
    if text(subject, "name").is_empty() {
        causes.push(field::required(&field::child(at, "name"), ""));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            validate_one_of(subject, "apiGroup", at, &[""], causes);
            if cluster && text(subject, "namespace").is_empty() {
                causes.push(field::required(&field::child(at, "namespace"), ""));
            }
        }
        "User" | "Group" => validate_one_of(subject, "apiGroup", at, &[GROUP], causes),
        _ => validate_one_of(subject, "kind", at, &["ServiceAccount", "User", "Group"], causes),
    }
}

/// Checks that the field `name` of the object at `at` has one of the supported values.
fn validate_one_of(object: &Value, name: &str, at: &str, supported: &[&str], causes: &mut Vec<Cause>) {
    let value = text(object, name);
    if !supported.contains(&value) {
        causes.push(field::not_supported(&field::child(at, name), &Value::from(value), supported));
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().unwrap_or_default()
}
