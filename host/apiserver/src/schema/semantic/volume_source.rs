//! The sources of a Pod's volumes.

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::{claim, csi, environment, has, items, names, push_invalid, quantity, text, volume_vendors};
use crate::schema::field;
use crate::status::Causes;

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Checks the source `kind` of a Pod's volume at `at`.
pub(super) fn validate(kind: &str, source: &Value, at: &str, causes: &mut Causes) {
    match kind {
        "emptyDir" => {
            if quantity::nanos(&source["sizeLimit"]).is_some_and(|nanos| nanos < 0) {
                let detail = "SizeLimit field must be a valid resource quantity";
                causes.push(field::forbidden(&field::child(at, "sizeLimit"), detail));
            }
        }
        "hostPath" => validate_host_path(source, at, causes),
        "secret" | "configMap" => {
            validate_named(source, if kind == "secret" { "secretName" } else { "name" }, at, causes);
            validate_mode(source, "defaultMode", at, causes);
            validate_items(source, at, causes);
        }
        "downwardAPI" => {
            validate_mode(source, "defaultMode", at, causes);
            validate_fields(source, at, causes);
        }
        "projected" => {
            validate_mode(source, "defaultMode", at, causes);
            validate_projected(source, at, causes);
        }
        "persistentVolumeClaim" => validate_named(source, "claimName", at, causes),
        "csi" => validate_csi(source, at, causes),
        "image" => validate_named(source, "reference", at, causes),
        "ephemeral" => {
            let path = field::child(at, "volumeClaimTemplate");
            if has(source, "volumeClaimTemplate") {
                claim::validate_template(&source["volumeClaimTemplate"], &path, causes);
            } else {
                causes.push(field::required(&path, ""));
            }
        }
        _ => volume_vendors::validate(kind, source, at, false, causes),
    }
}

/// Checks that a source has the name of what it mounts.
fn validate_named(source: &Value, name: &str, at: &str, causes: &mut Causes) {
    if text(source, name).is_empty() {
        causes.push(field::required(&field::child(at, name), ""));
    }
}

fn validate_csi(source: &Value, at: &str, causes: &mut Causes) {
    csi::validate_driver_name(text(source, "driver"), &field::child(at, "driver"), causes);
    let secret = &source["nodePublishSecretRef"];
    if secret.is_object() {
        let name = text(secret, "name");
        if name.is_empty() {
            causes.push(field::required(&field::child(at, "nodePublishSecretRef.name"), ""));
        } else {
            // As in Kubernetes, the path does not name the reference.
            push_invalid(causes, &field::child(at, "name"), name, names::subdomain_errors(name));
        }
    }
}

fn validate_mode(object: &Value, name: &str, at: &str, causes: &mut Causes) {
    if object[name].as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        causes.push(field::invalid(&field::child(at, name), &object[name], MODE));
    }
}

/// Checks the files that the keys of an object become.
fn validate_items(files: &Value, at: &str, causes: &mut Causes) {
    for (index, item) in items(&files["items"]).iter().enumerate() {
        let at = field::index(&field::child(at, "items"), index);
        if text(item, "key").is_empty() {
            causes.push(field::required(&field::child(&at, "key"), ""));
        }
        validate_path(text(item, "path"), &field::child(&at, "path"), causes);
        validate_mode(item, "mode", &at, causes);
    }
}

/// Checks the files that the fields of the Pod become. As in Kubernetes, the paths of the causes do not say which one it is.
fn validate_fields(files: &Value, at: &str, causes: &mut Causes) {
    for item in items(&files["items"]) {
        validate_path(text(item, "path"), &field::child(at, "path"), causes);
        let kinds = ["fieldRef", "resourceFieldRef"];
        match kinds.iter().filter(|kind| has(item, kind)).count() {
            0 => causes.push(field::required(at, "one of fieldRef and resourceFieldRef is required")),
            1 => {}
            _ => {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                causes.push(field::invalid_shown(at, "\"resource\"", detail));
            }
        }
        if has(item, "fieldRef") {
            environment::validate_file_field(&item["fieldRef"], &field::child(at, "fieldRef"), causes);
        } else if has(item, "resourceFieldRef") {
            let at = field::child(at, "resourceFieldRef");
            environment::validate_resource(&item["resourceFieldRef"], &at, true, causes);
        }
        validate_mode(item, "mode", at, causes);
    }
}

/// Checks the path of a file in a volume.
pub(super) fn validate_path(file: &str, path: &str, causes: &mut Causes) {
    if file.is_empty() {
        causes.push(field::required(path, ""));
        return;
    }
    validate_descending_path(file, path, causes);
    if file.starts_with("..") && !file.starts_with("../") {
        causes.push(field::invalid(path, &file.into(), "must not start with '..'"));
    }
}

/// Checks a relative path that does not leave its directory. An empty one is not checked.
pub(super) fn validate_descending_path(file: &str, path: &str, causes: &mut Causes) {
    if file.starts_with('/') {
        causes.push(field::invalid(path, &file.into(), "must be a relative path"));
    }
    validate_no_backsteps(file, path, causes);
}

/// Checks that no part of a path is the parent directory.
fn validate_no_backsteps(file: &str, path: &str, causes: &mut Causes) {
    if file.split('/').any(|part| part == "..") {
        causes.push(field::invalid(path, &file.into(), "must not contain '..'"));
    }
}

