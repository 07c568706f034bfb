//! The fields that kube-apiserver's built-in admission plugins set on new objects: `ServiceAccount`, `TaintNodesByCondition`, `Priority`,
//! `DefaultTolerationSeconds` and `StorageObjectInUseProtection`, and those of other modules: `LimitRanger`, `DefaultStorageClass`, `RuntimeClass`,
//! `DefaultIngressClass` and `PodTopologyLabels`. As there, no field manager owns them.

use serde_json::{Value, json};

use super::{default_classes, limit_ranges, runtime_class, service_accounts, topology_labels};
use crate::admission_plugins::AdmissionPlugin;
use crate::meta;
use crate::registry::Endpoint;
use crate::state::State;
use crate::status::Status;

/// The taints of a Node that a new Pod tolerates for five minutes.
const TOLERATED_TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// The seconds for which they are tolerated.
const TOLERATION_SECONDS: u32 = 300;

/// The finalizer of PersistentVolumeClaims.
pub(crate) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The finalizer of PersistentVolumes.
pub(crate) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// The finalizer of VolumeAttributesClasses.
pub(crate) const CLASS_PROTECTION: &str = "kubernetes.io/vac-protection";

/// The priority that a Pod gets from its PriorityClass.
#[derive(Debug, PartialEq, Eq)]
struct Priority {
    value: i64,
    /// The name of the class; empty if there is none.
    class: String,
    preemption_policy: String,
}

/// Sets the fields of a new object.
///
/// # Errors
/// 403 if the Pod names a PriorityClass or a RuntimeClass that does not exist, or contradicts it.
pub(super) fn on_create(state: &State, endpoint: &Endpoint, value: &mut Value) -> Result<(), Status> {
    let acts = |plugin| state.plugins.acts(plugin);
    limit_ranges::set_defaults_of_pod(state, endpoint, value);
    if endpoint.is_core("pods") {
        complete_pod(state, endpoint, value)?;
    } else if endpoint.is_core("nodes") && acts(AdmissionPlugin::TaintNodesByCondition) {
        add_taint(&mut value["spec"]);
    } else if acts(AdmissionPlugin::StorageObjectInUseProtection) {
        add_protection(endpoint, value);
    }
    default_classes::on_create(state, endpoint, value);
    Ok(())
}

fn complete_pod(state: &State, endpoint: &Endpoint, value: &mut Value) -> Result<(), Status> {
    let acts = |plugin| state.plugins.acts(plugin);
    service_accounts::admit(state, endpoint, value)?;
    let name = meta::shown_name(value).to_owned();
    let refused = |problem: String| Status::forbidden(endpoint.resource_ref(), &name, &problem);
    let spec = &mut value["spec"];
    if acts(AdmissionPlugin::Priority) {
        set_priority(&priority_classes(state), spec).map_err(refused)?;
    }
    if acts(AdmissionPlugin::DefaultTolerationSeconds) {
        add_tolerations(spec);
    }
    if acts(AdmissionPlugin::RuntimeClass) {
        runtime_class::apply(state, spec).map_err(refused)?;
    }
    let node = spec["nodeName"].as_str().unwrap_or_default().to_owned();
    topology_labels::copy(state, &node, value);
    Ok(())
}

/// Adds the finalizer of a claim, a volume or a VolumeAttributesClass.
fn add_protection(endpoint: &Endpoint, value: &mut Value) {
    if endpoint.is_core("persistentvolumeclaims") {
        add_finalizer(value, CLAIM_PROTECTION);
    } else if endpoint.is_core("persistentvolumes") {
        add_finalizer(value, VOLUME_PROTECTION);
    } else if is_attributes_class(endpoint) {
        add_finalizer(value, CLASS_PROTECTION);
    }
}

