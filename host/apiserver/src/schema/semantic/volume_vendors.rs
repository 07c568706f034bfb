//! The volumes of vendors and protocols, in Pods and in PersistentVolumes (`pkg/apis/core/validation`).

use serde_json::Value;

use super::volume_source::validate_descending_path;
use super::{entries, has, items, names, push_invalid, text, validate_one_of};
use crate::schema::field;
use crate::status::Causes;

const PARTITION: &str = "must be between 1 and 255, inclusive";
const UNIT: &str = "must be between 0 and 255, inclusive";

/// The texts or lists that a source must have.
const REQUIRED: [(&str, &[&str]); 16] = [
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
];

/// Checks the source `kind` at `at`. `is_persistent` is true for those of PersistentVolumes.
pub(super) fn validate(kind: &str, source: &Value, at: &str, is_persistent: bool, causes: &mut Causes) {
    // As in Kubernetes, the path of such a disk is not that of its field.
    let at = &match at.strip_suffix("gcePersistentDisk") {
        Some(parent) => format!("{parent}persistentDisk"),
        None => at.to_owned(),
    };
    for (_, required) in REQUIRED.iter().filter(|(name, _)| *name == kind) {
        for name in required.iter().filter(|name| is_empty(&source[**name])) {
            causes.push(field::required(&field::child(at, name), ""));
        }
    }
    match kind {
        "gitRepo" => {
            validate_descending_path(text(source, "directory"), &field::child(at, "directory"), causes);
        }
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            validate_range(source, "partition", at, PARTITION, causes);
        }
        "nfs" => {
            let path = text(source, "path");
            if !path.starts_with('/') {
                let at = field::child(at, "path");
                causes.push(field::invalid(&at, &path.into(), "must be an absolute path"));
            }
        }
        "iscsi" => validate_iscsi(source, at, is_persistent, causes),
        "cinder" => validate_secret(source, at, is_persistent, causes),
        "flocker" => validate_flocker(source, at, causes),
        "storageos" => validate_storage_os(source, at, is_persistent, causes),
        "fc" => validate_fibre_channel(source, at, causes),
        "flexVolume" => validate_flex_options(source, at, causes),
        "azureDisk" => validate_azure_disk(source, at, causes),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_str().is_none_or(str::is_empty) && items(value).is_empty()
}

fn validate_range(source: &Value, name: &str, at: &str, detail: &str, causes: &mut Causes) {
    if source[name].as_i64().is_some_and(|number| !(0..=255).contains(&number)) {
        causes.push(field::invalid(&field::child(at, name), &source[name], detail));
    }
}

/// Checks that a reference to a Secret has a name, and that of a PersistentVolume a namespace.
fn validate_secret(source: &Value, at: &str, is_persistent: bool, causes: &mut Causes) {
    let secret = &source["secretRef"];
    let members: &[&str] = if is_persistent { &["name", "namespace"] } else { &["name"] };
    for name in members.iter().filter(|name| secret.is_object() && text(secret, name).is_empty()) {
        causes.push(field::required(&field::child(&field::child(at, "secretRef"), name), ""));
    }
}

fn validate_iscsi(source: &Value, at: &str, is_persistent: bool, causes: &mut Causes) {
    let mut check = |name: &str, shown: &str, detail: &str| {
        let value = text(source, name);
        if value.is_empty() && name == "iqn" {
            return;
        }
        let path = field::child(at, shown);
        if !["iqn", "eui", "naa"].iter().any(|prefix| value.starts_with(prefix)) {
            causes.push(field::invalid(&path, &value.into(), detail));
        } else if !is_iscsi_name(value) {
            causes.push(field::invalid(&path, &value.into(), "must be valid format"));
        }
    };
    let detail = match is_persistent {
        true => "must be valid format",
        false => "must be valid format starting with iqn, eui, or naa",
    };
    check("iqn", "iqn", detail);
    if source["initiatorName"].is_string() {
        check("initiatorName", "initiatorname", detail);
    }
    validate_range(source, "lun", at, UNIT, causes);
    let authenticates = ["chapAuthDiscovery", "chapAuthSession"].iter().any(|name| source[*name] == true);
    if authenticates && !has(source, "secretRef") {
        causes.push(field::required(&field::child(at, "secretRef"), ""));
    }
}

/// Whether a text has the syntax of an iSCSI name: `iqn.2001-04.com.example:disk`, `eui.` or `naa.` and digits.
fn is_iscsi_name(name: &str) -> bool {
    let is_alphanumeric = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match name.get(..3) {
        Some("eui") => name.len() == 20 && name.get(4..).is_some_and(is_alphanumeric),
        Some("naa") => name.len() == 36 && name.get(4..).is_some_and(is_alphanumeric),
        _ => {
            let Some((date, rest)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')) else {
                return false;
            };
            let is_date = date.len() == 7
                && date.bytes().enumerate().all(|(index, byte)| match index {
                    4 => byte == b'-',
                    _ => byte.is_ascii_digit(),
                });
            let Some((authority, suffix)) = rest.split_once(':') else { return false };
            let is_authority = !authority.is_empty()
                && authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
            let is_suffix = !suffix.is_empty()
                && !suffix.chars().any(|c| ",;*&$|".contains(c) || c.is_ascii_whitespace());
            is_date && is_authority && is_suffix
        }
    }
}

