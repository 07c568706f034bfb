//! Renders `metadata.managedFields`: who has set which fields of a Pod.

use std::fmt::Write;

use super::pod::{Pod, Stage};
use super::status::has_reason;
use super::time;
use super::workload::{Container, Workload};

/// Appends the entries in the order of Kubernetes: by time.
pub(super) fn render(out: &mut String, pod: &Pod, workload: &Workload) {
    let mut entries = vec![(pod.created, "kube-controller-manager", template_fields(workload))];
    if pod.weight.is_some() {
        let fields = r#"{"f:metadata":{"f:labels":{"f:traffic-weight":{}}}}"#;
        entries.push((pod.labels_changed, "rollout-operator", fields.to_owned()));
    }
    if let Some(fields) = annotation_fields(pod, workload) {
        entries.push((pod.annotations_changed, "node-agent", fields));
    }
    if let Some(changed) = pod.spec_changed {
        entries.push((changed, "kubectl-edit", spec_fields(pod, workload)));
    }
    if pod.stage != Stage::Created {
        entries.push((pod.status_changed, "kubelet", status_fields(pod)));
    }
    entries.sort_by_key(|entry| entry.0);
    for (at, (changed, manager, fields)) in entries.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(
            out,
            r#"{comma}{{"manager":"{manager}","operation":"Update","apiVersion":"v1","time":"{}","fieldsType":"FieldsV1","fieldsV1":{fields}"#,
            time::text(*changed)
        );
        out.push_str(if *manager == "kubelet" { r#","subresource":"status"}"# } else { "}" });
    }
}

/// Returns the fields that the owner's controller has set.
fn template_fields(workload: &Workload) -> String {
    let mut out = r#"{"f:metadata":{"#.to_owned();
    if !workload.annotations.is_empty() {
        names(&mut out, "f:annotations", workload.annotations.iter().map(|(name, _)| *name));
        out.push(',');
    }
    out.push_str(r#""f:generateName":{},"#);
    names(&mut out, "f:labels", workload.labels.iter().map(|(name, _)| *name));
    let _ = write!(
        out,
        r#","f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{}\"}}":{{}}}}}},"f:spec":{{"f:containers":{{"#,
        workload.owner_uid
    );
    for (at, container) in workload.containers.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        container_fields(&mut out, container);
    }
    out.push_str(r#"},"f:restartPolicy":{}"#);
    if workload.node_pool.is_some() {
        out.push_str(r#","f:nodeSelector":{}"#);
    }
    out.push_str(r#","f:terminationGracePeriodSeconds":{}"#);
    if workload.containers.iter().any(|container| container.config.is_some()) {
        out.push_str(r#","f:volumes":{".":{},"k:{\"name\":\"config\"}":{".":{},"f:configMap":{".":{},"f:defaultMode":{},"f:name":{}},"f:name":{}}}"#);
    }
    out.push_str("}}");
    out
}

fn container_fields(out: &mut String, container: &Container) {
    let _ = write!(out, r#""k:{{\"name\":\"{}\"}}":{{".":{{}},"#, container.name);
    if !container.env.is_empty() {
        out.push_str(r#""f:env":{".":{}"#);
        for (name, _) in &container.env {
            let _ = write!(out, r#","k:{{\"name\":\"{name}\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}}"#);
        }
        out.push_str("},");
    }
    out.push_str(r#""f:image":{},"f:name":{}"#);
    if container.has_probe {
        out.push_str(
            r#","f:readinessProbe":{".":{},"f:httpGet":{".":{},"f:path":{},"f:port":{}},"f:periodSeconds":{}}"#,
        );
    }
    out.push_str(r#","f:resources":{}}"#);
}

fn annotation_fields(pod: &Pod, workload: &Workload) -> Option<String> {
    let mut fields = Vec::new();
    if pod.is_safe_to_evict {
        fields.push(r#""f:cluster-autoscaler.kubernetes.io/safe-to-evict":{}"#);
    }
    if pod.checked.is_some() {
        fields.push(r#""f:node-agent.example.com/last-checked":{}"#);
    }
    if fields.is_empty() {
        return None;
    }
    if workload.annotations.is_empty() {
        fields.insert(0, r#"".":{}"#);
    }
    Some(format!(r#"{{"f:metadata":{{"f:annotations":{{{}}}}}}}"#, fields.join(",")))
}

fn spec_fields(pod: &Pod, workload: &Workload) -> String {
    let mut out = format!(
        r#"{{"f:spec":{{"f:containers":{{"k:{{\"name\":\"{}\"}}":{{"f:image":{{}},"f:resources":{{"f:requests":{{"f:cpu":{{}}}}}}}}}}"#,
        workload.containers[0].name
    );
    out.push_str(if pod.has_toleration { r#","f:tolerations":{}}}"# } else { "}}" });
    out
}

/// Returns the fields that the kubelet has set.
fn status_fields(pod: &Pod) -> String {
    let mut out = r#"{"f:status":{"f:conditions":{".":{}"#.to_owned();
    let mut condition = |name: &str, has_reason: bool, is_bare: bool| {
        let _ = write!(
            out,
            r#","k:{{\"type\":\"{name}\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:lastTransitionTime":{{}}"#
        );
        if has_reason {
            out.push_str(r#","f:message":{},"f:reason":{}"#);
        }
        out.push_str(if is_bare { r#","f:type":{}}"# } else { r#","f:status":{},"f:type":{}}"# });
    };
    condition("ContainersReady", has_reason(pod), false);
    condition("Initialized", false, false);
    condition("Ready", has_reason(pod), pod.gate.is_some());
    out.push_str(r#"},"f:containerStatuses":{},"f:hostIP":{}"#);
    if pod.stage != Stage::Starting {
        let _ = write!(
            out,
            r#","f:phase":{{}},"f:podIP":{{}},"f:podIPs":{{".":{{}},"k:{{\"ip\":\"{}\"}}":{{".":{{}},"f:ip":{{}}}}}}"#,
            super::status::address(pod)
        );
    }
    out.push_str(r#","f:startTime":{}}}"#);
    out
}

/// Appends a map of field names, each with its prefix.
fn names<'a>(out: &mut String, of: &str, names: impl Iterator<Item = &'a str>) {
    let _ = write!(out, r#""{of}":{{".":{{}}"#);
    for name in names {
        let _ = write!(out, r#","f:{name}":{{}}"#);
    }
    out.push('}');
}
