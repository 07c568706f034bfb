//! The warnings about Pods and templates of Pods, after `k8s.io/kubernetes/pkg/api/pod`.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_model::hash::HashMap;
use serde_json::Value;

use super::profiles;
use crate::rest::kinds::storage_warnings;
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
pub(in crate::rest) const VOLUMES: [(&str, &str, &str); 9] = [
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

/// The characters of all warnings that are collected, of each at most [`MAX_COUNTED`]: more than a response shows.
const MAX_CHARACTERS: usize = 8 * 1024;
const MAX_COUNTED: usize = 256;

/// The first warnings about a specification, as many as a response can show. A specification may have more than can be stored.
#[derive(Default)]
struct Warnings {
    listed: Vec<String>,
    characters: usize,
}

impl Warnings {
    /// Adds a warning, unless there are enough already.
    fn push(&mut self, warning: String) {
        if !self.is_full() {
            self.characters += warning.chars().take(MAX_COUNTED).count();
            self.listed.push(warning);
        }
    }

    /// Whether further warnings are left out. They need not be created then.
    fn is_full(&self) -> bool {
        self.characters >= MAX_CHARACTERS
    }

    fn extend(&mut self, warnings: impl IntoIterator<Item = String>) {
        warnings.into_iter().for_each(|warning| self.push(warning));
    }
}

/// Returns what replaced a label of Nodes.
pub(in crate::rest) fn node_label_message(label: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(known, _)| *known == label).map(|(_, text)| *text)
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().unwrap_or_default()
}

