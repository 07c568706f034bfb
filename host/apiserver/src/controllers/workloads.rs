//! The status of workloads.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Change, Controller, MANAGER};
use crate::meta;
use crate::registry::Endpoint;
use crate::request::options::WriteOptions;
use crate::rest::update::{self, UpdateTarget};
use crate::state::State;

/// Reports every workload as rolled out: all replicas exist and are updated, ready and available. Creates no pods.
#[derive(Default)]
pub(super) struct Workloads {
    changed: BTreeSet<(Kind, Box<str>, Box<str>)>,
    /// The nodes, because the status of every DaemonSet depends on their number.
    nodes: BTreeSet<Box<str>>,
    nodes_changed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    ReplicationController,
}

impl Kind {
    const ALL: [Self; 5] =
        [Self::Deployment, Self::ReplicaSet, Self::StatefulSet, Self::DaemonSet, Self::ReplicationController];

    fn of(endpoint: &Endpoint) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.resource() == (&*endpoint.group, &*endpoint.resource.names.plural))
    }

    fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Deployment => ("apps", "deployments"),
            Self::ReplicaSet => ("apps", "replicasets"),
            Self::StatefulSet => ("apps", "statefulsets"),
            Self::DaemonSet => ("apps", "daemonsets"),
            Self::ReplicationController => ("", "replicationcontrollers"),
        }
    }
}

impl Controller for Workloads {
    fn observe(&mut self, endpoint: &Arc<Endpoint>, change: Change<'_>) {
        if endpoint.group.is_empty() && endpoint.resource.names.plural == "nodes" {
            self.nodes_changed |= match change {
                Change::Applied(node) => self.nodes.insert(node.name.clone()),
                Change::Deleted(node) => self.nodes.remove(&node.name),
            };
        }
        if let (Some(kind), Change::Applied(object)) = (Kind::of(endpoint), change)
            && !object.deleting
        {
            self.changed.insert((kind, object.namespace.clone(), object.name.clone()));
        }
    }

    fn reconcile(&mut self, state: &State) {
        let registry = state.registry();
        let mut changed = std::mem::take(&mut self.changed);
        if std::mem::take(&mut self.nodes_changed)
            && let Some(sets) = registry.endpoint("apps", "v1", "daemonsets")
        {
            let sets = sets.resource.table.list(None).0;
            changed.extend(sets.iter().map(|set| (Kind::DaemonSet, set.namespace.clone(), set.name.clone())));
        }
        for (kind, namespace, name) in changed {
            let (group, plural) = kind.resource();
            let Some(endpoint) = registry.endpoint(group, "v1", plural) else { continue };
            let now = state.now();
            let options = WriteOptions::internal(MANAGER);
            let result =
                update::update(state, endpoint, (&namespace, &name), UpdateTarget::Status, &options, |old| {
                    let mut value = old.clone();
                    value["status"] = status(kind, old, self.nodes.len(), &now);
                    meta::metadata_mut(&mut value).remove("resourceVersion");
                    Ok(update::ProposedUpdate { value, applied: false, retry: true })
                });
            if let Err(error) = result {
                tracing::debug!(%error, %namespace, %name, "cannot update the status of a workload");
            }
        }
    }
}

/// Returns the status of a workload that is rolled out.
fn status(kind: Kind, object: &Value, nodes: usize, now: &str) -> Value {
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let mut status = match kind {
        Kind::Deployment => json!({
            "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
            "availableReplicas": replicas,
            "conditions": conditions(object, now),
        }),
        Kind::ReplicaSet | Kind::ReplicationController => json!({
            "replicas": replicas, "fullyLabeledReplicas": replicas, "readyReplicas": replicas,
            "availableReplicas": replicas,
        }),
        Kind::StatefulSet => {
            let revision = format!("{}-1", meta::text(object, "name"));
            json!({
                "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
                "availableReplicas": replicas, "currentReplicas": replicas, "collisionCount": 0,
                "currentRevision": revision, "updateRevision": revision,
            })
        }
        Kind::DaemonSet => json!({
            "currentNumberScheduled": nodes, "desiredNumberScheduled": nodes, "numberReady": nodes,
            "updatedNumberScheduled": nodes, "numberAvailable": nodes, "numberMisscheduled": 0,
        }),
    };
    status["observedGeneration"] = meta::generation(object).into();
    // Go omits optional counters that are zero, but not those that the type requires.
    let required = [
        "replicas",
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberReady",
        "numberMisscheduled",
        "availableReplicas",
        "collisionCount",
    ];
    if let Value::Object(status) = &mut status {
        let keeps = |name: &str| match (kind, name) {
            (Kind::Deployment, _) => false,
            (_, "availableReplicas" | "collisionCount") => kind == Kind::StatefulSet,
            _ => required.contains(&name),
        };
        status.retain(|name, value| value != &json!(0) || keeps(name));
    }
    status
}

/// Returns the conditions of an available deployment; conditions of other types are preserved.
fn conditions(object: &Value, now: &str) -> Value {
    let before: &[Value] = object["status"]["conditions"].as_array().map_or(&[], Vec::as_slice);
    let name = meta::text(object, "name");
    let progress = format!("ReplicaSet \"{name}\" has successfully progressed.");
    let rolled_out = [
        ("Available", "MinimumReplicasAvailable", "Deployment has minimum availability."),
        ("Progressing", "NewReplicaSetAvailable", progress.as_str()),
    ];
    let rolled_out = rolled_out.into_iter().map(|(kind, reason, message)| {
        let known =
            before.iter().find(|condition| condition["type"] == kind && condition["status"] == "True");
        let since = |field: &str| known.and_then(|known| known[field].as_str()).unwrap_or(now).to_owned();
        let mut condition = Map::new();
        for (field, text) in [("type", kind), ("status", "True"), ("reason", reason), ("message", message)] {
            condition.insert(field.into(), text.into());
        }
        for field in ["lastTransitionTime", "lastUpdateTime"] {
            condition.insert(field.into(), since(field).into());
        }
        Value::Object(condition)
    });
    let others = before.iter().filter(|known| known["type"] != "Available" && known["type"] != "Progressing");
    others.cloned().chain(rolled_out).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deployment_status_reports_all_replicas_available() {
        let deployment = json!({"metadata": {"name": "a", "generation": 3}, "spec": {"replicas": 2}});
        let first = status(Kind::Deployment, &deployment, 0, "t1");
        assert_eq!((&first["availableReplicas"], &first["observedGeneration"]), (&json!(2), &json!(3)));
        let mut later = deployment;
        later["status"] = first.clone();
        assert_eq!(status(Kind::Deployment, &later, 0, "t2"), first, "times stay if nothing changes");
    }

    #[test]
    fn daemon_set_status_reports_a_pod_on_every_node() {
        let status = status(Kind::DaemonSet, &json!({}), 3, "t");
        assert_eq!((&status["numberReady"], &status["numberMisscheduled"]), (&json!(3), &json!(0)));
    }
}
