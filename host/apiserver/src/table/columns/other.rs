//! Kinds of the smaller groups: leases, disruption budgets, role bindings, autoscalers, storage and scheduling classes,
//! webhooks.

use serde_json::Value;

use super::{AGE, Column, DEFAULT_COLUMNS, NAME, Row, age, count, join, scalar, text};

const LEASE: &[Column] = &[NAME, Column::text("Holder", |row| row.text("/spec/holderIdentity").into()), AGE];

const DISRUPTION_BUDGET: &[Column] = &[
    NAME,
    Column::text("Min Available", |row| scalar(row.object.pointer("/spec/minAvailable"), "N/A").into()),
    Column::text("Max Unavailable", |row| scalar(row.object.pointer("/spec/maxUnavailable"), "N/A").into()),
    Column::integer("Allowed Disruptions", |row| row.number("/status/disruptionsAllowed").into()),
    AGE,
];

const BINDING: &[Column] = &[
    NAME,
    Column::text("Role", |row| format!("{}/{}", row.text("/roleRef/kind"), row.text("/roleRef/name")).into()),
    AGE,
    Column::wide("Users", |row| subjects(row, "User")),
    Column::wide("Groups", |row| subjects(row, "Group")),
    Column::wide("ServiceAccounts", |row| subjects(row, "ServiceAccount")),
];

const AUTOSCALER: &[Column] = &[
    NAME,
    Column::text("Reference", |row| {
        format!("{}/{}", row.text("/spec/scaleTargetRef/kind"), row.text("/spec/scaleTargetRef/name")).into()
    }),
    Column::text("Targets", targets),
    Column::text("MinPods", |row| scalar(row.object.pointer("/spec/minReplicas"), "<unset>").into()),
    Column::text("MaxPods", |row| row.number("/spec/maxReplicas").into()),
    Column::text("Replicas", |row| row.number("/status/currentReplicas").into()),
    AGE,
];

const STORAGE_CLASS: &[Column] = &[
    Column::text("Name", |row| {
        let default = "/metadata/annotations/storageclass.kubernetes.io~1is-default-class";
        let suffix = if row.text(default) == "true" { " (default)" } else { "" };
        format!("{}{suffix}", row.text("/metadata/name")).into()
    }),
    Column::text("Provisioner", |row| row.text("/provisioner").into()),
    Column::text("ReclaimPolicy", |row| row.text("/reclaimPolicy").into()),
    Column::text("VolumeBindingMode", |row| row.text("/volumeBindingMode").into()),
    Column::text("AllowVolumeExpansion", |row| (row.object["allowVolumeExpansion"] == true).into()),
    AGE,
];

const CSI_DRIVER: &[Column] = &[
    NAME,
    Column::boolean("AttachRequired", |row| {
        (row.object.pointer("/spec/attachRequired") != Some(&false.into())).into()
    }),
    Column::boolean("PodInfoOnMount", |row| {
        (row.object.pointer("/spec/podInfoOnMount") == Some(&true.into())).into()
    }),
    Column::boolean("StorageCapacity", |row| {
        (row.object.pointer("/spec/storageCapacity") == Some(&true.into())).into()
    }),
    Column::text("TokenRequests", |row| {
        let audiences = row.list("/spec/tokenRequests").iter().map(|request| text(request, "/audience"));
        match audiences.collect::<Vec<_>>() {
            audiences if audiences.is_empty() => "<unset>".into(),
            audiences => audiences.join(",").into(),
        }
    }),
    Column::boolean("RequiresRepublish", |row| {
        (row.object.pointer("/spec/requiresRepublish") == Some(&true.into())).into()
    }),
    Column::text("Modes", |row| {
        let modes = row.list("/spec/volumeLifecycleModes").iter().filter_map(Value::as_str);
        modes.collect::<Vec<_>>().join(",").into()
    }),
    AGE,
];

const ATTRIBUTES_CLASS: &[Column] =
    &[NAME, Column::text("DriverName", |row| row.text("/driverName").into()), AGE];

const PRIORITY_CLASS: &[Column] = &[
    NAME,
    Column::integer("Value", |row| row.number("/value").into()),
    Column::boolean("Global-Default", |row| (row.object["globalDefault"] == true).into()),
    AGE,
    Column::text("PreemptionPolicy", |row| row.text("/preemptionPolicy").into()),
];

const RUNTIME_CLASS: &[Column] = &[NAME, Column::text("Handler", |row| row.text("/handler").into()), AGE];

const WEBHOOKS: &[Column] =
    &[NAME, Column::integer("Webhooks", |row| count(row.list("/webhooks").len()).into()), AGE];

const ADMISSION_POLICY: &[Column] = &[
    NAME,
    Column::integer("Validations", |row| count(row.list("/spec/validations").len()).into()),
    Column::text("ParamKind", |row| match row.text("/spec/paramKind/kind") {
        "" => "<unset>".into(),
        kind => format!("{}/{kind}", row.text("/spec/paramKind/apiVersion")).into(),
    }),
    AGE,
];

const MUTATING_POLICY: &[Column] = &[
    NAME,
    Column::integer("Mutations", |row| count(row.list("/spec/mutations").len()).into()),
    ADMISSION_POLICY[2],
    AGE,
];

