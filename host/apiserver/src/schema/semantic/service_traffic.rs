//! How traffic reaches Services: load balancers, session affinity and traffic policies.

use serde_json::Value;

use super::{PORT_RANGE, ip, items, push_invalid, text};
use crate::schema::{field, names};
use crate::status::Causes;

/// The annotation that `loadBalancerSourceRanges` replaces.
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";
const DAY: i64 = 86_400;
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";

/// Checks what cannot change while a Service has a load balancer.
pub(super) fn validate_update(old: &Value, new: &Value, causes: &mut Causes) {
    let have_load_balancer = [old, new].iter().all(|spec| text(spec, "type") == "LoadBalancer");
    if have_load_balancer && old.get("loadBalancerClass") != new.get("loadBalancerClass") {
        let class = &new["loadBalancerClass"];
        causes.push(field::invalid("spec.loadBalancerClass", class, "may not change once set"));
    }
    validate_class(new, causes);
    let port = |spec: &Value| spec["healthCheckNodePort"].as_i64().unwrap_or(0);
    if needs_health_check(old) && needs_health_check(new) && port(old) != port(new) {
        causes.push(field::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
}

/// Checks the configuration of the session affinity.
pub(super) fn validate_affinity(spec: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.sessionAffinityConfig";
    let config = &spec["sessionAffinityConfig"];
    match text(spec, "sessionAffinity") {
        "None" if !config.is_null() => {
            causes.push(field::forbidden(PATH, "must not be set when session affinity is None"));
        }
        "ClientIP" => {
            let seconds = &config["clientIP"]["timeoutSeconds"];
            if config.is_null() {
                let detail = "when session affinity type is ClientIP";
                causes.push(field::required(PATH, detail));
            } else if seconds.as_i64().is_some_and(|seconds| !(1..=DAY).contains(&seconds)) {
                let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
                let detail = format!("must be greater than 0 and less than {DAY}");
                causes.push(field::invalid(path, seconds, &detail));
            }
        }
        _ => {}
    }
}

pub(super) fn validate(service: &Value, old: Option<&Value>, causes: &mut Causes) {
    let spec = &service["spec"];
    let is_load_balancer = text(spec, "type") == "LoadBalancer";
    let annotation =
        |object: &Value, name: &str| object["metadata"]["annotations"][name].as_str().map(str::to_owned);
    if let (Some(mode), Some(hints)) = (annotation(service, MODE), annotation(service, HINTS))
        && mode != hints
    {
        let detail = format!("must match annotations[{HINTS}] when both are specified");
        causes.push(field::invalid(&field::key("metadata.annotations", MODE), &mode.into(), &detail));
    }
    let ranges = items(&spec["loadBalancerSourceRanges"]);
    if !ranges.is_empty() {
        const PATH: &str = "spec.LoadBalancerSourceRanges";
        if !is_load_balancer {
            causes.push(field::forbidden(PATH, ONLY_LOAD_BALANCER));
        }
        for (index, range) in ranges.iter().enumerate() {
            validate_range(range.as_str().unwrap_or_default(), &field::index(PATH, index), causes);
        }
    } else if let Some(list) = annotation(service, SOURCE_RANGES) {
        let path = field::key("metadata.annotations", SOURCE_RANGES);
        if !is_load_balancer {
            causes.push(field::forbidden(&path, ONLY_LOAD_BALANCER));
        }
        let is_new = old.is_none_or(|old| annotation(old, SOURCE_RANGES).as_ref() != Some(&list));
        if is_new && !list.trim().is_empty() {
            list.trim().split(',').for_each(|range| validate_range(range, &path, causes));
        }
    }
    if !is_load_balancer && !spec["allocateLoadBalancerNodePorts"].is_null() {
        causes.push(field::forbidden("spec.allocateLoadBalancerNodePorts", ONLY_LOAD_BALANCER));
    }
    validate_class(spec, causes);
    validate_policies(spec, causes);
}

fn validate_class(spec: &Value, causes: &mut Causes) {
    let Some(class) = spec["loadBalancerClass"].as_str() else { return };
    if text(spec, "type") == "LoadBalancer" {
        push_invalid(causes, "spec.loadBalancerClass", class, names::qualified_name_errors(class));
    } else {
        causes.push(field::forbidden("spec.loadBalancerClass", ONLY_LOAD_BALANCER));
    }
}

fn validate_range(range: &str, path: &str, causes: &mut Causes) {
    let range = range.trim();
    if let Some(problem) = ip::cidr_error(range) {
        causes.push(field::invalid(path, &range.into(), problem));
    }
}

fn validate_policies(spec: &Value, causes: &mut Causes) {
    let external = text(spec, "externalTrafficPolicy");
    if is_externally_accessible(spec) {
        let supported = ["Cluster", "Local"];
        if external.is_empty() {
            causes.push(field::required("spec.externalTrafficPolicy", ""));
        } else if !supported.contains(&external) {
            causes.push(field::not_supported("spec.externalTrafficPolicy", &external.into(), &supported));
        }
    } else if !external.is_empty() {
        let detail = "may only be set for externally-accessible services";
        causes.push(field::invalid("spec.externalTrafficPolicy", &external.into(), detail));
    }
    let port = spec["healthCheckNodePort"].as_i64().unwrap_or(0);
    if !needs_health_check(spec) {
        if port != 0 {
            let detail =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            causes.push(field::invalid("spec.healthCheckNodePort", &port.into(), detail));
        }
    } else if port != 0 && !(1..=65535).contains(&port) {
        causes.push(field::invalid("spec.healthCheckNodePort", &port.into(), PORT_RANGE));
    }
    let policies = ["Cluster", "Local"];
    if let Some(policy) = spec["internalTrafficPolicy"].as_str().filter(|policy| !policies.contains(policy)) {
        causes.push(field::not_supported("spec.internalTrafficPolicy", &policy.into(), &policies));
    }
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    let distribution = spec["trafficDistribution"].as_str();
    if let Some(distribution) = distribution.filter(|distribution| !distributions.contains(distribution)) {
        causes.push(field::not_supported("spec.trafficDistribution", &distribution.into(), &distributions));
    }
}

/// Whether clients outside of the cluster can reach the Service.
fn is_externally_accessible(spec: &Value) -> bool {
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !items(&spec["externalIPs"]).is_empty(),
        _ => false,
    }
}

fn needs_health_check(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}
