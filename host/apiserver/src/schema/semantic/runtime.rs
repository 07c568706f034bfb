//! RuntimeClasses.

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::{entries, items, metadata, names, pod, push_invalid, quantity, quota, text};
use crate::go;
use crate::schema::field;
use crate::status::Causes;

pub(super) fn validate_class(class: &Value, old: Option<&Value>, causes: &mut Causes) {
    let handler = text(class, "handler");
    if old.is_some_and(|old| text(old, "handler") != handler) {
        causes.push(field::invalid("handler", &handler.into(), "field is immutable"));
    }
    if old.is_some() {
        return;
    }
    push_invalid(causes, "handler", handler, names::label_errors(handler));
    for (name, amount) in entries(class["overhead"].get("podFixed")) {
        // As in Kubernetes, the path is that of the limits of a container.
        let path = field::key("overhead.limits", name);
        quota::validate_container_resource(name, &path, causes);
        if quantity::nanos(amount).is_some_and(|nanos| nanos < 0) {
            causes.push(field::invalid(&path, amount, super::NOT_NEGATIVE));
        }
    }
    let selector = class["scheduling"].get("nodeSelector");
    metadata::validate_labels(selector, "scheduling.nodeSelector", causes);
    validate_tolerations(&class["scheduling"]["tolerations"], causes);
}

/// Checks the tolerations that Pods of the class get, which must differ (`validateTolerations` of `pkg/apis/node/validation`).
fn validate_tolerations(tolerations: &Value, causes: &mut Causes) {
    const PATH: &str = "scheduling.tolerations";
    pod::validate_tolerations(tolerations, PATH, causes);
    let mut found = HashSet::default();
    for (index, toleration) in items(tolerations).iter().enumerate() {
        let key = ["key", "operator", "value", "effect"].map(|name| text(toleration, name));
        if !found.insert(key) {
            let shown = shown_toleration(key, &toleration["tolerationSeconds"]);
            causes.push(field::duplicate_shown(&field::index(PATH, index), &shown));
        }
    }
}

/// Returns a toleration as JSON with the members of the internal type, which Go prints.
fn shown_toleration([key, operator, value, effect]: [&str; 4], seconds: &Value) -> String {
    let [key, operator, value, effect] = [key, operator, value, effect].map(go::json_text);
    format!(
        r#"{{"Key":{key},"Operator":{operator},"Value":{value},"Effect":{effect},"TolerationSeconds":{seconds}}}"#
    )
}
