//! The sources of a Pod's volumes.

use serde_json::Value;

use super::{environment, has, items, quantity, text};
use crate::schema::field;
use crate::status::Causes;

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Checks the source of the volume at `at`.
pub(super) fn validate(volume: &Value, at: &str, causes: &mut Causes) {
    let source = |name: &str| (&volume[name], field::child(at, name));
    let (empty, at_empty) = source("emptyDir");
    if quantity::nanos(&empty["sizeLimit"]).is_some_and(|nanos| nanos < 0) {
        let detail = "SizeLimit field must be a valid resource quantity";
        causes.push(field::forbidden(&field::child(&at_empty, "sizeLimit"), detail));
    }
    for (kind, name) in [("secret", "secretName"), ("configMap", "name")] {
        let (files, at) = source(kind);
        if files.is_object() {
            if text(files, name).is_empty() {
                causes.push(field::required(&field::child(&at, name), ""));
            }
            validate_mode(files, "defaultMode", &at, causes);
            validate_items(files, &at, causes);
        }
    }
    let (files, at_files) = source("downwardAPI");
    validate_mode(files, "defaultMode", &at_files, causes);
    validate_fields(files, &at_files, causes);
    let (projected, at_projected) = source("projected");
    validate_mode(projected, "defaultMode", &at_projected, causes);
    let required = [("persistentVolumeClaim", "claimName"), ("csi", "driver"), ("image", "reference")];
    for (kind, name) in required {
        let (value, at) = source(kind);
        if value.is_object() && text(value, name).is_empty() {
            causes.push(field::required(&field::child(&at, name), ""));
        }
    }
    let (ephemeral, at_ephemeral) = source("ephemeral");
    if ephemeral.is_object() && !has(ephemeral, "volumeClaimTemplate") {
        causes.push(field::required(&field::child(&at_ephemeral, "volumeClaimTemplate"), ""));
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
    if file.starts_with('/') {
        causes.push(field::invalid(path, &file.into(), "must be a relative path"));
    }
    if file.split('/').any(|part| part == "..") {
        causes.push(field::invalid(path, &file.into(), "must not contain '..'"));
    } else if file.starts_with("..") {
        causes.push(field::invalid(path, &file.into(), "must not start with '..'"));
    }
}
