//! Validation of MutatingWebhookConfigurations and ValidatingWebhookConfigurations.

use std::collections::BTreeSet;

use http::Uri;
use pilothouse_model::names::{is_dns_1035_label, is_dns_subdomain};
use serde_json::Value;

use super::shared::{Checker, items};
use crate::admission::environment::Environment;
use crate::schema::{field, subdomain_errors};

/// The versions of `AdmissionReview` that this server knows.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn validate(checker: &mut Checker, configuration: &Value, is_mutating: bool) {
    let mut names = BTreeSet::new();
    for (index, webhook) in items(&configuration["webhooks"]).iter().enumerate() {
        let path = field::index("webhooks", index);
        let name = webhook["name"].as_str().unwrap_or_default();
        validate_name(checker, &field::child(&path, "name"), name);
        validate_webhook(checker, &path, webhook);
        if is_mutating {
            let path = field::child(&path, "reinvocationPolicy");
            checker.one_of(&path, &webhook["reinvocationPolicy"], &["IfNeeded", "Never"]);
        }
        if !name.is_empty() && !names.insert(name) {
            checker.add(field::duplicate(&field::child(&path, "name"), &webhook["name"]));
        }
    }
}

/// Checks that a name is fully qualified (`IsFullyQualifiedName`).
fn validate_name(checker: &mut Checker, path: &str, name: &str) {
    if name.is_empty() {
        checker.add(field::required(path, ""));
    } else if !is_dns_subdomain(name) {
        let detail = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                      must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                      '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        checker.add(field::invalid(path, &Value::from(name), detail));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        checker.add(field::invalid(path, &Value::from(name), detail));
    }
}

fn validate_webhook(checker: &mut Checker, path: &str, webhook: &Value) {
    let at = |name: &str| field::child(path, name);
    checker.rules(&at("rules"), &webhook["rules"]);
    checker.one_of(&at("failurePolicy"), &webhook["failurePolicy"], &["Fail", "Ignore"]);
    checker.one_of(&at("matchPolicy"), &webhook["matchPolicy"], &["Equivalent", "Exact"]);
    let side_effects = ["None", "NoneOnDryRun"];
    if webhook["sideEffects"].is_null() {
        checker.add(field::required(&at("sideEffects"), "must specify one of None, NoneOnDryRun"));
    }
    checker.one_of(&at("sideEffects"), &webhook["sideEffects"], &side_effects);
    let timeout = &webhook["timeoutSeconds"];
    if timeout.as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        checker.add(field::invalid(&at("timeoutSeconds"), timeout, detail));
    }
    checker.selector(&at("namespaceSelector"), &webhook["namespaceSelector"]);
    checker.selector(&at("objectSelector"), &webhook["objectSelector"]);
    validate_client_config(checker, &at("clientConfig"), &webhook["clientConfig"]);
    let environment = Environment::of_conditions(false);
    checker.conditions(&at("matchConditions"), &webhook["matchConditions"], &environment);
    validate_review_versions(checker, &at("admissionReviewVersions"), &webhook["admissionReviewVersions"]);
}

/// Checks a `clientConfig`.
fn validate_client_config(checker: &mut Checker, path: &str, config: &Value) {
    match (config["url"].as_str(), config["service"].is_object()) {
        (Some(url), false) => validate_url(checker, &field::child(path, "url"), url),
        (None, true) => validate_service(checker, &field::child(path, "service"), &config["service"]),
        _ => checker.add(field::required(path, "exactly one of url or service is required")),
    }
}

fn validate_url(checker: &mut Checker, path: &str, url: &str) {
    const FORM: &str = "; desired format: https://host[/path]";
    if url.starts_with(':') {
        let detail = format!("url must be a valid URL: parse {url:?}: missing protocol scheme{FORM}");
        return checker.add(field::required(path, &detail));
    }
    let parsed: Uri = match url.parse() {
        Ok(parsed) => parsed,
        Err(error) => {
            let detail = format!("url must be a valid URL: {error}{FORM}");
            return checker.add(field::required(path, &detail));
        }
    };
    let mut refuse =
        |value: &str, detail: &str| checker.add(field::invalid(path, &Value::from(value), detail));
    let scheme = parsed.scheme_str().unwrap_or_default();
    if scheme != "https" {
        refuse(scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if parsed.host().is_none_or(str::is_empty) {
        refuse("", &format!("host must be specified{FORM}"));
    }
    if let Some((user, _)) = parsed.authority().and_then(|authority| authority.as_str().rsplit_once('@')) {
        refuse(user, "user information is not permitted in the URL");
    }
    if let Some((_, fragment)) = url.split_once('#') {
        refuse(fragment, "fragments are not permitted in the URL");
    }
    if let Some(query) = parsed.query().filter(|query| !query.is_empty()) {
        refuse(query, "query parameters are not permitted in the URL");
    }
}

fn validate_service(checker: &mut Checker, path: &str, service: &Value) {
    // Kubernetes passes both texts in the wrong order, so the causes are about the other field.
    for (field, other) in [("name", "namespace"), ("namespace", "name")] {
        if service[other].as_str().is_none_or(str::is_empty) {
            checker.add(field::required(&field::child(path, field), ""));
        }
    }
    let port = &service["port"];
    if port.as_i64().is_some_and(|port| !(1..=65535).contains(&port)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        checker.add(field::invalid(&field::child(path, "port"), port, detail));
    }
    if let Some(url_path) = service["path"].as_str() {
        for detail in url_path_errors(url_path) {
            checker.add_with(|| field::invalid(&field::child(path, "path"), &service["path"], &detail));
        }
    }
}

/// Returns what is wrong with the path of a Service's webhook. One slash may end it.
fn url_path_errors(path: &str) -> Vec<String> {
    match path {
        "" | "/" => return Vec::new(),
        "//" => return vec!["segment[0] may not be empty".to_owned()],
        _ => {}
    }
    let mut errors = Vec::new();
    if !path.starts_with('/') {
        errors.push("must start with a '/'".to_owned());
    }
    // As in Kubernetes, the first character is taken for the slash.
    let mut rest = path.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            errors.push(format!("segment[{index}] may not be empty"));
        } else {
            errors.extend(subdomain_errors(segment).iter().map(|error| format!("segment[{index}]: {error}")));
        }
    }
    errors
}

fn validate_review_versions(checker: &mut Checker, path: &str, versions: &Value) {
    let entries = items(versions);
    if entries.is_empty() {
        checker.add(field::required(path, "must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in entries.iter().enumerate() {
        let text = version.as_str().unwrap_or_default();
        if !seen.insert(text) {
            checker.add(field::invalid(&field::index(path, index), version, "duplicate version"));
        } else if !is_dns_1035_label(text) {
            let detail = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                          alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
                          regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
            checker.add(field::invalid(&field::index(path, index), version, detail));
        }
    }
    if !REVIEW_VERSIONS.iter().any(|known| seen.contains(known)) {
        checker.add(field::invalid(path, versions, "must include at least one of v1, v1beta1"));
    }
}
