//! Events and Leases.

use serde_json::{Map, Value, json};

use super::{has, push_invalid, text, validate_non_negative};
use crate::schema::{field, names};
use crate::status::Causes;

/// Limits in bytes.
const MAX_IDENTIFIER: usize = 128;
const MAX_MESSAGE: usize = 1024;

const NEEDS_TO_BE_UNSET: &str = "needs to be unset";

/// Checks an Event of core/v1.
pub(super) fn validate_event(event: &Value, causes: &mut Causes) {
    validate_common(event, "reportingComponent", causes);
}

/// Checks an Event of events.k8s.io/v1, which has more rules. As in Kubernetes, causes have the names of the fields in core/v1, except for
/// `reportingController`.
pub(super) fn validate_events_v1(event: &Value, old: Option<&Value>, causes: &mut Causes) {
    let event = in_core_form(event);
    validate_common(&event, "reportingController", causes);
    match old {
        None => validate_creation(&event, causes),
        Some(old) => validate_update(&event, &in_core_form(old), causes),
    }
}

/// Returns an Event with the names that its fields have in core/v1.
fn in_core_form(event: &Value) -> Value {
    const RENAMED: [(&str, &str); 7] = [
        ("regarding", "involvedObject"),
        ("note", "message"),
        ("reportingController", "reportingComponent"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ];
    let mut event = event.clone();
    if let Some(object) = event.as_object_mut() {
        for (name, core) in RENAMED {
            if let Some(value) = object.remove(name) {
                object.insert(core.to_owned(), value);
            }
        }
    }
    event
}

/// Checks the rules of all versions. Those of an Event with an `eventTime` are stricter.
fn validate_common(event: &Value, controller_field: &str, causes: &mut Causes) {
    let own = event.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let involved = event.get("involvedObject").map_or("", |object| text(object, "namespace"));
    let has_time = has(event, "eventTime");
    let fits = match (has_time, involved) {
        (false, "") => matches!(own, "" | "default"),
        (false, _) => own == involved,
        (true, "") => matches!(own, "default" | "kube-system"),
        (true, _) => true,
    };
    if !fits {
        let detail = "does not match event.namespace";
        causes.push(field::invalid("involvedObject.namespace", &Value::from(involved), detail));
    }
    if !has_time {
        return;
    }
    let controller = text(event, "reportingComponent");
    if controller.is_empty() {
        causes.push(field::required(controller_field, ""));
    }
    push_invalid(causes, controller_field, controller, names::qualified_name_errors(controller));
    for name in ["reportingInstance", "action", "reason"] {
        if text(event, name).is_empty() {
            causes.push(field::required(name, ""));
        }
        validate_length(event, name, MAX_IDENTIFIER, causes);
    }
    validate_length(event, "message", MAX_MESSAGE, causes);
}

fn validate_length(event: &Value, name: &str, max: usize, causes: &mut Causes) {
    if text(event, name).len() > max {
        causes.push(field::invalid(name, &Value::from(""), &format!("can have at most {max} characters")));
    }
}

fn validate_creation(event: &Value, causes: &mut Causes) {
    let name = event.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    push_invalid(causes, "metadata.name", name, names::subdomain_errors(name));
    validate_series(event, causes);
    if !has(event, "eventTime") {
        causes.push(field::required("eventTime", ""));
    }
    let event_type = text(event, "type");
    if !matches!(event_type, "Normal" | "Warning") {
        causes.push(field::invalid("type", &Value::from(""), &format!("has invalid value: {event_type}")));
    }
    let mut refuse = |name: &str| causes.push(field::invalid(name, &Value::from(""), NEEDS_TO_BE_UNSET));
    for name in ["firstTimestamp", "lastTimestamp"] {
        if has(event, name) {
            refuse(name);
        }
    }
    if count(event) != 0 {
        refuse("count");
    }
    if ["component", "host"].iter().any(|name| !text(&event["source"], name).is_empty()) {
        refuse("source");
    }
}

fn validate_series(event: &Value, causes: &mut Causes) {
    let Some(series) = event.get("series").filter(|series| !series.is_null()) else { return };
    if count(series) < 2 {
        causes.push(field::invalid("series.count", &Value::from(""), "should be at least 2"));
    }
    if !has(series, "lastObservedTime") {
        causes.push(field::required("series.lastObservedTime", ""));
    }
}

/// Checks that nothing but the series and the metadata changes.
fn validate_update(event: &Value, old: &Value, causes: &mut Causes) {
    if event.get("series") != old.get("series") {
        validate_series(event, causes);
    }
    let mut compare = |name: &str, normal: fn(&Value) -> Value| {
        let [new, old] = [event, old].map(|event| normal(event.get(name).unwrap_or(&Value::Null)));
        if new != old {
            causes.push(field::invalid(name, &new, "field is immutable"));
        }
    };
    compare("involvedObject", reference);
    // Kubernetes compares the reason twice.
    compare("reason", string);
    compare("message", string);
    compare("source", source);
    compare("firstTimestamp", Value::clone);
    compare("lastTimestamp", Value::clone);
    compare("count", |count| json!(count.as_i64().unwrap_or(0)));
    compare("reason", string);
    compare("type", string);
    if microseconds(&event["eventTime"]) != microseconds(&old["eventTime"]) {
        compare("eventTime", Value::clone);
    }
    compare("action", string);
    compare("related", |related| if related.is_null() { Value::Null } else { reference(related) });
    let [new, before] = [event, old].map(|event| text(event, "reportingComponent"));
    if new != before {
        causes.push(field::invalid("reportingController", &Value::from(new), "field is immutable"));
    }
    let [new, before] = [event, old].map(|event| text(event, "reportingInstance"));
    if new != before {
        causes.push(field::invalid("reportingInstance", &Value::from(new), "field is immutable"));
    }
}

fn count(object: &Value) -> i64 {
    object["count"].as_i64().unwrap_or(0)
}

/// Returns the text, which is empty if it is absent.
fn string(value: &Value) -> Value {
    json!(value.as_str().unwrap_or_default())
}

/// Returns a reference to an object as Go prints that of its internal type.
fn reference(value: &Value) -> Value {
    go_struct(
        value,
        &[
            ("Kind", "kind"),
            ("Namespace", "namespace"),
            ("Name", "name"),
            ("UID", "uid"),
            ("APIVersion", "apiVersion"),
            ("ResourceVersion", "resourceVersion"),
            ("FieldPath", "fieldPath"),
        ],
    )
}

fn source(value: &Value) -> Value {
    go_struct(value, &[("Component", "component"), ("Host", "host")])
}

fn go_struct(value: &Value, fields: &[(&str, &str)]) -> Value {
    let fields = fields.iter().map(|(go, name)| ((*go).to_owned(), json!(text(value, name))));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// Returns a time in UTC without what is more precise than a microsecond.
fn microseconds(time: &Value) -> String {
    let text = time.as_str().unwrap_or_default().trim_end_matches('Z');
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{seconds}.{fraction:0<6.6}")
}

pub(super) fn validate_lease(spec: &Value, causes: &mut Causes) {
    let duration = &spec["leaseDurationSeconds"];
    if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
        causes.push(field::invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"));
    }
    validate_non_negative(spec, "leaseTransitions", "spec", causes);
}