const ADMISSION_POLICY_BINDING: &[Column] = &[
    NAME,
    Column::text("PolicyName", |row| row.text("/spec/policyName").into()),
    Column::text("ParamRef", |row| {
        let reference = |name: &str| row.text(&format!("/spec/paramRef/{name}"));
        match (reference("namespace"), reference("name")) {
            (_, "") if row.object.pointer("/spec/paramRef/selector").is_some() => "*".into(),
            (_, "") => "<unset>".into(),
            ("", name) => format!("*/{name}").into(),
            (namespace, name) => format!("{namespace}/{name}").into(),
        }
    }),
    AGE,
];

const SIGNING_REQUEST: &[Column] = &[
    NAME,
    AGE,
    Column::text("SignerName", |row| row.text("/spec/signerName").into()),
    Column::text("Requestor", |row| row.text("/spec/username").into()),
    Column::text("RequestedDuration", |row| {
        let seconds = row.object.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
        seconds.map_or_else(|| "<none>".to_owned(), age::human_duration).into()
    }),
    Column::text("Condition", signing_condition),
];

const API_SERVICE: &[Column] = &[
    NAME,
    Column::text("Service", |row| match row.text("/spec/service/name") {
        "" => "Local".into(),
        name => format!("{}/{name}", row.text("/spec/service/namespace")).into(),
    }),
    Column::text("Available", |row| match row.condition("Available") {
        "" => "Unknown".into(),
        "True" => "True".into(),
        other => {
            let conditions = row.list("/status/conditions").iter();
            let reason = conditions
                .filter(|condition| condition["type"] == "Available")
                .map(|condition| text(condition, "/reason"))
                .next();
            format!("{other} ({})", reason.unwrap_or_default()).into()
        }
    }),
    AGE,
];

/// Formats the conditions of a CertificateSigningRequest as `kubectl get` shows them.
fn signing_condition(row: &Row<'_>) -> Value {
    let has = |ty: &str| row.list("/status/conditions").iter().any(|condition| condition["type"] == ty);
    let mut states = vec![match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }];
    if has("Failed") {
        states.push("Failed");
    }
    if !row.text("/status/certificate").is_empty() {
        states.push("Issued");
    }
    states.join(",").into()
}

fn subjects(row: &Row<'_>, kind: &str) -> Value {
    let of_kind = row.list("/subjects").iter().filter(|subject| subject["kind"] == kind);
    let names = of_kind.map(|subject| match (kind, text(subject, "/namespace")) {
        ("ServiceAccount", namespace) => format!("{namespace}/{}", text(subject, "/name")),
        _ => text(subject, "/name").to_owned(),
    });
    names.collect::<Vec<_>>().join(", ").into()
}

/// Formats the metrics of an autoscaler: resource utilization as current and target percentage, other metrics by their
/// type.
fn targets(row: &Row<'_>) -> Value {
    let metrics = row.list("/spec/metrics").iter().map(|metric| {
        let name = text(metric, "/resource/name");
        let current =
            row.list("/status/currentMetrics").iter().find(|metric| text(metric, "/resource/name") == name);
        let percent = |value: Option<&Value>| value.map_or("<unknown>".into(), |value| format!("{value}%"));
        match metric.pointer("/resource/target/averageUtilization") {
            Some(target) => {
                let current =
                    current.and_then(|metric| metric.pointer("/resource/current/averageUtilization"));
                format!("{name}: {}/{}", percent(current), percent(Some(target)))
            }
            None => text(metric, "/type").to_owned(),
        }
    });
    let mut metrics: Vec<_> = metrics.collect();
    // The only metric of autoscaling/v1.
    if let Some(target) = row.object.pointer("/spec/targetCPUUtilizationPercentage") {
        let current = scalar(row.object.pointer("/status/currentCPUUtilizationPercentage"), "<unknown>");
        let unit = if current == "<unknown>" { "" } else { "%" };
        metrics.push(format!("cpu: {current}{unit}/{target}%"));
    }
    if metrics.is_empty() { "<none>".into() } else { join(metrics.iter().map(String::as_str)).into() }
}

pub(super) fn for_kind(group: &str, kind: &str) -> &'static [Column] {
    match (group, kind) {
        ("coordination.k8s.io", "Lease") => LEASE,
        ("policy", "PodDisruptionBudget") => DISRUPTION_BUDGET,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => BINDING,
        ("autoscaling", "HorizontalPodAutoscaler") => AUTOSCALER,
        ("storage.k8s.io", "StorageClass") => STORAGE_CLASS,
        ("storage.k8s.io", "CSIDriver") => CSI_DRIVER,
        ("storage.k8s.io", "VolumeAttributesClass") => ATTRIBUTES_CLASS,
        ("scheduling.k8s.io", "PriorityClass") => PRIORITY_CLASS,
        ("node.k8s.io", "RuntimeClass") => RUNTIME_CLASS,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => WEBHOOKS,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => ADMISSION_POLICY,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => MUTATING_POLICY,
        (
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding",
        ) => ADMISSION_POLICY_BINDING,
        ("certificates.k8s.io", "CertificateSigningRequest") => SIGNING_REQUEST,
        ("apiregistration.k8s.io", "APIService") => API_SERVICE,
        _ => DEFAULT_COLUMNS,
    }
}
