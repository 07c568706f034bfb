//! The defaults of built-in kinds that depend on other fields.

use serde_json::{Map, Value, json};

/// Sets the defaults that depend on other fields. Called before the defaults of the table are set.
pub(super) fn set_conditional_defaults(definition: &str, object: &mut Map<String, Value>) {
    match definition {
        "io.k8s.api.core.v1.Container" | "io.k8s.api.core.v1.EphemeralContainer" => {
            let image = object.get("image").and_then(Value::as_str).unwrap_or_default();
            let policy = if is_latest(image) { "Always" } else { "IfNotPresent" };
            set_if_absent(object, "imagePullPolicy", || policy.into());
        }
        "io.k8s.api.core.v1.Pod" => default_pod(object),
        "io.k8s.api.core.v1.PodSpec" => default_pod_spec(object),
        "io.k8s.api.apps.v1.StatefulSetSpec" => {
            set_if_absent(object, "template", || json!({}));
            let claims = object.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
            for claim in claims.into_iter().flatten().filter_map(Value::as_object_mut) {
                claim.insert("apiVersion".into(), "v1".into());
                claim.insert("kind".into(), "PersistentVolumeClaim".into());
            }
        }
        "io.k8s.api.apps.v1.DeploymentSpec"
        | "io.k8s.api.apps.v1.DaemonSetSpec"
        | "io.k8s.api.batch.v1.JobSpec" => set_if_absent(object, "template", || json!({})),
        "io.k8s.api.core.v1.PodTemplateSpec" => set_if_absent(object, "spec", || json!({})),
        "io.k8s.api.core.v1.Volume" if object.keys().all(|name| name == "name") => {
            object.insert("emptyDir".into(), json!({}));
        }
        "io.k8s.api.core.v1.ServiceSpec" => default_service_spec(object),
        "io.k8s.api.core.v1.LoadBalancerIngress"
            if object.get("ip").and_then(Value::as_str).is_some_and(|ip| !ip.is_empty()) =>
        {
            set_if_absent(object, "ipMode", || "VIP".into());
        }
        "io.k8s.api.core.v1.PodStatus" => default_pod_ips(object),
        "io.k8s.api.core.v1.NodeStatus" => default_allocatable(object),
        "io.k8s.api.core.v1.ServicePort" => default_target_port(object),
        "io.k8s.api.core.v1.LimitRangeItem" => default_limits(object),
        "io.k8s.api.core.v1.Secret" => move_string_data(object),
        "io.k8s.api.apps.v1.DeploymentStrategy" => {
            default_rolling_update(object, || json!({"maxSurge": "25%", "maxUnavailable": "25%"}));
        }
        "io.k8s.api.apps.v1.DaemonSetUpdateStrategy" => {
            default_rolling_update(object, || json!({"maxSurge": 0, "maxUnavailable": 1}));
        }
        "io.k8s.api.apps.v1.StatefulSetUpdateStrategy" => {
            default_rolling_update(object, || json!({"partition": 0}));
        }
        "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior" => default_scaling_rules(object),
        "io.k8s.api.batch.v1.Job" => default_job(object),
        "io.k8s.api.core.v1.ReplicationController" => default_replication_controller(object),
        "io.k8s.api.networking.v1.NetworkPolicySpec" => {
            let egress = object.contains_key("egress");
            set_if_absent(object, "policyTypes", || {
                if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) }
            });
        }
        "io.k8s.api.rbac.v1.RoleRef"
            if object.get("apiGroup").and_then(Value::as_str).is_none_or(str::is_empty) =>
        {
            object.insert("apiGroup".into(), "rbac.authorization.k8s.io".into());
        }
        "io.k8s.api.rbac.v1.Subject" => {
            let group = match object.get("kind").and_then(Value::as_str) {
                Some("User" | "Group") => "rbac.authorization.k8s.io",
                _ => return,
            };
            set_if_absent(object, "apiGroup", || group.into());
        }
        "io.k8s.api.resource.v1.ExactDeviceRequest" | "io.k8s.api.resource.v1.DeviceSubRequest"
            if is_exact_count(object) =>
        {
            set_if_absent(object, "count", || 1.into());
        }
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionNames" => {
            let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            set_if_absent(object, "singular", || kind.to_lowercase().into());
            if !kind.is_empty() {
                set_if_absent(object, "listKind", || format!("{kind}List").into());
            }
        }
        _ => {}
    }
}

