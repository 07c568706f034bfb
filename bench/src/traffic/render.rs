//! Renders a Pod as an API server does: with its members in the order of Kubernetes' types.

use std::fmt::Write;

use super::pod::{Pod, Stage};
use super::workload::{CPU, Container, Workload};
use super::{managed_fields, status, time};

/// The type, with which the text of every Pod begins, except in a list.
pub(crate) const TYPE: &str = r#"{"kind":"Pod","apiVersion":"v1","#;
/// The placeholder for the time of sending.
const NO_TIME: &str = "0000000000000000000";

/// The text of a Pod without its resource version.
#[derive(Clone, Debug)]
pub struct PodText {
    text: Box<[u8]>,
    version_at: usize,
    /// The offset of the time of sending; 0 if it is not sent.
    sent_at: usize,
}

impl PodText {
    /// Returns the text in parts. `sent` is the time of sending, as 19 digits.
    #[must_use]
    pub fn parts<'a>(&'a self, version: &'a [u8], sent: &'a [u8]) -> [&'a [u8]; 5] {
        let (before, rest) = self.text.split_at(self.version_at);
        if self.sent_at == 0 {
            return [before, version, rest, b"", b""];
        }
        let (between, rest) = rest.split_at(self.sent_at - self.version_at);
        [before, version, between, sent, &rest[NO_TIME.len()..]]
    }
}

