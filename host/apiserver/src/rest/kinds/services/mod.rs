//! Services: cluster IPs and node ports, with the messages of `k8s.io/kubernetes/pkg/registry/core/service`.
//!
//! - `allocation` chooses the addresses and ports of a Service. `kept_fields`: those that an update keeps. `validation`: which are refused.
//! - `type_fields`: the fields that a Service does not need any longer. `warnings`: the warnings about Services.

mod allocation;
mod kept_fields;
#[cfg(test)]
mod tests;
mod type_fields;
mod validation;
pub(super) mod warnings;

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::cluster_ip_range::ClusterIpRange;
use crate::meta;
use crate::registry::{Addresses, Endpoint, ReservedIp};
use crate::state::State;
use crate::status::{Cause, Status};
use allocation::{Allocation, set_absent};

/// The range of node ports, Kubernetes' default.
const NODE_PORTS: RangeInclusive<u64> = 30000..=32767;

/// The addresses and ports of all Services but one.
struct OtherServices<'a> {
    addresses: &'a Addresses,
    /// The range of cluster IPs.
    range: ClusterIpRange,
    /// The namespace and name of that one.
    except: (&'a str, &'a str),
}

impl OtherServices<'_> {
    fn has_ip(&self, ip: &str) -> bool {
        self.addresses.has_ip(ip, self.except)
    }

    fn has_port(&self, port: u64, protocol: &str) -> bool {
        self.addresses.has_port(port, protocol, self.except)
    }
}

/// Sets the cluster IP, its families and the node ports of a Service unless the client did. Returns the reservation of the cluster IP, which
/// must last until the Service is stored.
///
/// # Errors
/// Errors with 500 if no cluster IP is free.
pub(in crate::rest) fn allocate<'a>(
    state: &State,
    endpoint: &'a Endpoint,
    service: &mut Value,
) -> Result<Option<ReservedIp<'a>>, Status> {
    set_absent(state, endpoint, service, Allocation::WithAddress).map_err(|error| {
        let name = meta::text(service, "name");
        Status::internal(format_args!("failed to allocate a serviceIP for Service {name:?}: {error}"))
    })
}

/// Sets the allocated fields of the stored Service that an update leaves out. Returns what is invalid.
pub(super) fn prepare_update(
    state: &State,
    endpoint: &Endpoint,
    old: &Value,
    service: &mut Value,
) -> Vec<Cause> {
    kept_fields::keep_addresses(&old["spec"], &mut service["spec"]);
    kept_fields::keep_node_ports(&old["spec"], &mut service["spec"]);
    kept_fields::keep_health_check_port(&old["spec"], &mut service["spec"]);
    type_fields::drop_fields(old, service);
    validate(state, endpoint, service, Some(old))
}

/// Allocates what an updated Service does not have yet.
pub(super) fn finish_update(state: &State, endpoint: &Endpoint, old: &Value, service: &mut Value) {
    let (had_address, was_external) =
        (old["spec"]["clusterIP"].is_string(), old["spec"]["type"] == "ExternalName");
    // As in Kubernetes, one that was created through its status stays without addresses, and gets everything else.
    let allocation =
        if had_address || was_external { Allocation::WithAddress } else { Allocation::WithoutAddress };
    if let Err(error) = set_absent(state, endpoint, service, allocation) {
        tracing::warn!(%error, name = meta::text(service, "name"), "the Service gets no cluster IP");
    }
}

/// Returns what is wrong with the cluster IP and the node ports of a Service. `old` is the stored one on updates.
pub(super) fn validate(
    state: &State,
    endpoint: &Endpoint,
    service: &Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    let Some(index) = &endpoint.resource.addresses else { return Vec::new() };
    let except = (meta::text(service, "namespace"), meta::text(service, "name"));
    index.read(&endpoint.resource.table, |addresses| {
        let others = OtherServices { addresses, range: state.cluster_ips, except };
        validation::check(&others, &service["spec"], old.map(|old| &old["spec"]))
    })
}

/// Whether somebody else manages the endpoints of a Service, and their families.
fn is_open(spec: &Value) -> bool {
    spec["clusterIP"] == "None" && spec["selector"].as_object().is_none_or(Map::is_empty)
}