/// Makes the address of a Pod the only one of the list unless it is the first one there, or sets it to the first one if it is absent.
fn default_pod_ips(status: &mut Map<String, Value>) {
    let first = status.get("podIPs").and_then(|ips| ips[0]["ip"].as_str()).map(str::to_owned);
    let address = status.get("podIP").and_then(Value::as_str).filter(|ip| !ip.is_empty()).map(str::to_owned);
    match (address, first) {
        (Some(address), first) if first.as_ref() != Some(&address) => {
            drop(status.insert("podIPs".into(), json!([{"ip": address}])));
        }
        (None, Some(first)) => drop(status.insert("podIP".into(), first.into())),
        _ => {}
    }
}

/// Copies what a Node has to what Pods can have of it, unless the Node says that.
fn default_allocatable(status: &mut Map<String, Value>) {
    let capacity =
        status.get("capacity").filter(|amounts| amounts.as_object().is_some_and(|all| !all.is_empty()));
    if let Some(capacity) = capacity.cloned() {
        set_if_absent(status, "allocatable", || capacity);
    }
}

/// Sets the absent fields of `rollingUpdate` if the strategy's type is `RollingUpdate`, the default.
fn default_rolling_update(object: &mut Map<String, Value>, defaults: impl FnOnce() -> Value) {
    if object.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "RollingUpdate") {
        return;
    }
    set_if_absent(object, "rollingUpdate", || json!({}));
    if let (Some(Value::Object(rolling_update)), Value::Object(defaults)) =
        (object.get_mut("rollingUpdate"), defaults())
    {
        for (name, value) in defaults {
            rolling_update.entry(name).or_insert(value);
        }
    }
}

/// Sets the absent fields of the rules of an autoscaler that has some.
fn default_scaling_rules(behavior: &mut Map<String, Value>) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (name, policies, window) in
        [("scaleUp", json!([pods, percent.clone()]), Some(0)), ("scaleDown", json!([percent]), None)]
    {
        set_if_absent(behavior, name, || json!({}));
        let Some(Value::Object(rules)) = behavior.get_mut(name) else { continue };
        set_if_absent(rules, "policies", || policies);
        set_if_absent(rules, "selectPolicy", || "Max".into());
        if let Some(window) = window {
            set_if_absent(rules, "stabilizationWindowSeconds", || window.into());
        }
    }
}

/// Whether a request of devices asks for a number of them, which is the default.
fn is_exact_count(request: &Map<String, Value>) -> bool {
    matches!(request.get("allocationMode").and_then(Value::as_str), None | Some("" | "ExactCount"))
}

/// Returns whether an image's tag is `latest`, explicitly or by default.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    name.rsplit_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// Copies the service account's name between its two fields.
fn default_pod_spec(spec: &mut Map<String, Value>) {
    let account =
        spec.get("serviceAccountName").filter(|name| name.as_str().is_some_and(|name| !name.is_empty()));
    if let Some(account) = account.cloned() {
        // The field that replaces the other one decides.
        spec.insert("serviceAccount".to_owned(), account);
    }
    let alias = spec.get("serviceAccount").filter(|name| name.as_str().is_some_and(|name| !name.is_empty()));
    if let Some(name) = alias.cloned() {
        set_if_absent(spec, "serviceAccountName", || name);
    }
}

/// Copies the ports of containers on the host's network to the absent ports of the host. Templates keep theirs as they are.
fn default_host_ports(spec: &mut Map<String, Value>) {
    if spec.get("hostNetwork").and_then(Value::as_bool) != Some(true) {
        return;
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for port in containers.filter_map(|container| container.get_mut("ports")?.as_array_mut()).flatten() {
            if let (Some(number), Some(port)) = (port.get("containerPort").cloned(), port.as_object_mut())
                && port.get("hostPort").is_none_or(|host| host.is_null() || *host == 0)
            {
                port.insert("hostPort".into(), number);
            }
        }
    }
}

/// Sets `enableServiceLinks` and, on the host's network, the ports of the host, and copies container limits to absent requests.
fn default_pod(pod: &mut Map<String, Value>) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    set_if_absent(spec, "enableServiceLinks", || true.into());
    default_host_ports(spec);
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for resources in containers.filter_map(|container| container.get_mut("resources")?.as_object_mut()) {
            let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { continue };
            set_if_absent(resources, "requests", || json!({}));
            if let Some(requests) = resources.get_mut("requests").and_then(Value::as_object_mut) {
                for (name, limit) in limits {
                    requests.entry(name).or_insert(limit);
                }
            }
        }
    }
}

/// Copies the greatest amounts of a container to the absent default limits, and those and the least amounts to the absent default requests.
fn default_limits(item: &mut Map<String, Value>) {
    if item.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(amounts) = item.get(from).and_then(Value::as_object).filter(|all| !all.is_empty()).cloned()
        else {
            continue;
        };
        set_if_absent(item, to, || json!({}));
        if let Some(defaults) = item.get_mut(to).and_then(Value::as_object_mut) {
            for (name, amount) in amounts {
                defaults.entry(name).or_insert(amount);
            }
        }
    }
}

