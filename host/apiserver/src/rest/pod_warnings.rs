//! The warnings about Pods and templates of Pods, after `k8s.io/kubernetes/pkg/api/pod`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::schema::{field, quantity};

/// Labels of Nodes that others replaced.
const NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// Sources of volumes that Kubernetes no longer supports, with the name in the warning.
const VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().unwrap_or_default()
}

/// Returns the warnings about a specification at `path`.
pub(super) fn of_spec(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let replaced = |label: &str| NODE_LABELS.iter().find(|(known, _)| *known == label).map(|(_, text)| *text);
    for (label, _) in spec["nodeSelector"].as_object().into_iter().flatten() {
        if let Some(problem) = replaced(label) {
            warnings.push(format!("{}: {problem}", field::key(&field::child(path, "nodeSelector"), label)));
        }
    }
    for (index, constraint) in items(&spec["topologySpreadConstraints"]).iter().enumerate() {
        let at = field::index(&field::child(path, "topologySpreadConstraints"), index);
        let key = text(constraint, "topologyKey");
        if let Some(problem) = replaced(key) {
            warnings.push(format!("{}: {key} is {problem}", field::child(&at, "topologyKey")));
        }
        if constraint["labelSelector"].is_null() {
            warnings.push(format!("{}: {NO_SELECTOR}", field::child(&at, "labelSelector")));
        }
    }
    for (index, volume) in items(&spec["volumes"]).iter().enumerate() {
        let at = field::index(&field::child(path, "volumes"), index);
        for (_, name, problem) in VOLUMES.iter().filter(|(source, ..)| !volume[*source].is_null()) {
            warnings.push(format!("{}: {problem}", field::child(&at, name)));
        }
    }
    for (list, name, shown) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
        let mut found = BTreeSet::new();
        for (index, item) in items(&spec[list]).iter().enumerate() {
            let at = field::child(&field::index(&field::child(path, list), index), name);
            if !found.insert(text(item, name)) {
                warnings.push(format!("{at}: duplicate {shown} {:?}", text(item, name)));
            }
        }
    }
    for (index, secret) in items(&spec["imagePullSecrets"]).iter().enumerate() {
        if text(secret, "name").is_empty() {
            let at = field::index(&field::child(path, "imagePullSecrets"), index);
            warnings.push(format!("{}: invalid empty name \"\"", field::child(&at, "name")));
        }
    }
    for (at, container) in containers(spec, path) {
        add_fractions(container, &at, &mut warnings);
        add_hidden_variables(container, &at, &mut warnings);
    }
    add_ports(spec, path, &mut warnings);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        let at = field::child(path, "terminationGracePeriodSeconds");
        warnings.push(format!("{at}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        add_affinity(
            &spec["affinity"][name],
            &field::child(path, &format!("affinity.{name}")),
            &mut warnings,
        );
    }
    warnings
}

/// Returns the containers with their paths, in the order in which kube-apiserver visits them.
fn containers<'a>(spec: &'a Value, path: &str) -> Vec<(String, &'a Value)> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = lists.into_iter().flat_map(|list| {
        let at = field::child(path, list);
        items(&spec[list]).iter().enumerate().map(move |(index, one)| (field::index(&at, index), one))
    });
    all.collect()
}

/// Amounts of bytes are whole numbers.
fn add_fractions(container: &Value, at: &str, warnings: &mut Vec<String>) {
    for resource in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            let amount = &container["resources"][list][resource];
            if quantity::nanos(amount).is_some_and(|nanos| nanos % 1_000_000_000 != 0) {
                let shown = quantity::canonical(amount).unwrap_or_default();
                let at = field::key(&field::child(&field::child(at, "resources"), list), resource);
                warnings
                    .push(format!("{at}: fractional byte value {shown:?} is invalid, must be an integer"));
            }
        }
    }
}

