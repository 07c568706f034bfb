//! What an object uses of a quota, and which quotas are for it, after `k8s.io/kubernetes/pkg/quota/v1/evaluator/core`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::amounts::{Amount, Amounts};
use crate::registry::Endpoint;
use crate::rest::built_in_admission::default_classes::STORAGE_CLASS;
use crate::rest::kinds::strategy::qos_class;

/// The resources of Pods.
const POD_RESOURCES: [&str; 11] = [
    "count/pods",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "pods",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
/// The resources that each container must have if a quota limits them.
const REQUIRED: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
/// The resources of Services.
const SERVICE_RESOURCES: [&str; 4] =
    ["count/services", "services", "services.loadbalancers", "services.nodeports"];
/// The resources of claims, which a quota may also limit for one class.
const CLAIM_RESOURCES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
/// What separates the name of a class from the resource.
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
/// The kinds whose objects are also counted under their plural name alone.
const WITH_ALIAS: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// What is counted of the objects of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Evaluator {
    Pods,
    Services,
    Claims,
    /// Their number, under this name and, for some kinds, another one.
    Count {
        name: String,
        alias: Option<String>,
    },
    /// Events, which no quota counts.
    Ignored,
}

impl Evaluator {
    /// Returns the evaluator of the objects of an endpoint, which are in namespaces.
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        let resource = &endpoint.resource;
        let plural = resource.names.plural.as_str();
        match (resource.group.as_str(), plural) {
            ("", "pods") => Self::Pods,
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::Claims,
            ("", "events") => Self::Ignored,
            ("", _) => {
                let alias = WITH_ALIAS.contains(&plural).then(|| plural.to_owned());
                Self::Count { name: format!("count/{plural}"), alias }
            }
            (group, _) => Self::Count { name: format!("count/{plural}.{group}"), alias: None },
        }
    }

    /// Whether the objects use a resource of this name.
    pub(crate) fn uses(&self, name: &str) -> bool {
        match self {
            Self::Pods => {
                POD_RESOURCES.contains(&name)
                    || name.starts_with("hugepages-")
                    || name.starts_with("requests.hugepages-")
                    || (name.starts_with("requests.") && is_extended(name))
            }
            Self::Services => SERVICE_RESOURCES.contains(&name),
            Self::Claims => {
                name == "count/persistentvolumeclaims"
                    || CLAIM_RESOURCES.contains(&name)
                    || name
                        .split_once(BY_CLASS)
                        .is_some_and(|(_, resource)| CLAIM_RESOURCES.contains(&resource))
            }
            Self::Count { name: own, alias } => name == own || alias.as_deref() == Some(name),
            Self::Ignored => false,
        }
    }

    /// Returns what an object uses at a time.
    pub(crate) fn usage(&self, object: &Value, now: Timestamp) -> Amounts {
        let mut usage = Amounts::default();
        let one = Amount::count(1);
        match self {
            Self::Pods => return usage_of_pod(object, now),
            Self::Services => {
                let ports = object["spec"]["ports"].as_array().map_or(&[][..], Vec::as_slice);
                let is_balanced = object["spec"]["type"] == "LoadBalancer";
                let node_ports = match object["spec"]["type"].as_str() {
                    Some("LoadBalancer") if object["spec"]["allocateLoadBalancerNodePorts"] == false => {
                        ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0).count()
                    }
                    Some("LoadBalancer" | "NodePort") => ports.len(),
                    _ => 0,
                };
                usage.set("count/services", one);
                usage.set("services", one);
                usage.set("services.loadbalancers", Amount::count(usize::from(is_balanced)));
                usage.set("services.nodeports", Amount::count(node_ports));
            }
            Self::Claims => return usage_of_claim(object),
            Self::Count { name, alias } => {
                usage.set(name, one);
                if let Some(alias) = alias {
                    usage.set(alias, one);
                }
            }
            Self::Ignored => {}
        }
        usage
    }

    /// Returns the name under which objects are counted, if nothing else is measured.
    pub(crate) fn only_counts(&self) -> Option<&str> {
        match self {
            Self::Count { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Returns what so many objects use of which nothing but their number is measured.
    pub(crate) fn usage_of_count(&self, name: &str, count: usize) -> Amounts {
        let mut usage = Amounts::default();
        usage.set(name, Amount::count(count));
        if let Self::Count { alias: Some(alias), .. } = self {
            usage.set(alias, Amount::count(count));
        }
        usage
    }

    /// Whether a quota is for an object: it limits something that the object uses, and the object is in its scopes. `hard` are the limits.
    pub(crate) fn matches(&self, quota: &Value, hard: &Amounts, object: &Value) -> bool {
        hard.names().any(|name| self.uses(name)) && self.is_in_scopes(&quota["spec"], object)
    }

    /// Whether an object is in all scopes of a quota.
    pub(crate) fn is_in_scopes(&self, spec: &Value, object: &Value) -> bool {
        let scopes = spec["scopes"].as_array().into_iter().flatten();
        let selected = spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
        let exists = Value::from("Exists");
        scopes
            .map(|scope| (scope, &exists, &Value::Null))
            .chain(selected.map(|one| (&one["scopeName"], &one["operator"], &one["values"])))
            .all(|(scope, operator, values)| {
                let selector = Selector { operator: operator.as_str().unwrap_or_default(), values };
                self.is_in_scope(scope.as_str().unwrap_or_default(), &selector, object)
            })
    }

    fn is_in_scope(&self, scope: &str, selector: &Selector<'_>, object: &Value) -> bool {
        let spec = &object["spec"];
        match (self, scope) {
            (Self::Pods, "Terminating") => is_terminating(object),
            (Self::Pods, "NotTerminating") => !is_terminating(object),
            (Self::Pods, "BestEffort") => is_best_effort(object),
            (Self::Pods, "NotBestEffort") => !is_best_effort(object),
            (Self::Pods, "PriorityClass") => {
                selector.matches(spec["priorityClassName"].as_str().filter(|name| !name.is_empty()))
            }
            (Self::Pods, "CrossNamespacePodAffinity") => crosses_namespaces(&spec["affinity"]),
            (Self::Claims, "VolumeAttributesClass") => {
                let status = &object["status"];
                let names: BTreeSet<&str> = [
                    &spec["volumeAttributesClassName"],
                    &status["currentVolumeAttributesClassName"],
                    &status["modifyVolumeStatus"]["targetVolumeAttributesClassName"],
                ]
                .into_iter()
                .filter_map(Value::as_str)
                .filter(|name| !name.is_empty())
                .collect();
                if names.is_empty() {
                    selector.matches(None)
                } else {
                    names.into_iter().any(|name| selector.matches(Some(name)))
                }
            }
            _ => false,
        }
    }

    /// Returns which resources the containers of a Pod must have and lack, as a message; `None` if none.
    pub(crate) fn missing(&self, object: &Value, hard: &Amounts) -> Option<String> {
        let has_own = ["requests", "limits"]
            .iter()
            .any(|of| object["spec"]["resources"][of].as_object().is_some_and(|amounts| !amounts.is_empty()));
        if *self != Self::Pods || has_own {
            return None;
        }
        let required: Vec<&str> = hard.names().filter(|name| REQUIRED.contains(name)).collect();
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for list in ["containers", "initContainers"] {
            for container in object["spec"][list].as_array().into_iter().flatten() {
                let own =
                    usage_of_resources(&amounts_of(container, "requests"), &amounts_of(container, "limits"));
                let name = container["name"].as_str().unwrap_or_default();
                for resource in required.iter().copied().filter(|resource| own.get(resource).is_none()) {
                    missing.entry(resource).or_default().insert(name);
                }
            }
        }
        let lines = missing.into_iter().map(|(resource, containers)| {
            format!("{resource} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| format!("must specify {}", lines.join("; ")))
    }
}

/// How a scope selects values.
struct Selector<'a> {
    operator: &'a str,
    values: &'a Value,
}

impl Selector<'_> {
    fn matches(&self, value: Option<&str>) -> bool {
        let is_listed =
            |value: &str| self.values.as_array().into_iter().flatten().any(|known| known == value);
        match self.operator {
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "In" => value.is_some_and(is_listed),
            "NotIn" => !value.is_some_and(is_listed),
            _ => false,
        }
    }
}

/// Whether a Pod ends at a deadline.
pub(super) fn is_terminating(pod: &Value) -> bool {
    pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0)
}

fn is_best_effort(pod: &Value) -> bool {
    match pod["status"]["qosClass"].as_str().filter(|class| !class.is_empty()) {
        Some(class) => class == "BestEffort",
        None => qos_class(&pod["spec"]) == "BestEffort",
    }
}

/// Whether a term of the affinity looks at Pods in other namespaces.
fn crosses_namespaces(affinity: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let items = |list: &str| affinity[kind][list].as_array().into_iter().flatten();
        let required = items("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred =
            items("preferredDuringSchedulingIgnoredDuringExecution").map(|term| &term["podAffinityTerm"]);
        required.chain(preferred).any(|term| {
            term["namespaces"].as_array().is_some_and(|list| !list.is_empty())
                || !term["namespaceSelector"].is_null()
        })
    })
}

/// Whether a resource is one that nodes advertise, such as `nvidia.com/gpu`.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

fn amounts_of(container: &Value, of: &str) -> Amounts {
    Amounts::read(&container["resources"][of])
}

fn usage_of_pod(pod: &Value, now: Timestamp) -> Amounts {
    let mut usage = Amounts::default();
    usage.set("count/pods", Amount::count(1));
    let is_finished = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    if is_finished || is_past_grace_period(pod, now) {
        return usage;
    }
    let (requests, mut limits) = (requests_of_pod(pod), total(pod, "limits"));
    let overhead = Amounts::read(&pod["spec"]["overhead"]);
    // An overhead limits only what is limited at all.
    limits.add(&overhead.masked(|name| limits.get(name).is_some()));
    usage.add(&usage_of_resources(&requests, &limits));
    usage
}

/// Whether a Pod is still there although its deletion should be complete, for example because its Node is lost. As in Kubernetes, the grace period
/// is added to the deletion timestamp, which already includes it.
fn is_past_grace_period(pod: &Value, now: Timestamp) -> bool {
    let metadata = &pod["metadata"];
    let deleted = metadata["deletionTimestamp"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    let grace_period = metadata["deletionGracePeriodSeconds"].as_i64().map(SignedDuration::from_secs);
    let (Some(deleted), Some(grace_period)) = (deleted, grace_period) else { return false };
    deleted.checked_add(grace_period).is_ok_and(|end| now > end)
}

/// Returns what a Pod requests, with its overhead.
pub(crate) fn requests_of_pod(pod: &Value) -> Amounts {
    let mut requests = total(pod, "requests");
    requests.add(&Amounts::read(&pod["spec"]["overhead"]));
    requests
}

/// Returns what a Pod or a container with these requests and limits uses.
fn usage_of_resources(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::default();
    usage.set("pods", Amount::count(1));
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(request) = requests.get(name) {
            usage.set(name, request);
            usage.set(&format!("requests.{name}"), request);
        }
        if let Some(limit) = limits.get(name) {
            usage.set(&format!("limits.{name}"), limit);
        }
    }
    for (name, request) in requests.iter() {
        if name.starts_with("hugepages-") {
            usage.set(name, request);
            usage.set(&format!("requests.{name}"), request);
        } else if is_extended(name) && !name.starts_with("requests.") {
            usage.set(&format!("requests.{name}"), request);
        }
    }
    usage
}

/// Returns the requests or limits of a Pod: those of its containers together, or what an init container needs if that is more. The resources of
/// the Pod as a whole replace them.
fn total(pod: &Value, of: &str) -> Amounts {
    let containers = |list: &str| pod["spec"][list].as_array().into_iter().flatten();
    let mut sum = Amounts::default();
    for container in containers("containers") {
        sum.add(&amounts_of(container, of));
    }
    // Init containers that keep running need their resources beside the containers.
    let (mut running, mut most) = (Amounts::default(), Amounts::default());
    for container in containers("initContainers") {
        let own = amounts_of(container, of);
        let mut needed = running.clone();
        needed.add(&own);
        if container["restartPolicy"] == "Always" {
            sum.add(&own);
            running.clone_from(&needed);
        }
        most.raise(&needed);
    }
    sum.raise(&most);
    for (name, amount) in Amounts::read(&pod["spec"]["resources"][of]).iter() {
        if matches!(name, "cpu" | "memory") || name.starts_with("hugepages-") {
            sum.set(name, amount);
        }
    }
    sum
}

fn usage_of_claim(claim: &Value) -> Amounts {
    let mut usage = Amounts::default();
    let one = Amount::count(1);
    usage.set("persistentvolumeclaims", one);
    usage.set("count/persistentvolumeclaims", one);
    let annotated = claim["metadata"]["annotations"][STORAGE_CLASS].as_str();
    let class = annotated.or(claim["spec"]["storageClassName"].as_str()).unwrap_or_default();
    let of_class = |resource: &str| format!("{class}{BY_CLASS}{resource}");
    if !class.is_empty() {
        usage.set(&of_class("persistentvolumeclaims"), one);
    }
    let requested = Amount::read(&claim["spec"]["resources"]["requests"]["storage"]).map(Amount::rounded_up);
    if let Some(requested) = requested {
        let allocated = Amount::read(&claim["status"]["allocatedResources"]["storage"]);
        let storage = allocated.map_or(requested, |allocated| requested.max(allocated.rounded_up()));
        usage.set("requests.storage", storage);
        if !class.is_empty() {
            usage.set(&of_class("requests.storage"), storage);
        }
    }
    usage
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_use_what_their_containers_need() {
        let pod = json!({"spec": {
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "100m", "nvidia.com/gpu": "1"}, "limits": {"cpu": "1"}}},
                {"name": "b", "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}}},
            ],
            "initContainers": [{"name": "i", "resources": {"requests": {"memory": "1Gi"}}}],
            "overhead": {"cpu": "50m"},
        }});
        assert_eq!(
            Evaluator::Pods.usage(&pod, Timestamp::UNIX_EPOCH).to_string(),
            "count/pods=1,cpu=350m,limits.cpu=1050m,memory=1Gi,pods=1,requests.cpu=350m,requests.memory=1Gi,\
             requests.nvidia.com/gpu=1"
        );
        let finished = json!({"spec": pod["spec"], "status": {"phase": "Succeeded"}});
        assert_eq!(Evaluator::Pods.usage(&finished, Timestamp::UNIX_EPOCH).to_string(), "count/pods=1");
        let hard = Amounts::read(&json!({"requests.cpu": "1", "limits.memory": "1Gi", "pods": "2"}));
        assert_eq!(
            Evaluator::Pods.missing(&pod, &hard).as_deref(),
            Some("must specify limits.memory for: a,b,i; requests.cpu for: i")
        );
    }

    #[test]
    fn pods_past_their_grace_period_are_only_counted() {
        let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30});
        let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "a"}]}});
        let usage_at = |now: &str| Evaluator::Pods.usage(&pod, now.parse().expect("a time")).to_string();
        assert_eq!(usage_at("2026-01-01T00:01:00Z"), "count/pods=1,pods=1");
        assert_eq!(usage_at("2026-01-01T00:01:00.001Z"), "count/pods=1");
    }

    #[test]
    fn services_and_claims_use_more_than_their_number() {
        let service = json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2}]}});
        assert_eq!(
            Evaluator::Services.usage(&service, Timestamp::UNIX_EPOCH).to_string(),
            "count/services=1,services=1,services.loadbalancers=1,services.nodeports=2"
        );
        let claim =
            json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}});
        assert_eq!(
            Evaluator::Claims.usage(&claim, Timestamp::UNIX_EPOCH).to_string(),
            "count/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             fast.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi"
        );
        assert!(Evaluator::Claims.uses("slow.storageclass.storage.k8s.io/requests.storage"));
    }

    #[test]
    fn scopes_select_pods() {
        let pod = json!({"spec": {"priorityClassName": "high", "activeDeadlineSeconds": 5, "containers": [{"name": "a"}]}});
        let is_in = |spec: &Value| Evaluator::Pods.is_in_scopes(spec, &pod);
        assert!(is_in(&json!({"scopes": ["Terminating", "BestEffort"]})));
        assert!(!is_in(&json!({"scopes": ["NotTerminating"]})));
        let selector = |operator: &str, values: Value| {
            json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": operator, "values": values}]}})
        };
        assert!(is_in(&selector("In", json!(["high", "low"]))) && is_in(&selector("Exists", json!([]))));
        assert!(!is_in(&selector("NotIn", json!(["high"]))));
        let configmaps = Evaluator::Count { name: "count/configmaps".to_owned(), alias: None };
        assert!(!configmaps.is_in_scopes(&json!({"scopes": ["BestEffort"]}), &pod));
    }
}