/// Checks a disk of the Node.
pub(super) fn validate_local(source: &Value, at: &str, causes: &mut Causes) {
    let (path, file) = (field::child(at, "path"), text(source, "path"));
    if file.is_empty() {
        causes.push(field::required(&path, ""));
    }
    validate_no_backsteps(file, &path, causes);
}

/// Checks a directory or file of the Node.
pub(super) fn validate_host_path(source: &Value, at: &str, causes: &mut Causes) {
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let at_path = field::child(at, "path");
    if text(source, "path").is_empty() {
        causes.push(field::required(&at_path, ""));
        return;
    }
    validate_no_backsteps(text(source, "path"), &at_path, causes);
    if source["type"].as_str().is_some_and(|kind| !TYPES.contains(&kind)) {
        causes.push(field::not_supported(&field::child(at, "type"), &source["type"], &TYPES));
    }
}

/// Checks the sources of a projected volume, whose files have different paths.
fn validate_projected(projected: &Value, at: &str, causes: &mut Causes) {
    const KINDS: [&str; 6] =
        ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
    let mut paths = HashSet::default();
    for (index, source) in items(&projected["sources"]).iter().enumerate() {
        let at_source = field::index(&field::child(at, "sources"), index);
        for kind in ["secret", "configMap", "downwardAPI"].into_iter().filter(|kind| has(source, kind)) {
            let (files, at_files) = (&source[kind], field::child(&at_source, kind));
            if kind == "downwardAPI" {
                validate_fields(files, &at_files, causes);
            } else {
                if text(files, "name").is_empty() {
                    causes.push(field::required(&field::child(&at_files, "name"), ""));
                }
                validate_items(files, &at_files, causes);
            }
            for path in items(&files["items"]).iter().map(|item| text(item, "path")) {
                if !path.is_empty() && !paths.insert(path) {
                    let value = if kind == "downwardAPI" { path } else { text(files, "name") };
                    causes.push(field::invalid(at, &value.into(), "conflicting duplicate paths"));
                }
            }
        }
        if has(source, "serviceAccountToken") {
            validate_token(&source["serviceAccountToken"], at, &at_source, causes);
        }
        if KINDS.iter().filter(|kind| has(source, kind)).count() > 1 {
            let detail = "may not specify more than 1 volume type per source";
            causes.push(field::forbidden(&at_source, detail));
        }
    }
}

/// Checks a projected token. As in Kubernetes, the cause of its path does not say which source it is.
fn validate_token(token: &Value, at: &str, at_source: &str, causes: &mut Causes) {
    let seconds = token["expirationSeconds"].as_i64().unwrap_or(3600);
    let detail = if seconds < 600 {
        Some("may not specify a duration less than 10 minutes")
    } else if seconds > 1 << 32 {
        Some("may not specify a duration larger than 2^32 seconds")
    } else {
        None
    };
    if let Some(detail) = detail {
        let path = field::child(&field::child(at_source, "serviceAccountToken"), "expirationSeconds");
        causes.push(field::invalid(&path, &seconds.into(), detail));
    }
    validate_path(text(token, "path"), &field::child(at, "path"), causes);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(volume: &Value) -> Vec<String> {
        let mut causes = Causes::default();
        for (kind, source) in volume.as_object().into_iter().flatten() {
            validate(kind, source, &field::child("v", kind), &mut causes);
        }
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn host_paths_are_not_empty_and_have_a_known_type() {
        assert_eq!(problems(&json!({"hostPath": {"path": "/a", "type": "Directory"}})), [""; 0]);
        assert_eq!(problems(&json!({"hostPath": {"path": ""}})), ["v.hostPath.path: Required value"]);
        let found = problems(&json!({"hostPath": {"path": "/a/../b", "type": "X"}}));
        assert_eq!(found[0], "v.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'");
        assert!(found[1].starts_with("v.hostPath.type: Unsupported value: \"X\": supported values: \"\", "));
    }

    #[test]
    fn each_projected_source_is_one_of_files_with_different_paths() {
        let file = |path: &str| json!({"name": "a", "items": [{"key": "k", "path": path}]});
        let sources = json!([
            {"serviceAccountToken": {"path": "t", "expirationSeconds": 5}},
            {"secret": file("x"), "configMap": file("x")},
            {"downwardAPI": {"items": [{"path": "..a/../b", "resourceFieldRef": {"resource": "limits.cpu", "divisor": "3"}}]}},
        ]);
        assert_eq!(
            problems(&json!({"projected": {"sources": sources}})),
            [
                "v.projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
                "v.projected: Invalid value: \"a\": conflicting duplicate paths",
                "v.projected.sources[1]: Forbidden: may not specify more than 1 volume type per source",
                "v.projected.sources[2].downwardAPI.path: Invalid value: \"..a/../b\": must not contain '..'",
                "v.projected.sources[2].downwardAPI.path: Invalid value: \"..a/../b\": must not start with '..'",
                "v.projected.sources[2].downwardAPI.resourceFieldRef.containerName: Required value",
                "v.projected.sources[2].downwardAPI.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
            ]
        );
    }
}
