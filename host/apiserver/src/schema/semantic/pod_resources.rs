//! The resources of Pods as a whole, their claims, and what a resize does to containers.

use std::collections::BTreeSet;

use pilothouse_model::hash::{HashMap, HashSet};
use serde_json::Value;

use super::{container_resources, entries, items, names, push_invalid, quantity, quota, text};
use crate::schema::field;
use crate::status::Causes;

/// The resources that a Pod as a whole can have, beside huge pages.
const POD_LEVEL_RESOURCES: [&str; 2] = ["cpu", "memory"];
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
    let mut found = HashSet::default();
    // The number of requests of a claim that are referred to.
    let mut requests: HashMap<&str, usize> = HashMap::default();
    for (index, claim) in items(&container["resources"]["claims"]).iter().enumerate() {
        let path = field::index(&field::child(at, "resources.claims"), index);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            causes.push(field::required(&field::child(&path, "name"), ""));
            continue;
        }
        if found.contains(name) {
            causes.push(field::duplicate(&path, &name.into()));
        } else if request.is_empty() {
            for _ in 0..requests.get(name).copied().unwrap_or(0) {
                causes.push(field::duplicate(&path, &name.into()));
            }
            found.insert(name.to_owned());
        } else {
            push_invalid(causes, &field::child(&path, "request"), request, names::label_errors(request));
            let reference = format!("{name}/{request}");
            if found.contains(&reference) {
                causes.push(field::duplicate(&path, &reference.into()));
            } else {
                found.insert(reference);
                *requests.entry(name).or_default() += 1;
            }
        }
        if claims.contains(name) {
            continue;
        }
        if causes.is_full() {
            // The message with all names may be long.
            causes.leave_out();
            return;
        }
        let mut cause = field::not_found(&path, &name.into());
        cause.message += ": must be one of the names in pod.spec.resourceClaims";
        if claims.is_empty() {
            cause.message += " which is empty";
        }
        for (index, known) in claims.iter().enumerate() {
            cause.message += if index == 0 { ": " } else { ", " };
            cause.message += known;
        }
        causes.push(cause);
    }
}

/// Checks the resources of the Pod as a whole, and that they fit those of its containers.
pub(super) fn validate_pod_level(spec: &Value, path: &str, causes: &mut Causes) {
    let (resources, at) = (&spec["resources"], field::child(path, "resources"));
    if resources.is_null() {
        return;
    }
    if spec["os"]["name"] == "windows" {
        causes.push(field::forbidden(&at, "may not be set for a windows pod"));
        return;
    }
    if resources.get("claims").is_some_and(Value::is_array) {
        let detail = "claims may not be set for Resources at pod-level";
        causes.push(field::forbidden(&field::child(&at, "claims"), detail));
    }
    container_resources::validate(resources, &at, validate_pod_level_name, causes);
    validate_sums(spec, &at, causes);
}

/// Checks the name of a resource that a Pod as a whole can have.
fn validate_pod_level_name(name: &str, path: &str, causes: &mut Causes) {
    let mut own = Causes::default();
    quota::validate_resource(name, path, &mut own);
    if own.is_empty() && !POD_LEVEL_RESOURCES.contains(&name) && !name.starts_with("hugepages-") {
        let supported = ["cpu", "hugepages-", "memory"];
        own.push(field::not_supported(path, &name.into(), &supported));
    }
    causes.append(&mut own);
}

fn requests_of(container: &Value) -> impl Iterator<Item = (&str, i128)> {
    let list = entries(container["resources"].get("requests"));
    list.map(|(name, amount)| (name.as_str(), quantity::nanos(amount).unwrap_or(0)))
}

fn add<'a>(sums: &mut HashMap<&'a str, i128>, name: &'a str, amount: i128) {
    let sum = sums.entry(name).or_default();
    *sum = sum.saturating_add(amount);
}

/// Returns what the containers of a Pod request at most at the same time, by resource. Sidecars run beside all others, the other init
/// containers one after the other before the containers.
fn aggregate_requests(spec: &Value) -> HashMap<&str, i128> {
    let (mut sums, mut sidecars, mut peaks) = (HashMap::default(), HashMap::default(), HashMap::default());
    for container in items(&spec["initContainers"]) {
        for (name, amount) in requests_of(container) {
            if container["restartPolicy"] == "Always" {
                add(&mut sums, name, amount);
                add(&mut sidecars, name, amount);
            } else {
                let beside = sidecars.get(name).copied().unwrap_or(0);
                let peak: &mut i128 = peaks.entry(name).or_default();
                *peak = (*peak).max(amount.saturating_add(beside));
            }
        }
    }
    for container in items(&spec["containers"]) {
        requests_of(container).for_each(|(name, amount)| add(&mut sums, name, amount));
    }
    for (name, peak) in peaks {
        let sum = sums.entry(name).or_default();
        *sum = (*sum).max(peak);
    }
    sums
}

