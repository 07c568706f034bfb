//! RuntimeClasses.

use serde_json::Value;

use super::{entries, metadata, names, push_invalid, quantity, quota, text};
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
}
