//! CSIDrivers, CSINodes and VolumeAttachments, after `k8s.io/kubernetes/pkg/apis/storage/validation`.

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::{has, items, names, push_invalid, text, validate_non_negative};
use crate::schema::field;
use crate::status::Causes;

/// The most characters of the name of a driver.
const MAX_DRIVER_NAME: u64 = 63;
/// The most characters of the ID that a driver gives a Node.
const MAX_NODE_ID: usize = 192;
/// The fewest and the most seconds for which a driver may request a token.
const LIFETIME: std::ops::RangeInclusive<i64> = 600..=1 << 32;

pub(super) fn validate_driver(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    // As in Kubernetes, the path of the first one is not that of the field.
    for (name, path) in
        [("attachRequired", "attachedRequired"), ("podInfoOnMount", ""), ("storageCapacity", "")]
    {
        if !has(spec, name) {
            let path = if path.is_empty() { name } else { path };
            causes.push(field::required(&field::child("spec", path), ""));
        }
    }
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    let policy = &spec["fsGroupPolicy"];
    if policy.as_str().is_some_and(|policy| !policies.contains(&policy)) {
        causes.push(field::not_supported("spec.fsGroupPolicy", policy, &policies));
    }
    validate_token_requests(&spec["tokenRequests"], causes);
    let modes = ["Persistent", "Ephemeral"];
    for mode in items(&spec["volumeLifecycleModes"]) {
        if !modes.iter().any(|known| mode == known) {
            causes.push(field::not_supported("spec.volumeLifecycleModes", mode, &modes));
        }
    }
    let period = &spec["nodeAllocatableUpdatePeriodSeconds"];
    if period.as_i64().is_some_and(|seconds| seconds < 10) {
        let detail = "must be greater than or equal to 10 seconds";
        causes.push(field::invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, detail));
    }
    let in_secrets = &spec["serviceAccountTokenInSecrets"];
    if in_secrets.is_boolean() && items(&spec["tokenRequests"]).is_empty() {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        causes.push(field::invalid("spec.serviceAccountTokenInSecrets", in_secrets, detail));
    }
    let Some(old) = old else { return };
    for (name, path) in
        [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
    {
        if old["spec"][name] != spec[name] {
            causes.push(field::invalid(&field::child("spec", path), &spec[name], "field is immutable"));
        }
    }
}

fn validate_token_requests(requests: &Value, causes: &mut Causes) {
    let mut audiences = HashSet::default();
    for (index, request) in items(requests).iter().enumerate() {
        let at = field::index("spec.tokenRequests", index);
        let audience = text(request, "audience");
        if !audiences.insert(audience) {
            causes.push(field::duplicate(&field::child(&at, "audience"), &audience.into()));
            continue;
        }
        let seconds = &request["expirationSeconds"];
        let Some(number) = seconds.as_i64().filter(|number| !LIFETIME.contains(number)) else { continue };
        let detail = match number < *LIFETIME.start() {
            true => "may not specify a duration less than 10 minutes",
            false => "may not specify a duration larger than 2^32 seconds",
        };
        causes.push(field::invalid(&field::child(&at, "expirationSeconds"), seconds, detail));
    }
}

pub(super) fn validate_node(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    const PATH: &str = "spec.drivers";
    let mut drivers = HashSet::default();
    for (index, driver) in items(&spec["drivers"]).iter().enumerate() {
        let at = field::index(PATH, index);
        let (name, at_name) = (text(driver, "name"), field::child(&at, "name"));
        validate_driver_name(name, &at_name, causes);
        let (id, at_id) = (text(driver, "nodeID"), field::child(&at, "nodeID"));
        if id.is_empty() {
            causes.push(field::required(&at_id, ""));
        }
        if id.len() > MAX_NODE_ID {
            let detail = format!("must be {MAX_NODE_ID} characters or less");
            causes.push(field::invalid(&at_id, &id.into(), &detail));
        }
        validate_non_negative(&driver["allocatable"], "count", &field::child(&at, "allocatable"), causes);
        if !drivers.insert(name) {
            causes.push(field::duplicate(&at_name, &name.into()));
        }
        validate_topology_keys(&driver["topologyKeys"], &at, causes);
    }
    let fixed = |driver: &Value| {
        let mut driver = driver.clone();
        driver.as_object_mut().map(|members| members.remove("allocatable"));
        driver
    };
    for before in items(old.map_or(&Value::Null, |old| &old["spec"]["drivers"])) {
        for after in items(&spec["drivers"]).iter().filter(|after| after["name"] == before["name"]) {
            if fixed(before) != fixed(after) {
                causes.push(field::invalid_shown(PATH, &driver_as_go(after), "field is immutable"));
            }
        }
    }
}

/// Checks the keys of labels of the Node at `at`. As in Kubernetes, the path of the causes is that of the driver.
fn validate_topology_keys(keys: &Value, at: &str, causes: &mut Causes) {
    let mut found = HashSet::default();
    for key in items(keys).iter().filter_map(Value::as_str) {
        if key.is_empty() {
            causes.push(field::required(at, ""));
        }
        if !found.insert(key) {
            causes.push(field::duplicate(at, &key.into()));
        }
        push_invalid(causes, at, key, names::qualified_name_errors(key));
    }
}

/// Returns a driver of a CSINode, without what it can allocate, as messages show it.
fn driver_as_go(driver: &Value) -> String {
    let [name, id, keys] = ["name", "nodeID", "topologyKeys"].map(|name| &driver[name]);
    format!(r#"{{"Name":{name},"NodeID":{id},"TopologyKeys":{keys},"Allocatable":null}}"#)
}

pub(super) fn validate_attachment(new: &Value, old: Option<&Value>, causes: &mut Causes) {
    let (spec, source) = (&new["spec"], &new["spec"]["source"]);
    validate_driver_name(text(spec, "attacher"), "spec.attacher", causes);
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let volume = text(source, "persistentVolumeName");
    match (has(source, "inlineVolumeSpec"), has(source, "persistentVolumeName")) {
        (false, false) => causes.push(field::required("spec.source", ONE)),
        (true, true) => causes.push(field::forbidden("spec.source", ONE)),
        (false, true) if volume.is_empty() => {
            let detail = "must specify non empty persistentVolumeName";
            causes.push(field::required("spec.source.persistentVolumeName", detail));
        }
        _ => {}
    }
    let node = text(spec, "nodeName");
    push_invalid(causes, "spec.nodeName", node, names::subdomain_errors(node));
    if has(source, "persistentVolumeName") {
        push_invalid(causes, "spec.source.persistentVolumeName", volume, names::subdomain_errors(volume));
    }
    if old.is_some_and(|old| old["spec"] != *spec) {
        causes.push(field::invalid("spec", spec, "field is immutable"));
    }
}

/// Checks the name of a driver, which may have capital letters.
pub(super) fn validate_driver_name(name: &str, path: &str, causes: &mut Causes) {
    if name.is_empty() {
        causes.push(field::required(path, ""));
        return;
    }
    if name.len() as u64 > MAX_DRIVER_NAME {
        causes.push(field::too_long(path, MAX_DRIVER_NAME));
    }
    push_invalid(causes, path, name, names::subdomain_errors(&name.to_lowercase()));
}
