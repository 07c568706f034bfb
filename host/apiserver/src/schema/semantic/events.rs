//! Events and Leases.

use serde_json::Value;

use super::{text, validate_non_negative};
use crate::schema::field;
use crate::status::Cause;

/// Checks that an Event is in the namespace of the object it is about, or in `default` if that has no namespace.
pub(super) fn validate_event(event: &Value, causes: &mut Vec<Cause>) {
    let own = event.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let involved = event.get("involvedObject").map_or("", |object| text(object, "namespace"));
    let fits = if involved.is_empty() { matches!(own, "" | "default") } else { own == involved };
    if !fits {
        let detail = "does not match event.namespace";
        causes.push(field::invalid("involvedObject.namespace", &Value::from(involved), detail));
    }
}

pub(super) fn validate_lease(spec: &Value, causes: &mut Vec<Cause>) {
    let duration = &spec["leaseDurationSeconds"];
    if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
        causes.push(field::invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"));
    }
    validate_non_negative(spec, "leaseTransitions", "spec", causes);
}
