//! IngressClasses (`pkg/apis/networking/validation`).

use serde_json::Value;

use super::{has, names, network, push_invalid, text};
use crate::schema::field;
use crate::status::Causes;

/// The longest name of a controller in bytes.
const MAX_CONTROLLER: usize = 250;

pub(super) fn validate(spec: &Value, old: Option<&Value>, causes: &mut Causes) {
    const PATH: &str = "spec.controller";
    let controller = text(spec, "controller");
    if old.is_some_and(|old| text(&old["spec"], "controller") != controller) {
        causes.push(field::invalid(PATH, &controller.into(), "field is immutable"));
    }
    if controller.len() > MAX_CONTROLLER {
        causes.push(field::too_long(PATH, MAX_CONTROLLER as u64));
    }
    match controller.split_once('/') {
        _ if controller.is_empty() => causes.push(field::required(PATH, "")),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            push_invalid(causes, PATH, host, names::subdomain_errors(host));
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            causes.push(field::invalid(PATH, &Value::from(controller), detail));
        }
    }
    if has(spec, "parameters") {
        validate_parameters(&spec["parameters"], causes);
    }
}

/// Checks the reference to the parameters of a class.
fn validate_parameters(parameters: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.parameters";
    const NAMESPACE: &str = "spec.parameters.namespace";
    network::validate_typed_reference(parameters, PATH, causes);
    let namespace = parameters["namespace"].as_str();
    match parameters["scope"].as_str() {
        None => causes.push(field::required("spec.parameters.scope", "")),
        Some("Namespace") => match namespace {
            None => {
                causes.push(field::required(NAMESPACE, "`parameters.scope` is set to 'Namespace'"));
            }
            Some(namespace) => push_invalid(causes, NAMESPACE, namespace, names::label_errors(namespace)),
        },
        Some("Cluster") => {
            if namespace.is_some() {
                causes.push(field::forbidden(NAMESPACE, "`parameters.scope` is set to 'Cluster'"));
            }
        }
        Some(scope) => {
            let scopes = ["Cluster", "Namespace"];
            causes.push(field::not_supported("spec.parameters.scope", &scope.into(), &scopes));
        }
    }
}