/// Checks that there is at most one PriorityClass that is the default. Other objects pass.
///
/// # Errors
/// 403 if another one is.
pub(super) fn check_priority_class(state: &State, endpoint: &Endpoint, value: &Value) -> Result<(), Status> {
    let is_class =
        endpoint.group == "scheduling.k8s.io" && endpoint.resource.names.plural == "priorityclasses";
    if !is_class || value["globalDefault"] != true || !state.plugins.acts(AdmissionPlugin::Priority) {
        return Ok(());
    }
    let name = meta::text(value, "name");
    let classes = priority_classes(state);
    let mut others =
        classes.iter().filter(|class| class["globalDefault"] == true && meta::text(class, "name") != name);
    match others.next() {
        None => Ok(()),
        Some(other) => {
            let other = meta::text(other, "name");
            let problem =
                format!("PriorityClass {other} is already marked as default. Only one default can exist");
            Err(Status::forbidden(endpoint.resource_ref(), name, &problem))
        }
    }
}

/// Restores the fields of an updated Pod that the client left out.
pub(super) fn on_pod_update(state: &State, old: &Value, new: &mut Value) {
    if state.plugins.acts(AdmissionPlugin::Priority) {
        keep_priority(old, new);
    }
    if state.plugins.acts(AdmissionPlugin::DefaultTolerationSeconds) {
        add_tolerations(&mut new["spec"]);
    }
}

fn keep_priority(old: &Value, new: &mut Value) {
    for field in ["priority", "preemptionPolicy"] {
        if new["spec"][field].is_null()
            && let Some(before) = old["spec"].get(field)
        {
            new["spec"][field] = before.clone();
        }
    }
}

/// Whether the endpoint serves VolumeAttributesClasses.
pub(super) fn is_attributes_class(endpoint: &Endpoint) -> bool {
    endpoint.group == "storage.k8s.io" && endpoint.resource.names.plural == "volumeattributesclasses"
}

fn add_finalizer(value: &mut Value, finalizer: &str) {
    let mut finalizers = meta::finalizers(value);
    if !finalizers.iter().any(|one| one == finalizer) {
        finalizers.push(finalizer.to_owned());
        meta::set_finalizers(value, finalizers);
    }
}

fn priority_classes(state: &State) -> Vec<Value> {
    let registry = state.registry();
    let Some(classes) = registry.endpoint("scheduling.k8s.io", "v1", "priorityclasses") else {
        return Vec::new();
    };
    classes.resource.table.list(None).0.iter().map(|class| class.value()).collect()
}

fn set_priority(classes: &[Value], spec: &mut Value) -> Result<(), String> {
    let requested = spec["priorityClassName"].as_str().unwrap_or_default();
    let priority = if requested.is_empty() { default_priority(classes) } else { named(classes, requested)? };
    let given = &spec["priority"];
    if !given.is_null() && *given != priority.value {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {} from the given PriorityClass name",
            priority.value
        ));
    }
    let given = spec["preemptionPolicy"].as_str().unwrap_or_default();
    if !given.is_empty() && given != priority.preemption_policy {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {} from the given PriorityClass name",
            priority.preemption_policy
        ));
    }
    spec["priority"] = priority.value.into();
    spec["preemptionPolicy"] = priority.preemption_policy.into();
    if !priority.class.is_empty() {
        spec["priorityClassName"] = priority.class.into();
    }
    Ok(())
}

/// Returns the priority of a class by its name.
fn named(classes: &[Value], name: &str) -> Result<Priority, String> {
    if let Some(class) = classes.iter().find(|class| meta::text(class, "name") == name) {
        return Ok(of_class(class));
    }
    let built_in = match name {
        "system-cluster-critical" => Some(2_000_000_000),
        "system-node-critical" => Some(2_000_001_000),
        _ => None,
    };
    let value = built_in.ok_or_else(|| format!("no PriorityClass with name {name} was found"))?;
    Ok(Priority { value, class: name.to_owned(), preemption_policy: "PreemptLowerPriority".to_owned() })
}

/// Returns the priority of the class that is the global default, the lowest one if there are several.
fn default_priority(classes: &[Value]) -> Priority {
    let defaults = classes.iter().filter(|class| class["globalDefault"] == true).map(of_class);
    defaults.min_by_key(|priority| priority.value).unwrap_or_else(|| Priority {
        value: 0,
        class: String::new(),
        preemption_policy: "PreemptLowerPriority".to_owned(),
    })
}

