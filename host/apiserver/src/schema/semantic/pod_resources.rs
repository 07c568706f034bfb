//! The resources of Pods as a whole, their claims, and what a resize does to containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{entries, items, names, push_invalid, quantity, text};
use crate::schema::field;
use crate::status::Causes;

/// The resources that a Pod as a whole can have, beside huge pages.
const OF_PODS: [&str; 2] = ["cpu", "memory"];
const RESIZABLE: [&str; 2] = ["cpu", "memory"];
const RESIZE_POLICIES: [&str; 2] = ["NotRequired", "RestartContainer"];

/// Checks how a resize affects the container at `at`. `pod` is the specification of its Pod.
pub(super) fn validate_resize_policy(container: &Value, pod: &Value, at: &str, causes: &mut Causes) {
    let (path, mut found) = (field::child(at, "resizePolicy"), BTreeSet::new());
    for (index, policy) in items(&container["resizePolicy"]).iter().enumerate() {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if !found.insert(resource) {
            causes.push(field::duplicate(&field::index(&path, index), &resource.into()));
        }
        for (value, supported) in [(resource, RESIZABLE), (restart, RESIZE_POLICIES)] {
            if value.is_empty() {
                causes.push(field::required(&path, ""));
            } else if !supported.contains(&value) {
                causes.push(field::not_supported(&path, &value.into(), &supported));
            }
        }
        if text(pod, "restartPolicy") == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            causes.push(field::invalid(&path, &restart.into(), detail));
        }
    }
}

/// Checks the resource claims of the specification at `path`. Returns their names.
pub(super) fn validate_claims<'a>(spec: &'a Value, path: &str, causes: &mut Causes) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for (index, claim) in items(&spec["resourceClaims"]).iter().enumerate() {
        let at = field::index(&field::child(path, "resourceClaims"), index);
        let (at_name, name) = (field::child(&at, "name"), text(claim, "name"));
        if name.is_empty() {
            causes.push(field::required(&at_name, ""));
        } else if !found.insert(name) {
            causes.push(field::duplicate(&at_name, &name.into()));
        } else {
            push_invalid(causes, &at_name, name, names::label_errors(name));
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let shown = || {
            format!(
                "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
                claim["name"], claim[sources[0]], claim[sources[1]]
            )
        };
        match sources.iter().filter(|source| claim[**source].is_string()).count() {
            0 => {
                let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                causes.push(field::invalid_shown(&at, &shown(), detail));
            }
            1 => {}
            _ => {
                let detail =
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                causes.push(field::invalid_shown(&at, &shown(), detail));
            }
        }
        for source in sources {
            if let Some(name) = claim[source].as_str() {
                push_invalid(causes, &field::child(&at, source), name, names::subdomain_errors(name));
            }
        }
    }
    found
}

/// Checks that the container at `at` refers only to the `claims` of its Pod.
pub(super) fn validate_claims_of_container(
    container: &Value,
    claims: &BTreeSet<&str>,
    at: &str,
    causes: &mut Causes,
) {
    let mut found = BTreeSet::new();
    for (index, claim) in items(&container["resources"]["claims"]).iter().enumerate() {
        let path = field::index(&field::child(at, "resources.claims"), index);
        let name = text(claim, "name");
        if name.is_empty() {
            causes.push(field::required(&field::child(&path, "name"), ""));
            continue;
        }
        let reference = match text(claim, "request") {
            "" => name.to_owned(),
            request => format!("{name}/{request}"),
        };
        if found.contains(&reference) {
            causes.push(field::duplicate(&path, &reference.as_str().into()));
        }
        found.insert(reference);
        if !claims.contains(name) {
            let all: Vec<&str> = claims.iter().copied().collect();
            let mut cause = field::not_found(&path, &name.into());
            cause.message += &match all.as_slice() {
                [] => ": must be one of the names in pod.spec.resourceClaims which is empty".to_owned(),
                all => format!(": must be one of the names in pod.spec.resourceClaims: {}", all.join(", ")),
            };
            causes.push(cause);
        }
    }
}

/// Checks that the resources of the Pod as a whole fit those of its containers.
pub(super) fn validate_pod_level(spec: &Value, path: &str, causes: &mut Causes) {
    let (resources, at) = (&spec["resources"], field::child(path, "resources"));
    let limits = &resources["limits"];
    for list in ["limits", "requests"] {
        let at_list = field::child(&at, list);
        for (name, amount) in entries(resources.get(list)) {
            if !OF_PODS.contains(&name.as_str()) && !name.starts_with("hugepages-") {
                let supported = ["cpu", "hugepages-", "memory"];
                let path = field::key(&at_list, name);
                causes.push(field::not_supported(&path, &name.as_str().into(), &supported));
            }
            let limit = limits.get(name).filter(|_| list == "requests");
            if let Some(limit) = limit
                && quantity::nanos(amount) > quantity::nanos(limit)
            {
                let limit = quantity::canonical(limit).unwrap_or_default();
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                causes.push(field::invalid(&at_list, amount, &detail));
            }
        }
    }
    validate_sums(spec, &at, causes);
}

fn validate_sums(spec: &Value, at: &str, causes: &mut Causes) {
    let containers = items(&spec["containers"]);
    for (name, amount) in entries(spec["resources"].get("requests")) {
        let requests = containers.iter().map(|container| &container["resources"]["requests"][name.as_str()]);
        let sum: i128 = requests.filter_map(quantity::nanos).sum();
        if quantity::nanos(amount).is_some_and(|nanos| nanos < sum) {
            let shown = quantity::canonical(&format!("{sum}n").into()).unwrap_or_default();
            let detail = format!("must be greater than or equal to aggregate container requests of {shown}");
            causes.push(field::invalid(&field::key(&field::child(at, "requests"), name), amount, &detail));
        }
    }
    for (index, container) in containers.iter().enumerate() {
        for (name, limit) in entries(spec["resources"].get("limits")) {
            let amount = &container["resources"]["limits"][name.as_str()];
            if quantity::nanos(amount) > quantity::nanos(limit) {
                let shown = quantity::canonical(limit).unwrap_or_default();
                let path = format!(
                    "{}.limits",
                    field::key(&field::index(&field::child(at, "containers"), index), name)
                );
                let detail = format!("must be less than or equal to pod limits of {shown}");
                causes.push(field::invalid(&path, amount, &detail));
            }
        }
    }
}
