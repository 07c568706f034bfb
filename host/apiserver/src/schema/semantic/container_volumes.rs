//! The volumes that containers mount and use as block devices.

use pilothouse_model::hash::{HashMap, HashSet};
use serde_json::Value;

use super::{items, text, volume_source};
use crate::schema::field;
use crate::status::Causes;

/// The valid volumes of a Pod by their names, each with whether it is that of a claim, which may be a block device.
pub(super) type Volumes<'a> = HashMap<&'a str, bool>;

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
const READ_ONLY_MODES: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];

/// Checks the mounts and the devices of the container at `at`.
pub(super) fn validate(container: &Value, at: &str, volumes: &Volumes<'_>, causes: &mut Causes) {
    validate_mounts(container, &field::child(at, "volumeMounts"), volumes, causes);
    validate_devices(container, &field::child(at, "volumeDevices"), volumes, causes);
}

/// Returns the values of a member of the items of a list.
fn all<'a>(list: &'a Value, member: &str) -> HashSet<&'a str> {
    items(list).iter().map(|item| text(item, member)).collect()
}

fn validate_mounts(container: &Value, path: &str, volumes: &Volumes<'_>, causes: &mut Causes) {
    let devices = &container["volumeDevices"];
    let (device_names, device_paths) = (all(devices, "name"), all(devices, "devicePath"));
    let mut mount_paths = HashSet::default();
    for (index, mount) in items(&container["volumeMounts"]).iter().enumerate() {
        let at = field::index(path, index);
        let (at_name, name) = (field::child(&at, "name"), text(mount, "name"));
        if name.is_empty() {
            causes.push(field::required(&at_name, ""));
        } else if !volumes.contains_key(name) {
            causes.push(field::not_found(&at_name, &Value::from(name)));
        }
        let (at_path, mount_path) = (field::child(&at, "mountPath"), text(mount, "mountPath"));
        if mount_path.is_empty() {
            causes.push(field::required(&at_path, ""));
        }
        if !mount_paths.insert(mount_path) {
            causes.push(field::invalid(&at_path, &Value::from(mount_path), "must be unique"));
        }
        if device_names.contains(name) {
            causes.push(field::invalid(&at_name, &name.into(), "must not already exist in volumeDevices"));
        }
        if device_paths.contains(mount_path) {
            let detail = "must not already exist as a path in volumeDevices";
            causes.push(field::invalid(&at_path, &mount_path.into(), detail));
        }
        validate_sub_path(mount, path, &at, causes);
        validate_mode(mount, container, path, causes);
    }
}

/// Checks the path within the volume. As in Kubernetes, the paths of most causes do not say which mount it is.
fn validate_sub_path(mount: &Value, path: &str, at: &str, causes: &mut Causes) {
    let (sub_path, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    if !sub_path.is_empty() {
        volume_source::validate_descending_path(sub_path, &field::child(path, "subPath"), causes);
    }
    if !expression.is_empty() {
        if !sub_path.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            causes.push(field::invalid(&field::child(at, "subPathExpr"), &expression.into(), detail));
        }
        volume_source::validate_descending_path(expression, &field::child(path, "subPathExpr"), causes);
    }
}

/// Checks how mounts are propagated and whether they are read-only.
fn validate_mode(mount: &Value, container: &Value, path: &str, causes: &mut Causes) {
    let (propagation, at) = (&mount["mountPropagation"], field::child(path, "mountPropagation"));
    if propagation.as_str().is_some_and(|mode| !PROPAGATIONS.contains(&mode)) {
        causes.push(field::not_supported(&at, propagation, &PROPAGATIONS));
    }
    if propagation == "Bidirectional" && container["securityContext"]["privileged"] != true {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        causes.push(field::forbidden(&at, detail));
    }
    let (mode, at) = (&mount["recursiveReadOnly"], field::child(path, "recursiveReadOnly"));
    match mode.as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if mount["readOnly"] != true {
                causes.push(field::forbidden(&at, "may only be specified when readOnly is true"));
            }
            if propagation.is_string() && propagation != "None" {
                let detail = "may only be specified when mountPropagation is None or not specified";
                causes.push(field::forbidden(&at, detail));
            }
        }
        Some(_) => causes.push(field::not_supported(&at, mode, &READ_ONLY_MODES)),
    }
}

