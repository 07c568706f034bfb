//! ResourceSlices (`pkg/apis/resource/validation`). Request policies of capacities and binding conditions are not checked.

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::{csi, entries, has, items, names, pod_scheduling, push_invalid, text, validate_one_of};
use crate::schema::field;
use crate::status::Causes;

const MAX_DEVICES: usize = 128;
/// The most devices of a slice whose devices have taints, counters or lists of values.
const MAX_ADVANCED_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
const MAX_COUNTERS: usize = 32;
const MAX_CONSUMED_SETS: usize = 2;
const MAX_TAINTS: usize = 16;
const MAX_ATTRIBUTES_AND_CAPACITIES: usize = 32;
const MAX_POOL_NAME: usize = 253;
const MAX_IDENTIFIER: usize = 32;
const MAX_ATTRIBUTE: usize = 64;
const IMMUTABLE: &str = "field is immutable";
const TRUE_OR_UNSET: &str = "must be either unset or set to true";
const IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
    characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

/// Checks a slice. `old` is the stored object on updates.
pub(super) fn validate(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    csi::validate_driver_name(text(spec, "driver"), "spec.driver", causes);
    validate_pool(&spec["pool"], causes);
    if let Some(before) = old.map(|old| &old["spec"]) {
        for (path, pointer) in
            [("spec.pool.name", "/pool/name"), ("spec.driver", "/driver"), ("spec.nodeName", "/nodeName")]
        {
            let after = spec.pointer(pointer);
            if before.pointer(pointer) != after {
                causes.push(field::invalid(path, after.unwrap_or(&Value::Null), IMMUTABLE));
            }
        }
    }
    validate_nodes(spec, causes);
    if has(spec, "sharedCounters") && has(spec, "devices") {
        let detail = "only one of `sharedCounters` or `devices` is allowed";
        causes.push(field::invalid("spec", &"".into(), detail));
    }
    let devices = items(&spec["devices"]);
    let most = if devices.iter().any(is_advanced) { MAX_ADVANCED_DEVICES } else { MAX_DEVICES };
    let by_device = spec["perDeviceNodeSelection"] == true;
    validate_set(devices, most, "name", "spec.devices", causes, |device, at, causes| {
        validate_device(device, at, by_device, causes);
    });
    let sets = items(&spec["sharedCounters"]);
    validate_set(sets, MAX_COUNTER_SETS, "name", "spec.sharedCounters", causes, |set, at, causes| {
        validate_name(text(set, "name"), &field::child(at, "name"), causes);
        validate_counters(set, at, causes);
    });
}

fn validate_pool(pool: &Value, causes: &mut Causes) {
    validate_pool_name(text(pool, "name"), "spec.pool.name", causes);
    let number = |name: &str| pool[name].as_i64().unwrap_or(0);
    let (count, generation) = (number("resourceSliceCount"), number("generation"));
    if count <= 0 {
        causes.push(field::invalid(
            "spec.pool.resourceSliceCount",
            &count.into(),
            "must be greater than zero",
        ));
    }
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        causes.push(field::invalid("spec.pool.generation", &generation.into(), detail));
    }
}

/// Checks the name of a pool: names separated by slashes.
pub(super) fn validate_pool_name(name: &str, path: &str, causes: &mut Causes) {
    if name.is_empty() {
        causes.push(field::required(path, ""));
        return;
    }
    if name.len() > MAX_POOL_NAME {
        causes.push(field::too_long(path, MAX_POOL_NAME as u64));
    }
    for part in name.split('/') {
        push_invalid(causes, path, part, names::subdomain_errors(part));
    }
}