pub(super) fn render(pod: &Pod, workload: &Workload, with_time_of_sending: bool) -> PodText {
    let mut out = String::with_capacity(5_000);
    let prefix = workload.generate_name();
    let (namespace, suffix, uid) = (&workload.namespace, &pod.suffix, &pod.uid);
    let _ = write!(
        out,
        r#"{TYPE}"metadata":{{"name":"{prefix}{suffix}","generateName":"{prefix}","namespace":"{namespace}","uid":"{uid}","resourceVersion":""#
    );
    let version_at = out.len();
    let _ =
        write!(out, r#"","generation":{},"creationTimestamp":"{}""#, pod.generation, time::text(pod.created));
    if let Some(deleted) = pod.deleted {
        let deleted = time::text(deleted);
        let _ = write!(out, r#","deletionTimestamp":"{deleted}","deletionGracePeriodSeconds":0"#);
    }
    labels(&mut out, pod, workload);
    let sent_at = annotations(&mut out, pod, workload, with_time_of_sending);
    let (kind, owner) = workload.owner();
    let _ = write!(
        out,
        r#","ownerReferences":[{{"apiVersion":"apps/v1","kind":"{kind}","name":"{owner}","uid":"{}","controller":true,"blockOwnerDeletion":true}}],"managedFields":["#,
        workload.owner_uid
    );
    managed_fields::render(&mut out, pod, workload);
    out.push_str(r#"]},"spec":{"#);
    spec(&mut out, pod, workload);
    out.push_str(r#"},"status":"#);
    status::render(&mut out, pod, workload);
    out.push('}');
    PodText { text: out.into_bytes().into_boxed_slice(), version_at, sent_at }
}

fn labels(out: &mut String, pod: &Pod, workload: &Workload) {
    let weight = pod.weight.map(|weight| weight.to_string());
    let mut labels: Vec<(&str, &str)> =
        workload.labels.iter().map(|(name, value)| (*name, &**value)).collect();
    labels.extend(weight.as_deref().map(|weight| ("traffic-weight", weight)));
    out.push_str(r#","labels":{"#);
    map(out, &labels);
}

/// Appends the annotations and returns the offset of the time of sending; 0 if it is not sent.
fn annotations(out: &mut String, pod: &Pod, workload: &Workload, with_time_of_sending: bool) -> usize {
    let checked = pod.checked.map(time::text);
    let mut annotations: Vec<(&str, &str)> =
        workload.annotations.iter().map(|(name, value)| (*name, &**value)).collect();
    if pod.is_safe_to_evict {
        annotations.push(("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"));
    }
    annotations.extend(checked.as_deref().map(|time| ("node-agent.example.com/last-checked", time)));
    annotations.sort_unstable();
    if with_time_of_sending {
        annotations.insert(0, ("bench/sent-at", NO_TIME));
    }
    if annotations.is_empty() {
        return 0;
    }
    out.push_str(r#","annotations":{"#);
    let start = out.len() + r#""bench/sent-at":""#.len();
    map(out, &annotations);
    if with_time_of_sending { start } else { 0 }
}

/// Appends the members of a map and its closing brace.
fn map(out: &mut String, members: &[(&str, &str)]) {
    for (at, (name, value)) in members.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(out, r#"{comma}"{name}":"{value}""#);
    }
    out.push('}');
}

fn spec(out: &mut String, pod: &Pod, workload: &Workload) {
    volumes(out, pod, workload);
    out.push_str(r#""containers":["#);
    for (at, container) in workload.containers.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        let (image, cpu) = if at == 0 { (pod.image[0], pod.cpu) } else { (3, container.cpu) };
        self::container(out, pod, container, (image, CPU[cpu]));
        mounts(out, pod, workload, container);
        out.push_str(r#""terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}"#);
    }
    out.push_str(
        r#"],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","#,
    );
    if let Some(pool) = workload.node_pool {
        let _ = write!(out, r#""nodeSelector":{{"node-pool":"{pool}"}},"#);
    }
    let account = &workload.service_account;
    let _ = write!(out, r#""serviceAccountName":"{account}","serviceAccount":"{account}","#);
    if pod.stage != Stage::Created {
        let _ = write!(out, r#""nodeName":"ip-10-0-{}-{}.internal","#, pod.node / 250, pod.node % 250 + 1);
    }
    out.push_str(r#""securityContext":{},"schedulerName":"default-scheduler""#);
    if pod.has_toleration {
        out.push_str(r#","tolerations":[{"key":"maintenance","operator":"Exists","effect":"NoSchedule"}]"#);
    }
    out.push_str(r#","enableServiceLinks":true"#);
}

fn volumes(out: &mut String, pod: &Pod, workload: &Workload) {
    let mut volumes = Vec::new();
    if let Some(config) = workload.containers.iter().find_map(|container| container.config.as_deref()) {
        volumes.push(format!(r#"{{"name":"config","configMap":{{"name":"{config}","defaultMode":420}}}}"#));
    }
    if workload.has_token_volume {
        volumes.push(format!(
            r#"{{"name":"kube-api-access-{}","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}},{{"downwardAPI":{{"items":[{{"path":"namespace","fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.namespace"}}}}]}}}}],"defaultMode":420}}}}"#,
            pod.suffix
        ));
    }
    if !volumes.is_empty() {
        let _ = write!(out, r#""volumes":[{}],"#, volumes.join(","));
    }
}

fn container(out: &mut String, pod: &Pod, container: &Container, (image, cpu): (usize, &str)) {
    let _ = write!(out, r#"{{"name":"{}","image":"{}:1.4.{image}","#, container.name, container.image);
    if let Some(port) = container.port {
        let _ = write!(out, r#""ports":[{{"containerPort":{port},"protocol":"TCP"}}],"#);
    }
    if !container.env.is_empty() {
        out.push_str(r#""env":["#);
        for (at, (name, value)) in container.env.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let value = value.replace('"', "\\\"");
            let _ = write!(out, r#"{comma}{{"name":"{name}","value":"{value}"}}"#);
        }
        out.push_str("],");
    }
    let memory = container.memory;
    let _ = write!(
        out,
        r#""resources":{{"limits":{{"memory":"{memory}"}},"requests":{{"cpu":"{cpu}","memory":"{memory}"}}}},"#
    );
    if container.has_probe {
        let port = container.port.unwrap_or(80);
        let _ = write!(
            out,
            r#""readinessProbe":{{"httpGet":{{"path":"/healthz","port":{port},"scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":{}}},"#,
            if pod.workload.is_multiple_of(2) { 3 } else { 5 }
        );
    }
}

fn mounts(out: &mut String, pod: &Pod, workload: &Workload, container: &Container) {
    let mut mounts = Vec::new();
    if container.config.is_some() {
        mounts.push(r#"{"name":"config","readOnly":true,"mountPath":"/etc/app"}"#.to_owned());
    }
    if workload.has_token_volume {
        mounts.push(format!(
            r#"{{"name":"kube-api-access-{}","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}"#,
            pod.suffix
        ));
    }
    if !mounts.is_empty() {
        let _ = write!(out, r#""volumeMounts":[{}],"#, mounts.join(","));
    }
}
