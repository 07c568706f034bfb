//! Kinds of the core group other than pods and events.

use serde_json::Value;

use super::{AGE, Column, DEFAULT_COLUMNS, NAME, Row, join, list, or_none, scalar, text};

const NAMESPACE: &[Column] = &[NAME, Column::text("Status", |row| row.text("/status/phase").into()), AGE];

const CONFIG_MAP: &[Column] = &[
    NAME,
    Column::text("Data", |row| (row.entry_count("/data") + row.entry_count("/binaryData")).into()),
    AGE,
];

const SECRET: &[Column] = &[
    NAME,
    Column::text("Type", |row| row.text("/type").into()),
    Column::text("Data", |row| row.entry_count("/data").into()),
    AGE,
];

const SERVICE_ACCOUNT: &[Column] = &[NAME, AGE];

const SERVICE: &[Column] = &[
    NAME,
    Column::text("Type", |row| row.text("/spec/type").into()),
    Column::text("Cluster-IP", |row| row.text_or("/spec/clusterIP", "<none>").into()),
    Column::text("External-IP", external_ip),
    Column::text("Port(s)", |row| {
        let ports = row.list("/spec/ports").iter().map(|port| {
            let (number, protocol) = (scalar(port.get("port"), "0"), text(port, "/protocol"));
            match port.get("nodePort").and_then(Value::as_i64).filter(|node| *node > 0) {
                Some(node) => format!("{number}:{node}/{protocol}"),
                None => format!("{number}/{protocol}"),
            }
        });
        or_none(ports.collect::<Vec<_>>().join(",")).into()
    }),
    AGE,
    Column::wide("Selector", |row| row.labels("/spec/selector")),
];

const COMPONENT_STATUS: &[Column] = &[
    NAME,
    Column::text("Status", |row| {
        let is_healthy = row.text("/conditions/0/status") == "True";
        Value::from(if is_healthy { "Healthy" } else { "Unhealthy" })
    }),
    Column::text("Message", |row| row.text("/conditions/0/message").into()),
    Column::text("Error", |row| row.text("/conditions/0/error").into()),
];

const ENDPOINTS: &[Column] = &[NAME, Column::text("Endpoints", endpoints), AGE];

const NODE: &[Column] = &[
    NAME,
    Column::text("Status", |row| {
        let mut statuses = vec![match row.condition("Ready") {
            "True" => "Ready",
            "" => "Unknown",
            _ => "NotReady",
        }];
        if row.object.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
            statuses.push("SchedulingDisabled");
        }
        statuses.join(",").into()
    }),
    Column::text("Roles", roles),
    AGE,
    Column::text("Version", |row| row.text("/status/nodeInfo/kubeletVersion").into()),
    Column::wide("Internal-IP", |row| address(row, "InternalIP")),
    Column::wide("External-IP", |row| address(row, "ExternalIP")),
    Column::wide("OS-Image", |row| row.text_or("/status/nodeInfo/osImage", "<unknown>").into()),
    Column::wide("Kernel-Version", |row| row.text_or("/status/nodeInfo/kernelVersion", "<unknown>").into()),
    Column::wide("Container-Runtime", |row| {
        row.text_or("/status/nodeInfo/containerRuntimeVersion", "<unknown>").into()
    }),
];

const REPLICATION_CONTROLLER: &[Column] = &[
    NAME,
    Column::integer("Desired", |row| row.number("/spec/replicas").into()),
    Column::integer("Current", |row| row.number("/status/replicas").into()),
    Column::integer("Ready", |row| row.number("/status/readyReplicas").into()),
    AGE,
    Column::wide("Containers", |row| row.containers("/spec/template/spec", "name")),
    Column::wide("Images", |row| row.containers("/spec/template/spec", "image")),
    Column::wide("Selector", |row| row.labels("/spec/selector")),
];

const PERSISTENT_VOLUME: &[Column] = &[
    NAME,
    Column::text("Capacity", |row| row.text("/spec/capacity/storage").into()),
    Column::text("Access Modes", |row| access_modes(row, "/spec/accessModes")),
    Column::text("Reclaim Policy", |row| row.text("/spec/persistentVolumeReclaimPolicy").into()),
    Column::text("Status", phase),
    Column::text("Claim", |row| match row.text("/spec/claimRef/name") {
        "" => "".into(),
        name => format!("{}/{name}", row.text("/spec/claimRef/namespace")).into(),
    }),
    Column::text("StorageClass", |row| row.text("/spec/storageClassName").into()),
    Column::text("VolumeAttributesClass", |row| {
        row.text_or("/spec/volumeAttributesClassName", "<unset>").into()
    }),
    Column::text("Reason", |row| row.text("/status/reason").into()),
    AGE,
    Column::wide("VolumeMode", |row| row.text_or("/spec/volumeMode", "<unset>").into()),
];

