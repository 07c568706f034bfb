//! The status of ResourceClaims (`validateResourceClaimStatusUpdate` of `pkg/apis/resource/validation`).

use pilothouse_model::hash::HashSet;
use serde_json::Value;

use super::{
    csi, devices, has, items, names, pod_scheduling, push_invalid, resource_slice, text, validate_one_of,
};
use crate::schema::field;
use crate::status::Causes;

const MAX_CONSUMERS: usize = 256;
const MAX_RESULTS: usize = 32;
const RESERVED: &str = "status.reservedFor";
const ALLOCATION: &str = "status.allocation";

/// Checks the status of a claim that was stored as `old`.
pub(super) fn validate(new: &Value, old: &Value, causes: &mut Causes) {
    let (status, before) = (&new["status"], &old["status"]);
    validate_consumers(items(&status["reservedFor"]), causes);
    let is_allocated = has(status, "allocation");
    if !items(&status["reservedFor"]).is_empty() && !is_allocated {
        causes.push(field::forbidden(RESERVED, "may not be specified when `allocated` is not set"));
    } else if !new["metadata"]["deletionTimestamp"].is_null() {
        let known: HashSet<String> = items(&before["reservedFor"]).iter().map(ToString::to_string).collect();
        if items(&status["reservedFor"]).iter().any(|consumer| !known.contains(&consumer.to_string())) {
            let detail =
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            causes.push(field::forbidden(RESERVED, detail));
        }
    }
    if !is_allocated {
        return;
    }
    if has(before, "allocation") {
        if before["allocation"] != status["allocation"] {
            causes.push(field::invalid(ALLOCATION, &status["allocation"], "field is immutable"));
        }
    } else {
        validate_allocation(&status["allocation"], items(&new["spec"]["devices"]["requests"]), causes);
    }
}

fn validate_consumers(consumers: &[Value], causes: &mut Causes) {
    if consumers.len() > MAX_CONSUMERS {
        causes.push(field::too_many(RESERVED, consumers.len(), MAX_CONSUMERS as u64));
        return;
    }
    for (index, consumer) in consumers.iter().enumerate() {
        let at = field::index(RESERVED, index);
        for name in ["resource", "name", "uid"].iter().filter(|name| text(consumer, name).is_empty()) {
            causes.push(field::required(&field::child(&at, name), ""));
        }
    }
    let mut found = HashSet::default();
    for (index, consumer) in consumers.iter().enumerate() {
        let uid = text(consumer, "uid");
        if !found.insert(uid) {
            causes.push(field::duplicate(&field::index(RESERVED, index), &uid.into()));
        }
    }
}

/// Checks a new allocation for a claim with these requests.
fn validate_allocation(allocation: &Value, requests: &[Value], causes: &mut Causes) {
    let path = field::child(ALLOCATION, "devices.results");
    let results = items(&allocation["devices"]["results"]);
    if results.len() > MAX_RESULTS {
        causes.push(field::too_many(&path, results.len(), MAX_RESULTS as u64));
    } else {
        for (index, result) in results.iter().enumerate() {
            let at = field::index(&path, index);
            let request = &result["request"];
            devices::validate_reference(request, requests, &field::child(&at, "request"), causes);
            csi::validate_driver_name(text(result, "driver"), &field::child(&at, "driver"), causes);
            resource_slice::validate_pool_name(text(result, "pool"), &field::child(&at, "pool"), causes);
            let device = text(result, "device");
            push_invalid(causes, &field::child(&at, "device"), device, names::label_errors(device));
        }
    }
    let path = field::child(ALLOCATION, "devices.config");
    for (index, configuration) in items(&allocation["devices"]["config"]).iter().enumerate() {
        let at = field::index(&path, index);
        if text(configuration, "source").is_empty() {
            causes.push(field::required(&field::child(&at, "source"), ""));
        } else {
            validate_one_of(configuration, "source", &at, &["FromClaim", "FromClass"], causes);
        }
        devices::validate_references(configuration, requests, &at, causes);
        if !has(configuration, "opaque") {
            causes.push(field::required(&field::child(&at, "opaque"), ""));
        }
    }
    if has(allocation, "nodeSelector") {
        let at = field::child(ALLOCATION, "nodeSelector");
        pod_scheduling::validate_node_selector(&allocation["nodeSelector"], &at, causes);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(before: Value, after: Value) -> Vec<String> {
        let claim = |status: Value| json!({"metadata": {}, "spec": {"devices": {"requests": [{"name": "r"}]}}, "status": status});
        let mut causes = Causes::default();
        validate(&claim(after), &claim(before), &mut causes);
        causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn allocation_names_requests_and_does_not_change() {
        let allocation = |request: &str| json!({"devices": {"results": [{"request": request, "driver": "d", "pool": "p", "device": "a"}]}});
        assert_eq!(problems(json!({}), json!({"allocation": allocation("r")})), [""; 0]);
        let unknown = problems(json!({}), json!({"allocation": allocation("s")}));
        assert!(unknown[0].starts_with("status.allocation.devices.results[0].request: Invalid value: \"s\""));
        let changed =
            problems(json!({"allocation": allocation("r")}), json!({"allocation": allocation("s")}));
        assert!(changed[0].ends_with("field is immutable"), "{changed:?}");
        let consumer = json!({"resource": "pods", "name": "p", "uid": "u"});
        assert_eq!(
            problems(json!({}), json!({"reservedFor": [consumer]})),
            ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]
        );
    }
}
