//! Workloads of the apps group.

use super::{AGE, Column, DEFAULT_COLUMNS, NAME, list, text};

const TEMPLATE: &str = "/spec/template/spec";
const CONTAINERS: Column = Column::wide("Containers", |row| row.containers(TEMPLATE, "name"));
const IMAGES: Column = Column::wide("Images", |row| row.containers(TEMPLATE, "image"));
const SELECTOR: Column = Column::wide("Selector", |row| row.selector("/spec/selector"));

const READY: Column = Column::text("Ready", |row| {
    format!("{}/{}", row.number("/status/readyReplicas"), row.number("/spec/replicas")).into()
});

const DEPLOYMENT: &[Column] = &[
    NAME,
    READY,
    Column::text("Up-to-date", |row| row.number("/status/updatedReplicas").into()),
    Column::text("Available", |row| row.number("/status/availableReplicas").into()),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const REPLICA_SET: &[Column] = &[
    NAME,
    Column::integer("Desired", |row| row.number("/spec/replicas").into()),
    Column::integer("Current", |row| row.number("/status/replicas").into()),
    Column::integer("Ready", |row| row.number("/status/readyReplicas").into()),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const STATEFUL_SET: &[Column] = &[NAME, READY, AGE, CONTAINERS, IMAGES];

const DAEMON_SET: &[Column] = &[
    NAME,
    Column::integer("Desired", |row| row.number("/status/desiredNumberScheduled").into()),
    Column::integer("Current", |row| row.number("/status/currentNumberScheduled").into()),
    Column::integer("Ready", |row| row.number("/status/numberReady").into()),
    Column::integer("Up-to-date", |row| row.number("/status/updatedNumberScheduled").into()),
    Column::integer("Available", |row| row.number("/status/numberAvailable").into()),
    Column::text("Node Selector", |row| row.labels("/spec/template/spec/nodeSelector")),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const CONTROLLER_REVISION: &[Column] = &[
    NAME,
    Column::text("Controller", |row| {
        let owners = list(row.object, "/metadata/ownerReferences");
        match owners.iter().find(|owner| owner["controller"] == true) {
            Some(owner) => {
                let (version, kind) = (text(owner, "/apiVersion"), text(owner, "/kind").to_lowercase());
                let group = version.split_once('/').map_or(String::new(), |(group, _)| format!(".{group}"));
                format!("{kind}{group}/{}", text(owner, "/name")).into()
            }
            None => "<none>".into(),
        }
    }),
    Column::text("Revision", |row| row.number("/revision").into()),
    AGE,
];

pub(super) fn for_kind(kind: &str) -> &'static [Column] {
    match kind {
        "Deployment" => DEPLOYMENT,
        "ReplicaSet" => REPLICA_SET,
        "StatefulSet" => STATEFUL_SET,
        "DaemonSet" => DAEMON_SET,
        "ControllerRevision" => CONTROLLER_REVISION,
        _ => DEFAULT_COLUMNS,
    }
}