/// Checks that a slice says in exactly one way which Nodes can use its devices.
fn validate_nodes(spec: &Value, causes: &mut Causes) {
    let mut found =
        validate_choices(spec, "spec", "must be either unset or set to a non-empty string", causes);
    let terms = &spec["nodeSelector"]["nodeSelectorTerms"];
    if has(spec, "nodeSelector") && items(terms).len() != 1 {
        let detail = "must have exactly one node selector term";
        causes.push(field::invalid("spec.nodeSelector.nodeSelectorTerms", terms, detail));
    }
    validate_flag(spec, "perDeviceNodeSelection", "spec", &mut found, causes);
    let detail =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match found.len() {
        0 => causes.push(field::required("spec", detail)),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", found.join(", "));
            let detail = format!("{detail}, but multiple fields are set");
            causes.push(field::invalid("spec", &shown.into(), &detail));
        }
    }
}

/// Checks `nodeName`, `nodeSelector` and `allNodes`. Returns those that choose Nodes.
fn validate_choices(object: &Value, at: &str, no_name: &str, causes: &mut Causes) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(name) = object["nodeName"].as_str() {
        let path = field::child(at, "nodeName");
        if name.is_empty() {
            causes.push(field::invalid(&path, &name.into(), no_name));
        } else {
            found.push("`nodeName`".to_owned());
            push_invalid(causes, &path, name, names::subdomain_errors(name));
        }
    }
    if has(object, "nodeSelector") {
        found.push("`nodeSelector`".to_owned());
        let path = field::child(at, "nodeSelector");
        pod_scheduling::validate_node_selector(&object["nodeSelector"], &path, causes);
    }
    validate_flag(object, "allNodes", at, &mut found, causes);
    found
}

fn validate_flag(object: &Value, name: &str, at: &str, found: &mut Vec<String>, causes: &mut Causes) {
    match object[name].as_bool() {
        Some(true) => found.push(format!("`{name}`")),
        Some(false) => causes.push(field::invalid(&field::child(at, name), &false.into(), TRUE_OR_UNSET)),
        None => {}
    }
}