/// A variable that does not refer to the earlier one of its name hides it.
fn add_hidden_variables(container: &Value, at: &str, warnings: &mut Vec<String>) {
    let mut found = BTreeSet::new();
    for (index, variable) in items(&container["env"]).iter().enumerate() {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        if found.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        if !variable["valueFrom"].is_null() || value == reference || !value.contains(&reference) {
            let at = field::index(&field::child(at, "env"), index);
            warnings.push(format!(
                "{at}: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

fn add_ports(spec: &Value, path: &str, warnings: &mut Vec<String>) {
    let ports: Vec<(String, &Value)> = containers(spec, path)
        .into_iter()
        .flat_map(|(at, container)| {
            let ports = items(&container["ports"]).iter().enumerate();
            ports
                .map(|(index, port)| (field::index(&field::child(&at, "ports"), index), port))
                .collect::<Vec<_>>()
        })
        .collect();
    let host = |port: &Value| port["hostPort"].as_i64().unwrap_or(0);
    let mut known: BTreeMap<(i64, &str), Vec<(&str, &Value)>> = BTreeMap::new();
    for (at, port) in &ports {
        let key = (port["containerPort"].as_i64().unwrap_or(0), text(port, "protocol"));
        let others = known.entry(key).or_default();
        for (other_at, other) in others.iter() {
            let (own_ip, other_ip) = (text(port, "hostIP"), text(other, "hostIP"));
            let problem = if own_ip == other_ip && host(port) == host(other) {
                "duplicate"
            } else if host(port) == 0 || host(other) == 0 {
                "overlapping"
            } else if host(port) == host(other) && own_ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{at}: {problem} port definition with {other_at}"));
        }
        others.push((at, port));
    }
    let mut named: BTreeMap<&str, &str> = BTreeMap::new();
    for (at, port) in ports.iter().filter(|(_, port)| !text(port, "name").is_empty()) {
        let name = text(port, "name");
        match named.get(name) {
            Some(other) => warnings.push(format!(
                "{at}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
            )),
            None => drop(named.insert(name, at)),
        }
    }
}

fn add_affinity(affinity: &Value, path: &str, warnings: &mut Vec<String>) {
    let lists = [
        ("requiredDuringSchedulingIgnoredDuringExecution", ""),
        ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
    ];
    for (list, member) in lists {
        for (index, term) in items(&affinity[list]).iter().enumerate() {
            let at = field::index(&field::child(path, list), index);
            let (term, at) = match member {
                "" => (term, at),
                member => (&term[member], field::child(&at, member)),
            };
            if term["labelSelector"].is_null() {
                warnings.push(format!("{}: {NO_SELECTOR}", field::child(&at, "labelSelector")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_of_one_container_port_are_compared() {
        let spec = |second: Value| json!({"containers": [{"ports": [{"containerPort": 80, "protocol": "TCP"}, second]}]});
        let port = |host: i64| json!({"containerPort": 80, "protocol": "TCP", "hostPort": host});
        let at = "spec.containers[0].ports";
        assert_eq!(
            of_spec(&spec(port(0)), "spec"),
            [format!("{at}[1]: duplicate port definition with {at}[0]")]
        );
        assert_eq!(
            of_spec(&spec(port(8080)), "spec"),
            [format!("{at}[1]: overlapping port definition with {at}[0]")]
        );
        let other = json!({"containerPort": 81, "protocol": "TCP"});
        assert_eq!(of_spec(&spec(other), "spec"), [""; 0]);
    }

    #[test]
    fn variable_that_refers_to_the_earlier_one_is_fine() {
        let spec = |value: &str| json!({"containers": [{"env": [{"name": "A", "value": "x"}, {"name": "A", "value": value}]}]});
        assert_eq!(of_spec(&spec("$(A)y"), "spec"), [""; 0]);
        assert_eq!(of_spec(&spec("$(A)"), "spec").len(), 1);
        assert_eq!(of_spec(&spec("y"), "spec").len(), 1);
    }
}
