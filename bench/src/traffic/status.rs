//! Renders a Pod's status.

use std::fmt::Write;

use super::pod::{Pod, Stage};
use super::time;
use super::workload::Workload;

pub(super) fn render(out: &mut String, pod: &Pod, workload: &Workload) {
    if pod.stage == Stage::Created {
        out.push_str(r#"{"phase":"Pending","qosClass":"Burstable"}"#);
        return;
    }
    let is_starting = pod.stage == Stage::Starting;
    let _ = write!(out, r#"{{"phase":"{}","conditions":["#, if is_starting { "Pending" } else { "Running" });
    conditions(out, pod, workload);
    let host = format!("10.0.{}.{}", pod.node / 250, pod.node % 250 + 1);
    let _ = write!(out, r#"],"hostIP":"{host}""#);
    if !is_starting {
        let address = address(pod);
        let _ = write!(out, r#","podIP":"{address}","podIPs":[{{"ip":"{address}"}}]"#);
    }
    let _ = write!(out, r#","startTime":"{}","containerStatuses":["#, time::text(pod.started));
    for (at, container) in workload.containers.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        let image = if at == 0 { pod.image[1] } else { 3 };
        container_status(out, pod, at, (container.name, &format!("{}:1.4.{image}", container.image)));
    }
    out.push_str(r#"],"qosClass":"Burstable"}"#);
}

/// Returns the Pod's address.
pub(super) fn address(pod: &Pod) -> String {
    format!("10.{}.{}.{}", 64 + pod.node % 64, pod.address / 250, pod.address % 250 + 1)
}

/// Returns whether the conditions of readiness have a reason and a message.
pub(super) fn has_reason(pod: &Pod) -> bool {
    pod.stage != Stage::Ready
}

fn conditions(out: &mut String, pod: &Pod, workload: &Workload) {
    if let Some(gate) = pod.gate {
        let (status, since) = (if gate.is_true { "True" } else { "False" }, time::text(gate.since));
        let _ = write!(
            out,
            r#"{{"type":"target-health.example.com/web","status":"{status}","lastProbeTime":null,"lastTransitionTime":"{since}","#
        );
        out.push_str(if gate.is_true {
            r#""reason":"Healthy"},"#
        } else {
            r#""reason":"Elb.InitialHealthChecking","message":"Target registration is in progress"},"#
        });
    }
    let unready: Vec<_> = workload.containers.iter().map(|container| container.name).collect();
    let reason = format!(
        r#","reason":"ContainersNotReady","message":"containers with unready status: [{}]""#,
        if pod.stage == Stage::Starting { unready.join(" ") } else { unready[0].to_owned() }
    );
    let (ready, reason) = if has_reason(pod) { ("False", &*reason) } else { ("True", "") };
    for (kind, status, since, reason) in [
        ("Initialized", "True", pod.started, ""),
        ("Ready", ready, pod.ready_changed, reason),
        ("ContainersReady", ready, pod.ready_changed, reason),
        ("PodScheduled", "True", pod.started, ""),
    ] {
        let comma = if kind == "PodScheduled" { "" } else { "," };
        let _ = write!(
            out,
            r#"{{"type":"{kind}","status":"{status}","lastProbeTime":null,"lastTransitionTime":"{}"{reason}}}{comma}"#,
            time::text(since)
        );
    }
}

fn container_status(out: &mut String, pod: &Pod, at: usize, (name, image): (&str, &str)) {
    let stage = if at == 0 || pod.stage == Stage::Starting { pod.stage } else { Stage::Ready };
    let restarts = if at == 0 { pod.restarts } else { 0 };
    let previous = pod.previous.filter(|_| at == 0);
    let _ = write!(out, r#"{{"name":"{name}","state":{{"#);
    match stage {
        Stage::Created | Stage::Starting => {
            out.push_str(r#""waiting":{"reason":"ContainerCreating"}},"lastState":{}"#);
            let _ = write!(
                out,
                r#","ready":false,"restartCount":0,"image":"{image}","imageID":"","started":false}}"#
            );
            return;
        }
        Stage::CrashLoop => {
            let _ = write!(
                out,
                r#""waiting":{{"reason":"CrashLoopBackOff","message":"back-off {}s restarting failed container={name} pod={}({})"}}}}"#,
                10 << restarts.min(5),
                pod.suffix,
                pod.uid
            );
            terminated(out, pod.container, pod.ready_changed);
        }
        Stage::Ready | Stage::NotReady => {
            let since = previous.map_or(pod.started + 2, |(_, restarted)| restarted);
            let _ = write!(out, r#""running":{{"startedAt":"{}"}}}}"#, time::text(since));
            match previous {
                Some((container, restarted)) => terminated(out, container, restarted),
                None => out.push_str(r#","lastState":{}"#),
            }
        }
    }
    let (ready, started) = (stage == Stage::Ready, stage != Stage::CrashLoop);
    let container = if at == 0 { pod.container } else { pod.container ^ 0x5555 };
    let _ = write!(
        out,
        r#","ready":{ready},"restartCount":{restarts},"image":"{image}","imageID":"sha256:{}","containerID":"containerd://{}","started":{started}}}"#,
        digest(image.bytes().fold(7, |sum, byte| sum * 31 % 0xffff_ffff_ffff + u64::from(byte))),
        digest(container),
    );
}

/// Appends the last state of a container that has failed.
fn terminated(out: &mut String, container: u64, finished: u32) {
    let _ = write!(
        out,
        r#","lastState":{{"terminated":{{"exitCode":{},"reason":"{}","startedAt":"{}","finishedAt":"{}","containerID":"containerd://{}"}}}}"#,
        if container.is_multiple_of(2) { 1 } else { 137 },
        if container.is_multiple_of(2) { "Error" } else { "OOMKilled" },
        time::text(finished - 60),
        time::text(finished - 1),
        digest(container),
    );
}

/// Returns 64 hexadecimal digits.
fn digest(of: u64) -> String {
    let word = |turn: u32| of.rotate_left(turn * 13).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:016x}{:016x}{:016x}{:016x}", word(1), word(2), word(3), word(4))
}