fn validate_device(device: &Value, at: &str, by_device: bool, causes: &mut Causes) {
    let name = text(device, "name");
    push_invalid(causes, &field::child(at, "name"), name, names::label_errors(name));
    let count = entries(device.get("attributes")).count() + entries(device.get("capacity")).count();
    if count > MAX_ATTRIBUTES_AND_CAPACITIES {
        let detail = format!(
            "the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        );
        causes.push(field::invalid(at, &count.into(), &detail));
    }
    let path = field::child(at, "attributes");
    for (name, attribute) in entries(device.get("attributes")) {
        validate_qualified_name(name, &path, causes);
        validate_attribute(attribute, &field::key(&path, name), causes);
    }
    for (name, _) in entries(device.get("capacity")) {
        validate_qualified_name(name, &field::child(at, "capacity"), causes);
    }
    validate_taints(items(&device["taints"]), &field::child(at, "taints"), causes);
    let path = field::child(at, "consumesCounters");
    let consumed = items(&device["consumesCounters"]);
    validate_set(consumed, MAX_CONSUMED_SETS, "counterSet", &path, causes, |consumption, at, causes| {
        validate_name(text(consumption, "counterSet"), &field::child(at, "counterSet"), causes);
        validate_counters(consumption, at, causes);
    });
    validate_device_nodes(device, at, by_device, causes);
}

fn validate_device_nodes(device: &Value, at: &str, by_device: bool, causes: &mut Causes) {
    if by_device {
        let found = validate_choices(device, at, "must not be empty", causes);
        let detail = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set \
                      to true in the ResourceSlice spec";
        match found.len() {
            0 => causes.push(field::required(at, detail)),
            1 => {}
            _ => {
                let shown = format!("{{{}}}", found.join(", "));
                causes.push(field::invalid(at, &shown.into(), detail));
            }
        }
    } else if ["nodeName", "nodeSelector", "allNodes"].iter().any(|name| has(device, name)) {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in \
                      the ResourceSlice spec";
        causes.push(field::invalid(at, &Value::Null, detail));
    }
}

fn validate_taints(taints: &[Value], path: &str, causes: &mut Causes) {
    if taints.len() > MAX_TAINTS {
        causes.push(field::too_many(path, taints.len(), MAX_TAINTS as u64));
        return;
    }
    for (index, taint) in taints.iter().enumerate() {
        let at = field::index(path, index);
        let (key, value) = (text(taint, "key"), text(taint, "value"));
        push_invalid(causes, &field::child(&at, "key"), key, names::qualified_name_errors(key));
        push_invalid(causes, &field::child(&at, "value"), value, names::label_value_errors(value));
        if text(taint, "effect").is_empty() {
            causes.push(field::required(&field::child(&at, "effect"), ""));
        } else {
            validate_one_of(taint, "effect", &at, &["NoExecute", "NoSchedule", "None"], causes);
        }
    }
}

/// Checks that an attribute has exactly one value.
fn validate_attribute(attribute: &Value, at: &str, causes: &mut Causes) {
    const KINDS: [&str; 8] = ["bool", "int", "string", "version", "bools", "ints", "strings", "versions"];
    let check_text = |value: &str, is_version: bool, at: &str, causes: &mut Causes| {
        if is_version && !is_semantic_version(value) {
            let detail = "must be a string compatible with semver.org spec 2.0.0";
            causes.push(field::invalid(at, &value.into(), detail));
        }
        if value.len() > MAX_ATTRIBUTE {
            causes.push(field::too_long(at, MAX_ATTRIBUTE as u64));
        }
    };
    let mut found = 0;
    for kind in KINDS.into_iter().filter(|kind| has(attribute, kind)) {
        found += 1;
        let (value, path) = (&attribute[kind], field::child(at, kind));
        if let Some(text) = value.as_str() {
            check_text(text, kind == "version", &path, causes);
        }
        if value.as_array().is_some_and(Vec::is_empty) {
            causes.push(field::invalid(&path, value, "must not be empty if specified"));
        }
        for (index, text) in items(value).iter().enumerate() {
            if let Some(text) = text.as_str() {
                check_text(text, kind == "versions", &field::index(&path, index), causes);
            }
        }
    }
    if found != 1 {
        let shown = if found == 0 { &Value::from("") } else { attribute };
        causes.push(field::invalid(at, shown, "exactly one value must be specified"));
    }
}

/// Whether a text is a version such as `1.2.3-rc.1+build`.
fn is_semantic_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, release) = text.split_once('-').map_or((text, None), |(core, rest)| (core, Some(rest)));
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let is_identifier = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_release = |part: &str| {
        is_identifier(part) && (is_number(part) || !part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && release.is_none_or(|release| release.split('.').all(is_release))
        && build.is_none_or(|build| build.split('.').all(is_identifier))
}

fn validate_counters(object: &Value, at: &str, causes: &mut Causes) {
    let path = field::child(at, "counters");
    let count = entries(object.get("counters")).count();
    if count == 0 {
        causes.push(field::required(&path, ""));
    } else if count > MAX_COUNTERS {
        causes.push(field::too_many(&path, count, MAX_COUNTERS as u64));
    } else {
        for (name, _) in entries(object.get("counters")) {
            push_invalid(causes, &path, name, names::label_errors(name));
        }
    }
}

fn validate_name(name: &str, path: &str, causes: &mut Causes) {
    if name.is_empty() {
        causes.push(field::required(path, ""));
    } else {
        push_invalid(causes, path, name, names::label_errors(name));
    }
}

/// Checks the name of an attribute or a capacity, which may have a domain.
pub(super) fn validate_qualified_name(name: &str, path: &str, causes: &mut Causes) {
    let parts: Vec<&str> = name.split('/').collect();
    let nothing = Value::from("");
    match parts.as_slice() {
        [identifier] => validate_identifier(identifier, path, causes),
        [domain, identifier] => {
            if domain.is_empty() {
                causes.push(field::invalid(path, &nothing, "the domain must not be empty"));
            } else {
                csi::validate_driver_name(domain, path, causes);
            }
            if identifier.is_empty() {
                causes.push(field::invalid(path, &nothing, "the name must not be empty"));
            } else {
                validate_identifier(identifier, path, causes);
            }
        }
        // As in Kubernetes, names with several slashes are not checked.
        _ => {}
    }
}

fn validate_identifier(identifier: &str, path: &str, causes: &mut Causes) {
    if identifier.len() > MAX_IDENTIFIER {
        causes.push(field::too_long(path, MAX_IDENTIFIER as u64));
    }
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts = identifier.bytes().next().is_some_and(|byte| is_inner(byte) && !byte.is_ascii_digit());
    if !starts || !identifier.bytes().all(is_inner) {
        causes.push(field::invalid(path, &identifier.into(), IDENTIFIER));
    }
}

/// Checks the items of a list and that their keys, the values of the member `key`, differ. A list that is too long is not checked further.
fn validate_set(
    list: &[Value],
    most: usize,
    key: &str,
    path: &str,
    causes: &mut Causes,
    check: impl Fn(&Value, &str, &mut Causes),
) {
    if list.len() > most {
        causes.push(field::too_many(path, list.len(), most as u64));
        return;
    }
    for (index, item) in list.iter().enumerate() {
        check(item, &field::index(path, index), causes);
    }
    let mut found = HashSet::default();
    for (index, item) in list.iter().enumerate() {
        let key = text(item, key);
        if !found.insert(key) {
            causes.push(field::duplicate(&field::index(path, index), &key.into()));
        }
    }
}

/// Whether a device has what makes its slice shorter: taints, counters or lists of values.
fn is_advanced(device: &Value) -> bool {
    let has_lists = |attribute: &Value| {
        ["bools", "ints", "strings", "versions"].iter().any(|kind| !items(&attribute[*kind]).is_empty())
    };
    !items(&device["taints"]).is_empty()
        || !items(&device["consumesCounters"]).is_empty()
        || entries(device.get("attributes")).any(|(_, attribute)| has_lists(attribute))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(spec: &Value) -> Vec<String> {
        let mut causes = Causes::default();
        validate(spec, None, &mut causes);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    /// Returns a valid slice with further members.
    fn slice(members: &Value) -> Value {
        let mut spec =
            json!({"driver": "d.example", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n"});
        spec.as_object_mut().expect("an object").extend(members.as_object().cloned().unwrap_or_default());
        spec
    }

    #[test]
    fn slices_name_a_driver_a_pool_and_their_nodes() {
        assert_eq!(problems(&slice(&json!({}))), [""; 0]);
        assert_eq!(
            problems(&json!({})),
            [
                "spec.driver: Required value",
                "spec.pool.name: Required value",
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
            ]
        );
        assert_eq!(
            problems(&slice(&json!({"allNodes": true}))),
            [
                "spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, \
                 `perDeviceNodeSelection` is required, but multiple fields are set"
            ]
        );
    }

    #[test]
    fn devices_have_different_names_and_attributes_with_one_value() {
        let attributes = json!({"model": {"string": "m"}, "v": {"version": "1.2"}, "x": {}});
        let found = problems(&slice(&json!({"devices": [
            {"name": "a", "attributes": attributes}, {"name": "a"}, {"name": "A", "nodeName": "n"},
        ]})));
        assert_eq!(
            found[0],
            "spec.devices[0].attributes[v].version: Invalid value: \"1.2\": must be a string compatible with semver.org spec 2.0.0"
        );
        assert_eq!(
            found[1],
            "spec.devices[0].attributes[x]: Invalid value: \"\": exactly one value must be specified"
        );
        assert!(found[2].starts_with("spec.devices[2].name: Invalid value: \"A\""), "{found:?}");
        assert!(found[3].starts_with("spec.devices[2]: Invalid value: null: `nodeName`"), "{found:?}");
        assert_eq!(found[4], "spec.devices[1]: Duplicate value: \"a\"");
    }

    #[test]
    fn versions_are_semantic() {
        for version in ["1.2.3", "0.0.0-rc.1+b.07", "1.0.0--a"] {
            assert!(is_semantic_version(version), "{version}");
        }
        for version in ["1.2", "01.2.3", "1.2.3-01", "1.2.3-", "1.2.3+", "v1.2.3"] {
            assert!(!is_semantic_version(version), "{version}");
        }
    }
}