/// Copies the labels of the template to the selector and to the labels of a ReplicationController that has none.
fn default_replication_controller(controller: &mut Map<String, Value>) {
    let is_empty = |value: Option<&Value>| value.and_then(Value::as_object).is_none_or(Map::is_empty);
    let template = controller.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels"));
    let Some(labels) = template.filter(|labels| !is_empty(Some(labels))).cloned() else { return };
    if let Some(Value::Object(spec)) = controller.get_mut("spec")
        && is_empty(spec.get("selector"))
    {
        spec.insert("selector".into(), labels.clone());
    }
    if let Some(Value::Object(metadata)) = controller.get_mut("metadata")
        && is_empty(metadata.get("labels"))
    {
        metadata.insert("labels".into(), labels);
    }
}

/// Sets the defaults of a Job's specification, which the template of a CronJob does not have.
fn default_job(job: &mut Map<String, Value>) {
    let labels = job.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    let has_labels = |labels: &Value| labels.as_object().is_some_and(|labels| !labels.is_empty());
    if let Some(labels) = labels.filter(has_labels)
        && let Some(metadata) = job.get_mut("metadata").and_then(Value::as_object_mut)
        && !metadata.get("labels").is_some_and(has_labels)
    {
        metadata.insert("labels".into(), labels);
    }
    let Some(spec) = job.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if !spec.contains_key("parallelism") {
        set_if_absent(spec, "completions", || 1.into());
    }
    // The number of failures is limited for each index instead.
    let backoff_limit = if spec.contains_key("backoffLimitPerIndex") { i32::MAX } else { 6 };
    let replacement = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    let defaults = [
        ("backoffLimit", json!(backoff_limit)),
        ("completionMode", json!("NonIndexed")),
        ("manualSelector", json!(false)),
        ("parallelism", json!(1)),
        ("podReplacementPolicy", json!(replacement)),
        ("suspend", json!(false)),
    ];
    for (name, default) in defaults {
        set_if_absent(spec, name, || default);
    }
}

/// Copies the port of a Service to its absent target.
fn default_target_port(port: &mut Map<String, Value>) {
    // Clients in Go send 0 for an absent target.
    let is_absent = |target: &Value| target.is_null() || *target == 0 || *target == "";
    if let Some(number) = port.get("port").cloned()
        && port.get("targetPort").is_none_or(is_absent)
    {
        port.insert("targetPort".into(), number);
    }
}

fn default_service_spec(spec: &mut Map<String, Value>) {
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or("ClusterIP").to_owned();
    if kind != "ExternalName" {
        set_if_absent(spec, "internalTrafficPolicy", || "Cluster".into());
    }
    let has_external = spec.get("externalIPs").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && has_external) {
        set_if_absent(spec, "externalTrafficPolicy", || "Cluster".into());
    }
    if kind == "LoadBalancer" {
        set_if_absent(spec, "allocateLoadBalancerNodePorts", || true.into());
    }
    default_session_affinity(spec);
}

/// Completes the configuration of the session affinity `ClientIP`, and removes that of `None`.
fn default_session_affinity(spec: &mut Map<String, Value>) {
    match spec.get("sessionAffinity").and_then(Value::as_str).unwrap_or_default() {
        "" | "None" => {
            spec.insert("sessionAffinity".into(), "None".into());
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let config = spec.get("sessionAffinityConfig");
            if config.is_none_or(|config| config["clientIP"]["timeoutSeconds"].is_null()) {
                spec.insert("sessionAffinityConfig".into(), json!({"clientIP": {"timeoutSeconds": 10800}}));
            }
        }
        _ => {}
    }
}

/// Moves the values of the write-only `stringData` to `data`, encoded as base64.
fn move_string_data(secret: &mut Map<String, Value>) {
    let Some(Value::Object(plain)) = secret.remove("stringData") else { return };
    set_if_absent(secret, "data", || json!({}));
    let Some(data) = secret.get_mut("data").and_then(Value::as_object_mut) else { return };
    for (key, value) in plain {
        if let Value::String(text) = value {
            let bytes = k8s_openapi::ByteString(text.into_bytes());
            data.insert(key, serde_json::to_value(bytes).unwrap_or_default());
        }
    }
}

/// Sets a field that is absent or null.
pub(super) fn set_if_absent(object: &mut Map<String, Value>, name: &str, default: impl FnOnce() -> Value) {
    if object.get(name).is_none_or(Value::is_null) {
        object.insert(name.to_owned(), default());
    }
}