fn of_class(class: &Value) -> Priority {
    Priority {
        value: class["value"].as_i64().unwrap_or_default(),
        class: meta::text(class, "name").to_owned(),
        preemption_policy: class["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority").to_owned(),
    }
}

fn add_tolerations(spec: &mut Value) {
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for taint in TOLERATED_TAINTS {
        let is_tolerated = tolerations.iter().any(|toleration| {
            let text = |name: &str| toleration[name].as_str().unwrap_or_default();
            ["", taint].contains(&text("key")) && ["", "NoExecute"].contains(&text("effect"))
        });
        if !is_tolerated {
            tolerations.push(json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS,
            }));
        }
    }
    spec["tolerations"] = tolerations.into();
}

/// Adds the taint that keeps Pods off a Node until it is ready.
fn add_taint(spec: &mut Value) {
    let mut taints = spec["taints"].as_array().cloned().unwrap_or_default();
    let taint = json!({"key": TOLERATED_TAINTS[0], "effect": "NoSchedule"});
    let is_same = |other: &Value| other["key"] == taint["key"] && other["effect"] == taint["effect"];
    if !taints.iter().any(is_same) {
        taints.push(taint);
    }
    spec["taints"] = taints.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, value: i64, default: bool) -> Value {
        json!({"metadata": {"name": name}, "value": value, "globalDefault": default, "preemptionPolicy": "Never"})
    }

    #[test]
    fn pod_gets_the_priority_of_its_class_or_of_the_default_class() {
        let classes = [class("high", 9, false), class("usual", 5, true), class("low", 3, true)];
        let priority = |classes: &[Value], mut spec: Value| {
            set_priority(classes, &mut spec)?;
            Ok::<_, String>(spec)
        };
        assert_eq!(
            priority(&[], json!({})),
            Ok(json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}))
        );
        assert_eq!(
            priority(&classes, json!({})),
            Ok(json!({"priority": 3, "preemptionPolicy": "Never", "priorityClassName": "low"}))
        );
        let high = priority(&classes, json!({"priorityClassName": "high"})).expect("a class");
        assert_eq!(high["priority"], 9);
        let system = priority(&[], json!({"priorityClassName": "system-node-critical"})).expect("built in");
        assert_eq!(system["priority"], 2_000_001_000);
        let missing = priority(&classes, json!({"priorityClassName": "none"}));
        assert_eq!(missing, Err("no PriorityClass with name none was found".to_owned()));
        assert!(priority(&classes, json!({"priorityClassName": "high", "priority": 1})).is_err());
    }

    #[test]
    fn default_tolerations_are_added_once() {
        let mut spec = json!({"tolerations": [{"key": TOLERATED_TAINTS[0], "operator": "Exists"}]});
        add_tolerations(&mut spec);
        assert_eq!(spec["tolerations"].as_array().map(Vec::len), Some(2));
        assert_eq!(spec["tolerations"][1]["key"], TOLERATED_TAINTS[1]);
        let before = spec.clone();
        add_tolerations(&mut spec);
        assert_eq!(spec, before);
        let mut all = json!({"tolerations": [{"operator": "Exists"}]});
        add_tolerations(&mut all);
        assert_eq!(all["tolerations"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn node_gets_the_taint_once() {
        let mut spec = json!({});
        add_taint(&mut spec);
        add_taint(&mut spec);
        assert_eq!(
            spec,
            json!({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]})
        );
    }

    #[test]
    fn update_of_a_pod_keeps_its_priority() {
        let old = json!({"spec": {"priority": 7, "preemptionPolicy": "Never"}});
        let mut new = json!({"spec": {}});
        keep_priority(&old, &mut new);
        assert_eq!(
            (&new["spec"]["priority"], &new["spec"]["preemptionPolicy"]),
            (&json!(7), &json!("Never"))
        );
    }
}