fn validate_devices(container: &Value, path: &str, volumes: &Volumes<'_>, causes: &mut Causes) {
    let mounts = &container["volumeMounts"];
    let (mount_names, mount_paths) = (all(mounts, "name"), all(mounts, "mountPath"));
    let (mut names, mut paths) = (HashSet::default(), HashSet::default());
    for (index, device) in items(&container["volumeDevices"]).iter().enumerate() {
        let at = field::index(path, index);
        let (at_name, name) = (field::child(&at, "name"), text(device, "name"));
        let mut refuse_name = |detail: &str| causes.push(field::invalid(&at_name, &name.into(), detail));
        if !name.is_empty() && !names.insert(name) {
            refuse_name("must be unique");
        }
        match volumes.get(name) {
            Some(true) => {}
            Some(false) => refuse_name(
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            ),
            None if name.is_empty() => causes.push(field::required(&at_name, "")),
            None => causes.push(field::not_found(&at_name, &name.into())),
        }
        let (at_path, device_path) = (field::child(&at, "devicePath"), text(device, "devicePath"));
        if device_path.is_empty() {
            causes.push(field::required(&at_path, ""));
        }
        if paths.contains(device_path) {
            causes.push(field::invalid(&at_path, &device_path.into(), "must be unique"));
        }
        if device_path.split('/').any(|part| part == "..") {
            causes.push(field::invalid(&at_path, &device_path.into(), "can not contain backsteps ('..')"));
        } else {
            paths.insert(device_path);
        }
        if mount_names.contains(name) {
            causes.push(field::invalid(&at_name, &name.into(), "must not already exist in volumeMounts"));
        }
        if mount_paths.contains(device_path) {
            let detail = "must not already exist as a path in volumeMounts";
            causes.push(field::invalid(&at_path, &device_path.into(), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(container: &Value) -> Vec<String> {
        let mut causes = Causes::default();
        let volumes = Volumes::from_iter([("v", false), ("p", true)]);
        validate(container, "c", &volumes, &mut causes);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn mounts_have_known_modes() {
        let mount = |members: Value| {
            let mut mount = json!({"name": "v", "mountPath": "/v"});
            for (name, value) in members.as_object().into_iter().flatten() {
                mount[name] = value.clone();
            }
            problems(&json!({"volumeMounts": [mount]}))
        };
        assert_eq!(
            mount(json!({"readOnly": true, "recursiveReadOnly": "Enabled", "mountPropagation": "None"})),
            [""; 0]
        );
        assert_eq!(
            mount(json!({"mountPropagation": "X"})),
            [
                "c.volumeMounts.mountPropagation: Unsupported value: \"X\": supported values: \"Bidirectional\", \"HostToContainer\", \"None\""
            ]
        );
        assert_eq!(
            mount(json!({"mountPropagation": "Bidirectional"})),
            [
                "c.volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers"
            ]
        );
        assert_eq!(
            mount(json!({"recursiveReadOnly": "Enabled"})),
            ["c.volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"]
        );
        assert_eq!(
            mount(json!({"subPathExpr": "../x"})),
            ["c.volumeMounts.subPathExpr: Invalid value: \"../x\": must not contain '..'"]
        );
    }

    #[test]
    fn devices_are_volumes_of_claims_that_are_not_mounted() {
        let device = |name: &str, path: &str| json!({"name": name, "devicePath": path});
        assert_eq!(problems(&json!({"volumeDevices": [device("p", "/dev/x")]})), [""; 0]);
        let container = json!({
            "volumeMounts": [{"name": "v", "mountPath": "/m"}],
            "volumeDevices": [device("v", "/m"), device("z", "/../y"), device("p", "/x"), device("p", "/x")],
        });
        assert_eq!(
            problems(&container),
            [
                "c.volumeMounts[0].name: Invalid value: \"v\": must not already exist in volumeDevices",
                "c.volumeMounts[0].mountPath: Invalid value: \"/m\": must not already exist as a path in volumeDevices",
                "c.volumeDevices[0].name: Invalid value: \"v\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                "c.volumeDevices[0].name: Invalid value: \"v\": must not already exist in volumeMounts",
                "c.volumeDevices[0].devicePath: Invalid value: \"/m\": must not already exist as a path in volumeMounts",
                "c.volumeDevices[1].name: Not found: \"z\"",
                "c.volumeDevices[1].devicePath: Invalid value: \"/../y\": can not contain backsteps ('..')",
                "c.volumeDevices[3].name: Invalid value: \"p\": must be unique",
                "c.volumeDevices[3].devicePath: Invalid value: \"/x\": must be unique",
            ]
        );
    }
}
