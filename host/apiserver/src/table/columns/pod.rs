//! The columns of pods. The status summarizes phase, conditions and containers, as kubectl's `printPod` does.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Column, NAME, Row, condition, list, text};
use crate::table::age;

pub(super) const POD: &[Column] = &[
    NAME,
    Column::text("Ready", |row| {
        let summary = summarize(row.object);
        format!("{}/{}", summary.ready, summary.total).into()
    }),
    Column::text("Status", |row| summarize(row.object).reason.into()),
    Column::text("Restarts", |row| {
        let summary = summarize(row.object);
        match summary.last_restart {
            Some(time) if summary.restarts > 0 => {
                let age = age::human_duration(row.now.as_second() - time.as_second());
                format!("{} ({age} ago)", summary.restarts).into()
            }
            _ => summary.restarts.to_string().into(),
        }
    }),
    AGE,
    Column::wide("IP", |row| row.text_or("/status/podIP", "<none>").into()),
    Column::wide("Node", |row| row.text_or("/spec/nodeName", "<none>").into()),
    Column::wide("Nominated Node", |row| row.text_or("/status/nominatedNodeName", "<none>").into()),
    Column::wide("Readiness Gates", readiness_gates),
];

/// What a pod's row shows of its containers, sidecars included.
struct Summary {
    /// The text of the status column.
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn add_restarts(&mut self, container: &Value) {
        self.restarts += container["restartCount"].as_i64().unwrap_or_default();
        let last = text(container, "/lastState/terminated/finishedAt").parse().ok();
        self.last_restart = self.last_restart.max(last);
    }
}

fn summarize(pod: &Value) -> Summary {
    let phase = text(pod, "/status/phase");
    let conditions = list(pod, "/status/conditions");
    let pod_reason = text(pod, "/status/reason");
    let is_gated = conditions
        .iter()
        .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated");
    let sidecars: Vec<_> = list(pod, "/spec/initContainers")
        .iter()
        .filter(|container| container["restartPolicy"] == "Always")
        .map(|container| text(container, "/name"))
        .collect();
    let mut summary = Summary {
        reason: if is_gated {
            "SchedulingGated"
        } else if pod_reason.is_empty() {
            phase
        } else {
            pod_reason
        }
        .to_owned(),
        ready: 0,
        total: list(pod, "/spec/containers").len() + sidecars.len(),
        restarts: 0,
        last_restart: None,
    };
    let mut sidecar_summary =
        Summary { reason: String::new(), ready: 0, total: 0, restarts: 0, last_restart: None };
    let is_initializing = add_init_containers(pod, &sidecars, &mut summary, &mut sidecar_summary);
    if !is_initializing || condition(conditions, "Initialized") == "True" {
        summary.restarts = sidecar_summary.restarts;
        summary.last_restart = sidecar_summary.last_restart;
        add_containers(pod, &mut summary);
    }
    let is_terminating = !text(pod, "/metadata/deletionTimestamp").is_empty();
    if is_terminating && pod_reason == "NodeLost" {
        summary.reason = "Unknown".into();
    } else if is_terminating && !["Succeeded", "Failed"].contains(&phase) {
        summary.reason = "Terminating".into();
    }
    summary
}

/// Adds the init containers to the summary, up to the first that has neither succeeded nor, if it is a sidecar,
/// started. Returns whether there is such a container.
fn add_init_containers(
    pod: &Value,
    sidecars: &[&str],
    summary: &mut Summary,
    sidecar_summary: &mut Summary,
) -> bool {
    for (index, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
        summary.add_restarts(status);
        let is_sidecar = sidecars.contains(&text(status, "/name"));
        if is_sidecar {
            sidecar_summary.add_restarts(status);
        }
        let terminated = status.pointer("/state/terminated");
        let waiting = text(status, "/state/waiting/reason");
        if terminated.is_some_and(|terminated| terminated["exitCode"] == 0) {
            continue;
        }
        if is_sidecar && status["started"] == true {
            summary.ready += usize::from(status["ready"] == true);
            continue;
        }
        summary.reason = match terminated {
            Some(terminated) => format!("Init:{}", termination_reason(terminated)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{index}/{}", list(pod, "/spec/initContainers").len()),
        };
        return true;
    }
    false
}

/// Adds the regular containers to the summary.
fn add_containers(pod: &Value, summary: &mut Summary) {
    let mut has_running = false;
    for status in list(pod, "/status/containerStatuses").iter().rev() {
        summary.add_restarts(status);
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            summary.reason = waiting.to_owned();
        } else if let Some(terminated) = status.pointer("/state/terminated") {
            summary.reason = termination_reason(terminated);
        } else if status["ready"] == true && status.pointer("/state/running").is_some() {
            has_running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" && has_running {
        let is_ready = condition(list(pod, "/status/conditions"), "Ready") == "True";
        summary.reason = if is_ready { "Running" } else { "NotReady" }.to_owned();
    }
}

/// Returns the reason of a container's `terminated` state, or its signal or exit code.
fn termination_reason(terminated: &Value) -> String {
    match (text(terminated, "/reason"), terminated["signal"].as_i64().unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(row: &Row<'_>) -> Value {
    let gates = row.list("/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let passed = gates.iter().filter(|gate| row.condition(text(gate, "/conditionType")) == "True").count();
    format!("{passed}/{}", gates.len()).into()
}