fn validate_flocker(source: &Value, at: &str, causes: &mut Causes) {
    let name = text(source, "datasetName");
    match (name.is_empty(), text(source, "datasetUUID").is_empty()) {
        (true, true) => {
            causes.push(field::required(at, "one of datasetName and datasetUUID is required"));
        }
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            causes.push(field::invalid(at, &"resource".into(), detail));
        }
        _ => {}
    }
    if name.contains('/') {
        causes.push(field::invalid(&field::child(at, "datasetName"), &name.into(), "must not contain '/'"));
    }
}

fn validate_storage_os(source: &Value, at: &str, is_persistent: bool, causes: &mut Causes) {
    for name in ["volumeName", "volumeNamespace"] {
        let (value, path) = (text(source, name), field::child(at, name));
        if !value.is_empty() {
            push_invalid(causes, &path, value, names::label_errors(value));
        } else if name == "volumeName" {
            causes.push(field::required(&path, ""));
        }
    }
    validate_secret(source, at, is_persistent, causes);
}

fn validate_fibre_channel(source: &Value, at: &str, causes: &mut Causes) {
    let path = field::child(at, "targetWWNs");
    let (targets, ids) = (items(&source["targetWWNs"]), items(&source["wwids"]));
    match (targets.is_empty(), ids.is_empty()) {
        (true, true) => {
            causes.push(field::required(&path, "must specify either targetWWNs or wwids, but not both"));
        }
        (false, false) => {
            let detail = "targetWWNs and wwids can not be specified simultaneously";
            causes.push(field::invalid(&path, &source["targetWWNs"], detail));
        }
        _ => {}
    }
    if !targets.is_empty() {
        if has(source, "lun") {
            validate_range(source, "lun", at, UNIT, causes);
        } else {
            let detail = "lun is required if targetWWNs is specified";
            causes.push(field::required(&field::child(at, "lun"), detail));
        }
    }
}

/// Checks that no option is in the domain of Kubernetes.
fn validate_flex_options(source: &Value, at: &str, causes: &mut Causes) {
    for (name, _) in entries(source.get("options")) {
        let domain = name.split('/').next().unwrap_or_default().to_lowercase();
        let is_reserved = ["kubernetes.io", "k8s.io"].iter().any(|reserved| {
            domain.strip_suffix(reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        });
        if is_reserved {
            let path = field::key(&field::child(at, "options"), name);
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            causes.push(field::invalid(&path, &name.as_str().into(), detail));
        }
    }
}

fn validate_azure_disk(source: &Value, at: &str, causes: &mut Causes) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    validate_one_of(source, "cachingMode", at, &["None", "ReadOnly", "ReadWrite"], causes);
    validate_one_of(source, "kind", at, &["Dedicated", "Managed", "Shared"], causes);
    let Some(kind) = source["kind"].as_str() else { return };
    let (prefix, form) = if kind == "Managed" { ("/subscriptions/", MANAGED) } else { ("https://", BLOB) };
    let disk = text(source, "diskURI");
    if !disk.starts_with(prefix) {
        causes.push(field::not_supported(&field::child(at, "diskURI"), &disk.into(), &[form]));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(kind: &str, source: &Value) -> Vec<String> {
        let mut causes = Causes::default();
        validate(kind, source, &field::child("v", kind), false, &mut causes);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn volumes_name_what_they_need() {
        assert_eq!(problems("nfs", &json!({"server": "s", "path": "/a"})), [""; 0]);
        assert_eq!(
            problems("nfs", &json!({})),
            [
                "v.nfs.server: Required value",
                "v.nfs.path: Required value",
                "v.nfs.path: Invalid value: \"\": must be an absolute path"
            ]
        );
        assert_eq!(
            problems("gcePersistentDisk", &json!({"partition": 300})),
            [
                "v.persistentDisk.pdName: Required value",
                "v.persistentDisk.partition: Invalid value: 300: must be between 1 and 255, inclusive"
            ]
        );
        assert_eq!(problems("rbd", &json!({"monitors": ["a"]})), ["v.rbd.image: Required value"]);
        assert_eq!(
            problems("flexVolume", &json!({"driver": "d", "options": {"a.K8s.io/x": "y", "ak8s.io": "z"}})),
            [
                "v.flexVolume.options[a.K8s.io/x]: Invalid value: \"a.K8s.io/x\": kubernetes.io and k8s.io namespaces are reserved"
            ]
        );
    }

    #[test]
    fn iscsi_names_have_one_of_three_forms() {
        for name in ["iqn.2001-04.com.example:storage:disk2", "eui.0123456789abcdef"] {
            assert!(is_iscsi_name(name), "{name}");
        }
        for name in [
            "iqn.2001-4.com.example:d",
            "iqn.2001-04.com.example",
            "eui.1",
            "euié0123456789abcde",
            "iqn.2001-04.com.ex:a b",
        ] {
            assert!(!is_iscsi_name(name), "{name}");
        }
    }
}
