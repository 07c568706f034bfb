//! Pods: the status column sums up phase, conditions and containers.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Cell, Column, NAME, condition, list, text};
use crate::table::age;

pub(super) const POD: &[Column] = &[
    NAME,
    Column::text("Ready", |row| {
        let state = state(row.object);
        format!("{}/{}", state.ready, state.total).into()
    }),
    Column::text("Status", |row| state(row.object).reason.into()),
    Column::text("Restarts", |row| {
        let state = state(row.object);
        match state.last_restart {
            Some(time) if state.restarts > 0 => {
                let ago = age::human(row.now.as_second() - time.as_second());
                format!("{} ({ago} ago)", state.restarts).into()
            }
            _ => state.restarts.to_string().into(),
        }
    }),
    AGE,
    Column::wide("IP", |row| row.text_or("/status/podIP", "<none>").into()),
    Column::wide("Node", |row| row.text_or("/spec/nodeName", "<none>").into()),
    Column::wide("Nominated Node", |row| row.text_or("/status/nominatedNodeName", "<none>").into()),
    Column::wide("Readiness Gates", readiness_gates),
];

struct State {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl State {
    fn restarted(&mut self, container: &Value) {
        self.restarts += container["restartCount"].as_i64().unwrap_or_default();
        let last = text(container, "/lastState/terminated/finishedAt").parse().ok();
        self.last_restart = self.last_restart.max(last);
    }
}

fn state(pod: &Value) -> State {
    let phase = text(pod, "/status/phase");
    let conditions = list(pod, "/status/conditions");
    let own = text(pod, "/status/reason");
    let gated =
        conditions.iter().any(|one| one["type"] == "PodScheduled" && one["reason"] == "SchedulingGated");
    let sidecars: Vec<_> = list(pod, "/spec/initContainers")
        .iter()
        .filter(|container| container["restartPolicy"] == "Always")
        .map(|container| text(container, "/name"))
        .collect();
    let mut state = State {
        reason: if gated {
            "SchedulingGated"
        } else if own.is_empty() {
            phase
        } else {
            own
        }
        .to_owned(),
        ready: 0,
        total: list(pod, "/spec/containers").len() + sidecars.len(),
        restarts: 0,
        last_restart: None,
    };
    let mut of_sidecars =
        State { reason: String::new(), ready: 0, total: 0, restarts: 0, last_restart: None };
    let initializing = initialize(pod, &sidecars, &mut state, &mut of_sidecars);
    if !initializing || condition(conditions, "Initialized") == "True" {
        state.restarts = of_sidecars.restarts;
        state.last_restart = of_sidecars.last_restart;
        run(pod, &mut state);
    }
    let gone = !text(pod, "/metadata/deletionTimestamp").is_empty();
    if gone && own == "NodeLost" {
        state.reason = "Unknown".into();
    } else if gone && !["Succeeded", "Failed"].contains(&phase) {
        state.reason = "Terminating".into();
    }
    state
}

/// Looks at the init containers, up to the first that has not done its part. Whether there is one.
fn initialize(pod: &Value, sidecars: &[&str], state: &mut State, of_sidecars: &mut State) -> bool {
    for (index, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
        state.restarted(status);
        let sidecar = sidecars.contains(&text(status, "/name"));
        if sidecar {
            of_sidecars.restarted(status);
        }
        let terminated = status.pointer("/state/terminated");
        let waiting = text(status, "/state/waiting/reason");
        if terminated.is_some_and(|end| end["exitCode"] == 0) {
            continue;
        }
        if sidecar && status["started"] == true {
            state.ready += usize::from(status["ready"] == true);
            continue;
        }
        state.reason = match terminated {
            Some(end) => format!("Init:{}", ending(end)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{index}/{}", list(pod, "/spec/initContainers").len()),
        };
        return true;
    }
    false
}

fn run(pod: &Value, state: &mut State) {
    let mut running = false;
    for status in list(pod, "/status/containerStatuses").iter().rev() {
        state.restarted(status);
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            state.reason = waiting.to_owned();
        } else if let Some(end) = status.pointer("/state/terminated") {
            state.reason = ending(end);
        } else if status["ready"] == true && status.pointer("/state/running").is_some() {
            running = true;
            state.ready += 1;
        }
    }
    if state.reason == "Completed" && running {
        let ready = condition(list(pod, "/status/conditions"), "Ready") == "True";
        state.reason = if ready { "Running" } else { "NotReady" }.to_owned();
    }
}

/// Why a container ended.
fn ending(end: &Value) -> String {
    match (text(end, "/reason"), end["signal"].as_i64().unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", end["exitCode"].as_i64().unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(row: &Cell<'_>) -> Value {
    let gates = row.list("/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let open = gates.iter().filter(|gate| row.condition(text(gate, "/conditionType")) == "True").count();
    format!("{open}/{}", gates.len()).into()
}