fn validate_sums(spec: &Value, at: &str, causes: &mut Causes) {
    let containers = items(&spec["containers"]);
    let sums = aggregate_requests(spec);
    for (name, amount) in entries(spec["resources"].get("requests")) {
        let sum = sums.get(name.as_str()).copied().unwrap_or(0);
        if quantity::nanos(amount).is_some_and(|nanos| nanos < sum) {
            let shown = quantity::canonical(&format!("{sum}n").into()).unwrap_or_default();
            let detail = format!("must be greater than or equal to aggregate container requests of {shown}");
            causes.push(field::invalid(&field::key(&field::child(at, "requests"), name), amount, &detail));
        }
    }
    let limits = &spec["resources"]["limits"];
    for (index, container) in containers.iter().enumerate() {
        for (name, amount) in entries(container["resources"].get("limits")) {
            let Some(limit) = limits.get(name) else { continue };
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

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn sums_of_huge_amounts_are_too_large() {
        let container = json!({"resources": {"requests": {"cpu": "999999999999999999E"}}});
        let spec = json!({"resources": {"requests": {"cpu": "1"}}, "containers": [container, container]});
        let mut causes = Causes::default();
        validate_sums(&spec, "spec.resources", &mut causes);
        assert_eq!(causes.len(), 1);
        assert!(
            causes[0].message.contains("must be greater than or equal to aggregate container requests of ")
        );
    }

    #[test]
    fn init_containers_run_before_containers_and_beside_earlier_sidecars() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = container("1");
        sidecar["restartPolicy"] = json!("Always");
        let sum = |init: &[Value]| {
            let spec = json!({"containers": [container("1"), container("1")], "initContainers": init});
            aggregate_requests(&spec)["cpu"] / 1_000_000_000
        };
        assert_eq!(sum(&[]), 2);
        assert_eq!(sum(&[container("5")]), 5);
        assert_eq!(sum(&[sidecar.clone(), container("5")]), 6);
        assert_eq!(sum(&[container("3"), sidecar]), 3);
    }

    #[test]
    fn claims_are_referred_to_once() {
        let container = json!({"resources": {"claims": [
            {"name": "x", "request": "r"}, {"name": "x", "request": "r"}, {"name": "x", "request": "s"}, {"name": "x"}, {"name": "x", "request": "t"},
        ]}});
        let mut causes = Causes::default();
        validate_claims_of_container(&container, &BTreeSet::from(["x"]), "c", &mut causes);
        let found: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let at = "c.resources.claims";
        assert_eq!(
            found,
            [
                format!("{at}[1]: Duplicate value: \"x/r\""),
                format!("{at}[3]: Duplicate value: \"x\""),
                format!("{at}[3]: Duplicate value: \"x\""),
                format!("{at}[4]: Duplicate value: \"x\""),
            ]
        );
    }

    #[test]
    fn many_amounts_and_containers_are_not_multiplied() {
        // 10^10 pairs of a container and an amount of the Pod would take hours.
        let amounts: Map<String, Value> =
            (1..=100_000).map(|index| (format!("hugepages-{index}"), json!(index.to_string()))).collect();
        let spec = json!({
            "resources": {"requests": amounts, "limits": amounts},
            "containers": vec![json!({"resources": {"limits": {"cpu": "1"}}}); 100_000],
        });
        let mut causes = Causes::default();
        validate_pod_level(&spec, "spec", &mut causes);
        let found: Vec<&str> = causes.iter().map(|cause| cause.message.as_str()).collect();
        assert_eq!(found, ["Forbidden: HugePages require cpu or memory"]);
    }

    #[test]
    fn names_of_all_claims_are_listed_as_often_as_causes_are_kept() {
        let names: Vec<String> = (0..100_000).map(|index| format!("claim-{index}")).collect();
        let claims: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let unknown: Vec<Value> = (0..100_000).map(|index| json!({"name": format!("x-{index}")})).collect();
        let container = json!({"resources": {"claims": unknown}});
        let mut causes = Causes::default();
        validate_claims_of_container(&container, &claims, "spec.containers[0]", &mut causes);
        assert!((1..=2).contains(&causes.len()));
        assert!(causes[0].message.contains("pod.spec.resourceClaims: claim-0, claim-1, "));
    }
}