/// Returns the warnings about a Pod or a template at `pod_path`, which is empty for a Pod: all, or as many as a response can show.
pub(in crate::rest) fn of_pod(object: &Value, pod_path: &str) -> Vec<String> {
    let (spec, path) = (&object["spec"], &*field::child(pod_path, "spec"));
    let mut warnings = Warnings::default();
    for (label, _) in spec["nodeSelector"].as_object().into_iter().flatten() {
        if let Some(problem) = node_label_message(label) {
            warnings.push(format!("{}: {problem}", field::key(&field::child(path, "nodeSelector"), label)));
        }
    }
    for (index, constraint) in items(&spec["topologySpreadConstraints"]).iter().enumerate() {
        let at = field::index(&field::child(path, "topologySpreadConstraints"), index);
        let key = text(constraint, "topologyKey");
        if let Some(problem) = node_label_message(key) {
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
        let template = field::child(&at, "ephemeral.volumeClaimTemplate.spec");
        let claim = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
        warnings.extend(storage_warnings::of_claim_spec(claim, &template));
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
    warnings.extend(profiles::warning_of_pod(object, pod_path));
    for (at, container) in containers(spec, path) {
        warnings.extend(profiles::warnings_of_container(object, pod_path, container));
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
    warnings.listed
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
fn add_fractions(container: &Value, at: &str, warnings: &mut Warnings) {
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
fn add_hidden_variables(container: &Value, at: &str, warnings: &mut Warnings) {
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

/// The ports with one number and protocol, in their order, and where those are that can be in conflict with another one.
#[derive(Default)]
struct PortGroup<'a> {
    ports: Vec<(&'a str, &'a Value)>,
    without_host_port: Vec<usize>,
    by_host: HashMap<(i64, &'a str), Vec<usize>>,
    /// Those with an address of the host, by their port of the host.
    with_host_ip: HashMap<i64, Vec<usize>>,
}

impl<'a> PortGroup<'a> {
    /// Returns the positions of the ports that are in conflict with another one.
    fn conflicts(&self, (host, ip): (i64, &'a str)) -> Vec<usize> {
        if host == 0 {
            return (0..self.ports.len()).collect();
        }
        let same = self.by_host.get(&(host, ip));
        let ambiguous =
            if ip.is_empty() { self.with_host_ip.get(&host) } else { self.by_host.get(&(host, "")) };
        let lists = [Some(&self.without_host_port), same, ambiguous];
        let mut found: Vec<usize> = lists.into_iter().flatten().flatten().copied().collect();
        found.sort_unstable();
        found
    }

    fn add(&mut self, at: &'a str, port: &'a Value) {
        let ((host, ip), index) = (host_of(port), self.ports.len());
        self.ports.push((at, port));
        if host == 0 {
            self.without_host_port.push(index);
            return;
        }
        self.by_host.entry((host, ip)).or_default().push(index);
        if !ip.is_empty() {
            self.with_host_ip.entry(host).or_default().push(index);
        }
    }
}

/// Returns the port and the address of the host.
fn host_of(port: &Value) -> (i64, &str) {
    (port["hostPort"].as_i64().unwrap_or(0), text(port, "hostIP"))
}

fn add_ports(spec: &Value, path: &str, warnings: &mut Warnings) {
    let ports: Vec<(String, &Value)> = containers(spec, path)
        .into_iter()
        .flat_map(|(at, container)| {
            let ports = items(&container["ports"]).iter().enumerate();
            ports
                .map(|(index, port)| (field::index(&field::child(&at, "ports"), index), port))
                .collect::<Vec<_>>()
        })
        .collect();
    for (at, port) in &ports {
        let (host, ip) = host_of(port);
        if host == 0 && !ip.is_empty() {
            warnings.push(format!(
                "{at}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{ip}}}",
                text(port, "name"),
                port["containerPort"],
                text(port, "protocol")
            ));
        }
    }
    let mut groups: BTreeMap<(i64, &str), PortGroup<'_>> = BTreeMap::new();
    for (at, port) in &ports {
        let key = (port["containerPort"].as_i64().unwrap_or(0), text(port, "protocol"));
        let group = groups.entry(key).or_default();
        let own = host_of(port);
        for index in group.conflicts(own) {
            if warnings.is_full() {
                return;
            }
            let (other_at, other) = group.ports[index];
            let other = host_of(other);
            let problem = if own == other {
                "duplicate"
            } else if own.0 == 0 || other.0 == 0 {
                "overlapping"
            } else {
                "dangerously ambiguous"
            };
            warnings.push(format!("{at}: {problem} port definition with {other_at}"));
        }
        group.add(at, port);
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

fn add_affinity(affinity: &Value, path: &str, warnings: &mut Warnings) {
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
        let pod = |second: Value| json!({"spec": {"containers": [{"ports": [{"containerPort": 80, "protocol": "TCP"}, second]}]}});
        let port = |host: i64| json!({"containerPort": 80, "protocol": "TCP", "hostPort": host});
        let at = "spec.containers[0].ports";
        assert_eq!(of_pod(&pod(port(0)), ""), [format!("{at}[1]: duplicate port definition with {at}[0]")]);
        assert_eq!(
            of_pod(&pod(port(8080)), ""),
            [format!("{at}[1]: overlapping port definition with {at}[0]")]
        );
        let other = json!({"containerPort": 81, "protocol": "TCP"});
        assert_eq!(of_pod(&pod(other), ""), [""; 0]);
    }

    #[test]
    fn many_equal_ports_have_as_many_warnings_as_a_response_shows() {
        // All warnings would take 20 GB.
        let ports = vec![json!({"containerPort": 80, "protocol": "TCP"}); 20_000];
        let warnings = of_pod(&json!({"spec": {"containers": [{"ports": ports}]}}), "");
        assert!((32..=256).contains(&warnings.len()), "{}", warnings.len());
        // Ports without a conflict are not compared with each other.
        let ports: Vec<Value> = (1..=50_000)
            .map(|index| json!({"containerPort": 80, "protocol": "TCP", "hostPort": 1, "hostIP": index.to_string()}))
            .collect();
        let mut pod = json!({"spec": {"containers": [{"ports": ports}]}});
        assert_eq!(of_pod(&pod, ""), [""; 0]);
        pod["spec"]["containers"][0]["ports"][49_999]["hostIP"] = json!("");
        assert!(of_pod(&pod, "")[0].contains("[49999]: dangerously ambiguous port definition with"));
    }

    #[test]
    fn variable_that_refers_to_the_earlier_one_is_fine() {
        let pod = |value: &str| json!({"spec": {"containers": [{"env": [{"name": "A", "value": "x"}, {"name": "A", "value": value}]}]}});
        assert_eq!(of_pod(&pod("$(A)y"), ""), [""; 0]);
        assert_eq!(of_pod(&pod("$(A)"), "").len(), 1);
        assert_eq!(of_pod(&pod("y"), "").len(), 1);
    }
}
