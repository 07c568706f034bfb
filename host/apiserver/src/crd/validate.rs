//! Validation of CRDs, after `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.

use pilothouse_model::names::is_dns_1035_label;
use serde_json::Value;

use super::{approval, conversion};
use crate::meta;
use crate::schema::{MAX_PATTERNS_SIZE, MAX_RULES_LENGTH, Schema, field, rules_length};
use crate::status::Cause;
use crate::table::Columns;

/// Returns what is wrong with a CRD beyond what the schema of CRDs expresses, in the order of Kubernetes. `old` is the stored CRD on updates.
pub(crate) fn validate(crd: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let name = meta::text(crd, "name");
    if old.is_none() && !name.is_empty() && name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(field::invalid("metadata.name", &Value::from(name), detail));
    }
    if group.is_empty() {
        causes.push(field::required("spec.group", ""));
    } else if group.split('.').count() < 2 {
        let detail = "should be a domain with at least one dot";
        causes.push(field::invalid("spec.group", &spec["group"], detail));
    }
    match spec["scope"].as_str().unwrap_or_default() {
        "Namespaced" | "Cluster" => {}
        "" => causes.push(field::required("spec.scope", "")),
        _ => causes.push(field::not_supported("spec.scope", &spec["scope"], &["Cluster", "Namespaced"])),
    }
    validate_versions(spec, &mut causes);
    conversion::validate(crd, old, &mut causes);
    if crd["status"]["storedVersions"].as_array().is_none_or(Vec::is_empty) {
        let detail = "must have at least one stored version";
        causes.push(field::invalid("status.storedVersions", &Value::Null, detail));
    }
    approval::validate(crd, old, &mut causes);
    if let Some(old) = old {
        validate_update(crd, old, &mut causes);
    }
    causes
}

fn validate_names(spec: &Value, causes: &mut Vec<Cause>) {
    const REQUIRED: [&str; 4] = ["plural", "singular", "kind", "listKind"];
    let names = &spec["names"];
    let text = |property: &str| names[property].as_str().unwrap_or_default();
    for property in REQUIRED.into_iter().filter(|property| text(property).is_empty()) {
        causes.push(field::required(&format!("spec.names.{property}"), ""));
    }
    for property in REQUIRED.into_iter().filter(|property| !text(property).is_empty()) {
        let name = text(property);
        let is_kind = property == "kind" || property == "listKind";
        let label = if is_kind { name.to_lowercase() } else { name.to_owned() };
        if !is_dns_1035_label(&label) {
            causes.push(field::invalid(&format!("spec.names.{property}"), &names[property], DNS_1035));
        }
    }
    let mut validate_list = |list: &str| {
        for (index, name) in names[list].as_array().into_iter().flatten().enumerate() {
            if !is_dns_1035_label(name.as_str().unwrap_or_default()) {
                causes.push(field::invalid(&format!("spec.names.{list}[{index}]"), name, DNS_1035));
            }
        }
    };
    validate_list("shortNames");
    validate_list("categories");
    if !text("kind").is_empty() && names["kind"] == names["listKind"] {
        let detail = "kind and listKind may not be the same";
        causes.push(field::invalid("spec.names.listKind", &names["listKind"], detail));
    }
}

