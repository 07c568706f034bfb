//! Ingresses, network policies and endpoint slices.

use serde_json::Value;

use super::{AGE, Column, DEFAULT_COLUMNS, NAME, Row, join, list, or_none, scalar, text};

const INGRESS: &[Column] = &[
    NAME,
    Column::text("Class", |row| row.text_or("/spec/ingressClassName", "<none>").into()),
    Column::text("Hosts", hosts),
    Column::text("Address", |row| {
        let ingress = row.list("/status/loadBalancer/ingress").iter();
        join(ingress.map(|entry| match text(entry, "/ip") {
            "" => text(entry, "/hostname"),
            ip => ip,
        }))
        .into()
    }),
    Column::text("Ports", |row| if row.list("/spec/tls").is_empty() { "80" } else { "80, 443" }.into()),
    AGE,
];

const INGRESS_CLASS: &[Column] = &[
    NAME,
    Column::text("Controller", |row| row.text("/spec/controller").into()),
    Column::text("Parameters", |row| match row.text("/spec/parameters/name") {
        "" => "<none>".into(),
        name => {
            let group = match row.text("/spec/parameters/apiGroup") {
                "" => String::new(),
                group => format!(".{group}"),
            };
            format!("{}{group}/{name}", row.text("/spec/parameters/kind")).into()
        }
    }),
    AGE,
];

const NETWORK_POLICY: &[Column] =
    &[NAME, Column::text("Pod-Selector", |row| row.selector("/spec/podSelector")), AGE];

const ENDPOINT_SLICE: &[Column] = &[
    NAME,
    Column::text("AddressType", |row| row.text("/addressType").into()),
    Column::text("Ports", |row| {
        let ports = row.list("/ports").iter().map(|port| scalar(port.get("port"), "*"));
        first_three(&ports.collect::<Vec<_>>(), "<unset>")
    }),
    Column::text("Endpoints", |row| {
        let addresses = row.list("/endpoints").iter().flat_map(|endpoint| list(endpoint, "/addresses"));
        first_three(&addresses.map(|address| scalar(Some(address), "")).collect::<Vec<_>>(), "<unset>")
    }),
    AGE,
];

/// Joins the first three texts and adds the number of the others; `empty` if there are none.
fn first_three(all: &[String], empty: &str) -> Value {
    const SHOWN: usize = 3;
    if all.is_empty() {
        return empty.into();
    }
    let shown = all[..all.len().min(SHOWN)].join(",");
    match all.len().saturating_sub(SHOWN) {
        0 => shown.into(),
        more => format!("{shown} + {more} more...").into(),
    }
}

fn hosts(row: &Row<'_>) -> Value {
    const SHOWN: usize = 3;
    let rules = row.list("/spec/rules");
    let hosts: Vec<&str> =
        rules.iter().map(|rule| text(rule, "/host")).filter(|host| !host.is_empty()).collect();
    if hosts.is_empty() {
        return "*".into();
    }
    let shown = or_none(join(hosts.iter().take(SHOWN).copied()));
    match hosts.len().saturating_sub(SHOWN) {
        0 => shown.into(),
        _ => format!("{shown} + {} more...", rules.len() - SHOWN).into(),
    }
}

pub(super) fn for_kind(kind: &str) -> &'static [Column] {
    match kind {
        "Ingress" => INGRESS,
        "IngressClass" => INGRESS_CLASS,
        "NetworkPolicy" => NETWORK_POLICY,
        "EndpointSlice" => ENDPOINT_SLICE,
        _ => DEFAULT_COLUMNS,
    }
}
