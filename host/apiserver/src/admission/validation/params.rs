//! Validation of what policies and bindings say about parameters.

use serde_json::Value;

use super::shared::Checker;
use crate::schema::{field, path_segment_errors, service_name_errors, subdomain_errors};

/// Checks the `paramKind` of a policy.
pub(super) fn validate_kind(checker: &mut Checker, kind: &Value) {
    const API_VERSION: &str = "spec.paramKind.apiVersion";
    let api_version = kind["apiVersion"].as_str().unwrap_or_default();
    if api_version.is_empty() {
        checker.add(field::required(API_VERSION, ""));
    } else if let Some((group, version)) = parse_api_version(api_version) {
        if !group.is_empty() {
            checker.name_joined(API_VERSION, group, ("", subdomain_errors));
        }
        if version.is_empty() {
            checker.add(field::invalid(API_VERSION, &kind["apiVersion"], "version must be specified"));
        } else {
            checker.name_joined(API_VERSION, version, ("", service_name_errors));
        }
    } else {
        let detail = format!("unexpected GroupVersion string: {api_version}");
        checker.add(field::invalid(API_VERSION, &kind["apiVersion"], &detail));
    }
    let name = kind["kind"].as_str().unwrap_or_default();
    if name.is_empty() {
        checker.add(field::required("spec.paramKind.kind", ""));
    } else {
        let errors = |name: &str| service_name_errors(&name.to_lowercase());
        let introduction = "may have mixed case, but should otherwise match: ";
        checker.name_joined("spec.paramKind.kind", name, (introduction, errors));
    }
}

/// Returns the group and the version; `None` if there are more parts.
fn parse_api_version(text: &str) -> Option<(&str, &str)> {
    if text == "/" {
        return Some(("", ""));
    }
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    (!version.contains('/')).then_some((group, version))
}

/// Checks the `paramRef` of a binding.
pub(super) fn validate_reference(checker: &mut Checker, reference: &Value) {
    let has_name = reference["name"].as_str().is_some_and(|name| !name.is_empty());
    let has_selector = reference["selector"].is_object();
    if has_name {
        checker.name("spec.paramRef.name", &reference["name"], path_segment_errors);
        if has_selector {
            checker.add(field::forbidden("spec.paramRef.name", "name and selector are mutually exclusive"));
        }
    }
    checker.selector("spec.paramRef.selector", &reference["selector"]);
    if has_name && has_selector {
        checker.add(field::forbidden("spec.paramRef.selector", "name and selector are mutually exclusive"));
    }
    if !has_name && !has_selector {
        checker.add(field::required("spec.paramRef", "one of name or selector must be specified"));
    }
    let action = "spec.paramRef.parameterNotFoundAction";
    if checker.required(action, &reference["parameterNotFoundAction"], "") {
        checker.one_of(action, &reference["parameterNotFoundAction"], &["Deny", "Allow"]);
    }
}