const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                        alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                        regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Checks the versions and the names. What all versions have in common is one field of Kubernetes' internal type, and is reported under its path
/// after the names.
fn validate_versions(spec: &Value, causes: &mut Vec<Cause>) {
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let length: usize = versions.iter().map(rules_length).sum();
    if length > MAX_RULES_LENGTH {
        let detail = format!(
            "x-kubernetes-validations have {length} bytes in all versions together, more than {MAX_RULES_LENGTH}"
        );
        causes.push(field::forbidden("spec.versions", &detail));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        if version["schema"]["openAPIV3Schema"].is_null() {
            causes.push(field::required(&format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
        }
    }
    let is_common = |part: &str| versions.iter().all(|version| version[part] == versions[0][part]);
    let parts = ["schema", "subresources", "additionalPrinterColumns"];
    let (common, separate): (Vec<&str>, Vec<&str>) = parts.into_iter().partition(|part| is_common(part));
    let mut patterns = 0;
    let mut names: Vec<&str> = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        let name = version["name"].as_str().unwrap_or_default();
        if !is_dns_1035_label(name) {
            causes.push(field::invalid(&format!("{at}.name"), &version["name"], DNS_1035));
        }
        names.push(name);
        for part in &separate {
            if patterns > MAX_PATTERNS_SIZE {
                break;
            }
            patterns += validate_part(version, part, &format!("{at}.{part}"), causes);
        }
    }
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        let detail = "must contain unique version names";
        causes.push(field::invalid("spec.versions", &spec["versions"], detail));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        causes.push(field::invalid("spec.versions", &spec["versions"], detail));
    }
    validate_names(spec, causes);
    if let Some(first) = versions.first() {
        for part in common {
            let at = if part == "schema" { "validation" } else { part };
            patterns += versions.len() * validate_part(first, part, &format!("spec.{at}"), causes);
        }
    }
    if patterns > MAX_PATTERNS_SIZE {
        let detail = format!(
            "the patterns of all versions are too large together: compiled, they take more than \
             {MAX_PATTERNS_SIZE} bytes"
        );
        causes.push(field::forbidden("spec.versions", &detail));
    }
}

/// Checks a part of a version, whose path is `at`. Returns the size of its compiled patterns.
fn validate_part(version: &Value, part: &str, at: &str, causes: &mut Vec<Cause>) -> usize {
    match part {
        "schema" => {
            let schema = &version["schema"]["openAPIV3Schema"];
            if schema.is_null() {
                return 0;
            }
            match Schema::from_crd_at(schema, &format!("{at}.openAPIV3Schema")) {
                Ok(schema) => return schema.patterns_size(),
                Err(errors) => causes.extend(errors),
            }
        }
        "subresources" => validate_scale(version, at, causes),
        _ => {
            if let Err(problem) = Columns::custom(&version["additionalPrinterColumns"]) {
                causes.push(field::invalid(at, &version["additionalPrinterColumns"], &problem));
            }
        }
    }
    0
}

fn validate_scale(version: &Value, at: &str, causes: &mut Vec<Cause>) {
    let Some(scale) = version["subresources"].get("scale").filter(|scale| !scale.is_null()) else { return };
    for (name, prefix) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let path = format!("{at}.scale.{name}");
        let value = scale[name].as_str().unwrap_or_default();
        if value.is_empty() {
            causes.push(field::required(&path, ""));
        } else if !value.starts_with(prefix) {
            let detail = format!("should be a json path under {}", prefix.trim_end_matches('.'));
            causes.push(field::invalid(&path, &scale[name], &detail));
        }
    }
    let selector = scale["labelSelectorPath"].as_str().unwrap_or_default();
    if !selector.is_empty() && !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        let detail = "should be a json path under either .status or .spec";
        let path = format!("{at}.scale.labelSelectorPath");
        causes.push(field::invalid(&path, &scale["labelSelectorPath"], detail));
    }
}

/// Checks that immutable fields are unchanged and that every stored version is still listed.
fn validate_update(crd: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let (new_spec, old_spec) = (&crd["spec"], &old["spec"]);
    for pointer in ["/scope", "/names/kind", "/group", "/names/plural"] {
        let text =
            |spec: &Value| spec.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (value, previous) = (text(new_spec), text(old_spec));
        if value != previous {
            let path = format!("spec{}", pointer.replace('/', "."));
            causes.push(field::invalid(&path, &Value::from(value), "field is immutable"));
        }
    }
    let stored = crd["status"]["storedVersions"].as_array().into_iter().flatten();
    for (index, version) in stored.enumerate() {
        let mut listed = new_spec["versions"].as_array().into_iter().flatten();
        if !listed.any(|candidate| candidate["name"] == *version) {
            let path = format!("status.storedVersions[{index}]");
            let name = version.as_str().unwrap_or_default();
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a \
                 storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            causes.push(field::invalid(&path, version, &detail));
        }
    }
}