const PERSISTENT_VOLUME_CLAIM: &[Column] = &[
    NAME,
    Column::text("Status", phase),
    Column::text("Volume", |row| row.text("/spec/volumeName").into()),
    Column::text("Capacity", |row| row.text("/status/capacity/storage").into()),
    Column::text("Access Modes", |row| access_modes(row, "/status/accessModes")),
    Column::text("StorageClass", |row| row.text("/spec/storageClassName").into()),
    Column::text("VolumeAttributesClass", |row| {
        row.text_or("/spec/volumeAttributesClassName", "<unset>").into()
    }),
    AGE,
    Column::wide("VolumeMode", |row| row.text_or("/spec/volumeMode", "<unset>").into()),
];

const POD_TEMPLATE: &[Column] = &[
    NAME,
    Column::text("Containers", |row| row.containers("/template/spec", "name")),
    Column::text("Images", |row| row.containers("/template/spec", "image")),
    Column::text("Pod Labels", |row| row.labels("/template/metadata/labels")),
];

const RESOURCE_QUOTA: &[Column] = &[
    NAME,
    Column::text("Request", |row| quota(row, false)),
    Column::text("Limit", |row| quota(row, true)),
    AGE,
];

fn phase(row: &Row<'_>) -> Value {
    if row.is_terminating() { "Terminating".into() } else { row.text("/status/phase").into() }
}

fn access_modes(row: &Row<'_>, pointer: &str) -> Value {
    let has = |mode: &str| row.list(pointer).iter().any(|listed| listed == mode);
    let modes = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    join(modes.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short)).into()
}

fn external_ip(row: &Row<'_>) -> Value {
    let external_ips = join(row.list("/spec/externalIPs").iter().filter_map(Value::as_str));
    match row.text("/spec/type") {
        "ExternalName" => row.text("/spec/externalName").into(),
        "LoadBalancer" => {
            let ingress = row.list("/status/loadBalancer/ingress").iter();
            let balancer = join(ingress.map(|entry| match text(entry, "/ip") {
                "" => text(entry, "/hostname"),
                ip => ip,
            }));
            match (balancer.is_empty(), external_ips.is_empty()) {
                (true, true) => "<pending>".into(),
                (true, false) => external_ips.into(),
                (false, true) => balancer.into(),
                (false, false) => format!("{balancer},{external_ips}").into(),
            }
        }
        _ => or_none(external_ips).into(),
    }
}

fn endpoints(row: &Row<'_>) -> Value {
    const SHOWN: usize = 3;
    let mut endpoints = Vec::new();
    for subset in row.list("/subsets") {
        let ports = list(subset, "/ports");
        for address in list(subset, "/addresses") {
            let ip = text(address, "/ip");
            if ports.is_empty() {
                endpoints.push(ip.to_owned());
            }
            endpoints.extend(ports.iter().map(|port| format!("{ip}:{}", scalar(port.get("port"), "0"))));
        }
    }
    let more = endpoints.len().saturating_sub(SHOWN);
    endpoints.truncate(SHOWN);
    let shown = or_none(endpoints.join(","));
    if more == 0 { shown.into() } else { format!("{shown} + {more} more...").into() }
}

fn roles(row: &Row<'_>) -> Value {
    let labels = row.object.pointer("/metadata/labels").and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    or_none(roles.join(",")).into()
}

fn address(row: &Row<'_>, ty: &str) -> Value {
    let found = row.list("/status/addresses").iter().find(|address| address["type"] == ty);
    found.map_or("<none>", |address| text(address, "/address")).into()
}

/// Formats `used/hard` for each resource of a quota: those whose name starts with `limits.`, or the others.
fn quota(row: &Row<'_>, of_limits: bool) -> Value {
    let hard = row.object.pointer("/status/hard").and_then(Value::as_object);
    // The map is sorted by name.
    let resources = hard.into_iter().flatten().filter(|(name, _)| name.starts_with("limits.") == of_limits);
    let amounts = resources.map(|(name, hard)| {
        let used = row.object.pointer("/status/used").and_then(|used| used.get(name));
        format!("{name}: {}/{}", scalar(used, "0"), scalar(Some(hard), "0"))
    });
    let amounts: Vec<_> = amounts.collect();
    amounts.join(", ").into()
}

pub(super) fn for_kind(kind: &str) -> &'static [Column] {
    match kind {
        "Namespace" => NAMESPACE,
        "ConfigMap" => CONFIG_MAP,
        "Secret" => SECRET,
        "ServiceAccount" => SERVICE_ACCOUNT,
        "Service" => SERVICE,
        "Endpoints" => ENDPOINTS,
        "ComponentStatus" => COMPONENT_STATUS,
        "Node" => NODE,
        "ReplicationController" => REPLICATION_CONTROLLER,
        "PersistentVolume" => PERSISTENT_VOLUME,
        "PersistentVolumeClaim" => PERSISTENT_VOLUME_CLAIM,
        "PodTemplate" => POD_TEMPLATE,
        "ResourceQuota" => RESOURCE_QUOTA,
        _ => DEFAULT_COLUMNS,
    }
}
